/* The second packing engine (see pack.h): from the bottom up under a ceiling. Fails often and
 * learns from it; close to the live peak nothing else comes near. */
#ifndef REPRISE_PLANNER_PACK_SKYLINE_H
#define REPRISE_PLANNER_PACK_SKYLINE_H

#include "pack.h"

typedef struct rp_skyline rp_skyline;

/* NULL: out of memory. `*effort` goes down with every look. */
rp_skyline *rp_skyline_create(rp_context *context, const rp_lifetimes *lifetimes, uint64_t *effort);
void rp_skyline_destroy(rp_skyline *skyline);

/* One attempt below `ceiling`, at least the live peak. Returns the height, or RP_PACK_FAILED: then
 * the next attempt, also with another ceiling, will be another one. `*memory` is false where memory
 * was short. */
int64_t rp_pack_skyline(rp_skyline *skyline, int64_t ceiling, bool *memory);

/* Forgets what was learned and begins with other weights; `round` counts from 0. */
void rp_skyline_restart(rp_skyline *skyline, uint32_t round);

/* The offsets of the last attempt, by block. */
const int64_t *rp_skyline_offsets(const rp_skyline *skyline);

#endif
