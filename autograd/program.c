/* Programs: checks what is asked for, takes a copy of the tape, and has it differentiated,
 * pruned and lowered. */
#include "program.h"

#include <string.h>

/* ---- Checking -------------------------------------------------------------------------------- */

static rp_status check_list(const rp_tape *tape, const char *what, const rp_tensor *list,
                            size_t count) {
    if (list == NULL && count > 0)
        return rp_fail(tape->context, RP_INVALID_ARGUMENT, "program: %zu %s, but no list", count,
                       what);
    for (size_t i = 0; i < count; i++)
        if (list[i].id == 0 || list[i].id > tape->code.value_count)
            return rp_fail(tape->context, RP_INVALID_ARGUMENT,
                           "program: %s[%zu] is tensor %u, the tape has 1 to %zu", what, i,
                           (unsigned)list[i].id, tape->code.value_count);
    return RP_OK;
}

static rp_status check_losses(const rp_tape *tape, const rp_program_options *options) {
    for (size_t i = 0; i < options->loss_count; i++) {
        const rp_tensor_info info = rp_tensor_get_info(tape, options->losses[i]);
        char text[RP_SHAPE_TEXT];
        if (info.shape.rank != 0)
            return rp_fail(tape->context, RP_BAD_SHAPE, "program: loss %zu is %s, not a scalar", i,
                           rp_tensor_text(&info, text));
        if (info.dtype != RP_F32)
            return rp_fail(tape->context, RP_BAD_DTYPE, "program: loss %zu is %s, f32 is needed", i,
                           rp_tensor_text(&info, text));
    }
    return RP_OK;
}

static rp_status check_options(const rp_tape *tape, const rp_program_options *options) {
    rp_context *context = tape->context;
    if (options == NULL || options->struct_size != sizeof *options)
        return rp_fail(context, RP_INVALID_ARGUMENT, "program: options are %s",
                       options == NULL ? "needed" : "of another size: set struct_size");
    if (tape->status != RP_OK)
        return rp_fail(context, tape->status, "%s", tape->message);
    if (options->optimizer != RP_OPTIMIZER_NONE && options->optimizer != RP_OPTIMIZER_SGD &&
        options->optimizer != RP_OPTIMIZER_ADAMW)
        return rp_fail(context, RP_INVALID_ARGUMENT, "program: %d is no optimizer",
                       (int)options->optimizer);
    if (options->loss_count == 0 && (!options->forward_only || options->output_count == 0))
        return rp_fail(context, RP_INVALID_ARGUMENT, "program: a loss is needed%s",
                       options->forward_only ? ", or an output" : "");
    if (options->forward_only && options->optimizer != RP_OPTIMIZER_NONE)
        return rp_fail(context, RP_INVALID_ARGUMENT,
                       "program: an optimizer has nothing to do in a forward-only program");
    rp_status status = check_list(tape, "losses", options->losses, options->loss_count);
    if (status == RP_OK)
        status = check_list(tape, "outputs", options->outputs, options->output_count);
    if (status == RP_OK)
        status = check_list(tape, "wanted", options->wanted, options->wanted_count);
    return status == RP_OK ? check_losses(tape, options) : status;
}

/* ---- Creating -------------------------------------------------------------------------------- */

static void *copy_array(rp_context *context, const void *array, size_t count, size_t size) {
    void *copy = rp_alloc(context, count, size);
    if (copy != NULL && count > 0)
        memcpy(copy, array, count * size);
    return copy;
}

static rp_status copy_code(rp_program *program, const rp_code *code) {
    rp_context *context = program->context;
    program->code = (rp_code){
        .dims = copy_array(context, code->dims, code->dim_count, sizeof *code->dims),
        .values = copy_array(context, code->values, code->value_count, sizeof *code->values),
        .nodes = copy_array(context, code->nodes, code->node_count, sizeof *code->nodes),
        .edges = copy_array(context, code->edges, code->edge_count, sizeof *code->edges),
        .params = copy_array(context, code->params, code->params_count, sizeof *code->params),
    };
    rp_code *copy = &program->code;
    if (!copy->dims || !copy->values || !copy->nodes || !copy->edges || !copy->params)
        return rp_fail_memory(context, "a copy of the tape");
    copy->dim_count = copy->dim_capacity = code->dim_count;
    copy->value_count = copy->value_capacity = code->value_count;
    copy->node_count = copy->node_capacity = code->node_count;
    copy->edge_count = copy->edge_capacity = code->edge_count;
    copy->params_count = copy->params_capacity = code->params_count;
    for (size_t n = 0; n < copy->node_count; n++)
        copy->nodes[n].number = (uint32_t)n; /* from here on: the tape's node */
    program->tensor_count = code->value_count;
    return RP_OK;
}

static rp_status copy_roots(rp_program *program, const rp_program_options *options) {
    program->loss_count = options->loss_count;
    program->root_count = options->loss_count + options->output_count;
    program->roots = rp_alloc(program->context, program->root_count, sizeof *program->roots);
    if (program->roots == NULL)
        return rp_fail_memory(program->context, "a program");
    for (size_t i = 0; i < program->root_count; i++) {
        const rp_tensor root = i < options->loss_count ? options->losses[i]
                                                       : options->outputs[i - options->loss_count];
        program->roots[i] = root.id - 1;
    }
    return RP_OK;
}

/* Marks the leaves whose gradient is wanted. */
static rp_status mark_wanted(const rp_program *program, const rp_program_options *options,
                             bool *wanted) {
    const rp_code *code = &program->code;
    for (size_t v = 0; v < program->tensor_count && options->wanted == NULL; v++)
        wanted[v] = rp_code_is_leaf(&code->values[v]) && code->values[v].needs_gradient;
    for (size_t i = 0; options->wanted != NULL && i < options->wanted_count; i++) {
        const rp_code_value *value = &code->values[options->wanted[i].id - 1];
        if (!rp_code_is_leaf(value) || !value->needs_gradient)
            return rp_fail(program->context, RP_INVALID_ARGUMENT,
                           "program: wanted[%zu] (%s) is no parameter or input that requires a "
                           "gradient",
                           i, rp_tensor_name(program->tape, options->wanted[i]));
        wanted[options->wanted[i].id - 1] = true;
    }
    return RP_OK;
}

static rp_status differentiate(rp_program *program, const rp_program_options *options) {
    bool *wanted = rp_alloc(program->context, program->tensor_count, sizeof *wanted);
    if (wanted == NULL)
        return rp_fail_memory(program->context, "a program");
    rp_status status = mark_wanted(program, options, wanted);
    if (status == RP_OK)
        status = rp_program_differentiate(program, wanted);
    rp_free(program->context, wanted);
    return status;
}

static void destroy_program(void *program) {
    rp_program_destroy(program);
}

rp_status rp_program_create(rp_tape *tape, const rp_program_options *options,
                            rp_program **program) {
    if (program == NULL)
        return RP_INVALID_ARGUMENT;
    *program = NULL;
    if (tape == NULL)
        return RP_INVALID_ARGUMENT;
    const rp_backend *backend = NULL;
    rp_status status = check_options(tape, options);
    if (status == RP_OK)
        status = rp_backend_find(tape->context, options->backend, &backend);
    if (status != RP_OK)
        return status;
    rp_program *made = rp_alloc(tape->context, 1, sizeof *made);
    if (made == NULL)
        return rp_fail_memory(tape->context, "a program");
    made->context = tape->context;
    made->tape = tape;
    made->forward_only = options->forward_only;
    made->accumulate = options->accumulate;
    made->optimizer = options->optimizer;
    made->seed = options->seed;
    made->backend = backend;
    status = copy_code(made, &tape->code);
    if (status == RP_OK)
        status = copy_roots(made, options);
    if (status == RP_OK && !options->forward_only)
        status = differentiate(made, options);
    if (status == RP_OK)
        status = rp_program_add_scratch(made);
    if (status == RP_OK)
        status = rp_program_prune(made);
    if (status == RP_OK)
        status = rp_program_mark_weight_casts(made);
    if (status == RP_OK)
        status = rp_program_lower(made, options->name != NULL ? options->name : "program");
    if (status != RP_OK) {
        rp_program_destroy(made);
        return status;
    }
    rp_own(made->context, &made->owned, made, destroy_program);
    *program = made;
    return RP_OK;
}

void rp_program_destroy(rp_program *program) {
    if (program == NULL)
        return;
    rp_context *context = program->context;
    rp_disown(context, &program->owned);
    rp_graph_destroy(program->graph);
    rp_code_clear(context, &program->code);
    rp_free(context, program->graph_value);
    rp_free(context, program->joined_offset);
    rp_free(context, program->roots);
    rp_free(context, program->gradients);
    rp_free(context, program->parameters);
    rp_free(context, program->node_flops);
    rp_free(context, program);
}

/* ---- Pruning --------------------------------------------------------------------------------- */

/* Removes outputs that nothing reads. Callbacks of custom ops may count on all theirs. */
static void prune_outputs(const rp_program *program, const rp_code_node *node) {
    uint32_t *out = rp_code_outputs(&program->code, node);
    for (uint32_t k = 0; k < node->out_count && node->op != RP_OP_CUSTOM; k++)
        if (out[k] != RP_NONE && program->graph_value[out[k]] == RP_NONE)
            out[k] = RP_NONE;
}

/* Marks what a node touches, if one of its outputs is needed: readers come first in this walk. */
static bool mark_node(const rp_program *program, const rp_code_node *node) {
    uint32_t *needed = program->graph_value;
    const uint32_t *slots = rp_code_inputs(&program->code, node);
    const uint32_t *out = rp_code_outputs(&program->code, node);
    bool any = false;
    for (uint32_t k = 0; k < node->out_count; k++)
        any = any || (out[k] != RP_NONE && needed[out[k]] != RP_NONE);
    if (!any)
        return false;
    prune_outputs(program, node);
    for (size_t i = 0; i < rp_code_slots(node); i++)
        if (slots[i] != RP_NONE)
            needed[slots[i]] = 0;
    return true;
}

rp_status rp_program_prune(rp_program *program) {
    rp_code *code = &program->code;
    program->graph_value =
        rp_alloc(program->context, code->value_count, sizeof *program->graph_value);
    bool *live = rp_alloc(program->context, code->node_count, sizeof *live);
    if (program->graph_value == NULL || live == NULL) {
        rp_free(program->context, live);
        return rp_fail_memory(program->context, "a program");
    }
    for (size_t v = 0; v < code->value_count; v++)
        program->graph_value[v] = RP_NONE;
    for (size_t i = 0; i < program->root_count; i++)
        program->graph_value[program->roots[i]] = 0;
    for (size_t i = 0; i < program->gradient_count; i++) {
        const rp_program_gradient *g = &program->gradients[i];
        program->graph_value[g->leaf] = program->graph_value[g->gradient] = 0;
        for (int k = 0; k < RP_STATE_COUNT; k++)
            if (g->state[k] != RP_NONE)
                program->graph_value[g->state[k]] = 0;
    }
    for (int k = 0; k < RP_SCRATCH_COUNT; k++)
        if (program->scratch[k] != RP_NONE)
            program->graph_value[program->scratch[k]] = 0;
    for (size_t n = code->node_count; n > 0; n--)
        live[n - 1] = mark_node(program, &code->nodes[n - 1]);
    size_t kept = 0;
    for (size_t n = 0; n < code->node_count; n++)
        if (live[n])
            code->nodes[kept++] = code->nodes[n];
    code->node_count = kept;
    rp_free(program->context, live);
    return RP_OK;
}

/* ---- Looking --------------------------------------------------------------------------------- */

const rp_graph *rp_program_graph(const rp_program *program) {
    return program != NULL ? program->graph : NULL;
}

size_t rp_program_parameter_count(const rp_program *program) {
    return program != NULL ? program->parameter_count : 0;
}

rp_tensor rp_program_parameter(const rp_program *program, size_t i) {
    if (program == NULL || i >= program->parameter_count)
        return RP_NO_TENSOR;
    return (rp_tensor){program->gradients[program->parameters[i]].leaf + 1};
}

void rp_program_memory(const rp_program *program, rp_memory_report *report) {
    if (report != NULL)
        *report = program != NULL ? program->memory : (rp_memory_report){0};
}

void rp_program_flops(const rp_program *program, int64_t *all, int64_t *forward) {
    if (all != NULL)
        *all = program != NULL ? program->flops_all : 0;
    if (forward != NULL)
        *forward = program != NULL ? program->flops_forward : 0;
}

int64_t rp_program_node_flops(const rp_program *program, uint32_t node) {
    return program != NULL && node < program->code.node_count ? program->node_flops[node] : 0;
}

rp_tensor_info rp_program_gradient_info(const rp_program *program, rp_tensor leaf) {
    const rp_program_gradient *gradient =
        program != NULL && leaf.id != 0 ? rp_program_find_gradient(program, leaf.id - 1) : NULL;
    return rp_code_info(program != NULL ? &program->code : NULL,
                        gradient != NULL ? gradient->gradient : RP_NONE);
}

const rp_program_gradient *rp_program_find_gradient(const rp_program *program, uint32_t leaf) {
    size_t low = 0, high = program->gradient_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (program->gradients[middle].leaf < leaf)
            low = middle + 1;
        else
            high = middle;
    }
    return low < program->gradient_count && program->gradients[low].leaf == leaf
               ? &program->gradients[low]
               : NULL;
}

bool rp_program_node_text(const rp_program *program, uint32_t node, rp_string *text) {
    const rp_code_node *n = &program->code.nodes[node];
    const char *op = rp_op_get((rp_op)n->op)->name;
    if (n->number == RP_NONE)
        return rp_string_add(program->context, text, op);
    if (!rp_tape_node_text(program->tape, n->number, text))
        return false;
    return !n->backward || (rp_string_add(program->context, text, "/") &&
                            rp_string_add(program->context, text, op));
}
