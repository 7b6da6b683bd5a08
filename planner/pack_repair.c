/* Packing by repair, an ejection search (after Nagata & Braysy 2009, who empty a vehicle's route
 * so). Blocks above the ceiling are homeless. A step splits the packing at a random level: what
 * lies below sinks to the floor, what lies above rises to the ceiling, and all free bytes meet in
 * between. A homeless block then takes the cheapest place: a free one, or where those in its way
 * weigh least; they become homeless in turn. A block that has to eject others gains weight, so that
 * in time the hard ones sit and the easy ones move around them. */
#include "pack_repair.h"

#include "sections.h"

/* Weight of the average block at first, and what one ejection adds. */
enum { WEIGHT = 100 };

/* Offsets from here on, or up to here, meet a neighbour. */
typedef struct edge {
    int64_t offset;
    int64_t weight;
} edge;

struct rp_repair {
    rp_context *context;
    const rp_lifetimes *lifetimes;
    uint64_t *effort;
    rp_sections sections;
    int64_t *offsets;
    int64_t *first_weights, *weights;
    uint32_t *placed;   /* blocks that have a place, ascending offset */
    uint32_t *homeless; /* the others */
    size_t placed_count, homeless_count;
    int64_t *floor, *roof; /* of each section: free bytes lie between them */
    edge *enters, *leaves; /* of the neighbours of a block; ascending */
    uint64_t split_looks;  /* of one step, about */
    uint64_t random;
};

/* ---- Making ---- */

/* By area: what is small or short is found a place for most easily. */
static void weigh_blocks(rp_repair *r) {
    const rp_lifetimes *l = r->lifetimes;
    const double unit = (double)l->live_peak_bytes * r->sections.count / (double)l->block_count;
    for (size_t i = 0; i < l->block_count; i++) {
        const uint32_t length = r->sections.blocks[i].end - r->sections.blocks[i].begin;
        const double area = (double)l->blocks[i].bytes * length;
        r->split_looks += length;
        r->first_weights[i] = 1 + (int64_t)(WEIGHT * (area / unit));
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
        r->roof = rp_alloc(context, r->sections.count, sizeof *r->roof);
        good = r->floor != NULL && r->roof != NULL;
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
    rp_free(r->context, r->roof);
    rp_free(r->context, r->enters);
    rp_free(r->context, r->leaves);
    rp_free(r->context, r);
}

const int64_t *rp_repair_offsets(const rp_repair *repair) {
    return repair->offsets;
}

/* ---- Splitting ---- */

/* They are nearly in order. */
static void sort_placed(rp_repair *r) {
    uint64_t moves = 0;
    for (size_t i = 1; i < r->placed_count; i++) {
        const uint32_t block = r->placed[i];
        size_t k = i;
        for (; k > 0 && r->offsets[r->placed[k - 1]] > r->offsets[block]; k--)
            r->placed[k] = r->placed[k - 1];
        r->placed[k] = block;
        moves += i - k;
    }
    rp_pack_spend(r->effort, r->placed_count + moves);
}

/* The lowest offset that the floor leaves to the block. */
static int64_t find_lowest(rp_repair *r, uint32_t block) {
    const rp_span b = r->sections.blocks[block];
    int64_t low = 0;
    for (uint32_t i = b.begin; i < b.end; i++)
        low = r->floor[i] > low ? r->floor[i] : low;
    rp_pack_spend(r->effort, b.end - b.begin);
    return low;
}

/* The highest one that the roof leaves to it. */
static int64_t find_highest(rp_repair *r, uint32_t block) {
    const rp_range pieces = r->lifetimes->blocks[block].pieces;
    int64_t high = INT64_MAX;
    for (size_t k = 0; k < pieces.count; k++) {
        const rp_span p = r->sections.pieces[pieces.begin + k];
        for (uint32_t i = p.begin; i < p.end; i++)
            high = r->roof[i] - p.bytes < high ? r->roof[i] - p.bytes : high;
    }
    rp_pack_spend(r->effort, r->sections.blocks[block].end - r->sections.blocks[block].begin);
    return high;
}

static void sink(rp_repair *r, uint32_t block) {
    const rp_range pieces = r->lifetimes->blocks[block].pieces;
    const int64_t offset = find_lowest(r, block);
    r->offsets[block] = offset;
    for (size_t k = 0; k < pieces.count; k++) {
        const rp_span p = r->sections.pieces[pieces.begin + k];
        for (uint32_t i = p.begin; i < p.end; i++)
            r->floor[i] = offset + p.bytes;
    }
}

static void rise(rp_repair *r, uint32_t block) {
    const rp_span b = r->sections.blocks[block];
    r->offsets[block] = find_highest(r, block);
    for (uint32_t i = b.begin; i < b.end; i++)
        r->roof[i] = r->offsets[block];
}

/* The `level` lowest blocks sink, the rest rises; nobody passes anybody. */
static void split(rp_repair *r, size_t level, int64_t ceiling) {
    sort_placed(r);
    for (uint32_t i = 0; i < r->sections.count; i++) {
        r->floor[i] = 0;
        r->roof[i] = ceiling;
    }
    rp_pack_spend(r->effort, r->sections.count);
    for (size_t i = 0; i < level; i++)
        sink(r, r->placed[i]);
    for (size_t i = r->placed_count; i-- > level;)
        rise(r, r->placed[i]);
}

/* ---- Placing ---- */

static bool meet(const rp_span *a, const rp_span *b) {
    return a->begin < b->end && b->begin < a->end;
}

/* The block's bytes when the later of the two begins, which is where they press each other most. */
static int64_t bytes_beside(const rp_repair *r, uint32_t block, uint32_t other) {
    const rp_range pieces = r->lifetimes->blocks[block].pieces;
    const uint32_t section = r->sections.blocks[other].begin;
    size_t k = pieces.begin;
    while (k + 1 < pieces.begin + pieces.count && r->sections.pieces[k].end <= section)
        k++;
    return r->sections.pieces[k].bytes;
}

static void insert_edge(edge *list, size_t count, edge e) {
    for (; count > 0 && list[count - 1].offset > e.offset; count--)
        list[count] = list[count - 1];
    list[count] = e;
}

/* The edges of all that the block meets. */
static size_t list_edges(rp_repair *r, uint32_t block) {
    size_t count = 0;
    for (size_t i = 0; i < r->placed_count; i++) {
        const uint32_t other = r->placed[i];
        if (!meet(&r->sections.blocks[block], &r->sections.blocks[other]))
            continue;
        const int64_t at = r->offsets[other], weight = r->weights[other];
        insert_edge(r->enters, count, (edge){at - bytes_beside(r, block, other), weight});
        insert_edge(r->leaves, count, (edge){at + bytes_beside(r, other, block), weight});
        count++;
    }
    rp_pack_spend(r->effort, r->placed_count + 4 * count);
    return count;
}

/* The offset at which those in the way weigh least; of equal ones any. None is better than the best
 * of those right behind or right before a neighbour, at the floor or at the ceiling. */
static int64_t find_cheapest(rp_repair *r, uint32_t block, int64_t ceiling, int64_t *weight) {
    const int64_t highest = ceiling - r->lifetimes->blocks[block].bytes;
    const size_t count = list_edges(r, block);
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
static void settle(rp_repair *r, uint32_t block, int64_t offset) {
    size_t kept = 0;
    for (size_t i = 0; i < r->placed_count; i++) {
        const uint32_t other = r->placed[i];
        const int64_t at = r->offsets[other];
        if (meet(&r->sections.blocks[block], &r->sections.blocks[other]) &&
            offset > at - bytes_beside(r, block, other) &&
            offset < at + bytes_beside(r, other, block))
            r->homeless[r->homeless_count++] = other;
        else
            r->placed[kept++] = other;
    }
    rp_pack_spend(r->effort, r->placed_count);
    r->placed[kept++] = block;
    r->placed_count = kept;
    r->offsets[block] = offset;
}

/* ---- Repairing ---- */

static void begin(rp_repair *r, const int64_t *offsets, int64_t ceiling) {
    const rp_lifetimes *l = r->lifetimes;
    r->placed_count = r->homeless_count = 0;
    for (uint32_t i = 0; i < l->block_count; i++) {
        r->offsets[i] = offsets[i];
        r->weights[i] = r->first_weights[i];
        if (l->blocks[i].bytes <= ceiling - offsets[i])
            r->placed[r->placed_count++] = i;
        else
            r->homeless[r->homeless_count++] = i;
    }
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

int64_t rp_pack_repair(rp_repair *r, const int64_t *offsets, int64_t ceiling, uint32_t steps) {
    const rp_lifetimes *l = r->lifetimes;
    begin(r, offsets, ceiling);
    for (; r->homeless_count > 0; steps--) {
        if (*r->effort < r->split_looks)
            *r->effort = 0;
        if (steps == 0 || *r->effort == 0)
            return RP_PACK_FAILED;
        split(r, rp_pack_draw(&r->random, (uint32_t)r->placed_count + 1), ceiling);
        int64_t weight = 0;
        const uint32_t block = take_heaviest(r);
        const int64_t offset = find_cheapest(r, block, ceiling, &weight);
        if (weight > 0)
            r->weights[block] += WEIGHT;
        settle(r, block, offset);
    }
    split(r, r->placed_count, ceiling); /* offsets are sums of sizes again: aligned as these are */
    int64_t height = 0;
    for (size_t i = 0; i < l->block_count; i++)
        if (r->offsets[i] + l->blocks[i].bytes > height)
            height = r->offsets[i] + l->blocks[i].bytes;
    return height;
}
