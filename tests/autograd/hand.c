/* Schedules written by hand. */
#include "hand.h"

#include <stdlib.h>

void hand_run(hand *h, uint32_t node) {
    RP_REQUIRE(h->count < HAND_RUNS, "a schedule of more than %d runs", HAND_RUNS);
    h->runs[h->count++] = node;
}

static bool is_among(const uint32_t *list, size_t count, uint32_t value) {
    for (size_t i = 0; i < count; i++)
        if (list[i] == value)
            return true;
    return false;
}

/* Whether the value that is live behind run `at` is read before it is written again. */
static bool is_awaited(const rp_graph *graph, const hand *h, size_t at, uint32_t value) {
    size_t output_count = 0;
    const uint32_t *outputs = rp_graph_outputs(graph, &output_count);
    for (size_t i = at + 1; i < h->count; i++) {
        rp_node_info node;
        rp_graph_node(graph, h->runs[i], &node);
        if (is_among(node.inputs, node.input_count, value))
            return true;
        if (is_among(node.outputs, node.output_count, value))
            return false;
    }
    return is_among(outputs, output_count, value);
}

typedef struct writer {
    const rp_graph *graph;
    const hand *hand;
    bool *live;
    rp_step *steps;
    size_t count;
} writer;

static void drop(writer *w, size_t at, const uint32_t *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
        rp_value_info value;
        rp_graph_value(w->graph, values[i], &value);
        RP_REQUIRE(value.alias_of == RP_NONE, "%s is a view", value.name);
        if (value.kind == RP_PERSISTENT || !w->live[values[i]] ||
            is_awaited(w->graph, w->hand, at, values[i]))
            continue;
        w->live[values[i]] = false;
        w->steps[w->count++] = (rp_step){RP_STEP_DROP, values[i]};
    }
}

static void write_run(writer *w, size_t at) {
    rp_node_info node;
    rp_graph_node(w->graph, w->hand->runs[at], &node);
    w->steps[w->count++] = (rp_step){RP_STEP_RUN, w->hand->runs[at]};
    for (size_t i = 0; i < node.output_count; i++)
        w->live[node.outputs[i]] = true;
    drop(w, at, node.inputs, node.input_count);
    drop(w, at, node.outputs, node.output_count);
}

void hand_make(bench *b, const hand *h, int64_t budget_bytes) {
    const rp_graph *graph = rp_program_graph(b->program);
    size_t room = h->count;
    for (size_t i = 0; i < h->count; i++) {
        rp_node_info node;
        rp_graph_node(graph, h->runs[i], &node);
        room += node.input_count + node.output_count;
    }
    writer w = {graph, h, calloc(rp_graph_value_count(graph) + 1, sizeof *w.live),
                calloc(room + 1, sizeof *w.steps), 0};
    RP_REQUIRE(w.live != NULL && w.steps != NULL, "no memory");
    for (size_t i = 0; i < h->count; i++)
        write_run(&w, i);
    bench_import(b, w.steps, w.count, budget_bytes);
    free(w.steps);
    free(w.live);
}
