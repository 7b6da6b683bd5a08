/* Gradient of the fused attention: the probabilities are made again from the scores and the
 * log-sum-exp of each row. */
#include "attention_tile.h"

enum { KEYS = 32 };

/* Where gradients go, as the inputs lie; dk and dv at their columns. NULL: not wanted. */
typedef struct gradients {
    float *dq, *dk, *dv;
    const float *dq_added, *dk_added, *dv_added; /* what each is added to, or NULL */
} gradients;

typedef struct saved {
    const float *o, *lse, *gradient; /* o is NULL if only dv is wanted */
} saved;

/* One block's tiles [D, lanes] and rows: log-sum-exp in base 2, and delta = sum over d of do o,
 * which is the sum over j of p dp (Dao et al. 2022, section B.4). */
typedef struct block_tiles {
    float *qt, *dot, *dqt;
    float lse[RP_BLOCK_QUERIES], delta[RP_BLOCK_QUERIES];
} block_tiles;

/* rows of [rows, stride] begin as what they are added to, or 0 */
static void begin_rows(float *out, const float *added, int64_t rows, int64_t stride,
                       int64_t count) {
    for (int64_t i = 0; i < rows && out != added; i++) {
        if (added != NULL)
            memcpy(out + i * stride, added + i * stride, (size_t)count * sizeof *out);
        else
            memset(out + i * stride, 0, (size_t)count * sizeof *out);
    }
}

static void load_block(const rp_attention_job *job, const rp_query_block *block, const saved *s,
                       block_tiles *t) {
    const rp_attention_layout *l = &job->l;
    const int64_t row = block->b * l->queries + block->begin, column = block->h * l->size;
    const float *gradient = s->gradient + row * l->o_stride + column;
    const float *lse = s->lse + (block->b * l->heads + block->h) * l->queries + block->begin;
    rp_load_lanes(job, block, job->q + row * l->q_stride + column, l->q_stride, t->qt);
    for (int64_t x = 0; x < block->lanes; x++) {
        const bool seen = x < block->count && lse[x] != -INFINITY;
        t->lse[x] = seen ? lse[x] * RP_LOG2_E : INFINITY; /* makes every probability 0 */
        t->delta[x] = 0.0f;
    }
    if (s->o == NULL)
        return;
    rp_load_lanes(job, block, gradient, l->o_stride, t->dot);
    memset(t->dqt, 0, (size_t)(l->size * job->width) * sizeof *t->dqt);
    for (int64_t x = 0; x < block->count; x++) {
        const float *g = gradient + x * l->o_stride;
        const float *o = s->o + (row + x) * l->o_stride + column;
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t d = 0; d < l->size; d++)
            sum += g[d] * o[d];
        t->delta[x] = sum;
    }
}

/* One vector of lanes, keys [0, keys): scores become probabilities (times dropout's factors), dp
 * becomes the gradient of the scores. */
static inline void differentiate(float *restrict scores, float *restrict dp, int64_t stride,
                                 int64_t keys, const rp_attention_job *job,
                                 const float *restrict lse, const float *restrict delta,
                                 float factors[4][RP_LANES]) {
    const float base2 = job->base2_scale, scale = job->l.scale;
    for (int64_t j = 0; j < keys; j++)
#pragma omp simd
        for (int x = 0; x < RP_LANES; x++) {
            const float factor = factors != NULL ? factors[j][x] : 1.0f;
            const float p = rp_exp2(scores[j * stride + x] * base2 - lse[x]);
            scores[j * stride + x] = p * factor;
            dp[j * stride + x] = p * (dp[j * stride + x] * factor - delta[x]) * scale;
        }
}

static void differentiate_all(const rp_attention_job *job, const rp_query_block *block,
                              const rp_key_block *keys, const block_tiles *t, float *scores,
                              float *dp) {
    float factors[4][RP_LANES];
    const int64_t width = job->width;
    for (int64_t x = keys->first; x < block->lanes; x += RP_LANES) {
        if (!job->drawing.on) {
            differentiate(scores + x, dp + x, width, keys->count, job, t->lse + x, t->delta + x,
                          NULL);
            continue;
        }
        for (int64_t j = 0; j < keys->count; j += 4) {
            const int64_t left = keys->count - j;
            rp_draw_factors(job, block, keys->begin + j, x, factors);
            differentiate(scores + j * width + x, dp + j * width + x, width, left < 4 ? left : 4,
                          job, t->lse + x, t->delta + x, factors);
        }
    }
}

/* out [keys, D] += in [keys, lanes] rows [queries, D] */
static void add_queries(const rp_attention_job *job, const rp_query_block *block,
                        const rp_key_block *keys, const float *in, const float *rows,
                        int64_t stride, float *out) {
    const rp_attention_layout *l = &job->l;
    const int64_t first = keys->first;
    if (first >= block->count)
        return;
    RP_CPU(tile_product)
    (&(rp_tile){
        .rows = keys->count,
        .columns = l->size,
        .depth = block->count - first,
        .a = in + first,
        .a_row = job->width,
        .a_depth = 1,
        .b = rows + (block->b * l->queries + block->begin + first) * stride + block->h * l->size,
        .b_stride = stride,
        .c =
            out + (block->b * l->keys + keys->begin) * l->kv_stride + block->h / l->group * l->size,
        .c_stride = l->kv_stride,
        .add = true});
}

/* dqt [D, lanes] -> dq; `rows` has room for the block's rows [queries, D]. */
static void store_dq(const rp_attention_job *job, const rp_query_block *block, const gradients *out,
                     const float *dqt, float *rows) {
    const rp_attention_layout *l = &job->l;
    const int64_t size = l->size;
    int64_t at = (block->b * l->queries + block->begin) * l->q_stride + block->h * size;
    RP_CPU(tile_transpose)(rows, size, dqt, job->width, size, block->count);
    for (int64_t i = 0; i < block->count; i++, at += l->q_stride)
        for (int64_t d = 0; d < size; d++)
            out->dq[at + d] = out->dq_added != NULL ? out->dq_added[at + d] + rows[i * size + d]
                                                    : rows[i * size + d];
}

/* Kept of the scores: nothing. */
static void backward_block(const rp_attention_job *job, const rp_query_block *block, const saved *s,
                           const gradients *out, block_tiles *t) {
    const rp_attention_layout *l = &job->l;
    float scores[KEYS * RP_BLOCK_QUERIES] __attribute__((aligned(64)));
    float dp[KEYS * RP_BLOCK_QUERIES] __attribute__((aligned(64)));
    load_block(job, block, s, t);
    if (s->o == NULL)
        memset(dp, 0, sizeof dp);
    for (int64_t j = 0; j < block->end;) {
        const rp_key_block keys = rp_key_block_at(job, block, j, KEYS);
        rp_keys_times(job, block, &keys, job->k, t->qt, scores);
        if (s->o != NULL)
            rp_keys_times(job, block, &keys, job->v, t->dot, dp);
        differentiate_all(job, block, &keys, t, scores, dp);
        if (keys.masked) { /* afterwards, so that a row's NaN stays with the keys that it sees */
            rp_fill_masked(job, block, &keys, 0.0f, scores);
            rp_fill_masked(job, block, &keys, 0.0f, dp);
        }
        if (out->dv != NULL)
            add_queries(job, block, &keys, scores, s->gradient, l->o_stride, out->dv);
        if (out->dk != NULL)
            add_queries(job, block, &keys, dp, job->q, l->q_stride, out->dk);
        if (out->dq != NULL)
            rp_keys_transposed_times(job, block, &keys, job->k, dp, t->dqt, NULL);
        j += keys.count;
    }
    if (out->dq != NULL)
        store_dq(job, block, out, t->dqt, t->qt);
}

/* One key/value head of one batch: the query heads that read it, and their blocks, one after the
 * other, so that dk and dv add up in one order. */
static void backward_head(const rp_attention_job *job, int64_t b, int64_t g, const saved *s,
                          const gradients *out, float *tiles) {
    const rp_attention_layout *l = &job->l;
    const int64_t at = b * l->keys * l->kv_stride + g * l->size, tile = l->size * job->width;
    block_tiles t = {.qt = tiles, .dot = tiles + tile, .dqt = tiles + 2 * tile};
    if (out->dk != NULL)
        begin_rows(out->dk + at, out->dk_added != NULL ? out->dk_added + at : NULL, l->keys,
                   l->kv_stride, l->size);
    if (out->dv != NULL)
        begin_rows(out->dv + at, out->dv_added != NULL ? out->dv_added + at : NULL, l->keys,
                   l->kv_stride, l->size);
    for (int64_t h = g * l->group; h < (g + 1) * l->group; h++)
        for (int64_t i = 0; i < l->queries; i += job->width) {
            const rp_query_block block = rp_query_block_make(job, b, h, i, KEYS);
            backward_block(job, &block, s, out, &t);
        }
}

static const float *at_column(const float *tensor, int64_t column) {
    return tensor != NULL ? tensor + column : NULL;
}

static gradients gradients_of(const rp_launch *launch, const rp_attention_layout *l) {
    float *dq = launch->out[0];
    const float *added = rp_accumulated(launch, 0);
    if (launch->call.params->attention.packed)
        return (gradients){.dq = dq,
                           .dk = dq + l->k_column,
                           .dv = dq + l->v_column,
                           .dq_added = added,
                           .dk_added = at_column(added, l->k_column),
                           .dv_added = at_column(added, l->v_column)};
    return (gradients){.dq = dq,
                       .dk = rp_launch_output(launch, 1),
                       .dv = rp_launch_output(launch, 2),
                       .dq_added = added,
                       .dk_added = rp_accumulated(launch, 1),
                       .dv_added = rp_accumulated(launch, 2)};
}

/* q, k, v (or packed), o, lse, do -> dq, dk, dv (or one packed gradient) */
rp_status RP_CPU(attention_backward)(const rp_launch *launch) {
    const rp_attention_job job = rp_attention_job_make(launch);
    const rp_attention_layout *l = &job.l;
    const saved s = {launch->in[3], launch->in[4], launch->in[5]};
    const gradients out = gradients_of(launch, l);
    const int64_t tile = rp_attention_workspace_tile(l->size), heads = l->batch * l->kv_heads;
    float *workspace = launch->workspace;
    RP_PARALLEL_FOR_UNEVEN(
        heads * l->group * l->queries * l->keys * l->size > RP_CPU_SERIAL ? launch->threads : 1, i,
        heads, {
            float stack[RP_ATTENTION_BACKWARD_TILES * RP_ATTENTION_TILE_FLOATS]
                __attribute__((aligned(64)));
            float *tiles = tile > 0 ? workspace + i * RP_ATTENTION_BACKWARD_TILES * tile : stack;
            backward_head(&job, i / l->kv_heads, i % l->kv_heads, &s, &out, tiles);
        });
    return RP_OK;
}
