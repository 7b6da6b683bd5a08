/* attention, fused: the scores of a block of queries are made, used and forgotten, a few keys at a
 * time (Milakov & Gimelshein 2018, online softmax; Dao et al. 2022, FlashAttention). */
#include "attention_tile.h"

enum { KEYS = RP_ATTENTION_KEYS };

/* What is known of each query so far: the highest score (base 2), the sum of the powers of two
 * of the scores relative to it, and by how much the last keys made older sums shrink. */
typedef struct rows_state {
    float top[RP_BLOCK_QUERIES], sum[RP_BLOCK_QUERIES], shrink[RP_BLOCK_QUERIES];
} rows_state;

/* One vector of lanes of scores [keys, lanes], which become probabilities up to a factor of the
 * row. A lane that has seen nothing is relative to 0, as -inf - -inf is no number. */
static inline void exponentials(float *scores, int64_t stride, int64_t keys, float scale,
                                float *restrict top, float *restrict sum, float *restrict shrink) {
    float base[RP_LANES], total[RP_LANES], high[RP_LANES];
    for (int x = 0; x < RP_LANES; x++)
        high[x] = top[x];
    for (int64_t j = 0; j < keys; j++)
#pragma omp simd
        for (int x = 0; x < RP_LANES; x++) {
            const float s = scores[j * stride + x] * scale;
            high[x] = s > high[x] ? s : high[x];
        }
#pragma omp simd
    for (int x = 0; x < RP_LANES; x++) {
        base[x] = high[x] == -INFINITY ? 0.0f : high[x];
        shrink[x] = rp_exp2(top[x] - base[x]);
        top[x] = high[x];
        total[x] = sum[x] * shrink[x];
    }
    for (int64_t j = 0; j < keys; j++)
#pragma omp simd
        for (int x = 0; x < RP_LANES; x++) {
            const float p = rp_exp2(scores[j * stride + x] * scale - base[x]);
            scores[j * stride + x] = p;
            total[x] += p;
        }
    for (int x = 0; x < RP_LANES; x++)
        sum[x] = total[x];
}

static void drop(const rp_attention_job *job, const rp_query_block *block, const rp_key_block *keys,
                 float *p) {
    float factors[4][RP_LANES];
    for (int64_t x = keys->first; x < block->lanes; x += RP_LANES)
        for (int64_t j = 0; j < keys->count; j += 4) {
            rp_draw_factors(job, block, keys->begin + j, x, factors);
            for (int64_t r = 0; r < 4 && j + r < keys->count; r++)
#pragma omp simd
                for (int i = 0; i < RP_LANES; i++)
                    p[(j + r) * job->width + x + i] *= factors[r][i];
        }
}

/* What one block works in: q and o transposed, [D, lanes]; room to widen rows of queries and keys.
 */
typedef struct work {
    float *qt, *ot, *rows, *keys;
} work;

/* [D, lanes] -> the block's rows of o. */
static void store_rows(const rp_attention_job *job, const rp_query_block *block, const work *w,
                       rp_target o) {
    const rp_attention_layout *l = &job->l;
    const int64_t at = (block->b * l->queries + block->begin) * l->o_stride + block->h * l->size;
    if (!o.bf16) {
        RP_CPU(tile_transpose)
        ((float *)o.at + at, l->o_stride, w->ot, job->width, l->size, block->count);
        return;
    }
    RP_CPU(tile_transpose)(w->rows, l->size, w->ot, job->width, l->size, block->count);
    for (int64_t i = 0; i < block->count; i++)
        rp_written(o, at + i * l->o_stride, l->size, w->rows + i * l->size);
}

/* ot [D, lanes] -> o, divided by the sums; the log-sum-exp of each row. A row that saw nothing:
 * o = 0, lse = -inf. */
static void finish(const rp_attention_job *job, const rp_query_block *block, rows_state *rows,
                   const work *w, rp_target o, float *lse) {
    const rp_attention_layout *l = &job->l;
    for (int64_t x = 0; x < block->lanes; x++)
        rows->shrink[x] = rows->sum[x] == 0.0f ? 0.0f : 1.0f / rows->sum[x];
    for (int64_t d = 0; d < l->size; d++)
#pragma omp simd
        for (int64_t x = 0; x < block->lanes; x++)
            w->ot[d * job->width + x] *= rows->shrink[x];
    store_rows(job, block, w, o);
    if (lse == NULL) /* nobody differentiates */
        return;
    lse += (block->b * l->heads + block->h) * l->queries + block->begin;
    for (int64_t x = 0; x < block->count; x++)
        lse[x] = rows->sum[x] == 0.0f ? -INFINITY : (rows->top[x] + log2f(rows->sum[x])) * RP_LN_2;
}

/* Kept of the scores: nothing but lse. */
static void forward_block(const rp_attention_job *job, const rp_query_block *block, const work *w,
                          rp_target o, float *lse) {
    const rp_attention_layout *l = &job->l;
    float scores[KEYS * RP_BLOCK_QUERIES] __attribute__((aligned(64)));
    const float lowest = job->base2_scale > 0.0f ? -INFINITY : INFINITY;
    rows_state rows;
    for (int x = 0; x < RP_BLOCK_QUERIES; x++) {
        rows.top[x] = -INFINITY;
        rows.sum[x] = 0.0f;
    }
    memset(w->ot, 0, (size_t)(l->size * job->width) * sizeof *w->ot);
    rp_load_lanes(job, block, rp_query_rows(job, block, job->q, l->q_stride, w->rows), w->qt);
    for (int64_t j = 0; j < block->end;) {
        const rp_key_block keys = rp_key_block_at(job, block, j, KEYS);
        rp_keys_times(job, block, &keys, rp_key_rows(job, block, &keys, job->k, w->keys), w->qt,
                      scores);
        if (keys.masked)
            rp_fill_masked(job, block, &keys, lowest, scores);
        for (int64_t x = keys.first; x < block->lanes; x += RP_LANES)
            exponentials(scores + x, job->width, keys.count, job->base2_scale, rows.top + x,
                         rows.sum + x, rows.shrink + x);
        if (job->drawing.on)
            drop(job, block, &keys, scores);
        rp_keys_transposed_times(job, block, &keys, rp_key_rows(job, block, &keys, job->v, w->keys),
                                 scores, w->ot, rows.shrink);
        j += keys.count;
    }
    finish(job, block, &rows, w, o, lse);
}

/* All blocks of `count` from `first` on. Small tiles lie here. */
static void run_blocks(const rp_attention_job *job, int64_t first, int64_t count, float *tiles,
                       rp_target o, float *lse) {
    float stack[RP_ATTENTION_TILES * RP_ATTENTION_TILE_FLOATS] __attribute__((aligned(64)));
    float widened[RP_ATTENTION_TILE_FLOATS * (1 + KEYS / RP_ATTENTION_LEAST_QUERIES)]
        __attribute__((aligned(64)));
    const rp_attention_layout *l = &job->l;
    const int64_t tile = l->size * job->width, blocks = (l->queries + job->width - 1) / job->width;
    float *at = tiles != NULL ? tiles : stack;
    float *more = tiles != NULL && job->bf16 ? tiles + RP_ATTENTION_TILES * tile : widened;
    const work w = {
        .qt = at, .ot = at + tile, .rows = more, .keys = job->bf16 ? more + tile : more};
    for (int64_t i = first; i < first + count; i++) {
        const int64_t head = i / blocks;
        const rp_query_block block = rp_query_block_make(job, head / l->heads, head % l->heads,
                                                         i % blocks * job->width, KEYS);
        forward_block(job, &block, &w, o, lse);
    }
}

/* q, k, v (or packed) -> o, lse. A piece of work is one block of queries of one head, or one
 * head where tiles are in the workspace. */
rp_status RP_CPU(attention)(const rp_launch *launch) {
    const rp_attention_job job = rp_attention_job_make(launch);
    const rp_attention_layout *l = &job.l;
    const int64_t set = (job.bf16 ? RP_ATTENTION_BF16_TILES : RP_ATTENTION_TILES) *
                        rp_attention_workspace_tile(l->size);
    const int64_t blocks = (l->queries + job.width - 1) / job.width;
    const int64_t heads = l->batch * l->heads, at_once = set > 0 ? blocks : 1;
    const int64_t pieces = set > 0 ? heads : heads * blocks;
    const rp_target o = rp_launch_target(launch, 0);
    float *lse = launch->out[1], *workspace = launch->workspace;
    RP_TRY(rp_require_floating(launch));
    RP_PARALLEL_FOR_UNEVEN(heads * l->queries * l->keys * l->size > RP_CPU_SERIAL ? launch->threads
                                                                                  : 1,
                           piece, pieces, {
                               run_blocks(&job, piece * at_once, at_once,
                                          set > 0 ? workspace + piece * set : NULL, o, lse);
                           });
    return RP_OK;
}
