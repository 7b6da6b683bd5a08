/* A kernel's call, carried to a backend with memory of its own and back. */
#include "ops_device.h"

#include <stdlib.h>
#include <string.h>

#include "ops_case.h"

/* SENTINEL_BYTES before and behind each tensor; at most SPANS tensors a call. */
enum { SENTINEL_BYTES = 256, SENTINEL = 0xA5, SPANS = 4 * OPS_MAX_IN + 8 };

static struct {
    const rp_backend *backend;
    rp_queue *queue;
    bool has_libraries;
} device;

void ops_device_use(const rp_backend *backend, rp_queue *queue) {
    device.backend = backend;
    device.queue = queue;
}

const rp_backend *ops_device(void) {
    return device.backend;
}

void ops_device_use_libraries(void) {
    device.has_libraries = true;
}

bool ops_device_has_libraries(void) {
    return device.has_libraries;
}

/* Bytes of the host that a call names, and their block on the device: sentinels, the bytes at the
 * same place within 16, sentinels. */
typedef struct span {
    const uint8_t *host;
    size_t bytes, lead;
    uint8_t *block;
} span;

typedef struct spans {
    span list[SPANS];
    size_t count;
} spans;

/* Tensors that share memory share a span: in place, accumulating on the output. */
static void add_span(spans *s, const void *host, size_t bytes) {
    span added = {host, bytes, 0, NULL};
    if (host == NULL || bytes == 0)
        return;
    for (size_t i = 0; i < s->count;) {
        const span other = s->list[i];
        if (other.host >= added.host + added.bytes || added.host >= other.host + other.bytes) {
            i++;
            continue;
        }
        const uint8_t *begin = other.host < added.host ? other.host : added.host;
        const uint8_t *other_end = other.host + other.bytes, *end = added.host + added.bytes;
        added = (span){begin, (size_t)((other_end > end ? other_end : end) - begin), 0, NULL};
        s->list[i] = s->list[--s->count];
        i = 0;
    }
    RP_REQUIRE(s->count < SPANS, "the harness holds %d tensors a call", SPANS);
    s->list[s->count++] = added;
}

static void *on_device(const spans *s, const void *host, size_t bytes) {
    const uint8_t *at = host;
    for (size_t i = 0; host != NULL && i < s->count; i++) {
        const span *known = &s->list[i];
        if (at >= known->host && at + bytes <= known->host + known->bytes && bytes > 0)
            return known->block + known->lead + (at - known->host);
    }
    /* An empty tensor has an address like any other. */
    return host != NULL && s->count > 0 ? s->list[0].block : NULL;
}

static size_t block_bytes(const span *s) {
    return s->lead + s->bytes + SENTINEL_BYTES;
}

static void *allocate(size_t bytes) {
    void *block = NULL;
    RP_REQUIRE_OK(NULL, device.backend->allocate(NULL, device.queue, bytes, &block));
    return block;
}

static void send(spans *s) {
    for (size_t i = 0; i < s->count; i++) {
        span *at = &s->list[i];
        at->lead = SENTINEL_BYTES + (uintptr_t)at->host % 16;
        uint8_t *image = malloc(block_bytes(at));
        RP_REQUIRE(image != NULL, "no room for %zu bytes", block_bytes(at));
        memset(image, SENTINEL, block_bytes(at));
        memcpy(image + at->lead, at->host, at->bytes);
        at->block = allocate(block_bytes(at));
        RP_REQUIRE_OK(NULL, device.backend->write(device.queue, at->block, image, block_bytes(at)));
        free(image);
    }
}

static bool is_sentinel(const uint8_t *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != SENTINEL)
            return false;
    return true;
}

/* The bytes come back to where they were; what is constant there has not changed here, either. */
static void receive(spans *s, rp_op op) {
    for (size_t i = 0; i < s->count; i++) {
        const span *at = &s->list[i];
        uint8_t *image = malloc(block_bytes(at));
        RP_REQUIRE(image != NULL, "no room for %zu bytes", block_bytes(at));
        RP_CHECK_OK(NULL, device.backend->read(device.queue, image, at->block, block_bytes(at)));
        RP_CHECK(is_sentinel(image, at->lead), "%s wrote before a tensor of %zu bytes",
                 rp_op_get(op)->name, at->bytes);
        RP_CHECK(is_sentinel(image + at->lead + at->bytes, SENTINEL_BYTES),
                 "%s wrote behind a tensor of %zu bytes", rp_op_get(op)->name, at->bytes);
        if (memcmp(image + at->lead, at->host, at->bytes) != 0)
            memcpy((void *)(uintptr_t)at->host, image + at->lead, at->bytes);
        device.backend->release(device.queue, at->block, block_bytes(at));
        free(image);
    }
}

/* Scratch as an executor gives it: aligned, what is in it undefined, none for 0 bytes. */
static uint8_t *make_workspace(size_t bytes) {
    if (bytes == 0)
        return NULL;
    uint8_t *block = allocate(bytes + SENTINEL_BYTES);
    RP_REQUIRE_OK(NULL, device.backend->fill(device.queue, block, 0xFF, bytes));
    RP_REQUIRE_OK(NULL,
                  device.backend->fill(device.queue, block + bytes, SENTINEL, SENTINEL_BYTES));
    return block;
}

static void free_workspace(uint8_t *block, size_t bytes, rp_op op) {
    uint8_t sentinel[SENTINEL_BYTES] = {0};
    if (block == NULL)
        return;
    RP_CHECK_OK(NULL, device.backend->read(device.queue, sentinel, block + bytes, sizeof sentinel));
    RP_CHECK(is_sentinel(sentinel, sizeof sentinel), "%s wrote behind its workspace of %zu bytes",
             rp_op_get(op)->name, bytes);
    device.backend->release(device.queue, block, bytes + SENTINEL_BYTES);
}

static void *make_step(const rp_step_state *step) {
    if (step == NULL)
        return NULL;
    void *place = allocate((size_t)device.backend->step_bytes);
    RP_REQUIRE_OK(NULL, device.backend->write_step(device.queue, place, step));
    return place;
}

static rp_status run(const rp_kernel *kernels, rp_op op, const rp_launch *launch) {
    const rp_backend *backend = device.backend;
    rp_status status = RP_OK;
    if (backend->prepare != NULL)
        status = backend->prepare(device.queue, op, &launch->call);
    if (status == RP_OK)
        status = kernels[op](launch);
    const rp_status end = backend->finish(device.queue);
    return status != RP_OK ? status : end;
}

static rp_status run_on_device(const rp_kernel *kernels, rp_op op, const rp_launch *launch) {
    const rp_op_call *call = &launch->call;
    const void *in[3 * OPS_MAX_IN] = {0}, *sums[OPS_MAX_IN] = {0};
    void *out[OPS_MAX_IN] = {0};
    rp_launch there = *launch;
    spans s = {.count = 0};
    RP_REQUIRE(call->in_count <= 3 * OPS_MAX_IN && call->out_count <= OPS_MAX_IN, "too many slots");
    for (size_t i = 0; i < call->in_count; i++)
        add_span(&s, launch->in[i], ops_bytes(&call->in[i]));
    for (size_t k = 0; k < call->out_count; k++) {
        add_span(&s, launch->out[k], ops_bytes(&call->out[k]));
        if (launch->accumulate != NULL)
            add_span(&s, launch->accumulate[k], ops_bytes(&call->out[k]));
    }
    send(&s);
    for (size_t i = 0; i < call->in_count; i++)
        in[i] = on_device(&s, launch->in[i], ops_bytes(&call->in[i]));
    for (size_t k = 0; k < call->out_count; k++) {
        out[k] = on_device(&s, launch->out[k], ops_bytes(&call->out[k]));
        if (launch->accumulate != NULL)
            sums[k] = on_device(&s, launch->accumulate[k], ops_bytes(&call->out[k]));
    }
    const size_t workspace_bytes = (size_t)device.backend->workspace(op, call);
    uint8_t *workspace = make_workspace(workspace_bytes);
    void *step = make_step(launch->step);
    there.in = in;
    there.out = out;
    there.accumulate = launch->accumulate != NULL ? sums : NULL;
    there.workspace = workspace;
    there.step = step;
    there.queue = device.queue;
    const rp_status status = run(kernels, op, &there);
    free_workspace(workspace, workspace_bytes, op);
    device.backend->release(device.queue, step, (size_t)device.backend->step_bytes);
    receive(&s, op);
    return status;
}

rp_status ops_call(const rp_kernel *kernels, rp_op op, const rp_launch *launch) {
    if (device.backend != NULL)
        return run_on_device(kernels, op, launch);
    const int previous = rp_backend_cpu.enter(launch->threads);
    const rp_status status = kernels[op](launch);
    rp_backend_cpu.leave(previous);
    return status;
}
