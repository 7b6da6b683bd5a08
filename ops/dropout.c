/* dropout: its own backward, since a pure function of (seed, step, micro-batch, stream, index)
 * draws the mask. */
#include "define.h"

static rp_status dropout_infer(rp_context *context, rp_op_call *call) {
    const float p = call->params->dropout.p;
    if (!(p >= 0.0f && p < 1.0f))
        return rp_fail(context, RP_INVALID_ARGUMENT, "dropout: p is %g, 0 <= p < 1 is needed",
                       (double)p);
    return rp_infer_unary(context, "dropout", call);
}

static rp_status dropout_vjp(rp_vjp *vjp) {
    if (!vjp->wanted[0])
        return RP_OK;
    return rp_emit_gradient(vjp, RP_OP_DROPOUT, vjp->call->params, vjp->gradient, 1, 0);
}

/* Ten rounds of about six operations give four words. */
static int64_t dropout_flops(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->out[0]), 16);
}

const rp_op_def rp_op_def_dropout = {
    .name = "dropout",
    .infer = dropout_infer,
    .vjp = dropout_vjp,
    .flops = dropout_flops,
    .accumulates = 1,
    .inplace_count = 1,
    .inplace = {{0, 0}},
};
