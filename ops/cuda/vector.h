/* Storage of f32 and bf16, and accesses of 16 bytes. Kernels compute on floats: what they read is
 * widened, what they write is rounded to nearest even, once. */
#ifndef REPRISE_OPS_CUDA_VECTOR_H
#define REPRISE_OPS_CUDA_VECTOR_H

#include "device.h"
#include "slots.h"

#define RP_CUDA_INLINE static __device__ __forceinline__

typedef __nv_bfloat16 rp_cuda_bf16;

/* ---- One element ----------------------------------------------------------------------------- */

RP_CUDA_INLINE float rp_cuda_widen(float x) {
    return x;
}

RP_CUDA_INLINE float rp_cuda_widen(rp_cuda_bf16 x) {
    return __bfloat162float(x);
}

RP_CUDA_INLINE void rp_cuda_put(float *to, float x) {
    *to = x;
}

RP_CUDA_INLINE void rp_cuda_put(rp_cuda_bf16 *to, float x) {
    *to = __float2bfloat16_rn(x);
}

/* ---- N elements in a row --------------------------------------------------------------------- */

/* Elements of 16 bytes, of the smaller one of two types. */
template <typename A, typename B = A> struct rp_cuda_pack {
    enum { SIZE = sizeof(A) < sizeof(B) ? sizeof(A) : sizeof(B), COUNT = 16 / SIZE };
};

template <typename A, typename B> struct rp_cuda_smaller { typedef rp_cuda_bf16 type; };
template <> struct rp_cuda_smaller<float, float> { typedef float type; };

/* A bf16 is the upper half of a float. */
RP_CUDA_INLINE void rp_cuda_widen_pair(uint32_t pair, float *v) {
    v[0] = __uint_as_float(pair << 16);
    v[1] = __uint_as_float(pair & 0xffff0000u);
}

RP_CUDA_INLINE uint32_t rp_cuda_round_pair(const float *v) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(v[0], v[1]);
    return (uint32_t)__bfloat16_as_ushort(pair.x) | (uint32_t)__bfloat16_as_ushort(pair.y) << 16;
}

/* v[0..N) = x[0..N); x aligned to 16 bytes, or to what N elements take where that is less. */
template <int N> RP_CUDA_INLINE void rp_cuda_load(const float *x, float *v) {
    static_assert(N % 4 == 0, "whole vectors");
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        const float4 four = *reinterpret_cast<const float4 *>(x + i);
        v[i] = four.x;
        v[i + 1] = four.y;
        v[i + 2] = four.z;
        v[i + 3] = four.w;
    }
}

template <int N> RP_CUDA_INLINE void rp_cuda_load(const rp_cuda_bf16 *x, float *v) {
    static_assert(N == 4 || N % 8 == 0, "whole vectors");
    if constexpr (N == 4) {
        const uint2 four = *reinterpret_cast<const uint2 *>(x);
        rp_cuda_widen_pair(four.x, v);
        rp_cuda_widen_pair(four.y, v + 2);
    } else {
#pragma unroll
        for (int i = 0; i < N; i += 8) {
            const uint4 eight = *reinterpret_cast<const uint4 *>(x + i);
            rp_cuda_widen_pair(eight.x, v + i);
            rp_cuda_widen_pair(eight.y, v + i + 2);
            rp_cuda_widen_pair(eight.z, v + i + 4);
            rp_cuda_widen_pair(eight.w, v + i + 6);
        }
    }
}

/* The other way round. */
template <int N> RP_CUDA_INLINE void rp_cuda_store(float *to, const float *v) {
#pragma unroll
    for (int i = 0; i < N; i += 4)
        *reinterpret_cast<float4 *>(to + i) = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
}

template <int N> RP_CUDA_INLINE void rp_cuda_store(rp_cuda_bf16 *to, const float *v) {
    if constexpr (N == 4) {
        *reinterpret_cast<uint2 *>(to) =
            make_uint2(rp_cuda_round_pair(v), rp_cuda_round_pair(v + 2));
    } else {
#pragma unroll
        for (int i = 0; i < N; i += 8)
            *reinterpret_cast<uint4 *>(to + i) =
                make_uint4(rp_cuda_round_pair(v + i), rp_cuda_round_pair(v + i + 2),
                           rp_cuda_round_pair(v + i + 4), rp_cuda_round_pair(v + i + 6));
    }
}

/* G elements, or one: a group of neighbours that one thread has, wherever they lie. */
template <int G, typename T>
RP_CUDA_INLINE void rp_cuda_load_group(const T *x, bool aligned, float *v) {
    if constexpr (G > 1) {
        if (aligned) {
            rp_cuda_load<G>(x, v);
            return;
        }
    }
#pragma unroll
    for (int j = 0; j < G; j++)
        v[j] = rp_cuda_widen(x[j]);
}

template <int G, typename T>
RP_CUDA_INLINE void rp_cuda_store_group(T *to, bool aligned, const float *v) {
    if constexpr (G > 1) {
        if (aligned) {
            rp_cuda_store<G>(to, v);
            return;
        }
    }
#pragma unroll
    for (int j = 0; j < G; j++)
        rp_cuda_put(to + j, v[j]);
}

/* A group as it lies in memory, to be widened when it is used: until then it takes fewer
 * registers. */
template <typename T, int G> struct rp_cuda_raw { T at[G]; };
template <> struct rp_cuda_raw<float, 4> { float4 bits; };
template <> struct rp_cuda_raw<rp_cuda_bf16, 8> { uint4 bits; };

template <typename T>
RP_CUDA_INLINE void rp_cuda_load_raw(const T *x, bool, rp_cuda_raw<T, 1> *raw) {
    raw->at[0] = *x;
}

RP_CUDA_INLINE void rp_cuda_load_raw(const float *x, bool aligned, rp_cuda_raw<float, 4> *raw) {
    raw->bits =
        aligned ? *reinterpret_cast<const float4 *>(x) : make_float4(x[0], x[1], x[2], x[3]);
}

RP_CUDA_INLINE void rp_cuda_load_raw(const rp_cuda_bf16 *x, bool aligned,
                                     rp_cuda_raw<rp_cuda_bf16, 8> *raw) {
    if (aligned) {
        raw->bits = *reinterpret_cast<const uint4 *>(x);
        return;
    }
    uint32_t pair[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
        pair[j] = (uint32_t)__bfloat16_as_ushort(x[2 * j]) |
                  (uint32_t)__bfloat16_as_ushort(x[2 * j + 1]) << 16;
    raw->bits = make_uint4(pair[0], pair[1], pair[2], pair[3]);
}

template <typename T>
RP_CUDA_INLINE void rp_cuda_widen_raw(const rp_cuda_raw<T, 1> &raw, float *v) {
    v[0] = rp_cuda_widen(raw.at[0]);
}

RP_CUDA_INLINE void rp_cuda_widen_raw(const rp_cuda_raw<float, 4> &raw, float *v) {
    v[0] = raw.bits.x;
    v[1] = raw.bits.y;
    v[2] = raw.bits.z;
    v[3] = raw.bits.w;
}

RP_CUDA_INLINE void rp_cuda_widen_raw(const rp_cuda_raw<rp_cuda_bf16, 8> &raw, float *v) {
    rp_cuda_widen_pair(raw.bits.x, v);
    rp_cuda_widen_pair(raw.bits.y, v + 2);
    rp_cuda_widen_pair(raw.bits.z, v + 4);
    rp_cuda_widen_pair(raw.bits.w, v + 6);
}

/* ---- The host's side ------------------------------------------------------------------------- */

static inline rp_dtype rp_cuda_in_dtype(const rp_launch *launch, size_t i) {
    return i < launch->call.in_count ? launch->call.in[i].dtype : RP_NO_DTYPE;
}

static inline rp_dtype rp_cuda_out_dtype(const rp_launch *launch, size_t k) {
    return k < launch->call.out_count ? launch->call.out[k].dtype : RP_NO_DTYPE;
}

static inline bool rp_cuda_is_floating(rp_dtype dtype) {
    return dtype == RP_F32 || dtype == RP_BF16;
}

/* Present slots have this type. */
static inline bool rp_cuda_is(rp_dtype dtype, rp_dtype wanted) {
    return dtype == wanted || dtype == RP_NO_DTYPE;
}

static inline int64_t rp_cuda_divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

/* function<storage of inputs, storage of the output>(...): equal, or a gradient in f32 of what is
 * bf16. */
#define RP_CUDA_STORAGE(in, out, function, ...)                                                    \
    ((in) == RP_F32 && (out) == RP_F32     ? function<float, float>(__VA_ARGS__)                   \
     : (in) == RP_BF16 && (out) == RP_BF16 ? function<rp_cuda_bf16, rp_cuda_bf16>(__VA_ARGS__)     \
     : (in) == RP_BF16 && (out) == RP_F32  ? function<rp_cuda_bf16, float>(__VA_ARGS__)            \
                                           : RP_UNSUPPORTED)

/* Blocks of a grid's first dimension; more are refused before they are launched. */
#define RP_CUDA_MOST_BLOCKS ((int64_t)INT32_MAX)

#endif
