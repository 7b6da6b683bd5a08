/* gelu, tanh, sigmoid, relu, silu. Backward takes (kept, gradient of y); what is kept is x for gelu
 * and silu, and y for the others, whose derivative is cheaper from it. */
#include "define.h"

/* Arithmetic operations an element, an exponential counted as ten. */
enum { EXP_FLOPS = 10 };

static int64_t exp_flops(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->out[0]), EXP_FLOPS + 4);
}

static int64_t exp_backward_flops(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->out[0]), EXP_FLOPS + 10);
}

static int64_t cheap_backward_flops(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->out[0]), 3);
}

static rp_status emit_backward(rp_vjp *vjp, rp_op op, uint32_t kept) {
    if (!vjp->wanted[0])
        return RP_OK;
    const uint32_t in[] = {kept, vjp->gradient[0]};
    return rp_emit_gradient(vjp, op, vjp->call->params, in, 2, 0);
}

static rp_status check_form(rp_context *context, const rp_op_params *params) {
    const rp_gelu_form form = params->gelu.form;
    if (form == RP_GELU_TANH || form == RP_GELU_ERF)
        return RP_OK;
    return rp_fail(context, RP_INVALID_ARGUMENT, "gelu: %d is no form", (int)form);
}

static rp_status check_none(rp_context *context, const rp_op_params *params) {
    (void)context, (void)params;
    return RP_OK;
}

/* X(name, ENUM, check of parameters, what backward reads, FLOPs forward, FLOPs backward) */
#define ACTIVATION_LIST(X)                                                                         \
    X(gelu, GELU, check_form, in, exp_flops, exp_backward_flops)                                   \
    X(tanh, TANH, check_none, out, exp_flops, cheap_backward_flops)                                \
    X(sigmoid, SIGMOID, check_none, out, exp_flops, cheap_backward_flops)                          \
    X(relu, RELU, check_none, out, NULL, NULL)                                                     \
    X(silu, SILU, check_none, in, exp_flops, exp_backward_flops)

#define ACTIVATION_DEF(op, ENUM, check, kept, forward_flops, backward_flops)                       \
    static rp_status op##_infer(rp_context *context, rp_op_call *call) {                           \
        RP_TRY(check(context, call->params));                                                      \
        return rp_infer_unary(context, #op, call);                                                 \
    }                                                                                              \
    static rp_status op##_vjp(rp_vjp *vjp) {                                                       \
        return emit_backward(vjp, RP_OP_##ENUM##_BACKWARD, vjp->kept[0]);                          \
    }                                                                                              \
    const rp_op_def rp_op_def_##op = {                                                             \
        .name = #op,                                                                               \
        .infer = op##_infer,                                                                       \
        .vjp = op##_vjp,                                                                           \
        .flops = forward_flops,                                                                    \
        .inplace_count = 1,                                                                        \
        .inplace = {{0, 0}},                                                                       \
    };                                                                                             \
    const rp_op_def rp_op_def_##op##_backward = {                                                  \
        .name = #op "_backward",                                                                   \
        .flops = backward_flops,                                                                   \
        .accumulates = 1,                                                                          \
        .inplace_count = 2,                                                                        \
        .inplace = {{0, 1}, {0, 0}},                                                               \
    };
ACTIVATION_LIST(ACTIVATION_DEF)
