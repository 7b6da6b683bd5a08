/* Bounds against every schedule that any strategy proposes: none may lie below them. (Against true
 * optima: test_exact.c.) */
#include "bound.h"
#include "expand.h"
#include "families.h"
#include "graphs.h"

static void check_family(const rp_graph *graph, const rp_bound *bound, const rp_strategy *strategy,
                         uint32_t argument) {
    rp_candidates *set = NULL;
    RP_REQUIRE_OK(graph->context, rp_candidates_create(graph, &set));
    const rp_status status = strategy->propose(graph, argument, set);
    RP_CHECK(status == RP_OK || status == RP_NOT_APPLICABLE || status == RP_INFEASIBLE, "%s: %s",
             strategy->name, rp_context_message(graph->context));
    for (size_t i = 0; i < rp_candidates_count(set); i++) {
        const rp_candidate member = rp_candidates_get(set, i);
        const int64_t least = rp_bound_cost(bound, member.live_peak_bytes);
        RP_CHECK(least <= member.recompute_cost_ns, "%s: bound %lld, cost %lld", strategy->name,
                 (long long)least, (long long)member.recompute_cost_ns);
        RP_CHECK(bound->floor_bytes <= member.live_peak_bytes, "%s: floor %lld, peak %lld",
                 strategy->name, (long long)bound->floor_bytes, (long long)member.live_peak_bytes);
    }
    rp_candidates_destroy(set);
}

static void check_graph(rp_graph *graph) {
    rp_bound bound;
    RP_REQUIRE_OK(graph->context, rp_bound_create(graph, &bound));
    for (const rp_strategy *s = rp_strategies; s->name != NULL; s++)
        if (s->propose != rp_propose_exact)
            check_family(graph, &bound, s, 2);
    int64_t before = INT64_MAX;
    for (int64_t budget = bound.floor_bytes; budget < 2 * bound.floor_bytes + 100;
         budget += 1 + bound.floor_bytes / 50) {
        const int64_t least = rp_bound_cost(&bound, budget);
        RP_CHECK(least <= before, "the bound grows with the budget");
        before = least;
    }
    if (rp_graph_find_kept_mark(graph) == RP_NONE)
        RP_CHECK_EQUAL(rp_bound_cost(&bound, RP_UNLIMITED), 0);
    rp_bound_clear(graph->context, &bound);
    rp_graph_destroy(graph);
}

static void test_no_schedule_lies_below_the_bounds(void) {
    rp_context *context = rp_test_context(1);
    const uint64_t seeds = rp_test_samples(100, 2000);
    const int all = RP_TEST_EVERYTHING & ~RP_TEST_RECOMPUTE;
    for (uint64_t seed = 0; seed < seeds; seed++)
        check_graph(rp_test_random_graph(context, seed, 2 + (uint32_t)(seed % 40),
                                         (int)(seed * 37 % 1024) & all));
    check_graph(rp_test_unet(context, 5));
    for (uint32_t length = 1; length < 12; length++)
        check_graph(rp_test_chain(context, length, 4096, NULL, 1000));
    rp_context_destroy(context);
}

/* What a recompute mark forces counts in the bound, too, and is never counted twice. */
static void test_bounds_know_marks(void) {
    rp_context *context = rp_test_context(1);
    const uint64_t seeds = rp_test_samples(100, 200);
    for (uint64_t seed = 0; seed < seeds; seed++)
        check_graph(rp_test_random_graph(context, seed, 4 + (uint32_t)(seed % 24),
                                         RP_TEST_BACKWARD | RP_TEST_RECOMPUTE | RP_TEST_KEEP |
                                             (int)(seed % 2) * RP_TEST_OUTPUTS |
                                             (int)(seed % 3 == 0) * RP_TEST_VIEWS));
    rp_context_destroy(context);
}

/* How far auto's plans lie above the bound, down to 0.3 of the peak of keep-all. */
static void test_bounds_of_transformers_are_close(void) {
    rp_context *context = rp_test_context(1);
    for (int unfused = 0; unfused < (int)rp_test_samples(2, 2); unfused++) {
        rp_graph *graph = rp_test_transformer(context, 12, unfused != 0);
        rp_candidates *set = rp_test_family(graph, rp_propose_auto, 0);
        rp_bound bound;
        RP_REQUIRE_OK(context, rp_bound_create(graph, &bound));
        const int64_t top = rp_candidates_get(set, 0).live_peak_bytes;
        for (int64_t tenths = 9; tenths >= 3; tenths--) {
            const int64_t budget = top / 10 * tenths, cost = rp_test_cost_within(set, budget);
            RP_REQUIRE(cost >= 0, "no plan at %lld tenths", (long long)tenths);
            const int64_t gap = cost - rp_bound_cost(&bound, budget);
            RP_CHECK(gap <= graph->total_cost_ns / 100, "%lld tenths: %g %% of the step",
                     (long long)tenths, 100.0 * (double)gap / (double)graph->total_cost_ns);
        }
        rp_bound_clear(context, &bound);
        rp_candidates_destroy(set);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_no_schedule_lies_below_the_bounds),
    RP_TEST(test_bounds_know_marks),
    RP_TEST(test_bounds_of_transformers_are_close),
};
RP_SUITE(bound, tests)
