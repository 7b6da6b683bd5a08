/* cast: the same numbers in the other storage type, rounded to nearest even. Its gradient is a cast
 * back. */
#include "define.h"

static rp_status cast_infer(rp_context *context, rp_op_call *call) {
    const rp_dtype wanted = call->params->cast.dtype;
    RP_TRY(rp_infer_unary(context, "cast", call));
    if (!rp_is_floating(wanted))
        return rp_fail(context, RP_BAD_DTYPE, "cast: to %s, f32 or bf16 is needed",
                       rp_dtype_name(wanted));
    call->out[0].dtype = wanted;
    return RP_OK;
}

static rp_status cast_vjp(rp_vjp *vjp) {
    if (!vjp->wanted[0])
        return RP_OK;
    const rp_op_params back = {.cast = {vjp->call->in[0].dtype}};
    return rp_emit_gradient(vjp, RP_OP_CAST, &back, vjp->gradient, 1, 0);
}

/* As the kernel sees it, the type of the output is that of its slot: a gradient may be f32 where
 * what it belongs to is bf16. */
const rp_op_def rp_op_def_cast = {
    .name = "cast",
    .infer = cast_infer,
    .vjp = cast_vjp,
    .accumulates = 1,
    .widens = 1,
};
