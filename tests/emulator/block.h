/* The block that runs: its threads, and what they wait for. Shared by grid.c and warp.c. */
#ifndef REPRISE_EMULATOR_BLOCK_H
#define REPRISE_EMULATOR_BLOCK_H

#include <stdbool.h>

#include "engine.h"
#include "fiber.h"

typedef enum emulator_thread_state {
    EMULATOR_NEW,
    EMULATOR_READY,
    EMULATOR_RUNNING,
    EMULATOR_AT_BARRIER,
    EMULATOR_IN_WARP,
    EMULATOR_DONE
} emulator_thread_state;

typedef struct emulator_thread {
    uint3 index;
    emulator_fiber *fiber; /* NULL before it runs */
    emulator_thread_state state;
    int lane, warp;
    /* what it waits for */
    emulator_place place;
    emulator_warp_operation operation;
    uint32_t mask;
    int source;
    uint64_t in, out;
    void (*work)(void *const lanes[32]);
} emulator_thread;

/* Lanes that __syncwarp brings together, for ThreadSanitizer: one token a mask and turn. Two turns
 * are enough: nobody comes to the one after the next before all have left this one. */
enum { EMULATOR_MASKS = 4 };

typedef struct emulator_warp_lanes {
    uint32_t alive, arrived;
    struct {
        uint32_t mask, turn;
        char token[2];
    } groups[EMULATOR_MASKS];
} emulator_warp_lanes;

enum { EMULATOR_MOST_THREADS = 1024, EMULATOR_MOST_WARPS = EMULATOR_MOST_THREADS / 32 };

typedef struct emulator_block {
    const emulator_launch *launch;
    const void *arguments;
    emulator_thread threads[EMULATOR_MOST_THREADS], *running;
    emulator_warp_lanes warps[EMULATOR_MOST_WARPS];
    int count, alive;
    /* threads not begun yet, in order, and those that can go on */
    uint32_t order[EMULATOR_MOST_THREADS], begun, ready[EMULATOR_MOST_THREADS], ready_count;
    /* the barrier: who waits, and what they brought */
    int waiting, predicates, result;
    emulator_place barrier_place;
    uint32_t barrier_turn;
} emulator_block;

extern emulator_block emulator_this_block;

/* "kernel NAME, block (x, y, z), thread (x, y, z)" of the thread that runs. */
#define EMULATOR_WHO 256
const char *emulator_who(char text[EMULATOR_WHO]);

/* Fails, naming what the threads of the block wait for. */
void emulator_block_fail(const char *what) __attribute__((noreturn));

/* The running thread waits in `state` while others run, until it was made ready. */
void emulator_thread_wait(emulator_thread_state state);
void emulator_thread_make_ready(emulator_thread *thread);

/* The running thread of a warp ends: nobody may wait for it. */
void emulator_warp_leave(emulator_thread *thread);

#endif
