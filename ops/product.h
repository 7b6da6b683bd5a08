/* What the definitions of the products share: slots, sizes that a BLAS with 32-bit integers
 * takes, and the layout of attention's tensors, which definitions and kernels must see alike. */
#ifndef REPRISE_OPS_PRODUCT_H
#define REPRISE_OPS_PRODUCT_H

#include <math.h>

#include "define.h"

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

/* Tiles of a set. Where something is bf16, more for what is widened: rows of queries, and keys, of
 * which this many floats a tile's are one. */
enum { RP_ATTENTION_TILES = 2, RP_ATTENTION_BACKWARD_TILES = 3 };
enum { RP_ATTENTION_KEYS = 64, RP_ATTENTION_BACKWARD_KEYS = 32, RP_ATTENTION_LEAST_QUERIES = 16 };
enum {
    RP_ATTENTION_BF16_TILES =
        RP_ATTENTION_TILES + 1 + RP_ATTENTION_KEYS / RP_ATTENTION_LEAST_QUERIES,
    RP_ATTENTION_BACKWARD_BF16_TILES = RP_ATTENTION_BACKWARD_TILES + 2 +
                                       2 * RP_ATTENTION_BACKWARD_KEYS / RP_ATTENTION_LEAST_QUERIES
};

/* Pieces of the key/value heads that backward works on: each head by itself, or this many where
 * something is bf16, each with a set of tiles (if they lie in the workspace) and the gradients of
 * keys and values of one head, which are rounded when all is added. */
enum { RP_ATTENTION_PIECES = 8 };

static inline rp_cut rp_attention_cut(const rp_attention_layout *l, bool bf16) {
    const int64_t heads = l->batch * l->kv_heads;
    const rp_cut each = {heads, 1};
    return bf16 ? rp_cut_make(heads, 1, RP_ATTENTION_PIECES) : each;
}

static inline int64_t rp_attention_sums(const rp_attention_layout *l, bool bf16) {
    return bf16 ? rp_saturated_multiply(l->keys, 2 * l->size) : 0;
}

/* ---- Panels: products of bf16 matrices by a BLAS of floats (ops/cpu/gemm.c) ------------------ */

/* Rows and columns of a panel that is widened: of products by all threads, and of those that are
 * shared out to the threads, which have panels each, by piece: at most this many pieces. */
enum { RP_PANEL = 512, RP_SHARED_PANEL = 128, RP_PRODUCT_PIECES = 16 };

/* Floats of the panels of one product [m, k] [k, n], in any order of the three sizes: of both
 * operands and the result. Each begins at a multiple of 16. */
static inline int64_t rp_panel_floats(int64_t a, int64_t b, int64_t most) {
    const int64_t floats = (a < most ? a : most) * (b < most ? b : most);
    return (floats + 15) / 16 * 16;
}

static inline int64_t rp_panels_floats(int64_t m, int64_t n, int64_t k, int64_t most) {
    return rp_panel_floats(m, n, most) + rp_panel_floats(m, k, most) + rp_panel_floats(n, k, most);
}

/* Bytes of them for `count` products that are shared out to the threads or made one by one. */
static inline int64_t rp_panels_bytes(int64_t m, int64_t n, int64_t k, int64_t count, bool shared) {
    const int64_t most = RP_PRODUCT_PIECES, pieces = count < most ? count : most;
    const int64_t floats = rp_panels_floats(m, n, k, shared ? RP_SHARED_PANEL : RP_PANEL);
    return (shared ? pieces : count > 0) * floats * (int64_t)sizeof(float);
}

/* A batch of products: whether they are shared out to the threads. Those of up to this many
 * multiply-adds are too small to be cut for several threads: with more than one of them, the
 * batches are shared out instead. So are many products of any size. By shape alone, so that the
 * bits of these do not depend on the number of threads. */
enum { RP_MATMUL_SMALL = 128 * 128 * 128, RP_MATMUL_MANY = 32 };

static inline bool rp_matmul_is_shared(int64_t batch, int64_t m, int64_t n, int64_t k) {
    const bool small = (double)m * (double)n * (double)k <= RP_MATMUL_SMALL;
    return batch > 1 && (small || batch >= RP_MATMUL_MANY);
}

/* The products of attention in separate ops, one a head. */
enum { RP_HEADS_MANY = 4 };

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
