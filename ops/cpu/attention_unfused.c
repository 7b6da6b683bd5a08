/* Attention in separate ops: the products around the softmax, by the BLAS, one a batch and head. */
#include "gemm.h"
#include "product.h"

/* Products that can be made at the same time: from so many on they are shared out to the threads;
 * fewer, and each is made by all threads. By shape alone. */
enum { MANY = 4 };

static void copy_columns(float *to, const float *from, int64_t rows, int64_t stride,
                         int64_t count) {
    for (int64_t i = 0; i < rows && to != from; i++)
        memcpy(to + i * stride, from + i * stride, (size_t)count * sizeof *to);
}

/* Columns [column, column + count) of a packed gradient that this op adds nothing to. */
static void pass_columns(float *out, const float *added, const rp_attention_layout *l,
                         int64_t column, int64_t count, int threads) {
    const int64_t rows = l->batch * l->keys;
    if (added == out)
        return;
    RP_PARALLEL_FOR(rows * count > RP_CPU_SERIAL ? threads : 1, i, rows, {
        float *to = out + i * l->kv_stride + column;
        if (added != NULL)
            memcpy(to, added + i * l->kv_stride + column, (size_t)count * sizeof *to);
        else
            memset(to, 0, (size_t)count * sizeof *to);
    });
}

/* q [B, T, H D], k [B, T', H' D] or packed -> scores [B, H, T, T'] = scale q k^T */
rp_status RP_CPU(attention_scores)(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const rp_attention_layout l = rp_attention_layout_of_scores(
        params, &launch->call.out[0], rp_attention_size_of_q(params, &launch->call.in[0]));
    const float *q = launch->in[0], *k = params->attention.packed ? q : launch->in[1];
    float *scores = launch->out[0];
    const int64_t products = l.batch * l.heads;
    RP_PARALLEL_FOR_UNEVEN(products >= MANY ? launch->threads : 1, i, products, {
        const int64_t b = i / l.heads, h = i % l.heads;
        rp_gemm(false, true, l.queries, l.keys, l.size, l.scale,
                q + b * l.queries * l.q_stride + h * l.size, l.q_stride,
                k + b * l.keys * l.kv_stride + l.k_column + h / l.group * l.size, l.kv_stride, 0.0f,
                scores + i * l.queries * l.keys, l.keys);
    });
    return RP_OK;
}

/* dq = scale dscores k for one batch and query head */
static void scores_backward_q(const rp_attention_layout *l, int64_t b, int64_t h, const float *k,
                              const float *dscores, const float *added, float *dq) {
    const int64_t at = b * l->queries * l->q_stride + h * l->size;
    if (added != NULL)
        copy_columns(dq + at, added + at, l->queries, l->q_stride, l->size);
    rp_gemm(false, false, l->queries, l->size, l->keys, l->scale,
            dscores + (b * l->heads + h) * l->queries * l->keys, l->keys,
            k + b * l->keys * l->kv_stride + l->k_column + h / l->group * l->size, l->kv_stride,
            added != NULL ? 1.0f : 0.0f, dq + at, l->q_stride);
}

/* dkv = alpha a^T rows for one batch and key/value head: the query heads of its group one after
 * the other. a [B, H, T, T']; rows [B, T, H D] with row_stride; dkv begins at `column`. */
static void backward_kv(const rp_attention_layout *l, int64_t b, int64_t g, float alpha,
                        const float *a, const float *rows, int64_t row_stride, const float *added,
                        float *dkv, int64_t column) {
    const int64_t at = b * l->keys * l->kv_stride + column + g * l->size;
    if (added != NULL)
        copy_columns(dkv + at, added + at, l->keys, l->kv_stride, l->size);
    for (int64_t h = g * l->group; h < (g + 1) * l->group; h++)
        rp_gemm(true, false, l->keys, l->size, l->queries, alpha,
                a + (b * l->heads + h) * l->queries * l->keys, l->keys,
                rows + b * l->queries * row_stride + h * l->size, row_stride,
                added != NULL || h > g * l->group ? 1.0f : 0.0f, dkv + at, l->kv_stride);
}

/* q, k, dscores [B, H, T, T'] -> dq, dk (each absent if not wanted, then k or q is too); packed:
 * q k v, absent, dscores -> the gradient of all three, whose columns of v only pass through */
rp_status RP_CPU(attention_scores_backward)(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const bool packed = params->attention.packed;
    const float *q = launch->in[0], *k = packed ? q : launch->in[1], *dscores = launch->in[2];
    float *dq = launch->out[0], *dk = packed ? dq : rp_launch_output(launch, 1);
    const float *q_added = rp_accumulated(launch, 0);
    const float *k_added = packed ? q_added : rp_accumulated(launch, 1);
    const int64_t size = q != NULL ? rp_attention_size_of_q(params, &launch->call.in[0])
                                   : rp_attention_size_of_kv(params, &launch->call.in[1]);
    const rp_attention_layout l = rp_attention_layout_of_scores(params, &launch->call.in[2], size);
    if (packed)
        pass_columns(dq, q_added, &l, l.v_column, l.kv_heads * l.size, launch->threads);
    const int64_t products = l.batch * l.kv_heads;
    RP_PARALLEL_FOR_UNEVEN(products >= MANY ? launch->threads : 1, i, products, {
        const int64_t b = i / l.kv_heads, g = i % l.kv_heads;
        for (int64_t h = g * l.group; h < (g + 1) * l.group && dq != NULL; h++)
            scores_backward_q(&l, b, h, k, dscores, q_added, dq);
        if (dk != NULL)
            backward_kv(&l, b, g, l.scale, dscores, q, l.q_stride, k_added, dk, l.k_column);
    });
    return RP_OK;
}

/* p [B, H, T, T'], v [B, T', H' D] or packed -> o [B, T, H D] */
rp_status RP_CPU(attention_values)(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const rp_attention_layout l = rp_attention_layout_of_scores(
        params, &launch->call.in[0], rp_attention_size_of_kv(params, &launch->call.in[1]));
    const float *p = launch->in[0], *v = launch->in[1];
    float *o = launch->out[0];
    const int64_t products = l.batch * l.heads;
    RP_PARALLEL_FOR_UNEVEN(products >= MANY ? launch->threads : 1, i, products, {
        const int64_t b = i / l.heads, h = i % l.heads;
        rp_gemm(false, false, l.queries, l.size, l.keys, 1.0f, p + i * l.queries * l.keys, l.keys,
                v + b * l.keys * l.kv_stride + l.v_column + h / l.group * l.size, l.kv_stride, 0.0f,
                o + b * l.queries * l.o_stride + h * l.size, l.o_stride);
    });
    return RP_OK;
}

/* dp = do v^T for one batch and query head */
static void values_backward_p(const rp_attention_layout *l, int64_t b, int64_t h, const float *v,
                              const float *gradient, float beta, float *dp) {
    rp_gemm(false, true, l->queries, l->keys, l->size, 1.0f,
            gradient + b * l->queries * l->o_stride + h * l->size, l->o_stride,
            v + b * l->keys * l->kv_stride + l->v_column + h / l->group * l->size, l->kv_stride,
            beta, dp + (b * l->heads + h) * l->queries * l->keys, l->keys);
}

/* p (absent if dv is), v or packed (absent if dp is), do [B, T, H D] -> dp [B, H, T, T'], dv;
 * packed: the gradient of all three, whose columns of q and k pass through: zeros if there is
 * nothing to add to */
rp_status RP_CPU(attention_values_backward)(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const bool packed = params->attention.packed;
    const float *p = launch->in[0], *v = launch->in[1], *gradient = launch->in[2];
    float *dp = launch->out[0], *dv = rp_launch_output(launch, 1);
    const float *v_added = rp_accumulated(launch, 1);
    const rp_tensor_info *scores = p != NULL ? &launch->call.in[0] : &launch->call.out[0];
    const rp_attention_layout l = rp_attention_layout_of_scores(
        params, scores, launch->call.in[2].shape.dims[2] / params->attention.heads);
    if (packed && dv != NULL)
        pass_columns(dv, v_added, &l, 0, l.v_column, launch->threads);
    const float beta = dp != NULL ? rp_launch_beta(launch, 0) : 0.0f;
    const int64_t products = l.batch * l.kv_heads;
    RP_PARALLEL_FOR_UNEVEN(products >= MANY ? launch->threads : 1, i, products, {
        const int64_t b = i / l.kv_heads, g = i % l.kv_heads;
        for (int64_t h = g * l.group; h < (g + 1) * l.group && dp != NULL; h++)
            values_backward_p(&l, b, h, v, gradient, beta, dp);
        if (dv != NULL)
            backward_kv(&l, b, g, 1.0f, p, gradient, l.o_stride, v_added, dv, l.v_column);
    });
    return RP_OK;
}
