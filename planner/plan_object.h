/* A plan in memory, and what its files share. */
#ifndef REPRISE_PLANNER_PLAN_OBJECT_H
#define REPRISE_PLANNER_PLAN_OBJECT_H

#include "layout.h"

struct rp_plan {
    const rp_graph *graph;
    rp_owned owned;
    char *strategy;
    rp_schedule schedule;
    rp_layout layout;
    rp_plan_report report;
};

/* Makes a plan of a schedule and its layout: verifies both and fills the report but for what
 * belongs to the graph and its strategies (bounds, minima, time). Takes over schedule and layout,
 * which are empty afterwards, also on failure. RP_BAD_INPUT: the verifier's words. */
rp_status rp_plan_assemble(const rp_graph *graph, const char *strategy, rp_schedule *schedule,
                           rp_layout *layout, int64_t budget_bytes, rp_plan **plan);

/* floor_bytes and lower_bound_ns of the report. */
rp_status rp_plan_add_bounds(rp_plan *plan);

/* The arena of the schedule without recompute. */
rp_status rp_plan_find_keep_all(const rp_graph *graph, int64_t *arena_bytes);

/* The mark that a plan suffers from at `peak_step`, as "; mark keep of node 3 (x) binds too" in
 * `text`; empty if none can be named. */
rp_status rp_plan_name_mark(const rp_graph *graph, const rp_schedule *schedule, uint32_t peak_step,
                            char *text, size_t bytes);

#endif
