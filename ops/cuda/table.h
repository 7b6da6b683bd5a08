/* What the backend is made of beside its queue: kernels, their scratch, the step's numbers. */
#ifndef REPRISE_OPS_CUDA_TABLE_H
#define REPRISE_OPS_CUDA_TABLE_H

#include "op.h"

#ifdef __cplusplus
extern "C" {
#endif

const rp_kernel *rp_cuda_kernels(void);

/* rp_backend.workspace. */
int64_t rp_cuda_workspace(rp_op op, const rp_op_call *call);

/* rp_backend.write_step. */
rp_status rp_cuda_write_step(rp_queue *queue, void *place, const rp_step_state *step);

#ifdef __cplusplus
}
#endif

#endif
