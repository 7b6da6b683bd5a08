/* Planning where the optimum is known. */
#include "planner_counts.h"

#include "exact.h"
#include "models.h"
#include "unit.h"
#include "verify.h"

enum { ENOUGH = 2000000 }; /* states of an exact search */

/* Cost of the strategy's cheapest schedule within so many live bytes, or -1. */
static int64_t cost_within(const rp_candidates *set, int64_t budget) {
    for (size_t i = 0; i < rp_candidates_count(set); i++)
        if (rp_candidates_get(set, i).live_peak_bytes <= budget)
            return rp_candidates_get(set, i).recompute_cost_ns;
    return -1;
}

static rp_candidates *propose(const rp_graph *graph, const char *name) {
    const rp_strategy *strategy = NULL;
    uint32_t argument = 0;
    rp_candidates *set = NULL;
    RP_REQUIRE_OK(graph->context, rp_strategy_find(graph->context, name, &strategy, &argument));
    RP_REQUIRE_OK(graph->context, rp_candidates_create(graph, &set));
    const rp_status status = strategy->propose(graph, argument, set);
    RP_CHECK(status == RP_OK || status == RP_INFEASIBLE || status == RP_NOT_APPLICABLE, "%s",
             rp_context_message(graph->context));
    return set;
}

static void note(rp_counts *counts, int64_t cost, int64_t optimum, int64_t total) {
    const double difference = total > 0 ? (double)(cost - optimum) / (double)total : 0;
    counts->points++;
    counts->none += cost < 0;
    counts->missed += cost > optimum;
    if (cost >= 0 && difference > counts->worst)
        counts->worst = difference;
}

/* The cheapest schedule within the budget; false: there is none, or it took too long. */
static bool solve(const rp_graph *graph, int64_t budget, rp_verdict *best, rp_counts *counts) {
    rp_exact_result result;
    rp_schedule schedule = {.steps = NULL};
    int64_t effort = ENOUGH;
    RP_REQUIRE_OK(graph->context,
                  rp_exact_solve(graph, budget, INT64_MAX, &effort, &result, &schedule));
    counts->unproven += result.outcome == RP_EXACT_STOPPED;
    if (result.outcome == RP_EXACT_FOUND)
        RP_REQUIRE_OK(graph->context,
                      rp_verify_schedule(graph, schedule.steps, schedule.count, best));
    rp_schedule_clear(graph->context, &schedule);
    return result.outcome == RP_EXACT_FOUND;
}

static rp_graph *small_graph(rp_context *context, const rp_counts_task *task, uint32_t i) {
    if (task->kind == 0)
        return rp_test_uneven_chain(context, i, 1 + i % 10);
    return rp_test_random_graph(context, i, 2 + i % 11, (int)(i * 37 % 1024));
}

void rp_counts_exact(void *argument, void *result) {
    const rp_counts_task *task = argument;
    rp_counts *counts = result;
    rp_context *context = rp_test_context(1);
    for (uint32_t i = 0; i < task->graphs; i++) {
        rp_graph *graph = small_graph(context, task, i);
        rp_candidates *set = propose(graph, task->strategy);
        rp_verdict best = {0};
        for (int64_t budget = INT64_MAX; solve(graph, budget, &best, counts);
             budget = best.live_peak_bytes - 1)
            note(counts, cost_within(set, best.live_peak_bytes), best.recompute_cost_ns,
                 rp_graph_total_cost_ns(graph));
        rp_candidates_destroy(set);
        rp_graph_destroy(graph);
    }
}

void rp_counts_griewank(void *argument, void *result) {
    const rp_counts_task *task = argument;
    rp_counts *counts = result;
    rp_context *context = rp_test_context(1);
    for (uint32_t length = task->graphs; length <= task->longest; length++) {
        rp_graph *graph = rp_test_griewank(context, length);
        rp_candidates *set = propose(graph, task->strategy);
        for (uint32_t s = 1; s < length; s++)
            note(counts, cost_within(set, s + 1), rp_test_griewank_optimum(length, s),
                 rp_graph_total_cost_ns(graph));
        rp_candidates_destroy(set);
        rp_graph_destroy(graph);
    }
}
