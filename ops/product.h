/* What the definitions of the products share: slots, sizes that a BLAS with 32-bit integers
 * takes, and the layout of attention's tensors, which definitions and kernels must see alike. */
#ifndef REPRISE_OPS_PRODUCT_H
#define REPRISE_OPS_PRODUCT_H

#include <math.h>

#include "op.h"

/* Whether an optional slot is there. */
static inline bool rp_slot_present(const rp_tensor_info *infos, size_t count, size_t slot) {
    return slot < count && infos[slot].dtype != RP_NO_DTYPE;
}

/* Heads of keys and values; params say 0 for "as many as of the queries". */
static inline int64_t rp_attention_kv_heads(const rp_op_params *params) {
    return params->attention.kv_heads > 0 ? params->attention.kv_heads : params->attention.heads;
}

/* Where the parts of q, k, v [batch, rows, width] lie, in elements. Packed: one tensor, k and v
 * begin at a column of it. Separate: three tensors, both columns are 0. */
typedef struct rp_attention_layout {
    int64_t batch, queries, keys;
    int64_t heads, kv_heads, group; /* group: query heads that read one key/value head */
    int64_t size;                   /* of a head: D */
    int64_t q_stride, kv_stride;    /* from row to row */
    int64_t k_column, v_column;
    int64_t o_stride;
    float scale;
} rp_attention_layout;

/* All numbers must have passed an infer. */
static inline rp_attention_layout rp_attention_layout_make(const rp_op_params *params,
                                                           int64_t batch, int64_t queries,
                                                           int64_t keys, int64_t size) {
    const int64_t heads = params->attention.heads, kv_heads = rp_attention_kv_heads(params);
    const bool packed = params->attention.packed;
    const int64_t row = (heads + 2 * kv_heads) * size;
    rp_attention_layout layout;
    layout.batch = batch;
    layout.queries = queries;
    layout.keys = keys;
    layout.heads = heads;
    layout.kv_heads = kv_heads;
    layout.group = heads / kv_heads;
    layout.size = size;
    layout.q_stride = packed ? row : heads * size;
    layout.kv_stride = packed ? row : kv_heads * size;
    layout.k_column = packed ? heads * size : 0;
    layout.v_column = packed ? (heads + kv_heads) * size : 0;
    layout.o_stride = heads * size;
    layout.scale =
        params->attention.scale != 0.0f ? params->attention.scale : 1.0f / sqrtf((float)size);
    return layout;
}

/* D from the last dimension of q, or of k or v, or of the packed tensor. */
static inline int64_t rp_attention_size_of_q(const rp_op_params *params, const rp_tensor_info *q) {
    const int64_t heads = params->attention.heads;
    return q->shape.dims[2] /
           (params->attention.packed ? heads + 2 * rp_attention_kv_heads(params) : heads);
}

static inline int64_t rp_attention_size_of_kv(const rp_op_params *params,
                                              const rp_tensor_info *kv) {
    const int64_t kv_heads = rp_attention_kv_heads(params);
    return kv->shape.dims[2] /
           (params->attention.packed ? params->attention.heads + 2 * kv_heads : kv_heads);
}

/* Of the fused ops: q, and k unless packed. */
static inline rp_attention_layout rp_attention_layout_of(const rp_op_params *params,
                                                         const rp_tensor_info *q,
                                                         const rp_tensor_info *k) {
    const int64_t queries = q->shape.dims[1];
    return rp_attention_layout_make(params, q->shape.dims[0], queries,
                                    params->attention.packed ? queries : k->shape.dims[1],
                                    rp_attention_size_of_q(params, q));
}

/* Of the separate ops: scores or probabilities [B, H, T, T'] and D. */
static inline rp_attention_layout rp_attention_layout_of_scores(const rp_op_params *params,
                                                                const rp_tensor_info *scores,
                                                                int64_t size) {
    const int64_t *dims = scores->shape.dims;
    return rp_attention_layout_make(params, dims[0], dims[2], dims[3], size);
}

/* Queries that the CPU's kernels work on at a time: 64, fewer for large heads, so that a tile
 * [D, queries] of floats has at most this many and a few of them fit on a stack. Where even 16
 * queries do not fit (D > 256), tiles lie in the workspace, a set for each head. */
enum { RP_ATTENTION_TILE_FLOATS = 4096 };

static inline int64_t rp_attention_block_queries(int64_t size) {
    int64_t queries = 64;
    while (queries > 16 && queries * size > RP_ATTENTION_TILE_FLOATS)
        queries /= 2;
    return queries;
}

/* Floats of a tile in the workspace; 0: tiles are on the stack. */
static inline int64_t rp_attention_workspace_tile(int64_t size) {
    const int64_t floats = rp_attention_block_queries(size) * size;
    return floats > RP_ATTENTION_TILE_FLOATS ? floats : 0;
}

/* Tiles of a set. */
enum { RP_ATTENTION_TILES = 2, RP_ATTENTION_BACKWARD_TILES = 3 };

/* ---- Checks of recording (product.c) --------------------------------------------------------- */

/* The BLAS counts rows, columns and strides in 32 bits. */
rp_status rp_product_check_blas(rp_context *context, const char *op, const char *what,
                                int64_t size);

/* Heads, scale and dropout of params; q; k and v if present. On success *layout is filled. */
rp_status rp_attention_check(rp_context *context, const char *op, const rp_op_call *call,
                             rp_attention_layout *layout);
rp_status rp_attention_check_params(rp_context *context, const char *op,
                                    const rp_op_params *params);

#endif
