/* Plans from elsewhere and back: nothing stated is believed, nothing missing is missed. */
#include "graphs.h"
#include "steps.h"
#include "strategy.h"
#include "verify.h"
#include "written.h"

#include <reprise/plan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* x and y persistent; F needs a workspace of 4; b takes a's place. Live at most: 12 + 8 + 4. */
static rp_graph *small_graph(rp_context *context) {
    rp_graph *graph = NULL;
    RP_REQUIRE_OK(context, rp_graph_create(context, "small", 4, &graph));
    const rp_value_info values[] = {
        {"x", 8, RP_PERSISTENT, RP_NONE}, {"y", 4, RP_PERSISTENT, RP_NONE},
        {"a", 8, RP_ACTIVATION, RP_NONE}, {"b", 8, RP_ACTIVATION, RP_NONE},
        {"c", 4, RP_ACTIVATION, RP_NONE}, {"z", 0, RP_ACTIVATION, RP_NONE}};
    for (size_t i = 0; i < 6; i++)
        RP_REQUIRE_OK(context, rp_graph_add_value(graph, &values[i], NULL));
    static const uint32_t in[] = {0, 2, 3}, out[] = {2, 3, 4, 5};
    static const rp_inplace_pair pair = {3, 2};
    const rp_node_info nodes[] = {{.name = "F",
                                   .cost_ns = 5,
                                   .recomputable = true,
                                   .workspace_bytes = 4,
                                   .inputs = in,
                                   .input_count = 1,
                                   .outputs = out,
                                   .output_count = 1},
                                  {.name = "G",
                                   .cost_ns = 6,
                                   .inputs = in + 1,
                                   .input_count = 1,
                                   .outputs = out + 1,
                                   .output_count = 1,
                                   .inplace = &pair,
                                   .inplace_count = 1},
                                  {.name = "H",
                                   .cost_ns = 7,
                                   .inputs = in + 2,
                                   .input_count = 1,
                                   .outputs = out + 2,
                                   .output_count = 2}};
    for (size_t i = 0; i < 3; i++)
        RP_REQUIRE_OK(context, rp_graph_add_node(graph, &nodes[i], NULL));
    RP_REQUIRE_OK(context, rp_graph_set_outputs(graph, out + 2, 1));
    RP_REQUIRE_OK(context, rp_graph_finish(graph));
    return graph;
}

#define HEAD "{\"format\": \"reprise-plan\", \"version\": 1, "
#define STEPS                                                                                      \
    "\"steps\": [[\"run\", 0], [\"run\", 1], [\"drop\", 2], [\"run\", 2], [\"drop\", 3], "         \
    "[\"drop\", 5]]"
#define PLAN(rest) HEAD STEPS rest "}"
#define OFFSETS(list) ", \"offsets\": [" list "]"
#define PERSISTENT "[0, 0, 0], [0, 1, 8], "

/* ---- What files say -------------------------------------------------------------------------- */

typedef struct claim {
    const char *text;
    int64_t budget;
    rp_status status;
    const char *message; /* NULL if it is a plan */
    int64_t peak;
} claim;

static const claim claims[] = {
    {PLAN(""), RP_UNLIMITED, RP_OK, NULL, 24},
    {PLAN(", \"strategy\": \"mine\", \"comment\": [1]"), RP_UNLIMITED, RP_OK, NULL, 24},
    {PLAN(", \"peak_bytes\": 24, \"live_peak_bytes\": 24"), RP_UNLIMITED, RP_OK, NULL, 24},
    {PLAN(", \"peak_bytes\": 100"), RP_UNLIMITED, RP_OK, NULL, 24},
    {PLAN(", \"recompute_cost_ns\": 99"), RP_UNLIMITED, RP_OK, NULL, 24},
    {PLAN(", \"peak_bytes\": 23"), RP_UNLIMITED, RP_BAD_INPUT,
     "peak_bytes says 23, but 24 bytes are live at step 0", 0},
    {PLAN(", \"live_peak_bytes\": 23"), RP_UNLIMITED, RP_BAD_INPUT,
     "live_peak_bytes says 23, it is 24", 0},
    {PLAN(", \"live_peak_bytes\": 25"), RP_UNLIMITED, RP_BAD_INPUT,
     "live_peak_bytes says 25, it is 24", 0},
    /* budgets: the caller's, else the file's own */
    {PLAN(""), 24, RP_OK, NULL, 24},
    {PLAN(""), 23, RP_INFEASIBLE, "needs 24 bytes, which is above the budget of 23 bytes", 0},
    {PLAN(", \"budget_bytes\": 24"), RP_UNLIMITED, RP_OK, NULL, 24},
    {PLAN(", \"budget_bytes\": 23"), RP_UNLIMITED, RP_BAD_INPUT, "its own budget of 23 bytes", 0},
    {PLAN(", \"budget_bytes\": 23"), 24, RP_OK, NULL, 24},
    {PLAN(", \"budget_bytes\": 99"), 23, RP_INFEASIBLE, "above the budget of 23 bytes", 0},
    {PLAN(""), -1, RP_INVALID_ARGUMENT, "budget is -1", 0},
    /* offsets */
    {PLAN(OFFSETS("")), RP_UNLIMITED, RP_OK, NULL, 24},
    {PLAN(OFFSETS(PERSISTENT "[0, 2, 12], [0, -1, 20], [1, 3, 12], [3, 4, 20]")), RP_UNLIMITED,
     RP_OK, NULL, 24},
    {PLAN(OFFSETS(PERSISTENT "[0, 2, 12], [1, 3, 12], [3, 4, 20]")), RP_UNLIMITED, RP_OK, NULL, 24},
    {PLAN(OFFSETS("[0, 2, 0], [1, 3, 0], [3, 4, 8]")), RP_UNLIMITED, RP_OK, NULL, 24},
    {PLAN(OFFSETS("[0, 2, 8], [1, 3, 8], [3, 4, 0]")), RP_UNLIMITED, RP_OK, NULL, 28},
    {PLAN(OFFSETS("[0, 2, 4], [1, 3, 4], [3, 4, 0]") ", \"peak_bytes\": 24"), RP_UNLIMITED, RP_OK,
     NULL, 24},
    {PLAN(OFFSETS("[3, 5, 0], [3, 4, 32], [1, 3, 20], [0, 2, 20], [7, 1, 8], [5, 0, 0]")),
     RP_UNLIMITED, RP_OK, NULL, 36},
    {PLAN(OFFSETS(PERSISTENT "[0, 2, 12], [1, 3, 12], [3, 4, 20]") ", \"peak_bytes\": 40"), 39,
     RP_INFEASIBLE, "needs 40 bytes", 0},
    {PLAN(OFFSETS(PERSISTENT "[0, 2, 12], [1, 3, 12], [3, 4, 20]") ", \"peak_bytes\": 40"), 40,
     RP_OK, NULL, 24},
    {PLAN(OFFSETS(PERSISTENT "[0, 2, 12], [1, 3, 12], [3, 4, 16]")), RP_UNLIMITED, RP_BAD_INPUT,
     "step 3, value 4 (c) at 16 overlaps a value that is live", 0},
    {PLAN(OFFSETS(PERSISTENT "[0, 2, 12], [1, 3, 12]")), RP_UNLIMITED, RP_BAD_INPUT,
     "value 4 (c) begins at step 3 and has no entry", 0},
    {PLAN(OFFSETS("[0, 0, 0], [0, 2, 12], [1, 3, 12], [3, 4, 20]")), RP_UNLIMITED, RP_BAD_INPUT,
     "persistent value 1 (y) has no place", 0},
    {PLAN(OFFSETS(PERSISTENT "[0, 2, 12], [1, 3, 12], [3, 4, 24]") ", \"peak_bytes\": 24"),
     RP_UNLIMITED, RP_BAD_INPUT, "at 24 ends above peak_bytes", 0},
    {PLAN(OFFSETS("[0, 2]")), RP_UNLIMITED, RP_BAD_INPUT,
     "offsets[0] must be [step, value, offset]", 0},
    {PLAN(OFFSETS("[0, 2, -4]")), RP_UNLIMITED, RP_BAD_INPUT, "offsets[0] must be", 0},
    {PLAN(OFFSETS("[0, 2, 4.0]")), RP_UNLIMITED, RP_BAD_INPUT, "offsets[0] must be", 0},
    {PLAN(OFFSETS("[0, -2, 4]")), RP_UNLIMITED, RP_BAD_INPUT, "offsets[0]: there is no value -2",
     0},
    {PLAN(OFFSETS("[0, 6, 4]")), RP_UNLIMITED, RP_BAD_INPUT, "offsets[0]: there is no value 6", 0},
    {PLAN(OFFSETS("[4294967296, 2, 4]")), RP_UNLIMITED, RP_BAD_INPUT,
     "offsets[0]: there is no step 4294967296", 0},
    {PLAN(", \"offsets\": {}"), RP_UNLIMITED, RP_BAD_INPUT, "offsets must be a list", 0},
    /* steps */
    {HEAD "\"steps\": []}", RP_UNLIMITED, RP_BAD_INPUT, "node 0 (F) never runs", 0},
    {HEAD "\"steps\": [[\"run\", 1]]}", RP_UNLIMITED, RP_BAD_INPUT, "step 0: run 1 (G)", 0},
    {HEAD "\"steps\": [[\"run\", 3]]}", RP_UNLIMITED, RP_BAD_INPUT, "step 0: there is no node 3",
     0},
    {HEAD "\"steps\": [[\"drop\", 4294967296]]}", RP_UNLIMITED, RP_BAD_INPUT, "there is no value",
     0},
    {HEAD "\"steps\": [[\"jump\", 0]]}", RP_UNLIMITED, RP_BAD_INPUT, "steps[0] must be a pair", 0},
    {HEAD "\"steps\": [[\"run\", 0], [\"run\", -1]]}", RP_UNLIMITED, RP_BAD_INPUT,
     "steps[1] must be a pair", 0},
    {HEAD "\"steps\": [[\"run\", 0, 0]]}", RP_UNLIMITED, RP_BAD_INPUT, "steps[0] must be a pair",
     0},
    {HEAD "\"steps\": [7]}", RP_UNLIMITED, RP_BAD_INPUT, "steps[0] must be a pair", 0},
    {HEAD "\"steps\": 7}", RP_UNLIMITED, RP_BAD_INPUT, "steps must be a list", 0},
    {"{\"format\": \"reprise-plan\", \"version\": 1}", RP_UNLIMITED, RP_BAD_INPUT,
     "steps is missing", 0},
    /* the rest */
    {PLAN(", \"graph_hash\": \"0123456789abcdef\""), RP_UNLIMITED, RP_BAD_INPUT,
     "graph_hash is 0123456789abcdef, that of this graph is", 0},
    {PLAN(", \"graph_hash\": \"12\""), RP_UNLIMITED, RP_BAD_INPUT, "16 hexadecimal digits", 0},
    {PLAN(", \"graph_hash\": 12"), RP_UNLIMITED, RP_BAD_INPUT, "graph_hash must be a string", 0},
    {PLAN(", \"peak_bytes\": -1"), RP_UNLIMITED, RP_BAD_INPUT, "peak_bytes must be a whole number",
     0},
    {PLAN(", \"budget_bytes\": 1e3"), RP_UNLIMITED, RP_BAD_INPUT,
     "budget_bytes must be a whole number", 0},
    {PLAN(", \"strategy\": 3"), RP_UNLIMITED, RP_BAD_INPUT, "strategy must be a string", 0},
    {"{\"format\": \"reprise-graph\", \"version\": 1}", RP_UNLIMITED, RP_BAD_INPUT,
     "\"reprise-plan\" is needed", 0},
    {PLAN("") "]", RP_UNLIMITED, RP_BAD_INPUT, "line 1", 0},
};

/* Every storage, workspace and persistent value has a place, and they are good. */
static void check_complete(const rp_plan *plan) {
    const rp_graph *graph = rp_plan_graph(plan);
    size_t steps = 0, placements = 0, found = 0;
    const rp_step *s = rp_plan_steps(plan, &steps);
    const rp_placement *p = rp_plan_placements(plan, &placements);
    rp_plan_report report;
    rp_verdict verdict;
    rp_placement *workspaces = NULL;
    rp_plan_get_report(plan, &report);
    RP_CHECK_OK(graph->context,
                rp_verify_find_workspaces(graph, s, steps, p, placements, report.peak_bytes,
                                          &verdict, &workspaces, &found));
    RP_CHECK_EQUAL(found, 0);
    rp_free(graph->context, workspaces);
    size_t persistent = 0;
    for (size_t i = 0; i < placements; i++) {
        const bool is_persistent = p[i].value != RP_NONE && graph->values[p[i].value].persistent;
        RP_CHECK(!is_persistent || p[i].step == 0, "persistent at step %u", p[i].step);
        persistent += is_persistent;
        RP_CHECK(i == 0 || p[i - 1].step < p[i].step ||
                     (p[i - 1].step == p[i].step && p[i - 1].value < p[i].value),
                 "placement %zu is out of order", i);
    }
    size_t wanted = 0;
    for (size_t v = 0; v < graph->value_count; v++)
        wanted += graph->values[v].persistent;
    RP_CHECK_EQUAL(persistent, wanted);
}

static void test_claims_of_files(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = small_graph(context);
    for (size_t i = 0; i < sizeof claims / sizeof claims[0]; i++) {
        const claim *c = &claims[i];
        rp_plan *plan = NULL;
        rp_plan_report report;
        const rp_status status =
            rp_plan_parse(graph, c->text, strlen(c->text), c->budget, &plan, &report);
        RP_CHECK(status == c->status, "%s: %s, %s", c->text, rp_status_name(status),
                 rp_context_message(context));
        RP_CHECK((plan != NULL) == (status == RP_OK), "plan and status of %s", c->text);
        if (c->message != NULL)
            RP_CHECK_MESSAGE(context, c->message);
        if (plan == NULL)
            continue;
        RP_CHECK(report.peak_bytes == c->peak, "%s: peak %lld", c->text,
                 (long long)report.peak_bytes);
        RP_CHECK_EQUAL(report.live_peak_bytes, 24);
        check_complete(plan);
        rp_plan_destroy(plan);
    }
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_given_offsets_are_kept(void) {
    static const char text[] =
        PLAN(OFFSETS(PERSISTENT "[0, 2, 20], [1, 3, 20], [3, 4, 40]") ", \"peak_bytes\": 60, "
                                                                      "\"strategy\": \"by hand\"");
    rp_context *context = rp_test_context(1);
    rp_graph *graph = small_graph(context);
    rp_plan *plan = NULL;
    rp_plan_report report;
    RP_REQUIRE_OK(context,
                  rp_plan_parse(graph, text, sizeof text - 1, RP_UNLIMITED, &plan, &report));
    static const rp_placement wanted[] = {{0, 0, 0},  {0, 1, 8},  {0, 2, 20}, {0, RP_NONE, 12},
                                          {1, 3, 20}, {3, 4, 40}, {3, 5, 0}};
    size_t count = 0;
    const rp_placement *p = rp_plan_placements(plan, &count);
    RP_REQUIRE_EQUAL(count, 7);
    for (size_t i = 0; i < count; i++)
        RP_CHECK(p[i].step == wanted[i].step && p[i].value == wanted[i].value &&
                     p[i].offset == wanted[i].offset,
                 "placement %zu: %u %u %lld", i, p[i].step, p[i].value, (long long)p[i].offset);
    RP_CHECK_EQUAL(report.peak_bytes, 44);
    RP_CHECK_STRING(rp_plan_strategy(plan), "by hand");
    rp_plan_destroy(plan);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* ---- There and back -------------------------------------------------------------------------- */

static void check_equal_plans(const rp_plan *a, const rp_plan *b) {
    rp_plan_report x, y;
    rp_plan_get_report(a, &x);
    rp_plan_get_report(b, &y);
    RP_CHECK(x.plan_hash == y.plan_hash, "the hashes differ");
    RP_CHECK_EQUAL(x.budget_bytes, y.budget_bytes);
    RP_CHECK_EQUAL(x.peak_bytes, y.peak_bytes);
    RP_CHECK_EQUAL(x.live_peak_bytes, y.live_peak_bytes);
    RP_CHECK_EQUAL(x.recompute_cost_ns, y.recompute_cost_ns);
    RP_CHECK_EQUAL(x.recompute_nodes, y.recompute_nodes);
    RP_CHECK_EQUAL(x.keep_all_peak_bytes, y.keep_all_peak_bytes);
    RP_CHECK_EQUAL(x.floor_bytes, y.floor_bytes);
    RP_CHECK_EQUAL(x.peak_node, y.peak_node);
    RP_CHECK_STRING(rp_plan_strategy(a), rp_plan_strategy(b));
    size_t m = 0, n = 0;
    const rp_step *s = rp_plan_steps(a, &m), *t = rp_plan_steps(b, &n);
    RP_REQUIRE_EQUAL(m, n);
    RP_CHECK(memcmp(s, t, m * sizeof *s) == 0, "the steps differ");
    const rp_placement *p = rp_plan_placements(a, &m), *q = rp_plan_placements(b, &n);
    RP_REQUIRE_EQUAL(m, n);
    for (size_t i = 0; i < m; i++)
        RP_CHECK(p[i].step == q[i].step && p[i].value == q[i].value && p[i].offset == q[i].offset,
                 "placement %zu differs", i);
}

/* Saved, loaded, saved again: the same plan and the same bytes. */
static void check_round_trip(const rp_graph *graph, const char *strategy, int64_t budget) {
    rp_context *context = graph->context;
    char first[RP_TEST_PATH], second[RP_TEST_PATH];
    rp_test_temporary(first, "plan-1.json");
    rp_test_temporary(second, "plan-2.json");
    rp_plan_options options = {sizeof options, budget, strategy};
    rp_plan *plan = NULL, *loaded = NULL;
    if (rp_plan_create(graph, &options, &plan, NULL) != RP_OK)
        return;
    RP_REQUIRE_OK(context, rp_plan_save(plan, first));
    RP_REQUIRE_OK(context, rp_plan_load(graph, first, RP_UNLIMITED, &loaded, NULL));
    check_equal_plans(plan, loaded);
    check_complete(loaded);
    RP_REQUIRE_OK(context, rp_plan_save(loaded, second));
    char *a = rp_test_read_file(first, NULL), *b = rp_test_read_file(second, NULL);
    RP_CHECK_STRING(a, b);
    free(a);
    free(b);
    rp_plan_destroy(loaded);
    rp_plan_destroy(plan);
    remove(first);
    remove(second);
}

static void test_PL_14_saved_plans_come_back_the_same(void) {
    static const char *const strategies[] = {"keep-all", "uniform:1", "sqrt", "selective", "auto"};
    rp_context *context = rp_test_context(1);
    rp_graph *graphs[] = {
        small_graph(context), rp_test_transformer(context, 2, false),
        rp_test_random_graph(context, 3, 30, RP_TEST_EVERYTHING & ~RP_TEST_RECOMPUTE),
        rp_test_random_graph(context, 4, 40, RP_TEST_EVERYTHING & ~RP_TEST_RECOMPUTE)};
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
        rp_plan_report limits;
        RP_REQUIRE_OK(context, rp_plan_limits(graphs[i], &limits));
        for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
            check_round_trip(graphs[i], strategies[k], RP_UNLIMITED);
            check_round_trip(graphs[i], strategies[k], limits.keep_all_peak_bytes);
            check_round_trip(graphs[i], strategies[k], limits.min_feasible_bytes);
        }
        rp_graph_destroy(graphs[i]);
    }
    rp_context_destroy(context);
}

/* A schedule without its offsets is laid out as it was. */
static void test_PL_14_imported_schedules_cost_the_same(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_transformer(context, 2, true);
    rp_plan_report limits, made, taken;
    rp_plan *plan = NULL, *imported = NULL;
    RP_REQUIRE_OK(context, rp_plan_limits(graph, &limits));
    rp_plan_options options = {sizeof options, limits.min_feasible_bytes, NULL};
    RP_REQUIRE_OK(context, rp_plan_create(graph, &options, &plan, &made));
    size_t count = 0;
    const rp_step *steps = rp_plan_steps(plan, &count);
    RP_REQUIRE_OK(
        context, rp_plan_import(graph, steps, count, limits.min_feasible_bytes, &imported, &taken));
    RP_CHECK(made.plan_hash == taken.plan_hash, "the hashes differ");
    RP_CHECK_EQUAL(made.peak_bytes, taken.peak_bytes);
    RP_CHECK_STRING(rp_plan_strategy(imported), "imported");
    rp_plan_destroy(imported);
    RP_CHECK_STATUS(
        context,
        rp_plan_import(graph, steps, count, limits.min_feasible_bytes - 1, &imported, &taken),
        RP_INFEASIBLE);
    RP_CHECK(imported == NULL, "a plan above its budget");
    RP_CHECK_STATUS(context,
                    rp_plan_import(graph, steps + 1, count - 1, RP_UNLIMITED, &imported, NULL),
                    RP_BAD_INPUT);
    rp_plan_destroy(plan);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* A plan outlives new costs and new names, but not another structure. */
static void test_plans_fit_graphs_of_the_same_structure(void) {
    rp_context *context = rp_test_context(1);
    char path[RP_TEST_PATH];
    rp_test_temporary(path, "plan-3.json");
    static const int64_t costs[] = {1, 50};
    rp_graph *graphs[] = {rp_test_chain(context, 6, 8, NULL, costs[0]),
                          rp_test_chain(context, 6, 8, NULL, costs[1]),
                          rp_test_chain(context, 6, 9, NULL, costs[0])};
    rp_plan_options options = {sizeof options, RP_UNLIMITED, "uniform:2"};
    rp_plan *plan = NULL, *loaded = NULL;
    rp_plan_report report;
    RP_REQUIRE_OK(context, rp_plan_create(graphs[0], &options, &plan, &report));
    RP_REQUIRE_OK(context, rp_plan_save(plan, path));
    const int64_t cost = report.recompute_cost_ns;
    rp_plan_destroy(plan);
    RP_REQUIRE_OK(context, rp_plan_load(graphs[1], path, RP_UNLIMITED, &loaded, &report));
    RP_CHECK_EQUAL(report.recompute_cost_ns, cost * costs[1]);
    rp_plan_destroy(loaded);
    RP_CHECK_STATUS(context, rp_plan_load(graphs[2], path, RP_UNLIMITED, &loaded, NULL),
                    RP_BAD_INPUT);
    RP_CHECK_MESSAGE(context, "graph_hash is");
    RP_CHECK_MESSAGE(context, path);
    RP_CHECK_STATUS(context, rp_plan_load(graphs[0], "no/such/file", RP_UNLIMITED, &loaded, NULL),
                    RP_IO_ERROR);
    RP_CHECK_MESSAGE(context, "no/such/file");
    remove(path);
    for (size_t i = 0; i < 3; i++)
        rp_graph_destroy(graphs[i]);
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_claims_of_files),
    RP_TEST(test_given_offsets_are_kept),
    RP_TEST(test_PL_14_saved_plans_come_back_the_same),
    RP_TEST(test_PL_14_imported_schedules_cost_the_same),
    RP_TEST(test_plans_fit_graphs_of_the_same_structure),
};
RP_SUITE(plan_file, tests)
