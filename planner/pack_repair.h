/* The second packing engine (see pack.h): lowers a packing by repair. */
#ifndef REPRISE_PLANNER_PACK_REPAIR_H
#define REPRISE_PLANNER_PACK_REPAIR_H

#include "pack.h"

typedef struct rp_repair rp_repair;

/* NULL: out of memory. `*effort` goes down with every look. */
rp_repair *rp_repair_create(rp_context *context, const rp_lifetimes *lifetimes, uint64_t *effort);
void rp_repair_destroy(rp_repair *repair);

/* From the packing at `offsets` to one below `ceiling`, which is at least the live peak, in at most
 * `steps` steps. Returns its height, or RP_PACK_FAILED. Another call tries other ways. */
int64_t rp_pack_repair(rp_repair *repair, const int64_t *offsets, int64_t ceiling, uint32_t steps);

/* The offsets of the last packing, by block. */
const int64_t *rp_repair_offsets(const rp_repair *repair);

#endif
