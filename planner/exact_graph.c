/* What the exact search knows of a graph before it begins. */
#include "exact_graph.h"

size_t rp_exact_graph_count(const rp_graph *graph) {
    size_t count = 0;
    for (size_t v = 0; v < graph->value_count; v++)
        count += !graph->values[v].persistent;
    return count;
}

static void number_slots(rp_exact_graph *e) {
    const rp_graph *graph = e->graph;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const rp_value *value = &graph->values[v];
        e->slot_of[v] = value->persistent ? RP_NONE : e->slots;
        if (value->persistent)
            continue;
        e->value_of[e->slots] = v;
        e->last_need[e->slots++] = rp_value_last_need(graph, v);
    }
}

static bool has_useful_output(const rp_exact_graph *e, uint32_t stage, uint32_t node) {
    const uint32_t *outputs = rp_node_outputs(e->graph, node);
    for (size_t o = 0; o < e->graph->nodes[node].outputs.count; o++)
        if (e->slot_of[outputs[o]] != RP_NONE &&
            rp_exact_is_useful(e, stage, e->slot_of[outputs[o]]))
            return true;
    return false;
}

/* A value may still be read by a first run, or by a replay of something that may be read: readers
 * stand behind writers, so that one pass from the last writer up decides. */
static void find_useful(rp_exact_graph *e) {
    const rp_graph *graph = e->graph;
    for (uint32_t stage = 0; stage <= graph->node_count; stage++)
        for (uint32_t n = (uint32_t)graph->node_count; n-- > 0;)
            for (size_t o = 0; o < graph->nodes[n].outputs.count; o++) {
                const uint32_t v = rp_node_outputs(graph, n)[o], slot = e->slot_of[v];
                if (slot == RP_NONE)
                    continue;
                bool useful = graph->values[v].is_output ||
                              (graph->values[v].readers.count > 0 && e->last_need[slot] >= stage);
                for (size_t r = 0; r < graph->values[v].readers.count && !useful; r++) {
                    const uint32_t reader = rp_value_readers(graph, v)[r];
                    useful =
                        rp_exact_may_rerun(e, reader, stage) && has_useful_output(e, stage, reader);
                }
                e->useful[(size_t)stage * e->slots + slot] = useful;
            }
}

static void find_marked(rp_exact_graph *e) {
    const rp_graph *graph = e->graph;
    e->turn = rp_graph_turn(graph);
    for (uint32_t s = 0; s < e->slots && e->turn != RP_NONE; s++) {
        const uint32_t writer = graph->values[e->value_of[s]].writer;
        e->marked[s] = writer <= e->turn && graph->nodes[writer].mark == RP_MARK_RECOMPUTE;
    }
}

static void find_hinted(rp_exact_graph *e) {
    const rp_value *values = e->graph->values;
    for (size_t i = 0; i < e->graph->pair_count; i++)
        for (uint32_t s = 0; s < e->slots; s++)
            if (values[e->value_of[s]].root == values[e->graph->pairs[i].input].root)
                e->hinted[s] = true;
}

rp_status rp_exact_graph_create(const rp_graph *graph, rp_exact_graph *exact) {
    rp_context *const context = graph->context;
    const size_t slots = rp_exact_graph_count(graph);
    uint32_t *next_write = rp_alloc(context, graph->value_count, sizeof *next_write);
    *exact = (rp_exact_graph){
        .graph = graph,
        .slot_of = rp_alloc(context, graph->value_count, sizeof *exact->slot_of),
        .value_of = rp_alloc(context, slots, sizeof *exact->value_of),
        .last_need = rp_alloc(context, slots, sizeof *exact->last_need),
        .deadline = rp_alloc(context, graph->node_count, sizeof *exact->deadline),
        .useful = rp_alloc(context, (graph->node_count + 1) * slots, sizeof *exact->useful),
        .marked = rp_alloc(context, slots, sizeof *exact->marked),
        .hinted = rp_alloc(context, slots, sizeof *exact->hinted)};
    if (!next_write || !exact->slot_of || !exact->value_of || !exact->last_need ||
        !exact->deadline || !exact->useful || !exact->marked || !exact->hinted) {
        rp_free(context, next_write);
        rp_exact_graph_clear(exact);
        return rp_fail_memory(context, "an exact search");
    }
    number_slots(exact);
    rp_graph_find_deadlines(graph, exact->deadline, next_write);
    rp_free(context, next_write);
    find_useful(exact);
    find_marked(exact);
    find_hinted(exact);
    return RP_OK;
}

void rp_exact_graph_clear(rp_exact_graph *exact) {
    if (exact->graph == NULL)
        return;
    rp_context *const context = exact->graph->context;
    rp_free(context, exact->slot_of);
    rp_free(context, exact->value_of);
    rp_free(context, exact->last_need);
    rp_free(context, exact->deadline);
    rp_free(context, exact->useful);
    rp_free(context, exact->marked);
    rp_free(context, exact->hinted);
    *exact = (rp_exact_graph){.graph = NULL};
}
