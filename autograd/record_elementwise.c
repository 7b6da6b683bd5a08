/* Recording: elementwise ops, rows and reductions. What is checked is checked by the definitions
 * in ops/. */
#include <string.h>

#include "tape.h"

static rp_tensor record(rp_tape *tape, rp_op op, const rp_op_params *params, rp_tensor a,
                        rp_tensor b, size_t count) {
    const rp_tensor inputs[] = {a, b};
    return rp_tape_record(tape, op, params, inputs, count, 0);
}

static rp_tensor record_plain(rp_tape *tape, rp_op op, rp_tensor x) {
    rp_op_params params;
    memset(&params, 0, sizeof params);
    return record(tape, op, &params, x, x, 1);
}

rp_tensor rp_add(rp_tape *tape, rp_tensor a, rp_tensor b) {
    rp_op_params params;
    memset(&params, 0, sizeof params);
    return record(tape, RP_OP_ADD, &params, a, b, 2);
}

rp_tensor rp_mul(rp_tape *tape, rp_tensor a, rp_tensor b) {
    rp_op_params params;
    memset(&params, 0, sizeof params);
    return record(tape, RP_OP_MUL, &params, a, b, 2);
}

rp_tensor rp_scale(rp_tape *tape, rp_tensor x, float factor) {
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.scale.factor = factor;
    return record(tape, RP_OP_SCALE, &params, x, x, 1);
}

rp_tensor rp_gelu(rp_tape *tape, rp_tensor x, rp_gelu_form form) {
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.gelu.form = form;
    return record(tape, RP_OP_GELU, &params, x, x, 1);
}

rp_tensor rp_tanh(rp_tape *tape, rp_tensor x) {
    return record_plain(tape, RP_OP_TANH, x);
}

rp_tensor rp_sigmoid(rp_tape *tape, rp_tensor x) {
    return record_plain(tape, RP_OP_SIGMOID, x);
}

rp_tensor rp_relu(rp_tape *tape, rp_tensor x) {
    return record_plain(tape, RP_OP_RELU, x);
}

rp_tensor rp_silu(rp_tape *tape, rp_tensor x) {
    return record_plain(tape, RP_OP_SILU, x);
}

rp_tensor rp_dropout(rp_tape *tape, rp_tensor x, float p) {
    rp_tensor_info info;
    if (!rp_tape_info(tape, "dropout", x, &info))
        return RP_NO_TENSOR;
    if (p == 0.0f &&
        rp_is_floating(info.dtype)) { /* nothing to do: no node, and no number of a random op */
        tape->next_name = 0;
        return x;
    }
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.dropout.p = p;
    params.dropout.stream = rp_tape_stream(tape);
    return record(tape, RP_OP_DROPOUT, &params, x, x, 1);
}

/* No node where nothing changes. */
rp_tensor rp_cast(rp_tape *tape, rp_tensor x, rp_dtype dtype) {
    rp_tensor_info info;
    if (!rp_tape_info(tape, "cast", x, &info))
        return RP_NO_TENSOR;
    if (info.dtype == dtype && rp_is_floating(dtype)) {
        tape->next_name = 0;
        return x;
    }
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.cast.dtype = dtype;
    return record(tape, RP_OP_CAST, &params, x, x, 1);
}

rp_tensor rp_embedding(rp_tape *tape, rp_tensor table, rp_tensor ids) {
    rp_op_params params;
    memset(&params, 0, sizeof params);
    return record(tape, RP_OP_EMBEDDING, &params, table, ids, 2);
}

rp_tensor rp_layernorm(rp_tape *tape, rp_tensor x, rp_tensor weight, rp_tensor bias, float eps) {
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.layernorm.eps = eps;
    const rp_tensor inputs[] = {x, weight, bias};
    return rp_tape_record(tape, RP_OP_LAYERNORM, &params, inputs, 3, 1u << 2);
}

rp_tensor rp_softmax(rp_tape *tape, rp_tensor x, bool causal) {
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.softmax.causal = causal;
    return record(tape, RP_OP_SOFTMAX, &params, x, x, 1);
}

rp_tensor rp_cross_entropy(rp_tape *tape, rp_tensor logits, rp_tensor targets, int32_t ignore_index,
                           rp_reduction reduction) {
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.cross_entropy.ignore_index = ignore_index;
    params.cross_entropy.reduction = reduction;
    return record(tape, RP_OP_CROSS_ENTROPY, &params, logits, targets, 2);
}

rp_tensor rp_sum(rp_tape *tape, rp_tensor x) {
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.sum.factor = 1.0f;
    return record(tape, RP_OP_SUM, &params, x, x, 1);
}

/* The mean of nothing is 0, as the sum, which is the op that is recorded. */
rp_tensor rp_mean(rp_tape *tape, rp_tensor x) {
    rp_tensor_info info;
    char text[RP_SHAPE_TEXT];
    if (!rp_tape_info(tape, "mean", x, &info))
        return RP_NO_TENSOR;
    if (!rp_is_floating(info.dtype))
        return rp_tape_fail(tape, RP_BAD_DTYPE, "mean: x is %s, f32 or bf16 is needed",
                            rp_tensor_text(&info, text));
    const int64_t count = rp_shape_count(info.shape);
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.sum.factor = count > 0 ? (float)(1.0 / (double)count) : 0.0f;
    return record(tape, RP_OP_SUM, &params, x, x, 1);
}
