/* What no plan can do better, whatever its order and however often its nodes run: a floor for its
 * bytes, and for every budget a least cost of recompute. Both look at single moments (moment.h):
 * while a node runs for the first time its working set is live, and of what was written before and
 * is needed behind it every storage is live too or is made again later. */
#ifndef REPRISE_PLANNER_BOUND_H
#define REPRISE_PLANNER_BOUND_H

#include "graph.h"

/* At one moment and one price: of_bytes * held + of_cost * cost >= value, in units of
 * 2^byte_shift bytes and 2^cost_shift ns. */
typedef struct rp_bound_line {
    int64_t base; /* bytes that are live at the moment in any case */
    int64_t of_bytes, of_cost, value;
    int byte_shift, cost_shift;
} rp_bound_line;

typedef struct rp_bound {
    int64_t floor_bytes;
    rp_bound_line *lines;
    size_t count, capacity;
} rp_bound;

/* Looks at the most promising moments only, as many as the size of the graph allows. */
rp_status rp_bound_create(const rp_graph *graph, rp_bound *bound);
void rp_bound_clear(rp_context *context, rp_bound *bound);

/* No schedule whose live peak is at most `budget_bytes` recomputes less than so many ns. Never
 * grows with the budget. */
int64_t rp_bound_cost(const rp_bound *bound, int64_t budget_bytes);

#endif
