/* The CUDA backend: one stream an executor, one block of device memory, recordings as CUDA graphs.
 * Nothing here waits but what must: reading, writing, finishing. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#ifdef RP_CUDA_NVTX
#include <nvtx3/nvToolsExt.h>
#endif
#ifdef RP_CUDA_CUDNN
#include <cudnn.h>
#endif

#include "backend.h"
#include "prepare.h"
#include "table.h"

enum { ALIGNMENT = 256, LEAST_MAJOR = 8 };

/* ---- Failures -------------------------------------------------------------------------------- */

rp_status rp_cuda_status(rp_queue *queue, cudaError_t error, const char *what) {
    if (error == cudaSuccess)
        return RP_OK;
    const rp_status status =
        error == cudaErrorMemoryAllocation ? RP_OUT_OF_MEMORY : RP_DEVICE_ERROR;
    if (queue->failure == RP_OK) {
        queue->failure = status;
        snprintf(queue->words, sizeof queue->words, "%s: %s (%s)", what, cudaGetErrorString(error),
                 cudaGetErrorName(error));
    }
    /* An error that is not of the device itself would be found by the next caller that asks. */
    (void)cudaGetLastError();
    return rp_fail(queue->context, status, "cuda: %s", queue->words);
}

/* What is not supported is no failure of the queue. */
rp_status rp_cuda_fail(rp_queue *queue, rp_status status, const char *format, ...) {
    if (queue->failure == RP_OK) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(queue->words, sizeof queue->words, format, arguments);
        va_end(arguments);
        queue->failure = status == RP_UNSUPPORTED ? RP_OK : status;
    }
    return rp_fail(queue->context, status, "cuda: %s", queue->words);
}

static const char *cuda_words(const rp_queue *queue) {
    return queue != NULL && queue->words[0] != 0 ? queue->words : NULL;
}

static rp_status no_device(rp_context *context, cudaError_t error, const char *what) {
    return rp_fail(context, RP_DEVICE_ERROR, "cuda: %s: %s (%s)", what, cudaGetErrorString(error),
                   cudaGetErrorName(error));
}

/* ---- The queue ------------------------------------------------------------------------------- */

static rp_status find_device(rp_context *context, int *device, int *multiprocessors) {
    int count = 0, major = 0, minor = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaSuccess && count < 1)
        error = cudaErrorNoDevice;
    if (error == cudaSuccess)
        error = cudaGetDevice(device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, *device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, *device);
    if (error == cudaSuccess)
        error = cudaDeviceGetAttribute(multiprocessors, cudaDevAttrMultiProcessorCount, *device);
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        return no_device(context, error, "no device");
    }
    if (major < LEAST_MAJOR)
        return rp_fail(context, RP_DEVICE_ERROR,
                       "cuda: device %d has compute capability %d.%d, %d.0 is needed", *device,
                       major, minor, LEAST_MAJOR);
    return RP_OK;
}

/* Device memory in use by anybody; -1 if unknown. */
static int64_t bytes_in_use(void) {
    size_t free_bytes = 0, total = 0;
    if (cudaMemGetInfo(&free_bytes, &total) == cudaSuccess)
        return (int64_t)(total - free_bytes);
    (void)cudaGetLastError();
    return -1;
}

static void cuda_close(rp_queue *queue) {
    rp_cuda_unprepare(queue);
    if (queue->products != NULL)
        (void)cublasLtDestroy(queue->products);
    if (queue->owns_stream && queue->stream != NULL)
        (void)cudaStreamDestroy(queue->stream);
    (void)cudaGetLastError();
    rp_free(queue->context, queue);
}

static rp_status cuda_open(rp_context *context, void *stream, rp_queue **queue) {
    int device = 0, multiprocessors = 0;
    rp_status status = find_device(context, &device, &multiprocessors);
    if (status != RP_OK)
        return status;
    rp_queue *made = rp_alloc(context, 1, sizeof *made);
    if (made == NULL)
        return rp_fail_memory(context, "a queue of the device");
    made->context = context;
    made->stream = stream;
    made->owns_stream = stream == NULL;
    made->device = device;
    made->multiprocessors = multiprocessors;
    made->outside_base = bytes_in_use();
    if (made->owns_stream)
        status = rp_cuda_status(
            made, cudaStreamCreateWithFlags(&made->stream, cudaStreamNonBlocking), "a stream");
    if (status == RP_OK) {
        const cublasStatus_t products = cublasLtCreate(&made->products);
        if (products != CUBLAS_STATUS_SUCCESS)
            status = rp_fail(context, RP_DEVICE_ERROR, "cuda: cuBLASLt does not begin: %s",
                             cublasLtGetStatusName(products));
    }
    if (status != RP_OK) {
        cuda_close(made);
        return status;
    }
    *queue = made;
    return RP_OK;
}

static rp_status cuda_finish(rp_queue *queue) {
    rp_status status = queue->failure;
    if (status != RP_OK)
        rp_fail(queue->context, status, "cuda: %s", queue->words);
    else
        status = rp_cuda_status(queue, cudaStreamSynchronize(queue->stream), "finish");
    queue->failure = RP_OK;
    return status;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static rp_status cuda_allocate(rp_context *context, rp_queue *queue, size_t bytes, void **block) {
    size_t free_bytes = 0, total = 0;
    const cudaError_t error = cudaMalloc(block, bytes > 0 ? bytes : ALIGNMENT);
    if (error == cudaSuccess) {
        queue->allocated += (int64_t)bytes;
        return RP_OK;
    }
    (void)cudaGetLastError();
    if (error != cudaErrorMemoryAllocation)
        return rp_cuda_status(queue, error, "allocate");
    if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess)
        (void)cudaGetLastError();
    return rp_fail(context, RP_OUT_OF_MEMORY,
                   "out of memory: %zu bytes of tensors; %zu of the device's %zu are free", bytes,
                   free_bytes, total);
}

static void cuda_release(rp_queue *queue, void *block, size_t bytes) {
    if (block == NULL)
        return;
    (void)cudaFree(block); /* waits for what still uses it */
    (void)cudaGetLastError();
    queue->allocated -= (int64_t)bytes;
}

static rp_status copy(rp_queue *queue, void *destination, const void *source, size_t bytes,
                      enum cudaMemcpyKind kind, const char *what) {
    if (bytes == 0)
        return RP_OK;
    const rp_status status = rp_cuda_status(
        queue, cudaMemcpyAsync(destination, source, bytes, kind, queue->stream), what);
    return status == RP_OK ? rp_cuda_status(queue, cudaStreamSynchronize(queue->stream), what)
                           : status;
}

static rp_status cuda_write(rp_queue *queue, void *destination, const void *source, size_t bytes) {
    return copy(queue, destination, source, bytes, cudaMemcpyHostToDevice, "write");
}

static rp_status cuda_read(rp_queue *queue, void *destination, const void *source, size_t bytes) {
    return copy(queue, destination, source, bytes, cudaMemcpyDeviceToHost, "read");
}

static rp_status cuda_fill(rp_queue *queue, void *destination, uint8_t byte, size_t bytes) {
    return bytes == 0
               ? RP_OK
               : rp_cuda_status(queue, cudaMemsetAsync(destination, byte, bytes, queue->stream),
                                "fill");
}

static int64_t cuda_outside(rp_queue *queue) {
    const int64_t used = bytes_in_use();
    if (used < 0 || queue->outside_base < 0)
        return -1;
    const int64_t grown = used - queue->outside_base - queue->allocated;
    return grown > 0 ? grown : 0;
}

/* ---- Recordings ------------------------------------------------------------------------------ */

static rp_status cuda_record_begin(rp_queue *queue) {
    return rp_cuda_status(
        queue, cudaStreamBeginCapture(queue->stream, cudaStreamCaptureModeThreadLocal), "record");
}

static rp_status cuda_record_end(rp_queue *queue, void **recording) {
    cudaGraph_t graph = NULL;
    cudaGraphExec_t made = NULL;
    rp_status status = rp_cuda_status(queue, cudaStreamEndCapture(queue->stream, &graph), "record");
    if (status == RP_OK)
        status = rp_cuda_status(queue, cudaGraphInstantiate(&made, graph, 0), "record");
    if (graph != NULL)
        (void)cudaGraphDestroy(graph);
    *recording = made;
    return status;
}

static rp_status cuda_replay(rp_queue *queue, void *recording) {
    return rp_cuda_status(queue, cudaGraphLaunch(recording, queue->stream), "replay");
}

static void cuda_discard(void *recording) {
    if (recording != NULL)
        (void)cudaGraphExecDestroy(recording);
}

/* ---- Around it ------------------------------------------------------------------------------- */

#ifdef RP_CUDA_NVTX
static void cuda_range_begin(rp_queue *queue, const char *text) {
    (void)queue;
    nvtxRangePushA(text);
}

static void cuda_range_end(rp_queue *queue) {
    (void)queue;
    nvtxRangePop();
}
#endif

static int cuda_enter(int threads) {
    return threads;
}

static void cuda_leave(int previous) {
    (void)previous;
}

static void cuda_warm_up(rp_context *context, rp_queue *queue, int threads) {
    (void)context;
    (void)queue;
    (void)threads;
}

static void cuda_describe(int threads, rp_backend_text *text) {
    struct cudaDeviceProp properties;
    int device = 0, driver = 0, runtime = 0;
    (void)threads;
    snprintf(text->device, sizeof text->device, "no CUDA device");
    snprintf(text->machine, sizeof text->machine, "no CUDA device");
    if (cudaGetDevice(&device) == cudaSuccess &&
        cudaGetDeviceProperties(&properties, device) == cudaSuccess) {
        snprintf(text->device, sizeof text->device, "%.127s", properties.name);
        snprintf(text->machine, sizeof text->machine, "%.127s, sm_%d%d, %d multiprocessors",
                 properties.name, properties.major, properties.minor,
                 properties.multiProcessorCount);
    }
    (void)cudaDriverGetVersion(&driver);
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaGetLastError();
    int length = snprintf(text->libraries, sizeof text->libraries,
                          "reprise %s, CUDA driver %d, runtime %d, cuBLASLt %zu", RP_VERSION,
                          driver, runtime, cublasLtGetVersion());
#ifdef RP_CUDA_CUDNN
    snprintf(text->libraries + length, sizeof text->libraries - (size_t)length, ", cuDNN %zu",
             cudnnGetVersion());
#endif
    (void)length;
}

const rp_backend rp_backend_cuda = {
    .name = "cuda",
    .alignment = ALIGNMENT,
    .step_bytes = sizeof(rp_step_state),
    .workspace = rp_cuda_workspace,
    .open = cuda_open,
    .close = cuda_close,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .write = cuda_write,
    .read = cuda_read,
    .fill = cuda_fill,
    .host_readable = false,
    .finish = cuda_finish,
    .write_step = rp_cuda_write_step,
    .prepare = rp_cuda_prepare,
    .record_begin = cuda_record_begin,
    .record_end = cuda_record_end,
    .replay = cuda_replay,
    .discard = cuda_discard,
    .words = cuda_words,
    .outside = cuda_outside,
#ifdef RP_CUDA_NVTX
    .range_begin = cuda_range_begin,
    .range_end = cuda_range_end,
#endif
    .enter = cuda_enter,
    .leave = cuda_leave,
    .warm_up = cuda_warm_up,
    .describe = cuda_describe,
    .kernels = rp_cuda_kernels,
};
