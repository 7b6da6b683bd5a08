/* Scratch of attention on CUDA, by types and shapes alone: what workspace.c counts and kernels
 * use. */
#ifndef REPRISE_OPS_CUDA_ATTENTION_SIZES_H
#define REPRISE_OPS_CUDA_ATTENTION_SIZES_H

#include "define.h"
#include "product.h"

static inline rp_attention_layout rp_cuda_attention_layout(const rp_op_call *call) {
    return rp_attention_layout_of(call->params, &call->in[0],
                                  call->params->attention.packed ? NULL : &call->in[1]);
}

static inline int64_t rp_cuda_attention_scratch(const rp_op_call *call) {
    (void)call;
    return 0;
}

/* delta [B, H, T] f32, unless only dv is wanted. */
static inline int64_t rp_cuda_attention_backward_scratch(const rp_op_call *call) {
    const rp_attention_layout l = rp_cuda_attention_layout(call);
    if (!rp_slot_present(call->in, call->in_count, 3))
        return 0;
    return rp_saturated_multiply(l.batch * l.heads, l.queries * (int64_t)sizeof(float));
}

#endif
