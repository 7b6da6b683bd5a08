/* Freezing a graph: every check that needs the whole of it, and the tables that planners read.
 * All of it is linear in the size of the graph and without recursion, so that chains of millions
 * of views or nodes pass. */
#include "graph.h"
#include "memo.h"
#include "mix.h"

#include <string.h>

/* Names in messages are cut, so that a long one cannot push out the reason. */
#define VALUE_PLACE "values[%u] (%.80s)"
#define NODE_PLACE "nodes[%u] (%.80s)"

/* The node, counted from 1, in which a value (or for `group` a root) was last met. */
typedef struct marks {
    uint32_t *input, *output, *group;
} marks;

static rp_status fail_value(const rp_graph *graph, uint32_t value, const char *reason) {
    return rp_fail(graph->context, RP_BAD_INPUT, VALUE_PLACE ": %s", value,
                   rp_value_name(graph, value), reason);
}

static rp_status fail_node(const rp_graph *graph, uint32_t node, const char *reason) {
    return rp_fail(graph->context, RP_BAD_INPUT, NODE_PLACE ": %s", node, rp_node_name(graph, node),
                   reason);
}

/* "nodes[3] (f): reads value 7 (x) before it is written" */
static rp_status fail_edge(const rp_graph *graph, uint32_t node, const char *verb, uint32_t value,
                           const char *reason) {
    if (value >= graph->value_count)
        return rp_fail(graph->context, RP_BAD_INPUT, NODE_PLACE ": %s value %u%s", node,
                       rp_node_name(graph, node), verb, value, reason);
    return rp_fail(graph->context, RP_BAD_INPUT, NODE_PLACE ": %s value %u (%.80s)%s", node,
                   rp_node_name(graph, node), verb, value, rp_value_name(graph, value), reason);
}

static bool round_up(int64_t bytes, int64_t alignment, int64_t *rounded) {
    const int64_t rest = bytes % alignment;
    if (rest == 0) {
        *rounded = bytes;
        return true;
    }
    return rp_checked_add(bytes, alignment - rest, rounded);
}

static rp_status find_roots(rp_graph *graph) {
    rp_value *values = graph->values;
    for (size_t i = 0; i < graph->value_count; i++)
        values[i].root = RP_NONE;
    for (size_t i = 0; i < graph->value_count; i++) {
        uint32_t v = (uint32_t)i;
        size_t walked = 0;
        while (values[v].root == RP_NONE && values[v].alias_of != RP_NONE) {
            v = values[v].alias_of;
            if (++walked > graph->value_count)
                return fail_value(graph, v, "alias_of is a loop");
        }
        const uint32_t root = values[v].root != RP_NONE ? values[v].root : v;
        for (v = (uint32_t)i; values[v].root == RP_NONE && v != root; v = values[v].alias_of)
            values[v].root = root;
        values[root].root = root;
    }
    return RP_OK;
}

static rp_status check_values(rp_graph *graph) {
    for (uint32_t i = 0; i < graph->value_count; i++) {
        rp_value *value = &graph->values[i];
        value->writer = RP_NONE;
        value->is_output = false;
        value->bytes = 0;
        if (value->alias_of == RP_NONE) {
            if (!round_up(value->stated_bytes, graph->alignment, &value->bytes))
                return fail_value(graph, i, "bytes rounded up to the alignment exceed 2^63 - 1");
            continue;
        }
        if (value->alias_of >= graph->value_count)
            return rp_fail(graph->context, RP_BAD_INPUT,
                           VALUE_PLACE ": alias_of: there is no value %u", i,
                           rp_value_name(graph, i), value->alias_of);
        if (value->alias_of == i)
            return fail_value(graph, i, "alias_of names the value itself");
        if (value->persistent)
            return fail_value(graph, i, "a view (alias_of) must be of kind activation");
    }
    return find_roots(graph);
}

/* Every sum that a planner may form stays below 2^63: each value counts the bytes of the storage
 * that it can hold, a view therefore those of its base (a base that is recomputed while an old
 * view lives exists twice). */
static rp_status check_sums(rp_graph *graph) {
    int64_t bytes = 0, workspace = 0, cost = 0;
    uint32_t largest = 0; /* workspace: the node */
    graph->persistent_bytes = 0;
    for (uint32_t i = 0; i < graph->value_count; i++) {
        const rp_value *value = &graph->values[i];
        const rp_value *root = &graph->values[value->root];
        if (value->alias_of != RP_NONE && root->persistent)
            continue;
        if (!rp_checked_add(bytes, root->bytes, &bytes))
            return fail_value(graph, i, "the sum of all bytes up to here exceeds 2^63 - 1");
        if (value->persistent)
            graph->persistent_bytes += value->bytes;
    }
    for (uint32_t i = 0; i < graph->node_count; i++) {
        rp_node *node = &graph->nodes[i];
        if (!round_up(node->stated_workspace, graph->alignment, &node->workspace))
            return fail_node(graph, i,
                             "workspace_bytes rounded up to the alignment exceed 2^63 - 1");
        if (node->workspace > workspace) {
            workspace = node->workspace;
            largest = i;
        }
        if (!rp_checked_add(cost, node->cost_ns, &cost))
            return fail_node(graph, i, "the sum of all cost_ns up to here exceeds 2^63 - 1");
    }
    if (!rp_checked_add(bytes, workspace, &bytes))
        return fail_node(graph, largest,
                         "workspace_bytes and the bytes of all values exceed 2^63 - 1 together");
    graph->total_cost_ns = cost;
    return RP_OK;
}

/* Keeps the first occurrence of each input. */
static rp_status check_inputs(rp_graph *graph, uint32_t node, marks *met) {
    rp_range *range = &graph->nodes[node].inputs;
    uint32_t *list = graph->edges + range->begin;
    size_t kept = 0;
    for (size_t i = 0; i < range->count; i++) {
        const uint32_t v = list[i];
        if (v >= graph->value_count)
            return fail_edge(graph, node, "inputs: there is no", v, "");
        if (met->input[v] == node + 1)
            continue;
        const rp_value *value = &graph->values[v];
        if (!value->persistent && value->writer == RP_NONE)
            return fail_edge(graph, node, "reads", v, " before it is written");
        met->input[v] = node + 1;
        met->group[value->root] = node + 1;
        list[kept++] = v;
    }
    range->count = kept;
    return RP_OK;
}

static rp_status check_outputs(rp_graph *graph, uint32_t node, marks *met) {
    rp_node *n = &graph->nodes[node];
    const uint32_t *list = rp_node_outputs(graph, node);
    n->writes_persistent = false;
    for (size_t i = 0; i < n->outputs.count; i++) {
        const uint32_t v = list[i];
        if (v >= graph->value_count)
            return fail_edge(graph, node, "outputs: there is no", v, "");
        if (met->output[v] == node + 1)
            return fail_edge(graph, node, "lists output", v, " twice");
        met->output[v] = node + 1;
        rp_value *value = &graph->values[v];
        if (value->persistent) {
            n->writes_persistent = true;
            continue;
        }
        if (value->writer != RP_NONE)
            return fail_edge(graph, node, "writes", v, ", which has a writer already");
        value->writer = node;
        if (value->root == v)
            met->group[v] = node + 1;
    }
    for (size_t i = 0; i < n->outputs.count; i++) {
        const rp_value *value = &graph->values[list[i]];
        if (value->alias_of != RP_NONE && !graph->values[value->root].persistent &&
            met->group[value->root] != node + 1)
            return fail_edge(graph, node, "writes", list[i],
                             ", a view, but neither reads nor writes its base");
    }
    return RP_OK;
}

static rp_status check_node(rp_graph *graph, uint32_t node, marks *met) {
    const rp_node *n = &graph->nodes[node];
    rp_status status = check_inputs(graph, node, met);
    if (status == RP_OK)
        status = check_outputs(graph, node, met);
    if (status != RP_OK)
        return status;
    const rp_inplace_pair *pairs = rp_node_inplace(graph, node);
    for (size_t i = 0; i < n->inplace.count; i++) {
        const rp_inplace_pair pair = pairs[i];
        if (pair.output >= graph->value_count || met->output[pair.output] != node + 1)
            return fail_edge(graph, node, "inplace:", pair.output, " is not one of its outputs");
        if (pair.input >= graph->value_count || met->input[pair.input] != node + 1)
            return fail_edge(graph, node, "inplace:", pair.input, " is not one of its inputs");
    }
    if (n->mark == RP_MARK_RECOMPUTE && n->phase == RP_BACKWARD)
        return fail_node(graph, node, "mark recompute is for forward nodes only");
    if (n->mark == RP_MARK_RECOMPUTE && !n->recomputable)
        return fail_node(graph, node, "mark recompute contradicts recomputable false");
    return RP_OK;
}

static rp_status check_nodes(rp_graph *graph) {
    rp_context *context = graph->context;
    rp_status status = RP_OK;
    marks met = {rp_alloc(context, graph->value_count, sizeof *met.input),
                 rp_alloc(context, graph->value_count, sizeof *met.output),
                 rp_alloc(context, graph->value_count, sizeof *met.group)};
    if (met.input == NULL || met.output == NULL || met.group == NULL)
        status = rp_fail_memory(context, "the checks of a graph");
    graph->last_forward = graph->first_backward = RP_NONE;
    for (uint32_t i = 0; i < graph->node_count && status == RP_OK; i++) {
        status = check_node(graph, i, &met);
        if (graph->nodes[i].phase == RP_FORWARD)
            graph->last_forward = i;
        else if (graph->first_backward == RP_NONE)
            graph->first_backward = i;
    }
    rp_free(context, met.input);
    rp_free(context, met.output);
    rp_free(context, met.group);
    for (uint32_t v = 0; v < graph->value_count && status == RP_OK; v++)
        if (!graph->values[v].persistent && graph->values[v].writer == RP_NONE)
            status = fail_value(graph, v, "an activation that no node writes");
    return status;
}

/* Keeps the first occurrence of each output. */
static rp_status check_graph_outputs(rp_graph *graph) {
    size_t kept = 0;
    for (size_t i = 0; i < graph->output_count; i++) {
        const uint32_t v = graph->outputs[i];
        if (v >= graph->value_count)
            return rp_fail(graph->context, RP_BAD_INPUT, "outputs[%zu]: there is no value %u", i,
                           v);
        if (graph->values[v].is_output)
            continue;
        graph->values[v].is_output = true;
        graph->outputs[kept++] = v;
    }
    graph->output_count = kept;
    return RP_OK;
}

static rp_status list_readers(rp_graph *graph) {
    size_t total = 0;
    for (size_t i = 0; i < graph->node_count; i++)
        total += graph->nodes[i].inputs.count;
    uint32_t *readers = rp_resize(graph->context, graph->readers, total, sizeof *readers);
    if (readers == NULL)
        return rp_fail_memory(graph->context, "the readers of values");
    graph->readers = readers;
    graph->reader_count = total;
    for (size_t v = 0; v < graph->value_count; v++)
        graph->values[v].readers = (rp_range){0, 0};
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (size_t k = 0; k < graph->nodes[i].inputs.count; k++)
            graph->values[rp_node_inputs(graph, i)[k]].readers.count++;
    size_t begin = 0;
    for (size_t v = 0; v < graph->value_count; v++) {
        graph->values[v].readers.begin = begin;
        begin += graph->values[v].readers.count;
        graph->values[v].readers.count = 0;
    }
    for (uint32_t i = 0; i < graph->node_count; i++)
        for (size_t k = 0; k < graph->nodes[i].inputs.count; k++) {
            rp_range *range = &graph->values[rp_node_inputs(graph, i)[k]].readers;
            readers[range->begin + range->count++] = i;
        }
    return RP_OK;
}

static uint64_t mix_list(uint64_t hash, const uint32_t *list, size_t count) {
    hash = rp_mix(hash, count);
    for (size_t i = 0; i < count; i++)
        hash = rp_mix(hash, list[i]);
    return hash;
}

static uint64_t hash_graph(const rp_graph *graph) {
    uint64_t hash = rp_mix(1, (uint64_t)graph->alignment);
    hash = rp_mix(hash, graph->value_count);
    for (size_t i = 0; i < graph->value_count; i++) {
        const rp_value *value = &graph->values[i];
        const bool view = value->alias_of != RP_NONE;
        hash = rp_mix(hash, view ? 0 : (uint64_t)value->stated_bytes); /* a view's are ignored */
        hash = rp_mix(hash, (uint64_t)value->alias_of << 1 | value->persistent);
    }
    hash = rp_mix(hash, graph->node_count);
    for (uint32_t i = 0; i < graph->node_count; i++) {
        const rp_node *node = &graph->nodes[i];
        hash = rp_mix(hash, (uint64_t)node->phase << 3 | (uint64_t)node->mark << 1 |
                                (uint64_t)node->recomputable);
        hash = rp_mix(hash, (uint64_t)node->stated_workspace);
        hash = mix_list(hash, rp_node_inputs(graph, i), node->inputs.count);
        hash = mix_list(hash, rp_node_outputs(graph, i), node->outputs.count);
        hash = rp_mix(hash, node->inplace.count);
        for (size_t k = 0; k < node->inplace.count; k++) {
            const rp_inplace_pair pair = rp_node_inplace(graph, i)[k];
            hash = rp_mix(hash, (uint64_t)pair.output << 32 | pair.input);
        }
    }
    return mix_list(hash, graph->outputs, graph->output_count);
}

/* No list of a finished graph is NULL, however empty: address arithmetic on NULL is undefined. */
static bool give_every_list_an_address(rp_graph *graph) {
    rp_context *context = graph->context;
    if (graph->outputs == NULL)
        graph->outputs = rp_alloc(context, 0, sizeof *graph->outputs);
    return graph->outputs != NULL &&
           rp_reserve(context, &graph->values, &graph->value_capacity, 1, sizeof *graph->values) &&
           rp_reserve(context, &graph->nodes, &graph->node_capacity, 1, sizeof *graph->nodes) &&
           rp_reserve(context, &graph->edges, &graph->edge_capacity, 1, sizeof *graph->edges) &&
           rp_reserve(context, &graph->pairs, &graph->pair_capacity, 1, sizeof *graph->pairs);
}

rp_status rp_graph_finish(rp_graph *graph) {
    if (graph == NULL)
        return RP_INVALID_ARGUMENT;
    if (graph->finished)
        return RP_OK;
    if (!give_every_list_an_address(graph))
        return rp_fail_memory(graph->context, "a graph");
    rp_status status = check_values(graph);
    if (status == RP_OK)
        status = check_sums(graph);
    if (status == RP_OK)
        status = check_nodes(graph);
    if (status == RP_OK)
        status = check_graph_outputs(graph);
    if (status == RP_OK)
        status = list_readers(graph);
    if (status != RP_OK)
        return status;
    graph->memo = rp_memo_create(graph);
    if (graph->memo == NULL)
        return rp_fail_memory(graph->context, "a graph");
    graph->hash = hash_graph(graph);
    graph->finished = true;
    return RP_OK;
}
