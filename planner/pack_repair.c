/* Packing by repair, an ejection search (after Nagata & Braysy 2009, who empty a vehicle's route
 * so). Blocks above the ceiling are homeless. In every step the heaviest of them takes the cheapest
 * place: a free one, or where those in its way weigh least; they become homeless in turn. A block
 * that has to eject others gains weight, so that in time the hard ones sit and the easy ones move
 * around them. */
#include "pack_repair.h"

#include <math.h>
#include <stdlib.h>

#include "sections.h"

/* Weight of the average block at first, and what one ejection adds. */
enum { WEIGHT = 100, MORE_WEIGHT = 50 };

/* Offsets from here on, or up to here, meet a neighbour. */
typedef struct edge {
    int64_t offset;
    int64_t weight;
} edge;

/* A block that has a place, with what is asked of it most. */
typedef struct place {
    int64_t offset;
    int64_t bytes;              /* through all its life; 0: they change */
    uint32_t block, begin, end; /* sections */
} place;

struct rp_repair {
    rp_context *context;
    const rp_lifetimes *lifetimes;
    uint64_t *effort;
    rp_sections sections;
    int64_t *offsets;
    int64_t *first_weights, *weights;
    place *placed;      /* ascending offset */
    uint32_t *homeless; /* the other blocks */
    size_t placed_count, homeless_count;
    int64_t *floor;        /* of each section, while blocks sink */
    edge *enters, *leaves; /* of the neighbours of a block; ascending */
    uint64_t random;
};

/* ---- Making ---- */

/* By bytes, and by the root of the length: what is small or short is found a place for most
 * easily. */
static void weigh_blocks(rp_repair *r) {
    const rp_lifetimes *l = r->lifetimes;
    const double unit = (double)l->live_peak_bytes / (double)l->block_count;
    for (size_t i = 0; i < l->block_count; i++) {
        const rp_span b = r->sections.blocks[i];
        const double share = sqrt((double)(b.end - b.begin) / r->sections.count);
        r->first_weights[i] = 1 + (int64_t)(WEIGHT * share * ((double)l->blocks[i].bytes / unit));
    }
}

rp_repair *rp_repair_create(rp_context *context, const rp_lifetimes *lifetimes, uint64_t *effort) {
    const size_t n = lifetimes->block_count;
    rp_repair *r = rp_alloc(context, 1, sizeof *r);
    if (r == NULL)
        return NULL;
    *r = (rp_repair){.context = context,
                     .lifetimes = lifetimes,
                     .effort = effort,
                     .random = 1,
                     .offsets = rp_alloc(context, n, sizeof *r->offsets),
                     .first_weights = rp_alloc(context, n, sizeof *r->first_weights),
                     .weights = rp_alloc(context, n, sizeof *r->weights),
                     .placed = rp_alloc(context, n, sizeof *r->placed),
                     .homeless = rp_alloc(context, n, sizeof *r->homeless),
                     .enters = rp_alloc(context, n, sizeof *r->enters),
                     .leaves = rp_alloc(context, n + 1, sizeof *r->leaves)};
    bool good = r->offsets != NULL && r->first_weights != NULL && r->weights != NULL &&
                r->placed != NULL && r->homeless != NULL && r->enters != NULL &&
                r->leaves != NULL && rp_sections_create(context, lifetimes, &r->sections);
    if (good) {
        r->floor = rp_alloc(context, r->sections.count, sizeof *r->floor);
        good = r->floor != NULL;
    }
    if (!good) {
        rp_repair_destroy(r);
        return NULL;
    }
    weigh_blocks(r);
    return r;
}

void rp_repair_destroy(rp_repair *r) {
    if (r == NULL)
        return;
    rp_sections_clear(r->context, &r->sections);
    rp_free(r->context, r->offsets);
    rp_free(r->context, r->first_weights);
    rp_free(r->context, r->weights);
    rp_free(r->context, r->placed);
    rp_free(r->context, r->homeless);
    rp_free(r->context, r->floor);
    rp_free(r->context, r->enters);
    rp_free(r->context, r->leaves);
    rp_free(r->context, r);
}

const int64_t *rp_repair_offsets(const rp_repair *repair) {
    return repair->offsets;
}

/* ---- Placing ---- */

static place make_place(const rp_repair *r, uint32_t block, int64_t offset) {
    const rp_block *b = &r->lifetimes->blocks[block];
    const rp_span span = r->sections.blocks[block];
    return (place){offset, b->pieces.count == 1 ? b->bytes : 0, block, span.begin, span.end};
}

static inline bool meet(const place *a, const place *b) {
    return a->begin < b->end && b->begin < a->end;
}

/* The block's bytes when the later of the two begins, which is where they press each other most. */
static int64_t find_bytes_beside(const rp_repair *r, uint32_t block, uint32_t section) {
    const rp_range pieces = r->lifetimes->blocks[block].pieces;
    size_t k = pieces.begin;
    while (k + 1 < pieces.begin + pieces.count && r->sections.pieces[k].end <= section)
        k++;
    return r->sections.pieces[k].bytes;
}

static inline int64_t bytes_beside(const rp_repair *r, const place *p, const place *other) {
    return p->bytes > 0 ? p->bytes : find_bytes_beside(r, p->block, other->begin);
}

static inline void insert_edge(edge *list, size_t count, edge e) {
    for (; count > 0 && list[count - 1].offset > e.offset; count--)
        list[count] = list[count - 1];
    list[count] = e;
}

/* The edges of all that the block meets. */
static size_t list_edges(rp_repair *r, const place *b) {
    size_t count = 0;
    for (size_t i = 0; i < r->placed_count; i++) {
        const place *p = &r->placed[i];
        if (!meet(p, b))
            continue;
        const int64_t weight = r->weights[p->block];
        insert_edge(r->enters, count, (edge){p->offset - bytes_beside(r, b, p), weight});
        insert_edge(r->leaves, count, (edge){p->offset + bytes_beside(r, p, b), weight});
        count++;
    }
    rp_pack_spend(r->effort, r->placed_count + 4 * count);
    return count;
}

/* The offset at which those in the way weigh least; of equal ones any. None is better than the best
 * of those right behind or right before a neighbour, at the floor or at the ceiling. */
static int64_t find_cheapest(rp_repair *r, const place *b, int64_t ceiling, int64_t *weight) {
    const int64_t highest = ceiling - r->lifetimes->blocks[b->block].bytes;
    const size_t count = list_edges(r, b);
    int64_t best = 0, now = 0;
    uint32_t equal = 0;
    size_t enter = 0, leave = 0;
    *weight = INT64_MAX;
    for (; enter < count && r->enters[enter].offset < 0; enter++)
        now += r->enters[enter].weight;
    for (int64_t at = 0, next; at <= highest; at = next) {
        for (; leave < count && r->leaves[leave].offset <= at; leave++)
            now -= r->leaves[leave].weight;
        equal = now < *weight ? 1 : equal + (now == *weight);
        if (now < *weight || (now == *weight && rp_pack_draw(&r->random, equal) == 0)) {
            best = at;
            *weight = now;
        }
        for (; enter < count && r->enters[enter].offset <= at; enter++)
            now += r->enters[enter].weight;
        next = at < highest ? highest : INT64_MAX;
        if (leave < count && r->leaves[leave].offset < next)
            next = r->leaves[leave].offset;
        if (enter < count && r->enters[enter].offset < next)
            next = r->enters[enter].offset;
        if (next == INT64_MAX)
            break;
    }
    return best;
}

/* Those in the way become homeless. */
static void settle(rp_repair *r, const place *b) {
    size_t kept = 0;
    for (size_t i = 0; i < r->placed_count; i++) {
        const place p = r->placed[i];
        if (meet(&p, b) && b->offset > p.offset - bytes_beside(r, b, &p) &&
            b->offset < p.offset + bytes_beside(r, &p, b))
            r->homeless[r->homeless_count++] = p.block;
        else
            r->placed[kept++] = p;
    }
    rp_pack_spend(r->effort, r->placed_count);
    r->placed_count = kept + 1;
    for (; kept > 0 && r->placed[kept - 1].offset >= b->offset; kept--)
        r->placed[kept] = r->placed[kept - 1];
    r->placed[kept] = *b;
}

/* ---- Repairing ---- */

static int compare_places(const void *a, const void *b) {
    const place *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->block < y->block ? -1 : 1;
}

static void begin(rp_repair *r, const int64_t *offsets, int64_t ceiling) {
    const rp_lifetimes *l = r->lifetimes;
    r->placed_count = r->homeless_count = 0;
    for (uint32_t i = 0; i < l->block_count; i++) {
        r->weights[i] = r->first_weights[i];
        if (l->blocks[i].bytes <= ceiling - offsets[i])
            r->placed[r->placed_count++] = make_place(r, i, offsets[i]);
        else
            r->homeless[r->homeless_count++] = i;
    }
    qsort(r->placed, r->placed_count, sizeof *r->placed, compare_places);
    rp_pack_spend(r->effort, 16 * l->block_count);
}

static uint32_t take_heaviest(rp_repair *r) {
    size_t best = 0;
    for (size_t i = 1; i < r->homeless_count; i++)
        if (r->weights[r->homeless[i]] > r->weights[r->homeless[best]])
            best = i;
    rp_pack_spend(r->effort, r->homeless_count);
    const uint32_t block = r->homeless[best];
    r->homeless[best] = r->homeless[--r->homeless_count];
    return block;
}

/* Everything sinks, and nobody passes anybody: offsets become sums of sizes, aligned as these are.
 * Returns the height. */
static int64_t sink(rp_repair *r) {
    const rp_lifetimes *l = r->lifetimes;
    int64_t height = 0;
    for (uint32_t i = 0; i < r->sections.count; i++)
        r->floor[i] = 0;
    for (size_t k = 0; k < r->placed_count; k++) {
        const place *p = &r->placed[k];
        const rp_range pieces = l->blocks[p->block].pieces;
        int64_t low = 0;
        for (uint32_t i = p->begin; i < p->end; i++)
            low = r->floor[i] > low ? r->floor[i] : low;
        for (size_t q = 0; q < pieces.count; q++) {
            const rp_span piece = r->sections.pieces[pieces.begin + q];
            for (uint32_t i = piece.begin; i < piece.end; i++)
                r->floor[i] = low + piece.bytes;
        }
        r->offsets[p->block] = low;
        const int64_t top = low + l->blocks[p->block].bytes;
        height = top > height ? top : height;
    }
    return height;
}

int64_t rp_pack_repair(rp_repair *r, const int64_t *offsets, int64_t ceiling, uint32_t steps) {
    begin(r, offsets, ceiling);
    for (; r->homeless_count > 0; steps--) {
        if (steps == 0 || *r->effort == 0)
            return RP_PACK_FAILED;
        int64_t weight = 0;
        place block = make_place(r, take_heaviest(r), 0);
        block.offset = find_cheapest(r, &block, ceiling, &weight);
        if (weight > 0)
            r->weights[block.block] += MORE_WEIGHT;
        settle(r, &block);
    }
    return sink(r);
}
