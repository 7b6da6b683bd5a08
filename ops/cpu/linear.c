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

/* Every row of y [rows, out] becomes bias [out]: the product then adds to it, which costs what
 * clearing y would. */
static void fill_rows(float *y, const float *bias, int64_t rows, int64_t out, int threads) {
    RP_PARALLEL_FOR(rows * out > RP_CPU_SERIAL ? threads : 1, i, rows,
                    { memcpy(y + i * out, bias, (size_t)out * sizeof *y); });
}

/* x [rows, in], weight [in, out] or [out, in], bias [out] or absent -> y [rows, out] */
rp_status RP_CPU(linear)(const rp_launch *launch) {
    const matrix_sizes s = sizes_of(launch, launch->call.in[0].shape, launch->call.in[1].shape);
    const float *x = launch->in[0], *weight = launch->in[1], *bias = rp_launch_input(launch, 2);
    float *y = launch->out[0];
    if (bias != NULL)
        fill_rows(y, bias, s.rows, s.out, launch->threads);
    rp_gemm(false, s.transposed, s.rows, s.out, s.in, 1.0f, x, s.in, weight,
            s.transposed ? s.in : s.out, bias != NULL ? 1.0f : 0.0f, y, s.out);
    return RP_OK;
}

/* dy [rows, out], weight [in, out] or [out, in] -> dx [rows, in] = dy weight^T */
rp_status RP_CPU(linear_backward_input)(const rp_launch *launch) {
    const matrix_sizes s = sizes_of(launch, launch->call.in[0].shape, launch->call.in[1].shape);
    const float *dy = launch->in[0], *weight = launch->in[1];
    rp_gemm(false, !s.transposed, s.rows, s.in, s.out, 1.0f, dy, s.out, weight,
            s.transposed ? s.in : s.out, rp_launch_beta(launch, 0), launch->out[0], s.in);
    return RP_OK;
}

enum { COLUMNS = 256, ROWS = 64 };

/* part [n] = sum of `rows` rows of dy. Four at a time: `part` stays in the first cache, but not in
 * registers. */
static inline void sum_rows(float *restrict part, const float *restrict dy, int64_t rows,
                            int64_t out, int n) {
    int64_t i = 0;
    for (int c = 0; c < n; c++)
        part[c] = 0.0f;
    for (; i + 4 <= rows; i += 4) {
        const float *a = dy + i * out, *b = a + out, *d = b + out, *e = d + out;
#pragma omp simd
        for (int c = 0; c < n; c++)
            part[c] += (a[c] + b[c]) + (d[c] + e[c]);
    }
    for (; i < rows; i++)
#pragma omp simd
        for (int c = 0; c < n; c++)
            part[c] += dy[i * out + c];
}

/* columns [0, n) of dbias = added + sum over the rows of dy: ROWS rows at a time, whose sums are
 * then added in order, so that an error of rounding grows with the number of blocks and not of
 * rows. */
static void sum_columns(float *dbias, const float *added, const float *dy, int64_t rows,
                        int64_t out, int n) {
    float total[COLUMNS] = {0}, part[COLUMNS];
    for (int64_t i = 0; i < rows; i += ROWS) {
        sum_rows(part, dy + i * out, i + ROWS < rows ? ROWS : rows - i, out, n);
        for (int c = 0; c < n; c++)
            total[c] += part[c];
    }
    for (int c = 0; c < n; c++)
        dbias[c] = added != NULL ? added[c] + total[c] : total[c];
}

static void bias_gradient(const rp_launch *launch, int64_t rows, int64_t out) {
    const float *dy = launch->in[1], *added = rp_accumulated(launch, 1);
    float *dbias = launch->out[1];
    const int64_t blocks = (out + COLUMNS - 1) / COLUMNS;
    RP_PARALLEL_FOR(rows * out > RP_CPU_SERIAL ? launch->threads : 1, block, blocks, {
        const int64_t c = block * COLUMNS, left = out - c;
        sum_columns(dbias + c, added != NULL ? added + c : NULL, dy + c, rows, out,
                    left < COLUMNS ? (int)left : COLUMNS);
    });
}

/* x [rows, in], dy [rows, out] -> dweight = x^T dy, [in, out] or transposed; dbias [out]. Either
 * may be absent, and x is if dweight is. */
rp_status RP_CPU(linear_backward_weight)(const rp_launch *launch) {
    const rp_shape dy_shape = launch->call.in[1].shape;
    const int64_t rows = rp_row_count(dy_shape), out = rp_row_length(dy_shape);
    const float *x = launch->in[0], *dy = launch->in[1];
    float *dweight = launch->out[0];
    if (rp_launch_output(launch, 1) != NULL)
        bias_gradient(launch, rows, out);
    if (dweight == NULL)
        return RP_OK;
    const int64_t in = rp_row_length(launch->call.in[0].shape);
    const float beta = rp_launch_beta(launch, 0);
    if (launch->call.params->linear.layout == RP_OUT_IN)
        rp_gemm(true, false, out, in, rows, 1.0f, dy, out, x, in, beta, dweight, in);
    else
        rp_gemm(true, false, in, out, rows, 1.0f, x, in, dy, out, beta, dweight, out);
    return RP_OK;
}
