/* Strategies: numbers in, schedules out. A strategy is one file and one row in strategy_list.h;
 * verifier, layout, budget and every planner test apply to it unchanged.
 *
 * A strategy proposes a family of schedules that depends on the graph alone; the budget only
 * selects from it (plan.c): the cheapest member whose arena fits. That is what makes cost and peak
 * monotone in the budget across processes, with nothing to prove: a larger budget selects from a
 * larger part of the same family. */
#ifndef REPRISE_PLANNER_STRATEGY_H
#define REPRISE_PLANNER_STRATEGY_H

#include "graph.h"
#include "schedule.h"

/* A family of schedules, as few as needed: members that another one beats in both peak and cost are
 * not kept. */
typedef struct rp_candidates rp_candidates;

typedef struct rp_candidate {
    int64_t live_peak_bytes, recompute_cost_ns;
} rp_candidate;

rp_status rp_candidates_create(const rp_graph *graph, rp_candidates **set);
void rp_candidates_destroy(rp_candidates *set);

/* Copies the schedule into the set unless it is dominated. It need not be verified: plan.c does
 * that. */
rp_status rp_candidates_offer(rp_candidates *set, const rp_schedule *schedule);

/* In order of rising cost and falling live peak. */
size_t rp_candidates_count(const rp_candidates *set);
rp_candidate rp_candidates_get(const rp_candidates *set, size_t i);
rp_status rp_candidates_build(const rp_candidates *set, size_t i, rp_schedule *schedule);

typedef struct rp_strategy {
    const char *name, *description;
    bool takes_argument; /* a number of at least 1 behind a colon */
    rp_status (*propose)(const rp_graph *graph, uint32_t argument, rp_candidates *set);
} rp_strategy;

#define RP_STRATEGY_PROTOTYPE(name, function, argument, description)                               \
    rp_status function(const rp_graph *graph, uint32_t argument_value, rp_candidates *set);
#include "strategy_list.h"
RP_STRATEGY_LIST(RP_STRATEGY_PROTOTYPE)
#undef RP_STRATEGY_PROTOTYPE

/* "uniform:2" -> the row and 2. RP_INVALID_ARGUMENT names what is known. */
rp_status rp_strategy_find(rp_context *context, const char *text, const rp_strategy **strategy,
                           uint32_t *argument);

/* The whole table: names[i].name is NULL behind the last. */
extern const rp_strategy rp_strategies[];

#endif
