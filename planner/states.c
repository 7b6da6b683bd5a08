/* States lie in blocks, the table links them, the heap orders them. A state that was reached again
 * for less is queued again; its older entries are skipped when they come up. */
#include "states.h"

#include <string.h>

enum { STATES_PER_BLOCK = 1024 };

void rp_states_create(rp_context *context, size_t slots, rp_states *states) {
    const size_t bytes = sizeof(rp_state) + slots;
    *states = (rp_states){.context = context,
                          .slots = slots,
                          .stride = (bytes + _Alignof(rp_state) - 1) / _Alignof(rp_state) *
                                    _Alignof(rp_state)};
}

void rp_states_clear(rp_states *states) {
    rp_context *const hash_context = states->context;
    if (hash_context == NULL)
        return;
    HASH_CLEAR(hh, states->table);
    for (size_t i = 0; i < states->block_count; i++)
        rp_free(hash_context, states->blocks[i]);
    rp_free(hash_context, states->blocks);
    rp_free(hash_context, states->queue);
    *states = (rp_states){.context = NULL};
}

rp_state *rp_states_draft(const rp_states *states) {
    return rp_alloc(states->context, 1, states->stride);
}

/* ---- The queue ------------------------------------------------------------------------------- */

/* The least cost first; of equals the one that is farther, and then the one that came last, so that
 * a way is gone to its end before another one is begun. */
static bool is_ahead(const struct rp_queued *a, const struct rp_queued *b) {
    if (a->least != b->least)
        return a->least < b->least;
    if (a->stage != b->stage)
        return a->stage > b->stage;
    if (a->runs != b->runs)
        return a->runs < b->runs;
    return a->order > b->order;
}

static bool push(rp_states *states, rp_state *state) {
    if (!rp_reserve(states->context, &states->queue, &states->queue_capacity,
                    states->queue_count + 1, sizeof *states->queue))
        return false;
    const struct rp_queued entry = {state->least, state->runs, state->stage, states->order++,
                                    state};
    size_t i = states->queue_count++;
    for (; i > 0 && is_ahead(&entry, &states->queue[(i - 1) / 2]); i = (i - 1) / 2)
        states->queue[i] = states->queue[(i - 1) / 2];
    states->queue[i] = entry;
    return true;
}

static rp_state *pop(rp_states *states) {
    struct rp_queued *queue = states->queue;
    rp_state *const first = queue[0].state;
    const size_t count = --states->queue_count;
    const struct rp_queued last = queue[count];
    size_t i = 0;
    for (size_t child = 1; child < count; i = child, child = 2 * i + 1) {
        if (child + 1 < count && is_ahead(&queue[child + 1], &queue[child]))
            child++;
        if (!is_ahead(&queue[child], &last))
            break;
        queue[i] = queue[child];
    }
    queue[i] = last;
    return first;
}

rp_state *rp_states_take(rp_states *states) {
    while (states->queue_count > 0) {
        rp_state *const state = pop(states);
        if (!state->done) {
            state->done = true;
            return state;
        }
    }
    return NULL;
}

/* ---- The table ------------------------------------------------------------------------------- */

static size_t key_bytes(const rp_states *states) {
    return sizeof(uint32_t) + states->slots;
}

static rp_state *find(const rp_states *states, const rp_state *draft) {
    rp_state *found = NULL;
    HASH_FIND(hh, states->table, &draft->stage, key_bytes(states), found);
    return found;
}

static rp_state *add(rp_states *states, const rp_state *draft) {
    rp_context *const hash_context = states->context;
    bool hash_failed = false;
    if (states->count == states->block_count * STATES_PER_BLOCK) {
        if (!rp_reserve(hash_context, &states->blocks, &states->block_capacity,
                        states->block_count + 1, sizeof *states->blocks))
            return NULL;
        uint8_t *block = rp_alloc(hash_context, STATES_PER_BLOCK, states->stride);
        if (block == NULL)
            return NULL;
        states->blocks[states->block_count++] = block;
    }
    rp_state *state = (rp_state *)(states->blocks[states->block_count - 1] +
                                   states->count % STATES_PER_BLOCK * states->stride);
    memcpy(state, draft, states->stride);
    HASH_ADD(hh, states->table, stage, key_bytes(states), state);
    if (hash_failed)
        return NULL;
    states->count++;
    return state;
}

bool rp_states_offer(rp_states *states, const rp_state *draft) {
    rp_state *state = find(states, draft);
    if (state == NULL) {
        state = add(states, draft);
        return state != NULL && push(states, state);
    }
    if (state->done || draft->cost > state->cost ||
        (draft->cost == state->cost && draft->runs >= state->runs))
        return true;
    state->cost = draft->cost;
    state->least = draft->least;
    state->runs = draft->runs;
    state->node = draft->node;
    state->before = draft->before;
    return push(states, state);
}
