/* A strategy's family of schedules with what a budget bounds: the arena of each. Arenas are found
 * when they are asked for, and only once. */
#ifndef REPRISE_PLANNER_FAMILY_H
#define REPRISE_PLANNER_FAMILY_H

#include "bound.h"
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

/* What every plan needs and the graph alone decides: its bounds, the family of auto and the minimum
 * of that. It is kept with the graph: a second plan costs a fraction of the first. `milliseconds`
 * is what making family and minimum took, now or then. */
typedef struct rp_memo {
    rp_bound bound;
    bool is_bounded;
    rp_family family;
    size_t minimum; /* the cheapest member with the smallest arena */
    int64_t minimum_bytes;
    double milliseconds;
} rp_memo;

/* An empty one, or NULL. */
rp_memo *rp_memo_create(const rp_graph *graph);
void rp_memo_destroy(const rp_graph *graph);

/* Fills the graph's memo unless it is filled. */
rp_status rp_memo_open(const rp_graph *graph, rp_memo **memo);

/* The graph's bounds, made when they are first asked for. */
rp_status rp_memo_bound(const rp_graph *graph, const rp_bound **bound);

/* Lets the graph forget what is too large to keep. */
void rp_memo_close(const rp_graph *graph);

/* Now, of a clock that only goes forward. */
double rp_milliseconds(void);

/* The member's schedule and where it lies; the caller clears both. */
rp_status rp_family_build(rp_family *family, size_t member, rp_schedule *schedule,
                          rp_layout *layout);

rp_status rp_family_arena(rp_family *family, size_t member, int64_t *bytes);

/* The cheapest member whose arena fits; `count` if none does. */
rp_status rp_family_select(rp_family *family, int64_t budget_bytes, size_t *member);

/* The cheapest of the members with the smallest arena. */
rp_status rp_family_minimum(rp_family *family, size_t *member, int64_t *bytes);

#endif
