/* Proposing a strategy's family in a test, and looking into it; and at one plan of it. */
#ifndef REPRISE_TESTS_PLANNER_FAMILIES_H
#define REPRISE_TESTS_PLANNER_FAMILIES_H

#include "strategy.h"
#include "unit.h"

typedef rp_status (*rp_test_propose)(const rp_graph *graph, uint32_t argument, rp_candidates *set);

/* The family; ends the test if it cannot be proposed or is empty. Checks that every member is
 * valid, measures what it says, and that peak falls and cost rises along it. */
rp_candidates *rp_test_family(const rp_graph *graph, rp_test_propose propose, uint32_t argument);

/* The cheapest member whose live peak is at most `peak`: its place, or the count if there is
 * none. */
size_t rp_test_cheapest(const rp_candidates *set, int64_t peak);

/* Its recompute cost, or -1. */
int64_t rp_test_cost_within(const rp_candidates *set, int64_t peak);

/* The smallest live peak of the family. */
int64_t rp_test_minimum(const rp_candidates *set);

/* What a plan of the strategy within the budget reports; NULL: of auto. */
rp_status rp_test_plan_within(const rp_graph *graph, const char *strategy, int64_t budget,
                              rp_plan_report *report);

#endif
