/* Kernels for test_engine.c: what the emulator must run as a device does. */
#include "device.h"

#include "engine_kernels.h"

/* x: [count]; out: [1]. One block sums by shuffles and shared memory. */
template <typename T>
static __global__ void __launch_bounds__(1024) sum_kernel(const T *x, float *out, int count) {
    __shared__ float partial[32];
    float sum = 0.0f;
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x)
        sum += (float)x[i];
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (unsigned w = 1; w < blockDim.x / 32; w++)
            sum += partial[w];
        out[0] = sum;
    }
}

extern "C" cudaError_t engine_sum(const float *x, float *out, int count, cudaStream_t stream) {
    RP_CUDA_LAUNCH(sum_kernel<float>, 1, 256, 0, stream, x, out, count);
    return cudaGetLastError();
}

extern "C" cudaError_t engine_sum_bf16(const uint16_t *x, float *out, int count,
                                       cudaStream_t stream) {
    RP_CUDA_LAUNCH(sum_kernel<__nv_bfloat16>, 1, 1024, 0, stream,
                   reinterpret_cast<const __nv_bfloat16 *>(x), out, count);
    return cudaGetLastError();
}

/* data: [rows, 64], reversed in place by dynamic shared memory. */
static __global__ void reverse_kernel(float *data) {
    RP_CUDA_SHARED(float, row);
    float *mine = data + 64 * (size_t)blockIdx.x;
    row[threadIdx.x] = mine[threadIdx.x];
    __syncthreads();
    mine[threadIdx.x] = row[63 - threadIdx.x];
}

extern "C" cudaError_t engine_reverse(float *data, int rows, cudaStream_t stream) {
    RP_CUDA_LAUNCH(reverse_kernel, rows, 64, 64 * sizeof(float), stream, data);
    return cudaGetLastError();
}

/* out: [32 * WARP_RESULTS]: what each warp intrinsic gives lane by lane. */
static __global__ void warp_kernel(unsigned *out) {
    const unsigned lane = threadIdx.x, all = 0xFFFFFFFFu, value = lane * 7 % 11;
    int same = 0;
    const unsigned results[WARP_RESULTS] = {
        __shfl_sync(all, value, 5),
        __shfl_sync(all, value, 9, 8),
        __shfl_xor_sync(all, value, 3),
        __shfl_up_sync(all, value, 2u),
        __shfl_down_sync(all, value, 4u, 16),
        __ballot_sync(all, value > 5),
        (unsigned)__any_sync(all, lane == 40),
        (unsigned)__all_sync(all, lane < 40),
        __match_any_sync(all, value),
        __match_all_sync(all, 3, &same) + (unsigned)same,
        __reduce_add_sync(all, value),
        (unsigned)__reduce_min_sync(all, (int)lane - 9),
        __reduce_max_sync(all, value),
        __reduce_xor_sync(all, lane),
    };
    for (int i = 0; i < WARP_RESULTS; i++)
        out[i * 32 + (int)lane] = results[i];
    /* Two halves by themselves, then both. */
    unsigned half = lane < 16 ? __reduce_add_sync(0x0000FFFFu, lane) : 0;
    if (lane >= 16)
        half = __reduce_add_sync(0xFFFF0000u, lane);
    out[WARP_RESULTS * 32 + (int)lane] = half + __shfl_xor_sync(all, half, 16);
}

extern "C" cudaError_t engine_warp(unsigned *out, cudaStream_t stream) {
    RP_CUDA_LAUNCH(warp_kernel, 1, 32, 0, stream, out);
    return cudaGetLastError();
}

/* count: [1], zero; parts: [blocks]; out: [1]. The block that is done last adds the parts. */
static __global__ void last_block_kernel(const float *x, float *parts, unsigned *count,
                                         float *out) {
    __shared__ bool is_last;
    const float sum = x[blockIdx.x * 32 + threadIdx.x];
    const float all = (float)__reduce_add_sync(0xFFFFFFFFu, (int)sum);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = all;
        __threadfence();
        is_last = atomicAdd(count, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        float total = 0.0f;
        for (unsigned b = 0; b < gridDim.x; b++)
            total += parts[b];
        out[0] = total;
    }
}

extern "C" cudaError_t engine_last_block(const float *x, float *parts, unsigned *count, float *out,
                                         int blocks, cudaStream_t stream) {
    RP_CUDA_LAUNCH(last_block_kernel, blocks, 32, 0, stream, x, parts, count, out);
    return cudaGetLastError();
}

/* out: [2]: how many threads counted, and the sum over barriers. */
static __global__ void count_kernel(int *out, int least) {
    const int count = __syncthreads_count((int)threadIdx.x >= least);
    const int any = __syncthreads_or((int)threadIdx.x == least);
    const int all = __syncthreads_and((int)threadIdx.x >= least);
    if (threadIdx.x == 0)
        out[0] = count, out[1] = any * 2 + all;
}

extern "C" cudaError_t engine_count(int *out, int least, int threads, size_t shared_bytes,
                                    cudaStream_t stream) {
    RP_CUDA_LAUNCH(count_kernel, dim3(1), dim3((unsigned)threads), shared_bytes, stream, out,
                   least);
    return cudaGetLastError();
}

extern "C" cudaError_t engine_allow(int shared_bytes) {
    return cudaFuncSetAttribute(reinterpret_cast<const void *>(count_kernel),
                                cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
}

/* x: [count] += amount */
static __global__ void add_kernel(float *x, float amount, int64_t count) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        x[i] += amount;
}

extern "C" cudaError_t engine_add(float *x, float amount, int64_t count, cudaStream_t stream) {
    RP_CUDA_LAUNCH(add_kernel, (count + 127) / 128, 128, 0, stream, x, amount, count);
    return cudaGetLastError();
}
