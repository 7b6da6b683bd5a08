/* linear: y = x weight + bias, and its two gradients. */
#include "define.h"
#include "product.h"

/* What in and out are called in weight [in, out] or [out, in]. */
static int64_t weight_in(const rp_op_call *call, const rp_tensor_info *weight) {
    return weight->shape.dims[call->params->linear.layout == RP_IN_OUT ? 0 : 1];
}

static int64_t weight_out(const rp_op_call *call, const rp_tensor_info *weight) {
    return weight->shape.dims[call->params->linear.layout == RP_IN_OUT ? 1 : 0];
}

static const char *layout_text(const rp_op_call *call) {
    return call->params->linear.layout == RP_IN_OUT ? "[in, out]" : "[out, in]";
}

static rp_status check_blas(rp_context *context, const rp_op_call *call) {
    const rp_tensor_info *x = &call->in[0], *weight = &call->in[1];
    rp_status status = rp_product_check_blas(context, "linear", "in", weight_in(call, weight));
    if (status == RP_OK)
        status = rp_product_check_blas(context, "linear", "out", weight_out(call, weight));
    if (status == RP_OK)
        status = rp_product_check_blas(context, "linear", "the number of rows of x",
                                       rp_row_count(x->shape));
    return status;
}

static rp_status check_types(rp_context *context, const rp_op_call *call) {
    static const char *const names[] = {"x", "weight", "bias"};
    if (!rp_slot_present(call->in, call->in_count, 0) ||
        !rp_slot_present(call->in, call->in_count, 1))
        return rp_fail(context, RP_INVALID_ARGUMENT,
                       "linear: x and weight were expected, %s is missing",
                       names[rp_slot_present(call->in, call->in_count, 0)]);
    for (size_t i = 0; i < 3; i++) {
        if (!rp_slot_present(call->in, call->in_count, i))
            continue;
        const rp_status status =
            rp_check_floating(context, "linear", names[i], &call->in[i], &call->in[0]);
        if (status != RP_OK)
            return status;
    }
    return RP_OK;
}

/* x [..., in], weight [in, out] or [out, in], bias [out] or absent -> y [..., out] */
static rp_status infer(rp_context *context, rp_op_call *call) {
    char a[RP_SHAPE_TEXT], b[RP_SHAPE_TEXT];
    rp_status status = check_types(context, call);
    if (status != RP_OK)
        return status;
    const rp_tensor_info *x = &call->in[0], *weight = &call->in[1];
    const rp_weight_layout layout = call->params->linear.layout;
    if (layout != RP_IN_OUT && layout != RP_OUT_IN)
        return rp_fail(context, RP_INVALID_ARGUMENT, "linear: %d is no layout of weights",
                       (int)layout);
    if (weight->shape.rank != 2 || x->shape.rank < 1 ||
        x->shape.dims[x->shape.rank - 1] != weight_in(call, weight))
        return rp_fail(context, RP_BAD_SHAPE,
                       "linear: x is %s, weight is %s: x [..., in] and weight %s were expected",
                       rp_tensor_text(x, a), rp_tensor_text(weight, b), layout_text(call));
    const int64_t out = weight_out(call, weight);
    if (rp_slot_present(call->in, call->in_count, 2) &&
        (call->in[2].shape.rank != 1 || call->in[2].shape.dims[0] != out))
        return rp_fail(context, RP_BAD_SHAPE,
                       "linear: bias is %s, weight is %s %s: bias [%lld] was expected",
                       rp_tensor_text(&call->in[2], a), rp_tensor_text(weight, b),
                       layout_text(call), (long long)out);
    status = check_blas(context, call);
    if (status != RP_OK)
        return status;
    call->out[0] = *x;
    call->out[0].shape.dims[x->shape.rank - 1] = out;
    call->out_count = 1;
    if (rp_shape_count(call->out[0].shape) < 0)
        return rp_fail(context, RP_BAD_SHAPE,
                       "linear: x is %s, weight is %s: the result is too large",
                       rp_tensor_text(x, a), rp_tensor_text(weight, b));
    return RP_OK;
}

/* The weight's gradient comes first, so that x can die before the gradient of x is made. Nothing
 * is read for a gradient that nobody wants. */
static rp_status vjp(rp_vjp *vjp) {
    const uint32_t dy = vjp->gradient[0], x = vjp->in[0], weight = vjp->in[1];
    if (dy == RP_NONE)
        return RP_OK;
    const bool bias = rp_slot_present(vjp->call->in, vjp->call->in_count, 2) && vjp->wanted[2];
    if (vjp->wanted[1] || bias) {
        const uint32_t in[] = {vjp->wanted[1] ? x : RP_NONE, dy};
        rp_vjp_output out[] = {{.gradient_of = vjp->wanted[1] ? 1 : RP_VJP_ABSENT},
                               {.gradient_of = bias ? 2 : RP_VJP_ABSENT}};
        const rp_status status =
            vjp->emit(vjp, RP_OP_LINEAR_BACKWARD_WEIGHT, vjp->call->params, in, 2, out, 2);
        if (status != RP_OK)
            return status;
    }
    if (!vjp->wanted[0])
        return RP_OK;
    const uint32_t in[] = {dy, weight};
    rp_vjp_output out[] = {{.gradient_of = 0}};
    return vjp->emit(vjp, RP_OP_LINEAR_BACKWARD_INPUT, vjp->call->params, in, 2, out, 1);
}

static int64_t product_flops(int64_t rows, int64_t in, int64_t out) {
    int64_t flops = 0;
    if (!rp_checked_multiply(rows, in, &flops) || !rp_checked_multiply(flops, out, &flops) ||
        !rp_checked_multiply(flops, 2, &flops))
        return INT64_MAX;
    return flops;
}

static int64_t flops(const rp_op_call *call) {
    return product_flops(rp_row_count(call->in[0].shape), weight_in(call, &call->in[1]),
                         weight_out(call, &call->in[1]));
}

/* dy [..., out], weight -> dx [..., in] */
static int64_t flops_backward_input(const rp_op_call *call) {
    return product_flops(rp_row_count(call->in[0].shape), weight_in(call, &call->in[1]),
                         weight_out(call, &call->in[1]));
}

/* x [..., in] (absent if only dbias is wanted), dy [..., out] -> dweight, dbias, each absent if
 * not wanted */
static int64_t flops_backward_weight(const rp_op_call *call) {
    const rp_tensor_info *dy = &call->in[1];
    const int64_t rows = rp_row_count(dy->shape), out = rp_row_length(dy->shape);
    int64_t sum = 0;
    if (rp_slot_present(call->out, call->out_count, 0))
        sum = product_flops(rows, rp_row_length(call->in[0].shape), out);
    if (rp_slot_present(call->out, call->out_count, 1) && !rp_checked_add(sum, rows * out, &sum))
        return INT64_MAX;
    return sum;
}

/* Panels of floats, where something is bf16. */
static int64_t panels(const rp_op_call *call, int64_t rows, int64_t in, int64_t out) {
    return rp_call_has_bf16(call) ? rp_panels_bytes(rows, in, out, 1, false) : 0;
}

static int64_t workspace(const rp_op_call *call) {
    return panels(call, rp_row_count(call->in[0].shape), weight_in(call, &call->in[1]),
                  weight_out(call, &call->in[1]));
}

static int64_t workspace_backward_weight(const rp_op_call *call) {
    const rp_tensor_info *dy = &call->in[1];
    if (!rp_slot_present(call->out, call->out_count, 0))
        return 0;
    return panels(call, rp_row_count(dy->shape), rp_row_length(call->in[0].shape),
                  rp_row_length(dy->shape));
}

const rp_op_def rp_op_def_linear = {
    .name = "linear", .infer = infer, .vjp = vjp, .flops = flops, .workspace = workspace};

const rp_op_def rp_op_def_linear_backward_input = {.name = "linear_backward_input",
                                                   .flops = flops_backward_input,
                                                   .workspace = workspace,
                                                   .accumulates = 1u};

const rp_op_def rp_op_def_linear_backward_weight = {.name = "linear_backward_weight",
                                                    .flops = flops_backward_weight,
                                                    .workspace = workspace_backward_weight,
                                                    .accumulates = 3u,
                                                    .widens = 3u};
