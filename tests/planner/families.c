/* Proposing a strategy's family in a test, and looking into it. */
#include "families.h"

#include "verify.h"

static void check_member(const rp_graph *graph, rp_candidates *set, size_t i) {
    rp_context *const context = graph->context;
    const rp_candidate measure = rp_candidates_get(set, i);
    rp_schedule schedule = {0};
    rp_verdict verdict;
    RP_REQUIRE_OK(context, rp_candidates_build(set, i, &schedule));
    RP_REQUIRE_OK(context, rp_verify_schedule(graph, schedule.steps, schedule.count, &verdict));
    RP_CHECK_EQUAL(measure.live_peak_bytes, verdict.live_peak_bytes);
    RP_CHECK_EQUAL(measure.recompute_cost_ns, verdict.recompute_cost_ns);
    RP_CHECK_EQUAL(measure.recompute_nodes, verdict.recompute_nodes);
    rp_schedule_clear(context, &schedule);
    if (i == 0)
        return;
    const rp_candidate before = rp_candidates_get(set, i - 1);
    RP_CHECK(before.live_peak_bytes > measure.live_peak_bytes, "member %zu: the peak", i);
    RP_CHECK(before.recompute_cost_ns < measure.recompute_cost_ns ||
                 (before.recompute_cost_ns == measure.recompute_cost_ns &&
                  before.recompute_nodes < measure.recompute_nodes),
             "member %zu: the cost", i);
}

rp_candidates *rp_test_family(const rp_graph *graph, rp_test_propose propose, uint32_t argument) {
    rp_candidates *set = NULL;
    RP_REQUIRE_OK(graph->context, rp_candidates_create(graph, &set));
    RP_REQUIRE_OK(graph->context, propose(graph, argument, set));
    RP_REQUIRE(rp_candidates_count(set) > 0, "an empty family");
    for (size_t i = 0; i < rp_candidates_count(set); i++)
        check_member(graph, set, i);
    return set;
}

size_t rp_test_cheapest(const rp_candidates *set, int64_t peak) {
    size_t i = 0;
    while (i < rp_candidates_count(set) && rp_candidates_get(set, i).live_peak_bytes > peak)
        i++;
    return i;
}

int64_t rp_test_cost_within(const rp_candidates *set, int64_t peak) {
    const size_t i = rp_test_cheapest(set, peak);
    return i < rp_candidates_count(set) ? rp_candidates_get(set, i).recompute_cost_ns : -1;
}

int64_t rp_test_minimum(const rp_candidates *set) {
    return rp_candidates_get(set, rp_candidates_count(set) - 1).live_peak_bytes;
}

rp_status rp_test_plan_within(const rp_graph *graph, const char *strategy, int64_t budget,
                              rp_plan_report *report) {
    const rp_plan_options options = {sizeof options, budget, strategy};
    rp_plan *plan = NULL;
    const rp_status status = rp_plan_create(graph, &options, &plan, report);
    RP_CHECK((status == RP_OK) == (plan != NULL), "%s: a plan and %s",
             strategy != NULL ? strategy : "auto", rp_status_name(status));
    rp_plan_destroy(plan);
    return status;
}
