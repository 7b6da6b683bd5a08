/* Unfinished schedules as a best-first search meets them: each state once, by what has run and what
 * is live, and a queue of those that are still to be looked at, the most promising first. */
#ifndef REPRISE_PLANNER_STATES_H
#define REPRISE_PLANNER_STATES_H

#include "hash.h"

/* How a state was reached for the least cost. */
typedef struct rp_state {
    int64_t cost;  /* of the recomputes so far */
    int64_t least; /* that, and what must still come whatever is decided */
    uint32_t runs; /* recomputes so far */
    uint32_t node; /* the run that led here, or RP_NONE: something was dropped */
    const struct rp_state *before;
    bool done; /* it has been looked at */
    UT_hash_handle hh;
    /* the key: the stage, which is the node whose first run comes next, and of each slot of a value
     * 0 or its storage */
    uint32_t stage;
    uint8_t live[];
} rp_state;

typedef struct rp_states {
    rp_context *context;
    size_t slots, stride, count;
    uint8_t **blocks; /* of states, which stay where they are */
    size_t block_count, block_capacity;
    rp_state *table;
    struct rp_queued {
        int64_t least;
        uint32_t runs, stage;
        uint64_t order;
        rp_state *state;
    } * queue; /* a binary heap */
    size_t queue_count, queue_capacity;
    uint64_t order;
} rp_states;

void rp_states_create(rp_context *context, size_t slots, rp_states *states);
void rp_states_clear(rp_states *states);

/* A state for rp_states_offer, all zero; the caller frees it with rp_free. NULL when memory is
 * short. */
rp_state *rp_states_draft(const rp_states *states);

/* Keeps a copy of the draft unless its state is known at no higher cost. False when memory is
 * short. */
bool rp_states_offer(rp_states *states, const rp_state *draft);

/* The most promising state that has not been looked at; NULL if there is none. */
rp_state *rp_states_take(rp_states *states);

#endif
