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

typedef struct row {
    rp_source x, dy, sum; /* backward: x is y */
    rp_target y;
    int64_t at, end, width; /* elements before the row, what it sees of its length */
    int64_t block;
} row;

static row row_of(const rp_launch *launch, int64_t r) {
    const int64_t width = rp_row_length(launch->call.in[0].shape);
    return (row){.x = rp_launch_source(launch, 0),
                 .dy = rp_launch_source(launch, 1),
                 .sum = rp_launch_sum(launch, 0),
                 .y = rp_launch_target(launch, 0),
                 .at = r * width,
                 .end = visible(launch, r),
                 .width = width,
                 .block = rp_row_block(launch, width)};
}

/* What lies behind what a row sees. */
static void put_zero(const row *r) {
    const int64_t at = r->at + r->end, count = r->width - r->end;
    if (count > 0 && r->sum.at != r->y.at)
        rp_begin_bytes(rp_target_from(r->y, at).at, rp_source_from(r->sum, at).at,
                       count * (r->y.bf16 ? 2 : 4), 1);
}

/* The exponentials are written and then scaled: y is in the first cache by then. */
static void put_whole(const float *x, float *y, int64_t end, float top) {
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
}

/* Of a row in several blocks the exponentials are taken twice: what is rounded is not scaled. */
static void put_blocks(const row *r, float top, float *buffer) {
    float sum = 0.0f;
    for (int64_t c = 0; c < r->end; c += r->block) {
        const int64_t count = r->end - c < r->block ? r->end - c : r->block;
        sum += rp_row_exp_sum(rp_read(r->x, r->at + c, count, buffer), count, top);
    }
    const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
    for (int64_t c = 0; c < r->end; c += r->block) {
        const int64_t count = r->end - c < r->block ? r->end - c : r->block;
        const float *x = rp_read(r->x, r->at + c, count, buffer);
        float *y = rp_write(r->y, r->at + c, buffer);
#pragma omp simd
        for (int64_t i = 0; i < count; i++)
            y[i] = rp_math_exp_negative(x[i] - top) * factor;
        rp_written(r->y, r->at + c, count, buffer);
    }
}

/* A row of -infinity only sees nothing either. */
static void forward_row(const row *r) {
    float buffer[RP_CPU_ROW], largest = -INFINITY;
    const float *x = NULL;
    for (int64_t c = 0; c < r->end; c += r->block) {
        const int64_t count = r->end - c < r->block ? r->end - c : r->block;
        x = rp_read(r->x, r->at + c, count, buffer);
        largest = rp_row_max_of(largest, rp_row_max(x, count));
    }
    const float top = largest == -INFINITY ? 0.0f : largest;
    if (r->end > r->block)
        put_blocks(r, top, buffer);
    else if (r->end > 0) {
        put_whole(x, rp_write(r->y, r->at, buffer), r->end, top);
        rp_written(r->y, r->at, r->end, buffer);
    }
    put_zero(r);
}

rp_status RP_CPU(softmax)(const rp_launch *launch) {
    const int64_t rows = rp_row_count(launch->call.in[0].shape);
    RP_TRY(rp_require_floating(launch));
    RP_PARALLEL_FOR(rp_cpu_threads(launch, rp_info_count(&launch->call.in[0])), r, rows, {
        const row at = row_of(launch, r);
        forward_row(&at);
    });
    return RP_OK;
}

static float dot_of(const float *y, const float *dy, int64_t count) {
    float dot = 0.0f;
#pragma omp simd reduction(+ : dot)
    for (int64_t c = 0; c < count; c++)
        dot += y[c] * dy[c];
    return dot;
}

/* dx = y (dy - sum of y dy). */
static void backward_row(const row *r) {
    float y_buffer[RP_CPU_ROW], dy_buffer[RP_CPU_ROW], sum[RP_CPU_ROW], dx[RP_CPU_ROW], dot = 0.0f;
    for (int64_t c = 0; c < r->end; c += r->block) {
        const int64_t count = r->end - c < r->block ? r->end - c : r->block;
        dot += dot_of(rp_read(r->x, r->at + c, count, y_buffer),
                      rp_read(r->dy, r->at + c, count, dy_buffer), count);
    }
    for (int64_t c = 0; c < r->end; c += r->block) {
        const int64_t count = r->end - c < r->block ? r->end - c : r->block, at = r->at + c;
        const float *y = rp_read(r->x, at, count, y_buffer);
        const float *dy = rp_read(r->dy, at, count, dy_buffer);
        RP_LOOP(rp_write(r->y, at, dx), rp_read(r->sum, at, count, sum), 0, count,
                y[i] * (dy[i] - dot));
        rp_written(r->y, at, count, dx);
    }
    put_zero(r);
}

rp_status RP_CPU(softmax_backward)(const rp_launch *launch) {
    const int64_t rows = rp_row_count(launch->call.in[0].shape);
    RP_TRY(rp_require_floating(launch));
    RP_PARALLEL_FOR(rp_cpu_threads(launch, rp_info_count(&launch->call.in[0])), r, rows, {
        const row at = row_of(launch, r);
        backward_row(&at);
    });
    return RP_OK;
}
