/* adamw: p, g, m, v [n], master [n] or absent, scale or absent -> p, m, v, master; sgd: p, g [n],
 * master [n] or absent, scale or absent -> p, master. A master, where there is one, is what is
 * updated, and p what it is rounded to. One pass over memory: each array is read once and written
 * once. */
#include "vector.h"

namespace {

enum { THREADS = 256, N = 4 }; /* elements of a thread: 16 bytes of each f32 array */

/* What is the same for all elements. */
typedef struct rule {
    float beta1, beta2, eps, decay, rate, spread;
} rule;

/* Of one update. `value` is what is updated: the master, or p. Outputs may lie on inputs. */
template <typename P, typename G, typename V> struct arrays {
    const V *value;
    const G *g;
    const float *m, *v, *scale;
    V *value_out;
    P *p_out; /* NULL where value_out is p */
    float *m_out, *v_out;
    int64_t count;
    bool aligned;
};

struct adam {
    __device__ __forceinline__ float operator()(const rule &o, float value, float g, float scale,
                                                float *m, float *v) const {
        g *= scale;
        *m = o.beta1 * *m + (1.0f - o.beta1) * g;
        *v = o.beta2 * *v + (1.0f - o.beta2) * (g * g);
        return o.decay * value - o.rate * *m / (sqrtf(*v * o.spread) + o.eps);
    }
};

struct descent {
    __device__ __forceinline__ float operator()(const rule &o, float value, float g, float scale,
                                                float *, float *) const {
        return o.decay * value - o.rate * scale * g;
    }
};

template <int COUNT, bool MOMENTS, typename P, typename G, typename V, typename F>
__device__ __forceinline__ void update(const arrays<P, G, V> &a, const rule &o, float scale,
                                       int64_t i, F f) {
    float value[COUNT], g[COUNT], m[COUNT], v[COUNT];
    rp_cuda_load_group<COUNT>(a.value + i, true, value);
    rp_cuda_load_group<COUNT>(a.g + i, true, g);
    if (MOMENTS) {
        rp_cuda_load_group<COUNT>(a.m + i, true, m);
        rp_cuda_load_group<COUNT>(a.v + i, true, v);
    }
#pragma unroll
    for (int j = 0; j < COUNT; j++)
        value[j] = f(o, value[j], g[j], scale, &m[j], &v[j]);
    rp_cuda_store_group<COUNT>(a.value_out + i, true, value);
    if (a.p_out != nullptr)
        rp_cuda_store_group<COUNT>(a.p_out + i, true, value);
    if (MOMENTS) {
        rp_cuda_store_group<COUNT>(a.m_out + i, true, m);
        rp_cuda_store_group<COUNT>(a.v_out + i, true, v);
    }
}

template <bool MOMENTS, typename P, typename G, typename V, typename F>
__global__ void __launch_bounds__(THREADS) update_kernel(arrays<P, G, V> a, rule o, F f) {
    const float scale = a.scale != nullptr ? *a.scale : 1.0f;
    const int64_t begin = (int64_t)blockIdx.x * (THREADS * N);
    if (a.aligned && begin + THREADS * N <= a.count) {
        update<N, MOMENTS>(a, o, scale, begin + (int64_t)threadIdx.x * N, f);
        return;
    }
#pragma unroll 1
    for (int k = 0; k < N; k++) {
        const int64_t i = begin + k * THREADS + threadIdx.x;
        if (i < a.count)
            update<1, MOMENTS>(a, o, scale, i, f);
    }
}

template <bool MOMENTS, typename P, typename G, typename V, typename F>
rp_status launch_update(const rp_launch *launch, arrays<P, G, V> a, const rule &o, F f) {
    const int64_t blocks = rp_cuda_divide_up(a.count, THREADS * N);
    a.aligned = rp_cuda_aligned16(a.value) && rp_cuda_aligned16(a.g) && rp_cuda_aligned16(a.m) &&
                rp_cuda_aligned16(a.v) && rp_cuda_aligned16(a.value_out) &&
                rp_cuda_aligned16(a.p_out) && rp_cuda_aligned16(a.m_out) &&
                rp_cuda_aligned16(a.v_out);
    if (blocks > RP_CUDA_MOST_BLOCKS)
        return RP_UNSUPPORTED;
    if (blocks > 0)
        RP_CUDA_LAUNCH((update_kernel<MOMENTS, P, G, V, F>), (unsigned)blocks, THREADS, 0,
                       launch->queue->stream, a, o, f);
    return rp_cuda_launched(launch);
}

/* Slots of master and scale in, and of master out. */
typedef struct slots {
    size_t master, scale, master_out;
} slots;

template <bool MOMENTS, typename P, typename G, typename V, typename F>
rp_status run_typed(const rp_launch *launch, const slots &at, const rule &o, F f) {
    const bool has_master = rp_cuda_input(launch, at.master) != nullptr;
    arrays<P, G, V> a = {};
    a.value = static_cast<const V *>(launch->in[has_master ? at.master : 0]);
    a.g = static_cast<const G *>(launch->in[1]);
    a.scale = static_cast<const float *>(rp_cuda_input(launch, at.scale));
    a.value_out = static_cast<V *>(launch->out[has_master ? at.master_out : 0]);
    a.p_out = has_master ? static_cast<P *>(launch->out[0]) : nullptr;
    if (MOMENTS) {
        a.m = static_cast<const float *>(launch->in[2]);
        a.v = static_cast<const float *>(launch->in[3]);
        a.m_out = static_cast<float *>(launch->out[1]);
        a.v_out = static_cast<float *>(launch->out[2]);
    }
    a.count = rp_info_count(&launch->call.in[0]);
    return launch_update<MOMENTS>(launch, a, o, f);
}

/* Whatever p and g are stored as; master, moments and scale are f32. */
template <bool MOMENTS, typename F>
rp_status run(const rp_launch *launch, const slots &at, const rule &o, F f) {
    typedef rp_cuda_bf16 half;
    const rp_dtype p = launch->call.in[0].dtype, g = launch->call.in[1].dtype;
    const bool has_master = rp_cuda_input(launch, at.master) != nullptr;
    for (size_t i = 2; i < launch->call.in_count; i++)
        if (!rp_cuda_is(launch->call.in[i].dtype, RP_F32))
            return RP_UNSUPPORTED;
    if (!rp_cuda_is_floating(p) || !rp_cuda_is_floating(g) || launch->call.out[0].dtype != p)
        return RP_UNSUPPORTED;
    if (p == RP_F32)
        return g == RP_F32 ? run_typed<MOMENTS, float, float, float>(launch, at, o, f)
                           : run_typed<MOMENTS, float, half, float>(launch, at, o, f);
    if (has_master)
        return g == RP_F32 ? run_typed<MOMENTS, half, float, float>(launch, at, o, f)
                           : run_typed<MOMENTS, half, half, float>(launch, at, o, f);
    return g == RP_F32 ? run_typed<MOMENTS, half, float, half>(launch, at, o, f)
                       : run_typed<MOMENTS, half, half, half>(launch, at, o, f);
}

} // namespace

extern "C" rp_status rp_cuda_adamw(const rp_launch *launch) {
    const rp_op_params *o = launch->call.params;
    const rule r = {o->adamw.beta1,
                    o->adamw.beta2,
                    o->adamw.eps,
                    1.0f - o->adamw.lr * o->adamw.weight_decay,
                    o->adamw.lr / o->adamw.correction1,
                    1.0f / o->adamw.correction2};
    const slots at = {4, 5, 3};
    return run<true>(launch, at, r, adam());
}

extern "C" rp_status rp_cuda_sgd(const rp_launch *launch) {
    const rp_op_params *o = launch->call.params;
    const rule r = {0.0f, 0.0f, 0.0f, 1.0f - o->sgd.lr * o->sgd.weight_decay, o->sgd.lr, 0.0f};
    const slots at = {2, 3, 1};
    return run<false>(launch, at, r, descent());
}
