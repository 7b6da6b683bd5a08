/* Warp intrinsics: the lanes of a mask meet, and the last one does the work for all. */
#include <string.h>

#include "block.h"
#include "sanitizer.h"
#include "settings.h"

static emulator_block *const block = &emulator_this_block;

/* What a lane outside the mask gives: undefined on a device, NaN in every type here. */
static const uint64_t undefined_value = UINT64_C(0xFFFFFFFFFFFFFFFF);

static emulator_thread *lane_of(int warp, int lane) {
    return &block->threads[warp * 32 + lane];
}

static uint64_t combine(emulator_warp_operation operation, uint64_t a, uint64_t b) {
    switch (operation) {
    case EMULATOR_ADD:
        return a + b;
    case EMULATOR_AND:
        return a & b;
    case EMULATOR_OR:
        return a | b;
    case EMULATOR_XOR:
        return a ^ b;
    case EMULATOR_MINIMUM:
        return (int64_t)b < (int64_t)a ? b : a;
    case EMULATOR_MAXIMUM:
        return (int64_t)b > (int64_t)a ? b : a;
    default:
        return 0;
    }
}

/* Every lane of `mask` has come with it. */
static bool is_complete(int warp, uint32_t mask) {
    if ((block->warps[warp].arrived & mask) != mask)
        return false;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1)
        if (lane_of(warp, __builtin_ctz(rest))->mask != mask)
            return false;
    return true;
}

static void check_same_call(int warp, const emulator_thread *me) {
    if (!emulator_settings_get()->divergence)
        return;
    for (uint32_t rest = me->mask; rest != 0; rest &= rest - 1) {
        emulator_thread *other = lane_of(warp, __builtin_ctz(rest));
        if (other->operation != me->operation || other->place.line != me->place.line ||
            strcmp(other->place.file, me->place.file) != 0)
            emulator_block_fail("lanes of one mask are at different warp intrinsics");
    }
}

static uint64_t result_for(int warp, const emulator_thread *me) {
    uint64_t result = me->in;
    if (me->operation == EMULATOR_SHUFFLE)
        return me->source >= 0 && me->source < 32 && (me->mask >> me->source & 1) != 0
                   ? lane_of(warp, me->source)->in
                   : undefined_value;
    if (me->operation == EMULATOR_BALLOT || me->operation == EMULATOR_MATCH) {
        const bool match = me->operation == EMULATOR_MATCH;
        result = 0;
        for (uint32_t rest = me->mask; rest != 0; rest &= rest - 1) {
            const int lane = __builtin_ctz(rest);
            const uint64_t in = lane_of(warp, lane)->in;
            result |= (uint64_t)(match ? in == me->in : in != 0) << lane;
        }
        return result;
    }
    for (uint32_t rest = me->mask & ~(UINT32_C(1) << me->lane); rest != 0; rest &= rest - 1)
        result = combine(me->operation, result, lane_of(warp, __builtin_ctz(rest))->in);
    return result;
}

static void work_together(int warp, const emulator_thread *me) {
    void *lanes[32] = {NULL};
    for (uint32_t rest = me->mask; rest != 0; rest &= rest - 1) {
        const int lane = __builtin_ctz(rest);
        lanes[lane] = (void *)(uintptr_t)lane_of(warp, lane)->in;
    }
    me->work(lanes);
}

/* `me` came last: everybody gets a result, and the others can go on. */
static void finish(int warp, emulator_thread *me) {
    const uint32_t mask = me->mask;
    check_same_call(warp, me);
    if (me->operation == EMULATOR_TOGETHER)
        work_together(warp, me);
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        emulator_thread *lane = lane_of(warp, __builtin_ctz(rest));
        lane->out = result_for(warp, lane);
    }
    block->warps[warp].arrived &= ~mask;
    for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
        emulator_thread *lane = lane_of(warp, __builtin_ctz(rest));
        if (lane != me)
            emulator_thread_make_ready(lane);
    }
}

/* The token of this turn of a mask; the last of few if there are too many masks. */
static char *token_of(emulator_warp_lanes *warp, uint32_t mask, bool last) {
    int i = 0;
    while (i < EMULATOR_MASKS - 1 && warp->groups[i].mask != mask && warp->groups[i].mask != 0)
        i++;
    warp->groups[i].mask = mask;
    char *token = &warp->groups[i].token[warp->groups[i].turn & 1];
    warp->groups[i].turn += last;
    return token;
}

uint64_t emulator_warp(uint32_t mask, emulator_warp_operation operation, uint64_t value, int source,
                       emulator_place place) {
    emulator_thread *me = block->running;
    emulator_warp_lanes *warp = &block->warps[me->warp];
    char *token = NULL;
    emulator_quiet();
    me->place = place;
    me->mask = mask;
    me->operation = operation;
    me->in = value;
    me->source = source;
    if ((mask >> me->lane & 1) == 0 || (mask & ~warp->alive) != 0) {
        me->state = EMULATOR_IN_WARP;
        emulator_block_fail((mask >> me->lane & 1) == 0
                                ? "a lane calls a warp intrinsic with a mask without itself"
                                : "a mask names lanes that have ended or never were");
    }
    warp->arrived |= UINT32_C(1) << me->lane;
    me->state = EMULATOR_IN_WARP;
    const bool last = is_complete(me->warp, mask);
    /* Of all warp intrinsics this one orders memory. */
    if (EMULATOR_TSAN && operation == EMULATOR_SYNCHRONIZE) {
        token = token_of(warp, mask, last);
        __tsan_release(token);
    }
    if (last) {
        finish(me->warp, me);
        me->state = EMULATOR_RUNNING;
    } else {
        emulator_thread_wait(EMULATOR_IN_WARP);
    }
    if (token != NULL)
        __tsan_acquire(token);
    emulator_loud();
    return me->out;
}

void emulator_together(uint32_t mask, void *data, void (*work)(void *const lanes[32]),
                       emulator_place place) {
    block->running->work = work;
    emulator_warp(mask, EMULATOR_TOGETHER, (uint64_t)(uintptr_t)data, 0, place);
}

void emulator_warp_leave(emulator_thread *thread) {
    emulator_warp_lanes *warp = &block->warps[thread->warp];
    warp->alive &= ~(UINT32_C(1) << thread->lane);
    for (uint32_t rest = warp->arrived; rest != 0; rest &= rest - 1)
        if ((lane_of(thread->warp, __builtin_ctz(rest))->mask >> thread->lane & 1) != 0)
            emulator_block_fail("a lane ends while others of its warp wait for it");
}
