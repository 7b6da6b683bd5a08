/* Packing from the bottom up under a ceiling, as in bottom-left-fill for strips: the lowest valley
 * of the skyline gets the block with the greatest weight that lies in it altogether. Where none
 * does, the valley is filled up to its lower shore, which wastes bytes: no more than the ceiling
 * leaves at each moment after all that is still to come there. What cannot be placed when that
 * fails gains weight, and the next attempt puts it earlier (squeaky wheel optimisation, Joslin &
 * Clements 1999). */
#include "pack_skyline.h"

#include <stdlib.h>

#include "sections.h"

/* Weight of one section of a block's life. */
enum { LENGTH = 16 };

/* A run of sections with the same height. Records are named by their first section. */
typedef struct run {
    uint32_t end;      /* first section behind it */
    uint32_t previous; /* first section of the run before it, or RP_NONE */
    int64_t height;
    bool exists;
} run;

/* An entry of the heap of runs, lowest first; it is stale if the run has changed. */
typedef struct valley {
    int64_t height;
    uint32_t begin, end;
} valley;

typedef struct weighted {
    uint64_t weight;
    int64_t bytes;
    uint32_t block;
} weighted;

struct rp_skyline {
    rp_context *context;
    const rp_lifetimes *lifetimes;
    uint64_t *effort;
    int64_t *offsets; /* -1: not placed */
    rp_sections sections;
    uint32_t *first;  /* of each section: the first block that begins there or later */
    int64_t *load;    /* of each section: all bytes */
    int64_t *to_come; /* of each section: bytes not placed yet */
    uint64_t *weights;
    weighted *ranks;      /* blocks by falling weight */
    uint32_t *next_block; /* from a block to itself or a later one that may not be placed yet */
    uint32_t *next_rank;  /* the same for ranks */
    uint32_t *rank_of;
    run *runs;
    valley *heap;
    size_t heap_count, heap_capacity;
    uint64_t random;
};

/* ---- Making ---- */

static bool make_sections(rp_skyline *s) {
    const rp_lifetimes *l = s->lifetimes;
    const size_t n = s->sections.count;
    s->first = rp_alloc(s->context, n + 1, sizeof *s->first);
    s->load = rp_alloc(s->context, n, sizeof *s->load);
    s->to_come = rp_alloc(s->context, n, sizeof *s->to_come);
    s->runs = rp_alloc(s->context, n, sizeof *s->runs);
    if (s->first == NULL || s->load == NULL || s->to_come == NULL || s->runs == NULL)
        return false;
    for (uint32_t i = 0, b = 0; i <= n; i++) {
        while (b < l->block_count && s->sections.blocks[b].begin < i)
            b++;
        s->first[i] = b;
    }
    for (size_t i = 0; i < l->piece_count; i++)
        for (uint32_t k = s->sections.pieces[i].begin; k < s->sections.pieces[i].end; k++)
            s->load[k] += s->sections.pieces[i].bytes;
    return true;
}

rp_skyline *rp_skyline_create(rp_context *context, const rp_lifetimes *lifetimes,
                              uint64_t *effort) {
    const size_t n = lifetimes->block_count;
    rp_skyline *s = rp_alloc(context, 1, sizeof *s);
    if (s == NULL)
        return NULL;
    *s = (rp_skyline){.context = context,
                      .lifetimes = lifetimes,
                      .effort = effort,
                      .random = 1,
                      .offsets = rp_alloc(context, n, sizeof *s->offsets),
                      .weights = rp_alloc(context, n, sizeof *s->weights),
                      .ranks = rp_alloc(context, n, sizeof *s->ranks),
                      .next_block = rp_alloc(context, n + 1, sizeof *s->next_block),
                      .next_rank = rp_alloc(context, n + 1, sizeof *s->next_rank),
                      .rank_of = rp_alloc(context, n, sizeof *s->rank_of)};
    if (s->offsets == NULL || s->weights == NULL || s->ranks == NULL || s->next_block == NULL ||
        s->next_rank == NULL || s->rank_of == NULL ||
        !rp_sections_create(context, lifetimes, &s->sections) || !make_sections(s)) {
        rp_skyline_destroy(s);
        return NULL;
    }
    rp_skyline_restart(s, 0);
    return s;
}

void rp_skyline_destroy(rp_skyline *s) {
    if (s == NULL)
        return;
    rp_free(s->context, s->offsets);
    rp_sections_clear(s->context, &s->sections);
    rp_free(s->context, s->first);
    rp_free(s->context, s->load);
    rp_free(s->context, s->to_come);
    rp_free(s->context, s->weights);
    rp_free(s->context, s->ranks);
    rp_free(s->context, s->next_block);
    rp_free(s->context, s->next_rank);
    rp_free(s->context, s->rank_of);
    rp_free(s->context, s->runs);
    rp_free(s->context, s->heap);
    rp_free(s->context, s);
}

const int64_t *rp_skyline_offsets(const rp_skyline *skyline) {
    return skyline->offsets;
}

/* Long-lived blocks first, then with noise, then large ones or large areas first. */
void rp_skyline_restart(rp_skyline *s, uint32_t round) {
    const rp_lifetimes *l = s->lifetimes;
    const int64_t unit = (l->live_peak_bytes >> 16) + 1; /* sizes in 16 bits */
    for (size_t i = 0; i < l->block_count; i++) {
        const uint64_t length = s->sections.blocks[i].end - s->sections.blocks[i].begin;
        const uint64_t bytes = (uint64_t)(l->blocks[i].bytes / unit);
        const uint64_t large = bytes * s->sections.count >> 14;
        const uint32_t noise = rp_pack_draw(&s->random, LENGTH);
        const uint64_t weights[] = {LENGTH * length, length * (LENGTH / 2 + noise),
                                    LENGTH * large + noise,
                                    LENGTH * (length / 2 + large / 2) + noise};
        s->weights[i] = weights[round % 4];
    }
}

/* ---- The heap of runs ---- */

static bool is_lower(const valley *a, const valley *b) {
    return a->height != b->height ? a->height < b->height : a->begin < b->begin;
}

static bool push_valley(rp_skyline *s, uint32_t begin) {
    const valley fresh = {s->runs[begin].height, begin, s->runs[begin].end};
    if (!rp_reserve(s->context, &s->heap, &s->heap_capacity, s->heap_count + 1, sizeof *s->heap))
        return false;
    size_t i = s->heap_count++;
    for (; i > 0 && is_lower(&fresh, &s->heap[(i - 1) / 2]); i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = fresh;
    return true;
}

static valley pop_valley(rp_skyline *s) {
    const valley top = s->heap[0], last = s->heap[--s->heap_count];
    size_t i = 0;
    for (size_t child = 1; child < s->heap_count; child = 2 * i + 1) {
        if (child + 1 < s->heap_count && is_lower(&s->heap[child + 1], &s->heap[child]))
            child++;
        if (!is_lower(&s->heap[child], &last))
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

static bool is_stale(const rp_skyline *s, const valley *v) {
    const run *r = &s->runs[v->begin];
    return !r->exists || r->height != v->height || r->end != v->end;
}

/* ---- Choosing a block ---- */

/* The first block from i on that is not placed, with halving of the paths. */
static uint32_t find_next(uint32_t *next, uint32_t i) {
    while (next[i] != i) {
        next[i] = next[next[i]];
        i = next[i];
    }
    return i;
}

/* The block with the greatest weight within [begin, end), or RP_NONE. Two searches take turns: by
 * weight, where the first hit is the answer, and among those that begin there, all of which have to
 * be seen. The shorter one decides. */
static uint32_t choose_block(rp_skyline *s, uint32_t begin, uint32_t end) {
    const uint32_t n = (uint32_t)s->lifetimes->block_count;
    const uint32_t stop = s->first[end];
    uint32_t rank = find_next(s->next_rank, 0), block = find_next(s->next_block, s->first[begin]);
    uint32_t best = RP_NONE, looks = 0;
    for (; block < stop && rank < n; looks++) {
        const uint32_t heavy = s->ranks[rank].block;
        if (s->sections.blocks[heavy].begin >= begin && s->sections.blocks[heavy].end <= end) {
            best = heavy;
            break;
        }
        if (s->sections.blocks[block].end <= end &&
            (best == RP_NONE || s->rank_of[block] < s->rank_of[best]))
            best = block;
        rank = find_next(s->next_rank, rank + 1);
        block = find_next(s->next_block, block + 1);
    }
    rp_pack_spend(s->effort, 2 * looks + 4);
    return best;
}

/* ---- Building ---- */

static int compare_weighted(const void *a, const void *b) {
    const weighted *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->block == y->block ? 0 : x->block < y->block ? -1 : 1;
}

static bool begin_attempt(rp_skyline *s) {
    const uint32_t n = (uint32_t)s->lifetimes->block_count;
    for (uint32_t i = 0; i < n; i++) {
        s->ranks[i] = (weighted){s->weights[i], s->lifetimes->blocks[i].bytes, i};
        s->offsets[i] = -1;
    }
    qsort(s->ranks, n, sizeof *s->ranks, compare_weighted);
    for (uint32_t i = 0; i < n; i++)
        s->rank_of[s->ranks[i].block] = i;
    for (uint32_t i = 0; i <= n; i++)
        s->next_block[i] = s->next_rank[i] = i;
    for (uint32_t i = 0; i < s->sections.count; i++) {
        s->to_come[i] = s->load[i];
        s->runs[i].exists = false;
    }
    s->runs[0] = (run){s->sections.count, RP_NONE, 0, true};
    s->heap_count = 0;
    rp_pack_spend(s->effort, 16 * (uint64_t)n + s->sections.count);
    return push_valley(s, 0);
}

/* Ends the run before `at` and begins another one of the same height there. */
static void cut_run(rp_skyline *s, uint32_t begin, uint32_t at) {
    run *r = &s->runs[begin];
    s->runs[at] = (run){r->end, begin, r->height, true};
    if (r->end < s->sections.count)
        s->runs[r->end].previous = at;
    r->end = at;
}

/* Joins neighbours of the same height; returns the first section of what they have become. */
static uint32_t join_runs(rp_skyline *s, uint32_t begin) {
    for (int side = 0; side < 2; side++) {
        const uint32_t left = side == 0 ? s->runs[begin].previous : begin;
        const uint32_t right = side == 0 ? begin : s->runs[begin].end;
        if (left == RP_NONE || right >= s->sections.count ||
            s->runs[left].height != s->runs[right].height)
            continue;
        s->runs[left].end = s->runs[right].end;
        s->runs[right].exists = false;
        if (s->runs[left].end < s->sections.count)
            s->runs[s->runs[left].end].previous = left;
        begin = left;
    }
    return begin;
}

/* Puts the block on the run that begins at `begin`, and it rises there. Pieces of a block follow
 * each other. */
static bool place_block(rp_skyline *s, uint32_t begin, uint32_t block) {
    const rp_block *b = &s->lifetimes->blocks[block];
    const int64_t bottom = s->runs[begin].height;
    s->offsets[block] = bottom;
    s->next_block[block] = block + 1;
    s->next_rank[s->rank_of[block]] = s->rank_of[block] + 1;
    uint32_t at = begin; /* the part of the run that is still at the bottom */
    for (size_t i = 0; i < b->pieces.count; i++) {
        const rp_span *p = &s->sections.pieces[b->pieces.begin + i];
        if (p->begin == p->end)
            continue;
        if (p->begin > at)
            cut_run(s, at, p->begin);
        if (p->end < s->runs[p->begin].end)
            cut_run(s, p->begin, p->end);
        for (uint32_t k = p->begin; k < p->end; k++)
            s->to_come[k] -= p->bytes;
        s->runs[p->begin].height = bottom + p->bytes;
        if (p->begin > at && !push_valley(s, at))
            return false;
        at = p->end;
        rp_pack_spend(s->effort, p->end - p->begin);
        const uint32_t joined = join_runs(s, p->begin);
        if (!push_valley(s, joined))
            return false;
    }
    return at >= s->sections.count || !s->runs[at].exists || push_valley(s, at);
}

/* The section at which filling the run up to its lower shore wastes too much, or RP_NONE. */
static uint32_t fill_valley(rp_skyline *s, uint32_t begin, int64_t ceiling, bool *memory) {
    run *r = &s->runs[begin];
    int64_t shore = INT64_MAX;
    if (r->previous != RP_NONE)
        shore = s->runs[r->previous].height;
    if (r->end < s->sections.count && s->runs[r->end].height < shore)
        shore = s->runs[r->end].height;
    if (shore == INT64_MAX)
        return RP_NONE; /* everything is placed: nothing has to rise */
    rp_pack_spend(s->effort, r->end - begin);
    for (uint32_t i = begin; i < r->end; i++)
        if (s->to_come[i] > ceiling - shore)
            return i;
    r->height = shore;
    *memory = push_valley(s, join_runs(s, begin));
    return RP_NONE;
}

/* Half of what could not be placed at the section gains weight. */
static void blame(rp_skyline *s, uint32_t section) {
    const uint32_t n = (uint32_t)s->lifetimes->block_count;
    for (uint32_t i = find_next(s->next_block, 0); i < n && s->sections.blocks[i].begin <= section;
         i = find_next(s->next_block, i + 1))
        if (s->sections.blocks[i].end > section && rp_pack_draw(&s->random, 2) == 0)
            s->weights[i] += LENGTH * (s->sections.count / 5 + 1);
}

int64_t rp_pack_skyline(rp_skyline *s, int64_t ceiling, bool *memory) {
    const rp_lifetimes *l = s->lifetimes;
    size_t placed = 0;
    *memory = begin_attempt(s);
    while (*memory && placed<l->block_count && * s->effort> 0) {
        const valley low = pop_valley(s);
        if (is_stale(s, &low))
            continue;
        const uint32_t block = choose_block(s, low.begin, low.end);
        if (block != RP_NONE) {
            *memory = place_block(s, low.begin, block);
            placed++;
            continue;
        }
        const uint32_t failed = fill_valley(s, low.begin, ceiling, memory);
        if (failed != RP_NONE) {
            blame(s, failed);
            return RP_PACK_FAILED;
        }
    }
    if (!*memory || placed < l->block_count)
        return RP_PACK_FAILED;
    int64_t height = 0;
    for (size_t i = 0; i < l->block_count; i++)
        if (s->offsets[i] + l->blocks[i].bytes > height)
            height = s->offsets[i] + l->blocks[i].bytes;
    return height;
}
