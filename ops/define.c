/* What definitions share: checks with words, and emitting one gradient. */
#include "define.h"

#include <inttypes.h>

rp_status rp_check_in_count(rp_context *context, const char *op, const rp_op_call *call,
                            size_t wanted) {
    if (call->in_count == wanted)
        return RP_OK;
    return rp_fail(context, RP_INVALID_ARGUMENT, "%s: %zu inputs, %zu are needed", op,
                   call->in_count, wanted);
}

rp_status rp_check_dtype(rp_context *context, const char *op, const char *slot,
                         const rp_tensor_info *info, rp_dtype wanted) {
    char text[RP_SHAPE_TEXT];
    if (info->dtype == wanted)
        return RP_OK;
    if (info->dtype == RP_NO_DTYPE)
        return rp_fail(context, RP_INVALID_ARGUMENT, "%s: %s is absent, %s is needed", op, slot,
                       rp_dtype_name(wanted));
    return rp_fail(context, RP_BAD_DTYPE, "%s: %s is %s, %s is needed", op, slot,
                   rp_tensor_text(info, text), rp_dtype_name(wanted));
}

rp_status rp_check_floating(rp_context *context, const char *op, const char *slot,
                            const rp_tensor_info *info, const rp_tensor_info *first) {
    char text[RP_SHAPE_TEXT];
    if (rp_is_floating(info->dtype) && (first == info || info->dtype == first->dtype))
        return RP_OK;
    if (info->dtype == RP_NO_DTYPE)
        return rp_fail(context, RP_INVALID_ARGUMENT, "%s: %s is absent, f32 or bf16 is needed", op,
                       slot);
    if (!rp_is_floating(info->dtype))
        return rp_fail(context, RP_BAD_DTYPE, "%s: %s is %s, f32 or bf16 is needed", op, slot,
                       rp_tensor_text(info, text));
    return rp_fail(context, RP_BAD_DTYPE,
                   "%s: %s is %s, but an input before it %s: one type is needed", op, slot,
                   rp_tensor_text(info, text), rp_dtype_name(first->dtype));
}

rp_status rp_check_rank(rp_context *context, const char *op, const char *slot,
                        const rp_tensor_info *info, int least) {
    char text[RP_SHAPE_TEXT];
    if (info->shape.rank >= least)
        return RP_OK;
    return rp_fail(context, RP_BAD_SHAPE, "%s: %s is %s, %d or more dimensions are needed", op,
                   slot, rp_tensor_text(info, text), least);
}

rp_status rp_check_vector(rp_context *context, const char *op, const char *slot,
                          const rp_tensor_info *info, int64_t length) {
    char text[RP_SHAPE_TEXT];
    if (info->shape.rank == 1 && info->shape.dims[0] == length)
        return RP_OK;
    return rp_fail(context, RP_BAD_SHAPE, "%s: %s is %s, a vector [%" PRId64 "] is needed", op,
                   slot, rp_tensor_text(info, text), length);
}

rp_status rp_check_axis(rp_context *context, const char *op, const rp_tensor_info *info,
                        int dimension, int *axis) {
    char text[RP_SHAPE_TEXT];
    const int rank = info->shape.rank;
    if (dimension < -rank || dimension >= rank)
        return rp_fail(context, RP_INVALID_ARGUMENT, "%s: %s has no dimension %d", op,
                       rp_tensor_text(info, text), dimension);
    *axis = rp_axis(info->shape, dimension);
    return RP_OK;
}

rp_status rp_set_output(rp_context *context, const char *op, rp_op_call *call,
                        rp_tensor_info info) {
    char text[RP_SHAPE_TEXT];
    int64_t bytes = 0;
    if (!rp_checked_multiply(rp_shape_count(info.shape), (int64_t)rp_dtype_bytes(info.dtype),
                             &bytes))
        return rp_fail(context, RP_BAD_SHAPE, "%s: the output %s does not fit 63 bits", op,
                       rp_tensor_text(&info, text));
    call->out[0] = info;
    call->out_count = 1;
    return RP_OK;
}

rp_status rp_infer_unary(rp_context *context, const char *op, rp_op_call *call) {
    RP_TRY(rp_check_in_count(context, op, call, 1));
    RP_TRY(rp_check_floating(context, op, "x", &call->in[0], &call->in[0]));
    return rp_set_output(context, op, call, call->in[0]);
}

static bool is_suffix(rp_shape a, rp_shape b) {
    if (b.rank > a.rank)
        return false;
    for (int i = 0; i < b.rank; i++)
        if (a.dims[a.rank - b.rank + i] != b.dims[i])
            return false;
    return true;
}

rp_status rp_infer_suffix(rp_context *context, const char *op, rp_op_call *call) {
    char a[RP_SHAPE_TEXT], b[RP_SHAPE_TEXT];
    RP_TRY(rp_check_in_count(context, op, call, 2));
    RP_TRY(rp_check_floating(context, op, "a", &call->in[0], &call->in[0]));
    RP_TRY(rp_check_floating(context, op, "b", &call->in[1], &call->in[0]));
    if (!is_suffix(call->in[0].shape, call->in[1].shape))
        return rp_fail(context, RP_BAD_SHAPE,
                       "%s: a is %s, b is %s; the last dimensions of a must be those of b", op,
                       rp_tensor_text(&call->in[0], a), rp_tensor_text(&call->in[1], b));
    return rp_set_output(context, op, call, call->in[0]);
}

rp_status rp_emit_gradient(rp_vjp *vjp, rp_op op, const rp_op_params *params, const uint32_t *in,
                           size_t in_count, int input) {
    rp_vjp_output out = {.gradient_of = input};
    return vjp->emit(vjp, op, params, in, in_count, &out, 1);
}

rp_status rp_emit_same(rp_vjp *vjp, int input) {
    if (!vjp->wanted[input])
        return RP_OK;
    const rp_op_params view = {.view = {0, vjp->call->in[input].shape}};
    return rp_emit_gradient(vjp, RP_OP_VIEW, &view, vjp->gradient, 1, input);
}
