/* One call of the fused attention as its kernels get it: attention.cu, attention_backward.cu. */
#ifndef REPRISE_OPS_CUDA_ATTENTION_CALL_H
#define REPRISE_OPS_CUDA_ATTENTION_CALL_H

#include "product.h"
#include "random.h"
#include "slots.h"

#define RP_CUDA_LOG2_E 1.44269504088896341f
#define RP_CUDA_LN_2 0.693147180559945309f

typedef struct rp_cuda_attention_job {
    rp_attention_layout l;
    const void *q, *k, *v; /* at their columns; v may be NULL */
    const rp_step_state *step;
    float base2_scale;          /* scores times this are powers of two */
    float factor;               /* dropout: of what is kept */
    uint32_t stream, threshold; /* threshold 0: no dropout */
    bool causal;
    bool vector; /* four elements of q, k and v can be read at once */
} rp_cuda_attention_job;

/* Whether four elements of each head and row lie right for one access. */
static inline bool rp_cuda_vector_rows(const void *tensor, rp_dtype dtype, int64_t stride,
                                       int64_t size) {
    const uintptr_t bytes = 4 * (uintptr_t)rp_dtype_bytes(dtype);
    return (uintptr_t)tensor % bytes == 0 && stride % 4 == 0 && size % 4 == 0;
}

static inline const void *rp_cuda_at_column(const void *tensor, rp_dtype dtype, int64_t column) {
    return tensor != NULL ? (const char *)tensor + column * (int64_t)rp_dtype_bytes(dtype) : NULL;
}

static inline rp_cuda_attention_job rp_cuda_attention_make(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const bool packed = params->attention.packed;
    const rp_tensor_info *q = &launch->call.in[0];
    rp_cuda_attention_job job;
    job.l = rp_attention_layout_of(params, q, packed ? NULL : &launch->call.in[1]);
    job.q = launch->in[0];
    job.k = rp_cuda_at_column(packed ? launch->in[0] : launch->in[1], q->dtype, job.l.k_column);
    job.v = rp_cuda_at_column(packed ? launch->in[0] : launch->in[2], q->dtype, job.l.v_column);
    job.step = launch->step;
    job.base2_scale = job.l.scale * RP_CUDA_LOG2_E;
    job.factor = 1.0f / (1.0f - params->attention.dropout);
    job.stream = params->attention.stream;
    job.threshold = rp_dropout_threshold(params->attention.dropout);
    job.causal = params->attention.causal;
    job.vector = rp_cuda_vector_rows(job.q, q->dtype, job.l.q_stride, job.l.size) &&
                 rp_cuda_vector_rows(job.k, q->dtype, job.l.kv_stride, job.l.size) &&
                 rp_cuda_vector_rows(job.v, q->dtype, job.l.kv_stride, job.l.size);
    return job;
}

/* RP_UNSUPPORTED: a type that there is no kernel for. */
static inline rp_status rp_cuda_attention_check(rp_queue *queue, const char *op, rp_dtype dtype) {
    if (dtype == RP_F32 || dtype == RP_BF16)
        return RP_OK;
    return rp_cuda_fail(queue, RP_UNSUPPORTED, "%s: %s has no CUDA kernel", op,
                        rp_dtype_name(dtype));
}

#endif
