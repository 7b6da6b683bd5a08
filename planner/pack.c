/* Packing by sweeps. */
#include "pack.h"

#include <stdlib.h>
#include <string.h>

/* Free addresses below the top. */
typedef struct hole {
    int64_t low, high;
} hole;

/* In a sweep a block begins or ends: from the highest bits down the time (32 bits, counted in the
 * direction of the walk), whether it begins, and the rank of the block (31 bits). Sorted as numbers
 * they are in the order of the walk: ends before begins, of what begins together the long-lived and
 * the large first. */
typedef uint64_t event;

#define EVENT_BEGINS (1ULL << 31)
#define EVENT_RANK (EVENT_BEGINS - 1)

struct rp_packer {
    rp_context *context;
    const rp_lifetimes *lifetimes;
    uint64_t *effort;
    int64_t *offsets;
    hole *holes; /* ascending */
    size_t hole_count;
    int64_t top;
    uint32_t *by_length; /* blocks by rank: falling length, then bytes */
    uint32_t *by_end;    /* blocks by falling end */
    event *events[2];    /* backward and forward */
};

/* ---- Sorting what sweeps need ---- */

/* Times are numbers up to `ticks`: sorted by counting. */
typedef struct ranked {
    int64_t bytes; /* larger ones go first */
    uint32_t block;
} ranked;

static int compare_ranked(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->block == y->block ? 0 : x->block < y->block ? -1 : 1;
}

/* counts[k + 1] entries have the key k; afterwards the first of them has its place at counts[k]. */
static void find_places(uint32_t *counts, size_t keys) {
    for (size_t k = 1; k < keys; k++)
        counts[k] += counts[k - 1];
}

static uint64_t length_of(const rp_block *b) {
    return b->end - b->begin;
}

static void sort_by_end(rp_packer *p, uint32_t *counts) {
    const rp_lifetimes *l = p->lifetimes;
    const size_t keys = (size_t)l->ticks + 1;
    memset(counts, 0, (keys + 1) * sizeof *counts);
    for (size_t i = 0; i < l->block_count; i++)
        counts[l->ticks - l->blocks[i].end + 1]++;
    find_places(counts, keys);
    for (uint32_t i = 0; i < l->block_count; i++)
        p->by_end[counts[l->ticks - l->blocks[i].end]++] = i;
}

/* By length, and then what is equally long by bytes. */
static void sort_by_length(rp_packer *p, uint32_t *counts, ranked *list) {
    const rp_lifetimes *l = p->lifetimes;
    const size_t keys = (size_t)l->ticks + 1, n = l->block_count;
    memset(counts, 0, (keys + 1) * sizeof *counts);
    for (size_t i = 0; i < n; i++)
        counts[l->ticks - length_of(&l->blocks[i]) + 1]++;
    find_places(counts, keys);
    for (uint32_t i = 0; i < n; i++)
        list[counts[l->ticks - length_of(&l->blocks[i])]++] = (ranked){l->blocks[i].bytes, i};
    for (size_t begin = 0, end; begin < n; begin = end) {
        const uint64_t length = length_of(&l->blocks[list[begin].block]);
        for (end = begin + 1; end < n && length_of(&l->blocks[list[end].block]) == length;)
            end++;
        if (end - begin > 1)
            qsort(list + begin, end - begin, sizeof *list, compare_ranked);
    }
    for (size_t i = 0; i < n; i++)
        p->by_length[i] = list[i].block;
}

/* Keys: the time and whether it begins. Blocks come by rank, so that of equal keys the first in
 * rank is the first. */
static void sort_events(rp_packer *p, uint32_t *counts) {
    const rp_lifetimes *l = p->lifetimes;
    const size_t keys = 2 * (size_t)l->ticks + 2;
    for (int forward = 0; forward < 2; forward++) {
        event *e = p->events[forward];
        memset(counts, 0, (keys + 1) * sizeof *counts);
        for (size_t i = 0; i < l->block_count; i++) {
            const rp_block *b = &l->blocks[i];
            counts[2 * (size_t)(forward ? b->begin : l->ticks - b->end) + 2]++;
            counts[2 * (size_t)(forward ? b->end : l->ticks - b->begin) + 1]++;
        }
        find_places(counts, keys);
        for (size_t rank = 0; rank < l->block_count; rank++) {
            const rp_block *b = &l->blocks[p->by_length[rank]];
            const uint64_t begin = forward ? b->begin : l->ticks - b->end;
            const uint64_t end = forward ? b->end : l->ticks - b->begin;
            e[counts[2 * begin + 1]++] = begin << 32 | EVENT_BEGINS | rank;
            e[counts[2 * end]++] = end << 32 | rank;
        }
    }
}

static bool sort_all(rp_packer *p) {
    const rp_lifetimes *l = p->lifetimes;
    uint32_t *counts = rp_resize(p->context, NULL, 2 * (size_t)l->ticks + 3, sizeof *counts);
    ranked *list = rp_resize(p->context, NULL, l->block_count, sizeof *list);
    const bool good = counts != NULL && list != NULL;
    if (good) {
        sort_by_end(p, counts);
        sort_by_length(p, counts, list);
        sort_events(p, counts);
    }
    rp_free(p->context, counts);
    rp_free(p->context, list);
    return good;
}

rp_packer *rp_packer_create(rp_context *context, const rp_lifetimes *lifetimes, uint64_t *effort) {
    const size_t n = lifetimes->block_count;
    rp_packer *p = n <= EVENT_RANK ? rp_alloc(context, 1, sizeof *p) : NULL;
    if (p == NULL)
        return NULL;
    p->context = context;
    p->lifetimes = lifetimes;
    p->effort = effort;
    p->offsets = rp_alloc(context, n, sizeof *p->offsets);
    p->holes = rp_resize(context, NULL, n + 1, sizeof *p->holes);
    p->by_length = rp_resize(context, NULL, n, sizeof *p->by_length);
    p->by_end = rp_resize(context, NULL, n, sizeof *p->by_end);
    p->events[0] = rp_resize(context, NULL, n, 2 * sizeof *p->events[0]);
    p->events[1] = rp_resize(context, NULL, n, 2 * sizeof *p->events[1]);
    if (p->offsets == NULL || p->holes == NULL || p->by_length == NULL || p->by_end == NULL ||
        p->events[0] == NULL || p->events[1] == NULL || !sort_all(p)) {
        rp_packer_destroy(p);
        return NULL;
    }
    return p;
}

void rp_packer_destroy(rp_packer *packer) {
    if (packer == NULL)
        return;
    rp_free(packer->context, packer->offsets);
    rp_free(packer->context, packer->holes);
    rp_free(packer->context, packer->by_length);
    rp_free(packer->context, packer->by_end);
    rp_free(packer->context, packer->events[0]);
    rp_free(packer->context, packer->events[1]);
    rp_free(packer->context, packer);
}

const int64_t *rp_packer_offsets(const rp_packer *packer) {
    return packer->offsets;
}

/* ---- Sweep: a heap ---- */

static void remove_hole(rp_packer *p, size_t i) {
    memmove(p->holes + i, p->holes + i + 1, (p->hole_count - i - 1) * sizeof *p->holes);
    p->hole_count--;
}

/* The hole to use, or hole_count. */
static size_t choose_hole(rp_packer *p, int64_t bytes, bool best_fit) {
    size_t best = p->hole_count;
    if (*p->effort == 0)
        return best;
    for (size_t i = 0; i < p->hole_count; i++) {
        const int64_t size = p->holes[i].high - p->holes[i].low;
        if (size < bytes)
            continue;
        if (best == p->hole_count || size < p->holes[best].high - p->holes[best].low)
            best = i;
        if (!best_fit)
            break;
    }
    rp_pack_spend(p->effort, p->hole_count);
    return best;
}

/* Above everything, from the last hole on if that one reaches the top. */
static int64_t allocate_at_top(rp_packer *p, int64_t bytes) {
    int64_t low = p->top, high = 0;
    const bool reaches = p->hole_count > 0 && p->holes[p->hole_count - 1].high == p->top;
    if (reaches)
        low = p->holes[p->hole_count - 1].low;
    if (!rp_checked_add(low, bytes, &high))
        return -1;
    p->hole_count -= reaches;
    if (high > p->top)
        p->top = high;
    return low;
}

/* -1: beyond 2^63 - 1. */
static int64_t allocate(rp_packer *p, int64_t bytes, bool best_fit) {
    const size_t i = choose_hole(p, bytes, best_fit);
    if (i == p->hole_count)
        return allocate_at_top(p, bytes);
    const int64_t low = p->holes[i].low;
    p->holes[i].low += bytes;
    if (p->holes[i].low == p->holes[i].high)
        remove_hole(p, i);
    return low;
}

static void release(rp_packer *p, int64_t low, int64_t high) {
    size_t i = 0, end = p->hole_count;
    while (i < end) {
        const size_t middle = i + (end - i) / 2;
        if (p->holes[middle].low < low)
            i = middle + 1;
        else
            end = middle;
    }
    const bool joins_left = i > 0 && p->holes[i - 1].high == low;
    const bool joins_right = i < p->hole_count && p->holes[i].low == high;
    if (joins_left && joins_right) {
        p->holes[i - 1].high = p->holes[i].high;
        remove_hole(p, i);
    } else if (joins_left) {
        p->holes[i - 1].high = high;
    } else if (joins_right) {
        p->holes[i].low = low;
    } else {
        memmove(p->holes + i + 1, p->holes + i, (p->hole_count - i) * sizeof *p->holes);
        p->holes[i] = (hole){low, high};
        p->hole_count++;
    }
}

/* ---- Sweep: the walk ---- */

static bool is_across(const rp_block *block, uint32_t tick) {
    return block->begin <= tick && block->end > tick;
}

/* What lives at the tick lies without holes from 0 on. Returns its height. */
static int64_t stack_up(rp_packer *p, uint32_t tick, rp_pack_stack stack) {
    const rp_lifetimes *l = p->lifetimes;
    const uint32_t *order = stack == RP_STACK_LENGTH ? p->by_length : p->by_end;
    int64_t height = 0;
    for (uint32_t i = 0; i < l->block_count; i++) {
        const uint32_t b = stack == RP_STACK_BEGIN ? i : order[i]; /* they are in order of begin */
        if (!is_across(&l->blocks[b], tick))
            continue;
        p->offsets[b] = height;
        if (!rp_checked_add(height, l->blocks[b].bytes, &height))
            return RP_PACK_FAILED;
    }
    rp_pack_spend(p->effort, l->block_count);
    return height;
}

/* The first event at `time` or later. */
static size_t first_event(const event *events, size_t count, uint64_t time) {
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (events[middle] >> 32 < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Away from the tick, where `stacked` bytes lie. Every event from there on is the end of a block
 * that was live there, or of one that begins on this side. Returns the height of this side. */
static int64_t walk(rp_packer *p, uint32_t tick, bool forward, int64_t stacked, bool best_fit) {
    const rp_lifetimes *l = p->lifetimes;
    const event *events = p->events[forward];
    const size_t count = 2 * l->block_count;
    const size_t first = first_event(events, count, forward ? (uint64_t)tick + 1 : l->ticks - tick);
    p->hole_count = 0;
    p->top = stacked;
    for (size_t i = first; i < count; i++) {
        const uint32_t block = p->by_length[events[i] & EVENT_RANK];
        int64_t *offset = &p->offsets[block];
        if ((events[i] & EVENT_BEGINS) != 0)
            *offset = allocate(p, l->blocks[block].bytes, best_fit);
        else
            release(p, *offset, *offset + l->blocks[block].bytes);
        if (*offset < 0)
            return RP_PACK_FAILED;
    }
    rp_pack_spend(p->effort, 2 * (count - first));
    return p->top;
}

int64_t rp_pack_sweep(rp_packer *packer, uint32_t tick, rp_pack_stack stack, bool best_fit) {
    const int64_t height = stack_up(packer, tick, stack);
    if (height == RP_PACK_FAILED)
        return height;
    const int64_t after = walk(packer, tick, true, height, best_fit);
    const int64_t before = walk(packer, tick, false, height, best_fit);
    if (after == RP_PACK_FAILED || before == RP_PACK_FAILED)
        return RP_PACK_FAILED;
    return after > before ? after : before;
}
