/* A second reading of the rules for schedules, as plain as can be and shared with nothing: every
 * question is answered by a scan over everything. */
#ifndef REPRISE_TESTS_PLANNER_NAIVE_H
#define REPRISE_TESTS_PLANNER_NAIVE_H

#include <reprise/plan.h>

typedef struct rp_naive {
    bool valid;
    int64_t live_peak_bytes, recompute_cost_ns;
    uint64_t recompute_nodes;
    /* outputs with bytes that take an input's place; the smaller ones; those that lie elsewhere */
    int in_place, in_smaller, elsewhere;
} rp_naive;

rp_naive rp_naive_check(const rp_graph *graph, const rp_step *steps, size_t count);

/* With a look at the places of in-place outputs. */
rp_naive rp_naive_check_places(const rp_graph *graph, const rp_step *steps, size_t count,
                               const rp_placement *places, size_t place_count);

#endif
