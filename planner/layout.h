/* From a valid schedule to addresses: every storage gets an offset in one arena before anything
 * runs. */
#ifndef REPRISE_PLANNER_LAYOUT_H
#define REPRISE_PLANNER_LAYOUT_H

#include "graph.h"
#include "schedule.h"

typedef struct rp_layout {
    /* ascending (step, value); persistent values at step 0, packed from offset 0 */
    rp_placement *placements;
    size_t count;
    int64_t arena_bytes; /* persistent values included */
    int64_t live_peak_bytes;
} rp_layout;

/* How much a packing that does not meet the live peak may cost: milliseconds, or some 100 ms. Easy
 * schedules get the same layout from both. */
typedef enum rp_layout_effort { RP_LAYOUT_QUICK, RP_LAYOUT_THOROUGH } rp_layout_effort;

/* Searches until the arena equals the live peak or the effort (counted in looks at blocks, never in
 * seconds) is spent. The schedule must be valid. Depends on its arguments alone. */
rp_status rp_layout_create(const rp_graph *graph, const rp_schedule *schedule,
                           rp_layout_effort effort, rp_layout *layout);
void rp_layout_clear(rp_context *context, rp_layout *layout);

#endif
