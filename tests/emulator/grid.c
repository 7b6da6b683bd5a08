/* The scheduler of a block: a thread runs until it must wait, then another one does. Unless the
 * order is random, all others run as far as they can before a thread goes on behind a barrier: the
 * farthest that threads can be apart. */
#include "grid.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "block.h"
#include "sanitizer.h"
#include "settings.h"

emulator_position emulator_now;
emulator_block emulator_this_block;

static emulator_block *const block = &emulator_this_block;
static emulator_fiber process, *current;

/* All shared memory there is: this, and the variables of the kernels. */
__attribute__((section("emulator_shared"),
               aligned(1024))) static char dynamic_shared[EMULATOR_MOST_SHARED];
extern char __start_emulator_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_emulator_shared[] __attribute__((weak, visibility("hidden")));

/* Fibers that no thread needs at the moment. */
static emulator_fiber *idle[EMULATOR_MOST_THREADS + 1];
static int idle_count;

/* ThreadSanitizer's view: a fiber a CUDA thread, of its own stack, since what one thread left on a
 * stack looks like a race to the next. Blocks alternate between two sets, so that threads of the
 * same index in neighbouring blocks are two. The tokens stand for a launch, its end, a barrier. */
static struct {
    void *fiber[EMULATOR_MOST_THREADS];
    emulator_fiber *stack[EMULATOR_MOST_THREADS];
} sets[2];
static int set;
static void *process_fiber;
static char launch_token, end_token, barrier_token[2];

int emulator_lane(void) {
    return block->running->lane;
}

void *emulator_dynamic_shared(void) {
    return dynamic_shared;
}

/* ---- Telling --------------------------------------------------------------------------------- */

const char *emulator_who(char text[EMULATOR_WHO]) {
    const emulator_position *at = &emulator_now;
    snprintf(text, EMULATOR_WHO, "kernel %.120s, block (%u, %u, %u), thread (%u, %u, %u)",
             block->launch->kernel, at->block.x, at->block.y, at->block.z, at->thread.x,
             at->thread.y, at->thread.z);
    return text;
}

/* A thread waits, and none before it waits at the same place. */
static bool is_first_there(int index) {
    const emulator_thread *t = &block->threads[index];
    if (t->state != EMULATOR_AT_BARRIER && t->state != EMULATOR_IN_WARP)
        return false;
    for (int i = 0; i < index; i++) {
        const emulator_thread *o = &block->threads[i];
        if (o->state == t->state && o->place.line == t->place.line &&
            strcmp(o->place.file, t->place.file) == 0)
            return false;
    }
    return true;
}

void emulator_block_fail(const char *what) {
    char who[EMULATOR_WHO];
    int waiting = 0;
    fflush(stdout);
    for (int i = 0; i < block->count; i++) {
        const emulator_thread *t = &block->threads[i];
        const bool at_barrier = t->state == EMULATOR_AT_BARRIER;
        waiting += at_barrier || t->state == EMULATOR_IN_WARP;
        if (!is_first_there(i))
            continue;
        fprintf(stderr, "emulator: thread (%u, %u, %u) waits at %s:%d in a %s", t->index.x,
                t->index.y, t->index.z, t->place.file, t->place.line,
                at_barrier ? "barrier\n" : "warp intrinsic");
        if (!at_barrier)
            fprintf(stderr, ", lane %d, mask %08x\n", t->lane, t->mask);
    }
    fprintf(stderr, "emulator: %d of %d threads wait, %d have ended\n", waiting, block->count,
            block->count - block->alive);
    emulator_fail("%s: %s", emulator_who(who), what);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

void emulator_thread_make_ready(emulator_thread *thread) {
    thread->state = EMULATOR_READY;
    block->ready[block->ready_count++] = (uint32_t)(thread - block->threads);
}

/* Who runs next; NULL: nobody can. */
static emulator_thread *choose(void) {
    const uint32_t fresh = (uint32_t)block->count - block->begun;
    const bool shuffle = emulator_settings_get()->shuffle;
    if (block->ready_count == 0 || (fresh > 0 && !(shuffle && emulator_random(2) == 0)))
        return fresh > 0 ? &block->threads[block->order[block->begun++]] : NULL;
    const uint32_t at = shuffle ? emulator_random(block->ready_count) : block->ready_count - 1;
    const uint32_t chosen = block->ready[at];
    block->ready[at] = block->ready[--block->ready_count];
    return &block->threads[chosen];
}

static void loop(void);

static emulator_fiber *take_fiber(int thread) {
    if (EMULATOR_TSAN && sets[set].stack[thread] != NULL)
        return sets[set].stack[thread];
    if (!EMULATOR_TSAN && idle_count > 0)
        return idle[--idle_count];
    emulator_fiber *fiber = emulator_fiber_create(emulator_settings_get()->stack_bytes, loop);
    if (EMULATOR_TSAN)
        sets[set].stack[thread] = fiber;
    return fiber;
}

static void become(emulator_thread *thread) {
    block->running = thread;
    thread->state = EMULATOR_RUNNING;
    emulator_now.thread = thread->index;
    __tsan_switch_to_fiber(sets[set].fiber[thread - block->threads], EMULATOR_TSAN_NO_ORDER);
}

static void switch_to(emulator_fiber *to) {
    emulator_fiber *from = current;
    current = to;
    emulator_fiber_switch(from, to);
}

/* From a fiber whose thread waits or has ended: `next` runs, or nobody can. */
static void go_on(emulator_thread *next) {
    if (next == NULL) {
        if (block->alive > 0)
            emulator_block_fail("deadlock: no thread can go on");
        __tsan_switch_to_fiber(process_fiber, EMULATOR_TSAN_NO_ORDER);
        switch_to(&process);
        return;
    }
    if (next->fiber == NULL)
        next->fiber = take_fiber((int)(next - block->threads));
    become(next);
    switch_to(next->fiber);
}

void emulator_thread_wait(emulator_thread_state state) {
    block->running->state = state;
    go_on(choose());
}

static void end_thread(emulator_thread *thread) {
    thread->state = EMULATOR_DONE;
    block->alive--;
    emulator_counts.threads++;
    emulator_warp_leave(thread);
    if (block->waiting > 0 && emulator_settings_get()->divergence) {
        emulator_now.thread = thread->index;
        emulator_block_fail("a thread ends while others wait for it at a barrier");
    }
}

/* What a fiber does: one thread after the other. A thread that never waits costs no switch. */
static void loop(void) {
    emulator_fiber_entered();
    for (;;) {
        __tsan_acquire(&launch_token);
        block->launch->run(block->arguments);
        __tsan_release(&end_token);
        emulator_quiet();
        end_thread(block->running);
        emulator_thread *next = choose();
        if (!EMULATOR_TSAN && next != NULL && next->state == EMULATOR_NEW) {
            next->fiber = current;
            become(next);
        } else {
            if (!EMULATOR_TSAN)
                idle[idle_count++] = current;
            go_on(next);
        }
        emulator_loud();
    }
}

/* ---- Barriers -------------------------------------------------------------------------------- */

static void open_barrier(void) {
    for (int i = 0; i < block->count; i++)
        if (block->threads[i].state == EMULATOR_AT_BARRIER)
            emulator_thread_make_ready(&block->threads[i]);
    block->result = block->predicates;
    block->waiting = block->predicates = 0;
    block->barrier_turn ^= 1;
}

int emulator_barrier(int predicate, emulator_place place) {
    emulator_thread *me = block->running;
    emulator_quiet();
    const bool strict = emulator_settings_get()->divergence;
    char *token = &barrier_token[block->barrier_turn];
    me->place = place;
    if (block->waiting > 0 && strict &&
        (block->barrier_place.line != place.line ||
         strcmp(block->barrier_place.file, place.file) != 0)) {
        me->state = EMULATOR_AT_BARRIER;
        emulator_block_fail("threads of one block are at different barriers");
    }
    if (strict && block->alive < block->count) {
        me->state = EMULATOR_AT_BARRIER;
        emulator_block_fail("a barrier that threads of the block will never reach: they have "
                            "ended");
    }
    block->barrier_place = place;
    block->predicates += predicate != 0;
    block->waiting++;
    __tsan_release(token);
    me->state = EMULATOR_AT_BARRIER;
    if (block->waiting == block->alive)
        open_barrier();
    go_on(choose());
    __tsan_acquire(token);
    emulator_loud();
    return block->result;
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* Shared memory of a block is new. Of a kernel's variables it is not known which are its own. */
static void make_shared(size_t dynamic_bytes) {
    char *begin = __start_emulator_shared, *end = __stop_emulator_shared;
    if (begin == NULL)
        begin = dynamic_shared, end = dynamic_shared + sizeof dynamic_shared;
    if (emulator_settings_get()->fill) {
        memset(begin, 0xFF, (size_t)(dynamic_shared - begin));
        memset(dynamic_shared + sizeof dynamic_shared, 0xFF,
               (size_t)(end - (dynamic_shared + sizeof dynamic_shared)));
        memset(dynamic_shared, 0xFF, dynamic_bytes);
    }
    if (EMULATOR_TSAN) {
        static bool is_known;
        const unsigned long heap = ((unsigned long)begin + 7) / 8 * 8,
                            heap_end = (unsigned long)end / 8 * 8;
        if (!is_known)
            __tsan_java_init(heap, heap_end - heap);
        is_known = true;
        __tsan_java_alloc(heap, heap_end - heap); /* forgets the accesses of the last block */
    }
}

static void begin_block(dim3 size) {
    const bool shuffle = emulator_settings_get()->shuffle;
    block->begun = block->ready_count = 0;
    block->waiting = block->predicates = 0;
    block->alive = block->count = (int)(size.x * size.y * size.z);
    emulator_order(block->order, (uint32_t)block->count, shuffle);
    for (int w = 0; w * 32 < block->count; w++) {
        const int lanes = block->count - w * 32;
        block->warps[w].alive = lanes >= 32 ? UINT32_MAX : (UINT32_C(1) << lanes) - 1;
        block->warps[w].arrived = 0;
    }
    set ^= 1;
    for (int i = 0; i < block->count; i++) {
        const unsigned n = (unsigned)i;
        emulator_thread *t = &block->threads[i];
        t->index = (uint3){n % size.x, n / size.x % size.y, n / (size.x * size.y)};
        t->fiber = NULL;
        t->state = EMULATOR_NEW;
        t->lane = i % 32;
        t->warp = i / 32;
        /* Here, not in a thread: a fiber begins with what its creator knows. */
        if (EMULATOR_TSAN && sets[set].fiber[i] == NULL)
            sets[set].fiber[i] = __tsan_create_fiber(0);
    }
}

static void run_block(const emulator_launch *launch) {
    begin_block(launch->block);
    make_shared(launch->shared_bytes);
    emulator_counts.blocks++;
    current = &process;
    go_on(choose());
}

void emulator_grid_run(const emulator_launch *launch, const void *arguments) {
    enum { MOST_SHUFFLED = 1 << 20 };
    const uint64_t blocks = (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z;
    const bool shuffle = emulator_settings_get()->shuffle && blocks <= MOST_SHUFFLED;
    uint32_t *order = shuffle ? emulator_take((size_t)blocks * sizeof *order) : NULL;
    if (shuffle)
        emulator_order(order, (uint32_t)blocks, true);
    emulator_quiet();
    emulator_counts.kernels++;
    emulator_fiber_adopt(&process);
    process_fiber = __tsan_get_current_fiber();
    block->launch = launch;
    block->arguments = arguments;
    emulator_now.block_size = launch->block;
    emulator_now.grid_size = launch->grid;
    __asan_poison_memory_region(dynamic_shared, sizeof dynamic_shared);
    __asan_unpoison_memory_region(dynamic_shared, launch->shared_bytes);
    __tsan_release(&launch_token);
    for (uint64_t i = 0; i < blocks; i++) {
        const uint64_t b = shuffle ? order[i] : i;
        const uint64_t rows = b / launch->grid.x;
        emulator_now.block =
            (uint3){(unsigned)(b % launch->grid.x), (unsigned)(rows % launch->grid.y),
                    (unsigned)(rows / launch->grid.y)};
        run_block(launch);
    }
    block->launch = NULL;
    __tsan_acquire(&end_token);
    __asan_unpoison_memory_region(dynamic_shared, sizeof dynamic_shared);
    emulator_loud();
    free(order);
}
