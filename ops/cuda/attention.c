/* Which kernel serves an attention: cuDNN's or our own, as attention_sizes.h says. */
#include "attention_own.h"
#include "kernel.h"
#ifdef RP_CUDA_CUDNN
#include "attention_cudnn.h"
#endif

/* q, k, v (or packed) -> o, lse */
rp_status rp_cuda_attention(const rp_launch *launch) {
#ifdef RP_CUDA_CUDNN
    bool served = false;
    const rp_status status = rp_cuda_attention_cudnn(launch, &served);
    if (status != RP_OK || served)
        return status;
#endif
    return rp_cuda_attention_own(launch);
}

/* q, k, v (or packed), o, lse, do -> dq, dk, dv (or one packed gradient) */
rp_status rp_cuda_attention_backward(const rp_launch *launch) {
#ifdef RP_CUDA_CUDNN
    bool served = false;
    const rp_status status = rp_cuda_attention_backward_cudnn(launch, &served);
    if (status != RP_OK || served)
        return status;
#endif
    return rp_cuda_attention_backward_own(launch);
}
