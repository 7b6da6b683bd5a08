/* attention, fused: simple loops, a row of scores at a time. */
#include <math.h>

#include "gemm.h"
#include "product.h"
#include "random.h"

enum { KEYS = 256 };

typedef struct drawing {
    uint32_t key[2], stream, threshold;
    float scale;
    bool on;
} drawing;

static drawing drawing_of(const rp_launch *launch) {
    const float p = launch->call.params->attention.dropout;
    drawing d = {.on = p > 0.0f && !launch->step->evaluate};
    if (!d.on)
        return d;
    rp_random_key(launch->step->seed, launch->step->step, launch->step->micro_batch, d.key);
    d.stream = launch->call.params->attention.stream;
    d.threshold = rp_dropout_threshold(p);
    d.scale = 1.0f / (1.0f - p);
    return d;
}

static float factor_of(const drawing *d, uint64_t element) {
    if (!d->on)
        return 1.0f;
    return rp_random_block(d->key, d->stream, element / 4).word[element % 4] >= d->threshold
               ? d->scale
               : 0.0f;
}

static float dot(const float *a, const float *b, int64_t n) {
    float sum = 0.0f;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add_scaled(float *to, float factor, const float *from, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] += factor * from[i];
}

static int64_t visible(const rp_launch *launch, const rp_attention_layout *l, int64_t i) {
    const int64_t end = i + l->keys - l->queries + 1;
    return !launch->call.params->attention.causal || end > l->keys ? l->keys : end < 0 ? 0 : end;
}

/* q, k, v -> o, lse */
rp_status RP_CPU(attention)(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const bool packed = params->attention.packed;
    const rp_attention_layout l =
        rp_attention_layout_of(params, &launch->call.in[0], packed ? NULL : &launch->call.in[1]);
    const float *q = launch->in[0], *k = packed ? q : launch->in[1],
                *v = packed ? q : launch->in[2];
    float *o = launch->out[0], *lse = launch->out[1];
    const drawing d = drawing_of(launch);
    const int64_t rows = l.batch * l.heads * l.queries;
#pragma omp parallel for num_threads(launch->threads)
    for (int64_t r = 0; r < rows; r++) {
        const int64_t i = r % l.queries, h = r / l.queries % l.heads, b = r / l.queries / l.heads;
        const float *qi = q + (b * l.queries + i) * l.q_stride + h * l.size;
        const float *ks = k + b * l.keys * l.kv_stride + l.k_column + h / l.group * l.size;
        const float *vs = v + b * l.keys * l.kv_stride + l.v_column + h / l.group * l.size;
        float *oi = o + (b * l.queries + i) * l.o_stride + h * l.size;
        const int64_t end = visible(launch, &l, i);
        float top = -INFINITY, sum = 0.0f;
        for (int64_t j = 0; j < end; j++) {
            const float s = l.scale * dot(qi, ks + j * l.kv_stride, l.size);
            top = s > top ? s : top;
        }
        memset(oi, 0, (size_t)l.size * sizeof *oi);
        for (int64_t j = 0; j < end; j++) {
            const float p = expf(l.scale * dot(qi, ks + j * l.kv_stride, l.size) - top);
            sum += p;
            add_scaled(oi, p * factor_of(&d, (uint64_t)(r * l.keys + j)), vs + j * l.kv_stride,
                       l.size);
        }
        for (int64_t c = 0; c < l.size && end > 0; c++)
            oi[c] /= sum;
        lse[r] = end > 0 ? top + logf(sum) : -INFINITY;
    }
    return RP_OK;
}

static void begin(float *out, const float *added, int64_t rows, int64_t stride, int64_t count) {
    for (int64_t i = 0; i < rows && out != NULL && out != added; i++)
        if (added != NULL)
            memcpy(out + i * stride, added + i * stride, (size_t)count * sizeof *out);
        else
            memset(out + i * stride, 0, (size_t)count * sizeof *out);
}

/* q, k, v, o, lse, do -> dq, dk, dv */
rp_status RP_CPU(attention_backward)(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const bool packed = params->attention.packed;
    const rp_attention_layout l =
        rp_attention_layout_of(params, &launch->call.in[0], packed ? NULL : &launch->call.in[1]);
    const float *q = launch->in[0], *k = packed ? q : launch->in[1],
                *v = packed ? q : launch->in[2];
    const float *o = launch->in[3], *lse = launch->in[4], *gradient = launch->in[5];
    float *dq = launch->out[0], *dk = packed ? dq : rp_launch_output(launch, 1),
          *dv = packed ? dq : rp_launch_output(launch, 2);
    const float *aq = rp_launch_accumulate(launch, 0),
                *ak = packed ? aq : rp_launch_accumulate(launch, 1),
                *av = packed ? aq : rp_launch_accumulate(launch, 2);
    const drawing d = drawing_of(launch);
    const int64_t units = l.batch * l.kv_heads;
#pragma omp parallel for num_threads(launch->threads)
    for (int64_t u = 0; u < units; u++) {
        const int64_t b = u / l.kv_heads, g = u % l.kv_heads;
        const int64_t q_at = b * l.queries * l.q_stride + g * l.group * l.size;
        const int64_t k_at = b * l.keys * l.kv_stride + l.k_column + g * l.size;
        const int64_t v_at = b * l.keys * l.kv_stride + l.v_column + g * l.size;
        begin(dq ? dq + q_at : NULL, aq ? aq + q_at : NULL, l.queries, l.q_stride,
              l.group * l.size);
        begin(dk ? dk + k_at : NULL, ak ? ak + k_at : NULL, l.keys, l.kv_stride, l.size);
        begin(dv ? dv + v_at : NULL, av ? av + v_at : NULL, l.keys, l.kv_stride, l.size);
        for (int64_t h = g * l.group; h < (g + 1) * l.group; h++)
            for (int64_t i = 0; i < l.queries; i++) {
                const int64_t r = (b * l.heads + h) * l.queries + i, end = visible(launch, &l, i);
                const int64_t at = (b * l.queries + i) * l.q_stride + h * l.size;
                const float *gi = gradient + (b * l.queries + i) * l.o_stride + h * l.size;
                const float delta =
                    o ? dot(gi, o + (b * l.queries + i) * l.o_stride + h * l.size, l.size) : 0.0f;
                for (int64_t j = 0; j < end; j++) {
                    const float *kj = k + k_at + j * l.kv_stride;
                    const float p = expf(l.scale * dot(q + at, kj, l.size) - lse[r]);
                    const float f = factor_of(&d, (uint64_t)(r * l.keys + j));
                    if (dv)
                        add_scaled(dv + v_at + j * l.kv_stride, p * f, gi, l.size);
                    if (!dq && !dk)
                        continue;
                    const float ds =
                        l.scale * p * (f * dot(gi, v + v_at + j * l.kv_stride, l.size) - delta);
                    if (dq)
                        add_scaled(dq + at, ds, kj, l.size);
                    if (dk)
                        add_scaled(dk + k_at + j * l.kv_stride, ds, q + at, l.size);
                }
            }
    }
    return RP_OK;
}
