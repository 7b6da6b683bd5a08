/* What definitions share: checks with words, saturating sizes, the cut of reductions, emitting one
 * gradient. */
#ifndef REPRISE_OPS_DEFINE_H
#define REPRISE_OPS_DEFINE_H

#include "op.h"

/* For functions that own nothing. */
#define RP_TRY(call)                                                                               \
    do {                                                                                           \
        const rp_status try_status_ = (call);                                                      \
        if (try_status_ != RP_OK)                                                                  \
            return try_status_;                                                                    \
    } while (0)

/* The call has this many inputs. */
rp_status rp_check_in_count(rp_context *context, const char *op, const rp_op_call *call,
                            size_t wanted);

/* The slot is present and of this dtype. The message names op and slot and what was got. */
rp_status rp_check_dtype(rp_context *context, const char *op, const char *slot,
                         const rp_tensor_info *info, rp_dtype wanted);

/* The slot is present and of a floating type: that of `first`, the first floating input of the
 * call, or any if it is the first one itself. */
rp_status rp_check_floating(rp_context *context, const char *op, const char *slot,
                            const rp_tensor_info *info, const rp_tensor_info *first);

/* The shape has at least this many dimensions. */
rp_status rp_check_rank(rp_context *context, const char *op, const char *slot,
                        const rp_tensor_info *info, int least);

/* The shape is a vector of `length` elements. */
rp_status rp_check_vector(rp_context *context, const char *op, const char *slot,
                          const rp_tensor_info *info, int64_t length);

/* A dimension of a shape; negative ones count from the end. *axis is in [0, rank). */
rp_status rp_check_axis(rp_context *context, const char *op, const rp_tensor_info *info,
                        int dimension, int *axis);

/* `dimension` made non-negative; it was checked when the op was recorded. */
static inline int rp_axis(rp_shape shape, int dimension) {
    return dimension < 0 ? dimension + shape.rank : dimension;
}

/* Makes `info` the only output, if its bytes fit 63 bits. */
rp_status rp_set_output(rp_context *context, const char *op, rp_op_call *call, rp_tensor_info info);

/* One floating input, one output of the same type and shape. */
rp_status rp_infer_unary(rp_context *context, const char *op, rp_op_call *call);

/* Two floating inputs a [..., shape of b], one output like a. */
rp_status rp_infer_suffix(rp_context *context, const char *op, rp_op_call *call);

/* Emits `op` with one output: the gradient of forward input `input`. */
rp_status rp_emit_gradient(rp_vjp *vjp, rp_op op, const rp_op_params *params, const uint32_t *in,
                           size_t in_count, int input);

/* Emits the gradient of output 0 itself, in the shape of forward input `input`, as its gradient: a
 * view. Nothing if it is not wanted. */
rp_status rp_emit_same(rp_vjp *vjp, int input);

/* a + b and a * b for sizes, INT64_MAX when they do not fit. */
static inline int64_t rp_saturated_add(int64_t a, int64_t b) {
    int64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static inline int64_t rp_saturated_multiply(int64_t a, int64_t b) {
    int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* Elements of a slot; 0 when it is absent. */
static inline int64_t rp_info_count(const rp_tensor_info *info) {
    return info->dtype == RP_NO_DTYPE ? 0 : rp_shape_count(info->shape);
}

static inline int64_t rp_info_bytes(const rp_tensor_info *info) {
    return rp_saturated_multiply(rp_info_count(info), (int64_t)rp_dtype_bytes(info->dtype));
}

/* How a reduction over n things is cut into pieces of `length` (the last may be shorter), by n
 * alone: partial results are added in the order of the pieces, whatever the threads. Definition
 * (workspace) and kernel must cut alike. */
typedef struct rp_cut {
    int64_t count, length;
} rp_cut;

static inline rp_cut rp_cut_make(int64_t n, int64_t least, int64_t most) {
    const int64_t even = n / most + (n % most != 0);
    const int64_t length = even > least ? even : least;
    const rp_cut cut = {n / length + (n % length != 0), length};
    return cut;
}

/* The cuts of the ops that reduce: one partial result a piece lies in the workspace. */
enum { RP_SUM_PIECES = 64 }; /* at most */

static inline rp_cut rp_cut_sum(int64_t count) {
    return rp_cut_make(count, 8192, RP_SUM_PIECES);
}
static inline rp_cut rp_cut_rows(int64_t rows) {
    return rp_cut_make(rows, 16, 32);
}

/* Row kernels of the CPU widen the rows of bf16 inputs, those of bit mask `in`, and round those of
 * output 0: buffers of one row for each piece of rows. */
static inline int64_t rp_row_buffers(const rp_op_call *call, uint32_t in) {
    int64_t buffers = 0;
    for (size_t i = 0; i < call->in_count; i++)
        buffers += (in >> i & 1) != 0 && call->in[i].dtype == RP_BF16;
    return buffers > 0 || call->out[0].dtype == RP_BF16 ? buffers + 2 : 0;
}

static inline int64_t rp_rows_workspace(const rp_op_call *call, uint32_t in) {
    const rp_shape shape = call->in[0].shape;
    const int64_t floats =
        rp_saturated_multiply(rp_cut_rows(rp_row_count(shape)).count, rp_row_length(shape));
    return rp_saturated_multiply(floats, rp_row_buffers(call, in) * (int64_t)sizeof(float));
}

/* Columns from which sum_leading goes down the columns in parallel and needs no pieces of rows. */
#define RP_SUM_LEADING_WIDE 8192

static inline rp_cut rp_cut_sum_leading(int64_t rows, int64_t columns) {
    const rp_cut whole = {rows > 0, rows > 0 ? rows : 1};
    return columns >= RP_SUM_LEADING_WIDE ? whole : rp_cut_rows(rows);
}

#endif
