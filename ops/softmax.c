/* softmax over the last dimension, causal or not; backward takes (y, gradient of y). */
#include "define.h"

static rp_status softmax_infer(rp_context *context, rp_op_call *call) {
    RP_TRY(rp_infer_unary(context, "softmax", call));
    return rp_check_rank(context, "softmax", "x", &call->in[0],
                         call->params->softmax.causal ? 2 : 1);
}

static int64_t softmax_workspace(const rp_op_call *call) {
    return rp_rows_workspace(call, 1);
}

static rp_status softmax_vjp(rp_vjp *vjp) {
    if (!vjp->wanted[0])
        return RP_OK;
    const uint32_t in[] = {vjp->out[0], vjp->gradient[0]};
    return rp_emit_gradient(vjp, RP_OP_SOFTMAX_BACKWARD, vjp->call->params, in, 2, 0);
}

/* An exponential is counted as ten. */
static int64_t softmax_flops(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->in[0]), 14);
}

const rp_op_def rp_op_def_softmax = {
    .name = "softmax",
    .workspace = softmax_workspace,
    .infer = softmax_infer,
    .vjp = softmax_vjp,
    .flops = softmax_flops,
    .inplace_count = 1,
    .inplace = {{0, 0}},
};

static int64_t softmax_backward_workspace(const rp_op_call *call) {
    return rp_rows_workspace(call, 1 | 2);
}

static int64_t softmax_backward_flops(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->in[0]), 4);
}

const rp_op_def rp_op_def_softmax_backward = {
    .name = "softmax_backward",
    .workspace = softmax_backward_workspace,
    .flops = softmax_backward_flops,
    .accumulates = 1,
    .inplace_count = 2,
    .inplace = {{0, 1}, {0, 0}},
};
