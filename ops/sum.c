/* sum (times a factor: sum and mean), its backward, sum_leading (the gradient of what was
 * repeated), loss_seed. */
#include "define.h"

static rp_status sum_infer(rp_context *context, rp_op_call *call) {
    RP_TRY(rp_infer_unary(context, "sum", call));
    call->out[0] = (rp_tensor_info){RP_F32, RP_SCALAR};
    return RP_OK;
}

static rp_status sum_vjp(rp_vjp *vjp) {
    if (!vjp->wanted[0])
        return RP_OK;
    return rp_emit_gradient(vjp, RP_OP_SUM_BACKWARD, vjp->call->params, vjp->gradient, 1, 0);
}

static int64_t input_flops(const rp_op_call *call) {
    return rp_info_count(&call->in[0]);
}

static int64_t sum_workspace(const rp_op_call *call) {
    return rp_cut_sum(rp_info_count(&call->in[0])).count * (int64_t)sizeof(double);
}

const rp_op_def rp_op_def_sum = {
    .name = "sum",
    .infer = sum_infer,
    .vjp = sum_vjp,
    .flops = input_flops,
    .workspace = sum_workspace,
};

const rp_op_def rp_op_def_sum_backward = {.name = "sum_backward", .accumulates = 1, .widens = 1};

/* One partial sum of all columns for each piece of rows; a single piece needs none. */
static int64_t sum_leading_workspace(const rp_op_call *call) {
    const int64_t columns = rp_info_count(&call->out[0]);
    const int64_t rows = columns > 0 ? rp_info_count(&call->in[0]) / columns : 0;
    const int64_t pieces = rp_cut_sum_leading(rows, columns).count;
    return pieces > 1 ? rp_saturated_multiply(pieces * (int64_t)sizeof(float), columns) : 0;
}

const rp_op_def rp_op_def_sum_leading = {
    .name = "sum_leading",
    .flops = input_flops,
    .workspace = sum_leading_workspace,
    .accumulates = 1,
    .widens = 1,
};

const rp_op_def rp_op_def_loss_seed = {.name = "loss_seed"};
