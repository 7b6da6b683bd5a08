/* The step's numbers, to where kernels read them. They travel as the argument of a kernel: a copy
 * from the host's memory would have to wait for what is in the queue. */
#include "device.h"
#include "table.h"

static __global__ void __launch_bounds__(32)
    write_step(rp_step_state step, rp_step_state *__restrict__ place) {
    if (threadIdx.x == 0)
        *place = step;
}

extern "C" rp_status rp_cuda_write_step(rp_queue *queue, void *place, const rp_step_state *step) {
    RP_CUDA_LAUNCH(write_step, 1, 32, 0, queue->stream, *step, static_cast<rp_step_state *>(place));
    return rp_cuda_status(queue, cudaGetLastError(), "the step's numbers");
}
