/* The CUDA backend's queue: a stream and the handles of the libraries. */
#ifndef REPRISE_OPS_CUDA_QUEUE_H
#define REPRISE_OPS_CUDA_QUEUE_H

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include "op.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rp_queue {
    rp_context *context; /* for memory and messages of the host */
    cudaStream_t stream;
    bool owns_stream;
    int device, multiprocessors;
    cublasLtHandle_t products;
    /* what prepare.h has worked out; NULL: nothing yet */
    struct rp_cuda_product_plans *product_plans;
    struct rp_cuda_attention_plans *attention_plans;
    int64_t allocated;    /* bytes in blocks of tensors */
    int64_t outside_base; /* device memory in use when the queue was opened */
    rp_status failure;    /* the first since the queue was last asked, RP_OK if none */
    char words[256];      /* of the failure */
};

/* RP_OK for cudaSuccess; else RP_OUT_OF_MEMORY or RP_DEVICE_ERROR, kept as the queue's failure with
 * CUDA's words and what it was about. */
rp_status rp_cuda_status(rp_queue *queue, cudaError_t error, const char *what);

/* The same for what a library or a kernel's function found: the status with its words. */
rp_status rp_cuda_fail(rp_queue *queue, rp_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What a kernel's function ends with. */
static inline rp_status rp_cuda_launched(const rp_launch *launch) {
    const cudaError_t error = cudaGetLastError();
    return error == cudaSuccess ? RP_OK : rp_cuda_status(launch->queue, error, "launch");
}

#ifdef __cplusplus
}
#endif

#endif
