/* The op-level family of auto. */
#ifndef REPRISE_PLANNER_FRONTIER_H
#define REPRISE_PLANNER_FRONTIER_H

#include "strategy.h"

/* How many runs of nodes the search may expand on this graph: grows with it, so that the time stays
 * within seconds, and depends on nothing else. */
int64_t rp_frontier_effort(const rp_graph *graph);

/* Offers schedules from keep-all down to the smallest peak that the search finds. */
rp_status rp_frontier_propose(const rp_graph *graph, int64_t effort, rp_candidates *set);

#endif
