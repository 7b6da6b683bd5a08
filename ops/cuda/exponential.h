/* Exponentials and quotients as exact as the storage of what they are taken of needs them, and sums
 * of exponentials relative to the largest exponent so far. */
#ifndef REPRISE_OPS_CUDA_EXPONENTIAL_H
#define REPRISE_OPS_CUDA_EXPONENTIAL_H

#include "reduce.h"

/* 2^x by the processor's own instruction, 2^-22 off at most; 0 below 2^-126. */
RP_CUDA_INLINE float rp_cuda_exp2(float x) {
#ifdef __CUDACC__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

/* Of f32 within a unit or two in the last place. Of bf16, where memory brings twice the numbers in
 * the time, in few instructions: the exponential is off by x 2^-24 and more, far below 2^-9. */
template <typename T> struct rp_cuda_math;

template <> struct rp_cuda_math<float> {
    static __device__ __forceinline__ float exp(float x) { return expf(x); }
    static __device__ __forceinline__ float divide(float a, float b) { return a / b; }
};

template <> struct rp_cuda_math<rp_cuda_bf16> {
    static __device__ __forceinline__ float exp(float x) { return rp_cuda_exp2(x * 1.44269504f); }
    static __device__ __forceinline__ float divide(float a, float b) { return __fdividef(a, b); }
};

/* x: the largest number seen; y: the sum of e^(number - x), 0 while x is -infinity. NaN is never
 * the largest, and makes the sum NaN. */
typedef float2 rp_cuda_exp_sum;

RP_CUDA_INLINE rp_cuda_exp_sum rp_cuda_exp_sum_none() {
    return make_float2(-INFINITY, 0.0f);
}

/* What a sum relative to `from` is multiplied with to be relative to `to`, the larger one. */
RP_CUDA_INLINE float rp_cuda_exp_sum_shift(float from, float to) {
    return from == to ? 1.0f : expf(from - to);
}

template <typename T, int N>
RP_CUDA_INLINE rp_cuda_exp_sum rp_cuda_exp_sum_add(rp_cuda_exp_sum s, const float *v) {
    float top = s.x, sum = 0.0f;
#pragma unroll
    for (int j = 0; j < N; j++)
        top = fmaxf(top, v[j]);
    const float base = top == -INFINITY ? 0.0f : top;
#pragma unroll
    for (int j = 0; j < N; j++)
        sum += rp_cuda_math<T>::exp(v[j] - base);
    return make_float2(top, s.y * rp_cuda_exp_sum_shift(s.x, top) + sum);
}

struct rp_cuda_exp_sum_merge {
    __device__ __forceinline__ float2 operator()(float2 a, float2 b) const {
        const float top = fmaxf(a.x, b.x);
        return make_float2(top, a.y * rp_cuda_exp_sum_shift(a.x, top) +
                                    b.y * rp_cuda_exp_sum_shift(b.x, top));
    }
};

#endif
