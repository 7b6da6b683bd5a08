/* Attention in separate ops, so that a plan can keep or drop each: attention_scores, then softmax,
 * dropout, then attention_values.
 *
 * Packed q k v: both ends contribute to one gradient tensor. Backward runs attention_values
 * first; without something to add to, it writes the columns of v and zeros the others, and
 * attention_scores_backward then adds the columns of q and k in place (both honour `accumulate`,
 * and touch no foreign column when that is the output itself). So each element is added to at
 * most once, in a fixed order, and no separate addition runs.
 *
 * Messages speak of attention_unfused, which is what the caller recorded. */
#include "define.h"
#include "product.h"

static int64_t product_flops(const rp_tensor_info *scores, int64_t size) {
    int64_t sum = rp_shape_count(scores->shape);
    if (!rp_checked_multiply(sum, size, &sum) || !rp_checked_multiply(sum, 2, &sum))
        return INT64_MAX;
    return sum;
}

static int present_outputs(const rp_op_call *call) {
    return (int)rp_slot_present(call->out, call->out_count, 0) +
           (int)rp_slot_present(call->out, call->out_count, 1);
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* q [B, T, H D], k [B, T', H' D], or packed -> scale q k^T [B, H, T, T']. All of it is written,
 * also what a causal softmax never reads: a replay is compared bit for bit. */
static rp_status infer_scores(rp_context *context, rp_op_call *call) {
    char text[RP_SHAPE_TEXT];
    rp_attention_layout l;
    if (call->in_count < 2 && !call->params->attention.packed)
        return rp_fail(context, RP_INVALID_ARGUMENT, "attention_unfused: q and k were expected");
    rp_status status = rp_attention_check(context, "attention_unfused", call, &l);
    if (status == RP_OK)
        status =
            rp_product_check_blas(context, "attention_unfused", "the number of queries", l.queries);
    if (status == RP_OK)
        status = rp_product_check_blas(context, "attention_unfused", "the number of keys", l.keys);
    if (status != RP_OK)
        return status;
    call->out[0] =
        (rp_tensor_info){call->in[0].dtype, RP_SHAPE(l.batch, l.heads, l.queries, l.keys)};
    call->out_count = 1;
    int64_t bytes = 0;
    if (!rp_checked_multiply(rp_shape_count(call->out[0].shape), sizeof(float), &bytes))
        return rp_fail(context, RP_BAD_SHAPE, "attention_unfused: q is %s: the scores are too many",
                       rp_tensor_text(&call->in[0], text));
    return RP_OK;
}

/* dq reads k and dk reads q. */
static rp_status vjp_scores(rp_vjp *vjp) {
    const bool packed = vjp->call->params->attention.packed;
    const bool of_q = vjp->wanted[0], of_k = !packed && vjp->wanted[1];
    if (vjp->gradient[0] == RP_NONE || (!of_q && !of_k))
        return RP_OK;
    const uint32_t in[] = {packed || of_k ? vjp->in[0] : RP_NONE,
                           !packed && of_q ? vjp->in[1] : RP_NONE, vjp->gradient[0]};
    rp_vjp_output out[] = {{.gradient_of = of_q ? 0 : RP_VJP_ABSENT},
                           {.gradient_of = of_k ? 1 : RP_VJP_ABSENT}};
    return vjp->emit(vjp, RP_OP_ATTENTION_SCORES_BACKWARD, vjp->call->params, in, 3, out, 2);
}

static int64_t flops_scores(const rp_op_call *call) {
    const rp_attention_layout l = rp_attention_layout_of(call->params, &call->in[0], &call->in[1]);
    const rp_tensor_info scores = {RP_F32, RP_SHAPE(l.batch, l.heads, l.queries, l.keys)};
    return product_flops(&scores, l.size);
}

/* q (absent if dk is not wanted), k (absent if dq is not wanted), dscores -> dq, dk; packed: q k
 * v, absent, dscores -> the gradient of the three, absent */
static int64_t flops_scores_backward(const rp_op_call *call) {
    const bool has_q = rp_slot_present(call->in, call->in_count, 0);
    const int64_t size = has_q ? rp_attention_size_of_q(call->params, &call->in[0])
                               : rp_attention_size_of_kv(call->params, &call->in[1]);
    const int products = call->params->attention.packed ? 2 : present_outputs(call);
    int64_t sum = 0;
    return rp_checked_multiply(products, product_flops(&call->in[2], size), &sum) ? sum : INT64_MAX;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* p [B, H, T, T'], v [B, T', H' D] or packed [B, T, (H + 2 H') D] -> o [B, T, H D] */
static rp_status infer_values(rp_context *context, rp_op_call *call) {
    char p_text[RP_SHAPE_TEXT], v_text[RP_SHAPE_TEXT];
    if (!rp_slot_present(call->in, call->in_count, 0) ||
        !rp_slot_present(call->in, call->in_count, 1))
        return rp_fail(context, RP_INVALID_ARGUMENT,
                       "attention_unfused: probabilities and values were expected");
    const rp_tensor_info *p = &call->in[0], *v = &call->in[1];
    const rp_op_params *params = call->params;
    const int64_t heads = params->attention.heads, kv_heads = rp_attention_kv_heads(params);
    rp_status status = rp_attention_check_params(context, "attention_unfused", params);
    if (status == RP_OK)
        status = rp_check_floating(context, "attention_unfused", "p", p, p);
    if (status == RP_OK)
        status = rp_check_floating(context, "attention_unfused", "v", v, p);
    if (status != RP_OK)
        return status;
    const bool packed = params->attention.packed;
    const int64_t parts = packed ? heads + 2 * kv_heads : kv_heads;
    if (p->shape.rank != 4 || v->shape.rank != 3 || p->shape.dims[0] != v->shape.dims[0] ||
        p->shape.dims[1] != heads || p->shape.dims[3] != v->shape.dims[1] ||
        v->shape.dims[2] % parts != 0 || v->shape.dims[2] == 0 ||
        (packed && p->shape.dims[2] != p->shape.dims[3]))
        return rp_fail(context, RP_BAD_SHAPE,
                       "attention_unfused: p is %s, v is %s with %lld of %lld heads: p [batch, "
                       "heads, queries, keys] "
                       "and v [batch, keys, %lld D] were expected",
                       rp_tensor_text(p, p_text), rp_tensor_text(v, v_text), (long long)kv_heads,
                       (long long)heads, (long long)parts);
    const int64_t size = rp_attention_size_of_kv(params, v);
    call->out[0] =
        (rp_tensor_info){p->dtype, RP_SHAPE(p->shape.dims[0], p->shape.dims[2], heads * size)};
    call->out_count = 1;
    if (rp_shape_count(call->out[0].shape) < 0)
        return rp_fail(context, RP_BAD_SHAPE,
                       "attention_unfused: p is %s, v is %s: the result is too large",
                       rp_tensor_text(p, p_text), rp_tensor_text(v, v_text));
    status = rp_product_check_blas(context, "attention_unfused", "the width", heads * size);
    if (status == RP_OK)
        status =
            rp_product_check_blas(context, "attention_unfused", "the width of v", v->shape.dims[2]);
    if (status == RP_OK)
        status = rp_product_check_blas(context, "attention_unfused", "the number of queries",
                                       p->shape.dims[2]);
    if (status == RP_OK)
        status = rp_product_check_blas(context, "attention_unfused", "the number of keys",
                                       p->shape.dims[3]);
    return status;
}

/* dp reads v and dv reads p. */
static rp_status vjp_values(rp_vjp *vjp) {
    if (vjp->gradient[0] == RP_NONE || (!vjp->wanted[0] && !vjp->wanted[1]))
        return RP_OK;
    const uint32_t in[] = {vjp->wanted[1] ? vjp->in[0] : RP_NONE,
                           vjp->wanted[0] ? vjp->in[1] : RP_NONE, vjp->gradient[0]};
    rp_vjp_output out[] = {{.gradient_of = vjp->wanted[0] ? 0 : RP_VJP_ABSENT},
                           {.gradient_of = vjp->wanted[1] ? 1 : RP_VJP_ABSENT}};
    return vjp->emit(vjp, RP_OP_ATTENTION_VALUES_BACKWARD, vjp->call->params, in, 3, out, 2);
}

static int64_t flops_values(const rp_op_call *call) {
    return product_flops(&call->in[0], rp_attention_size_of_kv(call->params, &call->in[1]));
}

/* p (absent if dv is not wanted), v or packed (absent if dp is not wanted), do -> dp [B, H, T,
 * T'], dv or the gradient of the packed tensor */
static int64_t flops_values_backward(const rp_op_call *call) {
    const bool has_p = rp_slot_present(call->in, call->in_count, 0);
    const int64_t size = call->in[2].shape.dims[2] / call->params->attention.heads;
    int64_t sum = 0;
    return rp_checked_multiply(present_outputs(call),
                               product_flops(has_p ? &call->in[0] : &call->out[0], size), &sum)
               ? sum
               : INT64_MAX;
}

/* ---- Workspaces: panels of floats, where something is bf16 ---------------------------------- */

static int64_t panels(const rp_op_call *call, const rp_tensor_info *scores, int64_t size,
                      bool backward) {
    const int64_t *dims = scores->shape.dims;
    const int64_t heads = backward ? rp_attention_kv_heads(call->params) : dims[1];
    const int64_t count = dims[0] * heads;
    return rp_call_has_bf16(call)
               ? rp_panels_bytes(dims[2], dims[3], size, count, count >= RP_HEADS_MANY)
               : 0;
}

static int64_t workspace_scores(const rp_op_call *call) {
    return panels(call, &call->out[0], rp_attention_size_of_q(call->params, &call->in[0]), false);
}

static int64_t workspace_scores_backward(const rp_op_call *call) {
    const bool has_q = rp_slot_present(call->in, call->in_count, 0);
    return panels(call, &call->in[2],
                  has_q ? rp_attention_size_of_q(call->params, &call->in[0])
                        : rp_attention_size_of_kv(call->params, &call->in[1]),
                  true);
}

static int64_t workspace_values(const rp_op_call *call) {
    return panels(call, &call->in[0], rp_attention_size_of_kv(call->params, &call->in[1]), false);
}

static int64_t workspace_values_backward(const rp_op_call *call) {
    const bool has_p = rp_slot_present(call->in, call->in_count, 0);
    return panels(call, has_p ? &call->in[0] : &call->out[0],
                  call->in[2].shape.dims[2] / call->params->attention.heads, true);
}

const rp_op_def rp_op_def_attention_scores = {.name = "attention_scores",
                                              .infer = infer_scores,
                                              .vjp = vjp_scores,
                                              .flops = flops_scores,
                                              .workspace = workspace_scores};

const rp_op_def rp_op_def_attention_scores_backward = {.name = "attention_scores_backward",
                                                       .flops = flops_scores_backward,
                                                       .workspace = workspace_scores_backward,
                                                       .accumulates = 3u};

const rp_op_def rp_op_def_attention_values = {.name = "attention_values",
                                              .infer = infer_values,
                                              .vjp = vjp_values,
                                              .flops = flops_values,
                                              .workspace = workspace_values};

const rp_op_def rp_op_def_attention_values_backward = {.name = "attention_values_backward",
                                                       .flops = flops_values_backward,
                                                       .workspace = workspace_values_backward,
                                                       .accumulates = 2u};
