/* What attention's forward and backward kernels share: which keys a block of queries sees, how a
 * block lies in tiles, exponentials, dropout.
 *
 * Queries are the lanes of every tile. So the keys and values are read in place, one scalar at a
 * time, and everything per row (maximum, sum, log-sum-exp) is a vector operation without reductions
 * across lanes. */
#ifndef REPRISE_OPS_CPU_ATTENTION_TILE_H
#define REPRISE_OPS_CPU_ATTENTION_TILE_H

#include <math.h>
#include <string.h>

#include "gemm.h"
#include "product.h"
#include "random.h"
#include "tile.h"

/* Most queries of a block; keys at a time where not every query of a block sees them, so that
 * little is computed only to be masked. */
enum { RP_BLOCK_QUERIES = 64, RP_DIAGONAL = 16 };

/* exp2(log2(e) x) = exp(x) */
#define RP_LOG2_E 1.44269504088896341f
#define RP_LN_2 0.693147180559945309f

typedef struct rp_drawing {
    uint32_t key[2], stream, threshold;
    float factor; /* of what is kept */
    bool on;
} rp_drawing;

typedef struct rp_attention_job {
    rp_attention_layout l;
    rp_source q, k, v; /* k and v at their columns; v may be absent */
    bool bf16;         /* something is: what is read or written is widened in between */
    bool causal;
    float base2_scale; /* scores times this are powers of two */
    int64_t width;     /* queries of a block, stride of all tiles: a multiple of RP_LANES */
    rp_drawing drawing;
} rp_attention_job;

/* Queries [begin, begin + count) of one head, in `lanes` lanes, those beyond `count` without a
 * meaning. Keys: all see [0, full), none sees more than [0, end). */
typedef struct rp_query_block {
    int64_t b, h, begin, count, lanes, full, end;
} rp_query_block;

/* Keys [begin, begin + count) seen by lanes [first, lanes), `masked`: not by each of them. */
typedef struct rp_key_block {
    int64_t begin, count, first;
    bool masked;
} rp_key_block;

static inline rp_attention_job rp_attention_job_make(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const bool packed = params->attention.packed;
    const rp_attention_layout l =
        rp_attention_layout_of(params, &launch->call.in[0], packed ? NULL : &launch->call.in[1]);
    const rp_source q = rp_launch_source(launch, 0);
    const rp_source k = packed ? q : rp_launch_source(launch, 1);
    const rp_source v = packed ? q : rp_launch_source(launch, 2);
    const float p = params->attention.dropout;
    rp_attention_job job = {.l = l,
                            .q = q,
                            .k = rp_source_from(k, l.k_column),
                            .v = rp_source_from(v, l.v_column),
                            .bf16 = rp_call_has_bf16(&launch->call),
                            .causal = params->attention.causal,
                            .base2_scale = l.scale * RP_LOG2_E,
                            .width = rp_attention_block_queries(l.size)};
    if (p > 0.0f && !launch->step->evaluate) {
        job.drawing = (rp_drawing){.stream = params->attention.stream,
                                   .threshold = rp_dropout_threshold(p),
                                   .factor = 1.0f / (1.0f - p),
                                   .on = true};
        rp_random_key(launch->step->seed, launch->step->step, launch->step->micro_batch,
                      job.drawing.key);
    }
    return job;
}

/* How many keys query i sees. */
static inline int64_t rp_visible_keys(const rp_attention_job *job, int64_t i) {
    const int64_t end = i + job->l.keys - job->l.queries + 1;
    return !job->causal || end > job->l.keys ? job->l.keys : end < 0 ? 0 : end;
}

static inline rp_query_block rp_query_block_make(const rp_attention_job *job, int64_t b, int64_t h,
                                                 int64_t begin, int64_t keys_at_once) {
    const int64_t left = job->l.queries - begin, count = left < job->width ? left : job->width;
    const int64_t seen_by_all = rp_visible_keys(job, begin);
    return (rp_query_block){.b = b,
                            .h = h,
                            .begin = begin,
                            .count = count,
                            .lanes = (count + RP_LANES - 1) / RP_LANES * RP_LANES,
                            .full = job->causal ? seen_by_all / keys_at_once * keys_at_once
                                                : seen_by_all,
                            .end = rp_visible_keys(job, begin + count - 1)};
}

/* The keys from `begin` on that are done at once; count 0 at the end. */
static inline rp_key_block rp_key_block_at(const rp_attention_job *job, const rp_query_block *block,
                                           int64_t begin, int64_t keys_at_once) {
    const bool full = begin < block->full;
    const int64_t left = (full ? block->full : block->end) - begin;
    const int64_t most = full ? keys_at_once : RP_DIAGONAL;
    rp_key_block keys = {.begin = begin, .count = left < most ? left : most, .masked = !full};
    const int64_t blind = begin - (job->l.keys - job->l.queries) - block->begin;
    if (keys.masked && blind > 0)
        keys.first = blind / RP_LANES * RP_LANES;
    return keys;
}

/* tile [keys, lanes]: `value` where the query does not see the key. */
static inline void rp_fill_masked(const rp_attention_job *job, const rp_query_block *block,
                                  const rp_key_block *keys, float value, float *tile) {
    for (int64_t j = 0; j < keys->count; j++) {
        const int64_t blind = keys->begin + j - (job->l.keys - job->l.queries) - block->begin;
        const int64_t end = blind < block->lanes ? blind : block->lanes;
        for (int64_t x = keys->first; x < end; x++)
            tile[j * job->width + x] = value;
    }
}

/* 2^x for x up to 127: relative error 1e-7; 0 below -126; NaN stays NaN. Without branches. */
static inline float rp_exp2(float x) {
    const float clamped = x < -126.0f ? -126.0f : x;
    /* Adding 1.5 2^23 rounds to an integer, which is then the low bits of the sum. */
    const float shifted = clamped + 12582912.0f;
    const float f = clamped - (shifted - 12582912.0f);
    float y = 1.5345812e-4f; /* minimax polynomial on [-1/2, 1/2] */
    y = y * f + 1.33999312e-3f;
    y = y * f + 9.61848896e-3f;
    y = y * f + 5.55032878e-2f;
    y = y * f + 2.40226469e-1f;
    y = y * f + 6.93147206e-1f;
    y = y * f + 1.0f;
    uint32_t bits;
    float power;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127u) << 23;
    memcpy(&power, &bits, sizeof power);
    return x < -126.0f ? 0.0f : y * power;
}

/* The factors of dropout for 4 keys from `key` on and RP_LANES queries from lane x on; the
 * element of query i and key j of a head is ((b H + h) T + i) T' + j. */
static inline void rp_draw_factors(const rp_attention_job *job, const rp_query_block *block,
                                   int64_t key, int64_t x, float factors[4][RP_LANES]) {
    const rp_drawing d = job->drawing;
    const uint64_t step = (uint64_t)job->l.keys;
    const uint64_t row =
        (uint64_t)((block->b * job->l.heads + block->h) * job->l.queries + block->begin + x);
    const uint64_t element = row * step + (uint64_t)key;
    if (step % 4 == 0) { /* then the 4 keys share a block of the generator */
#pragma omp simd
        for (int i = 0; i < RP_LANES; i++) {
            const rp_philox r =
                rp_random_block(d.key, d.stream, (element + (uint64_t)i * step) / 4);
            factors[0][i] = r.word[0] >= d.threshold ? d.factor : 0.0f;
            factors[1][i] = r.word[1] >= d.threshold ? d.factor : 0.0f;
            factors[2][i] = r.word[2] >= d.threshold ? d.factor : 0.0f;
            factors[3][i] = r.word[3] >= d.threshold ? d.factor : 0.0f;
        }
        return;
    }
    for (int i = 0; i < RP_LANES; i++)
        for (int j = 0; j < 4; j++) {
            const uint64_t e = element + (uint64_t)i * step + (uint64_t)j;
            const rp_philox r = rp_random_block(d.key, d.stream, e / 4);
            factors[j][i] = r.word[e % 4] >= d.threshold ? d.factor : 0.0f;
        }
}

/* Rows of D floats. */
typedef struct rp_head_rows {
    const float *at;
    int64_t stride;
} rp_head_rows;

/* `rows` rows of a tensor from element `begin` on: where they are, or widened into `buffer`. */
static inline rp_head_rows rp_head_rows_at(const rp_attention_job *job, rp_source tensor,
                                           int64_t begin, int64_t stride, int64_t rows,
                                           float *buffer) {
    const int64_t size = job->l.size;
    if (!tensor.bf16)
        return (rp_head_rows){(const float *)tensor.at + begin, stride};
    for (int64_t i = 0; i < rows; i++)
        rp_read(tensor, begin + i * stride, size, buffer + i * size);
    return (rp_head_rows){buffer, size};
}

/* Those of a block's queries in q, o or the gradient of o. */
static inline rp_head_rows rp_query_rows(const rp_attention_job *job, const rp_query_block *block,
                                         rp_source tensor, int64_t stride, float *buffer) {
    const int64_t row = block->b * job->l.queries + block->begin;
    return rp_head_rows_at(job, tensor, row * stride + block->h * job->l.size, stride, block->count,
                           buffer);
}

/* Those of some keys in k or v. */
static inline rp_head_rows rp_key_rows(const rp_attention_job *job, const rp_query_block *block,
                                       const rp_key_block *keys, rp_source kv, float *buffer) {
    const rp_attention_layout *l = &job->l;
    const int64_t row = block->b * l->keys + keys->begin;
    return rp_head_rows_at(job, kv, row * l->kv_stride + block->h / l->group * l->size,
                           l->kv_stride, keys->count, buffer);
}

/* tile [D, lanes] = the rows of the block transposed; lanes without a query get 0. */
static inline void rp_load_lanes(const rp_attention_job *job, const rp_query_block *block,
                                 rp_head_rows rows, float *tile) {
    RP_CPU(tile_transpose)(tile, job->width, rows.at, rows.stride, block->count, job->l.size);
    for (int64_t d = 0; d < job->l.size && block->count < block->lanes; d++)
        memset(tile + d * job->width + block->count, 0,
               (size_t)(block->lanes - block->count) * sizeof *tile);
}

/* out [keys, lanes] = rows of k or v times a tile [D, lanes] */
static inline void rp_keys_times(const rp_attention_job *job, const rp_query_block *block,
                                 const rp_key_block *keys, rp_head_rows kv, const float *tile,
                                 float *out) {
    RP_CPU(tile_product)
    (&(rp_tile){.rows = keys->count,
                .columns = block->lanes - keys->first,
                .depth = job->l.size,
                .a = kv.at,
                .a_row = kv.stride,
                .a_depth = 1,
                .b = tile + keys->first,
                .b_stride = job->width,
                .c = out + keys->first,
                .c_stride = job->width});
}

/* tile [D, lanes] = tile (times scale, of a lane, or not) + (rows of k or v)^T times in [keys,
 * lanes] */
static inline void rp_keys_transposed_times(const rp_attention_job *job,
                                            const rp_query_block *block, const rp_key_block *keys,
                                            rp_head_rows kv, const float *in, float *tile,
                                            const float *scale) {
    RP_CPU(tile_product)
    (&(rp_tile){.rows = job->l.size,
                .columns = block->lanes - keys->first,
                .depth = keys->count,
                .a = kv.at,
                .a_row = 1,
                .a_depth = kv.stride,
                .b = in + keys->first,
                .b_stride = job->width,
                .c = tile + keys->first,
                .c_stride = job->width,
                .add = true,
                .scale = scale != NULL ? scale + keys->first : NULL});
}

#endif
