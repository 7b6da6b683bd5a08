/* The verifier: proves a schedule by interpreting it, and shares no code with any planner or with
 * the layout. Semantics: interfaces, section 2. */
#ifndef REPRISE_PLANNER_VERIFY_H
#define REPRISE_PLANNER_VERIFY_H

#include "graph.h"
#include "schedule.h"

typedef struct rp_verdict {
    int64_t live_peak_bytes;       /* persistent values included */
    uint32_t peak_step, peak_node; /* the first moment of the peak; RP_NONE in an empty schedule */
    uint64_t recompute_nodes;
    int64_t recompute_cost_ns;
    int64_t arena_bytes; /* with placements: what they need, at least the live peak; else 0 */
} rp_verdict;

/* RP_BAD_INPUT with the step and the reason in the context's message when the schedule breaks a
 * rule. */
rp_status rp_verify_schedule(const rp_graph *graph, const rp_step *steps, size_t count,
                             rp_verdict *verdict);

/* The same, and that no two live storages overlap, workspaces included, nothing is misaligned or
 * missing, and everything lies below `peak_bytes`. A workspace without an entry needs a hole that
 * is large enough. */
rp_status rp_verify_placements(const rp_graph *graph, const rp_step *steps, size_t count,
                               const rp_placement *placements, size_t placement_count,
                               int64_t peak_bytes, rp_verdict *verdict);

/* The same, and where the workspaces without an entry fit: `*workspaces`, ascending step, which the
 * caller frees. */
rp_status rp_verify_find_workspaces(const rp_graph *graph, const rp_step *steps, size_t count,
                                    const rp_placement *placements, size_t placement_count,
                                    int64_t peak_bytes, rp_verdict *verdict,
                                    rp_placement **workspaces, size_t *workspace_count);

#endif
