/* Graphs: what is refused and how, what is merged, what the hash sees, files and back. */
#include "graph.h"
#include "graphs.h"
#include "unit.h"
#include "written.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Refused --------------------------------------------------------------------------------- */

#define HEAD "{\"format\": \"reprise-graph\", \"version\": 1, "
#define VALUE(kind) "{\"name\": \"v\", \"bytes\": 4, \"kind\": \"" kind "\"}"
#define NODE(rest) "{\"name\": \"f\", \"phase\": \"forward\", \"cost_ns\": 1, " rest "}"
#define P VALUE("persistent")
#define A VALUE("activation")
#define VIEW(base) "{\"name\": \"w\", \"kind\": \"activation\", \"alias_of\": " base "}"
#define GRAPH(values, nodes) HEAD "\"values\": [" values "], \"nodes\": [" nodes "]}"

typedef struct refusal {
    const char *text, *message;
} refusal;

static const refusal refusals[] = {
    /* structure */
    {GRAPH(P "," A, NODE("\"inputs\": [1], \"outputs\": [1]")),
     "nodes[0] (f): reads value 1 (v) before it is written"},
    {GRAPH(P "," A "," A, NODE("\"inputs\": [2], \"outputs\": [1]") "," NODE("\"outputs\": [2]")),
     "nodes[0] (f): reads value 2 (v) before it is written"},
    {GRAPH(A, NODE("\"outputs\": [0]") "," NODE("\"outputs\": [0]")),
     "nodes[1] (f): writes value 0 (v), which has a writer already"},
    {GRAPH(A, NODE("\"outputs\": [0, 0]")), "nodes[0] (f): lists output value 0 (v) twice"},
    {GRAPH(A, ""), "values[0] (v): an activation that no node writes"},
    {GRAPH(P, NODE("\"inputs\": [7]")), "nodes[0] (f): inputs[0]: there is no value 7"},
    {GRAPH(P, NODE("\"outputs\": [0, 1]")), "nodes[0] (f): outputs[1]: there is no value 1"},
    {GRAPH(P, NODE("\"inputs\": [4294967295]")), "there is no value 4294967295"},
    {HEAD "\"values\": [], \"nodes\": [], \"outputs\": [0]}", "outputs[0]: there is no value 0"},
    /* views */
    {GRAPH(VIEW("1") "," VIEW("0"), NODE("\"outputs\": [0, 1]")), "alias_of is a loop"},
    {GRAPH(VIEW("0"), NODE("\"outputs\": [0]")), "values[0] (w): alias_of names the value itself"},
    {GRAPH(VIEW("9"), NODE("\"outputs\": [0]")), "values[0] (w): alias_of: there is no value 9"},
    {GRAPH(A "," VIEW("0"), NODE("\"outputs\": [0]") "," NODE("\"outputs\": [1]")),
     "nodes[1] (f): writes value 1 (w), a view, but neither reads nor writes its base"},
    {GRAPH(A "," VIEW("0") "," VIEW("0"), NODE("\"outputs\": [0]") "," NODE("\"outputs\": [1, 2]")),
     "a view, but neither reads nor writes its base"},
    {GRAPH(P ",{\"bytes\": 4, \"kind\": \"persistent\", \"alias_of\": 0}", ""),
     "values[1] (1): a view (alias_of) must be of kind activation"},
    {GRAPH("{\"bytes\": 0, \"kind\": \"activation\", \"alias_of\": \"0\"}", ""),
     "values[0]: alias_of must be the index of a value"},
    {GRAPH("{\"bytes\": 0, \"kind\": \"activation\", \"alias_of\": -1}", ""),
     "alias_of: there is no value -1"},
    /* in place */
    {GRAPH(P "," A, NODE("\"inputs\": [0], \"outputs\": [1], \"inplace\": [[0, 0]]")),
     "inplace: value 0 (v) is not one of its outputs"},
    {GRAPH(P "," A, NODE("\"inputs\": [0], \"outputs\": [1], \"inplace\": [[1, 1]]")),
     "inplace: value 1 (v) is not one of its inputs"},
    {GRAPH(P "," A, NODE("\"inputs\": [0], \"outputs\": [1], \"inplace\": [[1]]")),
     "inplace must be a list of pairs [output, input]"},
    {GRAPH(P "," A, NODE("\"inputs\": [0], \"outputs\": [1], \"inplace\": [[1, 0.5]]")),
     "inplace must be a list of pairs [output, input]"},
    {GRAPH(P "," A, NODE("\"inputs\": [0], \"outputs\": [1], \"inplace\": [[1, 8]]")),
     "inplace[0]: there is no value 8"},
    /* marks */
    {GRAPH(A, NODE("\"outputs\": [0], \"mark\": \"recompute\", \"recomputable\": false")),
     "nodes[0] (f): mark recompute contradicts recomputable false"},
    {GRAPH(A, "{\"phase\": \"backward\", \"cost_ns\": 1, \"outputs\": [0], \"recomputable\": true, "
              "\"mark\": \"recompute\"}"),
     "nodes[0] (0): mark recompute is for forward nodes only"},
    {GRAPH(A, NODE("\"outputs\": [0], \"mark\": \"never\"")),
     "mark is \"never\", known are auto, keep, recompute"},
    /* numbers */
    {GRAPH("{\"bytes\": -1, \"kind\": \"persistent\"}", ""),
     "values[0]: bytes must be a whole number from 0 to 2^63 - 1"},
    {GRAPH("{\"bytes\": 1.0, \"kind\": \"persistent\"}", ""), "bytes must be a whole number"},
    {GRAPH("{\"bytes\": \"1\", \"kind\": \"persistent\"}", ""), "bytes must be a whole number"},
    {GRAPH("{\"bytes\": true, \"kind\": \"persistent\"}", ""), "bytes must be a whole number"},
    {GRAPH("{\"kind\": \"persistent\"}", ""), "values[0]: bytes is missing"},
    {GRAPH("{\"bytes\": 9223372036854775808, \"kind\": \"persistent\"}", ""), "line 1"},
    {GRAPH("{\"bytes\": 1}", ""), "values[0]: kind is missing"},
    {GRAPH("{\"bytes\": 1, \"kind\": \"weight\"}", ""),
     "kind is \"weight\", known are activation, persistent"},
    {GRAPH("", "{\"phase\": \"forward\"}"), "nodes[0]: cost_ns is missing"},
    {GRAPH("", "{\"phase\": \"forward\", \"cost_ns\": -5}"), "cost_ns must be a whole number"},
    {GRAPH("", NODE("\"workspace_bytes\": 0.5")), "workspace_bytes must be a whole number"},
    {GRAPH("", "{\"cost_ns\": 1}"), "nodes[0]: phase is missing"},
    {GRAPH("", NODE("\"recomputable\": 1")), "recomputable must be true or false"},
    {GRAPH("", NODE("\"inputs\": 1")), "inputs must be a list"},
    {GRAPH("", NODE("\"inputs\": [\"x\"]")), "inputs must be a list of whole numbers"},
    {GRAPH("", "3"), "nodes[0]: it must be an object"},
    {GRAPH("3", ""), "values[0]: it must be an object"},
    {GRAPH("{\"name\": 3, \"bytes\": 1, \"kind\": \"persistent\"}", ""),
     "values[0]: name must be a string"},
    /* sums */
    {GRAPH("{\"bytes\": 9223372036854775807, \"kind\": \"persistent\"}," P, ""),
     "values[1] (v): the sum of all bytes up to here exceeds 2^63 - 1"},
    {GRAPH("{\"bytes\": 9223372036854775807, \"kind\": \"persistent\"}",
           NODE("\"workspace_bytes\": 1")),
     "nodes[0] (f): workspace_bytes and the bytes of all values exceed 2^63 - 1 together"},
    {GRAPH("",
           "{\"phase\": \"forward\", \"cost_ns\": 9223372036854775807}," NODE("\"block\": \"\"")),
     "nodes[1] (f): the sum of all cost_ns up to here exceeds 2^63 - 1"},
    {HEAD "\"alignment\": 64, \"values\": [{\"bytes\": 9223372036854775807, \"kind\": "
          "\"persistent\"}], \"nodes\": []}",
     "values[0] (0): bytes rounded up to the alignment exceed 2^63 - 1"},
    {HEAD "\"alignment\": 64, \"values\": [], \"nodes\": [{\"phase\": \"forward\", \"cost_ns\": 1, "
          "\"workspace_bytes\": 9223372036854775807}]}",
     "nodes[0] (0): workspace_bytes rounded up to the alignment exceed 2^63 - 1"},
    {HEAD "\"alignment\": 0, \"values\": [], \"nodes\": []}", "alignment must be at least 1"},
    /* the file as a whole */
    {"{\"format\": \"reprise-plan\", \"version\": 1}",
     "format is \"reprise-plan\", \"reprise-graph\" is needed"},
    {"{\"version\": 1}", "format is \"\""},
    {"{\"format\": \"reprise-graph\", \"version\": 2}", "version is 2, only 1 is known"},
    {"{\"format\": \"reprise-graph\"}", "version is missing"},
    {HEAD "\"nodes\": []}", "values is missing"},
    {HEAD "\"values\": []}", "nodes is missing"},
    {HEAD "\"values\": {}, \"nodes\": []}", "values must be a list"},
    {"[]", "the file is no JSON object"},
    {"", "line 1"},
    {GRAPH(P, "") "x", "line 1"},
    {HEAD "\n\"values\": [],\n\"nodes\": [,]}", "line 3, column 11"},
    {HEAD "\"values\": [], \"values\": [], \"nodes\": []}", "duplicate object key"},
    {HEAD "\"name\": \"\xff\", \"values\": [], \"nodes\": []}", "unable to decode byte 0xff"},
    {HEAD "\"name\": \"a\\u0000b\", \"values\": [], \"nodes\": []}", "\\u0000"},
};

static void test_every_fault_is_named(void) {
    rp_context *context = rp_test_context(1);
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++) {
        rp_graph *graph = NULL;
        const rp_status status =
            rp_graph_parse(context, refusals[i].text, strlen(refusals[i].text), &graph);
        RP_CHECK(status == RP_BAD_INPUT, "%s: %s", refusals[i].text, rp_status_name(status));
        RP_CHECK(graph == NULL, "a graph from %s", refusals[i].text);
        RP_CHECK_MESSAGE(context, refusals[i].message);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

/* A name as long as it likes does not push out the reason. */
static void test_long_names_leave_room_for_the_reason(void) {
    rp_context *context = rp_test_context(1);
    static char name[5000];
    memset(name, 'n', sizeof name - 1);
    rp_graph *graph = NULL;
    RP_REQUIRE_OK(context, rp_graph_create(context, "long", 1, &graph));
    const rp_value_info value = {name, 1, RP_ACTIVATION, RP_NONE};
    RP_REQUIRE_OK(context, rp_graph_add_value(graph, &value, NULL));
    RP_CHECK_STATUS(context, rp_graph_finish(graph), RP_BAD_INPUT);
    RP_CHECK_MESSAGE(context, "an activation that no node writes");
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* What a call is given is checked at the call, whatever the whole graph is like. */
static void test_calls_are_checked_at_once(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = NULL;
    RP_CHECK_STATUS(context, rp_graph_create(context, "g", 0, &graph), RP_INVALID_ARGUMENT);
    RP_CHECK_STATUS(context, rp_graph_create(context, "g", -4, &graph), RP_INVALID_ARGUMENT);
    RP_REQUIRE_OK(context, rp_graph_create(context, NULL, 1, &graph));
    const rp_value_info values[] = {{"v", -1, RP_ACTIVATION, RP_NONE},
                                    {"v", 1, (rp_value_kind)7, RP_NONE}};
    const rp_node_info nodes[] = {
        {.name = "f", .cost_ns = -1},        {.name = "f", .workspace_bytes = -1},
        {.name = "f", .phase = (rp_phase)3}, {.name = "f", .mark = (rp_mark)9},
        {.name = "f", .input_count = 1},     {.name = "f", .output_count = 1},
        {.name = "f", .inplace_count = 1}};
    RP_CHECK_STATUS(context, rp_graph_add_value(graph, NULL, NULL), RP_INVALID_ARGUMENT);
    RP_CHECK_STATUS(context, rp_graph_add_node(graph, NULL, NULL), RP_INVALID_ARGUMENT);
    RP_CHECK_STATUS(context, rp_graph_set_outputs(graph, NULL, 1), RP_INVALID_ARGUMENT);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        RP_CHECK_STATUS(context, rp_graph_add_value(graph, &values[i], NULL), RP_INVALID_ARGUMENT);
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++)
        RP_CHECK_STATUS(context, rp_graph_add_node(graph, &nodes[i], NULL), RP_INVALID_ARGUMENT);
    RP_CHECK_OK(context, rp_graph_finish(graph)); /* nothing of it has stuck */
    RP_CHECK_EQUAL(rp_graph_value_count(graph), 0);
    RP_CHECK_EQUAL(rp_graph_node_count(graph), 0);
    const rp_value_info good = {"v", 1, RP_PERSISTENT, RP_NONE};
    RP_CHECK_STATUS(context, rp_graph_add_value(graph, &good, NULL), RP_BAD_STATE);
    RP_CHECK_STATUS(context, rp_graph_add_node(graph, &nodes[0], NULL), RP_BAD_STATE);
    RP_CHECK_STATUS(context, rp_graph_set_outputs(graph, NULL, 0), RP_BAD_STATE);
    RP_CHECK_OK(context, rp_graph_finish(graph));
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* A graph that was refused can be made whole and finished. */
static void test_a_failed_finish_changes_nothing(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = NULL;
    RP_REQUIRE_OK(context, rp_graph_create(context, "g", 1, &graph));
    const rp_value_info values[] = {{NULL, 8, RP_ACTIVATION, RP_NONE}, {NULL, 0, RP_ACTIVATION, 0}};
    const uint32_t outputs[] = {0, 1};
    const rp_node_info nodes[] = {
        {.outputs = outputs, .output_count = 1},
        {.inputs = outputs, .input_count = 1, .outputs = outputs + 1, .output_count = 1}};
    for (size_t i = 0; i < 2; i++) {
        RP_REQUIRE_OK(context, rp_graph_add_value(graph, &values[i], NULL));
        RP_CHECK_STATUS(context, rp_graph_finish(graph), RP_BAD_INPUT);
        RP_REQUIRE_OK(context, rp_graph_add_node(graph, &nodes[i], NULL));
    }
    RP_CHECK_OK(context, rp_graph_finish(graph));
    RP_CHECK_STRING(rp_value_name(graph, 1), "1");
    RP_CHECK_STRING(rp_node_name(graph, 1), "1");
    RP_CHECK_EQUAL(graph->values[1].root, 0);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static void test_tables_of_a_finished_graph(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = NULL;
    RP_REQUIRE_OK(context, rp_graph_create(context, "tables", 8, &graph));
    const rp_value_info values[] = {{"w", 9, RP_PERSISTENT, RP_NONE},
                                    {"t", 5, RP_ACTIVATION, 2}, /* its base comes later */
                                    {"a", 3, RP_ACTIVATION, RP_NONE},
                                    {"u", 7, RP_ACTIVATION, 1}};
    for (size_t i = 0; i < 4; i++)
        RP_REQUIRE_OK(context, rp_graph_add_value(graph, &values[i], NULL));
    const uint32_t in[] = {0, 0, 2, 0, 1, 1}, out[] = {2, 1, 3, 0};
    const rp_node_info nodes[] = {{.name = "F",
                                   .block = "b",
                                   .cost_ns = 3,
                                   .inputs = in,
                                   .input_count = 2,
                                   .outputs = out,
                                   .output_count = 1,
                                   .workspace_bytes = 1},
                                  {.name = "G",
                                   .block = "b",
                                   .cost_ns = 4,
                                   .inputs = in,
                                   .input_count = 4,
                                   .outputs = out + 1,
                                   .output_count = 1},
                                  {.name = "H",
                                   .phase = RP_BACKWARD,
                                   .recomputable = true,
                                   .inputs = in + 4,
                                   .input_count = 2,
                                   .outputs = out + 2,
                                   .output_count = 2}};
    for (size_t i = 0; i < 3; i++)
        RP_REQUIRE_OK(context, rp_graph_add_node(graph, &nodes[i], NULL));
    const uint32_t outputs[] = {3, 0, 3};
    RP_REQUIRE_OK(context, rp_graph_set_outputs(graph, outputs, 3));
    RP_REQUIRE_OK(context, rp_graph_finish(graph));
    RP_CHECK_EQUAL(graph->values[0].bytes, 16);
    RP_CHECK_EQUAL(graph->values[1].bytes, 0);
    RP_CHECK_EQUAL(graph->values[2].bytes, 8);
    RP_CHECK_EQUAL(graph->values[3].root, 2);
    RP_CHECK_EQUAL(graph->values[0].writer, RP_NONE);
    RP_CHECK_EQUAL(graph->values[3].writer, 2);
    RP_CHECK_EQUAL(graph->nodes[0].workspace, 8);
    RP_CHECK_EQUAL(graph->nodes[0].inputs.count, 1); /* an input listed twice is one input */
    RP_CHECK_EQUAL(graph->nodes[1].inputs.count, 2);
    RP_CHECK_EQUAL(rp_node_inputs(graph, 1)[1], 2);
    RP_CHECK_EQUAL(graph->values[0].readers.count, 2);
    RP_CHECK_EQUAL(rp_value_readers(graph, 0)[1], 1);
    RP_CHECK_EQUAL(graph->values[1].readers.count, 1);
    RP_CHECK_EQUAL(graph->values[3].readers.count, 0);
    RP_CHECK_EQUAL(graph->output_count, 2);
    RP_CHECK(graph->values[3].is_output && graph->values[0].is_output, "outputs");
    RP_CHECK(graph->nodes[2].writes_persistent && !rp_node_may_rerun(graph, 2), "H may rerun");
    RP_CHECK_EQUAL(graph->last_forward, 1);
    RP_CHECK_EQUAL(graph->first_backward, 2);
    RP_CHECK_EQUAL(rp_graph_persistent_bytes(graph), 16);
    RP_CHECK_EQUAL(rp_graph_total_cost_ns(graph), 7);
    RP_CHECK_EQUAL(graph->nodes[0].block, graph->nodes[1].block); /* one copy */
    rp_node_info info;
    rp_graph_node(graph, 0, &info);
    RP_CHECK_EQUAL(info.workspace_bytes, 1);
    RP_CHECK_STRING(info.block, "b");
    rp_value_info value;
    rp_graph_value(graph, 1, &value);
    RP_CHECK_EQUAL(value.bytes, 5);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* ---- Hash ------------------------------------------------------------------------------------ */

static uint64_t hash_of(rp_context *context, const char *text) {
    rp_graph *graph = NULL;
    RP_REQUIRE_OK(context, rp_graph_parse(context, text, strlen(text), &graph));
    const uint64_t hash = rp_graph_hash(graph);
    rp_graph_destroy(graph);
    return hash;
}

/* The text with one piece of it replaced. */
static uint64_t hash_with(rp_context *context, const char *text, const char *old,
                          const char *fresh) {
    char changed[1024];
    const char *at = strstr(text, old);
    RP_REQUIRE(at != NULL, "'%s' is not there", old);
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, fresh, at + strlen(old));
    return hash_of(context, changed);
}

static void test_hash_sees_structure_and_nothing_else(void) {
    static const char text[] = HEAD
        "\"name\": \"g\", \"alignment\": 4, \"values\": [" P "," A "," A ",{\"bytes\": 2, "
        "\"kind\": \"activation\", \"alias_of\": 1}], \"nodes\": "
        "[" NODE("\"inputs\": [0], \"outputs\": [1], \"block\": \"b\", "
                 "\"mark\": \"keep\"") "," NODE("\"inputs\": [1], "
                                                "\"outputs\": [3], "
                                                "\"workspace_bytes\": "
                                                "5") "," NODE("\"inputs\": [1, 0], \"outputs\": "
                                                              "[2], \"inplace\": [[2, "
                                                              "1]]") "], \"outputs\": [2]}";
    static const char *const same[][2] = {{"\"g\"", "\"other\""},
                                          {"\"name\": \"v\"", "\"name\": \"x\""},
                                          {"\"block\": \"b\"", "\"block\": \"c\""},
                                          {"\"cost_ns\": 1", "\"cost_ns\": 77"},
                                          {"{\"bytes\": 2", "{\"bytes\": 3"},
                                          {"\"inputs\": [1, 0]", "\"inputs\": [1, 1, 0]"},
                                          {"\"outputs\": [2]}", "\"outputs\": [2, 2]}"}};
    static const char *const different[][2] = {
        {"\"alignment\": 4", "\"alignment\": 8"},
        {"\"bytes\": 4", "\"bytes\": 5"},
        {"\"mark\": \"keep\"", "\"mark\": \"auto\""},
        {"\"workspace_bytes\": 5", "\"workspace_bytes\": 6"},
        {"\"phase\": \"forward\"", "\"phase\": \"backward\""},
        {"\"inputs\": [1, 0]", "\"inputs\": [0, 1]"},
        {"\"inputs\": [0]", "\"inputs\": []"},
        {", \"inplace\": [[2, 1]]", ""},
        {"\"alias_of\": 1", "\"alias_of\": 0"},
        {"\"mark\"", "\"recomputable\": false, \"mark\""},
        {"\"outputs\": [2]}", "\"outputs\": [1]}"}};
    rp_context *context = rp_test_context(1);
    const uint64_t hash = hash_of(context, text);
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++)
        RP_CHECK(hash_with(context, text, same[i][0], same[i][1]) == hash, "%s", same[i][1]);
    for (size_t i = 0; i < sizeof different / sizeof different[0]; i++)
        RP_CHECK(hash_with(context, text, different[i][0], different[i][1]) != hash, "%s",
                 different[i][1]);
    rp_context_destroy(context);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void check_same(const rp_graph *a, const rp_graph *b) {
    RP_CHECK_EQUAL(rp_graph_hash(a), rp_graph_hash(b));
    RP_CHECK_EQUAL(rp_graph_total_cost_ns(a), rp_graph_total_cost_ns(b));
    RP_CHECK_STRING(rp_graph_name(a), rp_graph_name(b));
    RP_REQUIRE_EQUAL(rp_graph_node_count(a), rp_graph_node_count(b));
    RP_REQUIRE_EQUAL(rp_graph_value_count(a), rp_graph_value_count(b));
    for (uint32_t i = 0; i < rp_graph_node_count(a); i++) {
        rp_node_info x, y;
        rp_graph_node(a, i, &x);
        rp_graph_node(b, i, &y);
        RP_CHECK_STRING(x.name, y.name);
        RP_CHECK_STRING(x.block, y.block);
        RP_CHECK_EQUAL(x.cost_ns, y.cost_ns);
    }
    for (uint32_t i = 0; i < rp_graph_value_count(a); i++) {
        rp_value_info x, y;
        rp_graph_value(a, i, &x);
        rp_graph_value(b, i, &y);
        RP_CHECK_STRING(x.name, y.name);
        RP_CHECK_EQUAL(x.bytes, y.bytes);
    }
}

static void test_saved_graphs_come_back_the_same(void) {
    rp_context *context = rp_test_context(1);
    char path[RP_TEST_PATH];
    rp_test_temporary(path, "graph.json");
    for (uint64_t seed = 1; seed <= 40; seed++) {
        rp_graph *loaded = NULL;
        rp_graph *graph =
            rp_test_random_graph(context, seed, (uint32_t)(seed % 30), RP_TEST_EVERYTHING);
        RP_REQUIRE_OK(context, rp_graph_save(graph, path));
        RP_REQUIRE_OK(context, rp_graph_load(context, path, &loaded));
        check_same(graph, loaded);
        rp_graph_destroy(loaded);
        rp_graph_destroy(graph);
    }
    remove(path);
    rp_context_destroy(context);
}

/* Names may hold anything; what is not UTF-8 comes back as U+FFFD. */
static void test_names_of_any_kind_survive_a_file(void) {
    static const char *const names[][2] = {
        {"plain", "plain"},
        {"", ""},
        {"quote \" slash / back \\", "quote \" slash / back \\"},
        {"line\nfeed\ttab\x01\x1f\x7f", "line\nfeed\ttab\x01\x1f\x7f"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"bad \xff end", "bad \xef\xbf\xbd end"},
        {"cut \xe2\x82", "cut \xef\xbf\xbd\xef\xbf\xbd"},
        {"long form \xc0\xaf", "long form \xef\xbf\xbd\xef\xbf\xbd"},
        {"surrogate \xed\xa0\x80", "surrogate \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"too large \xf4\x90\x80\x80",
         "too large \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
    };
    rp_context *context = rp_test_context(1);
    char path[RP_TEST_PATH];
    rp_test_temporary(path, "names.json");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        rp_graph *graph = NULL, *loaded = NULL;
        RP_REQUIRE_OK(context, rp_graph_create(context, names[i][0], 1, &graph));
        const rp_value_info value = {names[i][0], 1, RP_PERSISTENT, RP_NONE};
        const rp_node_info node = {.name = names[i][0], .block = names[i][0]};
        RP_REQUIRE_OK(context, rp_graph_add_value(graph, &value, NULL));
        RP_REQUIRE_OK(context, rp_graph_add_node(graph, &node, NULL));
        RP_REQUIRE_OK(context, rp_graph_finish(graph));
        RP_REQUIRE_OK(context, rp_graph_save(graph, path));
        RP_REQUIRE_OK(context, rp_graph_load(context, path, &loaded));
        rp_node_info back;
        rp_graph_node(loaded, 0, &back);
        RP_CHECK_STRING(rp_graph_name(loaded), names[i][1]);
        RP_CHECK_STRING(back.name, names[i][1]);
        RP_CHECK_STRING(back.block, names[i][1]);
        rp_graph_destroy(loaded);
        rp_graph_destroy(graph);
    }
    remove(path);
    rp_context_destroy(context);
}

static void test_defaults_and_unknown_fields(void) {
    static const char text[] =
        HEAD "\"future\": {\"deep\": [[1]]}, \"values\": [{\"bytes\": 3, \"kind\": \"activation\", "
             "\"dtype\": \"f32\"}, {\"kind\": \"activation\", \"alias_of\": 0}, {\"bytes\": 1, "
             "\"kind\": \"activation\", \"alias_of\": null}], \"nodes\": [{\"phase\": \"forward\", "
             "\"cost_ns\": 0, \"outputs\": [0, 1], \"shape\": null}, {\"phase\": \"backward\", "
             "\"cost_ns\": 0, \"outputs\": [2]}]}";
    rp_context *context = rp_test_context(1);
    rp_graph *graph = NULL;
    RP_REQUIRE_OK(context, rp_graph_parse(context, text, sizeof text - 1, &graph));
    rp_node_info node;
    rp_graph_node(graph, 0, &node);
    RP_CHECK(node.recomputable, "forward nodes are recomputable unless stated");
    RP_CHECK_EQUAL(node.workspace_bytes, 0);
    RP_CHECK_EQUAL(node.mark, RP_MARK_AUTO);
    RP_CHECK_STRING(node.block, "");
    RP_CHECK_STRING(node.name, "0");
    rp_graph_node(graph, 1, &node);
    RP_CHECK(!node.recomputable, "backward nodes are not");
    RP_CHECK_EQUAL(rp_graph_alignment(graph), 1);
    RP_CHECK_STRING(rp_graph_name(graph), "");
    RP_CHECK_EQUAL(graph->values[2].alias_of, RP_NONE);
    size_t count = 7;
    rp_graph_outputs(graph, &count);
    RP_CHECK_EQUAL(count, 0);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_every_fault_is_named),
    RP_TEST(test_long_names_leave_room_for_the_reason),
    RP_TEST(test_calls_are_checked_at_once),
    RP_TEST(test_a_failed_finish_changes_nothing),
    RP_TEST(test_tables_of_a_finished_graph),
    RP_TEST(test_hash_sees_structure_and_nothing_else),
    RP_TEST(test_saved_graphs_come_back_the_same),
    RP_TEST(test_names_of_any_kind_survive_a_file),
    RP_TEST(test_defaults_and_unknown_fields),
};
RP_SUITE(graph, tests)
