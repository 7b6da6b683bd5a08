/* Checkpointing by segments of the forward phase: between forward and backward a segment holds only
 * what others read of it, and the rest runs again when backward asks for it. */
#ifndef REPRISE_PLANNER_SEGMENTS_H
#define REPRISE_PLANNER_SEGMENTS_H

#include "expand.h"

/* The blocks of the forward phase: rows of nodes without a gap. */
typedef struct rp_blocks {
    uint32_t *of; /* of each node: its block, numbered in order, or RP_NONE */
    uint32_t count;
} rp_blocks;

/* By their labels: a block is an unbroken row of forward nodes with one label. Returns how many
 * there are. `of` may be NULL. */
uint32_t rp_segments_find_labels(const rp_graph *graph, uint32_t *of);

/* By structure (repeats.c): the repetitions of the longest stretch of forward nodes that repeats
 * with one period. None, if less than half of the forward phase does. Names, labels and costs say
 * nothing here. Returns how many there are. */
rp_status rp_segments_find_repeats(const rp_graph *graph, uint32_t *of, uint32_t *count);

/* By their labels; by structure if there is none. */
rp_status rp_blocks_create(const rp_graph *graph, rp_blocks *blocks);
void rp_blocks_clear(rp_context *context, rp_blocks *blocks);

/* Drops the inner values of every segment behind its last node. `segment` of each node: its
 * segment, or RP_NONE for one that is kept; nodes of one segment need not be neighbours. */
rp_status rp_segments_drop(const rp_expander *expander, const uint32_t *segment, rp_drops *drops);

/* Two levels: `part` divides the segments further, numbered in order. When backward reaches a
 * segment and runs it again, only what its parts hand on is held; each part runs once more when
 * backward reaches it. Adds to drops that rp_segments_drop made. */
rp_status rp_segments_drop_parts(const rp_expander *expander, const uint32_t *segment,
                                 const uint32_t *part, rp_drops *drops);

#endif
