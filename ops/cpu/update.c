/* adamw: p, g, m, v [n], master [n] or absent, scale -> p, m, v, master; sgd: p, g [n], master [n]
 * or absent, scale -> p, master; sum_squares: g [n] -> one double; clip_scale: n doubles -> scalar.
 * One pass over memory: each array is read once and written once. */
#include <math.h>

#include "loops.h"

/* What the gradient is multiplied by: slot `slot`, a scalar, or 1. */
static float scale_of(const rp_launch *launch, size_t slot) {
    const float *scale = slot < launch->call.in_count ? launch->in[slot] : NULL;
    return scale != NULL ? *scale : 1.0f;
}

/* The master is what is updated, where there is one, and p what it is rounded to. */
static void copy_to_parameter(const rp_span *span, const float *master, float *p) {
#pragma omp simd
    for (int64_t i = 0; i < span->count; i++)
        p[i] = master[i];
}

static void adamw_span(const rp_span *span) {
    const rp_op_params *o = span->launch->call.params;
    const bool has_master = span->out[3] != NULL;
    const float *p = span->in[has_master ? 4 : 0], *g = span->in[1], *m = span->in[2],
                *v = span->in[3];
    float *p_out = span->out[has_master ? 3 : 0], *m_out = span->out[1], *v_out = span->out[2];
    const float beta1 = o->adamw.beta1, beta2 = o->adamw.beta2, eps = o->adamw.eps;
    const float scale = scale_of(span->launch, 5);
    const float decay = 1.0f - o->adamw.lr * o->adamw.weight_decay;
    const float rate = o->adamw.lr / o->adamw.correction1;
    const float spread = 1.0f / o->adamw.correction2;
#pragma omp simd
    for (int64_t i = 0; i < span->count; i++) {
        const float gradient = scale * g[i];
        const float mean = beta1 * m[i] + (1.0f - beta1) * gradient;
        const float square = beta2 * v[i] + (1.0f - beta2) * (gradient * gradient);
        m_out[i] = mean;
        v_out[i] = square;
        p_out[i] = decay * p[i] - rate * mean / (sqrtf(square * spread) + eps);
    }
    if (has_master)
        copy_to_parameter(span, p_out, span->out[0]);
}

rp_status RP_CPU(adamw)(const rp_launch *launch) {
    return RP_CPU(for_spans)(launch, adamw_span);
}

static void sgd_span(const rp_span *span) {
    const rp_op_params *o = span->launch->call.params;
    const bool has_master = span->out[1] != NULL;
    const float *p = span->in[has_master ? 2 : 0], *g = span->in[1];
    float *p_out = span->out[has_master ? 1 : 0];
    const float decay = 1.0f - o->sgd.lr * o->sgd.weight_decay;
    const float rate = o->sgd.lr * scale_of(span->launch, 3);
#pragma omp simd
    for (int64_t i = 0; i < span->count; i++)
        p_out[i] = decay * p[i] - rate * g[i];
    if (has_master)
        copy_to_parameter(span, p_out, span->out[0]);
}

rp_status RP_CPU(sgd)(const rp_launch *launch) {
    return RP_CPU(for_spans)(launch, sgd_span);
}

static double add_squares(double sum, const float *x, int64_t count) {
    double more = 0.0;
#pragma omp simd reduction(+ : more)
    for (int64_t i = 0; i < count; i++)
        more += (double)x[i] * (double)x[i];
    return sum + more;
}

static double squares_of(rp_source x, int64_t begin, int64_t count) {
    return rp_reduce(x, begin, count, add_squares);
}

rp_status RP_CPU(sum_squares)(const rp_launch *launch) {
    const int64_t n = rp_info_count(&launch->call.in[0]);
    const rp_cut cut = rp_cut_sum(n);
    const rp_source x = rp_launch_source(launch, 0);
    double *partial = launch->workspace, *out = launch->out[0], sum = 0.0;
    RP_TRY(rp_require_floating(launch));
    RP_PARALLEL_FOR(rp_cpu_threads(launch, n), p, cut.count, {
        const int64_t begin = p * cut.length, rest = n - begin;
        partial[p] = squares_of(x, begin, rest < cut.length ? rest : cut.length);
    });
    for (int64_t p = 0; p < cut.count; p++)
        sum += partial[p];
    *out = sum;
    return RP_OK;
}

rp_status RP_CPU(clip_scale)(const rp_launch *launch) {
    const int64_t count = rp_info_count(&launch->call.in[0]) / 2;
    const double *squares = launch->in[0], most = (double)launch->call.params->clip_scale.most;
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += squares[i];
    const double norm = sqrt(sum);
    *(float *)launch->out[0] = norm > most ? (float)(most / norm) : 1.0f;
    return RP_OK;
}
