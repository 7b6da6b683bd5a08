/* The CUDA backend's queue: a stream and the handles of the libraries. */
#ifndef REPRISE_OPS_CUDA_QUEUE_H
#define REPRISE_OPS_CUDA_QUEUE_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "op.h"

struct rp_queue {
    rp_context *context; /* for memory and messages of the host */
    cudaStream_t stream;
    bool owns_stream;
    int multiprocessors;
    cublasLtHandle_t products;
    /* what prepare.h has worked out; NULL: nothing yet */
    struct rp_cuda_product_plans *product_plans;
    struct rp_cuda_attention_plans *attention_plans;
};

#endif
