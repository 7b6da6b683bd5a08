/* The planner's graph: building and looking. What makes it whole is checked in graph_finish.c. */
#include "graph.h"

#include "memo.h"

#include <stdio.h>
#include <string.h>

enum { INDEX_TEXT_BYTES = 24 };

static void destroy_graph(void *graph) {
    rp_graph_destroy(graph);
}

rp_status rp_graph_create(rp_context *context, const char *name, int64_t alignment,
                          rp_graph **graph) {
    if (graph == NULL)
        return RP_INVALID_ARGUMENT;
    *graph = NULL;
    if (context == NULL)
        return RP_INVALID_ARGUMENT;
    if (alignment < 1)
        return rp_fail(context, RP_INVALID_ARGUMENT,
                       "graph: alignment is %lld, at least 1 is needed", (long long)alignment);
    rp_graph *made = rp_alloc(context, 1, sizeof *made);
    if (made == NULL)
        return rp_fail_memory(context, "a graph");
    made->context = context;
    made->alignment = alignment;
    const char *text = name != NULL ? name : "";
    const size_t bytes = strlen(text) + 1;
    /* Offset 0 is the empty string: the block of nodes that have none. */
    if (!rp_reserve(context, &made->strings, &made->string_capacity, 1 + bytes, 1)) {
        rp_free(context, made);
        return rp_fail_memory(context, "a graph");
    }
    made->strings[0] = '\0';
    memcpy(made->strings + 1, text, bytes);
    made->name = 1;
    made->string_bytes = 1 + bytes;
    rp_own(context, &made->owned, made, destroy_graph);
    *graph = made;
    return RP_OK;
}

void rp_graph_destroy(rp_graph *graph) {
    if (graph == NULL)
        return;
    rp_context *context = graph->context;
    rp_disown(context, &graph->owned);
    rp_memo_destroy(graph);
    rp_free(context, graph->values);
    rp_free(context, graph->nodes);
    rp_free(context, graph->edges);
    rp_free(context, graph->pairs);
    rp_free(context, graph->strings);
    rp_free(context, graph->outputs);
    rp_free(context, graph->readers);
    rp_free(context, graph);
}

/* Room for `count` more bytes of strings; offsets stay valid, addresses do not. */
static bool reserve_strings(rp_graph *graph, size_t count) {
    size_t needed = 0;
    return !__builtin_add_overflow(graph->string_bytes, count, &needed) &&
           rp_reserve(graph->context, &graph->strings, &graph->string_capacity, needed, 1);
}

static size_t append_string(rp_graph *graph, const char *text, size_t bytes) {
    const size_t offset = graph->string_bytes;
    memcpy(graph->strings + offset, text, bytes);
    graph->string_bytes += bytes;
    return offset;
}

static rp_status refuse_change(const rp_graph *graph) {
    return rp_fail(graph->context, RP_BAD_STATE, "graph: it is finished and cannot be changed");
}

rp_status rp_graph_add_value(rp_graph *graph, const rp_value_info *value, uint32_t *index) {
    if (graph == NULL)
        return RP_INVALID_ARGUMENT;
    rp_context *context = graph->context;
    if (graph->finished)
        return refuse_change(graph);
    if (value == NULL)
        return rp_fail(context, RP_INVALID_ARGUMENT, "graph: the value is NULL");
    if (value->bytes < 0)
        return rp_fail(context, RP_INVALID_ARGUMENT,
                       "values[%zu]: %lld bytes, 0 or more are needed", graph->value_count,
                       (long long)value->bytes);
    if (value->kind != RP_ACTIVATION && value->kind != RP_PERSISTENT)
        return rp_fail(context, RP_INVALID_ARGUMENT, "values[%zu]: unknown kind %d",
                       graph->value_count, (int)value->kind);
    if (graph->value_count >= RP_NONE)
        return rp_fail(context, RP_INVALID_ARGUMENT, "graph: more than %u values", RP_NONE);

    char text[INDEX_TEXT_BYTES];
    snprintf(text, sizeof text, "%zu", graph->value_count);
    const char *name = value->name != NULL ? value->name : text;
    const size_t name_bytes = strlen(name) + 1;
    if (!reserve_strings(graph, name_bytes) ||
        !rp_reserve(context, &graph->values, &graph->value_capacity, graph->value_count + 1,
                    sizeof *graph->values))
        return rp_fail_memory(context, "a value");
    graph->values[graph->value_count] = (rp_value){
        .name = append_string(graph, name, name_bytes),
        .stated_bytes = value->bytes,
        .alias_of = value->alias_of,
        .root = RP_NONE,
        .writer = RP_NONE,
        .persistent = value->kind == RP_PERSISTENT,
    };
    if (index != NULL)
        *index = (uint32_t)graph->value_count;
    graph->value_count++;
    return RP_OK;
}

static rp_status check_node_info(const rp_graph *graph, const rp_node_info *node) {
    rp_context *context = graph->context;
    const size_t i = graph->node_count;
    if (node == NULL)
        return rp_fail(context, RP_INVALID_ARGUMENT, "graph: the node is NULL");
    if ((node->input_count > 0 && node->inputs == NULL) ||
        (node->output_count > 0 && node->outputs == NULL) ||
        (node->inplace_count > 0 && node->inplace == NULL))
        return rp_fail(context, RP_INVALID_ARGUMENT, "nodes[%zu]: a list is NULL", i);
    if (node->phase != RP_FORWARD && node->phase != RP_BACKWARD)
        return rp_fail(context, RP_INVALID_ARGUMENT, "nodes[%zu]: unknown phase %d", i,
                       (int)node->phase);
    if (node->mark != RP_MARK_AUTO && node->mark != RP_MARK_KEEP && node->mark != RP_MARK_RECOMPUTE)
        return rp_fail(context, RP_INVALID_ARGUMENT, "nodes[%zu]: unknown mark %d", i,
                       (int)node->mark);
    if (node->cost_ns < 0 || node->workspace_bytes < 0)
        return rp_fail(context, RP_INVALID_ARGUMENT,
                       "nodes[%zu]: cost_ns is %lld and workspace_bytes %lld, 0 or more are needed",
                       i, (long long)node->cost_ns, (long long)node->workspace_bytes);
    if (i >= RP_NONE)
        return rp_fail(context, RP_INVALID_ARGUMENT, "graph: more than %u nodes", RP_NONE);
    return RP_OK;
}

static rp_range append_edges(rp_graph *graph, const uint32_t *list, size_t count) {
    const rp_range range = {graph->edge_count, count};
    if (count > 0)
        memcpy(graph->edges + graph->edge_count, list, count * sizeof *list);
    graph->edge_count += count;
    return range;
}

/* Neighbours mostly share their block: one copy of the label is enough for a run of them. */
static bool same_block_as_last(const rp_graph *graph, const char *block) {
    if (graph->node_count == 0)
        return false;
    return strcmp(graph->strings + graph->nodes[graph->node_count - 1].block, block) == 0;
}

rp_status rp_graph_add_node(rp_graph *graph, const rp_node_info *node, uint32_t *index) {
    if (graph == NULL)
        return RP_INVALID_ARGUMENT;
    rp_context *context = graph->context;
    if (graph->finished)
        return refuse_change(graph);
    const rp_status status = check_node_info(graph, node);
    if (status != RP_OK)
        return status;

    char text[INDEX_TEXT_BYTES];
    snprintf(text, sizeof text, "%zu", graph->node_count);
    const char *name = node->name != NULL ? node->name : text;
    const char *block = node->block != NULL ? node->block : "";
    const size_t name_bytes = strlen(name) + 1, block_bytes = strlen(block) + 1;
    size_t strings = 0, edges = 0, pairs = 0;
    if (__builtin_add_overflow(name_bytes, block_bytes, &strings) ||
        __builtin_add_overflow(node->input_count, node->output_count, &edges) ||
        __builtin_add_overflow(edges, graph->edge_count, &edges) ||
        __builtin_add_overflow(node->inplace_count, graph->pair_count, &pairs) ||
        !reserve_strings(graph, strings) ||
        !rp_reserve(context, &graph->edges, &graph->edge_capacity, edges, sizeof *graph->edges) ||
        !rp_reserve(context, &graph->pairs, &graph->pair_capacity, pairs, sizeof *graph->pairs) ||
        !rp_reserve(context, &graph->nodes, &graph->node_capacity, graph->node_count + 1,
                    sizeof *graph->nodes))
        return rp_fail_memory(context, "a node");

    size_t block_at = 0;
    if (same_block_as_last(graph, block))
        block_at = graph->nodes[graph->node_count - 1].block;
    else if (block_bytes > 1)
        block_at = append_string(graph, block, block_bytes);
    rp_node *made = &graph->nodes[graph->node_count];
    *made = (rp_node){
        .name = append_string(graph, name, name_bytes),
        .block = block_at,
        .cost_ns = node->cost_ns,
        .stated_workspace = node->workspace_bytes,
        .inplace = {graph->pair_count, node->inplace_count},
        .phase = node->phase,
        .mark = node->mark,
        .recomputable = node->recomputable,
    };
    made->inputs = append_edges(graph, node->inputs, node->input_count);
    made->outputs = append_edges(graph, node->outputs, node->output_count);
    if (node->inplace_count > 0)
        memcpy(graph->pairs + graph->pair_count, node->inplace,
               node->inplace_count * sizeof *graph->pairs);
    graph->pair_count = pairs;
    if (index != NULL)
        *index = (uint32_t)graph->node_count;
    graph->node_count++;
    return RP_OK;
}

rp_status rp_graph_set_outputs(rp_graph *graph, const uint32_t *values, size_t count) {
    if (graph == NULL)
        return RP_INVALID_ARGUMENT;
    rp_context *context = graph->context;
    if (graph->finished)
        return refuse_change(graph);
    if (count > 0 && values == NULL)
        return rp_fail(context, RP_INVALID_ARGUMENT, "outputs: the list is NULL");
    uint32_t *copy = rp_resize(context, NULL, count, sizeof *copy);
    if (copy == NULL)
        return rp_fail_memory(context, "the outputs of a graph");
    if (count > 0)
        memcpy(copy, values, count * sizeof *copy);
    rp_free(context, graph->outputs);
    graph->outputs = copy;
    graph->output_count = count;
    return RP_OK;
}

rp_status rp_graph_set_costs(rp_graph *graph, const int64_t *costs) {
    int64_t total = 0;
    for (size_t n = 0; n < graph->node_count; n++)
        if (!rp_checked_add(total, costs[n], &total))
            return rp_fail(graph->context, RP_BAD_INPUT,
                           "nodes[%zu] (%.80s): the sum of all cost_ns up to here exceeds 2^63 - 1",
                           n, rp_node_name(graph, (uint32_t)n));
    rp_memo *memo = rp_memo_create(graph);
    if (memo == NULL)
        return rp_fail_memory(graph->context, "the costs of a graph");
    for (size_t n = 0; n < graph->node_count; n++)
        graph->nodes[n].cost_ns = costs[n];
    graph->total_cost_ns = total;
    rp_memo_destroy(graph);
    graph->memo = memo;
    return RP_OK;
}

/* ---- Looking: what is empty for NULL and for an index behind the last ------------------------ */

const char *rp_graph_name(const rp_graph *graph) {
    return graph != NULL ? graph->strings + graph->name : "";
}

size_t rp_graph_node_count(const rp_graph *graph) {
    return graph != NULL ? graph->node_count : 0;
}

size_t rp_graph_value_count(const rp_graph *graph) {
    return graph != NULL ? graph->value_count : 0;
}

void rp_graph_node(const rp_graph *graph, uint32_t node, rp_node_info *info) {
    if (info == NULL)
        return;
    *info = (rp_node_info){.name = "", .block = ""};
    if (graph == NULL || node >= graph->node_count)
        return;
    const rp_node *n = &graph->nodes[node];
    *info = (rp_node_info){
        .name = rp_node_name(graph, node),
        .block = graph->strings + n->block,
        .phase = n->phase,
        .mark = n->mark,
        .recomputable = n->recomputable,
        .cost_ns = n->cost_ns,
        .workspace_bytes = n->stated_workspace,
        .inputs = rp_node_inputs(graph, node),
        .input_count = n->inputs.count,
        .outputs = rp_node_outputs(graph, node),
        .output_count = n->outputs.count,
        .inplace = rp_node_inplace(graph, node),
        .inplace_count = n->inplace.count,
    };
}

void rp_graph_value(const rp_graph *graph, uint32_t value, rp_value_info *info) {
    if (info == NULL)
        return;
    *info = (rp_value_info){.name = "", .alias_of = RP_NONE};
    if (graph == NULL || value >= graph->value_count)
        return;
    const rp_value *v = &graph->values[value];
    *info = (rp_value_info){
        .name = rp_value_name(graph, value),
        .bytes = v->stated_bytes,
        .kind = v->persistent ? RP_PERSISTENT : RP_ACTIVATION,
        .alias_of = v->alias_of,
    };
}

const uint32_t *rp_graph_outputs(const rp_graph *graph, size_t *count) {
    if (count != NULL)
        *count = graph != NULL ? graph->output_count : 0;
    return graph != NULL ? graph->outputs : NULL;
}

uint64_t rp_graph_hash(const rp_graph *graph) {
    return graph != NULL ? graph->hash : 0;
}

int64_t rp_graph_total_cost_ns(const rp_graph *graph) {
    return graph != NULL ? graph->total_cost_ns : 0;
}

int64_t rp_graph_alignment(const rp_graph *graph) {
    return graph != NULL ? graph->alignment : 0;
}

int64_t rp_graph_persistent_bytes(const rp_graph *graph) {
    return graph != NULL ? graph->persistent_bytes : 0;
}
