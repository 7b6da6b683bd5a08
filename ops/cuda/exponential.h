/* Exponentials of numbers that are 0 or less, and sums of them relative to the largest exponent so
 * far. */
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

/* e^x for x <= 0: the product's rounding costs x 2^-24, where e^x is small. */
RP_CUDA_INLINE float rp_cuda_exp(float x) {
    return rp_cuda_exp2(x * 1.44269504f);
}

/* x: the largest number seen; y: the sum of e^(number - x), 0 while x is -infinity. NaN is never
 * the largest, and makes the sum NaN. */
typedef float2 rp_cuda_exp_sum;

RP_CUDA_INLINE rp_cuda_exp_sum rp_cuda_exp_sum_none() {
    return make_float2(-INFINITY, 0.0f);
}

/* What a sum relative to `from` is multiplied with to be relative to `to`, the larger one. */
RP_CUDA_INLINE float rp_cuda_exp_sum_shift(float from, float to) {
    return from == to ? 1.0f : rp_cuda_exp(from - to);
}

template <int N>
RP_CUDA_INLINE rp_cuda_exp_sum rp_cuda_exp_sum_add(rp_cuda_exp_sum s, const float *v) {
    float top = s.x, sum = 0.0f;
#pragma unroll
    for (int j = 0; j < N; j++)
        top = fmaxf(top, v[j]);
    const float base = top == -INFINITY ? 0.0f : top;
#pragma unroll
    for (int j = 0; j < N; j++)
        sum += rp_cuda_exp(v[j] - base);
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
