/* One hash for graphs, plans and costs: the same on every machine, good for telling things apart,
 * and no defence against whoever wants two to look alike. */
#ifndef REPRISE_PLANNER_MIX_H
#define REPRISE_PLANNER_MIX_H

#include <stdint.h>

/* The hash of what `hash` stands for (1: nothing), followed by one more word: multiply and fold,
 * with the constants of MurmurHash3's finaliser. */
static inline uint64_t rp_mix(uint64_t hash, uint64_t word) {
    hash ^= word;
    hash *= 0xff51afd7ed558ccdULL;
    hash ^= hash >> 33;
    hash *= 0xc4ceb9fe1a85ec53ULL;
    return hash ^ (hash >> 29);
}

#endif
