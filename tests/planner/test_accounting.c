/* Group H of cases.md by a ledger of its own: what is live is added up step by step from the list
 * of a schedule alone, beside what verifier and reports say. */
#include <string.h>

#include "families.h"
#include "graphs.h"
#include "written.h"

/* ---- The ledger ------------------------------------------------------------------------------ */

enum { LEDGER_VALUES = 64, LEDGER_LOG = 64 };

typedef struct ledger {
    int64_t live, peak;
    uint32_t added[LEDGER_VALUES], taken[LEDGER_VALUES]; /* how often each value came and went */
    int64_t log[LEDGER_LOG]; /* what is live behind each backward node and its drops */
    size_t logged;
} ledger;

static int64_t bytes_of(const rp_graph *graph, uint32_t value) {
    rp_value_info info;
    rp_graph_value(graph, value, &info);
    return info.kind == RP_PERSISTENT ? 0 : info.bytes;
}

static void enter_run(const rp_graph *graph, uint32_t node, ledger *l) {
    rp_node_info info;
    rp_graph_node(graph, node, &info);
    for (size_t i = 0; i < info.output_count; i++) {
        const uint32_t value = info.outputs[i];
        RP_REQUIRE(value < LEDGER_VALUES, "more values than the ledger has lines");
        if (l->added[value] > l->taken[value])
            continue; /* live still */
        l->added[value]++;
        l->live += bytes_of(graph, value);
    }
    l->peak = l->live > l->peak ? l->live : l->peak;
}

/* Activations only. The nodes of the graph have neither views nor in-place hints. */
static void keep_ledger(const rp_graph *graph, const rp_step *steps, size_t count, ledger *l) {
    bool behind_backward = false;
    memset(l, 0, sizeof *l);
    for (size_t s = 0; s <= count; s++) {
        const bool drop = s < count && steps[s].kind == RP_STEP_DROP;
        if (!drop && behind_backward && l->logged < LEDGER_LOG)
            l->log[l->logged++] = l->live;
        if (s == count)
            break;
        if (drop) {
            l->taken[steps[s].index]++;
            l->live -= bytes_of(graph, steps[s].index);
            continue;
        }
        rp_node_info info;
        rp_graph_node(graph, steps[s].index, &info);
        behind_backward = info.phase == RP_BACKWARD;
        enter_run(graph, steps[s].index, l);
    }
}

static rp_plan *plan_of(const rp_graph *graph, const char *strategy, rp_plan_report *report) {
    rp_plan_options options = RP_PLAN_OPTIONS;
    rp_plan *plan = NULL;
    options.strategy = strategy;
    RP_REQUIRE_OK(graph->context, rp_plan_create(graph, &options, &plan, report));
    return plan;
}

/* A chain of sixteen under a strategy: its peak, and what is live behind each backward op. */
static void check_log(const char *strategy, int64_t peak, const int64_t *wanted) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, 16, 1, NULL, 1);
    rp_plan_report report;
    ledger l;
    size_t count = 0;
    rp_plan *plan = plan_of(graph, strategy, &report);
    const rp_step *steps = rp_plan_steps(plan, &count);
    keep_ledger(graph, steps, count, &l);
    RP_CHECK_EQUAL(l.peak, peak);
    RP_CHECK_EQUAL(report.live_peak_bytes, peak);
    RP_REQUIRE_EQUAL(l.logged, 17); /* the first is the seed */
    for (int i = 0; i < 16; i++)
        RP_CHECK(l.log[i + 1] == wanted[i], "%s: %d units behind op.%d.bwd, not %d", strategy,
                 (int)l.log[i + 1], 16 - i, (int)wanted[i]);
    RP_CHECK_EQUAL(l.live, 1); /* g_0 and nothing else */
    rp_plan_destroy(plan);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* Boundaries 4, 8 and 12: of what is replayed nothing outlives its reader, and nothing is replayed
 * before backward of the boundary, which does not read it. */
static void test_ME_01_recomputed_values_go_with_their_readers(void) {
    check_log("uniform:4", 9, (const int64_t[]){7, 6, 5, 4, 3, 5, 4, 3, 2, 4, 3, 2, 1, 3, 2, 1});
}

/* Not sixteen activations beside sixteen gradients. */
static void test_ME_22_activations_go_with_their_backward_op(void) {
    check_log("keep-all", 18,
              (const int64_t[]){16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1});
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, 16, 1, NULL, 1);
    size_t count = 0;
    rp_plan *plan = plan_of(graph, "keep-all", NULL);
    const rp_step *steps = rp_plan_steps(plan, &count);
    for (uint32_t i = 1; i <= 16; i++) { /* a_i is value i; op.i.bwd is node 33 - i */
        size_t s = 0;
        while (s < count && (steps[s].kind != RP_STEP_RUN || steps[s].index != 33 - i))
            s++;
        bool dropped = false;
        for (s++; s < count && steps[s].kind == RP_STEP_DROP; s++)
            dropped = dropped || steps[s].index == i;
        RP_CHECK(dropped, "a.%u outlives its backward op", i);
    }
    rp_plan_destroy(plan);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* Segments of eight: the boundary, the last segment and two gradients. */
static void test_ME_03_the_site_of_the_peak_is_named(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, 16, 1, NULL, 1);
    rp_plan_report report;
    rp_node_info node;
    rp_plan *plan = plan_of(graph, "uniform:8", &report);
    RP_CHECK_EQUAL(report.live_peak_bytes, 11);
    RP_REQUIRE(report.peak_node != RP_NONE, "no node is named");
    rp_graph_node(graph, report.peak_node, &node);
    RP_CHECK_STRING(node.name, "op.16.bwd");
    rp_plan_destroy(plan);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* ---- ME-12: each node once in, once out ------------------------------------------------------ */

/* 1 -> 2 -> 5, 1 -> 3 -> 5, 4 -> 5, kept: 1 and 4. Sizes are powers of two, so that no sum hides
 * another. What is left in the end is the gradient, which is persistent. */
static const char diamond[] = "p x 10\np g 4\n"
                              "f one 5 x -> v1:16 !keep\n"
                              "f two 5 v1 -> v2:8 !recompute\n"
                              "f three 5 v1 -> v3:4 !recompute\n"
                              "f four 5 x -> v4:32 !keep\n"
                              "f five 5 v2 v3 v4 -> v5:2\n"
                              "b five.bwd 1 v5 v2 v3 v4 -> d:64\n"
                              "b three.bwd 1 d v3 v1 -> e:128\n"
                              "b two.bwd 1 e v2 v1 -> g\n";

static void check_conservation(const rp_graph *graph, const rp_step *steps, size_t count,
                               int64_t peak) {
    ledger l;
    keep_ledger(graph, steps, count, &l);
    RP_CHECK_EQUAL(l.live, 0);
    RP_CHECK_EQUAL(l.peak + rp_graph_persistent_bytes(graph), peak);
    for (uint32_t v = 0; v < rp_graph_value_count(graph); v++)
        if (bytes_of(graph, v) > 0)
            RP_CHECK(l.added[v] == l.taken[v] && l.added[v] > 0, "value %u came %u times, went %u",
                     v, l.added[v], l.taken[v]);
    RP_CHECK_EQUAL(l.added[rp_test_value(graph, "v1")], 1);
    RP_CHECK_EQUAL(l.added[rp_test_value(graph, "v4")], 1);
    RP_CHECK(l.added[rp_test_value(graph, "v2")] > 1 && l.added[rp_test_value(graph, "v3")] > 1,
             "what is marked was not replayed");
}

static void test_ME_12_live_bytes_return_to_where_they_began(void) {
    static const rp_test_propose all[] = {rp_propose_sqrt, rp_propose_selective, rp_propose_auto};
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, diamond);
    for (size_t s = 0; s < sizeof all / sizeof all[0]; s++) {
        rp_candidates *set = rp_test_family(graph, all[s], 0);
        for (size_t i = 0; i < rp_candidates_count(set); i++) {
            rp_schedule schedule = {0};
            RP_REQUIRE_OK(context, rp_candidates_build(set, i, &schedule));
            check_conservation(graph, schedule.steps, schedule.count,
                               rp_candidates_get(set, i).live_peak_bytes);
            rp_schedule_clear(context, &schedule);
        }
        RP_CHECK_EQUAL(rp_candidates_get(set, 0).recompute_nodes, 2);
        rp_candidates_destroy(set);
    }
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* ---- ME-11: the plain run is a plan ---------------------------------------------------------- */

static void check_plain(const rp_graph *graph, const char *what, int number) {
    rp_context *const context = graph->context;
    rp_plan_report limits, report;
    RP_REQUIRE_OK(context, rp_plan_limits(graph, &limits));
    const int64_t plain = limits.keep_all_peak_bytes;
    for (int more = 0; more <= 1; more++) {
        RP_REQUIRE_OK(context, rp_test_plan_within(graph, NULL, plain + more, &report));
        RP_CHECK(report.recompute_nodes == 0, "%s %d: %d replays in plain + %d bytes", what, number,
                 (int)report.recompute_nodes, more);
        RP_CHECK_EQUAL(report.peak_bytes, plain);
    }
    const rp_status status =
        plain > 0 ? rp_test_plan_within(graph, NULL, plain - 1, &report) : RP_OK;
    if (status == RP_INFEASIBLE) {
        RP_CHECK_EQUAL(report.min_feasible_bytes, plain);
        return;
    }
    RP_REQUIRE_OK(context, status);
    RP_CHECK(plain == 0 || (report.recompute_nodes > 0 && report.peak_bytes < plain),
             "%s %d: %d replays one byte below plain", what, number, (int)report.recompute_nodes);
}

static void test_ME_11_the_plain_run_fits_its_own_peak(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graphs[] = {rp_test_chain(context, 1, 1, NULL, 1),
                          rp_test_chain(context, 16, 1 << 20, NULL, 1),
                          rp_test_transformer(context, 3, true), rp_test_unet(context, 4),
                          rp_test_written_graph(context, "p x 3\nf a 1 x -> y:1\no y\n")};
    for (int g = 0; g < 5; g++) {
        check_plain(graphs[g], "graph", g);
        rp_graph_destroy(graphs[g]);
    }
    for (int seed = 0; seed < (int)rp_test_samples(100, 200); seed++) {
        rp_graph *graph = rp_test_random_graph(context, (uint64_t)seed, 1 + (uint32_t)seed % 40,
                                               RP_TEST_EVERYTHING & ~RP_TEST_RECOMPUTE);
        check_plain(graph, "random graph", seed);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_ME_01_recomputed_values_go_with_their_readers),
    RP_TEST(test_ME_03_the_site_of_the_peak_is_named),
    RP_TEST(test_ME_11_the_plain_run_fits_its_own_peak),
    RP_TEST(test_ME_12_live_bytes_return_to_where_they_began),
    RP_TEST(test_ME_22_activations_go_with_their_backward_op),
};
RP_SUITE(accounting, tests)
