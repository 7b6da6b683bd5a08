/* Segments for any DAG after Chen et al. 2016: the forward order is cut at moments, what crosses a
 * cut is held, the rest of a segment runs again. The family goes over the number of segments,
 * balanced by saved bytes and by cost, so that it fits itself to the budget. Of the moments near a
 * balanced cut the one that the fewest bytes cross is taken: this finds the seams of layers.
 *
 * The recursive form cuts each segment again, in as many parts on every level: a segment that
 * backward reaches holds, while it runs again, only what its parts hand on. */
#include "lists.h"
#include "segments.h"
#include "wide.h"

/* Effort: schedules tried x nodes. With more nodes than that the family is thinned out. */
enum { EFFORT = 200000, MIN_TRIED = 6 };

typedef struct forward {
    uint32_t *nodes; /* in order */
    uint32_t count;
    int64_t *crossing;  /* bytes that cross the cut behind each */
    int64_t *weight[2]; /* bytes saved and cost, summed from the beginning to each */
    uint32_t *segment;  /* of each node of the graph */
    uint32_t *part;     /* the same, on the next level */
    uint32_t *ends;     /* of each segment of a level: the place behind its last one */
    uint32_t *finer;    /* the same, on the next level */
} forward;

static bool has_reader(const rp_graph *graph, uint32_t value, rp_phase phase) {
    const uint32_t *readers = rp_value_readers(graph, value);
    for (size_t i = 0; i < graph->values[value].readers.count; i++)
        if (graph->nodes[readers[i]].phase == phase)
            return true;
    return false;
}

static void clear_forward(rp_context *context, forward *f) {
    rp_free(context, f->nodes);
    rp_free(context, f->crossing);
    rp_free(context, f->weight[0]);
    rp_free(context, f->weight[1]);
    rp_free(context, f->segment);
    rp_free(context, f->part);
    rp_free(context, f->ends);
    rp_free(context, f->finer);
}

/* crossing[place]: a value counts from its writer to its last forward reader. `place` of each node
 * among the forward ones. */
static void sum_crossing(const rp_graph *graph, const uint32_t *place, forward *f) {
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const rp_value *value = &graph->values[v];
        if (value->persistent || place[value->writer] == RP_NONE)
            continue;
        uint32_t last = RP_NONE;
        const uint32_t *readers = rp_value_readers(graph, v);
        for (size_t i = 0; i < value->readers.count; i++)
            if (place[readers[i]] != RP_NONE)
                last = place[readers[i]];
        if (last == RP_NONE)
            continue;
        f->crossing[place[value->writer]] += value->bytes;
        f->crossing[last] -= value->bytes;
    }
    for (uint32_t i = 1; i < f->count; i++)
        f->crossing[i] += f->crossing[i - 1];
}

static void sum_weights(const rp_graph *graph, forward *f) {
    int64_t bytes = 0, cost = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        const uint32_t *outputs = rp_node_outputs(graph, f->nodes[i]);
        for (size_t o = 0; o < graph->nodes[f->nodes[i]].outputs.count; o++)
            if (!graph->values[outputs[o]].persistent && has_reader(graph, outputs[o], RP_BACKWARD))
                bytes += graph->values[outputs[o]].bytes;
        cost += graph->nodes[f->nodes[i]].cost_ns;
        f->weight[0][i] = bytes;
        f->weight[1][i] = cost;
    }
    for (uint32_t i = 0; i < f->count; i++) { /* nothing to weigh by: by length */
        f->weight[0][i] = bytes > 0 ? f->weight[0][i] : i + 1;
        f->weight[1][i] = cost > 0 ? f->weight[1][i] : i + 1;
    }
}

/* On failure, too, the caller clears. */
static rp_status make_forward(const rp_graph *graph, forward *f) {
    rp_context *const context = graph->context;
    *f = (forward){
        .nodes = rp_alloc(context, graph->node_count, sizeof *f->nodes),
        .crossing = rp_alloc(context, graph->node_count, sizeof *f->crossing),
        .weight = {rp_alloc(context, graph->node_count, sizeof(int64_t)),
                   rp_alloc(context, graph->node_count, sizeof(int64_t))},
        .segment = rp_alloc(context, graph->node_count, sizeof *f->segment),
        .part = rp_alloc(context, graph->node_count, sizeof *f->part),
        .ends = rp_alloc(context, graph->node_count, sizeof *f->ends),
        .finer = rp_alloc(context, graph->node_count, sizeof *f->finer),
    };
    if (f->nodes == NULL || f->crossing == NULL || f->weight[0] == NULL || f->weight[1] == NULL ||
        f->segment == NULL || f->part == NULL || f->ends == NULL || f->finer == NULL)
        return rp_fail_memory(context, "the segments of a schedule");
    for (uint32_t n = 0; n < graph->node_count; n++) { /* `segment` serves as the places here */
        f->segment[n] = RP_NONE;
        if (graph->nodes[n].phase != RP_FORWARD)
            continue;
        f->segment[n] = f->count;
        f->nodes[f->count++] = n;
    }
    sum_crossing(graph, f->segment, f);
    sum_weights(graph, f);
    return RP_OK;
}

static int64_t distance(int64_t a, int64_t b) {
    return a > b ? a - b : b - a;
}

/* The cut, a place from `begin` to `end` - 1, next to `target` of the weight and within `reach` of
 * it if there is one: where the fewest bytes cross, then the nearest. */
static uint32_t find_cut(const forward *f, const int64_t *weight, uint32_t begin, uint32_t end,
                         int64_t target, int64_t reach) {
    uint32_t best = begin;
    for (uint32_t i = begin; i < end; i++) {
        const int64_t off = distance(weight[i], target), best_off = distance(weight[best], target);
        const bool near = off <= reach, best_near = best_off <= reach;
        if (near != best_near                             ? near
            : near && f->crossing[i] != f->crossing[best] ? f->crossing[i] < f->crossing[best]
                                                          : off < best_off)
            best = i;
        if (weight[i] > target && !near)
            break;
    }
    return best;
}

/* Cuts the places from `begin` to `end` - 1 into `count` segments at most, none empty, and appends
 * the ends of them. What weighs nothing is not cut. */
static void cut_places(const forward *f, const int64_t *weight, uint32_t begin, uint32_t end,
                       uint32_t count, uint32_t *ends, uint32_t *ends_count) {
    const int64_t before = begin > 0 ? weight[begin - 1] : 0, total = weight[end - 1] - before;
    for (uint32_t k = 1; k < count && begin + 1 < end && total > 0; k++) {
        const int64_t target = before + (int64_t)((rp_wide)total * k / count);
        begin = find_cut(f, weight, begin, end - 1, target, total / (2 * (int64_t)count)) + 1;
        ends[(*ends_count)++] = begin;
    }
    ends[(*ends_count)++] = end;
}

/* segment[n] for `count` segments; the last one is kept. */
static void cut_forward(const rp_graph *graph, forward *f, const int64_t *weight, uint32_t count) {
    uint32_t cut = 0, place = 0;
    cut_places(f, weight, 0, f->count, count, f->ends, &cut);
    for (size_t n = 0; n < graph->node_count; n++)
        f->segment[n] = RP_NONE;
    for (uint32_t k = 0; k + 1 < cut; k++)
        for (; place < f->ends[k]; place++)
            f->segment[f->nodes[place]] = k;
}

static rp_status list_counts(const rp_expander *expander, forward *f, rp_drops *drops,
                             rp_sink sink) {
    const rp_graph *graph = expander->graph;
    uint32_t most = 2; /* segments: beyond twice the square root they are too short to save */
    while (most < f->count && (uint64_t)most * most < 4 * (uint64_t)f->count)
        most++;
    const size_t affordable = EFFORT / (graph->node_count + 1) / 2;
    const uint32_t tried = (uint32_t)(affordable < MIN_TRIED ? MIN_TRIED : affordable);
    rp_status status = RP_OK;
    uint32_t before = 0;
    for (uint32_t i = 1; i <= tried && status == RP_OK; i++) {
        const uint32_t count = tried >= most ? i : (uint32_t)((uint64_t)most * i / tried);
        if (count > most)
            break;
        if (count == before)
            continue;
        before = count;
        for (int measure = 0; measure < 2 && status == RP_OK; measure++) {
            cut_forward(graph, f, f->weight[measure], count);
            status = rp_drops_reset(expander, drops);
            if (status == RP_OK)
                status = rp_segments_drop(expander, f->segment, drops);
            if (status == RP_OK)
                status = sink.take(sink.user, drops);
        }
    }
    return status;
}

/* ---- Recursion ------------------------------------------------------------------------------- */

static void fill_level(const forward *f, const uint32_t *ends, uint32_t count, uint32_t *segment) {
    for (uint32_t k = 0, place = 0; k < count; k++)
        for (; place < ends[k]; place++)
            segment[f->nodes[place]] = k;
}

/* Cuts every segment of the level into `parts`; returns how many there are on the next one. */
static uint32_t cut_level(const forward *f, const int64_t *weight, uint32_t count, uint32_t parts) {
    uint32_t finer = 0;
    for (uint32_t k = 0, begin = 0; k < count; begin = f->ends[k++])
        cut_places(f, weight, begin, f->ends[k], parts, f->finer, &finer);
    return finer;
}

/* The first sweep: of the last segment of each level only the parts are held, and the very last one
 * is kept. Their numbers are those of their first places. */
static void cut_first_sweep(const rp_graph *graph, forward *f, const int64_t *weight,
                            uint32_t parts, uint32_t levels) {
    uint32_t begin = 0;
    for (size_t n = 0; n < graph->node_count; n++)
        f->segment[n] = RP_NONE;
    for (uint32_t level = 0; level < levels; level++) {
        uint32_t count = 0;
        cut_places(f, weight, begin, f->count, parts, f->ends, &count);
        for (uint32_t k = 0; k + 1 < count; k++)
            for (const uint32_t first = begin; begin < f->ends[k]; begin++)
                f->segment[f->nodes[begin]] = first;
    }
}

static rp_status drop_levels(const rp_expander *x, forward *f, const int64_t *weight,
                             uint32_t parts, uint32_t levels, rp_drops *drops) {
    rp_status status = rp_drops_reset(x, drops);
    cut_first_sweep(x->graph, f, weight, parts, levels);
    if (status == RP_OK)
        status = rp_segments_drop(x, f->segment, drops);
    for (size_t n = 0; n < x->graph->node_count; n++)
        f->segment[n] = f->part[n] = RP_NONE;
    uint32_t count = 0;
    cut_places(f, weight, 0, f->count, parts, f->ends, &count);
    fill_level(f, f->ends, count, f->segment);
    for (uint32_t level = 1; level < levels && status == RP_OK; level++) {
        uint32_t *const ends = f->ends, *const segment = f->segment;
        count = cut_level(f, weight, count, parts);
        fill_level(f, f->finer, count, f->part);
        status = rp_segments_drop_parts(x, f->segment, f->part, drops);
        f->ends = f->finer;
        f->finer = ends;
        f->segment = f->part;
        f->part = segment;
    }
    return status;
}

/* One part, which is kept; then all numbers of levels and parts, from 2 on, with at most as many
 * segments as forward nodes. By their place in this order; false behind the last. */
static bool find_shape(const forward *f, uint32_t place, uint32_t *parts, uint32_t *levels) {
    *levels = 2;
    *parts = 1;
    for (; place > 0 && *levels < 32; ++*levels)
        for (*parts = 2;; ++*parts) {
            uint64_t segments = 1;
            for (uint32_t level = 0; level < *levels && segments <= f->count; level++)
                segments *= *parts;
            if (segments > f->count)
                break;
            if (--place == 0)
                return true;
        }
    return place == 0;
}

static rp_status list_levels(const rp_expander *expander, forward *f, rp_drops *drops,
                             rp_sink sink) {
    const size_t affordable = EFFORT / (expander->graph->node_count + 1) / 2;
    const uint32_t tried = (uint32_t)(affordable < MIN_TRIED ? MIN_TRIED : affordable);
    uint32_t shapes = 0, parts = 0, levels = 0;
    rp_status status = RP_OK;
    while (find_shape(f, shapes, &parts, &levels))
        shapes++;
    for (uint32_t i = 0; i < tried && i < shapes && status == RP_OK; i++) {
        find_shape(f, shapes <= tried ? i : (uint32_t)((uint64_t)shapes * i / tried), &parts,
                   &levels);
        for (int measure = 0; measure < 2 && status == RP_OK; measure++) {
            status = drop_levels(expander, f, f->weight[measure], parts, levels, drops);
            if (status == RP_OK)
                status = sink.take(sink.user, drops);
        }
    }
    return status;
}

/* ---- Strategies ------------------------------------------------------------------------------ */

static rp_status list_cuts(const rp_expander *expander, const char *name,
                           rp_status (*list)(const rp_expander *, forward *, rp_drops *, rp_sink),
                           rp_drops *drops, rp_sink sink) {
    const rp_graph *graph = expander->graph;
    if (graph->last_forward == RP_NONE || graph->first_backward == RP_NONE)
        return rp_fail(graph->context, RP_NOT_APPLICABLE,
                       "%s cuts what waits between forward and backward, but there is no %s node",
                       name, graph->last_forward == RP_NONE ? "forward" : "backward");
    forward f = {0};
    rp_status status = make_forward(graph, &f);
    if (status == RP_OK)
        status = list(expander, &f, drops, sink);
    clear_forward(graph->context, &f);
    return status;
}

rp_status rp_sqrt_list(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                       rp_sink sink) {
    (void)argument;
    return list_cuts(expander, "sqrt", list_counts, drops, sink);
}

rp_status rp_sqrt_recursive_list(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                                 rp_sink sink) {
    (void)argument;
    return list_cuts(expander, "sqrt-recursive", list_levels, drops, sink);
}

rp_status rp_propose_sqrt(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    return rp_propose_list(graph, rp_sqrt_list, argument, set);
}

rp_status rp_propose_sqrt_recursive(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    return rp_propose_list(graph, rp_sqrt_recursive_list, argument, set);
}
