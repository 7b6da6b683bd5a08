/* The runtime of the emulator: memory, streams, events, captures and replays. */
#include <math.h>
#include <string.h>

#include "engine_kernels.h"
#include "unit.h"

enum { COUNT = 1000, BYTES = COUNT * (int)sizeof(float) };

static float *device_floats(float value) {
    float host[COUNT];
    float *block = NULL;
    for (int i = 0; i < COUNT; i++)
        host[i] = value;
    RP_REQUIRE_EQUAL(cudaMalloc((void **)&block, BYTES), cudaSuccess);
    RP_REQUIRE_EQUAL(cudaMemcpy(block, host, BYTES, cudaMemcpyHostToDevice), cudaSuccess);
    return block;
}

/* All of it is this value. */
static void check_floats(const float *device, float wanted) {
    float host[COUNT] = {0};
    int wrong = 0;
    RP_CHECK_EQUAL(cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < COUNT; i++)
        wrong += host[i] != wanted;
    RP_CHECK(wrong == 0, "%d of %d are not %g; the first is %g", wrong, COUNT, wanted, host[0]);
}

static void test_memory_is_counted_and_begins_as_nan(void) {
    size_t before = 0, during = 0, after = 0, total = 0;
    float *block = NULL, host[COUNT] = {0};
    RP_CHECK_EQUAL(cudaMemGetInfo(&before, &total), cudaSuccess);
    RP_REQUIRE_EQUAL(cudaMalloc((void **)&block, BYTES), cudaSuccess);
    cudaMemGetInfo(&during, &total);
    RP_CHECK(before - during >= BYTES && before - during < BYTES + 512, "%zu of %d bytes are gone",
             before - during, BYTES);
    RP_CHECK_EQUAL((uintptr_t)block % 256, 0);
    RP_CHECK_EQUAL(cudaMemcpy(host, block, BYTES, cudaMemcpyDeviceToHost), cudaSuccess);
    RP_CHECK(isnan(host[0]) && isnan(host[COUNT - 1]), "new memory is %g", host[0]);
    RP_CHECK_EQUAL(cudaMemset(block, 0, BYTES), cudaSuccess);
    check_floats(block, 0.0f);
    RP_CHECK_EQUAL(cudaFree(block), cudaSuccess);
    cudaMemGetInfo(&after, &total);
    RP_CHECK_EQUAL(after, before);
    RP_CHECK_EQUAL(cudaMalloc((void **)&block, total + 1), cudaErrorMemoryAllocation);
    RP_CHECK_EQUAL(cudaGetLastError(), cudaErrorMemoryAllocation);
}

static void test_copies_know_where_memory_lies(void) {
    float host[COUNT] = {0};
    float *a = device_floats(1.0f), *b = device_floats(2.0f);
    RP_CHECK_EQUAL(cudaMemcpy(a, b, BYTES, cudaMemcpyDeviceToDevice), cudaSuccess);
    check_floats(a, 2.0f);
    RP_CHECK_EQUAL(cudaMemcpy(a, host, BYTES, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
    RP_CHECK_EQUAL(cudaMemcpy(host, a, BYTES, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    RP_CHECK_EQUAL(cudaMemcpy(a + 1, host, BYTES, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
    RP_CHECK_EQUAL(cudaMemset(a + 1, 0, BYTES), cudaErrorInvalidValue);
    RP_CHECK_EQUAL(cudaFree(a + 1), cudaErrorInvalidValue);
    (void)cudaGetLastError();
    cudaFree(a);
    cudaFree(b);
}

/* A pageable copy takes the host's bytes at once, a pinned one when it runs. */
static void test_a_stream_does_things_in_order(void) {
    float host[COUNT], *pinned = NULL;
    float *a = device_floats(0.0f);
    cudaStream_t stream = NULL;
    RP_REQUIRE_EQUAL(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    RP_REQUIRE_EQUAL(cudaMallocHost((void **)&pinned, BYTES), cudaSuccess);
    for (int i = 0; i < COUNT; i++)
        host[i] = pinned[i] = 5.0f;
    RP_CHECK_EQUAL(cudaMemcpyAsync(a, host, BYTES, cudaMemcpyHostToDevice, stream), cudaSuccess);
    memset(host, 0, sizeof host);
    RP_CHECK_EQUAL(engine_add(a, 1.0f, COUNT, stream), cudaSuccess);
    RP_CHECK_EQUAL(cudaMemcpyAsync(pinned, a, BYTES, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    RP_CHECK_EQUAL(cudaStreamSynchronize(stream), cudaSuccess);
    RP_CHECK(pinned[0] == 6.0f && pinned[COUNT - 1] == 6.0f, "%g, not 6", pinned[0]);
    RP_CHECK_EQUAL(cudaStreamQuery(stream), cudaSuccess);
    RP_CHECK_EQUAL(cudaStreamDestroy(stream), cudaSuccess);
    RP_CHECK_EQUAL(cudaFreeHost(pinned), cudaSuccess);
    cudaFree(a);
}

static void test_an_event_orders_two_streams(void) {
    float *a = device_floats(3.0f), ms = -1.0f;
    cudaStream_t first = NULL, second = NULL;
    cudaEvent_t event = NULL, end = NULL;
    cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
    cudaEventCreate(&event);
    cudaEventCreate(&end);
    for (int i = 0; i < 5; i++)
        engine_add(a, 1.0f, COUNT, first);
    RP_CHECK_EQUAL(cudaEventRecord(event, first), cudaSuccess);
    RP_CHECK_EQUAL(cudaStreamWaitEvent(second, event, 0), cudaSuccess);
    cudaMemsetAsync(a, 0, BYTES, second);
    engine_add(a, 2.0f, COUNT, second);
    RP_CHECK_EQUAL(cudaEventRecord(end, second), cudaSuccess);
    RP_CHECK_EQUAL(cudaEventSynchronize(end), cudaSuccess);
    RP_CHECK_EQUAL(cudaEventElapsedTime(&ms, event, end), cudaSuccess);
    RP_CHECK(ms >= 0.0f, "%g ms", ms);
    check_floats(a, 2.0f);
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
    cudaEventDestroy(event);
    cudaEventDestroy(end);
    cudaFree(a);
}

static void test_a_capture_runs_nothing_and_replays_all(void) {
    float *a = device_floats(1.0f);
    cudaStream_t stream = NULL;
    cudaGraph_t graph = NULL;
    cudaGraphExec_t executable = NULL;
    size_t nodes = 0;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    RP_REQUIRE_EQUAL(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    engine_add(a, 1.0f, COUNT, stream);
    engine_add(a, 2.0f, COUNT, stream);
    RP_REQUIRE_EQUAL(cudaStreamEndCapture(stream, &graph), cudaSuccess);
    check_floats(a, 1.0f);
    RP_CHECK_EQUAL(cudaGraphGetNodes(graph, NULL, &nodes), cudaSuccess);
    RP_CHECK_EQUAL(nodes, 2);
    RP_REQUIRE_EQUAL(cudaGraphInstantiate(&executable, graph, 0), cudaSuccess);
    RP_CHECK_EQUAL(cudaGraphDestroy(graph), cudaSuccess);
    for (int i = 0; i < 3; i++)
        RP_CHECK_EQUAL(cudaGraphLaunch(executable, stream), cudaSuccess);
    cudaStreamSynchronize(stream);
    check_floats(a, 10.0f);
    RP_CHECK_EQUAL(cudaGraphExecDestroy(executable), cudaSuccess);
    cudaStreamDestroy(stream);
    cudaFree(a);
}

static cudaError_t allocate_once(cudaStream_t stream) {
    void *block = NULL;
    (void)stream;
    return cudaMalloc(&block, 16);
}

static cudaError_t wait_for_device(cudaStream_t stream) {
    (void)stream;
    return cudaDeviceSynchronize();
}

static cudaError_t copy_at_once(cudaStream_t stream) {
    float to, from = 1.0f;
    (void)stream;
    return cudaMemcpy(&to, &from, sizeof to, cudaMemcpyHostToHost);
}

static void test_what_a_capture_must_not_see_ends_it(void) {
    static cudaError_t (*const calls[])(cudaStream_t) = {
        cudaStreamSynchronize, allocate_once, wait_for_device, copy_at_once, cudaStreamQuery};
    float *a = device_floats(1.0f);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        cudaStream_t stream = NULL;
        cudaGraph_t graph = NULL;
        enum cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
        engine_add(a, 1.0f, COUNT, stream);
        RP_CHECK_EQUAL(calls[i](stream), cudaErrorStreamCaptureUnsupported);
        cudaStreamIsCapturing(stream, &status);
        RP_CHECK_EQUAL(status, cudaStreamCaptureStatusInvalidated);
        (void)cudaGetLastError();
        RP_CHECK_EQUAL(engine_add(a, 1.0f, COUNT, stream), cudaErrorStreamCaptureInvalidated);
        RP_CHECK_EQUAL(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
        (void)cudaGetLastError();
        RP_CHECK(graph == NULL, "there is a graph");
        RP_CHECK_EQUAL(engine_add(a, 0.0f, COUNT, stream), cudaSuccess);
        cudaStreamDestroy(stream);
    }
    check_floats(a, 1.0f);
    cudaFree(a);
}

static const rp_test tests[] = {
    RP_TEST(test_memory_is_counted_and_begins_as_nan),
    RP_TEST(test_copies_know_where_memory_lies),
    RP_TEST(test_a_stream_does_things_in_order),
    RP_TEST(test_an_event_orders_two_streams),
    RP_TEST(test_a_capture_runs_nothing_and_replays_all),
    RP_TEST(test_what_a_capture_must_not_see_ends_it),
};
RP_SUITE(runtime, tests)
