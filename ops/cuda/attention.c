/* Which kernel serves an attention: by types, shapes and what is wanted, never by what a device
 * says. */
#include "attention_call.h"
#include "attention_own.h"
#include "kernel.h"

/* q, k, v (or packed) -> o, lse */
rp_status rp_cuda_attention(const rp_launch *launch) {
    return rp_cuda_attention_own(launch);
}

/* q, k, v (or packed), o, lse, do -> dq, dk, dv (or one packed gradient) */
rp_status rp_cuda_attention_backward(const rp_launch *launch) {
    return rp_cuda_attention_backward_own(launch);
}
