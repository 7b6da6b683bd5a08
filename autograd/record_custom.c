/* Recording: ops of the caller's own. */
#include <string.h>

#include "tape.h"

static bool check_custom(rp_tape *tape, const rp_custom_op *op, const rp_tensor_info *infos,
                         size_t count, const rp_tensor *outputs) {
    if (op == NULL || op->struct_size != sizeof *op || op->name == NULL || op->forward == NULL) {
        rp_tape_fail(tape, RP_INVALID_ARGUMENT,
                     "rp_custom: an op with its struct_size, a name and a forward is needed");
        return false;
    }
    if (count == 0 || infos == NULL || outputs == NULL) {
        rp_tape_fail(tape, RP_INVALID_ARGUMENT, "%s: a custom op needs at least one output",
                     op->name);
        return false;
    }
    if (op->forward_cost_ns < 0 || op->backward_cost_ns < 0) {
        rp_tape_fail(tape, RP_INVALID_ARGUMENT, "%s: a cost is negative", op->name);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        int64_t bytes = 0;
        const rp_shape shape = infos[i].shape;
        if (rp_dtype_bytes(infos[i].dtype) > 0 && shape.rank >= 0 && shape.rank <= RP_MAX_RANK &&
            rp_code_info_bytes(&infos[i], &bytes))
            continue;
        rp_tape_fail(tape, RP_BAD_SHAPE, "%s: output %zu has no possible type and shape", op->name,
                     i);
        return false;
    }
    return true;
}

/* A copy of the op that the tape owns, its name behind it. */
static rp_custom_op *keep_op(rp_tape *tape, const rp_custom_op *op) {
    const size_t name = strlen(op->name) + 1;
    if (!rp_reserve(tape->context, &tape->customs, &tape->custom_capacity, tape->custom_count + 1,
                    sizeof *tape->customs))
        return NULL;
    rp_custom_op *copy = rp_alloc(tape->context, 1, sizeof *copy + name);
    if (copy == NULL)
        return NULL;
    *copy = *op;
    char *text = (char *)(copy + 1);
    memcpy(text, op->name, name);
    copy->name = text;
    tape->customs[tape->custom_count++] = copy;
    return copy;
}

static rp_status record(rp_tape *tape, const rp_custom_op *op, const rp_tensor *inputs,
                        size_t input_count, const rp_tensor_info *output_infos, size_t output_count,
                        rp_tensor *outputs) {
    if (tape->status != RP_OK || !check_custom(tape, op, output_infos, output_count, outputs))
        return tape->status;
    if (inputs == NULL && input_count > 0) {
        rp_tape_fail(tape, RP_INVALID_ARGUMENT, "%s: %zu inputs, but no list", op->name,
                     input_count);
        return tape->status;
    }
    if (!rp_tape_accepts(tape, op->name, inputs, input_count, RP_TAPE_ALL_OPTIONAL))
        return tape->status;
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.custom.op = keep_op(tape, op);
    params.custom.forward_in_count = input_count;
    params.custom.forward_out_count = output_count;
    if (params.custom.op == NULL) {
        rp_tape_fail(tape, RP_OUT_OF_MEMORY, "out of memory: no room for the tape");
        return tape->status;
    }
    if (tape->next_name == 0)
        rp_name(tape, "%s.%u", op->name, (unsigned)tape->numbers[RP_OP_CUSTOM]);
    if (tape->status == RP_OK)
        rp_tape_append(tape, RP_OP_CUSTOM, &params, inputs, input_count, output_infos, output_count,
                       outputs);
    return tape->status;
}

/* `outputs` may be `inputs`, so nothing is written to it before all inputs have been read. */
rp_status rp_custom(rp_tape *tape, const rp_custom_op *op, const rp_tensor *inputs,
                    size_t input_count, const rp_tensor_info *output_infos, size_t output_count,
                    rp_tensor *outputs) {
    const rp_status status =
        tape == NULL ? RP_INVALID_ARGUMENT
                     : record(tape, op, inputs, input_count, output_infos, output_count, outputs);
    for (size_t i = 0; status != RP_OK && outputs != NULL && i < output_count; i++)
        outputs[i] = RP_NO_TENSOR;
    return status;
}
