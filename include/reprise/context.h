/* The context: memory, threads and the last message. Every other object belongs to one.
 *
 * Thread safety: one context in one thread at a time; any number of contexts in a process, which
 * share nothing.
 */
#ifndef REPRISE_CONTEXT_H
#define REPRISE_CONTEXT_H

#include <stddef.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rp_context rp_context;

/* Host memory of the library itself (tapes, graphs, plans: not tensors) comes from one function.
 *   resize(user, NULL, n)   n > 0 fresh bytes, aligned for any type, or NULL
 *   resize(user, p, n)      p grown or shrunk to n > 0 bytes, contents kept; NULL leaves p as it
 *                           was
 *   resize(user, p, 0)      frees p (which may be NULL); the result is ignored */
typedef struct rp_allocator {
    void *(*resize)(void *user, void *block, size_t bytes);
    void *user;
} rp_allocator;

/* An OpenMP runtime that cannot start its threads ends the process, so there is an upper end. */
#define RP_MAX_THREADS 1024

typedef struct rp_context_options {
    size_t struct_size;     /* sizeof(rp_context_options) */
    rp_allocator allocator; /* {NULL, NULL}: realloc and free */
    /* of the CPU kernels and the BLAS, at most RP_MAX_THREADS; 0: every core the process may use */
    int threads;
} rp_context_options;

#define RP_CONTEXT_OPTIONS                                                                         \
    { sizeof(rp_context_options), {NULL, NULL}, 0 }

/* `options` may be NULL. `*context` is NULL on failure (RP_INVALID_ARGUMENT, RP_OUT_OF_MEMORY). */
RP_API rp_status rp_context_create(const rp_context_options *options, rp_context **context);

/* Destroys what is left of the context's objects too, the newest first: a program that is done, or
 * that has failed, needs no other call. NULL is ignored. */
RP_API void rp_context_destroy(rp_context *context);

/* What the last failed call in this context had to say; "" before the first. Valid until the next
 * call that fails. */
RP_API const char *rp_context_message(const rp_context *context);

/* How many threads the kernels use, at least 1. */
RP_API int rp_context_threads(const rp_context *context);

#ifdef __cplusplus
}
#endif

#endif
