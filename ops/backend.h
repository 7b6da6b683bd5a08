/* A backend: where tensors live and which kernels run. One folder and one row in
 * backend.c. */
#ifndef REPRISE_OPS_BACKEND_H
#define REPRISE_OPS_BACKEND_H

#include <reprise/executor.h>

#include "op.h"

/* The device's name; what measured times depend on: device, instruction set and threads; versions
 * of the libraries. */
typedef struct rp_backend_text {
    char device[128], machine[256], libraries[256];
} rp_backend_text;

/* Everything that is done for an executor goes through its queue, in order; a kernel may still run
 * when its call has returned. A backend whose kernels have run when they return has no queue: NULL,
 * and no function that only a queue needs. */
typedef struct rp_backend {
    const char *name;
    int64_t alignment; /* of every value and workspace in the arena; a power of two, 64 or more */

    /* Bytes in the arena where rp_step_state lies for kernels to read; 0: they read the host's. */
    int64_t step_bytes;

    /* Bytes of scratch that one run of the op takes; by types and shapes alone, the same with and
     * without a device. */
    int64_t (*workspace)(rp_op op, const rp_op_call *call);

    /* `stream`: the embedder's own, or NULL for a new one. RP_DEVICE_ERROR: there is no device. */
    rp_status (*open)(rp_context *context, void *stream, rp_queue **queue);
    void (*close)(rp_queue *queue);

    /* Memory of tensors: one block an executor. RP_OUT_OF_MEMORY. `bytes` may be 0. Aligned to 4096
     * less what is needed for the end of the block to touch the guard page behind it (CPU), at
     * least to `alignment`. */
    rp_status (*allocate)(rp_context *context, rp_queue *queue, size_t bytes, void **block);
    void (*release)(rp_queue *queue, void *block, size_t bytes);

    /* Host to tensor memory and back: done when they return; bytes of tensor memory. */
    rp_status (*write)(rp_queue *queue, void *destination, const void *source, size_t bytes);
    rp_status (*read)(rp_queue *queue, void *destination, const void *source, size_t bytes);
    rp_status (*fill)(rp_queue *queue, void *destination, uint8_t byte, size_t bytes);
    bool host_readable;

    /* Waits for all that was given to the queue: the first failure since it was last asked. */
    rp_status (*finish)(rp_queue *queue);

    /* The step's numbers to where kernels read them, in order, without waiting; NULL if step_bytes
     * is 0. */
    rp_status (*write_step)(rp_queue *queue, void *place, const rp_step_state *step);

    /* Once for each node before it runs: has libraries choose what they will do. NULL: there is
     * nothing to choose. */
    rp_status (*prepare)(rp_queue *queue, rp_op op, const rp_op_call *call);

    /* What is given to the queue between begin and end is not run but recorded, to be replayed as a
     * whole. All NULL: nothing can be recorded. */
    rp_status (*record_begin)(rp_queue *queue);
    rp_status (*record_end)(rp_queue *queue, void **recording);
    rp_status (*replay)(rp_queue *queue, void *recording);
    void (*discard)(void *recording);

    /* What the device had to say of the last failure, or NULL. NULL: no device, nothing to say. */
    const char *(*words)(const rp_queue *queue);

    /* Bytes of device memory in use beyond what `allocate` gave, less those when the queue was
     * opened; -1 if unknown. NULL: tensors lie in the process, which knows. */
    int64_t (*outside)(rp_queue *queue);

    /* A name for what follows, for profilers that watch; ranges nest. NULL: nobody can. */
    void (*range_begin)(rp_queue *queue, const char *text);
    void (*range_end)(rp_queue *queue);

    /* Around everything that runs kernels: sets the number of threads of OpenMP and the BLAS, and
     * puts back what was. */
    int (*enter)(int threads);
    void (*leave)(int previous);

    /* Has libraries and runtimes take now what they take for themselves at their first use, so that
     * no run does. Best effort: what cannot be had now is asked for again when it is needed. */
    void (*warm_up)(rp_context *context, rp_queue *queue, int threads);

    /* NULL if nothing can be measured. */
    void (*describe)(int threads, rp_backend_text *text);

    /* Kernels by op for this processor; NULL: runs nothing (null backend). */
    const rp_kernel *(*kernels)(void);
} rp_backend;

/* RP_INVALID_ARGUMENT: there is no such backend. RP_UNSUPPORTED: its library is not there. */
rp_status rp_backend_find(rp_context *context, rp_backend_kind kind, const rp_backend **backend);

/* The same for backends with and without a queue. */
rp_status rp_backend_open(const rp_backend *backend, rp_context *context, void *stream,
                          rp_queue **queue);
void rp_backend_close(const rp_backend *backend, rp_queue *queue);
rp_status rp_backend_finish(const rp_backend *backend, rp_queue *queue);

extern const rp_backend rp_backend_cpu, rp_backend_null;

#endif
