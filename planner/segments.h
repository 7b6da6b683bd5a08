/* Checkpointing by segments of the forward phase: between forward and backward a segment holds only
 * what others read of it, and the rest runs again when backward asks for it. */
#ifndef REPRISE_PLANNER_SEGMENTS_H
#define REPRISE_PLANNER_SEGMENTS_H

#include "expand.h"

/* block[n]: which block the forward node n belongs to, RP_NONE without a label. A block is an
 * unbroken row of forward nodes with one label. Returns how many there are. `block` may be NULL. */
uint32_t rp_segments_find_blocks(const rp_graph *graph, uint32_t *block);

/* Drops the inner values of every segment behind its last node. `segment` of each node: its
 * segment, or RP_NONE for one that is kept; nodes of one segment need not be neighbours. */
rp_status rp_segments_drop(const rp_expander *expander, const uint32_t *segment, rp_drops *drops);

/* Two levels: `part` divides the segments further, numbered in order. When backward reaches a
 * segment and runs it again, only what its parts hand on is held; each part runs once more when
 * backward reaches it. Adds to drops that rp_segments_drop made. */
rp_status rp_segments_drop_parts(const rp_expander *expander, const uint32_t *segment,
                                 const uint32_t *part, rp_drops *drops);

#endif
