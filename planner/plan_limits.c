/* The yardstick of every plan, and the words for what cannot be done. */
#include <stdio.h>

#include "plan_object.h"
#include "strategy.h"

rp_status rp_plan_find_keep_all(const rp_graph *graph, int64_t *arena_bytes) {
    rp_schedule schedule = {.steps = NULL};
    rp_layout layout = {.placements = NULL};
    rp_status status = rp_keep_all_schedule(graph, &schedule);
    if (status == RP_OK)
        status = rp_layout_create(graph, &schedule, RP_LAYOUT_THOROUGH, &layout);
    if (status == RP_OK)
        *arena_bytes = layout.arena_bytes;
    rp_schedule_clear(graph->context, &schedule);
    rp_layout_clear(graph->context, &layout);
    return status;
}

/* ---- Marks ----------------------------------------------------------------------------------- */

/* Of the values that are live behind `peak_step`, the writer of the largest one that its mark keeps
 * from running again; RP_NONE if there is none. */
static rp_status find_kept(const rp_graph *graph, const rp_schedule *schedule, uint32_t peak_step,
                           uint32_t *node) {
    bool *live = rp_alloc(graph->context, graph->value_count, sizeof *live);
    if (live == NULL)
        return rp_fail_memory(graph->context, "the marks of a graph");
    for (uint32_t s = 0; s < schedule->count && s <= peak_step; s++) {
        const rp_step step = schedule->steps[s];
        if (step.kind == RP_STEP_DROP)
            live[step.index] = false;
        if (step.kind == RP_STEP_RUN)
            for (size_t i = 0; i < graph->nodes[step.index].outputs.count; i++)
                live[rp_node_outputs(graph, step.index)[i]] = true;
    }
    int64_t most = -1;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const rp_value *value = &graph->values[v];
        const rp_node *writer = value->persistent ? NULL : &graph->nodes[value->writer];
        if (!live[v] || writer == NULL || writer->mark != RP_MARK_KEEP || !writer->recomputable ||
            graph->values[value->root].bytes <= most)
            continue;
        most = graph->values[value->root].bytes;
        *node = value->writer;
    }
    rp_free(graph->context, live);
    return RP_OK;
}

rp_status rp_plan_name_mark(const rp_graph *graph, const rp_schedule *schedule, uint32_t peak_step,
                            char *text, size_t bytes) {
    uint32_t node = RP_NONE;
    text[0] = '\0';
    const rp_status status = find_kept(graph, schedule, peak_step, &node);
    if (status != RP_OK)
        return status;
    for (uint32_t i = 0; i < graph->node_count && node == RP_NONE; i++)
        if (graph->nodes[i].mark == RP_MARK_RECOMPUTE)
            node = i;
    if (node != RP_NONE)
        snprintf(text, bytes, "; mark %s of node %u (%.80s) binds too",
                 graph->nodes[node].mark == RP_MARK_KEEP ? "keep" : "recompute", node,
                 rp_node_name(graph, node));
    return RP_OK;
}
