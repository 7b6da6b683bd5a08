/* The verifier's view of the arena: which addresses are taken at this moment of a schedule. Part
 * of the verifier: it shares nothing with the layout that it checks. */
#ifndef REPRISE_PLANNER_VERIFY_SPACE_H
#define REPRISE_PLANNER_VERIFY_SPACE_H

#include "graph.h"
#include <reprise/plan.h>

/* A stretch of addresses. Bytes: all of them, and runs of free ones. */
typedef struct rp_space_node {
    int64_t length, free_left, free_right, free_best;
    uint32_t covered; /* storages that cover all of it without covering all of its parent */
} rp_space_node;

/* A segment tree over the addresses that occur: every operation takes logarithmic time. */
typedef struct rp_space {
    const rp_graph *graph;
    rp_placement *entries; /* a copy, ascending (step, value) */
    bool *used;
    size_t entry_count;
    size_t begin, end;  /* entries of the step at hand */
    int64_t outside;    /* bytes of persistent values that have no place: they only count */
    int64_t limit;      /* the arena, without `outside` */
    int64_t arena;      /* so far */
    int64_t *addresses; /* ascending, each once; 0 and the limit are among them */
    size_t address_count;
    size_t leaves; /* a power of two; leaf i spans addresses[i] to addresses[i + 1] */
    rp_space_node *nodes;
    /* Where workspaces without an entry would fit, ascending step. */
    rp_placement *found;
    size_t found_count, found_capacity;
} rp_space;

/* RP_BAD_INPUT: an entry that means nothing, is misaligned or ends above `peak_bytes`;
 * persistent values that overlap or of which some have a place and some have none. Steps and
 * indices must be in range already. */
rp_status rp_space_create(const rp_graph *graph, const rp_step *steps, size_t step_count,
                          const rp_placement *placements, size_t placement_count,
                          int64_t peak_bytes, rp_space *space);
void rp_space_clear(rp_space *space);

/* Steps come in ascending order. */
void rp_space_enter(rp_space *space, uint32_t step);

/* A storage begins. `over`: the offset of the storage whose place it may take over, or -1. */
rp_status rp_space_begin(rp_space *space, uint32_t step, uint32_t value, int64_t bytes,
                         int64_t over, int64_t *offset);
void rp_space_end(rp_space *space, int64_t offset, int64_t bytes);

/* The workspace of the node that runs at `step`, after everything that begins there. */
rp_status rp_space_workspace(rp_space *space, uint32_t step, uint32_t node);

/* Every entry was used. */
rp_status rp_space_finish(const rp_space *space);

#endif
