/* The cheapest schedule within a budget of live bytes, proven, by best-first search over states.
 * For small graphs: the number of states grows exponentially with the values that may wait.
 *
 * A state is which node's first run comes next and which values are live on which storages. A move
 * runs one node whose inputs are live. Before it, and only where it would not fit, storages are
 * dropped, never more than needed: whatever could be done with fewer values live can be done with
 * more of them, which may still be dropped later (exact.c has the exceptions). The replays that a
 * state is bound to are a lower bound for the rest of the way. */
#ifndef REPRISE_PLANNER_EXACT_H
#define REPRISE_PLANNER_EXACT_H

#include "graph.h"
#include "schedule.h"
#include "strategy.h"

enum { RP_EXACT_MOST_VALUES = 120 }; /* activations; a state names the storage of each in 7 bits */

typedef enum rp_exact_outcome {
    RP_EXACT_FOUND,  /* the cheapest schedule, below the limit */
    RP_EXACT_NONE,   /* none lies below the limit */
    RP_EXACT_STOPPED /* the effort was spent before that was known */
} rp_exact_outcome;

typedef struct rp_exact_result {
    rp_exact_outcome outcome;
    int64_t least; /* proven: no schedule within the budget recomputes less */
} rp_exact_result;

/* The schedule of RP_EXACT_FOUND, whose live peak is at most `budget_bytes` and whose recompute
 * costs less than `limit_ns`. `*effort` is how many states may still be reached; what was spent is
 * taken off. The graph has at most RP_EXACT_MOST_VALUES activations. */
rp_status rp_exact_solve(const rp_graph *graph, int64_t budget_bytes, int64_t limit_ns,
                         int64_t *effort, rp_exact_result *result, rp_schedule *schedule);

/* Makes the family exact from its cheapest member down, and notes what is proven, as far as the
 * effort goes: at most `most` states for one budget and `effort` for all. Looks at no live peak
 * below `bottom`. Nothing happens where there are too many values. */
rp_status rp_exact_improve(const rp_graph *graph, int64_t bottom, int64_t most, int64_t effort,
                           rp_candidates *set);

#endif
