/* layernorm (x, weight, bias or absent) -> y and statistics [rows, 2]: mean and 1 / sqrt(variance +
 * eps) of each row. layernorm_backward (x, statistics, weight, gradient of y) -> gradients of x,
 * weight and bias, each present or not; weight may be absent when the gradient of x is, x and
 * statistics never. */
#include "define.h"

static rp_status layernorm_infer(rp_context *context, rp_op_call *call) {
    const char *op = "layernorm";
    RP_TRY(rp_check_in_count(context, op, call, 3));
    const rp_tensor_info *x = &call->in[0], *weight = &call->in[1], *bias = &call->in[2];
    RP_TRY(rp_check_floating(context, op, "x", x, x));
    RP_TRY(rp_check_rank(context, op, "x", x, 1));
    const int64_t width = rp_row_length(x->shape);
    RP_TRY(rp_check_floating(context, op, "weight", weight, x));
    RP_TRY(rp_check_vector(context, op, "weight", weight, width));
    if (bias->dtype != RP_NO_DTYPE) {
        RP_TRY(rp_check_floating(context, op, "bias", bias, x));
        RP_TRY(rp_check_vector(context, op, "bias", bias, width));
    }
    if (!(call->params->layernorm.eps >= 0.0f))
        return rp_fail(context, RP_INVALID_ARGUMENT, "layernorm: eps is %g, 0 or more is needed",
                       (double)call->params->layernorm.eps);
    RP_TRY(rp_set_output(context, op, call,
                         (rp_tensor_info){RP_F32, RP_SHAPE(rp_row_count(x->shape), 2)}));
    call->out[1] = call->out[0];
    RP_TRY(rp_set_output(context, op, call, *x));
    call->out_count = 2;
    return RP_OK;
}

/* The gradient of the bias alone needs neither x nor statistics: it is a sum. */
static rp_status layernorm_vjp(rp_vjp *vjp) {
    const bool x = vjp->wanted[0], weight = vjp->wanted[1], bias = vjp->wanted[2];
    if (vjp->gradient[0] == RP_NONE || !(x || weight || bias))
        return RP_OK;
    if (!x && !weight)
        return rp_emit_gradient(vjp, RP_OP_SUM_LEADING, NULL, vjp->gradient, 1, 2);
    const uint32_t in[] = {vjp->in[0], vjp->out[1], x ? vjp->in[1] : RP_NONE, vjp->gradient[0]};
    rp_vjp_output out[] = {{.gradient_of = x ? 0 : RP_VJP_ABSENT},
                           {.gradient_of = weight ? 1 : RP_VJP_ABSENT},
                           {.gradient_of = bias ? 2 : RP_VJP_ABSENT}};
    return vjp->emit(vjp, RP_OP_LAYERNORM_BACKWARD, NULL, in, 4, out, 3);
}

static int64_t layernorm_flops(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->in[0]), 8);
}

static int64_t widened_bytes(const rp_tensor_info *info) {
    return info->dtype == RP_BF16
               ? rp_saturated_multiply(rp_info_count(info), (int64_t)sizeof(float))
               : 0;
}

/* Weight, bias and rows as floats. */
static int64_t layernorm_workspace(const rp_op_call *call) {
    return rp_saturated_add(
        rp_saturated_add(widened_bytes(&call->in[1]), widened_bytes(&call->in[2])),
        rp_rows_workspace(call, 1));
}

const rp_op_def rp_op_def_layernorm = {
    .name = "layernorm",
    .workspace = layernorm_workspace,
    .infer = layernorm_infer,
    .vjp = layernorm_vjp,
    .flops = layernorm_flops,
    .inplace_count = 1,
    .inplace = {{0, 0}},
};

static int64_t layernorm_backward_flops(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->in[0]), 14);
}

/* Partial gradients of weight and bias for each piece of rows; the weight and rows as
 * floats. */
static int64_t layernorm_backward_workspace(const rp_op_call *call) {
    const int present = (call->out[1].dtype != RP_NO_DTYPE) + (call->out[2].dtype != RP_NO_DTYPE);
    const rp_shape x = call->in[0].shape;
    const int64_t floats =
        rp_saturated_multiply(rp_cut_rows(rp_row_count(x)).count, rp_row_length(x));
    return rp_saturated_add(
        rp_saturated_multiply(floats, present * (int64_t)sizeof(float)),
        rp_saturated_add(widened_bytes(&call->in[2]), rp_rows_workspace(call, 1 | 8)));
}

const rp_op_def rp_op_def_layernorm_backward = {
    .name = "layernorm_backward",
    .flops = layernorm_backward_flops,
    .workspace = layernorm_backward_workspace,
    .accumulates = 7,
    .widens = 6, /* dweight and dbias */
    .inplace_count = 2,
    .inplace = {{0, 3}, {0, 0}},
};
