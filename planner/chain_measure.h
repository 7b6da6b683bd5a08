/* What the stages of a chain cost and take, for planners that work with stages alone. */
#ifndef REPRISE_PLANNER_CHAIN_MEASURE_H
#define REPRISE_PLANNER_CHAIN_MEASURE_H

#include "chain.h"

/* Bytes are those of storages that begin in the chain, so that persistent values count nowhere. */
typedef struct rp_stage_measure {
    int64_t state_bytes; /* of state k */
    int64_t inner_bytes; /* inner values that backward reads */
    /* Nodes that must run, from the state before, for state k, for the inner values, for both. */
    int64_t state_cost, inner_cost, both_cost;
    /* The most that is live in stage k beside the state before it, nothing kept, if that state is
     * held; the most that is live, that state counted, if it goes on the way; the most beside it
     * if all inner values are kept, and if only they are made again. */
    int64_t held_peak, passing_peak, keeping_peak, inner_peak;
    /* What backward itself takes when it begins to ask for state k, and at most from there until it
     * asks for the state before, inner values of stage k + 1 counted as long as it needs them. */
    int64_t gradients, backward_peak;
} rp_stage_measure;

/* `measures` has one entry for each state, 0 to the count; those of stage 0 are 0. */
rp_status rp_chain_measure(const rp_graph *graph, const rp_chain *chain,
                           rp_stage_measure *measures);

#endif
