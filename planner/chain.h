/* A graph as a chain: the forward phase in stages, each reading what the one before it hands on,
 * and a backward phase that asks for what they wrote in the opposite order. What checkpointing of
 * chains (strategy_revolve.c, strategy_chain_dp.c) needs to know of a graph.
 *
 * Stages are numbered from 1. State k is what stage k hands on: its values that stage k + 1 reads,
 * and of the last stage those that only backward reads; state 0 is what persists. All other values
 * of a stage are its inner ones: they are made again from the state before it. */
#ifndef REPRISE_PLANNER_CHAIN_H
#define REPRISE_PLANNER_CHAIN_H

#include "expand.h"

typedef struct rp_chain {
    uint32_t count;  /* stages */
    uint32_t *begin; /* stage k is the nodes from begin[k - 1] to begin[k] - 1 */
    uint32_t *stage; /* of each node; 0: a backward one */
    bool *is_state;  /* of each value: it belongs to a state, else to no or to an inner one */
    /* Of each state: the first backward node that asks for it, or for an inner value of the stage
     * behind it. A state that nobody asks for has that of the state before. */
    uint32_t *demand;
    uint32_t top; /* the last state that is asked for */
} rp_chain;

/* Stages are blocks, and what stands between blocks; in a graph without labels, nodes or, where
 * these are no chain, the blocks that repeat. Stages that a value skips make the graph no chain or,
 * with `merge`, are joined to one; and so are neighbours until there are at most `most`.
 * RP_NOT_APPLICABLE names what is not a chain; `who` asks. */
rp_status rp_chain_create(const rp_graph *graph, const char *who, bool merge, uint32_t most,
                          rp_chain *chain);
void rp_chain_clear(rp_context *context, rp_chain *chain);

/* From state `from` to state `to` without a stop: what the stages between them write is not carried
 * behind graph stage `at`, but for state `to`. */
rp_status rp_chain_advance(const rp_chain *chain, const rp_expander *expander, uint32_t from,
                           uint32_t to, uint32_t at, rp_drops *drops);

#endif
