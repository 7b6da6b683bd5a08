/* Where tensors live and which kernels run. */
#ifndef REPRISE_BACKEND_H
#define REPRISE_BACKEND_H

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rp_backend_kind {
    RP_BACKEND_CPU,
    /* addresses without memory, kernels that do nothing: planning and overhead at any size. What is
     * read from it is 0 */
    RP_BACKEND_NULL,
    /* an NVIDIA GPU of compute capability 8.0 or more: the calling thread's current device when the
     * executor is created, which has to be current in every later call with that executor, too. The
     * backend is in a library of its own, libreprise_cuda.so, which calls that name it load: the
     * file that the environment's REPRISE_CUDA_LIBRARY names, else the one beside this library (or
     * program), else what the loader finds. RP_UNSUPPORTED: it is not there. Programs and plans can
     * be made without a device; an executor cannot (RP_DEVICE_ERROR) */
    RP_BACKEND_CUDA
} rp_backend_kind;

/* Whether tensors can live there now, and the name of what they would live on, cut to `bytes`;
 * "null" for the null backend. `name` may be NULL.
 *   RP_UNSUPPORTED   the backend's library is not there; the message says where it was looked for
 *   RP_DEVICE_ERROR  there is no device, or none that serves */
RP_API rp_status rp_backend_describe(rp_context *context, rp_backend_kind kind, char *name,
                                     size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
