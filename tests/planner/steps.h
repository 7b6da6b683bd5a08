/* Schedules written down in a test. */
#ifndef REPRISE_TESTS_PLANNER_STEPS_H
#define REPRISE_TESTS_PLANNER_STEPS_H

#include "graph.h"
#include "schedule.h"

/* Pairs of words: "run f drop a offload b wait b fetch b wait b", with names of nodes and values.
 * Ends the test if the text makes no sense; the caller clears the schedule. */
rp_schedule rp_test_steps(const rp_graph *graph, const char *text);

/* The other way round, for messages: steps with numbers, cut to what fits. */
void rp_test_steps_text(const rp_step *steps, size_t count, char *text, size_t bytes);

/* Whether node `node` may run again when the first `ran` nodes have run: it may at all, and nothing
 * that it reads has been overwritten since. By a scan over everything. */
bool rp_test_may_run_again(const rp_graph *graph, uint32_t node, uint32_t ran);

#endif
