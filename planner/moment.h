/* The cheapest choice at one moment. While node m runs for the first time, everything written
 * before and needed behind it is either held, and counts its bytes, or its writer runs again later,
 * and then the inputs of that run are needed in the same way. At a price for a byte the cheapest
 * choice is a minimum cut; over all prices the cuts are the lower hull of (bytes held, cost of
 * replays). This is a relaxation of every schedule: whatever else a schedule does, at this moment
 * it made one of these choices. */
#ifndef REPRISE_PLANNER_MOMENT_H
#define REPRISE_PLANNER_MOMENT_H

#include "expand.h"
#include "mincut.h"

/* One choice: the values that are not carried into the stage. */
typedef struct rp_choice {
    uint32_t *values;
    size_t count;
    int64_t bytes, cost; /* held at the moment; of one replay of each writer. In scaled units */
    bool closed;         /* nothing lies below the line to the next choice */
} rp_choice;

/* of_bytes * bytes + of_cost * cost >= value for every choice at the moment, whatever stands on the
 * hull: what the cut at these prices has proven. In scaled units. */
typedef struct rp_support {
    int64_t of_bytes, of_cost, value;
} rp_support;

typedef struct rp_hull {
    rp_choice *choices; /* falling bytes, rising cost: from holding everything on */
    size_t count, capacity;
    rp_support *supports; /* one for each cut that was looked for */
    size_t support_count, support_capacity;
    int byte_shift, cost_shift; /* units of 2^shift bytes and nanoseconds, rounded down each */
} rp_hull;

/* The lower hull at stage `stage` (below node_count), thinned to `most` choices at least 2. Empty
 * when nothing can be dropped there. */
rp_status rp_hull_create(const rp_expander *expander, uint32_t stage, size_t most, rp_hull *hull);
void rp_hull_clear(rp_context *context, rp_hull *hull);

#endif
