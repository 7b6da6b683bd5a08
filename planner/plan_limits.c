/* Bounds that depend on the graph alone, and the words for what cannot be done. */
#include <stdio.h>

#include "plan_object.h"
#include "strategy.h"

rp_status rp_plan_find_keep_all(const rp_graph *graph, int64_t *arena_bytes) {
    rp_schedule schedule = {.steps = NULL};
    rp_layout layout = {.placements = NULL};
    rp_status status = rp_keep_all_schedule(graph, &schedule);
    if (status == RP_OK)
        status = rp_layout_create(graph, &schedule, &layout);
    if (status == RP_OK)
        *arena_bytes = layout.arena_bytes;
    rp_schedule_clear(graph->context, &schedule);
    rp_layout_clear(graph->context, &layout);
    return status;
}

/* ---- Floor ----------------------------------------------------------------------------------- */

/* Of each root: the last node that met it (counted from 1), how many inputs of that node are on it,
 * and whether an output has taken its place; of each value: the last node whose output it was and
 * that has got a place so. */
typedef struct working_set {
    const rp_graph *graph;
    uint32_t *met, *inputs, *taken, *placed;
} working_set;

static int64_t meet(working_set *w, uint32_t node, uint32_t value) {
    const uint32_t root = w->graph->values[value].root;
    if (w->graph->values[root].persistent || w->met[root] == node + 1)
        return 0;
    w->met[root] = node + 1;
    w->inputs[root] = 0;
    return w->graph->values[root].bytes;
}

/* Bytes that in-place outputs can save at most in the first run of a node, in which all outputs
 * begin. Two inputs on one root may lie on two storages (one of them recomputed): more room, but
 * also a second place to take; then every hint is believed. */
static int64_t most_saved(working_set *w, uint32_t node) {
    const rp_graph *graph = w->graph;
    int64_t saved = 0;
    for (size_t i = 0; i < graph->nodes[node].inplace.count; i++) {
        const rp_inplace_pair pair = rp_node_inplace(graph, node)[i];
        const uint32_t root = graph->values[pair.input].root;
        const rp_value *output = &graph->values[pair.output];
        if (output->alias_of != RP_NONE || output->persistent || graph->values[root].persistent ||
            output->bytes > graph->values[root].bytes || w->placed[pair.output] == node + 1 ||
            (w->inputs[root] == 1 && w->taken[root] == node + 1))
            continue;
        w->placed[pair.output] = node + 1;
        w->taken[root] = node + 1;
        saved += output->bytes;
    }
    return saved;
}

static int64_t working_set_of(working_set *w, uint32_t node) {
    const rp_node *n = &w->graph->nodes[node];
    const uint32_t *inputs = rp_node_inputs(w->graph, node);
    const uint32_t *outputs = rp_node_outputs(w->graph, node);
    int64_t bytes = n->workspace;
    for (size_t i = 0; i < n->inputs.count; i++) {
        bytes += meet(w, node, inputs[i]);
        w->inputs[w->graph->values[inputs[i]].root]++;
    }
    for (size_t i = 0; i < n->outputs.count; i++)
        bytes += meet(w, node, outputs[i]);
    return bytes - most_saved(w, node);
}

rp_status rp_plan_find_floor(const rp_graph *graph, int64_t *floor_bytes) {
    rp_context *context = graph->context;
    rp_status status = RP_OK;
    working_set w = {graph, rp_alloc(context, graph->value_count, sizeof *w.met),
                     rp_alloc(context, graph->value_count, sizeof *w.inputs),
                     rp_alloc(context, graph->value_count, sizeof *w.taken),
                     rp_alloc(context, graph->value_count, sizeof *w.placed)};
    if (w.met == NULL || w.inputs == NULL || w.taken == NULL || w.placed == NULL) {
        status = rp_fail_memory(context, "the floor of a graph");
        goto done;
    }
    int64_t most = 0, outputs = 0;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const int64_t bytes = working_set_of(&w, i);
        most = bytes > most ? bytes : most;
    }
    for (size_t i = 0; i < graph->output_count; i++) /* as of one more node */
        outputs += meet(&w, (uint32_t)graph->node_count, graph->outputs[i]);
    *floor_bytes = graph->persistent_bytes + (outputs > most ? outputs : most);
done:
    rp_free(context, w.met);
    rp_free(context, w.inputs);
    rp_free(context, w.taken);
    rp_free(context, w.placed);
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
