/* Attention as graphs of cuDNN operations, and the plans that cuDNN makes of them. */
#ifndef REPRISE_OPS_CUDA_ATTENTION_GRAPH_H
#define REPRISE_OPS_CUDA_ATTENTION_GRAPH_H

#include <cudnn.h>

#include "product.h"

/* Types are bf16, statistics f32. */
typedef struct rp_cudnn_shape {
    int64_t batch, queries, keys, heads, kv_heads, size;
    int64_t q_stride, kv_stride, o_stride; /* from row to row, in elements */
    bool causal, backward;
    bool statistics; /* forward: the log-sum-exp is wanted */
} rp_cudnn_shape;

/* Tensors that a run binds, by these numbers. */
enum {
    RP_CUDNN_Q = 1,
    RP_CUDNN_K,
    RP_CUDNN_V,
    RP_CUDNN_O,
    RP_CUDNN_LSE,      /* [B, H, T] */
    RP_CUDNN_SCALE,    /* f32 of the host, as the next two */
    RP_CUDNN_LOWEST,   /* -inf; causal only */
    RP_CUDNN_ONE,      /* backward only, as what follows */
    RP_CUDNN_GRADIENT, /* of o */
    RP_CUDNN_DQ,
    RP_CUDNN_DK,
    RP_CUDNN_DV,
    RP_CUDNN_SUMS, /* [B, H, T] f32: scratch */
    RP_CUDNN_VIRTUAL
};

/* Everything that a plan was made of lives as long as it. */
enum { RP_CUDNN_MADE = 192, RP_CUDNN_OPERATIONS = 32 };

typedef struct rp_cudnn_plan {
    cudnnBackendDescriptor_t made[RP_CUDNN_MADE], operations[RP_CUDNN_OPERATIONS], plan;
    int made_count, operation_count;
    int64_t next_virtual;
    int64_t scratch;      /* bytes */
    cudnnStatus_t status; /* of the first call that failed */
} rp_cudnn_plan;

/* `handle`: of a device; or NULL, and then `properties` says what device is meant. RP_UNSUPPORTED:
 * cuDNN has no plan of at most `scratch` bytes. *plan is NULL on failure. */
rp_status rp_cudnn_plan_make(rp_context *context, cudnnHandle_t handle,
                             cudnnBackendDescriptor_t properties, const rp_cudnn_shape *shape,
                             int64_t scratch, rp_cudnn_plan **plan);
void rp_cudnn_plan_destroy(rp_context *context, rp_cudnn_plan *plan);

#endif
