/* How reductions on CUDA are cut into pieces, and the scratch that their partial results take: by
 * types and shapes alone, never by the device. Pieces are added in their order. */
#ifndef REPRISE_OPS_CUDA_REDUCTION_SIZES_H
#define REPRISE_OPS_CUDA_REDUCTION_SIZES_H

#include "define.h"

/* Of n elements into pieces of whole vectors: one partial result each. */
static inline rp_cut rp_cuda_cut_sum(int64_t n) {
    const rp_cut cut = rp_cut_make(n, 8192, 1024);
    const int64_t length = (cut.length + 7) / 8 * 8;
    const rp_cut vectors = {n / length + (n % length != 0), length};
    return vectors;
}

static inline int64_t rp_cuda_sum_scratch(const rp_op_call *call) {
    return rp_cuda_cut_sum(rp_info_count(&call->in[0])).count * (int64_t)sizeof(double);
}

/* ---- Sums over rows -------------------------------------------------------------------------- */

/* Columns that a thread takes: 16 bytes, or one where rows do not begin at multiples of that. */
static inline int rp_cuda_column_group(rp_dtype dtype, int64_t columns) {
    const int vector = dtype == RP_BF16 ? 8 : 4;
    return columns % vector == 0 ? vector : 1;
}

/* A block takes the columns of 32 threads and one piece of the rows. Enough blocks for the largest
 * devices, but not many more: each writes its sums and has them read again. */
static inline rp_cut rp_cuda_cut_rows(rp_dtype dtype, int64_t rows, int64_t columns) {
    const int64_t width = 32 * rp_cuda_column_group(dtype, columns);
    const int64_t across = columns / width + (columns % width != 0);
    return rp_cut_make(rows, 64, across < 1024 ? 1024 / (across > 0 ? across : 1) : 1);
}

static inline int64_t rp_cuda_sum_leading_scratch(const rp_op_call *call) {
    const int64_t columns = rp_info_count(&call->out[0]);
    const int64_t rows = columns > 0 ? rp_info_count(&call->in[0]) / columns : 0;
    const int64_t pieces = rp_cuda_cut_rows(call->in[0].dtype, rows, columns).count;
    return pieces > 1 ? rp_saturated_multiply(pieces * (int64_t)sizeof(float), columns) : 0;
}

/* ---- layernorm_backward ---------------------------------------------------------------------- */

/* Threads for a row: a power of two, warps at least. */
static inline int rp_cuda_row_threads(int64_t width, int held) {
    int threads = 32;
    while (threads < 512 && (int64_t)threads * held < width)
        threads *= 2;
    return threads;
}

/* Elements of a row that one thread holds: 32 bytes, or 8 elements where it reads them one by one;
 * and the longest row that a block holds. */
static inline int rp_cuda_norm_held(rp_dtype dtype, int64_t width) {
    return rp_cuda_column_group(dtype, width) == 8 ? 16 : 8;
}

static inline int64_t rp_cuda_norm_widest(rp_dtype dtype, int64_t width) {
    return 512 * (int64_t)rp_cuda_norm_held(dtype, width);
}

/* Blocks, each with one line of partial gradients for each of weight and bias: at most about a
 * million elements of them, but enough blocks for a device. */
static inline rp_cut rp_cuda_cut_norm(rp_dtype dtype, int64_t rows, int64_t width) {
    if (width > rp_cuda_norm_widest(dtype, width))
        return rp_cuda_cut_rows(dtype, rows, width);
    return rp_cut_make(rows, 16, width > 1024 ? (1 << 20) / width : 1024);
}

static inline int64_t rp_cuda_layernorm_backward_scratch(const rp_op_call *call) {
    const int present = (call->out[1].dtype != RP_NO_DTYPE) + (call->out[2].dtype != RP_NO_DTYPE);
    const rp_shape x = call->in[0].shape;
    const int64_t width = rp_row_length(x);
    const int64_t pieces = rp_cuda_cut_norm(call->in[0].dtype, rp_row_count(x), width).count;
    return rp_saturated_multiply(rp_saturated_multiply(pieces, width),
                                 present * (int64_t)sizeof(float));
}

/* ---- cross_entropy and embedding_backward ---------------------------------------------------- */

/* The loss of each row. */
static inline int64_t rp_cuda_cross_entropy_scratch(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->in[1]), (int64_t)sizeof(double));
}

/* What each row's gradient is multiplied with. */
static inline int64_t rp_cuda_cross_entropy_backward_scratch(const rp_op_call *call) {
    (void)call;
    return (int64_t)sizeof(float);
}

/* Where the positions of each row of the table begin, and the positions in the order of rows. */
static inline int64_t rp_cuda_embedding_backward_scratch(const rp_op_call *call) {
    const int64_t rows = call->out[0].shape.dims[0], ids = rp_info_count(&call->in[0]);
    return rp_saturated_multiply(rp_saturated_add(rp_saturated_add(rows, ids), 1),
                                 (int64_t)sizeof(int32_t));
}

#endif
