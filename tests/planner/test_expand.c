/* Decisions to schedules: whatever is decided, the schedule is valid and its peak is exact. */
#include "expand.h"
#include "families.h"
#include "graphs.h"
#include "strategy.h"
#include "verify.h"
#include "written.h"

/* Expands, builds, verifies; the verdict and the expansion must agree. */
static void check_expansion(rp_expander *x, const rp_drops *drops, rp_verdict *verdict) {
    const rp_graph *graph = x->graph;
    rp_context *const context = graph->context;
    bool within = false;
    rp_schedule schedule = {0};
    RP_REQUIRE_OK(context, rp_expander_run(x, drops, RP_NO_LIMITS, &within));
    RP_REQUIRE(within, "the expansion stopped");
    RP_REQUIRE_OK(context, rp_expander_build(x, &schedule));
    RP_REQUIRE_OK(context, rp_verify_schedule(graph, schedule.steps, schedule.count, verdict));
    RP_CHECK_EQUAL(x->peak, verdict->live_peak_bytes);
    RP_CHECK_EQUAL(x->cost, verdict->recompute_cost_ns);
    rp_schedule_clear(context, &schedule);
}

static void check_without_drops(rp_expander *x, rp_drops *drops) {
    const rp_graph *graph = x->graph;
    rp_verdict verdict, keep_all;
    rp_schedule schedule = {0};
    RP_REQUIRE_OK(graph->context, rp_drops_reset(x, drops));
    check_expansion(x, drops, &verdict);
    if (drops->size > 0)
        return;
    RP_REQUIRE_OK(graph->context, rp_keep_all_schedule(graph, &schedule));
    RP_CHECK_OK(graph->context,
                rp_verify_schedule(graph, schedule.steps, schedule.count, &keep_all));
    RP_CHECK_EQUAL(verdict.live_peak_bytes, keep_all.live_peak_bytes);
    RP_CHECK_EQUAL(verdict.recompute_nodes, 0);
    rp_schedule_clear(graph->context, &schedule);
}

static void check_random_drops(rp_context *context, uint64_t seed, int features) {
    rp_test_random random = {seed ^ 0x5EED};
    rp_graph *graph = rp_test_random_graph(context, seed, 1 + (uint32_t)(seed % 40), features);
    rp_expander x;
    rp_drops drops;
    const rp_status status = rp_expander_create(graph, &x);
    if (status == RP_INFEASIBLE) { /* a mark that cannot be honoured */
        RP_CHECK(features & RP_TEST_RECOMPUTE, "infeasible without a mark");
        rp_graph_destroy(graph);
        return;
    }
    RP_REQUIRE_OK(context, status);
    RP_REQUIRE_OK(context, rp_drops_create(&x, &drops));
    for (int round = 0; round < 4; round++) {
        rp_verdict verdict;
        check_without_drops(&x, &drops);
        const uint32_t count = 1 + rp_test_random_below(&random, 60);
        for (uint32_t i = 0; i < count; i++)
            RP_CHECK_OK(context,
                        rp_drops_add(&x, &drops,
                                     rp_test_random_below(&random, (uint32_t)graph->value_count),
                                     rp_test_random_below(&random, (uint32_t)graph->node_count)));
        check_expansion(&x, &drops, &verdict);
    }
    rp_drops_clear(context, &drops);
    rp_expander_clear(&x);
    rp_graph_destroy(graph);
}

static void test_GR_16_random_drops_on_random_graphs_are_valid(void) {
    rp_context *context = rp_test_context(1);
    const uint64_t count = rp_test_is_long() ? 50000 : 4000;
    for (uint64_t seed = 0; seed < count; seed++)
        check_random_drops(context, seed, (int)(seed * 2654435761u >> 7) & RP_TEST_EVERYTHING);
    rp_context_destroy(context);
}

/* Two slices of one parameter: the second view is no write; what read the first may run again. */
static void test_a_view_of_a_parameter_does_not_overwrite_it(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, "p pool 20\np x 10\n"
                                                     "f slice.0 0 pool -> v0=pool\n"
                                                     "f copy.0 1 v0 -> w0:100 !recompute\n"
                                                     "f mul.0 1 x w0 -> y:10\n"
                                                     "f slice.1 0 pool -> v1=pool\n"
                                                     "f copy.1 1 v1 -> w1:100 !recompute\n"
                                                     "f mul.1 1 y w1 -> z:10\n"
                                                     "b mul.1.bwd 1 z w1 -> dy:10\n"
                                                     "b mul.0.bwd 1 dy w0 -> dx:10\no dx\n");
    rp_candidates *set = rp_test_family(graph, rp_propose_auto, 0);
    RP_CHECK_EQUAL(rp_candidates_get(set, 0).recompute_nodes, 2);
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_GR_16_random_drops_on_random_graphs_are_valid),
    RP_TEST(test_a_view_of_a_parameter_does_not_overwrite_it),
};
RP_SUITE(expand, tests)
