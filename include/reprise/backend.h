/* Where tensors live and which kernels run. */
#ifndef REPRISE_BACKEND_H
#define REPRISE_BACKEND_H

typedef enum rp_backend_kind {
    RP_BACKEND_CPU,
    /* addresses without memory, kernels that do nothing: planning and overhead at any size. What is
     * read from it is 0 */
    RP_BACKEND_NULL,
    /* an NVIDIA GPU of compute capability 8.0 or more: the calling thread's current device. The
     * backend is in a library of its own, libreprise_cuda.so, which calls that name it load: the
     * file that the environment's REPRISE_CUDA_LIBRARY names, else the one beside this library (or
     * program), else what the loader finds. RP_UNSUPPORTED: it is not there. Programs and plans can
     * be made without a device; an executor cannot (RP_DEVICE_ERROR) */
    RP_BACKEND_CUDA
} rp_backend_kind;

#endif
