/* The backends there are, and what those without a queue leave out. */
#include <stdio.h>

#include "backend.h"
#include "backend_load.h"

/* Linked in, or found in a library when it is asked for. */
static const struct {
    const rp_backend *backend;
    const char *file, *variable, *entry;
} backends[] = {
    [RP_BACKEND_CPU] = {.backend = &rp_backend_cpu},
    [RP_BACKEND_NULL] = {.backend = &rp_backend_null},
    [RP_BACKEND_CUDA] = {.file = "libreprise_cuda.so",
                         .variable = "REPRISE_CUDA_LIBRARY",
                         .entry = "rp_cuda_backend"},
};

rp_status rp_backend_find(rp_context *context, rp_backend_kind kind, const rp_backend **backend) {
    if ((size_t)kind >= sizeof backends / sizeof backends[0])
        return rp_fail(context, RP_INVALID_ARGUMENT, "%d is no backend", (int)kind);
    *backend = backends[kind].backend;
    if (*backend != NULL)
        return RP_OK;
    return rp_backend_load(context, backends[kind].file, backends[kind].variable,
                           backends[kind].entry, backend);
}

rp_status rp_backend_open(const rp_backend *backend, rp_context *context, void *stream,
                          rp_queue **queue) {
    *queue = NULL;
    return backend->open != NULL ? backend->open(context, stream, queue) : RP_OK;
}

void rp_backend_close(const rp_backend *backend, rp_queue *queue) {
    if (queue != NULL)
        backend->close(queue);
}

rp_status rp_backend_describe(rp_context *context, rp_backend_kind kind, char *name, size_t bytes) {
    if (context == NULL)
        return RP_INVALID_ARGUMENT;
    const rp_backend *backend = NULL;
    rp_queue *queue = NULL;
    rp_status status = rp_backend_find(context, kind, &backend);
    if (status == RP_OK)
        status = rp_backend_open(backend, context, NULL, &queue);
    if (status != RP_OK)
        return status;
    rp_backend_close(backend, queue);
    rp_backend_text text = {.device = "null"};
    if (backend->describe != NULL)
        backend->describe(rp_context_threads(context), &text);
    if (name != NULL && bytes > 0)
        snprintf(name, bytes, "%s", text.device);
    return RP_OK;
}

rp_status rp_backend_finish(const rp_backend *backend, rp_queue *queue) {
    return backend->finish != NULL ? backend->finish(queue) : RP_OK;
}
