/* cross_entropy (logits, targets) -> loss and the log-sum-exp of each row; backward takes (logits,
 * targets, log-sum-exp, gradient of the loss). Probabilities are never stored. */
#include "define.h"

static rp_status cross_entropy_infer(rp_context *context, rp_op_call *call) {
    const char *op = "cross_entropy";
    char logits_text[RP_SHAPE_TEXT], targets_text[RP_SHAPE_TEXT];
    RP_TRY(rp_check_in_count(context, op, call, 2));
    const rp_tensor_info *logits = &call->in[0], *targets = &call->in[1];
    RP_TRY(rp_check_floating(context, op, "logits", logits, logits));
    RP_TRY(rp_check_dtype(context, op, "targets", targets, RP_I32));
    RP_TRY(rp_check_rank(context, op, "logits", logits, 1));
    rp_shape rows = logits->shape;
    rows.rank--;
    if (!rp_shape_equal(rows, targets->shape))
        return rp_fail(context, RP_BAD_SHAPE,
                       "cross_entropy: logits is %s, targets is %s; all dimensions of logits but "
                       "the last are needed",
                       rp_tensor_text(logits, logits_text), rp_tensor_text(targets, targets_text));
    if (call->params->cross_entropy.reduction != RP_REDUCE_MEAN &&
        call->params->cross_entropy.reduction != RP_REDUCE_SUM)
        return rp_fail(context, RP_INVALID_ARGUMENT, "cross_entropy: %d is no reduction",
                       (int)call->params->cross_entropy.reduction);
    call->out[0] = (rp_tensor_info){RP_F32, RP_SCALAR};
    call->out[1] = (rp_tensor_info){RP_F32, RP_SHAPE(rp_shape_count(rows))};
    call->out_count = 2;
    return RP_OK;
}

static rp_status cross_entropy_vjp(rp_vjp *vjp) {
    if (vjp->gradient[0] == RP_NONE || !vjp->wanted[0])
        return RP_OK;
    const uint32_t in[] = {vjp->in[0], vjp->in[1], vjp->out[1], vjp->gradient[0]};
    return rp_emit_gradient(vjp, RP_OP_CROSS_ENTROPY_BACKWARD, vjp->call->params, in, 4, 0);
}

/* An exponential is counted as ten. */
static int64_t cross_entropy_flops(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->in[0]), 13);
}

/* The loss of each row as a double, added in the order of the rows. */
static int64_t cross_entropy_workspace(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->in[1]), (int64_t)sizeof(double));
}

const rp_op_def rp_op_def_cross_entropy = {
    .name = "cross_entropy",
    .infer = cross_entropy_infer,
    .vjp = cross_entropy_vjp,
    .flops = cross_entropy_flops,
    .workspace = cross_entropy_workspace,
};

const rp_op_def rp_op_def_cross_entropy_backward = {
    .name = "cross_entropy_backward",
    .flops = cross_entropy_flops,
    .inplace_count = 1,
    .inplace = {{0, 0}},
};
