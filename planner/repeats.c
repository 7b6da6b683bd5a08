/* Blocks by structure: a model is a row of layers that look alike, whether or not it says so. */
#include "segments.h"

#include <stdlib.h>

/* Periods that are tried: the most frequent distances between nodes that look alike. */
enum { MOST_PERIODS = 16 };

typedef struct repeats {
    const rp_graph *graph;
    uint32_t count; /* forward nodes, which are taken in their order */
    uint32_t *node;
    uint64_t *looks;    /* of each of them */
    uint32_t *distance; /* to the one before that looks the same; 0 without one */
} repeats;

/* A stretch in which each node looks like the one a period before. */
typedef struct stretch {
    uint32_t begin, end, period; /* begin: the first node that has one a period behind it */
} stretch;

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
    return hash ^ hash >> 29;
}

/* Sizes and kinds of what a node reads and writes. Not its cost, which may be measured, nor how far
 * back its inputs lie: layers may share one. */
static uint64_t look_at(const rp_graph *graph, uint32_t node) {
    const rp_node *n = &graph->nodes[node];
    const rp_range lists[] = {n->inputs, n->outputs};
    uint64_t hash = mix((uint64_t)n->workspace, n->recomputable);
    for (size_t k = 0; k < 2; k++) {
        hash = mix(hash, lists[k].count);
        for (size_t i = 0; i < lists[k].count; i++) {
            const rp_value *v = &graph->values[graph->edges[lists[k].begin + i]];
            hash = mix(hash, (uint64_t)v->bytes);
            hash = mix(hash, (uint64_t)v->persistent << 1 | (v->alias_of != RP_NONE));
        }
    }
    return hash;
}

typedef struct seen {
    uint64_t looks;
    uint32_t at;
} seen;

static int compare_seen(const void *a, const void *b) {
    const seen *x = a, *y = b;
    if (x->looks != y->looks)
        return x->looks < y->looks ? -1 : 1;
    return x->at == y->at ? 0 : x->at < y->at ? -1 : 1;
}

static bool find_distances(repeats *r) {
    seen *list = rp_resize(r->graph->context, NULL, r->count, sizeof *list);
    if (list == NULL)
        return false;
    for (uint32_t i = 0; i < r->count; i++)
        list[i] = (seen){r->looks[i], i};
    qsort(list, r->count, sizeof *list, compare_seen);
    for (uint32_t i = 1; i < r->count; i++)
        if (list[i].looks == list[i - 1].looks)
            r->distance[list[i].at] = list[i].at - list[i - 1].at;
    rp_free(r->graph->context, list);
    return true;
}

static bool make(const rp_graph *graph, repeats *r) {
    const size_t n = graph->node_count;
    *r = (repeats){.graph = graph,
                   .node = rp_alloc(graph->context, n, sizeof *r->node),
                   .looks = rp_alloc(graph->context, n, sizeof *r->looks),
                   .distance = rp_alloc(graph->context, n, sizeof *r->distance)};
    if (r->node == NULL || r->looks == NULL || r->distance == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (graph->nodes[i].phase == RP_FORWARD) {
            r->node[r->count] = i;
            r->looks[r->count++] = look_at(graph, i);
        }
    return find_distances(r);
}

static void clear(repeats *r) {
    rp_free(r->graph->context, r->node);
    rp_free(r->graph->context, r->looks);
    rp_free(r->graph->context, r->distance);
}

/* The longest stretch of this period. */
static stretch find_stretch(const repeats *r, uint32_t period) {
    stretch best = {0, 0, period};
    for (uint32_t i = period, begin = period; i < r->count; i++) {
        if (r->looks[i] != r->looks[i - period])
            begin = i + 1;
        else if (i + 1 - begin > best.end - best.begin)
            best = (stretch){begin, i + 1, period};
    }
    best.begin -= best.end > 0 ? period : 0;
    return best;
}

/* Of the most frequent distances the one with the longest stretch, the shortest of equal ones: a
 * multiple of a period is a period, too. `often` is scratch, all 0, as long as there are nodes. */
static stretch find_best(const repeats *r, uint32_t *often) {
    stretch best = {0, 0, 0};
    for (uint32_t i = 0; i < r->count; i++)
        often[r->distance[i]]++;
    often[0] = 0;
    for (int tried = 0; tried < MOST_PERIODS; tried++) {
        uint32_t period = 0;
        for (uint32_t d = 1; d < r->count; d++)
            if (often[d] > often[period])
                period = d;
        if (period == 0)
            break;
        often[period] = 0;
        const stretch s = find_stretch(r, period);
        if (s.end - s.begin > best.end - best.begin ||
            (s.end - s.begin == best.end - best.begin && period < best.period))
            best = s;
    }
    return best;
}

/* The place within the first period at whose repetitions the fewest bytes cross from forward to
 * forward: layers hand on little. `across` is scratch, all 0, one entry more than there are
 * nodes. */
static uint32_t find_cut(const repeats *r, const stretch *s, int64_t *across, uint32_t *place) {
    const rp_graph *graph = r->graph;
    for (uint32_t i = 0; i < r->count; i++)
        place[r->node[i]] = i;
    for (uint32_t i = 0; i < r->count; i++) {
        const uint32_t *outputs = rp_node_outputs(graph, r->node[i]);
        for (size_t o = 0; o < graph->nodes[r->node[i]].outputs.count; o++) {
            const rp_value *v = &graph->values[outputs[o]];
            const uint32_t *readers = rp_value_readers(graph, outputs[o]);
            uint32_t last = i;
            for (size_t k = 0; k < v->readers.count; k++)
                if (graph->nodes[readers[k]].phase == RP_FORWARD)
                    last = place[readers[k]];
            if (v->persistent || last == i)
                continue;
            across[i + 1] += v->bytes / graph->alignment;
            across[last + 1] -= v->bytes / graph->alignment;
        }
    }
    for (uint32_t i = 1; i < r->count; i++)
        across[i] += across[i - 1];
    uint32_t cut =
        s->begin; /* judged a period later: the first layer may read what others do not */
    for (uint32_t i = s->begin; i < s->begin + s->period; i++)
        if (across[i + s->period] < across[cut + s->period])
            cut = i;
    return cut;
}

static rp_status number_blocks(const repeats *r, uint32_t *of, uint32_t *count) {
    rp_context *const context = r->graph->context;
    const size_t n = r->graph->node_count;
    rp_status status = RP_OK;
    uint32_t *scratch = rp_alloc(context, n, sizeof *scratch);
    int64_t *across = rp_alloc(context, n + 1, sizeof *across);
    if (scratch == NULL || across == NULL) {
        status = rp_fail_memory(context, "the blocks of a graph");
        goto fail;
    }
    const stretch s = find_best(r, scratch);
    if (s.end - s.begin < r->count / 2 || s.period < 2 || s.end - s.begin < 2 * s.period)
        goto fail;
    const uint32_t cut = find_cut(r, &s, across, scratch);
    *count = (s.end - cut) / s.period;
    for (uint32_t i = cut; i < cut + *count * s.period; i++)
        of[r->node[i]] = (i - cut) / s.period;
fail:
    rp_free(context, scratch);
    rp_free(context, across);
    return status;
}

rp_status rp_segments_find_repeats(const rp_graph *graph, uint32_t *of, uint32_t *count) {
    repeats r;
    rp_status status = RP_OK;
    *count = 0;
    for (size_t n = 0; n < graph->node_count; n++)
        of[n] = RP_NONE;
    if (!make(graph, &r))
        status = rp_fail_memory(graph->context, "the blocks of a graph");
    if (status == RP_OK && r.count > 0)
        status = number_blocks(&r, of, count);
    clear(&r);
    return status;
}
