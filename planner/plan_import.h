/* What comes from elsewhere before it is a plan. */
#ifndef REPRISE_PLANNER_PLAN_IMPORT_H
#define REPRISE_PLANNER_PLAN_IMPORT_H

#include "plan_object.h"

/* A plan as it was given: steps, and whatever else was stated. */
typedef struct rp_draft {
    const char *strategy; /* NULL: not stated */
    rp_schedule schedule;
    rp_placement *placements;
    size_t placement_count, placement_capacity;
    int64_t peak_bytes, live_peak_bytes; /* -1: not stated */
    int64_t budget_bytes;
    bool own_budget; /* the budget is the draft's own: to exceed it is a contradiction */
} rp_draft;

#define RP_DRAFT(budget)                                                                           \
    { .peak_bytes = -1, .live_peak_bytes = -1, .budget_bytes = (budget) }

void rp_draft_clear(rp_context *context, rp_draft *draft);

/* A finished graph and a budget that is one. */
rp_status rp_plan_check_import(const rp_graph *graph, int64_t budget_bytes);

/* Verifies the draft and makes a plan of it. The draft may lose its schedule to the plan. */
rp_status rp_plan_admit(const rp_graph *graph, rp_draft *draft, rp_plan **plan,
                        rp_plan_report *report);

#endif
