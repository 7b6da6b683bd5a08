/* Elementwise kernels: each element once, two vectors a thread, all of them on their way before the
 * first is used. */
#ifndef REPRISE_OPS_CUDA_ELEMENTWISE_H
#define REPRISE_OPS_CUDA_ELEMENTWISE_H

#include "vector.h"

enum { RP_CUDA_EACH_THREADS = 256, RP_CUDA_EACH_VECTORS = 2 };

/* out[i] = (sum[i] +) body(i) for i < count. A body gives N elements at once, get<N>(i, v), from
 * addresses that are aligned where `aligned` says so, or one, one(i). `out` and `sum` may be what
 * the body reads. A place may be shared by tensors of different sizes only where those fit one
 * alignment of the arena, which is one block: it reads everything before it writes. */
template <int N, typename Out, typename Body>
static __global__ void __launch_bounds__(RP_CUDA_EACH_THREADS)
    rp_cuda_each(Body body, const Out *sum, Out *out, int64_t count, bool aligned) {
    constexpr int threads = RP_CUDA_EACH_THREADS, vectors = RP_CUDA_EACH_VECTORS;
    constexpr int64_t block = (int64_t)threads * vectors * N;
    const int64_t begin = (int64_t)blockIdx.x * block;
    if (aligned && begin + block <= count) {
        const int64_t first = begin + (int64_t)threadIdx.x * N;
        float v[vectors][N];
#pragma unroll
        for (int u = 0; u < vectors; u++)
            body.template get<N>(first + u * threads * N, v[u]);
        if (sum != nullptr) {
#pragma unroll
            for (int u = 0; u < vectors; u++) {
                float added[N];
                rp_cuda_load<N>(sum + first + u * threads * N, added);
#pragma unroll
                for (int j = 0; j < N; j++)
                    v[u][j] += added[j];
            }
        }
        if (gridDim.x == 1)
            __syncthreads();
#pragma unroll
        for (int u = 0; u < vectors; u++)
            rp_cuda_store<N>(out + first + u * threads * N, v[u]);
        return;
    }
    float v[vectors * N];
#pragma unroll
    for (int k = 0; k < vectors * N; k++) {
        const int64_t i = begin + k * threads + threadIdx.x;
        if (i < count)
            v[k] = sum != nullptr ? rp_cuda_widen(sum[i]) + body.one(i) : body.one(i);
    }
    if (gridDim.x == 1)
        __syncthreads();
#pragma unroll
    for (int k = 0; k < vectors * N; k++) {
        const int64_t i = begin + k * threads + threadIdx.x;
        if (i < count)
            rp_cuda_put(out + i, v[k]);
    }
}

/* Output 0 from a body; `aligned`: all that the body reads. */
template <int N, typename Out, typename Body>
static inline rp_status rp_cuda_run_each(const rp_launch *launch, const Body &body, bool aligned) {
    const int64_t count = rp_info_count(&launch->call.out[0]);
    const int64_t blocks =
        rp_cuda_divide_up(count, (int64_t)RP_CUDA_EACH_THREADS * RP_CUDA_EACH_VECTORS * N);
    const Out *sum = static_cast<const Out *>(rp_cuda_added(launch, 0));
    Out *out = static_cast<Out *>(launch->out[0]);
    if (count == 0)
        return RP_OK;
    if (blocks > RP_CUDA_MOST_BLOCKS)
        return RP_UNSUPPORTED;
    aligned = aligned && rp_cuda_aligned16(sum) && rp_cuda_aligned16(out);
    RP_CUDA_LAUNCH((rp_cuda_each<N, Out, Body>), (unsigned)blocks, RP_CUDA_EACH_THREADS, 0,
                   launch->queue->stream, body, sum, out, count, aligned);
    return rp_cuda_launched(launch);
}

/* F of one tensor, and of two. */
template <typename In, typename F> struct rp_cuda_unary {
    const In *x;
    F f;

    template <int N> __device__ __forceinline__ void get(int64_t i, float *v) const {
        rp_cuda_load<N>(x + i, v);
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] = f(v[j]);
    }
    __device__ __forceinline__ float one(int64_t i) const {
        return f(rp_cuda_widen(x[i]));
    }
};

template <typename A, typename B, typename F> struct rp_cuda_binary {
    const A *a;
    const B *b;
    F f;

    template <int N> __device__ __forceinline__ void get(int64_t i, float *v) const {
        float w[N];
        rp_cuda_load<N>(a + i, v);
        rp_cuda_load<N>(b + i, w);
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] = f(v[j], w[j]);
    }
    __device__ __forceinline__ float one(int64_t i) const {
        return f(rp_cuda_widen(a[i]), rp_cuda_widen(b[i]));
    }
};

template <typename In, typename Out, typename F>
static inline rp_status rp_cuda_run_unary(const rp_launch *launch, F f) {
    const rp_cuda_unary<In, F> body = {static_cast<const In *>(launch->in[0]), f};
    return rp_cuda_run_each<rp_cuda_pack<In, Out>::COUNT, Out>(launch, body,
                                                               rp_cuda_aligned16(body.x));
}

template <typename In, typename Out, typename F>
static inline rp_status rp_cuda_run_binary(const rp_launch *launch, F f) {
    const rp_cuda_binary<In, In, F> body = {static_cast<const In *>(launch->in[0]),
                                            static_cast<const In *>(launch->in[1]), f};
    return rp_cuda_run_each<rp_cuda_pack<In, Out>::COUNT, Out>(
        launch, body, rp_cuda_aligned16(body.a) && rp_cuda_aligned16(body.b));
}

#endif
