/* The null backend: addresses without memory and no kernels. Plans of any size run on it, to be
 * looked at or timed. */
#include <string.h>

#include "backend.h"

enum { ALIGNMENT = 64 };

/* Not NULL, and far from the end of the address space for any offset of 63 bits. Nobody reads it.
 */
static rp_status null_allocate(rp_context *context, rp_queue *queue, size_t bytes, void **block) {
    (void)queue;
    if (bytes > (size_t)INT64_MAX - 4096)
        return rp_fail(context, RP_OUT_OF_MEMORY, "null backend: %zu bytes do not fit 63 bits",
                       bytes);
    *block = (void *)(uintptr_t)4096;
    return RP_OK;
}

static void null_release(rp_queue *queue, void *block, size_t bytes) {
    (void)queue;
    (void)block;
    (void)bytes;
}

static rp_status null_write(rp_queue *queue, void *destination, const void *source, size_t bytes) {
    (void)queue;
    (void)destination;
    (void)source;
    (void)bytes;
    return RP_OK;
}

static rp_status null_read(rp_queue *queue, void *destination, const void *source, size_t bytes) {
    (void)queue;
    (void)source;
    if (bytes > 0)
        memset(destination, 0, bytes);
    return RP_OK;
}

static rp_status null_fill(rp_queue *queue, void *destination, uint8_t byte, size_t bytes) {
    (void)queue;
    (void)destination;
    (void)byte;
    (void)bytes;
    return RP_OK;
}

static int null_enter(int threads) {
    (void)threads;
    return 0;
}

static void null_leave(int previous) {
    (void)previous;
}

static void null_warm_up(rp_context *context, rp_queue *queue, int threads) {
    (void)context;
    (void)queue;
    (void)threads;
}

const rp_backend rp_backend_null = {
    .name = "null",
    .alignment = ALIGNMENT,
    .workspace = rp_op_workspace,
    .allocate = null_allocate,
    .release = null_release,
    .write = null_write,
    .read = null_read,
    .fill = null_fill,
    .host_readable = false,
    .enter = null_enter,
    .leave = null_leave,
    .warm_up = null_warm_up,
    .describe = NULL,
    .kernels = NULL,
};
