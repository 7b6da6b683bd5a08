/* Where tensors live and which kernels run. */
#ifndef REPRISE_BACKEND_H
#define REPRISE_BACKEND_H

typedef enum rp_backend_kind {
    RP_BACKEND_CPU,
    /* addresses without memory, kernels that do nothing: planning and overhead at any size. What is
     * read from it is 0 */
    RP_BACKEND_NULL
} rp_backend_kind;

#endif
