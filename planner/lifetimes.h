/* When each storage of a valid schedule begins and ends: what the layout packs. */
#ifndef REPRISE_PLANNER_LIFETIMES_H
#define REPRISE_PLANNER_LIFETIMES_H

#include "graph.h"
#include "schedule.h"

/* Time is counted in ticks: a run and a fetch take one, other steps none. Nothing can begin between
 * two of them, so that intervals of ticks say all about who meets whom. */

/* One storage, or a workspace (value RP_NONE), that needs an address. */
typedef struct rp_storage {
    uint32_t step, value; /* the key of its placement */
    uint32_t block;       /* where it lies; RP_NONE if it has no bytes */
} rp_storage;

/* What gets one offset: a storage and those that take over its place, in turn. */
typedef struct rp_block {
    uint32_t begin, end; /* ticks; the end is the first tick without it */
    int64_t bytes;       /* at its begin; an heir is never larger */
    rp_range pieces;
} rp_block;

/* A stretch of a block's life with the same number of bytes. */
typedef struct rp_piece {
    uint32_t begin, end;
    int64_t bytes;
} rp_piece;

typedef struct rp_lifetimes {
    rp_storage *storages; /* ascending step */
    size_t storage_count, storage_capacity;
    rp_block *blocks; /* ascending begin; none without bytes */
    size_t block_count, block_capacity;
    rp_piece *pieces;
    size_t piece_count, piece_capacity;
    uint32_t ticks;
    int64_t live_peak_bytes; /* without persistent values */
    uint32_t peak_tick;      /* the first of them */
} rp_lifetimes;

/* The schedule must be valid. */
rp_status rp_lifetimes_create(const rp_graph *graph, const rp_step *steps, size_t count,
                              rp_lifetimes *lifetimes);
void rp_lifetimes_clear(rp_context *context, rp_lifetimes *lifetimes);

#endif
