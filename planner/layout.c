/* The layout: tries packings from cheap to dear until one meets the live peak, which none can
 * beat. */
#include "layout.h"

#include <stdlib.h>
#include <string.h>

#include "pack.h"
#include "pack_repair.h"
#include "pack_skyline.h"

/* Looks at blocks, holes or moments, one or two nanoseconds each. */
typedef struct effort {
    uint64_t per_block, most;
} effort;

/* Of both kinds of layout: for one that does not meet the live peak, and on top of that for one
 * that loses more than a GOAL-th of it. */
static const effort SEARCH[] = {{8 << 10, 4 << 20}, {32 << 10, 16 << 20}};
static const effort REPAIR[] = {{0, 0}, {256 << 10, 64 << 20}};

/* What the sweeps have however large the schedule is. */
enum { SWEEP_BLOCK = 64 };

enum { GOAL = 200 };

/* With the same weights to learn on. */
enum { ATTEMPTS = 256 };

/* Of a repair. */
enum { STEPS = 40000 };

static uint64_t effort_for(const effort *e, uint64_t blocks) {
    return e->per_block * blocks < e->most ? e->per_block * blocks : e->most;
}

/* A layout under construction. */
typedef struct search {
    rp_context *context;
    const rp_lifetimes *lifetimes;
    rp_packer *packer;
    int64_t *best; /* offsets by block */
    int64_t best_height;
    rp_layout_effort kind;
    uint64_t effort;
} search;

/* Keeps the packer's offsets if they are the lowest so far; whether nothing can be lower. */
static bool keep_offsets(search *s, int64_t height, const int64_t *offsets) {
    if (height != RP_PACK_FAILED && (s->best_height == RP_PACK_FAILED || height < s->best_height)) {
        s->best_height = height;
        memcpy(s->best, offsets, s->lifetimes->block_count * sizeof *s->best);
    }
    return s->best_height == s->lifetimes->live_peak_bytes;
}

/* Whether a closer packing is worth more effort. */
static bool is_hard(const search *s) {
    const int64_t live = s->lifetimes->live_peak_bytes;
    return s->best_height - live > live / GOAL;
}

static bool keep(search *s, int64_t height) {
    return keep_offsets(s, height, rp_packer_offsets(s->packer));
}

/* Under ceilings between the live peak and the best height so far, in turn. */
static bool try_skylines(search *s, bool *done) {
    const int64_t live = s->lifetimes->live_peak_bytes;
    rp_skyline *skyline = rp_skyline_create(s->context, s->lifetimes, &s->effort);
    bool memory = skyline != NULL;
    for (uint32_t i = 0; memory && !*done && s->effort > 0; i++) {
        if (i % ATTEMPTS == ATTEMPTS - 1)
            rp_skyline_restart(skyline, i / ATTEMPTS);
        const int64_t gap = s->best_height - live;
        const int64_t ceilings[] = {live, live + gap - gap / 4, live + gap / 2, live + gap - 1};
        const int64_t height = rp_pack_skyline(skyline, ceilings[i % 4], &memory);
        *done = keep_offsets(s, height, rp_skyline_offsets(skyline));
    }
    rp_skyline_destroy(skyline);
    return memory;
}

/* Repairs the best packing, each time under a ceiling between it and the live peak; gives up when
 * the effort has brought nothing. */
static bool try_repairs(search *s) {
    const int64_t live = s->lifetimes->live_peak_bytes;
    const uint64_t patience = effort_for(&REPAIR[s->kind], s->lifetimes->block_count);
    s->effort = patience;
    rp_repair *repair = rp_repair_create(s->context, s->lifetimes, &s->effort);
    for (uint32_t round = 0; repair != NULL && is_hard(s) && s->effort > 0; round++) {
        const int64_t gap = s->best_height - live;
        const int64_t ceilings[] = {live + gap - 1 - gap / 8, live + gap - 1 - gap / 4,
                                    live + gap / 2};
        const int64_t height = rp_pack_repair(repair, s->best, ceilings[round % 3], STEPS);
        if (height == RP_PACK_FAILED)
            continue;
        keep_offsets(s, height, rp_repair_offsets(repair));
        s->effort = patience;
    }
    rp_repair_destroy(repair);
    return repair != NULL;
}

/* Around one tick, in every way. */
static bool sweep_around(search *s, uint32_t tick) {
    static const rp_pack_stack stacks[] = {RP_STACK_END, RP_STACK_BEGIN, RP_STACK_LENGTH};
    for (size_t i = 0; i < sizeof stacks / sizeof stacks[0]; i++)
        for (int best_fit = 1; best_fit >= 0; best_fit--)
            if (s->effort > 0 && keep(s, rp_pack_sweep(s->packer, tick, stacks[i], best_fit != 0)))
                return true;
    return false;
}

/* The largest storage stands for all that are in the way of each other. */
static rp_status fail_addresses(const rp_graph *graph, const rp_lifetimes *lifetimes) {
    const rp_storage *largest = NULL;
    for (size_t i = 0; i < lifetimes->storage_count; i++) {
        const rp_storage *s = &lifetimes->storages[i];
        if (s->block != RP_NONE && (largest == NULL || lifetimes->blocks[s->block].bytes >
                                                           lifetimes->blocks[largest->block].bytes))
            largest = s;
    }
    if (largest == NULL || largest->value == RP_NONE)
        return rp_fail(graph->context, RP_BAD_INPUT,
                       "layout: addresses exceed 2^63 - 1; the workspace of step %u is the largest",
                       largest != NULL ? largest->step : 0);
    return rp_fail(graph->context, RP_BAD_INPUT,
                   "layout: addresses exceed 2^63 - 1; value %u (%.80s) of step %u is the largest",
                   largest->value, rp_value_name(graph, largest->value), largest->step);
}

static rp_status pack(const rp_graph *graph, search *s) {
    rp_context *context = s->context;
    const size_t n = s->lifetimes->block_count;
    bool done = n == 0;
    s->effort = effort_for(&SEARCH[s->kind], n) + SWEEP_BLOCK * n;
    s->best_height = n == 0 ? 0 : RP_PACK_FAILED;
    s->best = rp_alloc(context, n, sizeof *s->best);
    s->packer = rp_packer_create(context, s->lifetimes, &s->effort);
    bool memory = s->best != NULL && s->packer != NULL;
    if (memory && !done)
        done = sweep_around(s, s->lifetimes->peak_tick);
    if (memory && !done && s->best_height != RP_PACK_FAILED)
        memory = try_skylines(s, &done);
    if (memory && s->best_height != RP_PACK_FAILED && is_hard(s))
        memory = try_repairs(s);
    rp_packer_destroy(s->packer);
    if (!memory)
        return rp_fail_memory(context, "the layout of a schedule");
    if (s->best_height == RP_PACK_FAILED)
        return fail_addresses(graph, s->lifetimes);
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

rp_status rp_layout_create(const rp_graph *graph, const rp_schedule *schedule,
                           rp_layout_effort effort, rp_layout *layout) {
    rp_context *context = graph->context;
    rp_lifetimes lifetimes;
    *layout = (rp_layout){.placements = NULL};
    rp_status status = rp_lifetimes_create(graph, schedule->steps, schedule->count, &lifetimes);
    if (status != RP_OK)
        return status;
    search s = {.context = context, .lifetimes = &lifetimes, .kind = effort};
    status = pack(graph, &s);
    if (status == RP_OK &&
        !rp_checked_add(graph->persistent_bytes, s.best_height, &layout->arena_bytes))
        status = fail_addresses(graph, &lifetimes);
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
