/* The device: what it is, its errors, and what a launch checks. Its figures are those of an H200
 * where kernels may depend on them; it has few multiprocessors, so that work is cut into few
 * blocks. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "grid.h"
#include "runtime.h"
#include "settings.h"

enum {
    MULTIPROCESSORS = 4,
    MAJOR = 9,
    MINOR = 0,
    DEFAULT_SHARED = 49152,
    THREADS_A_BLOCK = 1024,
    THREADS_A_MULTIPROCESSOR = 2048,
    BLOCKS_A_MULTIPROCESSOR = 32,
    SHARED_A_MULTIPROCESSOR = 233472,
    SHARED_RESERVED = 1024 /* of each block, for the system */
};

static cudaError_t last_error;

/* What kernels were allowed by cudaFuncSetAttribute. */
typedef struct allowance {
    const void *function;
    size_t shared_bytes;
} allowance;

static allowance *allowances;
static size_t allowance_count, allowance_capacity;

/* ---- Errors ---------------------------------------------------------------------------------- */

cudaError_t emulator_error(cudaError_t error) {
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

cudaError_t cudaGetLastError(void) {
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError(void) {
    return last_error;
}

#define ERRORS(X)                                                                                  \
    X(cudaSuccess)                                                                                 \
    X(cudaErrorInvalidValue)                                                                       \
    X(cudaErrorMemoryAllocation)                                                                   \
    X(cudaErrorInitializationError)                                                                \
    X(cudaErrorInvalidConfiguration)                                                               \
    X(cudaErrorInvalidDevice)                                                                      \
    X(cudaErrorInvalidResourceHandle)                                                              \
    X(cudaErrorNotReady)                                                                           \
    X(cudaErrorIllegalState)                                                                       \
    X(cudaErrorHostMemoryAlreadyRegistered)                                                        \
    X(cudaErrorHostMemoryNotRegistered)                                                            \
    X(cudaErrorNotSupported)                                                                       \
    X(cudaErrorStreamCaptureUnsupported)                                                           \
    X(cudaErrorStreamCaptureInvalidated)                                                           \
    X(cudaErrorStreamCaptureIsolation)                                                             \
    X(cudaErrorStreamCaptureImplicit)                                                              \
    X(cudaErrorCapturedEvent)

const char *cudaGetErrorName(cudaError_t error) {
    switch (error) {
#define NAME(error)                                                                                \
    case error:                                                                                    \
        return #error;
        ERRORS(NAME)
#undef NAME
    default:
        return "an error of CUDA";
    }
}

const char *cudaGetErrorString(cudaError_t error) {
    return cudaGetErrorName(error);
}

/* ---- The device ------------------------------------------------------------------------------ */

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device) {
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    return emulator_error(device != 0 ? cudaErrorInvalidDevice : cudaSuccess);
}

cudaError_t cudaRuntimeGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    struct cudaDeviceProp *p = properties;
    if (device != 0)
        return emulator_error(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "emulator");
    p->major = MAJOR;
    p->minor = MINOR;
    p->multiProcessorCount = MULTIPROCESSORS;
    p->warpSize = 32;
    p->maxThreadsPerBlock = THREADS_A_BLOCK;
    p->maxThreadsPerMultiProcessor = THREADS_A_MULTIPROCESSOR;
    p->maxBlocksPerMultiProcessor = BLOCKS_A_MULTIPROCESSOR;
    p->sharedMemPerBlock = DEFAULT_SHARED;
    p->sharedMemPerBlockOptin = EMULATOR_MOST_SHARED;
    p->sharedMemPerMultiprocessor = SHARED_A_MULTIPROCESSOR;
    p->reservedSharedMemPerBlock = SHARED_RESERVED;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->totalGlobalMem = emulator_settings_get()->memory_bytes;
    p->l2CacheSize = 60 << 20;
    p->maxGridSize[0] = INT32_MAX;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->unifiedAddressing = 1;
    p->asyncEngineCount = 1;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    static const struct {
        enum cudaDeviceAttr attribute;
        int value;
    } known[] = {
        {cudaDevAttrMultiProcessorCount, MULTIPROCESSORS},
        {cudaDevAttrComputeCapabilityMajor, MAJOR},
        {cudaDevAttrComputeCapabilityMinor, MINOR},
        {cudaDevAttrWarpSize, 32},
        {cudaDevAttrMaxThreadsPerBlock, THREADS_A_BLOCK},
        {cudaDevAttrMaxThreadsPerMultiProcessor, THREADS_A_MULTIPROCESSOR},
        {cudaDevAttrMaxSharedMemoryPerBlock, DEFAULT_SHARED},
        {cudaDevAttrMaxSharedMemoryPerBlockOptin, EMULATOR_MOST_SHARED},
        {cudaDevAttrMaxSharedMemoryPerMultiprocessor, SHARED_A_MULTIPROCESSOR},
        {cudaDevAttrReservedSharedMemoryPerBlock, SHARED_RESERVED},
        {cudaDevAttrL2CacheSize, 60 << 20},
    };
    for (size_t i = 0; device == 0 && i < sizeof known / sizeof known[0]; i++) {
        if (known[i].attribute != attribute)
            continue;
        *value = known[i].value;
        return cudaSuccess;
    }
    return emulator_error(device != 0 ? cudaErrorInvalidDevice : cudaErrorInvalidValue);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

size_t emulator_shared_limit(const void *function) {
    for (size_t i = 0; i < allowance_count; i++)
        if (allowances[i].function == function)
            return allowances[i].shared_bytes;
    return DEFAULT_SHARED;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute,
                                 int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize)
        return cudaSuccess;
    if (value < 0 || value > EMULATOR_MOST_SHARED)
        return emulator_error(cudaErrorInvalidValue);
    for (size_t i = 0; i < allowance_count; i++) {
        if (allowances[i].function != function)
            continue;
        allowances[i].shared_bytes = (size_t)value;
        return cudaSuccess;
    }
    allowances =
        emulator_grow(allowances, allowance_count, &allowance_capacity, sizeof *allowances);
    allowances[allowance_count++] = (allowance){function, (size_t)value};
    return cudaSuccess;
}

/* By threads and shared memory; the emulator knows no registers. */
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function,
                                                          int threads, size_t shared_bytes) {
    if (threads <= 0 || threads > THREADS_A_BLOCK || shared_bytes > EMULATOR_MOST_SHARED)
        return emulator_error(cudaErrorInvalidValue);
    const int by_threads = THREADS_A_MULTIPROCESSOR / ((threads + 31) / 32 * 32);
    const int by_shared = (int)(SHARED_A_MULTIPROCESSOR / (shared_bytes + SHARED_RESERVED));
    (void)function;
    *blocks = by_threads < by_shared ? by_threads : by_shared;
    if (*blocks > BLOCKS_A_MULTIPROCESSOR)
        *blocks = BLOCKS_A_MULTIPROCESSOR;
    return cudaSuccess;
}

/* A launch with its arguments behind it. */
typedef struct kernel_task {
    emulator_launch launch;
    union {
        double number;
        void *pointer;
        char bytes[16];
    } arguments[]; /* aligned for any */
} kernel_task;

static void run_kernel(const void *data) {
    const kernel_task *task = data;
    emulator_grid_run(&task->launch, task->arguments);
}

static bool is_possible(const emulator_launch *l) {
    const dim3 g = l->grid, b = l->block;
    return b.x > 0 && b.y > 0 && b.z > 0 && b.x <= 1024 && b.y <= 1024 && b.z <= 64 &&
           (uint64_t)b.x * b.y * b.z <= THREADS_A_BLOCK && g.x > 0 && g.y > 0 && g.z > 0 &&
           g.x <= INT32_MAX && g.y <= 65535 && g.z <= 65535;
}

void emulator_launch_kernel(const emulator_launch *launch, const void *arguments, size_t bytes) {
    if (!is_possible(launch)) {
        emulator_error(cudaErrorInvalidConfiguration);
        return;
    }
    if (launch->shared_bytes > emulator_shared_limit(launch->function)) {
        emulator_error(cudaErrorInvalidValue);
        return;
    }
    const size_t all = sizeof(kernel_task) + bytes;
    kernel_task *task = emulator_take(all);
    task->launch = *launch;
    memcpy(task->arguments, arguments, bytes);
    emulator_submit(launch->stream, run_kernel, task, all);
    free(task);
}
