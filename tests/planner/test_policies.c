/* Group I of cases.md where it is about what a user asks of the planner: wishes that contradict
 * each other, that match nothing, or that change nothing; and what planning itself takes. */
#include "families.h"
#include "graphs.h"
#include "models.h"
#include "unit.h"
#include "written.h"

#include <reprise/plan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- PL-06: what planning takes -------------------------------------------------------------- */

/* An allocator that counts. Each block has its size in front. */
typedef struct counter {
    size_t live, peak;
} counter;

typedef union head {
    size_t bytes;
    max_align_t align;
} head;

static void *count_resize(void *user, void *block, size_t bytes) {
    counter *c = user;
    head *old = block != NULL ? (head *)block - 1 : NULL;
    const size_t before = old != NULL ? old->bytes : 0;
    if (bytes == 0) {
        c->live -= before;
        free(old);
        return NULL;
    }
    head *made = realloc(old, sizeof *made + bytes);
    if (made == NULL)
        return NULL;
    made->bytes = bytes;
    c->live = c->live - before + bytes;
    c->peak = c->live > c->peak ? c->live : c->peak;
    return made + 1;
}

/* The most bytes that the library holds at once for a graph of about `nodes` nodes and its plan. */
static size_t peak_of(uint32_t nodes, bool layers) {
    counter c = {0, 0};
    rp_context_options options = RP_CONTEXT_OPTIONS;
    rp_context *context = NULL;
    rp_plan_report report;
    options.allocator = (rp_allocator){count_resize, &c};
    options.threads = 1;
    RP_REQUIRE_OK(NULL, rp_context_create(&options, &context));
    rp_graph *graph = layers ? rp_test_transformer(context, nodes / 18, false)
                             : rp_test_layered(context, 5, nodes, true);
    RP_REQUIRE_OK(context, rp_test_plan_within(graph, "auto", RP_UNLIMITED, &report));
    RP_CHECK(report.min_feasible_bytes < report.keep_all_peak_bytes, "nothing was searched");
    rp_context_destroy(context);
    RP_CHECK_EQUAL(c.live, 0);
    return c.peak;
}

/* 10,000 nodes of a transformer in less than 100 MB, and no table that grows with the square: ten
 * times the nodes take at most twenty times the bytes, with layers and without. Time is measured by
 * bench_planner; a stack of 256 KiB is enough for a million nodes (test_layout.c). */
static void test_PL_06_planning_takes_bytes_in_proportion(void) {
    for (int layers = 1; layers >= (rp_test_is_long() ? 0 : 1); layers--) {
        const size_t small = peak_of(1000, layers == 1), large = peak_of(10000, layers == 1);
        RP_CHECK(large < 100000000 || layers == 0, "%zu bytes for 10,000 nodes", large);
        RP_CHECK(large < 20 * small, "%zu bytes for 1,000 nodes, %zu for 10,000", small, large);
    }
}

/* ---- PL-08, PL-09: wishes that contradict, or match nothing ---------------------------------- */

#define GRAPH(node)                                                                                \
    "{\"format\": \"reprise-graph\", \"version\": 1, \"values\": [{\"bytes\": 4, \"kind\": "       \
    "\"activation\"}],\n\"nodes\": [{\"name\": \"f\", \"phase\": \"forward\", \"cost_ns\": 1, "    \
    "\"outputs\": [0], " node "}]}"

static void check_refused(const char *text, const char *message) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = NULL;
    RP_CHECK_STATUS(context, rp_graph_parse(context, text, strlen(text), &graph), RP_BAD_INPUT);
    RP_CHECK_MESSAGE(context, message);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_PL_08_two_policies_for_one_node_are_refused(void) {
    check_refused(GRAPH("\"mark\": \"keep\", \"mark\": \"recompute\""), "duplicate object key");
    check_refused(GRAPH("\"mark\": \"recompute\", \"recomputable\": false"),
                  "nodes[0] (f): mark recompute contradicts recomputable false");
    check_refused(GRAPH("\"recomputable\": true, \"recomputable\": false"), "duplicate object key");
}

static void test_PL_09_a_policy_that_matches_nothing_is_refused(void) {
    check_refused(GRAPH("\"mark\": \"kep\""), "mark is \"kep\", known are auto, keep, recompute");
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_unet(context, 3), *plain = NULL;
    rp_plan_report report;
    RP_CHECK_STATUS(context, rp_test_plan_within(graph, "selectiv", RP_UNLIMITED, &report),
                    RP_INVALID_ARGUMENT);
    RP_CHECK_MESSAGE(context, "strategy \"selectiv\" is unknown");
    plain = rp_test_written_graph(context, "p x 1\nf a 1 x -> y:1\nf b 1 y -> z:1\no z\n");
    RP_CHECK_STATUS(context, rp_test_plan_within(plain, "uniform:1", RP_UNLIMITED, &report),
                    RP_NOT_APPLICABLE);
    RP_CHECK_MESSAGE(context, "block"); /* it has none to cut at */
    rp_graph_destroy(plain);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* ---- PL-10: options that do something -------------------------------------------------------- */

/* 408 bytes without recompute, 308 with F run again; "%s" are flags of F, G, H and H.bwd. */
static const char options_graph[] = "p x 8\n"
                                    "f F 10 x -> a:100 %s\n"
                                    "f G 20 a -> b:100 %s\n"
                                    "f H 30 b -> c:100 %s\n"
                                    "b H.bwd 1 c -> dc:100 %s\n"
                                    "b G.bwd 1 b dc -> db:100\n"
                                    "b F.bwd 1 a db -> da:100\n"
                                    "o da\n";

typedef struct outcome {
    rp_status status;
    int64_t peak, cost, least;
    uint64_t hash;
} outcome;

static outcome outcome_of(const char *const flags[4], const char *strategy, int64_t budget) {
    char text[1024];
    rp_context *context = rp_test_context(1);
    rp_plan_report report = {0};
    snprintf(text, sizeof text, options_graph, flags[0], flags[1], flags[2], flags[3]);
    rp_graph *graph = rp_test_written_graph(context, text);
    const rp_status status = rp_test_plan_within(graph, strategy, budget, &report);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
    return (outcome){status, report.peak_bytes, report.recompute_cost_ns, report.min_feasible_bytes,
                     report.plan_hash};
}

static bool is_same(outcome a, outcome b) {
    return a.status == b.status && a.peak == b.peak && a.cost == b.cost && a.least == b.least &&
           a.hash == b.hash;
}

static void test_PL_10_every_option_changes_something(void) {
    static const char *const none[4] = {"", "", "", ""};
    static const struct {
        const char *flags[4];
        int64_t before, after; /* budgets */
        const char *strategy, *what;
    } rows[] = {
        {{"", "", "", ""}, RP_UNLIMITED, 310, "auto", "the budget"},
        {{"", "", "", ""}, 310, 310, "keep-all", "the strategy"},
        {{"", "", "", ""}, RP_UNLIMITED, RP_UNLIMITED, "keep-all", NULL}, /* where all fits */
        {{"!keep", "", "", ""}, 310, 310, "auto", "mark keep"},
        {{"!recompute", "", "", ""}, RP_UNLIMITED, RP_UNLIMITED, "auto", "mark recompute"},
        {{"!once", "", "", ""}, 310, 310, "auto", "recomputable"},
        {{"", "", "", "!dc/c"}, RP_UNLIMITED, RP_UNLIMITED, "auto", "in-place hints"},
        {{"@a", "@b", "@c", ""}, RP_UNLIMITED, RP_UNLIMITED, "uniform:2", "blocks"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const outcome before = outcome_of(none, "auto", rows[i].before);
        const outcome after = outcome_of(rows[i].flags, rows[i].strategy, rows[i].after);
        RP_CHECK(is_same(before, after) == (rows[i].what == NULL), "row %zu: %s changes nothing", i,
                 rows[i].what != NULL ? rows[i].what : "");
    }
}

/* ---- PL-13: regions that ask for more than there is ------------------------------------------ */

/* There is one budget, and it is hard. Regions ask by marks, which are as hard: two that keep 8
 * units each do not fit in 10, which is said with what they need. */
static void test_PL_13_regions_never_exceed_the_budget_together(void) {
    static const char *const marks[] = {"", "!keep"};
    rp_context *context = rp_test_context(1);
    for (int kept = 0; kept < 2; kept++) {
        char text[512];
        rp_plan_report report;
        snprintf(text, sizeof text,
                 "p x 0\nf A 5 x -> a:8 %s @a\nf B 5 x -> b:8 %s @b\nf turn 1 x -> t:0\n"
                 "b turn.bwd 1 t -> dt:2\nb B.bwd 1 b dt -> db:0\nb A.bwd 1 a dt -> da:0\n"
                 "o da db\n",
                 marks[kept], marks[kept]);
        rp_graph *graph = rp_test_written_graph(context, text);
        RP_CHECK_STATUS(context, rp_test_plan_within(graph, "auto", 10, &report),
                        kept ? RP_INFEASIBLE : RP_OK);
        RP_CHECK_EQUAL(report.min_feasible_bytes, kept ? 18 : 10);
        if (kept)
            RP_CHECK_MESSAGE(context, "mark keep of node");
        else
            RP_CHECK(report.peak_bytes <= 10 && report.recompute_cost_ns > 0, "not within 10");
        RP_CHECK_OK(context, rp_test_plan_within(graph, "auto", 18, &report));
        RP_CHECK_EQUAL(report.recompute_cost_ns, 0);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_PL_06_planning_takes_bytes_in_proportion),
    RP_TEST(test_PL_08_two_policies_for_one_node_are_refused),
    RP_TEST(test_PL_09_a_policy_that_matches_nothing_is_refused),
    RP_TEST(test_PL_10_every_option_changes_something),
    RP_TEST(test_PL_13_regions_never_exceed_the_budget_together),
};
RP_SUITE(policies, tests)
