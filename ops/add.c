/* add, mul, scale: what is linear in each input. */
#include "define.h"

static rp_status add_infer(rp_context *context, rp_op_call *call) {
    return rp_infer_suffix(context, "add", call);
}

/* The gradient of b is summed over the dimensions that b was repeated over. */
static rp_status add_vjp(rp_vjp *vjp) {
    RP_TRY(rp_emit_same(vjp, 0));
    if (rp_shape_count(vjp->call->in[0].shape) == rp_shape_count(vjp->call->in[1].shape))
        return rp_emit_same(vjp, 1);
    if (!vjp->wanted[1])
        return RP_OK;
    return rp_emit_gradient(vjp, RP_OP_SUM_LEADING, NULL, vjp->gradient, 1, 1);
}

const rp_op_def rp_op_def_add = {
    .name = "add",
    .infer = add_infer,
    .vjp = add_vjp,
    .accumulates = 1,
    .widens = 1,
    .inplace_count = 2,
    .inplace = {{0, 0}, {0, 1}},
};

static rp_status mul_infer(rp_context *context, rp_op_call *call) {
    return rp_infer_suffix(context, "mul", call);
}

/* Reads b for the gradient of a, and a for that of b. */
static rp_status mul_vjp(rp_vjp *vjp) {
    const rp_tensor_info *a = &vjp->call->in[0], *b = &vjp->call->in[1];
    if (vjp->wanted[0]) {
        const uint32_t in[] = {vjp->gradient[0], vjp->in[1]};
        RP_TRY(rp_emit_gradient(vjp, RP_OP_MUL, NULL, in, 2, 0));
    }
    if (!vjp->wanted[1])
        return RP_OK;
    const uint32_t in[] = {vjp->gradient[0], vjp->in[0]};
    if (rp_shape_equal(a->shape, b->shape))
        return rp_emit_gradient(vjp, RP_OP_MUL, NULL, in, 2, 1);
    rp_vjp_output product = {.gradient_of = RP_VJP_TEMPORARY, .info = *a};
    RP_TRY(vjp->emit(vjp, RP_OP_MUL, NULL, in, 2, &product, 1));
    return rp_emit_gradient(vjp, RP_OP_SUM_LEADING, NULL, &product.value, 1, 1);
}

const rp_op_def rp_op_def_mul = {
    .name = "mul",
    .infer = mul_infer,
    .vjp = mul_vjp,
    .accumulates = 1,
    .widens = 1,
    .inplace_count = 2,
    .inplace = {{0, 0}, {0, 1}},
};

static rp_status scale_infer(rp_context *context, rp_op_call *call) {
    return rp_infer_unary(context, "scale", call);
}

static rp_status scale_vjp(rp_vjp *vjp) {
    if (!vjp->wanted[0])
        return RP_OK;
    return rp_emit_gradient(vjp, RP_OP_SCALE, vjp->call->params, vjp->gradient, 1, 0);
}

const rp_op_def rp_op_def_scale = {
    .name = "scale",
    .infer = scale_infer,
    .vjp = scale_vjp,
    .accumulates = 1,
    .widens = 1,
    .inplace_count = 1,
    .inplace = {{0, 0}},
};
