/* A plan from a file, reported like one made here. */
#ifndef EXAMPLES_LOAD_PLAN_H
#define EXAMPLES_LOAD_PLAN_H

#include "failure.h"

/* rp_plan_load, and the limits of the graph in `report` beside it, also after STATUS_INFEASIBLE:
 * what a graph needs does not depend on who made the plan. */
bool load_plan(const rp_graph *graph, rp_context *context, const char *path, int64_t budget,
               rp_plan **plan, rp_plan_report *report, failure *failure);

#endif
