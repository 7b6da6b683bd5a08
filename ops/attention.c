/* attention: softmax(scale q k^T) v for each head, fused, and its gradient. */
#include "product.h"

enum { Q, K };

/* q [B, T, H D], k and v [B, T', H' D], or q k v packed [B, T, (H + 2 H') D] -> o [B, T, H D],
 * lse [B, H, T] f32: the logarithm of the sum of the exponentials of a row's scores, all that
 * backward needs to make the row again */
static rp_status infer(rp_context *context, rp_op_call *call) {
    char text[RP_SHAPE_TEXT];
    rp_attention_layout l;
    if (call->in_count < 3 && !call->params->attention.packed)
        return rp_fail(context, RP_INVALID_ARGUMENT, "attention: q, k and v were expected");
    const rp_status status = rp_attention_check(context, "attention", call, &l);
    if (status != RP_OK)
        return status;
    call->out[0] = (rp_tensor_info){call->in[Q].dtype, RP_SHAPE(l.batch, l.queries, l.o_stride)};
    call->out[1] = (rp_tensor_info){RP_F32, RP_SHAPE(l.batch, l.heads, l.queries)};
    call->out_count = 2;
    if (rp_shape_count(call->out[0].shape) < 0 || rp_shape_count(call->out[1].shape) < 0)
        return rp_fail(context, RP_BAD_SHAPE, "attention: q is %s: the result is too large",
                       rp_tensor_text(&call->in[0], text));
    return RP_OK;
}

/* The gradient of v alone needs the probabilities (q, k, lse) but neither v nor o. */
static rp_status vjp(rp_vjp *vjp) {
    const bool packed = vjp->call->params->attention.packed;
    if (vjp->gradient[0] == RP_NONE)
        return RP_OK;
    const bool of_q = vjp->wanted[0], of_k = !packed && vjp->wanted[1],
               of_v = !packed && vjp->wanted[2];
    const bool scores = of_q || of_k;
    if (!scores && !of_v)
        return RP_OK;
    const uint32_t in[] = {vjp->in[0],
                           packed ? RP_NONE : vjp->in[1],
                           packed || !scores ? RP_NONE : vjp->in[2],
                           scores ? vjp->out[0] : RP_NONE,
                           vjp->out[1],
                           vjp->gradient[0]};
    rp_vjp_output out[] = {{.gradient_of = of_q ? 0 : RP_VJP_ABSENT},
                           {.gradient_of = of_k ? 1 : RP_VJP_ABSENT},
                           {.gradient_of = of_v ? 2 : RP_VJP_ABSENT}};
    return vjp->emit(vjp, RP_OP_ATTENTION_BACKWARD, vjp->call->params, in, 6, out, 3);
}

/* Of one product of the shape of q k^T, over what is visible: half if causal. */
static int64_t product_flops(const rp_op_call *call, const rp_attention_layout *l) {
    int64_t sum = 0;
    if (!rp_checked_multiply(l->batch, l->queries, &sum) ||
        !rp_checked_multiply(sum, l->keys, &sum) ||
        !rp_checked_multiply(sum, l->heads * l->size, &sum) ||
        !rp_checked_multiply(sum, call->params->attention.causal ? 1 : 2, &sum))
        return INT64_MAX;
    return sum;
}

static int64_t flops(const rp_op_call *call) {
    const rp_attention_layout l = rp_attention_layout_of(call->params, &call->in[Q], &call->in[K]);
    int64_t sum = 0;
    return rp_checked_multiply(2, product_flops(call, &l), &sum) ? sum : INT64_MAX;
}

/* q, k, v, o, lse, do -> dq, dk, dv (packed: one tensor). The scores are made again; then one
 * product for dv, one for the gradient of the probabilities, one each for dq and dk. */
static int64_t flops_backward(const rp_op_call *call) {
    const rp_attention_layout l = rp_attention_layout_of(call->params, &call->in[Q], &call->in[K]);
    const bool packed = call->params->attention.packed;
    const bool of_q = rp_slot_present(call->out, call->out_count, 0);
    const bool of_k = rp_slot_present(call->out, call->out_count, 1);
    const bool of_v = rp_slot_present(call->out, call->out_count, 2);
    const int products = packed ? 5 : 1 + of_v + (of_q || of_k) + of_q + of_k;
    int64_t sum = 0;
    return rp_checked_multiply(products, product_flops(call, &l), &sum) ? sum : INT64_MAX;
}

static int64_t bytes_of(int64_t sets, int64_t floats) {
    return rp_saturated_multiply(rp_saturated_multiply(sets, floats), (int64_t)sizeof(float));
}

static int64_t workspace(const rp_op_call *call) {
    const rp_attention_layout l = rp_attention_layout_of(call->params, &call->in[Q], &call->in[K]);
    const int64_t tiles = rp_call_has_bf16(call) ? RP_ATTENTION_BF16_TILES : RP_ATTENTION_TILES;
    return bytes_of(l.batch * l.heads, tiles * rp_attention_workspace_tile(l.size));
}

static int64_t workspace_backward(const rp_op_call *call) {
    const rp_attention_layout l = rp_attention_layout_of(call->params, &call->in[Q], &call->in[K]);
    const bool bf16 = rp_call_has_bf16(call);
    const int64_t tiles = bf16 ? RP_ATTENTION_BACKWARD_BF16_TILES : RP_ATTENTION_BACKWARD_TILES;
    const int64_t floats =
        rp_saturated_add(tiles * rp_attention_workspace_tile(l.size), rp_attention_sums(&l, bf16));
    return bytes_of(rp_attention_cut(&l, bf16).count, floats);
}

const rp_op_def rp_op_def_attention = {
    .name = "attention", .infer = infer, .vjp = vjp, .flops = flops, .workspace = workspace};

const rp_op_def rp_op_def_attention_backward = {.name = "attention_backward",
                                                .flops = flops_backward,
                                                .workspace = workspace_backward,
                                                .accumulates = 7u};
