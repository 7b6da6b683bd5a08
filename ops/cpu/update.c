/* adamw: p, g, m, v [n] -> p, m, v; sgd: p, g [n] -> p; sum_squares: g [n] -> one double.
 * One pass over memory: each array is read once and written once. */
#include <math.h>

#include "loops.h"

static void adamw_range(const rp_launch *launch, int64_t begin, int64_t end) {
    const rp_op_params *o = launch->call.params;
    const float *p = launch->in[0], *g = launch->in[1], *m = launch->in[2], *v = launch->in[3];
    float *p_out = launch->out[0], *m_out = launch->out[1], *v_out = launch->out[2];
    const float beta1 = o->adamw.beta1, beta2 = o->adamw.beta2, eps = o->adamw.eps;
    const float scale = o->adamw.gradient_scale;
    const float decay = 1.0f - o->adamw.lr * o->adamw.weight_decay;
    const float rate = o->adamw.lr / o->adamw.correction1;
    const float spread = 1.0f / o->adamw.correction2;
#pragma omp simd
    for (int64_t i = begin; i < end; i++) {
        const float gradient = scale * g[i];
        const float mean = beta1 * m[i] + (1.0f - beta1) * gradient;
        const float square = beta2 * v[i] + (1.0f - beta2) * (gradient * gradient);
        m_out[i] = mean;
        v_out[i] = square;
        p_out[i] = decay * p[i] - rate * mean / (sqrtf(square * spread) + eps);
    }
}

rp_status RP_CPU(adamw)(const rp_launch *launch) {
    RP_TRY(rp_require_f32(launch));
    rp_for_chunks(launch, rp_info_count(&launch->call.in[0]), adamw_range);
    return RP_OK;
}

static void sgd_range(const rp_launch *launch, int64_t begin, int64_t end) {
    const rp_op_params *o = launch->call.params;
    const float *p = launch->in[0], *g = launch->in[1];
    const float decay = 1.0f - o->sgd.lr * o->sgd.weight_decay;
    const float rate = o->sgd.lr * o->sgd.gradient_scale;
    float *p_out = launch->out[0];
#pragma omp simd
    for (int64_t i = begin; i < end; i++)
        p_out[i] = decay * p[i] - rate * g[i];
}

rp_status RP_CPU(sgd)(const rp_launch *launch) {
    RP_TRY(rp_require_f32(launch));
    rp_for_chunks(launch, rp_info_count(&launch->call.in[0]), sgd_range);
    return RP_OK;
}

static double squares_of(const float *x, int64_t count) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sum;
}

rp_status RP_CPU(sum_squares)(const rp_launch *launch) {
    const int64_t n = rp_info_count(&launch->call.in[0]);
    const rp_cut cut = rp_cut_sum(n);
    const float *x = launch->in[0];
    double *partial = launch->workspace, *out = launch->out[0], sum = 0.0;
    if (launch->call.in[0].dtype != RP_F32)
        return RP_UNSUPPORTED;
    RP_PARALLEL_FOR(rp_cpu_threads(launch, n), p, cut.count, {
        const int64_t begin = p * cut.length, rest = n - begin;
        partial[p] = squares_of(x + begin, rest < cut.length ? rest : cut.length);
    });
    for (int64_t p = 0; p < cut.count; p++)
        sum += partial[p];
    *out = sum;
    return RP_OK;
}
