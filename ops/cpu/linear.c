/* linear and its gradients: one product of matrices each, by the BLAS. */
#include "gemm.h"

typedef struct matrix_sizes {
    int64_t rows, in, out;
    bool transposed; /* weight [out, in] */
} matrix_sizes;

static matrix_sizes sizes_of(const rp_launch *launch, rp_shape rows, rp_shape weight) {
    const bool transposed = launch->call.params->linear.layout == RP_OUT_IN;
    return (matrix_sizes){.rows = rp_row_count(rows),
                          .in = weight.dims[transposed ? 1 : 0],
                          .out = weight.dims[transposed ? 0 : 1],
                          .transposed = transposed};
}

/* The only product of a call. */
static void run(const rp_launch *launch, rp_product product) {
    const rp_room room = {launch->workspace, RP_PANEL, launch->threads};
    product.alpha = 1.0f;
    product.terms = 1;
    RP_CPU(product)(&product, &room);
}

/* x [rows, in], weight [in, out] or [out, in], bias [out] or absent -> y [rows, out]. The product
 * adds to rows of bias, which costs what clearing y would. */
rp_status RP_CPU(linear)(const rp_launch *launch) {
    const matrix_sizes s = sizes_of(launch, launch->call.in[0].shape, launch->call.in[1].shape);
    RP_TRY(rp_require_floating(launch));
    run(launch, (rp_product){.tb = s.transposed,
                             .m = s.rows,
                             .n = s.out,
                             .k = s.in,
                             .a = rp_matrix_read(rp_launch_source(launch, 0), 0, s.in),
                             .b = rp_matrix_read(rp_launch_source(launch, 1), 0,
                                                 s.transposed ? s.in : s.out),
                             .c = rp_matrix_written(rp_launch_target(launch, 0), 0, s.out),
                             .added = rp_matrix_read(rp_launch_source(launch, 2), 0, 0)});
    return RP_OK;
}

/* dy [rows, out], weight [in, out] or [out, in] -> dx [rows, in] = dy weight^T */
rp_status RP_CPU(linear_backward_input)(const rp_launch *launch) {
    const matrix_sizes s = sizes_of(launch, launch->call.in[0].shape, launch->call.in[1].shape);
    RP_TRY(rp_require_floating(launch));
    run(launch, (rp_product){.tb = !s.transposed,
                             .m = s.rows,
                             .n = s.in,
                             .k = s.out,
                             .a = rp_matrix_read(rp_launch_source(launch, 0), 0, s.out),
                             .b = rp_matrix_read(rp_launch_source(launch, 1), 0,
                                                 s.transposed ? s.in : s.out),
                             .c = rp_matrix_written(rp_launch_target(launch, 0), 0, s.in),
                             .added = rp_matrix_read(rp_launch_sum(launch, 0), 0, s.in)});
    return RP_OK;
}

enum { COLUMNS = 256, ROWS = 64 };

/* part [n] = sum of `rows` rows of dy from element `at` on. Four at a time: `part` stays in the
 * first cache, but not in registers. */
static inline void sum_rows(float *restrict part, rp_source dy, int64_t at, int64_t rows,
                            int64_t out, int n) {
    float buffer[4][COLUMNS];
    int64_t i = 0;
    for (int c = 0; c < n; c++)
        part[c] = 0.0f;
    for (; i + 4 <= rows; i += 4) {
        const float *a = rp_read(dy, at + i * out, n, buffer[0]);
        const float *b = rp_read(dy, at + (i + 1) * out, n, buffer[1]);
        const float *d = rp_read(dy, at + (i + 2) * out, n, buffer[2]);
        const float *e = rp_read(dy, at + (i + 3) * out, n, buffer[3]);
#pragma omp simd
        for (int c = 0; c < n; c++)
            part[c] += (a[c] + b[c]) + (d[c] + e[c]);
    }
    for (; i < rows; i++) {
        const float *a = rp_read(dy, at + i * out, n, buffer[0]);
#pragma omp simd
        for (int c = 0; c < n; c++)
            part[c] += a[c];
    }
}

/* columns [column, column + n) of dbias = added + sum over the rows of dy: ROWS rows at a time,
 * whose sums are then added in order, so that an error of rounding grows with the number of blocks
 * and not of rows. */
static void sum_columns(rp_target dbias, rp_source added, rp_source dy, int64_t rows, int64_t out,
                        int64_t column, int n) {
    float total[COLUMNS] = {0}, part[COLUMNS], sum[COLUMNS], result[COLUMNS];
    for (int64_t i = 0; i < rows; i += ROWS) {
        sum_rows(part, dy, i * out + column, i + ROWS < rows ? ROWS : rows - i, out, n);
        for (int c = 0; c < n; c++)
            total[c] += part[c];
    }
    RP_LOOP(rp_write(dbias, column, result), rp_read(added, column, n, sum), 0, n, total[i]);
    rp_written(dbias, column, n, result);
}

static void bias_gradient(const rp_launch *launch, int64_t rows, int64_t out) {
    const rp_source dy = rp_launch_source(launch, 1), added = rp_launch_sum(launch, 1);
    const rp_target dbias = rp_launch_target(launch, 1);
    const int64_t blocks = (out + COLUMNS - 1) / COLUMNS;
    RP_PARALLEL_FOR(rows * out > RP_CPU_SERIAL ? launch->threads : 1, block, blocks, {
        const int64_t c = block * COLUMNS, left = out - c;
        sum_columns(dbias, added, dy, rows, out, c, left < COLUMNS ? (int)left : COLUMNS);
    });
}

/* x [rows, in], dy [rows, out] -> dweight = x^T dy, [in, out] or transposed; dbias [out]. Either
 * may be absent, and x is if dweight is. */
rp_status RP_CPU(linear_backward_weight)(const rp_launch *launch) {
    const rp_shape dy_shape = launch->call.in[1].shape;
    const int64_t rows = rp_row_count(dy_shape), out = rp_row_length(dy_shape);
    RP_TRY(rp_require_floating(launch));
    if (rp_launch_target(launch, 1).at != NULL)
        bias_gradient(launch, rows, out);
    if (launch->out[0] == NULL)
        return RP_OK;
    const int64_t in = rp_row_length(launch->call.in[0].shape);
    const rp_matrix x = rp_matrix_read(rp_launch_source(launch, 0), 0, in);
    const rp_matrix dy = rp_matrix_read(rp_launch_source(launch, 1), 0, out);
    const bool transposed = launch->call.params->linear.layout == RP_OUT_IN;
    const int64_t stride = transposed ? in : out;
    run(launch, (rp_product){.ta = true,
                             .m = transposed ? out : in,
                             .n = stride,
                             .k = rows,
                             .a = transposed ? dy : x,
                             .b = transposed ? x : dy,
                             .c = rp_matrix_written(rp_launch_target(launch, 0), 0, stride),
                             .added = rp_matrix_read(rp_launch_sum(launch, 0), 0, stride)});
    return RP_OK;
}
