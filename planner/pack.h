/* Packing: an address for every block of a schedule, in as few bytes as possible.
 *
 * This is dynamic storage allocation, NP-hard in general (Garey & Johnson, SR2), yet training
 * schedules are kind: blocks nest around one peak. Two engines:
 *   sweep      stacks what is live at the peak without holes and walks away from it in both
 *              directions, allocating and freeing as a heap would; n log n; meets the live peak of
 *              nearly every training schedule
 *   in order   puts one block after the other at the lowest address that is free throughout its
 *              life; n^2, but any packing can be improved by putting what sticks out earlier in the
 *              order
 * Addresses start at 0: persistent values lie below and are not seen here. */
#ifndef REPRISE_PLANNER_PACK_H
#define REPRISE_PLANNER_PACK_H

#include "lifetimes.h"

/* The height of a packing that was given up. */
#define RP_PACK_FAILED INT64_MAX

typedef struct rp_packer rp_packer;

/* `effort`: how many blocks or holes may be looked at in search of a place, in all calls together;
 * an upper bound of the time that does not depend on a clock. NULL: out of memory. */
rp_packer *rp_packer_create(rp_context *context, const rp_lifetimes *lifetimes, uint64_t effort);
void rp_packer_destroy(rp_packer *packer);

/* What is left of the effort. */
uint64_t rp_packer_effort(const rp_packer *packer);

/* The offsets of the last packing, by block. */
const int64_t *rp_packer_offsets(const rp_packer *packer);

/* What lies at the bottom of the peak: what began first, what ends last, or what lives longest. */
typedef enum rp_pack_stack { RP_STACK_BEGIN, RP_STACK_END, RP_STACK_LENGTH } rp_pack_stack;

/* Packs around `tick`; `best_fit`: into the smallest hole that is large enough, else the lowest.
 * Never gives up for lack of effort: it then looks for no hole. Returns the height. */
int64_t rp_pack_sweep(rp_packer *packer, uint32_t tick, rp_pack_stack stack, bool best_fit);

/* Packs in this order of all blocks. Gives up where the height exceeds `limit` or the effort is
 * spent. Returns the height. */
int64_t rp_pack_in_order(rp_packer *packer, const uint32_t *order, int64_t limit);

#endif
