/* Drops for segments of the forward phase. */
#include "segments.h"

#include <string.h>

uint32_t rp_segments_find_blocks(const rp_graph *graph, uint32_t *block) {
    uint32_t count = 0;
    const char *open = "";
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const bool forward = graph->nodes[n].phase == RP_FORWARD;
        const char *label = forward ? graph->strings + graph->nodes[n].block : "";
        if (label[0] != '\0' && strcmp(label, open) != 0)
            count++;
        if (block != NULL)
            block[n] = label[0] != '\0' ? count - 1 : RP_NONE;
        if (forward)
            open = label;
    }
    return count;
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
