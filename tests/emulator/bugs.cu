/* Kernels and calls with one mistake each, for test_detectors.c: what the emulator must tell. The
 * line that is told ends with the bug's name behind two slashes. Usage: bugs NAME. */
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cublasLt.h>

#include "device.h"

enum { COUNT = 4096, BLOCK = 64 };

static float host[COUNT], *data, *other;
static cudaStream_t first, second;

/* ---- Kernels --------------------------------------------------------------------------------- */

static __global__ void barrier_in_a_branch(float *x) {
    if (threadIdx.x < 32)
        __syncthreads(); // barrier_in_a_branch
    x[threadIdx.x] = 1.0f;
}

static __global__ void barriers_in_two_branches(float *x) {
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads(); // barriers_in_two_branches
    x[threadIdx.x] = 1.0f;
}

static __global__ void return_before_a_barrier(float *x, int count) {
    if ((int)threadIdx.x >= count)
        return;
    __syncthreads(); // return_before_a_barrier
    x[threadIdx.x] = 1.0f;
}

static __global__ void shuffle_in_a_branch(float *x) {
    float value = x[threadIdx.x];
    if (threadIdx.x < 16)
        value += __shfl_xor_sync(0xFFFFFFFFu, value, 1); // shuffle_in_a_branch
    x[threadIdx.x] = value;
}

static __global__ void two_shuffles(float *x) {
    float value = x[threadIdx.x];
    if (threadIdx.x % 32 < 16)
        value += __shfl_xor_sync(0xFFFFFFFFu, value, 1); // two_shuffles
    else
        value += __shfl_xor_sync(0xFFFFFFFFu, value, 2);
    x[threadIdx.x] = value;
}

static __global__ void mask_without_itself(float *x) {
    x[threadIdx.x] = (float)__ballot_sync(0x0000FFFFu, 1); // mask_without_itself
}

static __global__ void deadlock(float *x) {
    if (threadIdx.x < 16)
        __syncwarp(); // deadlock
    else
        __syncthreads();
    x[threadIdx.x] = 1.0f;
}

static __global__ void unset_shared(float *x) {
    __shared__ float shared[BLOCK];
    if (threadIdx.x != 7)
        shared[threadIdx.x] = 1.0f;
    __syncthreads();
    x[threadIdx.x] = shared[threadIdx.x];
}

static __global__ void unset_dynamic(float *x) {
    RP_CUDA_SHARED(float, shared);
    if (threadIdx.x != 7)
        shared[threadIdx.x] = 1.0f;
    __syncthreads();
    x[threadIdx.x] = shared[threadIdx.x];
}

static __global__ void copy(float *to, const float *from) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    to[i] = from[i];
}

static __global__ void missing_barrier(float *x) {
    __shared__ float shared[BLOCK];
    shared[threadIdx.x] = (float)threadIdx.x;
    x[threadIdx.x] = shared[BLOCK - 1 - threadIdx.x]; // missing_barrier
}

static __global__ void missing_syncwarp(float *x) {
    __shared__ float shared[32];
    shared[threadIdx.x] = (float)threadIdx.x;
    x[threadIdx.x] = shared[31 - threadIdx.x]; // missing_syncwarp
}

static __global__ void second_syncwarp(float *x) {
    __shared__ float shared[32];
    shared[threadIdx.x] = (float)threadIdx.x;
    __syncwarp();
    const float value = shared[31 - threadIdx.x];
    shared[threadIdx.x] = value; // second_syncwarp
    __syncwarp();
    x[threadIdx.x] = shared[threadIdx.x];
}

static __global__ void missing_atomic(float *x) {
    if (threadIdx.x == 0)
        x[0] += 1.0f; // missing_atomic
}

static __global__ void missing_atomic_in_a_block(float *x) {
    if (threadIdx.x % 32 == 0)
        x[0] += 1.0f; // missing_atomic_in_a_block
}

static __global__ void neighbour(float *x) {
    const unsigned block = blockIdx.x;
    if (threadIdx.x == 0)
        x[block + 1] = x[block] + 1.0f; // neighbour
}

static __global__ void beyond(float *x, int count) {
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i <= count)
        x[i] = 1.0f; // beyond
}

static __global__ void beyond_shared(float *x, int at) {
    __shared__ float shared[BLOCK];
    shared[threadIdx.x] = 1.0f;
    __syncthreads();
    x[threadIdx.x] = shared[(int)threadIdx.x + at]; // beyond_shared
}

static __global__ void beyond_dynamic(float *x, int at) {
    RP_CUDA_SHARED(float, shared);
    shared[threadIdx.x] = 1.0f;
    __syncthreads();
    x[threadIdx.x] = shared[(int)threadIdx.x + at]; // beyond_dynamic
}

static __global__ void beyond_local(float *x, int at) {
    float local[4] = {1.0f, 2.0f, 3.0f, 4.0f};
    local[threadIdx.x % 4] = x[threadIdx.x];
    x[threadIdx.x] = local[(int)(threadIdx.x % 4) + at]; // beyond_local
}

static __global__ void misaligned(float *to, const float *from) {
    const float4 *wide = reinterpret_cast<const float4 *>(from + 1);
    to[threadIdx.x] = wide[threadIdx.x].x; // misaligned
}

static __global__ void add(float *x, float amount) {
    x[blockIdx.x * blockDim.x + threadIdx.x] += amount;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static void check(cudaError_t error) {
    if (error == cudaSuccess)
        return;
    printf("error: %s\n", cudaGetErrorName(error));
    exit(3);
}

#define ONE_BLOCK(kernel, ...)                                                                     \
    static void run_##kernel(void) {                                                               \
        RP_CUDA_LAUNCH(kernel, 1, BLOCK, BLOCK * sizeof(float), nullptr, __VA_ARGS__);             \
    }
ONE_BLOCK(barrier_in_a_branch, data)
ONE_BLOCK(barriers_in_two_branches, data)
ONE_BLOCK(return_before_a_barrier, data, 40)
ONE_BLOCK(shuffle_in_a_branch, data)
ONE_BLOCK(two_shuffles, data)
ONE_BLOCK(mask_without_itself, data)
ONE_BLOCK(deadlock, data)
ONE_BLOCK(unset_shared, data)
ONE_BLOCK(unset_dynamic, data)
ONE_BLOCK(missing_barrier, data)
ONE_BLOCK(missing_atomic_in_a_block, data)
ONE_BLOCK(beyond_shared, data, 1)
ONE_BLOCK(beyond_dynamic, data, 1)
ONE_BLOCK(beyond_local, data, 1)
ONE_BLOCK(misaligned, data, other)

static void run_missing_syncwarp(void) {
    RP_CUDA_LAUNCH(missing_syncwarp, 1, 32, 0, nullptr, data);
}

static void run_second_syncwarp(void) {
    RP_CUDA_LAUNCH(second_syncwarp, 1, 32, 0, nullptr, data);
}

static void run_missing_atomic(void) {
    RP_CUDA_LAUNCH(missing_atomic, 8, BLOCK, 0, nullptr, data);
}

/* Each block reads what the one before it wrote. */
static void run_neighbour(void) {
    RP_CUDA_LAUNCH(neighbour, 16, 32, 0, nullptr, data);
    check(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost));
    if (host[16] != 16.0f)
        printf("wrong: %g blocks in order, not 16\n", (double)host[16]);
}

static void run_beyond(void) {
    RP_CUDA_LAUNCH(beyond, COUNT / BLOCK + 1, BLOCK, 0, nullptr, data, COUNT);
}

static void run_unset_memory(void) {
    RP_CUDA_LAUNCH(copy, 1, BLOCK, 0, nullptr, data, other);
}

static void run_host_pointer(void) {
    RP_CUDA_LAUNCH(add, 1, BLOCK, 0, nullptr, host, 1.0f); // host_pointer
}

static void run_freed_memory(void) {
    check(cudaFree(other));
    RP_CUDA_LAUNCH(copy, 1, BLOCK, 0, nullptr, data, other); // freed_memory
}

/* As an object would be handed over that holds an address of its own. */
static __global__ void copy_hidden(float *to, uintptr_t from) {
    to[threadIdx.x] = reinterpret_cast<const float *>(from)[threadIdx.x];
}

static void run_freed_hidden_memory(void) {
    const uintptr_t hidden = reinterpret_cast<uintptr_t>(other);
    check(cudaFree(other));
    RP_CUDA_LAUNCH(copy_hidden, 1, BLOCK, 0, nullptr, data, hidden);
}

static void run_host_access(void) {
    printf("%g\n", (double)*static_cast<volatile float *>(data));
}

/* Two streams write one place, and no event says which comes first. */
static void run_missing_event(void) {
    for (int i = 0; i < 4; i++) {
        RP_CUDA_LAUNCH(add, 1, BLOCK, 0, first, data, 1.0f);
        check(cudaMemsetAsync(data, 0, BLOCK * sizeof(float), second));
    }
    check(cudaDeviceSynchronize());
    check(cudaMemcpy(host, data, sizeof(float), cudaMemcpyDeviceToHost));
    if (host[0] != 0.0f)
        printf("wrong: %g, not 0\n", (double)host[0]);
}

/* The host changes pinned memory that a copy has not read yet. */
static void run_missing_wait(void) {
    float *pinned = nullptr;
    check(cudaMallocHost(reinterpret_cast<void **>(&pinned), sizeof host));
    memset(pinned, 0, sizeof host);
    check(cudaMemcpyAsync(data, pinned, sizeof host, cudaMemcpyHostToDevice, first));
    pinned[0] = 5.0f;
    check(cudaStreamSynchronize(first));
    check(cudaMemcpy(host, data, sizeof(float), cudaMemcpyDeviceToHost));
    if (host[0] != 0.0f)
        printf("wrong: %g, not 0\n", (double)host[0]);
}

/* D = A A of 16 x 16, with what one call needs and one mistake. */
static void multiply(void *d, size_t shift, size_t scratch_bytes) {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t layout;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result;
    const float one = 1.0f, zero = 0.0f;
    const uint64_t scratch = 65536;
    int count = 0;
    cublasLtCreate(&handle);
    cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 16, 16, 16);
    cublasLtMatmulPreferenceCreate(&preference);
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &scratch, sizeof scratch);
    cublasLtMatmulAlgoGetHeuristic(handle, operation, layout, layout, layout, layout, preference, 1,
                                   &result, &count);
    const float *a = data + shift;
    cublasLtMatmul(handle, operation, &one, a, layout, a, layout, &zero, d, layout, d, layout,
                   &result.algo, data + 1024, scratch_bytes, nullptr);
}

static void run_product_on_itself(void) {
    multiply(data + 64, 0, 4096);
}

static void run_product_unaligned(void) {
    multiply(data + 2048, 1, 4096);
}

static void run_product_without_scratch(void) {
    multiply(data + 2048, 0, 0);
}

/* ---- The program ----------------------------------------------------------------------------- */

#define BUG(name)                                                                                  \
    { #name, run_##name }

static const struct {
    const char *name;
    void (*run)(void);
} bugs[] = {
    BUG(barrier_in_a_branch),
    BUG(barriers_in_two_branches),
    BUG(return_before_a_barrier),
    BUG(shuffle_in_a_branch),
    BUG(two_shuffles),
    BUG(mask_without_itself),
    BUG(deadlock),
    BUG(unset_shared),
    BUG(unset_dynamic),
    BUG(unset_memory),
    BUG(missing_barrier),
    BUG(missing_syncwarp),
    BUG(second_syncwarp),
    BUG(missing_atomic),
    BUG(missing_atomic_in_a_block),
    BUG(neighbour),
    BUG(beyond),
    BUG(beyond_shared),
    BUG(beyond_dynamic),
    BUG(beyond_local),
    BUG(misaligned),
    BUG(host_pointer),
    BUG(freed_memory),
    BUG(freed_hidden_memory),
    BUG(host_access),
    BUG(missing_event),
    BUG(missing_wait),
    BUG(product_on_itself),
    BUG(product_unaligned),
    BUG(product_without_scratch),
};

/* The results of a block are looked at when nothing else told a mistake. */
static void look(void) {
    check(cudaGetLastError());
    check(cudaDeviceSynchronize());
    check(cudaMemcpy(host, data, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < BLOCK; i++)
        if (host[i] != host[i]) {
            printf("wrong: element %d is not a number\n", i);
            break;
        }
    printf("done: %g\n", (double)host[0]);
}

int main(int argc, char **argv) {
    setvbuf(stdout, nullptr, _IOLBF, 0);
    for (const auto &bug : bugs) {
        if (argc != 2 || strcmp(argv[1], bug.name) != 0)
            continue;
        check(cudaMalloc(reinterpret_cast<void **>(&data), sizeof host));
        check(cudaMalloc(reinterpret_cast<void **>(&other), sizeof host));
        check(cudaMemset(data, 0, sizeof host));
        check(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
        check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
        bug.run();
        look();
        return 0;
    }
    fprintf(stderr, "usage: bugs NAME\n");
    return 2;
}
