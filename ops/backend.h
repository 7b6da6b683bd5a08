/* A backend: where tensors live and which kernels run. One folder and one row in
 * rp_backend_list. */
#ifndef REPRISE_OPS_BACKEND_H
#define REPRISE_OPS_BACKEND_H

#include <reprise/executor.h>

#include "op.h"

/* What measured times depend on: device, instruction set and threads; versions of the libraries. */
typedef struct rp_backend_text {
    char machine[256], libraries[256];
} rp_backend_text;

typedef struct rp_backend {
    const char *name;
    int64_t alignment; /* of every value and workspace in the arena */

    /* Memory of tensors: one block an executor. RP_OUT_OF_MEMORY. `bytes` may be 0. Aligned to 4096
     * less what is needed for the end of the block to touch the guard page behind it (CPU), at
     * least to `alignment`. */
    rp_status (*allocate)(rp_context *context, size_t bytes, void **block);
    void (*release)(void *block, size_t bytes);

    void (*write)(void *destination, const void *source, size_t bytes); /* host to tensor memory */
    void (*read)(void *destination, const void *source, size_t bytes);  /* tensor memory to host */
    void (*fill)(void *destination, uint8_t byte, size_t bytes);
    bool host_readable;

    /* Around everything that runs kernels: sets the number of threads of OpenMP and the BLAS, and
     * puts back what was. */
    int (*enter)(int threads);
    void (*leave)(int previous);

    /* Has libraries and runtimes take now what they take for themselves at their first use, so that
     * no run does. Best effort: what cannot be had now is asked for again when it is needed. */
    void (*warm_up)(rp_context *context, int threads);

    /* NULL if nothing can be measured. */
    void (*describe)(int threads, rp_backend_text *text);

    /* Kernels by op for this processor; NULL: runs nothing (null backend). */
    const rp_kernel *(*kernels)(void);
} rp_backend;

const rp_backend *rp_backend_get(rp_backend_kind kind);

extern const rp_backend rp_backend_cpu, rp_backend_null;

#endif
