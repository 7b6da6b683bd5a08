/* Recording: matrix products and attention. */
#include <string.h>

#include "ops/product.h"
#include "tape.h"

rp_tensor rp_linear(rp_tape *tape, rp_tensor x, rp_tensor weight, rp_tensor bias,
                    rp_weight_layout layout) {
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.linear.layout = layout;
    const rp_tensor inputs[] = {x, weight, bias};
    return rp_tape_record(tape, RP_OP_LINEAR, &params, inputs, 3, 1u << 2);
}

rp_tensor rp_matmul(rp_tape *tape, rp_tensor a, rp_tensor b, bool transpose_a, bool transpose_b) {
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.matmul.transpose_a = transpose_a;
    params.matmul.transpose_b = transpose_b;
    const rp_tensor inputs[] = {a, b};
    return rp_tape_record(tape, RP_OP_MATMUL, &params, inputs, 2, 0);
}

/* The options as parameters; false, with the status set, if they are no options. */
static bool attention_params(rp_tape *tape, const char *op, const rp_tensor qkv[3],
                             const rp_attention_options *options, rp_op_params *params) {
    if (!rp_tape_accepts(tape, op, qkv, 3, 1u << 1 | 1u << 2))
        return false;
    if (options == NULL || options->struct_size != sizeof *options) {
        rp_tape_fail(tape, RP_INVALID_ARGUMENT, "%s: options are %s", op,
                     options == NULL ? "needed" : "of another size: set struct_size");
        return false;
    }
    if ((qkv[1].id == 0) != (qkv[2].id == 0)) {
        rp_tape_fail(tape, RP_INVALID_ARGUMENT, "%s: k and v come together or not at all", op);
        return false;
    }
    if (!(options->dropout >= 0.0f && options->dropout < 1.0f)) {
        rp_tape_fail(tape, RP_INVALID_ARGUMENT, "%s: dropout is %g, 0 <= p < 1 was expected", op,
                     (double)options->dropout);
        return false;
    }
    memset(params, 0, sizeof *params);
    params->attention.heads = options->heads;
    params->attention.kv_heads = options->kv_heads;
    params->attention.causal = options->causal;
    params->attention.packed = qkv[1].id == 0;
    params->attention.scale = options->scale;
    params->attention.dropout = options->dropout;
    /* Numbers are given out only to ops that draw, so that fused and unfused attention draw the
     * same masks. */
    params->attention.stream = options->dropout > 0.0f ? rp_tape_stream(tape) : 0;
    return true;
}

rp_tensor rp_attention(rp_tape *tape, rp_tensor q, rp_tensor k, rp_tensor v,
                       const rp_attention_options *options) {
    const rp_tensor inputs[] = {q, k, v};
    rp_op_params params;
    if (!attention_params(tape, "attention", inputs, options, &params))
        return RP_NO_TENSOR;
    return rp_tape_record(tape, RP_OP_ATTENTION, &params, inputs, 3, 1u << 1 | 1u << 2);
}

/* The next node is called "<name>.<part>" if a name was given to the whole. */
static void name_part(rp_tape *tape, uint32_t name, const char *part) {
    if (tape->status != RP_OK || name == 0)
        return;
    rp_string text = {0};
    if (rp_string_append(tape->context, &text, "%s.%s", rp_tape_string(tape, name), part))
        rp_name(tape, "%s", text.data);
    else
        rp_tape_fail(tape, RP_OUT_OF_MEMORY, "out of memory: no room for the tape");
    rp_string_clear(tape->context, &text);
}

/* All three are looked at before the first part is recorded: the parts know only their own. */
static bool check_unfused(rp_tape *tape, const rp_tensor qkv[3], const rp_op_params *params) {
    rp_tensor_info infos[3];
    for (size_t i = 0; i < 3; i++)
        infos[i] = rp_tensor_get_info(tape, qkv[i]);
    const rp_op_call call = {infos, 3, NULL, 0, params};
    rp_attention_layout layout;
    const rp_status status = rp_attention_check(tape->context, "attention_unfused", &call, &layout);
    if (status != RP_OK)
        rp_tape_fail_as_said(tape, status);
    return status == RP_OK;
}

rp_tensor rp_attention_unfused(rp_tape *tape, rp_tensor q, rp_tensor k, rp_tensor v,
                               const rp_attention_options *options) {
    const rp_tensor inputs[] = {q, k, v};
    rp_op_params params, softmax, dropout;
    if (!attention_params(tape, "attention_unfused", inputs, options, &params) ||
        !check_unfused(tape, inputs, &params))
        return RP_NO_TENSOR;
    const uint32_t name = tape->next_name;
    memset(&softmax, 0, sizeof softmax);
    softmax.softmax.causal = options->causal;
    memset(&dropout, 0, sizeof dropout);
    dropout.dropout.p = options->dropout;
    dropout.dropout.stream = params.attention.stream;

    name_part(tape, name, "scores");
    const rp_tensor scores =
        rp_tape_record(tape, RP_OP_ATTENTION_SCORES, &params, inputs, 2, 1u << 1);
    name_part(tape, name, "softmax");
    rp_tensor p = rp_tape_record(tape, RP_OP_SOFTMAX, &softmax, &scores, 1, 0);
    if (options->dropout > 0.0f) {
        name_part(tape, name, "dropout");
        p = rp_tape_record(tape, RP_OP_DROPOUT, &dropout, &p, 1, 0);
    }
    name_part(tape, name, "values");
    const rp_tensor values[] = {p, params.attention.packed ? q : v};
    return rp_tape_record(tape, RP_OP_ATTENTION_VALUES, &params, values, 2, 0);
}
