/* Drops for segments of the forward phase. */
#include "segments.h"

#include <string.h>

uint32_t rp_segments_find_labels(const rp_graph *graph, uint32_t *of) {
    uint32_t count = 0;
    const char *open = "";
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const bool forward = graph->nodes[n].phase == RP_FORWARD;
        const char *label = forward ? graph->strings + graph->nodes[n].block : "";
        if (label[0] != '\0' && strcmp(label, open) != 0)
            count++;
        if (of != NULL)
            of[n] = label[0] != '\0' ? count - 1 : RP_NONE;
        if (forward)
            open = label;
    }
    return count;
}

rp_status rp_blocks_create(const rp_graph *graph, rp_blocks *blocks) {
    *blocks = (rp_blocks){rp_alloc(graph->context, graph->node_count, sizeof *blocks->of), 0};
    if (blocks->of == NULL)
        return rp_fail_memory(graph->context, "the blocks of a graph");
    blocks->count = rp_segments_find_labels(graph, blocks->of);
    if (blocks->count > 0)
        return RP_OK;
    const rp_status status = rp_segments_find_repeats(graph, blocks->of, &blocks->count);
    if (status != RP_OK)
        rp_blocks_clear(graph->context, blocks);
    return status;
}

void rp_blocks_clear(rp_context *context, rp_blocks *blocks) {
    rp_free(context, blocks->of);
    *blocks = (rp_blocks){NULL, 0};
}

/* Whether only this segment reads the value in forward, so that backward alone makes it wait. */
static bool is_inner(const rp_graph *graph, uint32_t value, const uint32_t *segment) {
    const rp_value *v = &graph->values[value];
    if (v->is_output)
        return false;
    const uint32_t *readers = rp_value_readers(graph, value);
    for (size_t i = 0; i < v->readers.count; i++)
        if (graph->nodes[readers[i]].phase == RP_FORWARD &&
            segment[readers[i]] != segment[v->writer])
            return false;
    return true;
}

rp_status rp_segments_drop(const rp_expander *expander, const uint32_t *segment, rp_drops *drops) {
    const rp_graph *graph = expander->graph;
    rp_status status = RP_OK;
    uint32_t *last = rp_alloc(graph->context, graph->node_count, sizeof *last);
    if (last == NULL)
        return rp_fail_memory(graph->context, "the segments of a schedule");
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (segment[n] != RP_NONE)
            last[segment[n]] = n;
    for (uint32_t v = 0; v < graph->value_count && status == RP_OK; v++) {
        const uint32_t writer = graph->values[v].writer;
        if (graph->values[v].persistent || segment[writer] == RP_NONE ||
            !is_inner(graph, v, segment))
            continue;
        status = rp_drops_add(expander, drops, v, last[segment[writer]]);
    }
    rp_free(graph->context, last);
    return status;
}

/* first[segment]: the first backward node that reads an inner value of it; last_part[segment]. */
static void find_turns(const rp_graph *graph, const uint32_t *segment, const uint32_t *part,
                       uint32_t *first, uint32_t *last_part) {
    for (size_t n = 0; n < graph->node_count; n++)
        first[n] = RP_NONE;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const rp_value *value = &graph->values[v];
        if (value->persistent || segment[value->writer] == RP_NONE || !is_inner(graph, v, segment))
            continue;
        const uint32_t *readers = rp_value_readers(graph, v);
        for (size_t i = 0; i < value->readers.count; i++)
            if (graph->nodes[readers[i]].phase == RP_BACKWARD &&
                readers[i] < first[segment[value->writer]])
                first[segment[value->writer]] = readers[i];
    }
    for (size_t n = 0; n < graph->node_count; n++)
        if (segment[n] != RP_NONE)
            last_part[segment[n]] = part[n];
}

rp_status rp_segments_drop_parts(const rp_expander *expander, const uint32_t *segment,
                                 const uint32_t *part, rp_drops *drops) {
    const rp_graph *graph = expander->graph;
    rp_status status = RP_OK;
    uint32_t *first = rp_alloc(graph->context, graph->node_count, sizeof *first);
    uint32_t *last_part = rp_alloc(graph->context, graph->node_count, sizeof *last_part);
    if (first == NULL || last_part == NULL) {
        status = rp_fail_memory(graph->context, "the segments of a schedule");
        goto fail;
    }
    find_turns(graph, segment, part, first, last_part);
    for (uint32_t v = 0; v < graph->value_count && status == RP_OK; v++) {
        if (graph->values[v].persistent)
            continue;
        const uint32_t writer = graph->values[v].writer, of = segment[writer];
        if (of != RP_NONE && first[of] != RP_NONE && part[writer] != last_part[of] &&
            is_inner(graph, v, part))
            status = rp_drops_add(expander, drops, v, first[of]);
    }
fail:
    rp_free(graph->context, first);
    rp_free(graph->context, last_part);
    return status;
}
