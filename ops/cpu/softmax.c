/* softmax: x [rows, C] -> y [rows, C]; causal: x [..., T, C], row i of T sees columns j <= i + C -
 * T. backward: y, dy -> dx. Kept: y. What a row does not see is neither read nor anything but 0. */
#include "rows.h"

/* Columns that a row sees. */
static int64_t visible(const rp_launch *launch, int64_t row) {
    const rp_shape shape = launch->call.in[0].shape;
    const int64_t width = rp_row_length(shape);
    if (!launch->call.params->softmax.causal)
        return width;
    const int64_t height = shape.dims[shape.rank - 2];
    const int64_t end = row % height + width - height + 1;
    return end < 0 ? 0 : end;
}

static void put_zero(float *y, const float *sum, int64_t begin, int64_t end) {
    RP_LOOP(y, sum, begin, end, 0.0f);
}

/* A row of -infinity only sees nothing either. The exponentials are written and then scaled: y is
 * in the first cache by then. */
static void forward_row(const float *x, float *y, int64_t end, int64_t width) {
    const float largest = rp_row_max(x, end);
    const float top = largest == -INFINITY ? 0.0f : largest;
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < end; c++) {
        const float e = rp_math_exp_negative(x[c] - top);
        y[c] = e;
        sum += e;
    }
    const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
#pragma omp simd
    for (int64_t c = 0; c < end; c++)
        y[c] *= factor;
    put_zero(y, NULL, end, width);
}

static void forward_span(const rp_span *span, const void *job, int64_t row, int64_t piece) {
    (void)job, (void)piece;
    forward_row(span->in[0], span->out[0], visible(span->launch, row), span->count);
}

/* dx = y (dy - sum of y dy). */
static void backward_row(const float *y, const float *dy, const float *sum, float *dx, int64_t end,
                         int64_t width) {
    float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
    for (int64_t c = 0; c < end; c++)
        dot += y[c] * dy[c];
    RP_LOOP(dx, sum, 0, end, y[i] * (dy[i] - dot));
    put_zero(dx, sum, end, width);
}

static void backward_span(const rp_span *span, const void *job, int64_t row, int64_t piece) {
    (void)job, (void)piece;
    backward_row(span->in[0], span->in[1], span->sum, span->out[0], visible(span->launch, row),
                 span->count);
}

static rp_status run(const rp_launch *launch, uint32_t in, rp_row_body body) {
    const rp_shape shape = launch->call.in[0].shape;
    const int64_t rows = rp_row_count(shape), width = rp_row_length(shape);
    if (width == 0)
        return RP_OK;
    return RP_CPU(for_rows)(launch, &(rp_rows){.rows = rows,
                                               .width = width,
                                               .in = in,
                                               .cut = rp_rows_cut(launch, rows),
                                               .buffers = launch->workspace,
                                               .body = body});
}

rp_status RP_CPU(softmax)(const rp_launch *launch) {
    return run(launch, 1, forward_span);
}

rp_status RP_CPU(softmax_backward)(const rp_launch *launch) {
    return run(launch, 1 | 2, backward_span);
}
