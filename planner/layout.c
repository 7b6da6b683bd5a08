/* The layout: tries packings from cheap to dear until one meets the live peak, which none can
 * beat. */
#include "layout.h"

#include <stdlib.h>
#include <string.h>

#include "pack.h"

/* Looks at blocks or holes, one or two nanoseconds each: at most some 30 ms for a layout that does
 * not meet the live peak, less for small ones, and for large ones enough for the first packings. */
enum { EFFORT = 16 << 20, EFFORT_SMALL = 32 << 10, EFFORT_LARGE = 64 };

static uint64_t effort_for(uint64_t blocks) {
    const uint64_t small = EFFORT_SMALL * blocks;
    return (small < EFFORT ? small : EFFORT) + EFFORT_LARGE * blocks;
}

/* A layout under construction. */
typedef struct search {
    rp_context *context;
    const rp_lifetimes *lifetimes;
    rp_packer *packer;
    int64_t *best; /* offsets by block */
    int64_t best_height;
    uint32_t *order, *trial;
    int64_t *crowd; /* block -> the most bytes live at one tick of its life */
    uint64_t random;
} search;

/* Keeps the packer's offsets if they are the lowest so far; whether nothing can be lower. */
static bool keep(search *s, int64_t height) {
    if (height < s->best_height) {
        s->best_height = height;
        memcpy(s->best, rp_packer_offsets(s->packer), s->lifetimes->block_count * sizeof *s->best);
    }
    return s->best_height == s->lifetimes->live_peak_bytes;
}

/* Around one tick, in every way. */
static bool sweep_around(search *s, uint32_t tick) {
    static const rp_pack_stack stacks[] = {RP_STACK_END, RP_STACK_BEGIN, RP_STACK_LENGTH};
    for (size_t i = 0; i < sizeof stacks / sizeof stacks[0]; i++)
        for (int best_fit = 1; best_fit >= 0; best_fit--)
            if (rp_packer_effort(s->packer) > 0 &&
                keep(s, rp_pack_sweep(s->packer, tick, stacks[i], best_fit != 0)))
                return true;
    return false;
}

/* A tick at which much is live. */
typedef struct summit {
    int64_t live;
    uint32_t tick;
} summit;

static int compare_summits(const void *a, const void *b) {
    const summit *x = a, *y = b;
    if (x->live != y->live)
        return x->live > y->live ? -1 : 1;
    return x->tick == y->tick ? 0 : x->tick < y->tick ? -1 : 1;
}

static int64_t *list_live_bytes(const search *s) {
    const rp_lifetimes *l = s->lifetimes;
    int64_t *live = rp_alloc(s->context, (size_t)l->ticks + 1, sizeof *live);
    if (live == NULL)
        return NULL;
    for (size_t i = 0; i < l->piece_count; i++) {
        live[l->pieces[i].begin] += l->pieces[i].bytes;
        live[l->pieces[i].end] -= l->pieces[i].bytes;
    }
    for (uint32_t t = 1; t < l->ticks; t++)
        live[t] += live[t - 1];
    return live;
}

/* Around the other ticks at which at least half of the peak is live, from the highest on, while
 * more than `rest` of the effort is left. */
static bool sweep_summits(search *s, uint64_t rest, bool *done) {
    const rp_lifetimes *l = s->lifetimes;
    int64_t *live = list_live_bytes(s);
    summit *summits = rp_resize(s->context, NULL, l->ticks, sizeof *summits);
    size_t count = 0;
    *done = false;
    if (live != NULL && summits != NULL) {
        for (uint32_t t = 0; t < l->ticks; t++)
            if (t != l->peak_tick && live[t] >= l->live_peak_bytes / 2)
                summits[count++] = (summit){live[t], t};
        qsort(summits, count, sizeof *summits, compare_summits);
        for (size_t i = 0; i < count && !*done && rp_packer_effort(s->packer) > rest; i++)
            *done = sweep_around(s, summits[i].tick);
    }
    const bool memory = live != NULL && summits != NULL;
    rp_free(s->context, live);
    rp_free(s->context, summits);
    return memory;
}

/* ---- Orders ---- */

typedef struct ranked {
    int64_t first, second; /* larger ones go first */
    uint32_t block;
} ranked;

static int compare_ranked(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->first != y->first)
        return x->first > y->first ? -1 : 1;
    if (x->second != y->second)
        return x->second > y->second ? -1 : 1;
    return x->block == y->block ? 0 : x->block < y->block ? -1 : 1;
}

/* Most bytes live at one tick of each block's life: a maximum over a range, by a segment tree. */
static bool find_crowds(search *s) {
    const rp_lifetimes *l = s->lifetimes;
    const size_t n = l->ticks;
    int64_t *tree = rp_alloc(s->context, 2 * n + 1, sizeof *tree);
    s->crowd = rp_alloc(s->context, l->block_count, sizeof *s->crowd);
    if (tree == NULL || s->crowd == NULL) {
        rp_free(s->context, tree);
        return false;
    }
    for (size_t i = 0; i < l->piece_count; i++) {
        tree[n + l->pieces[i].begin] += l->pieces[i].bytes;
        tree[n + l->pieces[i].end] -= l->pieces[i].bytes; /* one place behind the leaves too */
    }
    for (size_t i = n + 1; i < 2 * n; i++)
        tree[i] += tree[i - 1];
    for (size_t i = n - 1; i > 0; i--)
        tree[i] = tree[2 * i] > tree[2 * i + 1] ? tree[2 * i] : tree[2 * i + 1];
    for (size_t b = 0; b < l->block_count; b++) {
        int64_t most = 0;
        for (size_t i = n + l->blocks[b].begin, k = n + l->blocks[b].end; i < k; i /= 2, k /= 2) {
            if (i % 2 == 1) {
                most = tree[i] > most ? tree[i] : most;
                i++;
            }
            if (k % 2 == 1) {
                k--;
                most = tree[k] > most ? tree[k] : most;
            }
        }
        s->crowd[b] = most;
    }
    rp_free(s->context, tree);
    return true;
}

/* Bytes in at most `bits` bits, so that products with lengths stay exact. */
static int64_t scaled(const search *s, int64_t bytes, int bits) {
    return bytes / ((s->lifetimes->live_peak_bytes >> bits) + 1);
}

typedef ranked rank_block(const search *s, uint32_t block);

static int64_t length_of(const search *s, uint32_t block) {
    return s->lifetimes->blocks[block].end - s->lifetimes->blocks[block].begin;
}

static ranked by_crowd_and_length(const search *s, uint32_t block) {
    return (ranked){s->crowd[block], length_of(s, block), block};
}

static ranked by_size(const search *s, uint32_t block) {
    return (ranked){s->lifetimes->blocks[block].bytes, length_of(s, block), block};
}

static ranked by_crowd_and_size(const search *s, uint32_t block) {
    return (ranked){s->crowd[block], s->lifetimes->blocks[block].bytes, block};
}

static ranked by_size_squared_and_length(const search *s, uint32_t block) {
    const int64_t bytes = scaled(s, s->lifetimes->blocks[block].bytes, 15);
    return (ranked){bytes * bytes * length_of(s, block), length_of(s, block), block};
}

static ranked by_area(const search *s, uint32_t block) {
    const int64_t bytes = scaled(s, s->lifetimes->blocks[block].bytes, 30);
    return (ranked){bytes * length_of(s, block), length_of(s, block), block};
}

static ranked by_length(const search *s, uint32_t block) {
    return (ranked){length_of(s, block), s->lifetimes->blocks[block].bytes, block};
}

/* Packed again in the order of its addresses, no packing gets higher: a start for the search. */
static ranked by_best_place(const search *s, uint32_t block) {
    return (ranked){-s->best[block], 0, block};
}

static bool sort_order(search *s, rank_block *rank) {
    const size_t n = s->lifetimes->block_count;
    ranked *list = rp_resize(s->context, NULL, n, sizeof *list);
    if (list == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++)
        list[i] = rank(s, i);
    qsort(list, n, sizeof *list, compare_ranked);
    for (size_t i = 0; i < n; i++)
        s->order[i] = list[i].block;
    rp_free(s->context, list);
    return true;
}

/* Whether the effort is enough for one more packing in order, at worst. */
static bool has_effort(const search *s) {
    const uint64_t n = s->lifetimes->piece_count;
    return rp_packer_effort(s->packer) > n * (n + 1) / 2;
}

static bool try_orders(search *s, bool *done) {
    static rank_block *const orders[] = {by_crowd_and_length,        by_size,
                                         by_crowd_and_size,          by_area,
                                         by_size_squared_and_length, by_length};
    *done = false;
    if (!has_effort(s))
        return true;
    if (!find_crowds(s))
        return false;
    for (size_t i = 0; i < sizeof orders / sizeof orders[0] && has_effort(s) && !*done; i++) {
        if (!sort_order(s, orders[i]))
            return false;
        *done = keep(s, rp_pack_in_order(s->packer, s->order, s->best_height));
    }
    return true;
}

/* ---- Local search ---- */

/* From 0 to limit - 1 (Knuth's MMIX generator; the low bits are weak). */
static size_t draw(search *s, size_t limit) {
    s->random = s->random * 6364136223846793005ULL + 1442695040888963407ULL;
    return (size_t)((s->random >> 33) % limit);
}

static bool sticks_out(const search *s, const int64_t *offsets, uint32_t block) {
    return offsets[block] + s->lifetimes->blocks[block].bytes > s->lifetimes->live_peak_bytes;
}

/* The place in the order of one of the blocks that end above the live peak. */
static size_t draw_sticking(search *s, const int64_t *offsets) {
    size_t count = 0, place = 0;
    for (uint32_t i = 0; i < s->lifetimes->block_count; i++)
        count += sticks_out(s, offsets, i);
    for (size_t skip = draw(s, count);; place++)
        if (sticks_out(s, offsets, s->order[place]) && skip-- == 0)
            return place;
}

/* Moves one block that sticks out to an earlier place in the order, as long as that makes the
 * packing no higher. */
static bool improve(search *s) {
    const size_t n = s->lifetimes->block_count;
    int64_t *offsets = rp_resize(s->context, NULL, n, sizeof *offsets);
    if (offsets == NULL)
        return false;
    int64_t height = RP_PACK_FAILED;
    bool done = !has_effort(s);
    if (!done && !sort_order(s, by_best_place)) {
        rp_free(s->context, offsets);
        return false;
    }
    memcpy(s->trial, s->order, n * sizeof *s->trial);
    while (!done) {
        const int64_t got = rp_pack_in_order(s->packer, s->trial, height);
        if (got != RP_PACK_FAILED) {
            height = got;
            memcpy(offsets, rp_packer_offsets(s->packer), n * sizeof *offsets);
            memcpy(s->order, s->trial, n * sizeof *s->order);
        }
        if (keep(s, got) || height == RP_PACK_FAILED || !has_effort(s))
            break;
        size_t from = draw_sticking(s, offsets);
        if (from == 0)
            from = draw(s, n);
        const size_t to = from > 0 ? draw(s, from) : 0;
        memcpy(s->trial, s->order, n * sizeof *s->trial);
        memmove(s->trial + to + 1, s->trial + to, (from - to) * sizeof *s->trial);
        s->trial[to] = s->order[from];
    }
    rp_free(s->context, offsets);
    return true;
}

static rp_status pack(search *s) {
    rp_context *context = s->context;
    const size_t n = s->lifetimes->block_count;
    bool done = n == 0, memory = true;
    s->packer = rp_packer_create(context, s->lifetimes, effort_for(n));
    s->order = rp_resize(context, NULL, n, sizeof *s->order);
    s->trial = rp_resize(context, NULL, n, sizeof *s->trial);
    s->best = rp_alloc(context, n, sizeof *s->best);
    s->best_height = n == 0 ? 0 : RP_PACK_FAILED;
    if (s->packer == NULL || s->order == NULL || s->trial == NULL || s->best == NULL)
        memory = false;
    if (memory && !done)
        done = sweep_around(s, s->lifetimes->peak_tick);
    if (memory && !done)
        memory = try_orders(s, &done);
    if (memory && !done)
        memory = sweep_summits(s, rp_packer_effort(s->packer) / 2, &done);
    if (memory && !done && s->best_height != RP_PACK_FAILED)
        memory = improve(s);
    rp_packer_destroy(s->packer);
    rp_free(context, s->order);
    rp_free(context, s->trial);
    rp_free(context, s->crowd);
    if (!memory)
        return rp_fail_memory(context, "the layout of a schedule");
    if (s->best_height == RP_PACK_FAILED)
        return rp_fail(context, RP_BAD_INPUT, "layout: addresses exceed 2^63 - 1");
    return RP_OK;
}

/* ---- Placements ---- */

static int compare_placements(const void *a, const void *b) {
    const rp_placement *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return x->value == y->value ? 0 : x->value < y->value ? -1 : 1;
}

/* Persistent values from 0 on in the order of their indices, the rest above. */
static bool list_placements(const rp_graph *graph, const rp_lifetimes *lifetimes,
                            const int64_t *offsets, rp_layout *layout) {
    size_t persistent = 0;
    for (size_t v = 0; v < graph->value_count; v++)
        persistent += graph->values[v].persistent;
    layout->placements = rp_resize(graph->context, NULL, persistent + lifetimes->storage_count,
                                   sizeof *layout->placements);
    if (layout->placements == NULL)
        return false;
    int64_t offset = 0;
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (graph->values[v].persistent) {
            layout->placements[layout->count++] = (rp_placement){0, v, offset};
            offset += graph->values[v].bytes;
        }
    for (size_t i = 0; i < lifetimes->storage_count; i++) {
        const rp_storage *s = &lifetimes->storages[i];
        const int64_t at = s->block == RP_NONE ? 0 : graph->persistent_bytes + offsets[s->block];
        layout->placements[layout->count++] = (rp_placement){s->step, s->value, at};
    }
    qsort(layout->placements, layout->count, sizeof *layout->placements, compare_placements);
    return true;
}

rp_status rp_layout_create(const rp_graph *graph, const rp_schedule *schedule, rp_layout *layout) {
    rp_context *context = graph->context;
    rp_lifetimes lifetimes;
    *layout = (rp_layout){.placements = NULL};
    rp_status status = rp_lifetimes_create(graph, schedule->steps, schedule->count, &lifetimes);
    if (status != RP_OK)
        return status;
    search s = {.context = context, .lifetimes = &lifetimes, .random = 1};
    status = pack(&s);
    if (status == RP_OK &&
        !rp_checked_add(graph->persistent_bytes, s.best_height, &layout->arena_bytes))
        status = rp_fail(context, RP_BAD_INPUT, "layout: addresses exceed 2^63 - 1");
    if (status == RP_OK && !list_placements(graph, &lifetimes, s.best, layout))
        status = rp_fail_memory(context, "the layout of a schedule");
    layout->live_peak_bytes = graph->persistent_bytes + lifetimes.live_peak_bytes;
    rp_free(context, s.best);
    rp_lifetimes_clear(context, &lifetimes);
    return status;
}

void rp_layout_clear(rp_context *context, rp_layout *layout) {
    rp_free(context, layout->placements);
    *layout = (rp_layout){.placements = NULL};
}
