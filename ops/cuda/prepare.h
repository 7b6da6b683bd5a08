/* What the kernels of libraries work out once per shape: which algorithm of cuBLASLt, which plan of
 * cuDNN. It is kept in the queue, so that a step that runs or is recorded neither asks a library
 * nor allocates. */
#ifndef REPRISE_OPS_CUDA_PREPARE_H
#define REPRISE_OPS_CUDA_PREPARE_H

#include "queue.h"

#ifdef __cplusplus
extern "C" {
#endif

/* To be called for each node before its first run, outside of a recording. Cheap when the shape is
 * known; nothing for ops that have nothing to prepare. RP_UNSUPPORTED: no kernel serves the
 * shape. */
rp_status rp_cuda_prepare(rp_queue *queue, rp_op op, const rp_op_call *call);

/* Gives back what rp_cuda_prepare made; before the queue is closed. */
void rp_cuda_unprepare(rp_queue *queue);

#ifdef __cplusplus
}
#endif

#endif
