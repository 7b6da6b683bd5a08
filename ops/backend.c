/* The backends there are, and what those without a queue leave out. */
#include "backend.h"

static const rp_backend *const backends[] = {
    [RP_BACKEND_CPU] = &rp_backend_cpu,
    [RP_BACKEND_NULL] = &rp_backend_null,
};

rp_status rp_backend_find(rp_context *context, rp_backend_kind kind, const rp_backend **backend) {
    if ((size_t)kind >= sizeof backends / sizeof backends[0])
        return rp_fail(context, RP_INVALID_ARGUMENT, "%d is no backend", (int)kind);
    *backend = backends[kind];
    return RP_OK;
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

rp_status rp_backend_finish(const rp_backend *backend, rp_queue *queue) {
    return backend->finish != NULL ? backend->finish(queue) : RP_OK;
}
