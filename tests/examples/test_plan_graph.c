/* plan_graph, as scripts outside call it: exit statuses, the fields of the result, files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"

#define PROGRAM "plan_graph"

/* A chain of six ops, backward reading what each forward op wrote; 1000 bytes a value, 64 of a
 * weight. */
static void write_chain(const char *path) {
    enum { LENGTH = 6 };
    FILE *file = fopen(path, "wb");
    RP_REQUIRE(file != NULL, "%s cannot be written", path);
    fputs("{\"format\": \"reprise-graph\", \"version\": 1, \"name\": \"chain\", \"values\": [\n"
          "{\"name\": \"x\", \"bytes\": 64, \"kind\": \"persistent\"}",
          file);
    for (int i = 1; i <= LENGTH; i++)
        fprintf(file, ",\n{\"name\": \"a%d\", \"bytes\": 1000, \"kind\": \"activation\"}", i);
    for (int i = LENGTH; i >= 1; i--)
        fprintf(file, ",\n{\"name\": \"g%d\", \"bytes\": 1000, \"kind\": \"activation\"}", i);
    fputs("],\n\"nodes\": [\n", file);
    for (int i = 1; i <= LENGTH; i++)
        fprintf(
            file,
            "%s{\"name\": \"f%d\", \"phase\": \"forward\", \"inputs\": [%d], \"outputs\": [%d], "
            "\"cost_ns\": %d, \"block\": \"layer.%d\"}",
            i > 1 ? ",\n" : "", i, i - 1, i, 100 + i, (i - 1) / 2);
    for (int i = LENGTH; i >= 1; i--) {
        const int gradient = 2 * LENGTH + 1 - i;
        fprintf(file, ",\n{\"name\": \"b%d\", \"phase\": \"backward\", \"inputs\": [%d%s", i, i - 1,
                i < LENGTH ? ", " : "");
        if (i < LENGTH)
            fprintf(file, "%d", gradient - 1);
        fprintf(file, "], \"outputs\": [%d], \"cost_ns\": 200}", gradient);
    }
    fprintf(file, "],\n\"outputs\": [%d]}\n", 2 * LENGTH);
    RP_REQUIRE(fclose(file) == 0, "%s is not written", path);
}

static void test_result_has_every_field(void) {
    static const char *const integers[] = {
        "budget_bytes",       "peak_bytes",    "live_peak_bytes", "keep_all_peak_bytes",
        "min_feasible_bytes", "floor_bytes",   "recompute_nodes", "recompute_cost_ns",
        "total_cost_ns",      "lower_bound_ns"};
    const folder f = folder_make("plan_fields");
    const char *graph = folder_file(&f, "graph.json"), *json = folder_file(&f, "result.json");
    write_chain(graph);
    json_t *result = RUN_JSON(PROGRAM, json, graph, "--budget", "70%");
    RP_CHECK_STRING(json_string_at(result, "program"), "plan_graph");
    RP_CHECK_STRING(json_string_at(result, "version"), RP_VERSION);
    RP_CHECK_STRING(json_string_at(result, "graph"), "chain");
    RP_CHECK_EQUAL(strlen(json_string_at(result, "graph_hash")), 16);
    RP_CHECK_EQUAL(strlen(json_string_at(result, "plan_hash")), 16);
    RP_CHECK(json_string_at(result, "strategy")[0] != '\0', "the strategy has a name");
    RP_CHECK(json_string_at(result, "peak_node")[0] != '\0', "the peak has a node");
    RP_CHECK(json_is_true(json_at(result, "feasible")), "it is feasible");
    RP_CHECK(json_is_boolean(json_at(result, "proven")), "proven or not");
    RP_CHECK(json_is_array(json_at(result, "frontier")), "the frontier is a list");
    RP_CHECK(json_real_at(result, "plan_ms") >= 0.0, "planning takes time");
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++)
        json_integer_at(result, integers[i]);
    const int64_t keep_all = json_integer_at(result, "keep_all_peak_bytes");
    RP_CHECK_EQUAL(json_integer_at(result, "budget_bytes"), keep_all * 70 / 100);
    RP_CHECK(json_integer_at(result, "peak_bytes") <= keep_all * 70 / 100, "within the budget");
    RP_CHECK(json_integer_at(result, "live_peak_bytes") <= json_integer_at(result, "peak_bytes"),
             "live within the arena");
    RP_CHECK_EQUAL(json_integer_at(result, "total_cost_ns"), 6 * 100 + 21 + 6 * 200);
    RP_CHECK(json_integer_at(result, "recompute_nodes") > 0, "70 %% needs recompute");
    RP_CHECK(json_integer_at(result, "lower_bound_ns") <=
                 json_integer_at(result, "recompute_cost_ns"),
             "a bound is below");
    json_decref(result);
    folder_remove(&f);
}

static void test_max_recomputes_nothing_and_min_is_the_least(void) {
    const folder f = folder_make("plan_limits");
    const char *graph = folder_file(&f, "graph.json"), *json = folder_file(&f, "result.json");
    char below[32];
    write_chain(graph);
    json_t *max = RUN_JSON(PROGRAM, json, graph, "--budget", "max");
    json_t *none = RUN_JSON(PROGRAM, json, graph);
    json_t *min = RUN_JSON(PROGRAM, json, graph, "--budget", "min");
    const int64_t least = json_integer_at(min, "min_feasible_bytes");
    RP_CHECK_EQUAL(json_integer_at(max, "recompute_nodes"), 0);
    RP_CHECK_EQUAL(json_integer_at(max, "peak_bytes"), json_integer_at(max, "keep_all_peak_bytes"));
    RP_CHECK(json_is_true(json_at(max, "proven")), "nothing recomputed is optimal");
    RP_CHECK_EQUAL(json_integer_at(none, "recompute_nodes"), 0);
    RP_CHECK_EQUAL(json_integer_at(min, "budget_bytes"), least);
    RP_CHECK(json_integer_at(min, "peak_bytes") <= least, "the minimum fits");
    RP_CHECK(least < json_integer_at(max, "keep_all_peak_bytes"), "and is below keep-all");
    snprintf(below, sizeof below, "%lld", (long long)least - 1);
    EXPECT(PROGRAM, 3, "f", graph, "--budget", below);
    json_decref(max);
    json_decref(none);
    json_decref(min);
    folder_remove(&f);
}

static void test_an_infeasible_budget_tells_the_minimum_and_leaves_no_plan(void) {
    const folder f = folder_make("plan_infeasible");
    const char *graph = folder_file(&f, "graph.json"), *json = folder_file(&f, "result.json");
    const char *plan = folder_file(&f, "plan.json");
    write_chain(graph);
    const char *const words[] = {graph, "--budget", "0", "--out", plan, NULL};
    json_t *result = process_json(PROGRAM, json, words, 3);
    RP_CHECK(json_is_false(json_at(result, "feasible")), "it is not feasible");
    RP_CHECK_EQUAL(json_integer_at(result, "budget_bytes"), 0);
    RP_CHECK(json_integer_at(result, "min_feasible_bytes") > 0, "the minimum is told");
    RP_CHECK(json_string_at(result, "peak_node")[0] != '\0', "and the node that sets it");
    RP_CHECK_EQUAL(folder_count(&f), 2); /* the graph and the result */
    process to_stdout =
        process_run(PROGRAM, (const char *const[]){graph, "--budget", "0", "--json", "-", NULL});
    json_t *same = json_loads(to_stdout.out, 0, NULL);
    RP_CHECK_EQUAL(to_stdout.status, 3);
    RP_REQUIRE(same != NULL, "standard output is JSON: %s", to_stdout.out);
    RP_CHECK_EQUAL(json_integer_at(same, "min_feasible_bytes"),
                   json_integer_at(result, "min_feasible_bytes"));
    char minimum[32];
    snprintf(minimum, sizeof minimum, "%lld",
             (long long)json_integer_at(result, "min_feasible_bytes"));
    RP_CHECK(strstr(to_stdout.err, minimum) != NULL, "\"%s\" has the minimum", to_stdout.err);
    process_free(&to_stdout);
    json_decref(same);
    json_decref(result);
    folder_remove(&f);
}

static void test_a_plan_is_written_verified_and_refused_when_damaged(void) {
    const folder f = folder_make("plan_verify");
    const char *graph = folder_file(&f, "graph.json"), *json = folder_file(&f, "result.json");
    const char *plan = folder_file(&f, "plan.json"), *bad = folder_file(&f, "bad.json");
    write_chain(graph);
    json_t *made = RUN_JSON(PROGRAM, json, graph, "--budget", "70%", "--out", plan);
    json_t *read = RUN_JSON(PROGRAM, json, graph, "--verify", plan);
    RP_CHECK_STRING(json_string_at(read, "plan_hash"), json_string_at(made, "plan_hash"));
    RP_CHECK_EQUAL(json_integer_at(read, "peak_bytes"), json_integer_at(made, "peak_bytes"));
    RP_CHECK_EQUAL(json_integer_at(read, "recompute_cost_ns"),
                   json_integer_at(made, "recompute_cost_ns"));
    static const char *const limits[] = {"keep_all_peak_bytes", "min_feasible_bytes",
                                         "floor_bytes"};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        RP_CHECK_EQUAL(json_integer_at(read, limits[i]), json_integer_at(made, limits[i]));
    json_t *refused = process_json(
        PROGRAM, json, (const char *const[]){graph, "--verify", plan, "--budget", "1000", NULL}, 3);
    RP_CHECK_EQUAL(json_integer_at(refused, "min_feasible_bytes"),
                   json_integer_at(made, "min_feasible_bytes"));
    RP_CHECK(json_string_at(refused, "peak_node")[0] != '\0', "a node sets the minimum");
    json_decref(refused);
    json_decref(made);
    json_decref(read);
    file_write(bad, "{\"format\": \"reprise-plan\", \"version\": 1, \"steps\": [[\"run\", 1]]}");
    EXPECT(PROGRAM, 4, "bad.json", graph, "--verify", bad);
    file_write(bad, "");
    EXPECT(PROGRAM, 4, "bad.json", graph, "--verify", bad);
    EXPECT(PROGRAM, 4, "missing.json", graph, "--verify", folder_file(&f, "missing.json"));
    EXPECT(PROGRAM, 3, "the smallest feasible budget is ", graph, "--verify", plan, "--budget",
           "1000");
    folder_remove(&f);
}

static void test_the_frontier_rises_and_each_point_is_its_own_plan(void) {
    const folder f = folder_make("plan_frontier");
    const char *graph = folder_file(&f, "graph.json"), *json = folder_file(&f, "result.json");
    write_chain(graph);
    json_t *result = RUN_JSON(PROGRAM, json, graph, "--frontier", "4");
    const json_t *points = json_at(result, "frontier");
    const size_t count = json_array_size(points);
    RP_REQUIRE(count >= 2 && count <= 4, "%zu points", count);
    for (size_t i = 0; i < count; i++) {
        const json_t *p = json_array_get(points, i);
        char budget[32];
        snprintf(budget, sizeof budget, "%lld", (long long)json_integer_at(p, "budget_bytes"));
        json_t *alone = RUN_JSON(PROGRAM, json, graph, "--budget", budget);
        RP_CHECK_EQUAL(json_integer_at(alone, "peak_bytes"), json_integer_at(p, "peak_bytes"));
        RP_CHECK_EQUAL(json_integer_at(alone, "recompute_cost_ns"),
                       json_integer_at(p, "recompute_cost_ns"));
        json_decref(alone);
        if (i == 0)
            continue;
        const json_t *before = json_array_get(points, i - 1);
        RP_CHECK(json_integer_at(before, "peak_bytes") < json_integer_at(p, "peak_bytes"),
                 "the peak rises");
        RP_CHECK(json_integer_at(before, "recompute_cost_ns") >
                     json_integer_at(p, "recompute_cost_ns"),
                 "the cost falls");
    }
    RP_CHECK_EQUAL(json_integer_at(json_array_get(points, 0), "budget_bytes"),
                   json_integer_at(result, "min_feasible_bytes"));
    RP_CHECK_EQUAL(json_integer_at(json_array_get(points, count - 1), "recompute_cost_ns"), 0);
    json_decref(result);
    folder_remove(&f);
}

static void test_the_null_run_measures_what_was_predicted(void) {
    static const char *const budgets[] = {"max", "90%", "80%", "70%", "min"};
    const folder f = folder_make("plan_null");
    const char *graph = folder_file(&f, "graph.json"), *json = folder_file(&f, "result.json");
    write_chain(graph);
    for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
        json_t *result = RUN_JSON(PROGRAM, json, graph, "--run-null", "--budget", budgets[i]);
        RP_CHECK_EQUAL(json_integer_at(result, "run_null.measured_peak_bytes"),
                       json_integer_at(result, "peak_bytes"));
        RP_CHECK_EQUAL(json_integer_at(result, "run_null.replays"),
                       json_integer_at(result, "recompute_nodes"));
        RP_CHECK_EQUAL(json_integer_at(result, "run_null.runs"),
                       12 + json_integer_at(result, "recompute_nodes"));
        json_decref(result);
    }
    folder_remove(&f);
}

static void test_what_is_printed(void) {
    const folder f = folder_make("plan_print");
    const char *graph = folder_file(&f, "graph.json");
    write_chain(graph);
    process plan = process_run(PROGRAM, (const char *const[]){graph, "--print", "--quiet", NULL});
    RP_CHECK_EQUAL(plan.status, 0);
    RP_CHECK(strstr(plan.out, "f6") != NULL && strstr(plan.out, "b1") != NULL, "names of nodes");
    process summary = process_run(PROGRAM, (const char *const[]){graph, NULL});
    RP_CHECK(strstr(summary.out, "chain") != NULL && strstr(summary.out, "keep-all") != NULL,
             "the summary: %s", summary.out);
    process json = process_run(PROGRAM, (const char *const[]){graph, "--json", "-", NULL});
    json_t *object = json_loads(json.out, 0, NULL);
    RP_CHECK(object != NULL, "nothing but JSON: %s", json.out);
    json_decref(object);
    process help = process_run(PROGRAM, (const char *const[]){"--help", NULL});
    static const char *const options[] = {"--budget",   "--strategy", "--out",   "--verify",
                                          "--frontier", "--run-null", "--json",  "--print",
                                          "--quiet",    "--help",     "keep-all"};
    RP_CHECK_EQUAL(help.status, 0);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        RP_CHECK(strstr(help.out, options[i]) != NULL, "--help has %s", options[i]);
    process_free(&plan);
    process_free(&summary);
    process_free(&json);
    process_free(&help);
    folder_remove(&f);
}

static void test_statuses_of_what_cannot_be_done(void) {
    const folder f = folder_make("plan_statuses");
    const char *graph = folder_file(&f, "graph.json"), *bad = folder_file(&f, "bad.json");
    write_chain(graph);
    EXPECT(PROGRAM, 2, "GRAPH.json is missing", "--quiet");
    EXPECT(PROGRAM, 2, "one argument too many", graph, graph);
    EXPECT(PROGRAM, 2, "--budget", graph, "--budget", "much");
    EXPECT(PROGRAM, 2, "--budget", graph, "--budget", "-1");
    EXPECT(PROGRAM, 2, "--budget", graph, "--budget", "16EiB");
    EXPECT(PROGRAM, 2, "--budget", graph, "--budget");
    EXPECT(PROGRAM, 2, "--frontier", graph, "--frontier", "0");
    EXPECT(PROGRAM, 2, "--nonsense", graph, "--nonsense");
    EXPECT(PROGRAM, 2, "magic", graph, "--strategy", "magic");
    EXPECT(PROGRAM, 2, "same file", graph, "--out", bad, "--json", bad);
    EXPECT(PROGRAM, 2, "GRAPH.json and --out name the same file", graph, "--out", graph);
    EXPECT(PROGRAM, 2, "GRAPH.json and --json name the same file", graph, "--json", graph);
    EXPECT(PROGRAM, 0, NULL, graph, "--quiet", "--out", bad);
    EXPECT(PROGRAM, 2, "--verify and --json name the same file", graph, "--verify", bad, "--json",
           bad);
    EXPECT(PROGRAM, 0, NULL, graph, "--quiet", "--json", "/dev/null");
    EXPECT(PROGRAM, 4, "missing.json", folder_file(&f, "missing.json"));
    EXPECT(PROGRAM, 4, NULL, f.path);
    file_write(bad, "");
    EXPECT(PROGRAM, 4, "bad.json", bad);
    file_write(bad, "{\"format\": \"reprise-graph\", \"version\": 1,\n \"values\": [");
    EXPECT(PROGRAM, 4, "line 2", bad);
    file_write(bad,
               "{\"format\": \"reprise-graph\", \"version\": 1, \"values\": [{\"name\": \"v\", "
               "\"bytes\": -1, \"kind\": \"activation\"}], \"nodes\": [], \"outputs\": []}");
    EXPECT(PROGRAM, 4, "bytes", bad);
    EXPECT(PROGRAM, 1, "--out", graph, "--out", folder_file(&f, "no/folder/plan.json"));
    EXPECT(PROGRAM, 1, "--json", graph, "--json", f.path);
    EXPECT(PROGRAM, 1, "--json", graph, "--json", "/dev/full");
    EXPECT(PROGRAM, 0, NULL, graph, "--budget", "1", "--budget", "max");
    EXPECT(PROGRAM, 0, NULL, graph, "--json", "/dev/null", "--out", "/dev/null");
    remove(bad);
    RP_CHECK_EQUAL(folder_count(&f), 1); /* nothing but the graph */
    folder_remove(&f);
}

/* The message of a program about one of its input files. */
static void check_named_once(const char *program, const char *const *words, const char *file,
                             const char *reason) {
    char wanted[2048];
    process done = process_run(program, words);
    snprintf(wanted, sizeof wanted, "%s: %s: cannot be %s\n", program, file, reason);
    RP_CHECK_EQUAL(done.status, 4);
    RP_CHECK_STRING(done.err, wanted);
    process_free(&done);
}

/* Missing files, folders and devices without an end, as every input of both programs. */
static void test_bad_files_and_numbers_are_named_once(void) {
    const folder f = folder_make("inputs");
    const char *graph = folder_file(&f, "graph.json");
    write_chain(graph);
    const struct {
        const char *file, *opened, *read, *only_file;
    } rows[] = {
        {"nofile", "opened: No such file or directory", "read: No such file or directory",
         "read: No such file or directory"},
        {f.path, "read: Is a directory", "read: Is a directory", "read: Is a directory"},
        {"/dev/zero", "read: a file or a pipe is expected", "read: a file or a pipe is expected",
         "read: a file is expected"},
        {"/dev/full", "read: a file or a pipe is expected", "read: a file or a pipe is expected",
         "read: a file is expected"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *file = rows[i].file;
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})
        check_named_once(PROGRAM, WORDS(file), file, rows[i].opened);
        check_named_once(PROGRAM, WORDS(graph, "--verify", file), file, rows[i].opened);
        check_named_once("train_gpt", WORDS("--data", file), file, rows[i].read);
        check_named_once("train_gpt", WORDS("--load", file), file, rows[i].only_file);
        check_named_once("train_gpt", WORDS("--plan", file), file, rows[i].opened);
#undef WORDS
    }
    EXPECT("train_gpt", 2, "--lr", "--lr", "1e39");
    EXPECT("train_gpt", 2, "--dropout 0.999999999", "--dropout", "0.999999999");
    EXPECT("train_gpt", 2, "--batch", "--batch", "2147483647");
    EXPECT(PROGRAM, 2, "--frontier", graph, "--frontier", "1e3");
    folder_remove(&f);
}

static const rp_test tests[] = {
    RP_TEST(test_result_has_every_field),
    RP_TEST(test_max_recomputes_nothing_and_min_is_the_least),
    RP_TEST(test_an_infeasible_budget_tells_the_minimum_and_leaves_no_plan),
    RP_TEST(test_a_plan_is_written_verified_and_refused_when_damaged),
    RP_TEST(test_the_frontier_rises_and_each_point_is_its_own_plan),
    RP_TEST(test_the_null_run_measures_what_was_predicted),
    RP_TEST(test_what_is_printed),
    RP_TEST(test_bad_files_and_numbers_are_named_once),
    RP_TEST(test_statuses_of_what_cannot_be_done),
};
RP_SUITE(plan_graph, tests)
