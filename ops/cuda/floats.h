/* Storage types in registers: kernels compute in f32 and round once, when they store. */
#ifndef REPRISE_OPS_CUDA_FLOATS_H
#define REPRISE_OPS_CUDA_FLOATS_H

#include "device.h"

__device__ __forceinline__ float rp_to_float(float x) {
    return x;
}
__device__ __forceinline__ float rp_to_float(__nv_bfloat16 x) {
    return __bfloat162float(x);
}

__device__ __forceinline__ void rp_store(float *to, float x) {
    *to = x;
}
__device__ __forceinline__ void rp_store(__nv_bfloat16 *to, float x) {
    *to = __float2bfloat16_rn(x);
}

/* N elements that lie right for one access. */
template <typename T, int N> struct alignas(sizeof(T) * N) rp_pack { T at[N]; };

/* Four elements: in one access if they lie right, else those of the first `count`, the others being
 * 0. */
template <typename T>
__device__ __forceinline__ float4 rp_load4(const T *from, int count, bool vector) {
    float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (vector) {
        const rp_pack<T, 4> p = *reinterpret_cast<const rp_pack<T, 4> *>(from);
        return make_float4(rp_to_float(p.at[0]), rp_to_float(p.at[1]), rp_to_float(p.at[2]),
                           rp_to_float(p.at[3]));
    }
    if (count > 0)
        x.x = rp_to_float(from[0]);
    if (count > 1)
        x.y = rp_to_float(from[1]);
    if (count > 2)
        x.z = rp_to_float(from[2]);
    if (count > 3)
        x.w = rp_to_float(from[3]);
    return x;
}

template <typename T>
__device__ __forceinline__ void rp_store4(T *to, float4 x, int count, bool vector) {
    if (vector) {
        rp_pack<T, 4> p;
        rp_store(&p.at[0], x.x);
        rp_store(&p.at[1], x.y);
        rp_store(&p.at[2], x.z);
        rp_store(&p.at[3], x.w);
        *reinterpret_cast<rp_pack<T, 4> *>(to) = p;
        return;
    }
    if (count > 0)
        rp_store(to, x.x);
    if (count > 1)
        rp_store(to + 1, x.y);
    if (count > 2)
        rp_store(to + 2, x.z);
    if (count > 3)
        rp_store(to + 3, x.w);
}

#endif
