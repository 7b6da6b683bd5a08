/* The kernels of CUDA, one an op: rp_cuda_<op> checks types (RP_UNSUPPORTED), launches on the
 * queue's stream and ends with rp_cuda_launched. It neither waits nor allocates; its only scratch
 * is launch->workspace. */
#ifndef REPRISE_OPS_CUDA_KERNEL_H
#define REPRISE_OPS_CUDA_KERNEL_H

#include "queue.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RP_CUDA_PROTOTYPE(id, name) rp_status rp_cuda_##name(const rp_launch *launch);
RP_KERNEL_OP_LIST(RP_CUDA_PROTOTYPE)
#undef RP_CUDA_PROTOTYPE

#ifdef __cplusplus
}
#endif

#endif
