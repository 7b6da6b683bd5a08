/* Which kernel serves an attention on CUDA, and its scratch: by types, shapes and what is wanted,
 * never by what a device says. What workspace.c counts and kernels use. */
#ifndef REPRISE_OPS_CUDA_ATTENTION_SIZES_H
#define REPRISE_OPS_CUDA_ATTENTION_SIZES_H

#include "define.h"
#include "product.h"

static inline rp_attention_layout rp_cuda_attention_layout(const rp_op_call *call) {
    return rp_attention_layout_of(call->params, &call->in[0],
                                  call->params->attention.packed ? NULL : &call->in[1]);
}

/* ---- Our own kernels ------------------------------------------------------------------------- */

/* delta [B, H, T] f32, unless only dv is wanted. */
static inline int64_t rp_cuda_attention_own_backward_scratch(const rp_op_call *call) {
    const rp_attention_layout l = rp_cuda_attention_layout(call);
    if (!rp_slot_present(call->in, call->in_count, 3))
        return 0;
    return rp_saturated_multiply(l.batch * l.heads, l.queries * (int64_t)sizeof(float));
}

/* ---- cuDNN ----------------------------------------------------------------------------------- */

#define RP_CUDNN_SCRATCH ((int64_t)256 << 20)

static inline int64_t rp_round_up(int64_t x, int64_t step) {
    const int64_t above = x % step;
    return above == 0 ? x : rp_saturated_add(x, step - above);
}

/* What a forward plan takes at most. */
enum { RP_CUDNN_FORWARD_SCRATCH = 256 };

/* What a plan of the deterministic backward takes for `batch` of the layout: the gradients of the
 * scores in bf16, in tiles of 64 queries and 64 or (sm_90) 128 keys; where heads share keys, dk and
 * dv of all of them; tests/cuda/test_cudnn_plans.c compares this with the plans of cuDNN. */
static inline int64_t rp_cudnn_backward_plan_scratch(const rp_attention_layout *l, int64_t batch) {
    const int64_t heads = rp_saturated_multiply(batch, l->heads);
    const int64_t scores =
        rp_saturated_multiply(rp_round_up(l->queries, 64), 2 * rp_round_up(l->keys, 128));
    const int64_t shared = rp_round_up(rp_saturated_multiply(heads, 2 * l->size * l->keys), 128);
    const int64_t bytes = rp_saturated_multiply(heads, scores);
    return rp_saturated_add(
        bytes, l->group > 1 ? rp_saturated_add(shared, rp_saturated_add(shared, 256)) : 256);
}

/* The sums of do o, f32, which lie before it. */
static inline int64_t rp_cudnn_sums_scratch(const rp_attention_layout *l, int64_t batch) {
    return rp_round_up(rp_saturated_multiply(rp_saturated_multiply(batch, l->heads),
                                             l->queries * (int64_t)sizeof(float)),
                       256);
}

/* The gradients of the scores grow with the square of the length, so backward goes through the
 * batch in equal parts: the largest whose scratch stays below a cap, one if none does. */
static inline int64_t rp_cudnn_backward_part(const rp_attention_layout *l) {
    for (int64_t parts = 1; parts < l->batch; parts++)
        if (l->batch % parts == 0 &&
            rp_cudnn_backward_plan_scratch(l, l->batch / parts) <= RP_CUDNN_SCRATCH)
            return l->batch / parts;
    return 1;
}

/* cuDNN addresses tensors in 32 bits here and there. */
static inline bool rp_cudnn_countable(const rp_attention_layout *l, int64_t batch) {
    const int64_t stride = l->q_stride > l->kv_stride ? l->q_stride : l->kv_stride;
    const int64_t rows = l->queries > l->keys ? l->queries : l->keys;
    return rp_saturated_multiply(rp_saturated_multiply(batch, rows), stride) <= INT32_MAX;
}

/* bf16; heads of a multiple of 8 up to 128 elements (its backward takes more on some devices
 * only); no dropout, whose mask would be another; causal only where the mask begins in the corner.
 * A score must be visible to every query, and there must be one. */
static inline bool rp_cudnn_serves(const rp_op_call *call) {
    const rp_attention_layout l = rp_cuda_attention_layout(call);
    if (call->in[0].dtype != RP_BF16 || call->params->attention.dropout > 0.0f)
        return false;
    if (l.size % 8 != 0 || l.size > 128 || l.batch == 0 || l.queries == 0 || l.keys == 0)
        return false;
    return !call->params->attention.causal || l.queries == l.keys;
}

static inline bool rp_cudnn_serves_forward(const rp_op_call *call) {
    if (!rp_cudnn_serves(call))
        return false;
    const rp_attention_layout l = rp_cuda_attention_layout(call);
    return rp_cudnn_countable(&l, l.batch);
}

/* All gradients at once. Statistics of each part of the batch begin at 16 bytes. */
static inline bool rp_cudnn_serves_backward(const rp_op_call *call) {
    const size_t gradients = call->params->attention.packed ? 1 : 3;
    for (size_t i = 0; i < gradients; i++)
        if (!rp_slot_present(call->out, call->out_count, i) || call->out[i].dtype != RP_BF16)
            return false;
    if (!rp_cudnn_serves(call))
        return false;
    const rp_attention_layout l = rp_cuda_attention_layout(call);
    const int64_t part = rp_cudnn_backward_part(&l);
    return rp_cudnn_countable(&l, part) && (part == l.batch || part * l.heads * l.queries % 4 == 0);
}

static inline int64_t rp_cudnn_backward_scratch(const rp_op_call *call) {
    const rp_attention_layout l = rp_cuda_attention_layout(call);
    const int64_t part = rp_cudnn_backward_part(&l);
    return rp_saturated_add(rp_cudnn_sums_scratch(&l, part),
                            rp_cudnn_backward_plan_scratch(&l, part));
}

/* ---- Both ------------------------------------------------------------------------------------ */

static inline int64_t rp_cuda_attention_scratch(const rp_op_call *call) {
#ifdef RP_CUDA_CUDNN
    if (rp_cudnn_serves_forward(call))
        return RP_CUDNN_FORWARD_SCRATCH;
#endif
    (void)call;
    return 0;
}

static inline int64_t rp_cuda_attention_backward_scratch(const rp_op_call *call) {
    const int64_t own = rp_cuda_attention_own_backward_scratch(call);
#ifdef RP_CUDA_CUDNN
    if (rp_cudnn_serves_backward(call)) {
        const int64_t bytes = rp_cudnn_backward_scratch(call);
        return own > bytes ? own : bytes;
    }
#endif
    return own;
}

#endif
