/* A strategy's family of schedules with what a budget bounds: the arena of each. Arenas are found
 * when they are asked for, and only once. */
#ifndef REPRISE_PLANNER_FAMILY_H
#define REPRISE_PLANNER_FAMILY_H

#include "layout.h"
#include "strategy.h"

typedef struct rp_family {
    const rp_graph *graph;
    rp_candidates *set;
    size_t count;
    int64_t *arenas; /* of each member, or -1 */
} rp_family;

/* RP_NOT_APPLICABLE and RP_INFEASIBLE (a mark that cannot be honoured) come from the strategy; a
 * family without members is RP_INFEASIBLE too. */
rp_status rp_family_create(const rp_graph *graph, const rp_strategy *strategy, uint32_t argument,
                           rp_family *family);
void rp_family_clear(rp_family *family);

/* The member's schedule and where it lies; the caller clears both. */
rp_status rp_family_build(rp_family *family, size_t member, rp_schedule *schedule,
                          rp_layout *layout);

rp_status rp_family_arena(rp_family *family, size_t member, int64_t *bytes);

/* The cheapest member whose arena fits; `count` if none does. */
rp_status rp_family_select(rp_family *family, int64_t budget_bytes, size_t *member);

/* The cheapest of the members with the smallest arena. */
rp_status rp_family_minimum(rp_family *family, size_t *member, int64_t *bytes);

#endif
