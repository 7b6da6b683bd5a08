/* Gradient of the fused attention: the probabilities are made again from the scores and the
 * log-sum-exp of each row. */
#include "attention_tile.h"

enum { KEYS = RP_ATTENTION_BACKWARD_KEYS };

/* Where gradients go, as the inputs lie, dk and dv at their columns, absent where not wanted; and
 * what each is added to. */
typedef struct gradients {
    rp_target dq, dk, dv;
    rp_source dq_added, dk_added, dv_added;
} gradients;

typedef struct saved {
    rp_source o, gradient; /* o is absent if only dv is wanted */
    const float *lse;
} saved;

/* The gradient of one head's keys or values while it adds up, row by row; NULL: not wanted. */
typedef struct sums {
    float *at;
    int64_t stride;
} sums;

/* One block's tiles [D, lanes] and rows: log-sum-exp in base 2, and delta = sum over d of do o,
 * which is the sum over j of p dp (Dao et al. 2022, section B.4). Then room to widen what is bf16:
 * rows of queries and of the gradient, of keys and of values. */
typedef struct block_tiles {
    float *qt, *dot, *dqt;
    float lse[RP_BLOCK_QUERIES], delta[RP_BLOCK_QUERIES];
    float *q_rows, *gradient_rows, *k_rows, *v_rows;
    rp_head_rows q, gradient; /* of the block, as floats */
} block_tiles;

static void load_block(const rp_attention_job *job, const rp_query_block *block, const saved *s,
                       block_tiles *t) {
    const rp_attention_layout *l = &job->l;
    const int64_t row = block->b * l->queries + block->begin, column = block->h * l->size;
    const float *lse = s->lse + (block->b * l->heads + block->h) * l->queries + block->begin;
    t->q = rp_query_rows(job, block, job->q, l->q_stride, t->q_rows);
    t->gradient = rp_query_rows(job, block, s->gradient, l->o_stride, t->gradient_rows);
    rp_load_lanes(job, block, t->q, t->qt);
    for (int64_t x = 0; x < block->lanes; x++) {
        const bool seen = x < block->count && lse[x] != -INFINITY;
        t->lse[x] = seen ? lse[x] * RP_LOG2_E : INFINITY; /* makes every probability 0 */
        t->delta[x] = 0.0f;
    }
    if (s->o.at == NULL)
        return;
    rp_load_lanes(job, block, t->gradient, t->dot);
    memset(t->dqt, 0, (size_t)(l->size * job->width) * sizeof *t->dqt);
    for (int64_t x = 0; x < block->count; x++) {
        const float *g = t->gradient.at + x * t->gradient.stride;
        const float *o = rp_read(s->o, (row + x) * l->o_stride + column, l->size, t->k_rows);
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
                        const rp_key_block *keys, const float *in, rp_head_rows rows, sums out) {
    const int64_t first = keys->first;
    if (first >= block->count)
        return;
    RP_CPU(tile_product)
    (&(rp_tile){.rows = keys->count,
                .columns = job->l.size,
                .depth = block->count - first,
                .a = in + first,
                .a_row = job->width,
                .a_depth = 1,
                .b = rows.at + first * rows.stride,
                .b_stride = rows.stride,
                .c = out.at + keys->begin * out.stride,
                .c_stride = out.stride,
                .add = true});
}

/* dqt [D, lanes] -> dq; what lies in qt and k_rows is no longer needed. */
static void store_dq(const rp_attention_job *job, const rp_query_block *block, const gradients *out,
                     block_tiles *t) {
    const rp_attention_layout *l = &job->l;
    const int64_t size = l->size;
    int64_t at = (block->b * l->queries + block->begin) * l->q_stride + block->h * size;
    RP_CPU(tile_transpose)(t->qt, size, t->dqt, job->width, size, block->count);
    for (int64_t i = 0; i < block->count; i++, at += l->q_stride) {
        float *row = t->qt + i * size;
        const float *from = row;
        RP_LOOP(rp_write(out->dq, at, row), rp_read(out->dq_added, at, size, t->k_rows), 0, size,
                from[i]);
        rp_written(out->dq, at, size, row);
    }
}

/* Kept of the scores: nothing. */
static void backward_block(const rp_attention_job *job, const rp_query_block *block, const saved *s,
                           const gradients *out, sums dk, sums dv, block_tiles *t) {
    float scores[KEYS * RP_BLOCK_QUERIES] __attribute__((aligned(64)));
    float dp[KEYS * RP_BLOCK_QUERIES] __attribute__((aligned(64)));
    const bool of_scores = s->o.at != NULL;
    load_block(job, block, s, t);
    if (!of_scores)
        memset(dp, 0, sizeof dp);
    for (int64_t j = 0; j < block->end;) {
        const rp_key_block keys = rp_key_block_at(job, block, j, KEYS);
        const rp_head_rows k = rp_key_rows(job, block, &keys, job->k, t->k_rows);
        rp_keys_times(job, block, &keys, k, t->qt, scores);
        if (of_scores)
            rp_keys_times(job, block, &keys, rp_key_rows(job, block, &keys, job->v, t->v_rows),
                          t->dot, dp);
        differentiate_all(job, block, &keys, t, scores, dp);
        if (keys.masked) { /* afterwards, so that a row's NaN stays with the keys that it sees */
            rp_fill_masked(job, block, &keys, 0.0f, scores);
            rp_fill_masked(job, block, &keys, 0.0f, dp);
        }
        if (dv.at != NULL)
            add_queries(job, block, &keys, scores, t->gradient, dv);
        if (dk.at != NULL)
            add_queries(job, block, &keys, dp, t->q, dk);
        if (out->dq.at != NULL)
            rp_keys_transposed_times(job, block, &keys, k, dp, t->dqt, NULL);
        j += keys.count;
    }
    if (out->dq.at != NULL)
        store_dq(job, block, out, t);
}

/* The sums of one head begin as what they are added to, or 0: where they go, or in `room` until
 * they are rounded. `at` is the head's first element. */
static sums begin_sums(const rp_attention_layout *l, rp_target out, rp_source added, int64_t at,
                       float *room) {
    const sums s = {rp_write(out, at, room), out.bf16 ? l->size : l->kv_stride};
    for (int64_t j = 0; j < l->keys && s.at != NULL; j++) {
        float *to = s.at + j * s.stride;
        const float *from = rp_read(added, at + j * l->kv_stride, l->size, to);
        if (from == NULL)
            memset(to, 0, (size_t)l->size * sizeof *to);
        else if (from != to)
            memcpy(to, from, (size_t)l->size * sizeof *to);
    }
    return s;
}

static void end_sums(const rp_attention_layout *l, rp_target out, int64_t at, sums s) {
    for (int64_t j = 0; j < l->keys && out.at != NULL; j++)
        rp_written(out, at + j * l->kv_stride, l->size, s.at + j * s.stride);
}

/* One key/value head of one batch: the query heads that read it, and their blocks, one after the
 * other, so that dk and dv add up in one order. `room`: for both, where they are rounded. */
static void backward_head(const rp_attention_job *job, int64_t head, const saved *s,
                          const gradients *out, block_tiles *t, float *room) {
    const rp_attention_layout *l = &job->l;
    const int64_t b = head / l->kv_heads, g = head % l->kv_heads;
    const int64_t at = b * l->keys * l->kv_stride + g * l->size;
    float *more = room != NULL ? room + l->keys * l->size : NULL;
    const sums dk = begin_sums(l, out->dk, out->dk_added, at, room);
    const sums dv = begin_sums(l, out->dv, out->dv_added, at, more);
    for (int64_t h = g * l->group; h < (g + 1) * l->group; h++)
        for (int64_t i = 0; i < l->queries; i += job->width) {
            const rp_query_block block = rp_query_block_make(job, b, h, i, KEYS);
            backward_block(job, &block, s, out, dk, dv, t);
        }
    end_sums(l, out->dk, at, dk);
    end_sums(l, out->dv, at, dv);
}

static gradients gradients_of(const rp_launch *launch, const rp_attention_layout *l) {
    const rp_target dq = rp_launch_target(launch, 0);
    const rp_source added = rp_launch_sum(launch, 0);
    if (launch->call.params->attention.packed)
        return (gradients){.dq = dq,
                           .dk = rp_target_from(dq, l->k_column),
                           .dv = rp_target_from(dq, l->v_column),
                           .dq_added = added,
                           .dk_added = rp_source_from(added, l->k_column),
                           .dv_added = rp_source_from(added, l->v_column)};
    return (gradients){.dq = dq,
                       .dk = rp_launch_target(launch, 1),
                       .dv = rp_launch_target(launch, 2),
                       .dq_added = added,
                       .dk_added = rp_launch_sum(launch, 1),
                       .dv_added = rp_launch_sum(launch, 2)};
}

/* Small tiles lie here, others in the piece's part of the workspace, in front of the sums. */
static void run_heads(const rp_attention_job *job, int64_t first, int64_t end, const saved *s,
                      const gradients *out, float *workspace) {
    enum { ROWS = 2 + 2 * KEYS / RP_ATTENTION_LEAST_QUERIES };
    float stack[RP_ATTENTION_BACKWARD_TILES * RP_ATTENTION_TILE_FLOATS]
        __attribute__((aligned(64)));
    float widened[ROWS * RP_ATTENTION_TILE_FLOATS] __attribute__((aligned(64)));
    const int64_t tile = job->l.size * job->width, keys = job->bf16 ? KEYS * job->l.size : 0;
    const int64_t rows = job->bf16 ? tile : 0;
    const bool large = rp_attention_workspace_tile(job->l.size) > 0;
    float *tiles = large ? workspace : stack;
    float *more = large && job->bf16 ? workspace + RP_ATTENTION_BACKWARD_TILES * tile : widened;
    float *room = !job->bf16 ? NULL : large ? more + 2 * rows + 2 * keys : workspace;
    block_tiles t = {.qt = tiles,
                     .dot = tiles + tile,
                     .dqt = tiles + 2 * tile,
                     .q_rows = more,
                     .gradient_rows = more + rows,
                     .k_rows = more + 2 * rows,
                     .v_rows = more + 2 * rows + keys};
    for (int64_t head = first; head < end; head++)
        backward_head(job, head, s, out, &t, room);
}

/* q, k, v (or packed), o, lse, do -> dq, dk, dv (or one packed gradient) */
rp_status RP_CPU(attention_backward)(const rp_launch *launch) {
    const rp_attention_job job = rp_attention_job_make(launch);
    const rp_attention_layout *l = &job.l;
    const saved s = {rp_launch_source(launch, 3), rp_launch_source(launch, 5), launch->in[4]};
    const gradients out = gradients_of(launch, l);
    const rp_cut cut = rp_attention_cut(l, job.bf16);
    const int64_t tiles = job.bf16 ? RP_ATTENTION_BACKWARD_BF16_TILES : RP_ATTENTION_BACKWARD_TILES;
    const int64_t set =
        tiles * rp_attention_workspace_tile(l->size) + rp_attention_sums(l, job.bf16);
    const int64_t heads = l->batch * l->kv_heads;
    float *workspace = launch->workspace;
    RP_TRY(rp_require_floating(launch));
    RP_PARALLEL_FOR_UNEVEN(
        heads * l->group * l->queries * l->keys * l->size > RP_CPU_SERIAL ? launch->threads : 1,
        piece, cut.count, {
            const int64_t first = piece * cut.length, end = first + cut.length;
            run_heads(&job, first, end < heads ? end : heads, &s, &out,
                      set > 0 ? workspace + piece * set : NULL);
        });
    return RP_OK;
}
