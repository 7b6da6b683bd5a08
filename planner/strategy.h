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

/* Of two that cost the same the one with fewer runs is the cheaper one: what costs nothing is not
 * recomputed for nothing either. */
typedef struct rp_candidate {
    int64_t live_peak_bytes, recompute_cost_ns;
    uint64_t recompute_nodes; /* runs beyond the first of each node */
} rp_candidate;

rp_status rp_candidates_create(const rp_graph *graph, rp_candidates **set);
void rp_candidates_destroy(rp_candidates *set);

/* Measures the schedule with the verifier and copies it into the set unless a member beats it in
 * peak and cost, or equals it in both. A schedule that breaks a rule is refused with the verifier's
 * status and message. */
rp_status rp_candidates_offer(rp_candidates *set, const rp_schedule *schedule);

/* The same with the schedule that the expander holds, and with its measure. The verifier looks at
 * it when it is first asked for: few members ever are. */
struct rp_expander;
rp_status rp_candidates_offer_expansion(rp_candidates *set, struct rp_expander *expander);

/* Expands the decisions and offers the schedule. Nothing is offered where the schedule would be out
 * of all proportion (expand.h). */
struct rp_drops;
rp_status rp_candidates_offer_drops(rp_candidates *set, struct rp_expander *expander,
                                    const struct rp_drops *drops);

/* Notes that no schedule whose live peak is at most `budget_bytes` recomputes less than `least_ns`;
 * INT64_MAX: there is none at all. */
rp_status rp_candidates_prove(rp_candidates *set, int64_t budget_bytes, int64_t least_ns);

/* What is noted for a budget: 0 if nothing is. */
int64_t rp_candidates_proven(const rp_candidates *set, int64_t budget_bytes);

/* No schedule has a smaller live peak, as far as is noted; 0 if nothing is. */
int64_t rp_candidates_floor(const rp_candidates *set);

/* Whether an offer with this measure would be kept: saves building schedules for nothing. */
bool rp_candidates_wants(const rp_candidates *set, rp_candidate measure);

/* In order of falling live peak and rising cost; neighbours may cost the same and then differ in
 * their runs. */
size_t rp_candidates_count(const rp_candidates *set);
rp_candidate rp_candidates_get(const rp_candidates *set, size_t i);
/* RP_INTERNAL_ERROR: the schedule is wrong, or not what it was offered as. */
rp_status rp_candidates_build(rp_candidates *set, size_t i, rp_schedule *schedule);

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

/* The schedule without recompute: each value dropped right behind its last reader, or its writer if
 * nothing reads it. It does not look at marks: it is the yardstick, and the strategy keep-all where
 * no mark asks for more. */
rp_status rp_keep_all_schedule(const rp_graph *graph, rp_schedule *schedule);

/* "uniform:2" -> the row and 2. RP_INVALID_ARGUMENT names what is known. */
rp_status rp_strategy_find(rp_context *context, const char *text, const rp_strategy **strategy,
                           uint32_t *argument);

/* The whole table: names[i].name is NULL behind the last. */
extern const rp_strategy rp_strategies[];

#endif
