/* layernorm: x [rows, C], weight [C], bias [C] or absent -> y [rows, C], stats [rows, 2].
 * backward: x, stats, weight, dy -> dx [rows, C], dweight [C], dbias [C], each present or absent.
 * Kept: x and of each row its mean and 1 / sqrt(variance + eps); normalising again costs less than
 * reading a kept y. */
#include <math.h>

#include "pieces.h"

static float row_sum(const float *x, int64_t width) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < width; c++)
        sum += x[c];
    return sum;
}

/* In two halves side by side: the row is in the first cache by now, and a processor adds several
 * vectors in the time that one sum takes. */
static float row_squares(const float *x, int64_t width, float mean) {
    const int64_t half = width / 2;
    float low = 0.0f, high = 0.0f;
#pragma omp simd reduction(+ : low, high)
    for (int64_t c = 0; c < half; c++) {
        low += (x[c] - mean) * (x[c] - mean);
        high += (x[half + c] - mean) * (x[half + c] - mean);
    }
    const float last = width % 2 != 0 ? x[width - 1] - mean : 0.0f;
    return low + high + last * last;
}

static void forward_row(const float *x, const float *weight, const float *bias, float *y,
                        float *stats, int64_t width, float eps) {
    const float count = width > 0 ? (float)width : 1.0f;
    const float mean = row_sum(x, width) / count;
    const float scale = 1.0f / sqrtf(row_squares(x, width, mean) / count + eps);
    if (bias != NULL) {
#pragma omp simd
        for (int64_t c = 0; c < width; c++)
            y[c] = (x[c] - mean) * scale * weight[c] + bias[c];
    } else {
#pragma omp simd
        for (int64_t c = 0; c < width; c++)
            y[c] = (x[c] - mean) * scale * weight[c];
    }
    if (stats != NULL) {
        stats[0] = mean;
        stats[1] = scale;
    }
}

rp_status RP_CPU(layernorm)(const rp_launch *launch) {
    const rp_shape shape = launch->call.in[0].shape;
    const int64_t rows = rp_row_count(shape), width = rp_row_length(shape);
    const float *x = launch->in[0], *weight = launch->in[1], *bias = launch->in[2];
    float *y = launch->out[0], *stats = launch->out[1];
    RP_TRY(rp_require_f32(launch));
    RP_PARALLEL_FOR(rp_cpu_threads(launch, rows * width), r, rows, {
        forward_row(x + r * width, weight, bias, y + r * width, stats ? stats + 2 * r : NULL, width,
                    launch->call.params->layernorm.eps);
    });
    return RP_OK;
}

/* One row; n(x) is the normalised x. Gradients of weight and bias are added to lines that one
 * thread owns, before dx, which may lie on x or dy, is written. */
typedef struct row {
    const float *x, *dy, *weight, *sum;
    float mean, scale;
    float *dx, *dweight, *dbias;
    int64_t width;
} row;

/* Sums over the row of g = dy weight and of g (x - mean). */
typedef struct row_sums {
    float g, dot;
} row_sums;

static row_sums add_sums(const row *r) {
    const float *x = r->x, *dy = r->dy, *weight = r->weight, mean = r->mean;
    float sum = 0.0f, dot = 0.0f;
#pragma omp simd reduction(+ : sum, dot)
    for (int64_t c = 0; c < r->width; c++) {
        const float g = dy[c] * weight[c];
        sum += g;
        dot += g * (x[c] - mean);
    }
    return (row_sums){sum, dot};
}

static void add_parameter_gradients(const row *r) {
    const float *x = r->x, *dy = r->dy, mean = r->mean, scale = r->scale;
    float *dweight = r->dweight, *dbias = r->dbias;
    if (dweight != NULL) {
#pragma omp simd
        for (int64_t c = 0; c < r->width; c++)
            dweight[c] += dy[c] * ((x[c] - mean) * scale);
    }
    if (dbias != NULL) {
#pragma omp simd
        for (int64_t c = 0; c < r->width; c++)
            dbias[c] += dy[c];
    }
}

/* Both in one pass, where all gradients are wanted. The same operations in the same order. */
static row_sums add_all(const row *r) {
    const float *x = r->x, *dy = r->dy, *weight = r->weight, mean = r->mean, scale = r->scale;
    float *dweight = r->dweight, *dbias = r->dbias, sum = 0.0f, dot = 0.0f;
#pragma omp simd reduction(+ : sum, dot)
    for (int64_t c = 0; c < r->width; c++) {
        const float g = dy[c] * weight[c], centered = x[c] - mean;
        sum += g;
        dot += g * centered;
        dweight[c] += dy[c] * (centered * scale);
        dbias[c] += dy[c];
    }
    return (row_sums){sum, dot};
}

/* dx = scale (g - mean of g - n(x) mean of (g n(x))). */
static void put_input_gradient(const row *r, row_sums sums) {
    const float *x = r->x, *dy = r->dy, *weight = r->weight;
    const float mean = r->mean, scale = r->scale, count = (float)r->width;
    const float mean_g = sums.g / count, slope = sums.dot / count * scale * scale;
    RP_LOOP(r->dx, r->sum, 0, r->width,
            scale * (dy[i] * weight[i] - mean_g - (x[i] - mean) * slope));
}

static void backward_row(const row *r) {
    if (r->dx != NULL && r->dweight != NULL && r->dbias != NULL) {
        put_input_gradient(r, add_all(r));
        return;
    }
    add_parameter_gradients(r);
    if (r->dx != NULL)
        put_input_gradient(r, add_sums(r));
}

static void backward_rows(const rp_launch *launch, int64_t top, int64_t bottom, float *dweight,
                          float *dbias) {
    const int64_t width = rp_row_length(launch->call.in[0].shape);
    const float *stats = launch->in[1], *sum = rp_accumulated(launch, 0);
    for (int64_t k = top; k < bottom; k++) {
        const row r = {
            .x = (const float *)launch->in[0] + k * width,
            .dy = (const float *)launch->in[3] + k * width,
            .weight = launch->in[2],
            .sum = sum != NULL ? sum + k * width : NULL,
            .mean = stats[2 * k],
            .scale = stats[2 * k + 1],
            .dx = launch->out[0] != NULL ? (float *)launch->out[0] + k * width : NULL,
            .dweight = dweight,
            .dbias = dbias,
            .width = width,
        };
        backward_row(&r);
    }
}

static float *clear_line(float *line, int64_t width) {
    for (int64_t c = 0; c < width; c++)
        line[c] = 0.0f;
    return line;
}

/* Workspace: [pieces, C] partial gradients of the weight, then of the bias, those that are wanted.
 */
rp_status RP_CPU(layernorm_backward)(const rp_launch *launch) {
    const rp_shape shape = launch->call.in[0].shape;
    const int64_t rows = rp_row_count(shape), width = rp_row_length(shape);
    const rp_cut cut = rp_cut_rows(rows);
    const bool of_weight = launch->out[1] != NULL, of_bias = launch->out[2] != NULL;
    float *dweight = launch->workspace, *dbias = launch->workspace; /* NULL without rows */
    RP_TRY(rp_require_f32(launch));
    if (width == 0)
        return RP_OK;
    if (of_weight && of_bias && rows > 0)
        dbias += cut.count * width;
    RP_PARALLEL_FOR(rp_cpu_threads(launch, rows * width), p, cut.count, {
        const int64_t top = p * cut.length;
        backward_rows(launch, top, top + cut.length < rows ? top + cut.length : rows,
                      of_weight ? clear_line(dweight + p * width, width) : NULL,
                      of_bias ? clear_line(dbias + p * width, width) : NULL);
    });
    if (of_weight)
        rp_add_pieces(launch, launch->out[1], rp_accumulated(launch, 1), dweight, cut.count, width);
    if (of_bias)
        rp_add_pieces(launch, launch->out[2], rp_accumulated(launch, 2), dbias, cut.count, width);
    return RP_OK;
}
