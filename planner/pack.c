/* The two packing engines. */
#include "pack.h"

#include <stdlib.h>
#include <string.h>

/* Free addresses below the top. */
typedef struct hole {
    int64_t low, high;
} hole;

/* In a sweep: a block begins or ends, seen in the direction of the walk. */
typedef struct event {
    uint32_t time, block;
    uint32_t length;
    bool begins;
    int64_t bytes;
} event;

typedef struct stacked {
    uint64_t rank;
    uint32_t block;
} stacked;

/* In order: addresses that are taken for a while. */
typedef struct rectangle {
    uint32_t begin, end;
    int64_t low, high;
} rectangle;

/* What sorting one event costs, in looks. */
enum { SORTING = 8 };

struct rp_packer {
    rp_context *context;
    const rp_lifetimes *lifetimes;
    uint64_t effort;
    int64_t *offsets;
    /* for both engines, never at the same time */
    hole *holes; /* ascending */
    size_t hole_count;
    int64_t top;
    event *events;
    stacked *stack;
    rectangle *rectangles; /* ascending low */
    size_t rectangle_count;
};

rp_packer *rp_packer_create(rp_context *context, const rp_lifetimes *lifetimes, uint64_t effort) {
    rp_packer *packer = rp_alloc(context, 1, sizeof *packer);
    if (packer == NULL)
        return NULL;
    packer->context = context;
    packer->lifetimes = lifetimes;
    packer->effort = effort;
    packer->offsets = rp_alloc(context, lifetimes->block_count, sizeof *packer->offsets);
    packer->holes = rp_resize(context, NULL, lifetimes->block_count + 1, sizeof *packer->holes);
    packer->events = rp_resize(context, NULL, 2 * lifetimes->block_count, sizeof *packer->events);
    packer->stack = rp_resize(context, NULL, lifetimes->block_count, sizeof *packer->stack);
    packer->rectangles =
        rp_resize(context, NULL, lifetimes->piece_count, sizeof *packer->rectangles);
    if (packer->offsets != NULL && packer->holes != NULL && packer->events != NULL &&
        packer->stack != NULL && packer->rectangles != NULL)
        return packer;
    rp_packer_destroy(packer);
    return NULL;
}

void rp_packer_destroy(rp_packer *packer) {
    if (packer == NULL)
        return;
    rp_free(packer->context, packer->offsets);
    rp_free(packer->context, packer->holes);
    rp_free(packer->context, packer->events);
    rp_free(packer->context, packer->stack);
    rp_free(packer->context, packer->rectangles);
    rp_free(packer->context, packer);
}

uint64_t rp_packer_effort(const rp_packer *packer) {
    return packer->effort;
}

const int64_t *rp_packer_offsets(const rp_packer *packer) {
    return packer->offsets;
}

static void spend(rp_packer *p, size_t looks) {
    p->effort = p->effort > looks ? p->effort - looks : 0;
}

/* ---- Sweep: a heap ---- */

static void remove_hole(rp_packer *p, size_t i) {
    memmove(p->holes + i, p->holes + i + 1, (p->hole_count - i - 1) * sizeof *p->holes);
    p->hole_count--;
}

/* The hole to use, or hole_count. */
static size_t choose_hole(rp_packer *p, int64_t bytes, bool best_fit) {
    size_t best = p->hole_count;
    if (p->effort == 0)
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
    spend(p, p->hole_count);
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

static int compare_stacked(const void *a, const void *b) {
    const stacked *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->block == y->block ? 0 : x->block < y->block ? -1 : 1;
}

/* Ends come first. Of what begins together the long-lived and the large go first. */
static int compare_events(const void *a, const void *b) {
    const event *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    if (x->begins != y->begins)
        return y->begins ? -1 : 1;
    if (x->begins && x->length != y->length)
        return x->length > y->length ? -1 : 1;
    if (x->begins && x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->block == y->block ? 0 : x->block < y->block ? -1 : 1;
}

/* What lives at the tick lies without holes from 0 on. Returns its height. */
static int64_t stack_up(rp_packer *p, uint32_t tick, rp_pack_stack stack) {
    const rp_lifetimes *l = p->lifetimes;
    size_t count = 0;
    for (uint32_t i = 0; i < l->block_count; i++) {
        const rp_block *block = &l->blocks[i];
        if (!is_across(block, tick))
            continue;
        const uint64_t ranks[] = {[RP_STACK_BEGIN] = block->begin,
                                  [RP_STACK_END] = l->ticks - block->end,
                                  [RP_STACK_LENGTH] = l->ticks - (block->end - block->begin)};
        p->stack[count++] = (stacked){ranks[stack], i};
    }
    qsort(p->stack, count, sizeof *p->stack, compare_stacked);
    int64_t height = 0;
    for (size_t i = 0; i < count; i++) {
        p->offsets[p->stack[i].block] = height;
        if (!rp_checked_add(height, l->blocks[p->stack[i].block].bytes, &height))
            return RP_PACK_FAILED;
    }
    return height;
}

/* The events on one side of the tick, in the order in which a walk away from it meets them. */
static size_t list_events(rp_packer *p, uint32_t tick, bool forward) {
    const rp_lifetimes *l = p->lifetimes;
    size_t count = 0;
    for (uint32_t i = 0; i < l->block_count; i++) {
        const rp_block *b = &l->blocks[i];
        const uint32_t begin = forward ? b->begin : l->ticks - b->end;
        const uint32_t end = forward ? b->end : l->ticks - b->begin;
        const bool across = is_across(b, tick);
        if (!across && (b->begin > tick) != forward)
            continue;
        if (!across)
            p->events[count++] = (event){begin, i, end - begin, true, b->bytes};
        p->events[count++] = (event){end, i, 0, false, b->bytes};
    }
    qsort(p->events, count, sizeof *p->events, compare_events);
    return count;
}

/* Returns the height of this side, at least `stacked`. */
static int64_t walk(rp_packer *p, uint32_t tick, bool forward, int64_t stacked_height,
                    bool best_fit) {
    const size_t count = list_events(p, tick, forward);
    p->hole_count = 0;
    p->top = stacked_height;
    spend(p, SORTING * count);
    for (size_t i = 0; i < count; i++) {
        const event *e = &p->events[i];
        int64_t *offset = &p->offsets[e->block];
        if (e->begins)
            *offset = allocate(p, e->bytes, best_fit);
        else
            release(p, *offset, *offset + e->bytes);
        if (*offset < 0)
            return RP_PACK_FAILED;
    }
    return p->top;
}

int64_t rp_pack_sweep(rp_packer *packer, uint32_t tick, rp_pack_stack stack, bool best_fit) {
    const int64_t height = stack_up(packer, tick, stack);
    if (height == RP_PACK_FAILED)
        return height;
    const int64_t after = walk(packer, tick, true, height, best_fit);
    const int64_t before = walk(packer, tick, false, height, best_fit);
    return after > before ? after : before;
}

/* ---- In order ---- */

/* The lowest address from `from` on where `piece` meets nothing. Rectangles are looked at from the
 * lowest to the highest, so that the first gap that is wide enough is the one. */
static int64_t lowest_place(rp_packer *p, const rp_piece *piece, int64_t from) {
    const rectangle *r = p->rectangles;
    int64_t place = from;
    size_t i = 0;
    for (; i < p->rectangle_count; i++) {
        if (r[i].begin >= piece->end || r[i].end <= piece->begin || r[i].high <= place)
            continue;
        if (r[i].low - place >= piece->bytes)
            break;
        place = r[i].high;
    }
    spend(p, i);
    return place;
}

static void add_rectangle(rp_packer *p, rectangle fresh) {
    size_t low = 0, high = p->rectangle_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (p->rectangles[middle].low < fresh.low)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(p->rectangles + low + 1, p->rectangles + low,
            (p->rectangle_count - low) * sizeof fresh);
    p->rectangles[low] = fresh;
    p->rectangle_count++;
}

/* All pieces of a block have the same address: raise it until each of them is content. */
static int64_t place_block(rp_packer *p, const rp_block *block) {
    const rp_piece *pieces = p->lifetimes->pieces + block->pieces.begin;
    int64_t place = lowest_place(p, &pieces[0], 0);
    for (size_t content = 1, i = 1; content < block->pieces.count;) {
        const int64_t raised = lowest_place(p, &pieces[i], place);
        content = raised == place ? content + 1 : 1;
        place = raised;
        i = (i + 1) % block->pieces.count;
    }
    return place;
}

int64_t rp_pack_in_order(rp_packer *packer, const uint32_t *order, int64_t limit) {
    const rp_lifetimes *l = packer->lifetimes;
    int64_t height = 0;
    packer->rectangle_count = 0;
    for (size_t i = 0; i < l->block_count; i++) {
        const rp_block *block = &l->blocks[order[i]];
        const int64_t place = place_block(packer, block);
        int64_t top = 0;
        if (!rp_checked_add(place, block->bytes, &top) || top > limit || packer->effort == 0)
            return RP_PACK_FAILED;
        if (top > height)
            height = top;
        packer->offsets[order[i]] = place;
        for (size_t k = 0; k < block->pieces.count; k++) {
            const rp_piece *piece = &l->pieces[block->pieces.begin + k];
            add_rectangle(packer,
                          (rectangle){piece->begin, piece->end, place, place + piece->bytes});
        }
    }
    return height;
}
