/* The search of auto over all budgets. */
#ifndef REPRISE_PLANNER_FRONTIER_H
#define REPRISE_PLANNER_FRONTIER_H

#include "search.h"

/* How many runs of nodes the search may expand on this graph: grows with it, so that the time stays
 * within seconds, and depends on nothing else. */
int64_t rp_frontier_effort(const rp_graph *graph);

/* Makes the search's shelf, from the floor to the peak of keep-all, and puts keep-all on it. */
rp_status rp_frontier_begin(rp_search *search);

/* Searches from what stands on the shelf, and from minimum cuts, down to the smallest peak that it
 * finds and everything between, until the effort is spent. */
rp_status rp_frontier_explore(rp_search *search);

#endif
