/* Graph files that are not what they claim. */
#include "graphs.h"
#include "malformed.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Every field that a graph file may have. */
static const char graph_text[] =
    "{\"format\": \"reprise-graph\", \"version\": 1, \"name\": \"all\", \"alignment\": 64,\n"
    " \"values\": [{\"name\": \"w\", \"bytes\": 4096, \"kind\": \"persistent\"},\n"
    "  {\"name\": \"a\", \"bytes\": 100, \"kind\": \"activation\"},\n"
    "  {\"name\": \"v\", \"bytes\": 0, \"kind\": \"activation\", \"alias_of\": 1},\n"
    "  {\"name\": \"b\", \"bytes\": 100, \"kind\": \"activation\"},\n"
    "  {\"name\": \"g\", \"bytes\": 64, \"kind\": \"activation\"}],\n"
    " \"nodes\": [{\"name\": \"f1\", \"phase\": \"forward\", \"inputs\": [0], \"outputs\": [1],\n"
    "   \"cost_ns\": 1000, \"workspace_bytes\": 7, \"recomputable\": true, \"block\": \"h.0\",\n"
    "   \"mark\": \"keep\"},\n"
    "  {\"name\": \"f2\", \"phase\": \"forward\", \"inputs\": [1], \"outputs\": [2],\n"
    "   \"cost_ns\": 0},\n"
    "  {\"name\": \"f3\", \"phase\": \"forward\", \"inputs\": [2], \"outputs\": [3],\n"
    "   \"cost_ns\": 5, \"inplace\": [[3, 2]]},\n"
    "  {\"name\": \"b1\", \"phase\": \"backward\", \"inputs\": [1, 3], \"outputs\": [4],\n"
    "   \"cost_ns\": 2000}],\n"
    " \"outputs\": [4]}\n";

static rp_status read_graph(const rp_malformed *s, const char *text, size_t length, bool *made) {
    rp_graph *graph = NULL;
    const rp_status status = rp_graph_parse(s->context, text, length, &graph);
    *made = graph != NULL;
    rp_graph_destroy(graph);
    return status;
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

static rp_malformed begin_graph(void) {
    return (rp_malformed){read_graph, rp_test_context(1), NULL, graph_text, sizeof graph_text - 1};
}

static void test_graph_cut_at_every_byte_is_refused(void) {
    const rp_malformed s = begin_graph();
    rp_malformed_truncate(&s);
    rp_context_destroy(s.context);
}

static void test_damaged_graph_never_crashes(void) {
    const rp_malformed s = begin_graph();
    rp_malformed_flip(&s, rp_test_samples(5000, 200000));
    rp_malformed_splice(&s, rp_test_samples(5000, 200000));
    rp_context_destroy(s.context);
}

static void test_graph_with_any_value_replaced_never_crashes(void) {
    const rp_malformed s = begin_graph();
    rp_malformed_replace(&s);
    rp_context_destroy(s.context);
}

/* `count` times `piece` behind `head`, then `tail`. */
static void check_repeated(const char *head, const char *piece, size_t count, const char *tail) {
    rp_context *context = rp_test_context(1);
    const rp_malformed s = {read_graph, context, NULL, NULL, 0};
    const size_t h = strlen(head), p = strlen(piece), length = h + p * count + strlen(tail);
    char *text = malloc(length + 1);
    RP_REQUIRE(text != NULL, "no memory");
    memcpy(text, head, h);
    for (size_t i = 0; i < count; i++)
        memcpy(text + h + i * p, piece, p);
    memcpy(text + h + p * count, tail, strlen(tail) + 1);
    RP_CHECK_STATUS(context, rp_malformed_read(&s, text, length), RP_BAD_INPUT);
    free(text);
    rp_context_destroy(context);
}

static void test_deep_nesting_is_refused(void) {
    check_repeated("", "[", 1000000, "");
    check_repeated("", "{\"a\":", 1000000, "");
    check_repeated("{\"format\": \"reprise-graph\", \"version\": 1, \"values\": ", "[", 1000000,
                   "");
    check_repeated("{\"x\": ", "[1, ", 100000, "");
}

static void test_long_tokens_are_refused(void) {
    check_repeated("{\"version\": ", "9", 1000000, "}");
    check_repeated("{\"version\": -0.", "0", 1000000, "e1}");
    check_repeated("{\"format\": \"", "x", 1000000, "\"}");
    check_repeated("{\"format\": \"", "\\u0000", 1000, "\"}");
    check_repeated("", " ", 1000000, "");
}

/* One value changed: what it becomes, and a word that the message must have. */
static void test_message_names_what_is_wrong(void) {
    static const struct {
        const char *from, *to, *word;
    } rows[] = {
        {"reprise-graph", "reprise-plan", "format"},
        {"\"version\": 1", "\"version\": 2", "version"},
        {"\"alignment\": 64", "\"alignment\": 0", "alignment"},
        {"\"bytes\": 4096", "\"bytes\": -4096", "bytes"},
        {"\"bytes\": 4096", "\"bytes\": 4096.5", "bytes"},
        {"\"bytes\": 4096", "\"bytes\": \"4096\"", "bytes"},
        {"\"bytes\": 4096", "\"bytes\": 9223372036854775808", "line 2"},
        {"\"kind\": \"persistent\"", "\"kind\": \"parameter\"", "kind"},
        {"\"alias_of\": 1", "\"alias_of\": 2", "v"},
        {"\"alias_of\": 1", "\"alias_of\": 99", "99"},
        {"\"phase\": \"backward\"", "\"phase\": \"sideward\"", "phase"},
        {"\"mark\": \"keep\"", "\"mark\": \"perhaps\"", "mark"},
        {"\"outputs\": [3]", "\"outputs\": [1]", "a"},
        {"\"outputs\": [4]}", "\"outputs\": [77]}", "77"},
        {"\"inputs\": [0]", "\"inputs\": [4]", "g"},
        {"\"cost_ns\": 2000", "\"cost_ns\": -1", "cost_ns"},
        {"\"nodes\"", "\"knots\"", "nodes"},
        {"\"cost_ns\": 2000}]", "\"cost_ns\": 2000]", "line 15"},
    };
    const rp_malformed s = begin_graph();
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        char text[sizeof graph_text + 100];
        const char *at = strstr(graph_text, rows[r].from);
        RP_REQUIRE(at != NULL, "row %zu is not in the graph", r);
        const int length = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - graph_text),
                                    graph_text, rows[r].to, at + strlen(rows[r].from));
        const rp_status status = rp_malformed_read(&s, text, (size_t)length);
        RP_CHECK(status == RP_BAD_INPUT, "%s: %s", rows[r].to, rp_status_name(status));
        RP_CHECK(strstr(rp_context_message(s.context), rows[r].word) != NULL,
                 "%s: \"%s\" does not say \"%s\"", rows[r].to, rp_context_message(s.context),
                 rows[r].word);
    }
    rp_context_destroy(s.context);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void check_load(rp_context *context, const char *path, rp_status wanted) {
    rp_graph *graph = NULL;
    const rp_status status = rp_graph_load(context, path, &graph);
    RP_CHECK(status == wanted && graph == NULL, "%s: %s", path, rp_status_name(status));
    RP_CHECK_MESSAGE(context, path);
}

/* A file of holes, longer than anybody's graph: refused before it is read. */
static void check_load_of_too_much(rp_context *context) {
    char path[RP_TEST_PATH];
    rp_test_temporary(path, "long.json");
    FILE *file = fopen(path, "w");
    RP_REQUIRE(file != NULL && ftruncate(fileno(file), (off_t)(1 << 30) + 1) == 0, "%s", path);
    fclose(file);
    check_load(context, path, RP_BAD_INPUT);
    RP_CHECK_MESSAGE(context, "longer than 1073741824 bytes");
    remove(path);
}

static void test_files_that_cannot_be_read(void) {
    rp_context *context = rp_test_context(1);
    char path[RP_TEST_PATH];
    check_load(context, "no/such/folder/graph.json", RP_IO_ERROR);
    check_load(context, "/", RP_IO_ERROR);
    check_load(context, "/dev/zero", RP_IO_ERROR); /* has no end */
    RP_CHECK_MESSAGE(context, "a file or a pipe is expected");
    check_load_of_too_much(context);
    rp_test_temporary(path, "empty.json");
    fclose(fopen(path, "w"));
    check_load(context, path, RP_BAD_INPUT);
    remove(path);
    rp_context_destroy(context);
}

/* ---- Each kind of bad graph, from a file ----------------------------------------------------- */

#define HEAD "{\"format\": \"reprise-graph\", \"version\": 1,\n"
#define P(bytes) "{\"name\": \"p\", \"bytes\": " bytes ", \"kind\": \"persistent\"}"
#define A "{\"name\": \"a\", \"bytes\": 4, \"kind\": \"activation\"}"
#define VIEW(base) "{\"name\": \"v\", \"kind\": \"activation\", \"alias_of\": " base "}"
#define NODE(in, out)                                                                              \
    "{\"name\": \"f\", \"phase\": \"forward\", \"cost_ns\": 1, \"inputs\": [" in                   \
    "], \"outputs\": [" out "]}"
#define GRAPH(values, nodes) HEAD "\"values\": [" values "],\n\"nodes\": [" nodes "]}"

/* What the file holds, where it says that the fault is, and what. */
typedef struct bad_graph {
    const char *text, *place, *reason;
} bad_graph;

static const bad_graph bad_graphs[] = {
    /* cycles: of one node, of two; a reader before its writer is the same thing */
    {GRAPH(A, NODE("0", "0")), "nodes[0] (f)", "reads value 0 (a) before it is written"},
    {GRAPH(A "," A, NODE("1", "0") "," NODE("0", "1")), "nodes[0] (f)",
     "reads value 1 (a) before it is written"},
    /* unknown indices */
    {GRAPH(A, NODE("9", "0")), "nodes[0] (f): inputs[0]", "there is no value 9"},
    {GRAPH(A, NODE("-1", "0")), "nodes[0]", "inputs"},
    {GRAPH(A, NODE("4294967296", "0")), "nodes[0]", "4294967296"},
    {GRAPH(VIEW("5"), NODE("", "0")), "values[0] (v)", "there is no value 5"},
    /* sizes: negative, sums that overflow, 2^63 and beyond */
    {GRAPH(P("-1"), ""), "values[0] (p)", "from 0 to 2^63 - 1"},
    {GRAPH(P("9223372036854775807") "," P("1"), ""), "values[1] (p)", "exceeds 2^63 - 1"},
    {GRAPH(P("9223372036854775808"), ""), "line 2", "too big"},
    {GRAPH(P("-9223372036854775809"), ""), "line 2", "too big"},
    {GRAPH(P("18446744073709551617"), ""), "line 2", "too big"},
    {GRAPH(P("1e400"), ""), "line 2", "overflow"},
    /* two writers, and none */
    {GRAPH(A, NODE("", "0") "," NODE("", "0")), "nodes[1] (f)", "has a writer already"},
    {GRAPH(A, ""), "values[0] (a)", "no node writes"},
    /* loops of views: of one, of three, and a view of a view on a loop */
    {GRAPH(VIEW("0"), NODE("", "0")), "values[0] (v)", "names the value itself"},
    {GRAPH(VIEW("1") "," VIEW("2") "," VIEW("0"), NODE("", "0, 1, 2")), "values[1] (v)", "a loop"},
    {GRAPH(A "," VIEW("2") "," VIEW("3") "," VIEW("2"), NODE("", "0, 1, 2, 3")), "values[2] (v)",
     "a loop"},
    /* bytes that are no UTF-8: alone, cut short, overlong, half a surrogate pair */
    {HEAD "\"name\": \"\xff\"}", "line 2", "0xff"},
    {HEAD "\"name\": \"\xc3\"}", "line 2", "0xc3"},
    {HEAD "\"name\": \"\xc0\xaf\"}", "line 2", "0xc0"},
    {HEAD "\"name\": \"\xed\xa0\x80\"}", "line 2", "0xed"},
    {HEAD "\"name\": \"\\ud800\"}", "line 2", "ud800"},
    /* cut short */
    {HEAD "\"values\": [" A ",", "line 2", "near end of file"},
    {HEAD "\"values\": [" A, "line 2", "']'"},
    {HEAD "\"name\": \"f", "line 2", "premature end"},
};

static void test_bad_graph_files_name_the_file_the_place_and_the_reason(void) {
    rp_context *context = rp_test_context(1);
    char path[RP_TEST_PATH];
    rp_test_temporary(path, "bad.json");
    for (size_t i = 0; i < sizeof bad_graphs / sizeof bad_graphs[0]; i++) {
        FILE *file = fopen(path, "wb");
        RP_REQUIRE(file != NULL, "%s", path);
        fputs(bad_graphs[i].text, file);
        fclose(file);
        check_load(context, path, RP_BAD_INPUT);
        RP_CHECK_MESSAGE(context, bad_graphs[i].place);
        RP_CHECK_MESSAGE(context, bad_graphs[i].reason);
    }
    remove(path);
    rp_context_destroy(context);
}

static void test_save_that_fails_leaves_the_old_file(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, 3, 10, NULL, 1);
    char folder[RP_TEST_PATH], below[RP_TEST_PATH + 20];
    RP_CHECK_STATUS(context, rp_graph_save(graph, "no/such/folder/graph.json"), RP_IO_ERROR);
    RP_CHECK_MESSAGE(context, "no/such/folder");
    /* A folder cannot be replaced by a file, so the rename fails; nothing temporary may stay. */
    rp_test_temporary(folder, "folder");
    snprintf(below, sizeof below, "%s/inside", folder);
    RP_REQUIRE(mkdir(folder, 0777) == 0 && mkdir(below, 0777) == 0, "%s: no folder", folder);
    RP_CHECK_STATUS(context, rp_graph_save(graph, folder), RP_IO_ERROR);
    RP_CHECK(rmdir(below) == 0 && rmdir(folder) == 0, "%s is gone", folder);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_graph_cut_at_every_byte_is_refused),
    RP_TEST(test_damaged_graph_never_crashes),
    RP_TEST(test_graph_with_any_value_replaced_never_crashes),
    RP_TEST(test_deep_nesting_is_refused),
    RP_TEST(test_long_tokens_are_refused),
    RP_TEST(test_message_names_what_is_wrong),
    RP_TEST(test_files_that_cannot_be_read),
    RP_TEST(test_bad_graph_files_name_the_file_the_place_and_the_reason),
    RP_TEST(test_save_that_fails_leaves_the_old_file),
};
RP_SUITE(malformed, tests)
