/* add, mul: a [rows, n], b [n] -> [rows, n], b repeated for each row; scale: x [n] -> [n].
 * Nothing is kept. */
#include "elementwise.h"

namespace {

struct plus {
    __device__ __forceinline__ float operator()(float a, float b) const { return a + b; }
};

struct times {
    __device__ __forceinline__ float operator()(float a, float b) const { return a * b; }
};

/* f(a[i], b[i % n]); `whole`: the vectors of b do not cross its end. */
template <typename A, typename B, typename F> struct repeated {
    const A *a;
    const B *b;
    int64_t n;
    bool whole;
    F f;

    /* Division of 32 bits costs a third of that of 64. */
    __device__ __forceinline__ int64_t column(int64_t i) const {
        return (uint64_t)i <= UINT32_MAX && n <= UINT32_MAX ? (int64_t)((uint32_t)i % (uint32_t)n)
                                                            : i % n;
    }
    template <int N> __device__ __forceinline__ void get(int64_t i, float *v) const {
        float w[N];
        int64_t c = column(i);
        rp_cuda_load<N>(a + i, v);
        if (whole) {
            rp_cuda_load<N>(b + c, w);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++) {
                w[j] = rp_cuda_widen(b[c]);
                c = c + 1 == n ? 0 : c + 1;
            }
        }
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] = f(v[j], w[j]);
    }
    __device__ __forceinline__ float one(int64_t i) const {
        return f(rp_cuda_widen(a[i]), rp_cuda_widen(b[column(i)]));
    }
};

template <typename A, typename B, typename Out, typename F>
rp_status run_suffix(const rp_launch *launch) {
    enum { N = rp_cuda_pack<Out, typename rp_cuda_smaller<A, B>::type>::COUNT };
    const A *a = static_cast<const A *>(launch->in[0]);
    const B *b = static_cast<const B *>(launch->in[1]);
    const int64_t count = rp_info_count(&launch->call.in[0]);
    const int64_t n = rp_info_count(&launch->call.in[1]);
    if (count == 0)
        return RP_OK;
    if (count == n) {
        const rp_cuda_binary<A, B, F> body = {a, b, F()};
        return rp_cuda_run_each<N, Out>(launch, body, rp_cuda_aligned16(a) && rp_cuda_aligned16(b));
    }
    const repeated<A, B, F> body = {a, b, n, n % N == 0 && rp_cuda_aligned16(b), F()};
    return rp_cuda_run_each<N, Out>(launch, body, rp_cuda_aligned16(a));
}

/* Gradients of one value that are added may be of either storage. */
template <typename F> rp_status run_stored(const rp_launch *launch) {
    typedef rp_cuda_bf16 half;
    static rp_status (*const runs[2][2][2])(const rp_launch *) = {
        {{run_suffix<float, float, float, F>, run_suffix<float, float, half, F>},
         {run_suffix<float, half, float, F>, run_suffix<float, half, half, F>}},
        {{run_suffix<half, float, float, F>, run_suffix<half, float, half, F>},
         {run_suffix<half, half, float, F>, run_suffix<half, half, half, F>}}};
    const rp_dtype a = launch->call.in[0].dtype, b = launch->call.in[1].dtype;
    const rp_dtype out = launch->call.out[0].dtype;
    if (!rp_cuda_is_floating(a) || !rp_cuda_is_floating(b) || !rp_cuda_is_floating(out))
        return RP_UNSUPPORTED;
    return runs[a == RP_BF16][b == RP_BF16][out == RP_BF16](launch);
}

struct times_factor {
    float factor;
    __device__ __forceinline__ float operator()(float x) const { return factor * x; }
};

struct same {
    __device__ __forceinline__ float operator()(float x) const { return x; }
};

} // namespace

extern "C" rp_status rp_cuda_add(const rp_launch *launch) {
    return run_stored<plus>(launch);
}

extern "C" rp_status rp_cuda_mul(const rp_launch *launch) {
    return run_stored<times>(launch);
}

extern "C" rp_status rp_cuda_scale(const rp_launch *launch) {
    const times_factor f = {launch->call.params->scale.factor};
    return RP_CUDA_STORAGE(launch->call.in[0].dtype, launch->call.out[0].dtype, rp_cuda_run_unary,
                           launch, f);
}

/* x [n] -> y [n], f32 or bf16 each. Nothing is kept. */
extern "C" rp_status rp_cuda_cast(const rp_launch *launch) {
    if (launch->call.in[0].dtype == RP_F32 && launch->call.out[0].dtype == RP_BF16)
        return rp_cuda_run_unary<float, rp_cuda_bf16>(launch, same());
    return RP_CUDA_STORAGE(launch->call.in[0].dtype, launch->call.out[0].dtype, rp_cuda_run_unary,
                           launch, same());
}
