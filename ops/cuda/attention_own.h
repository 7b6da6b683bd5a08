/* Our own fused attention (attention.cu, attention_backward.cu): f32 and bf16, heads of any
 * size, dropout, any layout. */
#ifndef REPRISE_OPS_CUDA_ATTENTION_OWN_H
#define REPRISE_OPS_CUDA_ATTENTION_OWN_H

#include "op.h"

#ifdef __cplusplus
extern "C" {
#endif

rp_status rp_cuda_attention_own(const rp_launch *launch);
rp_status rp_cuda_attention_backward_own(const rp_launch *launch);

#ifdef __cplusplus
}
#endif

#endif
