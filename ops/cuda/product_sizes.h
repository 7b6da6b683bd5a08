/* Scratch of products on CUDA, by types and shapes alone: what workspace.c counts and
 * kernels use. */
#ifndef REPRISE_OPS_CUDA_PRODUCT_SIZES_H
#define REPRISE_OPS_CUDA_PRODUCT_SIZES_H

#include "define.h"
#include "product.h"

/* What a product has to do with a bias, of the type of C. */
typedef enum rp_cuda_bias {
    RP_CUDA_NO_BIAS,
    RP_CUDA_BIAS_ADDED,    /* [n], to each row of C */
    RP_CUDA_BIAS_SUM_OF_A, /* [m]: the sum over k of op(A), which is dy: the bias's gradient */
    RP_CUDA_BIAS_SUM_OF_B  /* [n]: the same of op(B) */
} rp_cuda_bias;

/* C [batch, m, n] = op(A) op(B), row-major. */
typedef struct rp_cuda_product {
    rp_dtype in, out;
    bool transpose_a, transpose_b; /* A is [k, m], B is [n, k] */
    rp_cuda_bias bias;
    int64_t m, n, k, batch;
} rp_cuda_product;

#define RP_CUDA_PRODUCT_SCRATCH ((int64_t)32 << 20)

/* What cuBLASLt may take at most: four sets of partial sums in f32, with which a small result of
 * long sums keeps a device busy; 32 MiB, as its manual asks for, where the result is large. */
static inline int64_t rp_cuda_product_scratch(const rp_cuda_product *p) {
    const int64_t count = rp_saturated_multiply(p->batch, rp_saturated_multiply(p->m, p->n));
    const int64_t bytes = rp_saturated_multiply(count, 4 * (int64_t)sizeof(float));
    return bytes < RP_CUDA_PRODUCT_SCRATCH ? (bytes + 255) / 256 * 256 : RP_CUDA_PRODUCT_SCRATCH;
}

static inline rp_cuda_product rp_cuda_product_linear(const rp_op_call *call) {
    const bool transposed = call->params->linear.layout == RP_OUT_IN;
    const rp_shape weight = call->in[1].shape;
    rp_cuda_product p;
    p.in = call->in[0].dtype;
    p.out = call->out[0].dtype;
    p.transpose_a = false;
    p.transpose_b = transposed;
    p.bias = rp_slot_present(call->in, call->in_count, 2) ? RP_CUDA_BIAS_ADDED : RP_CUDA_NO_BIAS;
    p.m = rp_row_count(call->in[0].shape);
    p.n = weight.dims[transposed ? 0 : 1];
    p.k = weight.dims[transposed ? 1 : 0];
    p.batch = 1;
    return p;
}

/* dy, weight -> dx = dy weight^T */
static inline rp_cuda_product rp_cuda_product_backward_input(const rp_op_call *call) {
    const bool transposed = call->params->linear.layout == RP_OUT_IN;
    const rp_shape weight = call->in[1].shape;
    rp_cuda_product p;
    p.in = call->in[0].dtype;
    p.out = call->out[0].dtype;
    p.transpose_a = false;
    p.transpose_b = !transposed;
    p.bias = RP_CUDA_NO_BIAS;
    p.m = rp_row_count(call->in[0].shape);
    p.n = weight.dims[transposed ? 1 : 0];
    p.k = weight.dims[transposed ? 0 : 1];
    p.batch = 1;
    return p;
}

/* x, dy -> dweight = x^T dy, or dy^T x for [out, in]; x and dweight must be there */
static inline rp_cuda_product rp_cuda_product_backward_weight(const rp_op_call *call) {
    const bool transposed = call->params->linear.layout == RP_OUT_IN;
    const int64_t in = rp_row_length(call->in[0].shape), out = rp_row_length(call->in[1].shape);
    rp_cuda_product p;
    p.in = call->in[1].dtype;
    p.out = call->out[0].dtype;
    p.transpose_a = true;
    p.transpose_b = false;
    p.bias = RP_CUDA_NO_BIAS;
    p.m = transposed ? out : in;
    p.n = transposed ? in : out;
    p.k = rp_row_count(call->in[1].shape);
    p.batch = 1;
    return p;
}

/* The same with the gradient of the bias, where both are made and have one type. */
static inline rp_cuda_product rp_cuda_product_backward_weight_and_bias(const rp_op_call *call) {
    rp_cuda_product p = rp_cuda_product_backward_weight(call);
    if (rp_slot_present(call->out, call->out_count, 1) && call->out[1].dtype == p.out)
        p.bias = call->params->linear.layout == RP_OUT_IN ? RP_CUDA_BIAS_SUM_OF_A
                                                          : RP_CUDA_BIAS_SUM_OF_B;
    return p;
}

static inline rp_cuda_product rp_cuda_product_matmul(const rp_op_call *call) {
    const rp_shape a = call->in[0].shape, c = call->out[0].shape;
    rp_cuda_product p;
    p.in = call->in[0].dtype;
    p.out = call->out[0].dtype;
    p.transpose_a = call->params->matmul.transpose_a;
    p.transpose_b = call->params->matmul.transpose_b;
    p.bias = RP_CUDA_NO_BIAS;
    p.m = c.dims[c.rank - 2];
    p.n = c.dims[c.rank - 1];
    p.k = a.dims[a.rank - (p.transpose_a ? 2 : 1)];
    p.batch = 1;
    for (int i = 0; i < c.rank - 2; i++)
        p.batch *= c.dims[i];
    return p;
}

/* Rows of dy are summed in pieces, whose sums are then added in order. */
static inline rp_cut rp_cuda_cut_bias(int64_t rows) {
    return rp_cut_make(rows, 64, 256);
}

static inline int64_t rp_cuda_linear_scratch(const rp_op_call *call) {
    const rp_cuda_product p = rp_cuda_product_linear(call);
    return rp_cuda_product_scratch(&p);
}

static inline int64_t rp_cuda_linear_backward_input_scratch(const rp_op_call *call) {
    const rp_cuda_product p = rp_cuda_product_backward_input(call);
    return rp_cuda_product_scratch(&p);
}

/* One after the other, where the product does not make dbias itself: partial sums of dbias, and the
 * product. */
static inline int64_t rp_cuda_linear_backward_weight_scratch(const rp_op_call *call) {
    int64_t bytes = 0;
    if (rp_slot_present(call->out, call->out_count, 0)) {
        const rp_cuda_product p = rp_cuda_product_backward_weight(call);
        bytes = rp_cuda_product_scratch(&p);
    }
    if (rp_slot_present(call->out, call->out_count, 1)) {
        const int64_t pieces = rp_cuda_cut_bias(rp_row_count(call->in[1].shape)).count;
        const int64_t sums = rp_saturated_multiply(pieces * (int64_t)sizeof(float),
                                                   rp_row_length(call->in[1].shape));
        bytes = bytes > sums ? bytes : sums;
    }
    return bytes;
}

static inline int64_t rp_cuda_matmul_scratch(const rp_op_call *call) {
    const rp_cuda_product p = rp_cuda_product_matmul(call);
    return rp_cuda_product_scratch(&p);
}

#endif
