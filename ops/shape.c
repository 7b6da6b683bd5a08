/* Ops that move elements and compute nothing: transpose, slice, concat, view. Any dtype. */
#include "define.h"

#include <inttypes.h>

static int64_t no_flops(const rp_op_call *call) {
    (void)call;
    return 0;
}

static rp_status check_present(rp_context *context, const char *op, const rp_tensor_info *info) {
    if (info->dtype != RP_NO_DTYPE)
        return RP_OK;
    return rp_fail(context, RP_INVALID_ARGUMENT, "%s: an input is absent", op);
}

/* ---- transpose ------------------------------------------------------------------------------- */

static rp_status transpose_infer(rp_context *context, rp_op_call *call) {
    int first = 0, second = 0;
    RP_TRY(rp_check_in_count(context, "transpose", call, 1));
    RP_TRY(check_present(context, "transpose", &call->in[0]));
    RP_TRY(
        rp_check_axis(context, "transpose", &call->in[0], call->params->transpose.first, &first));
    RP_TRY(
        rp_check_axis(context, "transpose", &call->in[0], call->params->transpose.second, &second));
    rp_tensor_info y = call->in[0];
    y.shape.dims[first] = call->in[0].shape.dims[second];
    y.shape.dims[second] = call->in[0].shape.dims[first];
    return rp_set_output(context, "transpose", call, y);
}

static rp_status transpose_vjp(rp_vjp *vjp) {
    if (!vjp->wanted[0])
        return RP_OK;
    return rp_emit_gradient(vjp, RP_OP_TRANSPOSE, vjp->call->params, vjp->gradient, 1, 0);
}

const rp_op_def rp_op_def_transpose = {
    .name = "transpose",
    .infer = transpose_infer,
    .vjp = transpose_vjp,
    .flops = no_flops,
};

/* ---- slice ----------------------------------------------------------------------------------- */

static rp_status slice_infer(rp_context *context, rp_op_call *call) {
    char text[RP_SHAPE_TEXT];
    int axis = 0;
    RP_TRY(rp_check_in_count(context, "slice", call, 1));
    RP_TRY(check_present(context, "slice", &call->in[0]));
    RP_TRY(rp_check_axis(context, "slice", &call->in[0], call->params->slice.dimension, &axis));
    const int64_t start = call->params->slice.start, length = call->params->slice.length;
    rp_tensor_info y = call->in[0];
    if (start < 0 || length < 0 || start > y.shape.dims[axis] ||
        length > y.shape.dims[axis] - start)
        return rp_fail(context, RP_INVALID_ARGUMENT,
                       "slice: %" PRId64 " elements from %" PRId64
                       " on do not lie in dimension %d of %s",
                       length, start, axis, rp_tensor_text(&call->in[0], text));
    y.shape.dims[axis] = length;
    return rp_set_output(context, "slice", call, y);
}

static rp_status slice_vjp(rp_vjp *vjp) {
    if (!vjp->wanted[0])
        return RP_OK;
    return rp_emit_gradient(vjp, RP_OP_SLICE_BACKWARD, vjp->call->params, vjp->gradient, 1, 0);
}

/* What is sliced away is not read. */
static int64_t slice_bytes(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_bytes(&call->out[0]), 2);
}

const rp_op_def rp_op_def_slice = {
    .name = "slice",
    .infer = slice_infer,
    .vjp = slice_vjp,
    .flops = no_flops,
    .bytes_moved = slice_bytes,
};

const rp_op_def rp_op_def_slice_backward = {
    .name = "slice_backward",
    .flops = no_flops,
    .accumulates = 1,
    .widens = 1,
};

/* ---- concat ---------------------------------------------------------------------------------- */

static bool equal_but_for(int axis, const rp_tensor_info *a, const rp_tensor_info *b) {
    rp_shape shape = b->shape;
    if (a->dtype != b->dtype || a->shape.rank != b->shape.rank)
        return false;
    shape.dims[axis] = a->shape.dims[axis];
    return rp_shape_equal(a->shape, shape);
}

static rp_status concat_infer(rp_context *context, rp_op_call *call) {
    char first[RP_SHAPE_TEXT], other[RP_SHAPE_TEXT];
    int axis = 0;
    if (call->in_count == 0)
        return rp_fail(context, RP_INVALID_ARGUMENT, "concat: no input, 1 or more are needed");
    RP_TRY(check_present(context, "concat", &call->in[0]));
    RP_TRY(rp_check_axis(context, "concat", &call->in[0], call->params->concat.dimension, &axis));
    rp_tensor_info y = call->in[0];
    for (size_t i = 1; i < call->in_count; i++) {
        if (!equal_but_for(axis, &call->in[0], &call->in[i]))
            return rp_fail(context, call->in[i].dtype == y.dtype ? RP_BAD_SHAPE : RP_BAD_DTYPE,
                           "concat: input 0 is %s, input %zu is %s; they may differ in dimension "
                           "%d only",
                           rp_tensor_text(&call->in[0], first), i,
                           rp_tensor_text(&call->in[i], other), axis);
        y.shape.dims[axis] = rp_saturated_add(y.shape.dims[axis], call->in[i].shape.dims[axis]);
    }
    return rp_set_output(context, "concat", call, y);
}

/* The gradient of each input is a slice of the gradient of y: a view where that is contiguous. */
static rp_status concat_vjp(rp_vjp *vjp) {
    const int axis = rp_axis(vjp->call->in[0].shape, vjp->call->params->concat.dimension);
    int64_t outer = 1, start = 0, bytes = 0;
    for (int i = 0; i < axis; i++)
        outer *= vjp->call->in[0].shape.dims[i];
    for (size_t i = 0; i < vjp->call->in_count; i++) {
        const rp_tensor_info *in = &vjp->call->in[i];
        const int64_t length = in->shape.dims[axis];
        const rp_op_params view = {.view = {bytes, in->shape}};
        const rp_op_params slice = {.slice = {axis, start, length}};
        if (vjp->wanted[i])
            RP_TRY(rp_emit_gradient(vjp, outer == 1 ? RP_OP_VIEW : RP_OP_SLICE,
                                    outer == 1 ? &view : &slice, vjp->gradient, 1, (int)i));
        start += length;
        bytes += rp_info_bytes(in);
    }
    return RP_OK;
}

const rp_op_def rp_op_def_concat = {
    .name = "concat",
    .infer = concat_infer,
    .vjp = concat_vjp,
    .flops = no_flops,
};

/* ---- view ------------------------------------------------------------------------------------ */

static rp_status view_infer(rp_context *context, rp_op_call *call) {
    char from[RP_SHAPE_TEXT], to[RP_SHAPE_TEXT];
    RP_TRY(rp_check_in_count(context, "view", call, 1));
    RP_TRY(check_present(context, "view", &call->in[0]));
    const rp_tensor_info y = {call->in[0].dtype, call->params->view.shape};
    const int64_t offset = call->params->view.offset_bytes;
    RP_TRY(rp_set_output(context, "view", call, y));
    if (offset < 0 || offset % (int64_t)rp_dtype_bytes(y.dtype) != 0 ||
        rp_saturated_add(offset, rp_info_bytes(&y)) > rp_info_bytes(&call->in[0]))
        return rp_fail(context, RP_BAD_SHAPE,
                       "view: %s from byte %" PRId64 " on does not lie in %s",
                       rp_tensor_text(&y, to), offset, rp_tensor_text(&call->in[0], from));
    return RP_OK;
}

/* A view of a part of x is a slice of the first dimension that is not 1. The elements of one index
 * of it must not be cut apart: no slice of a tensor does. */
static rp_status emit_slice_backward(rp_vjp *vjp) {
    const rp_shape x = vjp->call->in[0].shape;
    int axis = 0;
    while (axis < x.rank - 1 && x.dims[axis] == 1)
        axis++;
    int64_t inner = 1;
    for (int i = axis + 1; i < x.rank; i++)
        inner *= x.dims[i];
    const int64_t length = rp_info_count(&vjp->call->out[0]);
    const int64_t start =
        vjp->call->params->view.offset_bytes / (int64_t)rp_dtype_bytes(vjp->call->in[0].dtype);
    if (inner == 0 || start % inner != 0 || length % inner != 0)
        return rp_fail(vjp->context, RP_INTERNAL_ERROR,
                       "view: %" PRId64 " elements from %" PRId64 " on are no slice", length,
                       start);
    const rp_op_params slice = {.slice = {axis, start / inner, length / inner}};
    return rp_emit_gradient(vjp, RP_OP_SLICE_BACKWARD, &slice, vjp->gradient, 1, 0);
}

static rp_status view_vjp(rp_vjp *vjp) {
    if (!vjp->wanted[0])
        return RP_OK;
    if (rp_info_count(&vjp->call->out[0]) == rp_info_count(&vjp->call->in[0]))
        return rp_emit_same(vjp, 0);
    return emit_slice_backward(vjp);
}

static int64_t view_bytes(const rp_op_call *call) {
    (void)call;
    return 0;
}

const rp_op_def rp_op_def_view = {
    .name = "view",
    .infer = view_infer,
    .vjp = view_vjp,
    .flops = no_flops,
    .bytes_moved = view_bytes,
};
