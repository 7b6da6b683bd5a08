/* Lowering: the program's list becomes the planner's graph, one node for one node, but for views
 * that are joined to their bases, which leave the list. What the planner needs to know of a node is
 * bytes, cost, what may run again and which outputs may lie where which inputs were. */
#include <string.h>

#include "cost.h"
#include "planner/graph.h"
#include "program.h"

/* Scratch for one node at a time. */
typedef struct lowering {
    rp_program *program;
    rp_string text;
    rp_tensor_info *infos;
    size_t info_capacity;
    uint32_t *values; /* inputs without repetition, then outputs */
    size_t value_capacity;
    rp_inplace_pair *pairs;
    size_t pair_capacity;
    uint32_t *read_by; /* by graph value: the last node in whose list it was put, counted from 1 */
} lowering;

static rp_status no_memory(const lowering *l) {
    return rp_fail_memory(l->program->context, "the graph");
}

static int64_t round_up(const rp_program *program, int64_t bytes) {
    const int64_t alignment = program->backend->alignment;
    return bytes > INT64_MAX - alignment ? INT64_MAX
                                         : (bytes + alignment - 1) / alignment * alignment;
}

static void add_saturated(int64_t *sum, int64_t bytes) {
    if (__builtin_add_overflow(*sum, bytes, sum))
        *sum = INT64_MAX;
}

static int64_t value_bytes(const rp_program *program, uint32_t value) {
    const rp_tensor_info info = rp_code_info(&program->code, value);
    int64_t bytes = 0;
    return rp_code_info_bytes(&info, &bytes)
               ? bytes
               : INT64_MAX; /* recording has refused what does not fit */
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* `text` holds the name. */
static rp_status add_value(lowering *l, uint32_t value, uint32_t alias_of) {
    rp_program *program = l->program;
    const rp_code_value *v = &program->code.values[value];
    const rp_value_info info = {.name = l->text.data,
                                .bytes = value_bytes(program, value),
                                .kind =
                                    v->kind == RP_CODE_ACTIVATION ? RP_ACTIVATION : RP_PERSISTENT,
                                .alias_of = alias_of};
    return rp_graph_add_value(program->graph, &info, &program->graph_value[value]);
}

static rp_status add_persistent(lowering *l, uint32_t value, uint32_t leaf, const char *suffix,
                                int64_t *total) {
    rp_program *program = l->program;
    l->text.length = 0;
    if (!rp_tape_leaf_text(program->tape, leaf, &l->text) ||
        !rp_string_add(program->context, &l->text, suffix))
        return no_memory(l);
    add_saturated(total, round_up(program, value_bytes(program, value)));
    return add_value(l, value, RP_NONE);
}

/* What the device keeps beside tensors. */
static rp_status add_scratch(lowering *l) {
    rp_program *program = l->program;
    rp_memory_report *memory = &program->memory;
    const struct {
        const char *name;
        int64_t *total;
    } rows[RP_SCRATCH_COUNT] = {
        [RP_SCRATCH_STEP] = {"rp.step", &memory->inputs_bytes},
        [RP_SCRATCH_NORM] = {"rp.norm", &memory->optimizer_bytes},
    };
    rp_status status = RP_OK;
    for (int k = 0; k < RP_SCRATCH_COUNT && status == RP_OK; k++) {
        const uint32_t value = program->scratch[k];
        if (value == RP_NONE)
            continue;
        l->text.length = 0;
        if (!rp_string_add(program->context, &l->text, rows[k].name))
            return no_memory(l);
        add_saturated(rows[k].total, round_up(program, value_bytes(program, value)));
        status = add_value(l, value, RP_NONE);
    }
    return status;
}

/* Leaves in the tape's order, accumulating gradients, optimizer state. */
static rp_status add_persistents(lowering *l) {
    static const char *const suffixes[RP_STATE_COUNT] = {
        [RP_STATE_MOMENT1] = ".moment1",
        [RP_STATE_MOMENT2] = ".moment2",
        [RP_STATE_MASTER] = ".master",
    };
    rp_program *program = l->program;
    rp_memory_report *memory = &program->memory;
    rp_status status = RP_OK;
    for (size_t i = 0; i < program->tape->leaf_count && status == RP_OK; i++) {
        const uint32_t leaf = program->tape->leaves[i].value;
        if (leaf >= program->tensor_count || program->graph_value[leaf] == RP_NONE)
            continue;
        const bool parameter = program->code.values[leaf].kind == RP_CODE_PARAMETER;
        status = add_persistent(l, leaf, leaf, "",
                                parameter ? &memory->parameters_bytes : &memory->inputs_bytes);
    }
    for (size_t i = 0; i < program->gradient_count && status == RP_OK; i++) {
        const rp_program_gradient *g = &program->gradients[i];
        if (program->code.values[g->gradient].kind == RP_CODE_GRADIENT)
            status = add_persistent(l, g->gradient, g->leaf, ".grad", &memory->gradients_bytes);
    }
    for (size_t i = 0; i < program->gradient_count; i++)
        for (int k = 0; k < RP_STATE_COUNT && status == RP_OK; k++)
            if (program->gradients[i].state[k] != RP_NONE)
                status =
                    add_persistent(l, program->gradients[i].state[k], program->gradients[i].leaf,
                                   suffixes[k], &memory->optimizer_bytes);
    return status;
}

/* Values are called as their node, whose name is in `text`, with the output's number behind a colon
 * from the second on. */
static rp_status add_outputs(lowering *l, uint32_t index) {
    rp_program *program = l->program;
    const rp_code_node *node = &program->code.nodes[index];
    const uint32_t *out = rp_code_outputs(&program->code, node);
    const size_t length = l->text.length;
    for (uint32_t k = 0; k < node->out_count; k++) {
        if (out[k] == RP_NONE || program->code.values[out[k]].kind != RP_CODE_ACTIVATION)
            continue;
        l->text.length = length;
        if (k > 0 && !rp_string_append(program->context, &l->text, ":%u", (unsigned)k))
            return no_memory(l);
        const uint32_t base =
            node->op == RP_OP_VIEW ? rp_code_inputs(&program->code, node)[0] : RP_NONE;
        const rp_status status =
            add_value(l, out[k], base != RP_NONE ? program->graph_value[base] : RP_NONE);
        if (status != RP_OK)
            return status;
    }
    l->text.length = length;
    l->text.data[length] = 0;
    return RP_OK;
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

/* How many of the slots that a kernel reads hold this value or another part of it. */
static size_t count_reads(const rp_program *program, const rp_code_node *node, uint32_t value) {
    const uint32_t *in = rp_code_inputs(&program->code, node), *map = program->graph_value;
    const uint32_t *sum = rp_code_accumulates(&program->code, node);
    size_t count = 0;
    for (uint32_t i = 0; i < node->in_count; i++)
        count += in[i] != RP_NONE && map[in[i]] == map[value];
    for (uint32_t k = 0; sum != NULL && k < node->out_count; k++)
        count += sum[k] != RP_NONE && map[sum[k]] == map[value];
    return count;
}

/* The pair, if both are activations of one type, so that their elements lie at the same places, the
 * input begins where its storage does, and the kernel reads the input through this slot alone: what
 * it may overwrite while it reads it here it may not while it reads it elsewhere too. */
static void offer_pair(lowering *l, const rp_code_node *node, uint32_t output, uint32_t input,
                       size_t *count) {
    const rp_program *program = l->program;
    if (output == RP_NONE || input == RP_NONE || output == input ||
        program->code.values[output].kind != RP_CODE_ACTIVATION ||
        program->code.values[input].kind != RP_CODE_ACTIVATION ||
        program->code.values[output].dtype != program->code.values[input].dtype ||
        rp_program_joined_offset(program, input) != 0 || count_reads(program, node, input) != 1)
        return;
    l->pairs[(*count)++] =
        (rp_inplace_pair){program->graph_value[output], program->graph_value[input]};
}

static size_t make_pairs(lowering *l, const rp_code_node *node) {
    const rp_code *code = &l->program->code;
    const rp_op_def *def = rp_op_get((rp_op)node->op);
    const uint32_t *in = rp_code_inputs(code, node), *out = rp_code_outputs(code, node);
    const uint32_t *sum = rp_code_accumulates(code, node);
    size_t count = 0;
    for (uint32_t k = 0; sum != NULL && k < node->out_count; k++)
        offer_pair(l, node, out[k], sum[k], &count);
    for (int i = 0; i < def->inplace_count; i++) {
        const uint32_t o = (uint32_t)def->inplace[i].output, n = (uint32_t)def->inplace[i].input;
        if (o < node->out_count && n < node->in_count)
            offer_pair(l, node, out[o], in[n], &count);
    }
    return count;
}

/* The slots' values in the graph, each once. */
static void make_lists(lowering *l, uint32_t index, rp_node_info *info) {
    const rp_program *program = l->program;
    const rp_code *code = &program->code;
    const rp_code_node *node = &code->nodes[index];
    const uint32_t *in = rp_code_inputs(code, node), *out = rp_code_outputs(code, node);
    const uint32_t *sum = rp_code_accumulates(code, node);
    const size_t reads = node->in_count + (sum != NULL ? node->out_count : 0);
    size_t inputs = 0, outputs = 0;
    for (size_t i = 0; i < reads; i++) {
        const uint32_t value = i < node->in_count ? in[i] : sum[i - node->in_count];
        if (value == RP_NONE || l->read_by[program->graph_value[value]] == index + 1)
            continue;
        l->read_by[program->graph_value[value]] = index + 1;
        l->values[inputs++] = program->graph_value[value];
    }
    for (uint32_t k = 0; k < node->out_count; k++)
        if (out[k] != RP_NONE)
            l->values[inputs + outputs++] = program->graph_value[out[k]];
    info->inputs = l->values;
    info->input_count = inputs;
    info->outputs = l->values + inputs;
    info->output_count = outputs;
}

static void model_node(lowering *l, uint32_t index, rp_node_info *info) {
    rp_program *program = l->program;
    const rp_code_node *node = &program->code.nodes[index];
    int64_t accumulated = 0;
    uint64_t added = 0;
    const rp_op_call call = rp_program_call(program, index, l->infos, &accumulated, &added);
    info->cost_ns = rp_cost_model(&rp_device_plain, (rp_op)node->op, &call, accumulated);
    info->workspace_bytes = program->backend->workspace((rp_op)node->op, &call);
    const int64_t workspace = round_up(program, info->workspace_bytes);
    if (workspace > program->memory.workspace_bytes)
        program->memory.workspace_bytes = workspace;
    const int64_t flops = node->op == RP_OP_VIEW ? 0 : rp_op_flops((rp_op)node->op, &call);
    program->node_flops[index] = flops;
    add_saturated(&program->flops_all, flops);
    if (!node->backward)
        add_saturated(&program->flops_forward, flops);
}

static bool may_run_again(const rp_program *program, const rp_code_node *node) {
    const rp_op_params *params = &program->code.params[node->params];
    return !node->backward && !(node->op == RP_OP_CUSTOM && params->custom.op->has_side_effects);
}

static rp_status add_node(lowering *l, uint32_t index) {
    rp_program *program = l->program;
    rp_context *context = program->context;
    const rp_code_node *node = &program->code.nodes[index];
    const size_t slots = rp_code_slots(node) + RP_OP_MAX_INPLACE;
    if (!rp_reserve(context, &l->infos, &l->info_capacity, slots, sizeof *l->infos) ||
        !rp_reserve(context, &l->values, &l->value_capacity, slots, sizeof *l->values) ||
        !rp_reserve(context, &l->pairs, &l->pair_capacity, slots, sizeof *l->pairs))
        return no_memory(l);
    l->text.length = 0;
    if (!rp_program_node_text(program, index, &l->text))
        return no_memory(l);
    const rp_status status = add_outputs(l, index);
    if (status != RP_OK)
        return status;
    rp_node_info info = {.name = l->text.data,
                         .block = rp_tape_string(program->tape, node->block),
                         .phase = node->backward ? RP_BACKWARD : RP_FORWARD,
                         .mark = (rp_mark)node->mark,
                         .recomputable = may_run_again(program, node)};
    make_lists(l, index, &info);
    info.inplace = l->pairs;
    info.inplace_count = make_pairs(l, node);
    model_node(l, index, &info);
    return rp_graph_add_node(program->graph, &info, NULL);
}

/* A view that is its base to the graph. */
static rp_status join(lowering *l, const rp_code_node *node) {
    rp_program *program = l->program;
    const uint32_t base = rp_code_inputs(&program->code, node)[0];
    const uint32_t view = rp_code_outputs(&program->code, node)[0];
    if (program->joined_offset == NULL)
        program->joined_offset =
            rp_alloc(program->context, program->code.value_count, sizeof *program->joined_offset);
    if (program->joined_offset == NULL)
        return no_memory(l);
    program->graph_value[view] = program->graph_value[base];
    program->joined_offset[view] =
        program->joined_offset[base] + program->code.params[node->params].view.offset_bytes;
    return RP_OK;
}

static rp_status add_nodes(lowering *l) {
    rp_code *code = &l->program->code;
    const size_t count = code->node_count;
    rp_status status = RP_OK;
    code->node_count = 0;
    for (size_t n = 0; n < count && status == RP_OK; n++) {
        if (code->nodes[n].joined) {
            status = join(l, &code->nodes[n]);
            continue;
        }
        code->nodes[code->node_count] = code->nodes[n];
        status = add_node(l, (uint32_t)code->node_count++);
    }
    return status;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* What must be live at the end: losses, outputs, and gradients that are not persistent; each
 * value once. */
static rp_status set_outputs(lowering *l) {
    rp_program *program = l->program;
    const size_t most = program->root_count + program->gradient_count;
    uint32_t *list = rp_alloc(program->context, most, sizeof *list);
    bool *listed = rp_alloc(program->context, program->code.value_count, sizeof *listed);
    rp_status status = RP_OUT_OF_MEMORY;
    if (list == NULL || listed == NULL) {
        no_memory(l);
        goto done;
    }
    size_t count = 0;
    for (size_t i = 0; i < most; i++) {
        const uint32_t value = i < program->root_count
                                   ? program->roots[i]
                                   : program->gradients[i - program->root_count].gradient;
        if (listed[value] || program->code.values[value].kind != RP_CODE_ACTIVATION)
            continue;
        listed[value] = true;
        list[count++] = program->graph_value[value];
    }
    status = rp_graph_set_outputs(program->graph, list, count);
done:
    rp_free(program->context, list);
    rp_free(program->context, listed);
    return status;
}

/* Bytes of gradients that are not persistent, by storage: leaves may share one, or have views of
 * one. */
static rp_status count_gradients(lowering *l) {
    rp_program *program = l->program;
    const rp_graph *graph = program->graph;
    bool *counted = rp_alloc(program->context, graph->value_count, sizeof *counted);
    if (counted == NULL)
        return no_memory(l);
    for (size_t i = 0; i < program->gradient_count; i++) {
        const uint32_t value = program->graph_value[program->gradients[i].gradient];
        const uint32_t root = graph->values[value].root;
        if (!graph->values[root].persistent && !counted[root])
            add_saturated(&program->memory.gradients_bytes, graph->values[root].bytes);
        counted[root] = true;
    }
    rp_free(program->context, counted);
    return RP_OK;
}

rp_status rp_program_lower(rp_program *program, const char *name) {
    lowering l = {.program = program};
    rp_status status =
        rp_graph_create(program->context, name, program->backend->alignment, &program->graph);
    l.read_by = rp_alloc(program->context, program->code.value_count, sizeof *l.read_by);
    program->node_flops =
        rp_alloc(program->context, program->code.node_count, sizeof *program->node_flops);
    if (status == RP_OK && (l.read_by == NULL || program->node_flops == NULL))
        status = no_memory(&l);
    if (status == RP_OK)
        status = add_persistents(&l);
    if (status == RP_OK)
        status = add_scratch(&l);
    if (status == RP_OK)
        status = add_nodes(&l);
    if (status == RP_OK)
        status = set_outputs(&l);
    if (status == RP_OK)
        status = rp_graph_finish(program->graph);
    if (status == RP_OK)
        status = count_gradients(&l);
    rp_string_clear(program->context, &l.text);
    rp_free(program->context, l.infos);
    rp_free(program->context, l.values);
    rp_free(program->context, l.pairs);
    rp_free(program->context, l.read_by);
    return status;
}
