/* The tape: leaves, labels, and the one way by which every op is recorded. */
#include "tape.h"

#include <reprise/program.h>
#include <stdio.h>
#include <string.h>

/* ---- Creating -------------------------------------------------------------------------------- */

static void destroy_tape(void *tape) {
    rp_tape_destroy(tape);
}

rp_status rp_tape_create(rp_context *context, rp_tape **tape) {
    if (tape == NULL)
        return RP_INVALID_ARGUMENT;
    *tape = NULL;
    if (context == NULL)
        return RP_INVALID_ARGUMENT;
    rp_tape *made = rp_alloc(context, 1, sizeof *made);
    if (made == NULL)
        return rp_fail_memory(context, "a tape");
    made->context = context;
    if (!rp_string_append(context, &made->strings, "%c", 0)) {
        rp_tape_destroy(made);
        return rp_fail_memory(context, "a tape");
    }
    rp_own(context, &made->owned, made, destroy_tape);
    *tape = made;
    return RP_OK;
}

void rp_tape_destroy(rp_tape *tape) {
    if (tape == NULL)
        return;
    rp_context *context = tape->context;
    rp_disown(context, &tape->owned);
    for (size_t i = 0; i < tape->custom_count; i++)
        rp_free(context, tape->customs[i]);
    rp_free(context, tape->customs);
    rp_free(context, tape->leaves);
    rp_free(context, tape->infos);
    rp_free(context, tape->slots);
    rp_string_clear(context, &tape->strings);
    rp_code_clear(context, &tape->code);
    rp_free(context, tape);
}

/* ---- Failing --------------------------------------------------------------------------------- */

rp_status rp_tape_status(const rp_tape *tape) {
    return tape != NULL ? tape->status : RP_INVALID_ARGUMENT;
}

rp_tensor rp_tape_fail_as_said(rp_tape *tape, rp_status status) {
    if (tape->status == RP_OK) {
        tape->status = status;
        snprintf(tape->message, sizeof tape->message, "%s", rp_context_message(tape->context));
    }
    return RP_NO_TENSOR;
}

rp_tensor rp_tape_fail(rp_tape *tape, rp_status status, const char *format, ...) {
    if (tape->status != RP_OK)
        return RP_NO_TENSOR;
    tape->status = status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(tape->message, sizeof tape->message, format, arguments);
    va_end(arguments);
    rp_fail(tape->context, status, "%s", tape->message);
    return RP_NO_TENSOR;
}

static rp_tensor fail_memory(rp_tape *tape) {
    return rp_tape_fail(tape, RP_OUT_OF_MEMORY, "out of memory: no room for the tape");
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* Puts a text behind the others; its offset, or false with the status set. */
static bool add_string(rp_tape *tape, uint32_t *offset, const char *format, va_list arguments) {
    const size_t begin = tape->strings.length;
    if (begin > UINT32_MAX ||
        !rp_string_append_list(tape->context, &tape->strings, format, arguments) ||
        !rp_string_append(tape->context, &tape->strings, "%c", 0)) {
        tape->strings.length = begin;
        fail_memory(tape);
        return false;
    }
    *offset = (uint32_t)begin;
    return true;
}

void rp_block(rp_tape *tape, const char *format, ...) {
    if (tape == NULL || tape->status != RP_OK)
        return;
    if (format == NULL) {
        rp_tape_fail(tape, RP_INVALID_ARGUMENT, "rp_block: the format is NULL");
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    add_string(tape, &tape->block, format, arguments);
    va_end(arguments);
}

void rp_block_end(rp_tape *tape) {
    if (tape != NULL)
        tape->block = 0;
}

void rp_name(rp_tape *tape, const char *format, ...) {
    if (tape == NULL || tape->status != RP_OK)
        return;
    if (format == NULL) {
        rp_tape_fail(tape, RP_INVALID_ARGUMENT, "rp_name: the format is NULL");
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    add_string(tape, &tape->next_name, format, arguments);
    va_end(arguments);
}

bool rp_tape_node_text(const rp_tape *tape, uint32_t node, rp_string *text) {
    const rp_code_node *n = &tape->code.nodes[node];
    rp_context *context = tape->context;
    const char *block = rp_tape_string(tape, n->block);
    if (block[0] != 0 &&
        (!rp_string_add(context, text, block) || !rp_string_add(context, text, ".")))
        return false;
    if (n->name != 0)
        return rp_string_add(context, text, rp_tape_string(tape, n->name));
    return rp_string_add(context, text, rp_op_get((rp_op)n->op)->name) &&
           rp_string_append(context, text, ".%u", (unsigned)n->number);
}

bool rp_tape_leaf_text(const rp_tape *tape, uint32_t value, rp_string *text) {
    const rp_leaf *leaf = &tape->leaves[tape->code.values[value].writer];
    return rp_string_add(tape->context, text, rp_tape_string(tape, leaf->name));
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

static bool check_leaf(rp_tape *tape, const char *what, const char *name,
                       const rp_tensor_info *info) {
    int64_t bytes = 0;
    if (name == NULL || name[0] == 0) {
        rp_tape_fail(tape, RP_INVALID_ARGUMENT, "%s: a name is needed", what);
    } else if (info->dtype != RP_F32 && info->dtype != RP_BF16 && info->dtype != RP_I32) {
        rp_tape_fail(tape, RP_BAD_DTYPE, "%s %s: %d is no data type", what, name, (int)info->dtype);
    } else if (info->shape.rank < 0 || info->shape.rank > RP_MAX_RANK) {
        rp_tape_fail(tape, RP_BAD_SHAPE, "%s %s: rank %d, 0 to %d are possible", what, name,
                     info->shape.rank, RP_MAX_RANK);
    } else if (!rp_code_info_bytes(info, &bytes)) {
        char text[RP_SHAPE_TEXT];
        rp_tape_fail(tape, RP_BAD_SHAPE,
                     "%s %s: %s has a negative dimension, or its bytes do not fit 63 bits", what,
                     name, rp_tensor_text(info, text));
    } else {
        return true;
    }
    return false;
}

static bool copy_name(rp_tape *tape, uint32_t *offset, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const bool done = add_string(tape, offset, format, arguments);
    va_end(arguments);
    return done;
}

static rp_tensor add_leaf(rp_tape *tape, const char *what, const char *name, rp_code_kind kind,
                          rp_dtype dtype, rp_shape shape) {
    if (tape == NULL || tape->status != RP_OK)
        return RP_NO_TENSOR;
    const rp_tensor_info info = {dtype, shape};
    if (!check_leaf(tape, what, name, &info))
        return RP_NO_TENSOR;
    rp_leaf leaf = {RP_NONE, 0};
    if (!copy_name(tape, &leaf.name, "%s", name))
        return RP_NO_TENSOR;
    if (!rp_reserve(tape->context, &tape->leaves, &tape->leaf_capacity, tape->leaf_count + 1,
                    sizeof *tape->leaves) ||
        !rp_code_add_value(tape->context, &tape->code, &info, kind, &leaf.value))
        return fail_memory(tape);
    rp_code_value *value = &tape->code.values[leaf.value];
    value->writer = (uint32_t)tape->leaf_count;
    value->needs_gradient = kind == RP_CODE_PARAMETER && dtype != RP_I32;
    tape->leaves[tape->leaf_count++] = leaf;
    return (rp_tensor){leaf.value + 1};
}

rp_tensor rp_parameter(rp_tape *tape, const char *name, rp_dtype dtype, rp_shape shape) {
    return add_leaf(tape, "parameter", name, RP_CODE_PARAMETER, dtype, shape);
}

rp_tensor rp_input(rp_tape *tape, const char *name, rp_dtype dtype, rp_shape shape) {
    return add_leaf(tape, "input", name, RP_CODE_INPUT, dtype, shape);
}

/* Whether an output of this node can get a gradient: some input does, and it is no copy as a
 * constant. */
static bool node_passes_gradient(const rp_code *code, const rp_code_node *node) {
    const uint32_t *in = rp_code_inputs(code, node);
    for (uint32_t i = 0; i < node->in_count && !node->detached; i++)
        if (in[i] != RP_NONE && code->values[in[i]].needs_gradient)
            return true;
    return false;
}

static void mark_needs_gradient(rp_code *code, uint32_t node) {
    const rp_code_node *n = &code->nodes[node];
    const bool passes = node_passes_gradient(code, n);
    const uint32_t *out = rp_code_outputs(code, n);
    for (uint32_t k = 0; k < n->out_count; k++)
        code->values[out[k]].needs_gradient = passes && code->values[out[k]].dtype != RP_I32;
}

/* The first node recorded behind a leaf: nodes and the values they write ascend together. */
static uint32_t first_node_behind(const rp_code *code, uint32_t value) {
    size_t low = 0, high = code->node_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rp_code_outputs(code, &code->nodes[middle])[0] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

void rp_require_gradient(rp_tape *tape, rp_tensor leaf, bool wanted) {
    if (tape == NULL || !rp_tape_accepts(tape, "rp_require_gradient", &leaf, 1, 0))
        return;
    rp_code_value *value = &tape->code.values[leaf.id - 1];
    if (!rp_code_is_leaf(value)) {
        rp_tape_fail(tape, RP_INVALID_ARGUMENT,
                     "rp_require_gradient: tensor %u is neither parameter nor input",
                     (unsigned)leaf.id);
        return;
    }
    if (wanted && value->dtype == RP_I32) {
        rp_tape_fail(tape, RP_BAD_DTYPE,
                     "rp_require_gradient: %s is i32 and cannot have a gradient",
                     rp_tensor_name(tape, leaf));
        return;
    }
    if (value->needs_gradient == wanted)
        return;
    value->needs_gradient = wanted;
    const uint32_t begin = first_node_behind(&tape->code, leaf.id - 1);
    for (size_t node = begin; node < tape->code.node_count; node++)
        mark_needs_gradient(&tape->code, (uint32_t)node);
}

/* ---- Recording ------------------------------------------------------------------------------- */

bool rp_tape_accepts(rp_tape *tape, const char *op, const rp_tensor *inputs, size_t count,
                     uint64_t optional) {
    if (tape == NULL || tape->status != RP_OK)
        return false;
    for (size_t i = 0; i < count; i++) {
        const bool may_lack =
            optional == RP_TAPE_ALL_OPTIONAL || (i < 64 && (optional >> i & 1) != 0);
        if (inputs[i].id == 0 && !may_lack) {
            rp_tape_fail(tape, RP_INVALID_ARGUMENT, "%s: argument %zu is no tensor", op, i + 1);
            return false;
        }
        if (inputs[i].id > tape->code.value_count) {
            rp_tape_fail(tape, RP_INVALID_ARGUMENT,
                         "%s: argument %zu is tensor %u, the tape has %zu", op, i + 1,
                         (unsigned)inputs[i].id, tape->code.value_count);
            return false;
        }
    }
    return true;
}

bool rp_tape_info(rp_tape *tape, const char *op, rp_tensor tensor, rp_tensor_info *info) {
    if (!rp_tape_accepts(tape, op, &tensor, 1, 0))
        return false;
    *info = rp_code_info(&tape->code, tensor.id - 1);
    return true;
}

uint32_t rp_tape_stream(rp_tape *tape) {
    return tape != NULL ? tape->streams++ : 0;
}

/* Takes the next name, block and number for a node that was just appended. */
static void label_node(rp_tape *tape, uint32_t node) {
    rp_code_node *n = &tape->code.nodes[node];
    n->block = tape->block;
    n->mark = tape->mark;
    n->name = tape->next_name;
    n->number = tape->numbers[n->op]++;
    tape->next_name = 0;
    mark_needs_gradient(&tape->code, node);
}

bool rp_tape_append(rp_tape *tape, rp_op op, const rp_op_params *params, const rp_tensor *inputs,
                    size_t count, const rp_tensor_info *infos, size_t output_count,
                    rp_tensor *outputs) {
    const size_t values = tape->code.value_count;
    if (!rp_reserve(tape->context, &tape->slots, &tape->slot_capacity, count + output_count,
                    sizeof *tape->slots))
        goto fail;
    uint32_t *in = tape->slots, *out = tape->slots + count;
    for (size_t i = 0; i < count; i++)
        in[i] = inputs[i].id - 1; /* 0, absent, becomes RP_NONE */
    for (size_t k = 0; k < output_count; k++)
        if (!rp_code_add_value(tape->context, &tape->code, &infos[k], RP_CODE_ACTIVATION, &out[k]))
            goto fail;
    const rp_code_call call = {op, params, in, out, NULL, count, output_count};
    uint32_t node = RP_NONE;
    if (!rp_code_add_node(tape->context, &tape->code, &call, &node))
        goto fail;
    label_node(tape, node);
    for (size_t k = 0; k < output_count; k++)
        outputs[k] = (rp_tensor){out[k] + 1};
    return true;
fail:
    tape->code.value_count = values;
    fail_memory(tape);
    return false;
}

static bool check_outputs(rp_tape *tape, rp_op op, const rp_op_call *call) {
    for (size_t k = 0; k < call->out_count; k++) {
        int64_t bytes = 0;
        if (rp_code_info_bytes(&call->out[k], &bytes))
            continue;
        char text[RP_SHAPE_TEXT];
        rp_tape_fail(tape, RP_BAD_SHAPE, "%s: the bytes of its output %s do not fit 63 bits",
                     rp_op_get(op)->name, rp_tensor_text(&call->out[k], text));
        return false;
    }
    return true;
}

rp_tensor rp_tape_record(rp_tape *tape, rp_op op, const rp_op_params *params,
                         const rp_tensor *inputs, size_t count, uint64_t optional) {
    const rp_op_def *def = rp_op_get(op);
    if (!rp_tape_accepts(tape, def->name, inputs, count, optional))
        return RP_NO_TENSOR;
    if (def->infer == NULL)
        return rp_tape_fail(tape, RP_UNSUPPORTED, "%s cannot be recorded", def->name);
    if (!rp_reserve(tape->context, &tape->infos, &tape->info_capacity, count, sizeof *tape->infos))
        return fail_memory(tape);
    for (size_t i = 0; i < count; i++)
        tape->infos[i] = rp_code_info(&tape->code, inputs[i].id - 1);
    rp_tensor_info infos[RP_OP_MAX_OUTPUTS] = {{.dtype = RP_NO_DTYPE}};
    rp_op_call call = {tape->infos, count, infos, 0, params};
    const rp_status status = def->infer(tape->context, &call);
    if (status != RP_OK)
        return rp_tape_fail_as_said(tape, status);
    rp_tensor outputs[RP_OP_MAX_OUTPUTS] = {{0}};
    if (!check_outputs(tape, op, &call) ||
        !rp_tape_append(tape, op, params, inputs, count, infos, call.out_count, outputs))
        return RP_NO_TENSOR;
    return outputs[0];
}

/* ---- Looking and marking --------------------------------------------------------------------- */

static bool is_mark(rp_tape *tape, const char *call, rp_mark mark) {
    const bool known = mark == RP_MARK_AUTO || mark == RP_MARK_KEEP || mark == RP_MARK_RECOMPUTE;
    if (!known)
        rp_tape_fail(tape, RP_INVALID_ARGUMENT, "%s: %d is no mark", call, (int)mark);
    return known;
}

void rp_mark_from_here(rp_tape *tape, rp_mark mark) {
    if (rp_tape_accepts(tape, "rp_mark_from_here", NULL, 0, 0) &&
        is_mark(tape, "rp_mark_from_here", mark))
        tape->mark = (uint8_t)mark;
}

void rp_mark_node(rp_tape *tape, rp_tensor tensor, rp_mark mark) {
    if (!rp_tape_accepts(tape, "rp_mark_node", &tensor, 1, 0))
        return;
    const rp_code_value *value = &tape->code.values[tensor.id - 1];
    if (!is_mark(tape, "rp_mark_node", mark))
        return;
    if (rp_code_is_leaf(value))
        rp_tape_fail(tape, RP_INVALID_ARGUMENT, "rp_mark_node: %s is written by no node",
                     rp_tensor_name(tape, tensor));
    else
        tape->code.nodes[value->writer].mark = (uint8_t)mark;
}

static bool has_tensor(const rp_tape *tape, rp_tensor tensor) {
    return tape != NULL && tensor.id != 0 && tensor.id <= tape->code.value_count;
}

rp_tensor_info rp_tensor_get_info(const rp_tape *tape, rp_tensor tensor) {
    if (!has_tensor(tape, tensor))
        return (rp_tensor_info){.dtype = RP_NO_DTYPE};
    return rp_code_info(&tape->code, tensor.id - 1);
}

bool rp_tensor_needs_gradient(const rp_tape *tape, rp_tensor tensor) {
    return has_tensor(tape, tensor) && tape->code.values[tensor.id - 1].needs_gradient;
}

const char *rp_tensor_name(const rp_tape *tape, rp_tensor tensor) {
    if (!has_tensor(tape, tensor))
        return "";
    const rp_code_value *value = &tape->code.values[tensor.id - 1];
    if (rp_code_is_leaf(value))
        return rp_tape_string(tape, tape->leaves[value->writer].name);
    const rp_code_node *node = &tape->code.nodes[value->writer];
    return node->name != 0 ? rp_tape_string(tape, node->name) : rp_op_get((rp_op)node->op)->name;
}
