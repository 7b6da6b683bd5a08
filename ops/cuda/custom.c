/* The caller's ops: their callbacks take memory of the host. */
#include "kernel.h"

static rp_status refuse(const rp_launch *launch) {
    return rp_cuda_fail(launch->queue, RP_UNSUPPORTED,
                        "%s: the ops of a caller run on the CPU only",
                        launch->call.params->custom.op->name);
}

rp_status rp_cuda_custom(const rp_launch *launch) {
    return refuse(launch);
}

rp_status rp_cuda_custom_backward(const rp_launch *launch) {
    return refuse(launch);
}
