/* Packing: an address for every block of a schedule, in as few bytes as possible.
 *
 * This is dynamic storage allocation, NP-hard in general (Garey & Johnson, SR2), yet training
 * schedules are kind: blocks nest around one peak. Three engines:
 *   sweep    (here) stacks what is live at one moment without holes and walks away from it in both
 *            directions, allocating and freeing as a heap would; linear but for a sort; meets the
 *            live peak of nearly every schedule whose bytes rise to one peak and fall again
 *   skyline  (pack_skyline.h) builds from the bottom up under a ceiling and learns from what does
 *            not fit; for plans that a tight budget has flattened; most of them in a few attempts
 *   repair   (pack_repair.h) lowers the best packing so far by ejecting blocks and finding them
 *            other places; slower, and closer to the live peak where the skyline stays above it
 * Addresses start at 0: persistent values lie below and are not seen here. */
#ifndef REPRISE_PLANNER_PACK_H
#define REPRISE_PLANNER_PACK_H

#include "lifetimes.h"

/* The height of a packing that was given up. */
#define RP_PACK_FAILED (-1)

/* What engines count and draw. Effort goes down to 0; numbers are from 0 to limit - 1 (Knuth's MMIX
 * generator, whose low bits are weak). */
static inline void rp_pack_spend(uint64_t *effort, uint64_t looks) {
    *effort = *effort > looks ? *effort - looks : 0;
}

static inline uint32_t rp_pack_draw(uint64_t *random, uint32_t limit) {
    *random = *random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (uint32_t)((*random >> 33) % limit);
}

typedef struct rp_packer rp_packer;

/* `*effort`: how many blocks or holes may still be looked at in search of a place; an upper bound
 * of the time that does not depend on a clock. NULL: out of memory. */
rp_packer *rp_packer_create(rp_context *context, const rp_lifetimes *lifetimes, uint64_t *effort);
void rp_packer_destroy(rp_packer *packer);

/* The offsets of the last packing, by block. */
const int64_t *rp_packer_offsets(const rp_packer *packer);

/* What lies at the bottom of the peak: what began first, what ends last, or what lives longest. */
typedef enum rp_pack_stack { RP_STACK_BEGIN, RP_STACK_END, RP_STACK_LENGTH } rp_pack_stack;

/* Packs around `tick`; `best_fit`: into the smallest hole that is large enough, else the lowest.
 * Never gives up for lack of effort: it then looks for no hole. Returns the height. */
int64_t rp_pack_sweep(rp_packer *packer, uint32_t tick, rp_pack_stack stack, bool best_fit);

#endif
