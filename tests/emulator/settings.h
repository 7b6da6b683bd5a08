/* What the environment says to the emulator, and what its files share for it. */
#ifndef REPRISE_EMULATOR_SETTINGS_H
#define REPRISE_EMULATOR_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct emulator_settings {
    /* RP_EMULATOR_SEED, 0: of everything random */
    uint64_t seed;
    /* RP_EMULATOR_SHUFFLE, 0: threads and blocks in random order */
    bool shuffle;
    /* RP_EMULATOR_DEFER, 0: streams run late and in turns, as late as what waits allows */
    bool defer;
    /* RP_EMULATOR_GUARD, 0: no host code can touch device memory */
    bool guard;
    /* RP_EMULATOR_FILL, 1: shared memory of a block and new device memory are NaN */
    bool fill;
    /* RP_EMULATOR_POINTERS, 1: what a kernel gets must be memory of the device */
    bool pointers;
    /* RP_EMULATOR_DIVERGENCE, 1: threads meet at one and the same barrier or warp intrinsic */
    bool divergence;
    /* RP_EMULATOR_STATISTICS, 0: says at the end how much ran */
    bool statistics;
    /* RP_EMULATOR_MEMORY, 16 GiB: what the device has */
    size_t memory_bytes;
    /* RP_EMULATOR_STACK, 64 KiB: of a CUDA thread */
    size_t stack_bytes;
} emulator_settings;

/* Read once, when first asked. */
const emulator_settings *emulator_settings_get(void);

/* A random number below `below`, from the seed. */
uint32_t emulator_random(uint32_t below);

/* A random order of 0 ... count - 1, or just that order. */
void emulator_order(uint32_t *order, uint32_t count, bool random);

/* Room that grows: `list` of `count` elements gets room for one more; ends the process if there is
 * none. */
void *emulator_grow(void *list, size_t count, size_t *capacity, size_t size);
void *emulator_take(size_t bytes);

typedef struct emulator_statistics {
    uint64_t kernels, blocks, threads, switches, products, replays;
} emulator_statistics;

extern emulator_statistics emulator_counts;

#endif
