/* Planning where the optimum is known: by counting how often it is reached. */
#ifndef REPRISE_TESTS_BENCH_PLANNER_COUNTS_H
#define REPRISE_TESTS_BENCH_PLANNER_COUNTS_H

#include <stdint.h>

typedef struct rp_counts {
    int points, missed, none; /* budgets; those with a dearer plan; with no plan */
    double worst;             /* largest difference, as a share of the total cost */
    int unproven;             /* budgets whose optimum the exact search did not prove in time */
} rp_counts;

/* Every distinct budget of `graphs` graphs: chains of up to 10 ops (kind 0), random graphs of up to
 * 12 nodes (kind 1). The child's work: `argument` is a rp_counts_task, `result` an rp_counts. */
typedef struct rp_counts_task {
    int kind;
    uint32_t graphs;
    const char *strategy;
    uint32_t longest; /* of Griewank's chains: all lengths up to here, every number of slots */
} rp_counts_task;

void rp_counts_exact(void *task, void *counts);
void rp_counts_griewank(void *task, void *counts);

#endif
