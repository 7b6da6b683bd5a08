/* `reprise-graph` files, version 1: one value and one node a line, so that they diff. */
#include "file.h"
#include "graph.h"
#include "json.h"

#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {
    [RP_ACTIVATION] = "activation", [RP_PERSISTENT] = "persistent", NULL};
static const char *const phases[] = {[RP_FORWARD] = "forward", [RP_BACKWARD] = "backward", NULL};
static const char *const marks[] = {
    [RP_MARK_AUTO] = "auto", [RP_MARK_KEEP] = "keep", [RP_MARK_RECOMPUTE] = "recompute", NULL};

/* ---- Reading ---- */

/* The lists of one node, reused from node to node. */
typedef struct node_lists {
    uint32_t *inputs, *outputs;
    rp_inplace_pair *pairs;
    size_t input_capacity, output_capacity, pair_capacity;
} node_lists;

/* "nodes[3] (name): "; the name may be missing or no string. */
static void set_place(rp_json_place *place, const char *list, size_t index, const json_t *object) {
    const json_t *name = json_object_get(object, "name");
    if (json_is_string(name))
        snprintf(place->text, sizeof place->text, "%s[%zu] (%.80s): ", list, index,
                 json_string_value(name));
    else
        snprintf(place->text, sizeof place->text, "%s[%zu]: ", list, index);
}

/* Names are C strings: a 0 byte inside would cut them. (Jansson refuses \u0000; this is for a
 * version that does not.) */
static rp_status check_name(const rp_json_place *place, const json_t *object, const char *field) {
    const json_t *found = json_object_get(object, field);
    if (json_is_string(found) && strlen(json_string_value(found)) != json_string_length(found))
        return rp_json_fail(place, field, "contains a 0 byte");
    return RP_OK;
}

static rp_status fail_index(const rp_json_place *place, const char *field, size_t i,
                            json_int_t value) {
    return rp_fail(place->context, RP_BAD_INPUT, "%s%s[%zu]: there is no value %lld", place->text,
                   field, i, (long long)value);
}

static bool is_value(const json_t *item, size_t value_count) {
    return json_is_integer(item) && json_integer_value(item) >= 0 &&
           (uint64_t)json_integer_value(item) < value_count;
}

/* A list of indices of values. */
static rp_status read_indices(const rp_json_place *place, const json_t *object, const char *field,
                              size_t value_count, uint32_t **list, size_t *capacity,
                              size_t *count) {
    const json_t *found = NULL;
    const rp_status status = rp_json_list(place, object, field, true, &found);
    *count = 0;
    if (status != RP_OK || found == NULL)
        return status;
    const size_t n = json_array_size(found);
    if (!rp_reserve(place->context, list, capacity, n, sizeof **list))
        return rp_fail_memory(place->context, "a list of values");
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(found, i);
        if (!json_is_integer(item))
            return rp_json_fail(place, field, "must be a list of whole numbers");
        if (!is_value(item, value_count))
            return fail_index(place, field, i, json_integer_value(item));
        (*list)[i] = (uint32_t)json_integer_value(item);
    }
    *count = n;
    return RP_OK;
}

static rp_status read_pairs(const rp_json_place *place, const json_t *object, size_t value_count,
                            node_lists *lists, size_t *count) {
    const json_t *found = NULL;
    const rp_status status = rp_json_list(place, object, "inplace", true, &found);
    *count = 0;
    if (status != RP_OK || found == NULL)
        return status;
    const size_t n = json_array_size(found);
    if (!rp_reserve(place->context, &lists->pairs, &lists->pair_capacity, n, sizeof *lists->pairs))
        return rp_fail_memory(place->context, "a list of values");
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(found, i);
        if (!json_is_array(pair) || json_array_size(pair) != 2)
            return rp_json_fail(place, "inplace", "must be a list of pairs [output, input]");
        for (size_t k = 0; k < 2; k++) {
            const json_t *item = json_array_get(pair, k);
            if (!json_is_integer(item))
                return rp_json_fail(place, "inplace", "must be a list of pairs [output, input]");
            if (!is_value(item, value_count))
                return fail_index(place, "inplace", i, json_integer_value(item));
        }
        lists->pairs[i] = (rp_inplace_pair){(uint32_t)json_integer_value(json_array_get(pair, 0)),
                                            (uint32_t)json_integer_value(json_array_get(pair, 1))};
    }
    *count = n;
    return RP_OK;
}

static rp_status read_value(rp_graph *graph, size_t index, const json_t *object,
                            size_t value_count) {
    rp_json_place place = {.context = graph->context};
    rp_value_info value = {.alias_of = RP_NONE};
    int kind = 0;
    set_place(&place, "values", index, object);
    if (!json_is_object(object))
        return rp_json_fail(&place, "it", "must be an object");
    const json_t *base = json_object_get(object, "alias_of");
    if (base != NULL && !json_is_null(base)) {
        if (!json_is_integer(base))
            return rp_json_fail(&place, "alias_of", "must be the index of a value");
        if (!is_value(base, value_count))
            return rp_fail(graph->context, RP_BAD_INPUT, "%salias_of: there is no value %lld",
                           place.text, (long long)json_integer_value(base));
        value.alias_of = (uint32_t)json_integer_value(base);
    }
    rp_status status = check_name(&place, object, "name");
    if (status == RP_OK)
        status = rp_json_string(&place, object, "name", &value.name);
    if (status == RP_OK) /* what a view states is ignored, so that it need not state it */
        status = rp_json_count(&place, object, "bytes", value.alias_of != RP_NONE, &value.bytes);
    if (status == RP_OK)
        status = rp_json_word(&place, object, "kind", kinds, false, &kind);
    value.kind = (rp_value_kind)kind;
    return status == RP_OK ? rp_graph_add_value(graph, &value, NULL) : status;
}

static rp_status read_node_lists(const rp_json_place *place, const json_t *object,
                                 size_t value_count, node_lists *lists, rp_node_info *node) {
    rp_status status = read_indices(place, object, "inputs", value_count, &lists->inputs,
                                    &lists->input_capacity, &node->input_count);
    if (status == RP_OK)
        status = read_indices(place, object, "outputs", value_count, &lists->outputs,
                              &lists->output_capacity, &node->output_count);
    if (status == RP_OK)
        status = read_pairs(place, object, value_count, lists, &node->inplace_count);
    node->inputs = lists->inputs;
    node->outputs = lists->outputs;
    node->inplace = lists->pairs;
    return status;
}

static rp_status read_node(rp_graph *graph, size_t index, const json_t *object, node_lists *lists) {
    rp_json_place place = {.context = graph->context};
    rp_node_info node = {.name = NULL};
    int phase = 0, mark = RP_MARK_AUTO;
    set_place(&place, "nodes", index, object);
    if (!json_is_object(object))
        return rp_json_fail(&place, "it", "must be an object");
    rp_status status = check_name(&place, object, "name");
    if (status == RP_OK)
        status = check_name(&place, object, "block");
    if (status == RP_OK)
        status = rp_json_string(&place, object, "name", &node.name);
    if (status == RP_OK)
        status = rp_json_string(&place, object, "block", &node.block);
    if (status == RP_OK)
        status = rp_json_word(&place, object, "phase", phases, false, &phase);
    if (status == RP_OK)
        status = rp_json_word(&place, object, "mark", marks, true, &mark);
    node.phase = (rp_phase)phase;
    node.mark = (rp_mark)mark;
    node.recomputable = node.phase == RP_FORWARD;
    if (status == RP_OK)
        status = rp_json_bool(&place, object, "recomputable", &node.recomputable);
    if (status == RP_OK)
        status = rp_json_count(&place, object, "cost_ns", false, &node.cost_ns);
    if (status == RP_OK)
        status = rp_json_count(&place, object, "workspace_bytes", true, &node.workspace_bytes);
    if (status == RP_OK)
        status = read_node_lists(&place, object, graph->value_count, lists, &node);
    return status == RP_OK ? rp_graph_add_node(graph, &node, NULL) : status;
}

static rp_status read_lists(rp_graph *graph, const json_t *root) {
    rp_context *context = graph->context;
    const rp_json_place top = {.context = context};
    const json_t *values = NULL, *nodes = NULL;
    node_lists lists = {.inputs = NULL};
    size_t count = 0;
    rp_status status = rp_json_list(&top, root, "values", false, &values);
    if (status == RP_OK)
        status = rp_json_list(&top, root, "nodes", false, &nodes);
    for (size_t i = 0; status == RP_OK && i < json_array_size(values); i++)
        status = read_value(graph, i, json_array_get(values, i), json_array_size(values));
    for (size_t i = 0; status == RP_OK && i < json_array_size(nodes); i++)
        status = read_node(graph, i, json_array_get(nodes, i), &lists);
    if (status == RP_OK)
        status = read_indices(&top, root, "outputs", graph->value_count, &lists.outputs,
                              &lists.output_capacity, &count);
    if (status == RP_OK)
        status = rp_graph_set_outputs(graph, lists.outputs, count);
    rp_free(context, lists.inputs);
    rp_free(context, lists.outputs);
    rp_free(context, lists.pairs);
    return status;
}

static rp_status read_graph(rp_context *context, const json_t *root, rp_graph **graph) {
    const rp_json_place top = {.context = context};
    const char *name = "";
    int64_t alignment = 1;
    rp_graph *made = NULL;
    rp_status status = check_name(&top, root, "name");
    if (status == RP_OK)
        status = rp_json_string(&top, root, "name", &name);
    if (status == RP_OK)
        status = rp_json_count(&top, root, "alignment", true, &alignment);
    if (status == RP_OK && alignment == 0)
        status = rp_json_fail(&top, "alignment", "must be at least 1");
    if (status == RP_OK)
        status = rp_graph_create(context, name, alignment, &made);
    if (status == RP_OK)
        status = read_lists(made, root);
    if (status == RP_OK)
        status = rp_graph_finish(made);
    if (status != RP_OK) {
        rp_graph_destroy(made);
        return status;
    }
    *graph = made;
    return RP_OK;
}

rp_status rp_graph_parse(rp_context *context, const char *text, size_t length, rp_graph **graph) {
    json_t *root = NULL;
    if (graph == NULL)
        return RP_INVALID_ARGUMENT;
    *graph = NULL;
    if (context == NULL)
        return RP_INVALID_ARGUMENT;
    if (text == NULL)
        return rp_fail(context, RP_INVALID_ARGUMENT, "graph: the text is NULL");
    rp_status status = rp_json_parse(context, text, length, "reprise-graph", &root);
    if (status == RP_OK)
        status = read_graph(context, root, graph);
    json_decref(root);
    return status;
}

rp_status rp_graph_load(rp_context *context, const char *path, rp_graph **graph) {
    rp_text text;
    if (graph == NULL)
        return RP_INVALID_ARGUMENT;
    *graph = NULL;
    if (context == NULL)
        return RP_INVALID_ARGUMENT;
    if (path == NULL)
        return rp_fail(context, RP_INVALID_ARGUMENT, "graph: the path is NULL");
    rp_status status = rp_file_read(context, path, &text);
    if (status != RP_OK)
        return status;
    status = rp_graph_parse(context, text.data, text.count, graph);
    rp_text_clear(&text);
    return status == RP_OK ? RP_OK : rp_fail_in_file(context, status, path);
}

/* ---- Writing ---- */

static void write_indices(rp_text *text, const char *field, const uint32_t *list, size_t count) {
    rp_text_format(text, ", \"%s\": [", field);
    for (size_t i = 0; i < count; i++)
        rp_text_format(text, "%s%u", i > 0 ? ", " : "", list[i]);
    rp_text_append(text, "]", 1);
}

static void write_value(rp_text *text, const rp_graph *graph, uint32_t index) {
    const rp_value *value = &graph->values[index];
    rp_text_format(text, "%s\n    {\"name\": ", index > 0 ? "," : "");
    rp_text_quote(text, rp_value_name(graph, index));
    rp_text_format(text, ", \"bytes\": %lld, \"kind\": \"%s\"", (long long)value->stated_bytes,
                   kinds[value->persistent ? RP_PERSISTENT : RP_ACTIVATION]);
    if (value->alias_of != RP_NONE)
        rp_text_format(text, ", \"alias_of\": %u", value->alias_of);
    rp_text_append(text, "}", 1);
}

static void write_node(rp_text *text, const rp_graph *graph, uint32_t index) {
    const rp_node *node = &graph->nodes[index];
    rp_text_format(text, "%s\n    {\"name\": ", index > 0 ? "," : "");
    rp_text_quote(text, rp_node_name(graph, index));
    rp_text_format(text, ", \"phase\": \"%s\"", phases[node->phase]);
    write_indices(text, "inputs", rp_node_inputs(graph, index), node->inputs.count);
    write_indices(text, "outputs", rp_node_outputs(graph, index), node->outputs.count);
    rp_text_format(text, ", \"cost_ns\": %lld", (long long)node->cost_ns);
    if (node->stated_workspace > 0)
        rp_text_format(text, ", \"workspace_bytes\": %lld", (long long)node->stated_workspace);
    rp_text_format(text, ", \"recomputable\": %s", node->recomputable ? "true" : "false");
    if (graph->strings[node->block] != '\0') {
        rp_text_format(text, ", \"block\": ");
        rp_text_quote(text, graph->strings + node->block);
    }
    if (node->mark != RP_MARK_AUTO)
        rp_text_format(text, ", \"mark\": \"%s\"", marks[node->mark]);
    for (size_t i = 0; i < node->inplace.count; i++) {
        const rp_inplace_pair pair = rp_node_inplace(graph, index)[i];
        rp_text_format(text, "%s[%u, %u]", i > 0 ? ", " : ", \"inplace\": [", pair.output,
                       pair.input);
    }
    rp_text_format(text, "%s}", node->inplace.count > 0 ? "]" : "");
}

rp_status rp_graph_save(const rp_graph *graph, const char *path) {
    if (graph == NULL)
        return RP_INVALID_ARGUMENT;
    if (path == NULL)
        return rp_fail(graph->context, RP_INVALID_ARGUMENT, "graph: the path is NULL");
    if (!graph->finished)
        return rp_fail(graph->context, RP_BAD_STATE, "graph: only a finished one can be saved");
    rp_text text = {.context = graph->context};
    rp_text_format(&text, "{ \"format\": \"reprise-graph\", \"version\": 1, \"name\": ");
    rp_text_quote(&text, rp_graph_name(graph));
    rp_text_format(&text, ", \"alignment\": %lld,\n  \"values\": [", (long long)graph->alignment);
    for (uint32_t i = 0; i < graph->value_count; i++)
        write_value(&text, graph, i);
    rp_text_format(&text, "\n  ],\n  \"nodes\": [");
    for (uint32_t i = 0; i < graph->node_count; i++)
        write_node(&text, graph, i);
    rp_text_format(&text, "\n  ]");
    write_indices(&text, "outputs", graph->outputs, graph->output_count);
    rp_text_format(&text, "\n}\n");
    const rp_status status = rp_file_replace(graph->context, path, &text);
    rp_text_clear(&text);
    return status;
}
