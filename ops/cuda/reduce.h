/* Reductions within a block, in an order that the block's shape alone fixes. */
#ifndef REPRISE_OPS_CUDA_REDUCE_H
#define REPRISE_OPS_CUDA_REDUCE_H

#include "vector.h"

enum { RP_CUDA_WARP = 32, RP_CUDA_MOST_WARPS = 32 };

RP_CUDA_INLINE float rp_cuda_exchange(float x, int mask) {
    return __shfl_xor_sync(0xffffffffu, x, mask);
}

RP_CUDA_INLINE double rp_cuda_exchange(double x, int mask) {
    return __shfl_xor_sync(0xffffffffu, x, mask);
}

RP_CUDA_INLINE int rp_cuda_exchange(int x, int mask) {
    return __shfl_xor_sync(0xffffffffu, x, mask);
}

RP_CUDA_INLINE float2 rp_cuda_exchange(float2 x, int mask) {
    return make_float2(rp_cuda_exchange(x.x, mask), rp_cuda_exchange(x.y, mask));
}

struct rp_cuda_sum {
    __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
    __device__ __forceinline__ double operator()(double a, double b) const { return a + b; }
    __device__ __forceinline__ int operator()(int a, int b) const { return a + b; }
    __device__ __forceinline__ float2 operator()(float2 a, float2 b) const {
        return make_float2(a.x + b.x, a.y + b.y);
    }
};

struct rp_cuda_max {
    __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/* Over groups of `lanes` lanes, a power of two; all of them get it. */
template <typename V, typename F>
RP_CUDA_INLINE V rp_cuda_reduce_warp(V v, F f, int lanes = RP_CUDA_WARP) {
#pragma unroll
    for (int mask = RP_CUDA_WARP / 2; mask > 0; mask /= 2)
        if (mask < lanes)
            v = f(v, rp_cuda_exchange(v, mask));
    return v;
}

/* Over the blockDim.x threads of a row: a power of two, whole warps. All threads of the block call
 * it, and each gets the result of its row. `scratch`: shared memory, one a warp of the block. */
template <typename V, typename F> RP_CUDA_INLINE V rp_cuda_reduce_row(V v, F f, V *scratch) {
    const int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x);
    const int lane = thread % RP_CUDA_WARP, warp = thread / RP_CUDA_WARP;
    const int warps = (int)blockDim.x / RP_CUDA_WARP;
    v = rp_cuda_reduce_warp(v, f);
    if (warps == 1)
        return v;
    __syncthreads(); /* the last reduction's results have been read */
    if (lane == 0)
        scratch[warp] = v;
    __syncthreads();
    return rp_cuda_reduce_warp(scratch[warp / warps * warps + lane % warps], f, warps);
}

#endif
