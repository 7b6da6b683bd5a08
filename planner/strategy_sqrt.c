/* Segments for any DAG after Chen et al. 2016: the forward order is cut at moments, what crosses a
 * cut is held, the rest of a segment runs again. The family goes over the number of segments,
 * balanced by saved bytes and by cost, so that it fits itself to the budget. Of the moments near a
 * balanced cut the one that the fewest bytes cross is taken: this finds the seams of layers. */
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
    };
    if (f->nodes == NULL || f->crossing == NULL || f->weight[0] == NULL || f->weight[1] == NULL ||
        f->segment == NULL)
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

/* The cut, a place from `begin` on, next to `target` of the weight and within `reach` of it if
 * there is one: where the fewest bytes cross, then the nearest. */
static uint32_t find_cut(const forward *f, const int64_t *weight, uint32_t begin, int64_t target,
                         int64_t reach) {
    uint32_t best = begin;
    for (uint32_t i = begin; i < f->count; i++) {
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

/* segment[n] for `count` segments; the last one is kept. */
static void cut_forward(const rp_graph *graph, forward *f, const int64_t *weight, uint32_t count) {
    const int64_t total = weight[f->count - 1];
    uint32_t begin = 0;
    for (size_t n = 0; n < graph->node_count; n++)
        f->segment[n] = RP_NONE;
    for (uint32_t k = 1; k < count && begin < f->count; k++) {
        const int64_t target = (int64_t)((rp_wide)total * k / count);
        const uint32_t cut = find_cut(f, weight, begin, target, total / (2 * (int64_t)count));
        for (uint32_t i = begin; i <= cut; i++)
            f->segment[f->nodes[i]] = k - 1;
        begin = cut + 1;
    }
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

rp_status rp_sqrt_list(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                       rp_sink sink) {
    (void)argument;
    const rp_graph *graph = expander->graph;
    if (graph->last_forward == RP_NONE || graph->first_backward == RP_NONE)
        return rp_fail(graph->context, RP_NOT_APPLICABLE,
                       "sqrt cuts what waits between forward and backward, but there is no %s node",
                       graph->last_forward == RP_NONE ? "forward" : "backward");
    forward f = {0};
    rp_status status = make_forward(graph, &f);
    if (status == RP_OK)
        status = list_counts(expander, &f, drops, sink);
    clear_forward(graph->context, &f);
    return status;
}

rp_status rp_propose_sqrt(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    return rp_propose_list(graph, rp_sqrt_list, argument, set);
}
