/* layernorm: x [rows, C], weight [C], bias [C] or absent -> y [rows, C], stats [rows, 2].
 * backward: x, stats, weight, dy -> dx [rows, C], dweight [C], dbias [C], each present or absent.
 * Kept: x and of each row its mean and 1 / sqrt(variance + eps); normalising again costs less than
 * reading a kept y. */
#include <math.h>

#include "pieces.h"

/* Floats of a cache line. */
enum { LINE = 16 };

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

/* y = n(x) weight + bias. Asks for the `next` row line by line, if there is one: rows are read from
 * memory in the first of three passes only, and memory would wait during the others. */
static void put_row(const float *x, const float *weight, const float *bias, float *y, int64_t width,
                    float mean, float scale, const float *next) {
    int64_t c = 0;
    for (; c + LINE <= width; c += LINE) {
        if (next != NULL)
            __builtin_prefetch(next + c);
        if (bias != NULL) {
#pragma omp simd
            for (int64_t i = c; i < c + LINE; i++)
                y[i] = (x[i] - mean) * scale * weight[i] + bias[i];
        } else {
#pragma omp simd
            for (int64_t i = c; i < c + LINE; i++)
                y[i] = (x[i] - mean) * scale * weight[i];
        }
    }
    for (; c < width; c++)
        y[c] = (x[c] - mean) * scale * weight[c] + (bias != NULL ? bias[c] : 0.0f);
}

static void forward_row(const float *x, const float *weight, const float *bias, float *y,
                        float *stats, int64_t width, float eps, const float *next) {
    const float count = width > 0 ? (float)width : 1.0f;
    const float mean = row_sum(x, width) / count;
    const float scale = 1.0f / sqrtf(row_squares(x, width, mean) / count + eps);
    put_row(x, weight, bias, y, width, mean, scale, next);
    if (stats != NULL) {
        stats[0] = mean;
        stats[1] = scale;
    }
}

/* `count` floats further in a workspace, if there is one. */
static float *behind(float *at, int64_t count) {
    return at != NULL ? at + count : NULL;
}

typedef struct affine {
    const float *weight, *bias; /* bias may be NULL */
    int64_t followed;           /* the first so many rows lie before another one of floats */
} affine;

static void forward_span(const rp_span *span, const void *job, int64_t k, int64_t piece) {
    const affine *a = job;
    float *stats = span->launch->out[1];
    (void)piece;
    const float *next = k < a->followed ? span->in[0] + span->count : NULL;
    forward_row(span->in[0], a->weight, a->bias, span->out[0], stats != NULL ? stats + 2 * k : NULL,
                span->count, span->launch->call.params->layernorm.eps, next);
}

/* Workspace: weight and bias, where they are widened, then the buffers of rows. */
rp_status RP_CPU(layernorm)(const rp_launch *launch) {
    const rp_shape shape = launch->call.in[0].shape;
    const int64_t rows = rp_row_count(shape), width = rp_row_length(shape);
    const rp_source weight = rp_launch_source(launch, 1), bias = rp_launch_source(launch, 2);
    float *bias_at = behind(launch->workspace, weight.bf16 ? width : 0);
    const affine a = {rp_read(weight, 0, width, launch->workspace),
                      rp_read(bias, 0, width, bias_at),
                      launch->call.in[0].dtype == RP_F32 ? rows - 1 : 0};
    if (width == 0)
        return RP_OK;
    return RP_CPU(for_rows)(launch, &(rp_rows){.rows = rows,
                                               .width = width,
                                               .in = 1,
                                               .cut = rp_rows_cut(launch, rows),
                                               .buffers = behind(bias_at, bias.bf16 ? width : 0),
                                               .body = forward_span,
                                               .job = &a});
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

/* The lines of all pieces; NULL where they are not wanted. */
typedef struct lines {
    const float *weight;
    float *dweight, *dbias;
} lines;

static void backward_span(const rp_span *span, const void *job, int64_t k, int64_t piece) {
    const lines *l = job;
    const int64_t width = span->count;
    const float *stats = span->launch->in[1];
    const row r = {
        .x = span->in[0],
        .dy = span->in[3],
        .weight = l->weight,
        .sum = span->sum,
        .mean = stats[2 * k],
        .scale = stats[2 * k + 1],
        .dx = span->out[0],
        .dweight = l->dweight != NULL ? l->dweight + piece * width : NULL,
        .dbias = l->dbias != NULL ? l->dbias + piece * width : NULL,
        .width = width,
    };
    backward_row(&r);
}

/* Workspace: [pieces, C] partial gradients of the weight, then of the bias, those that are wanted;
 * then the weight, where it is widened, and the buffers of rows. */
rp_status RP_CPU(layernorm_backward)(const rp_launch *launch) {
    const rp_shape shape = launch->call.in[0].shape;
    const int64_t rows = rp_row_count(shape), width = rp_row_length(shape);
    const rp_cut cut = rp_cut_rows(rows);
    const bool of_weight = launch->out[1] != NULL, of_bias = launch->out[2] != NULL;
    const rp_source weight = rp_launch_source(launch, 2);
    float *dweight = launch->workspace; /* NULL without rows */
    float *dbias = behind(dweight, of_weight ? cut.count * width : 0);
    float *wide = behind(dbias, of_bias ? cut.count * width : 0);
    const lines l = {rp_read(weight, 0, width, wide), of_weight ? dweight : NULL,
                     of_bias ? dbias : NULL};
    if (width == 0)
        return RP_OK;
    if (cut.count > 0 && (of_weight || of_bias))
        memset(dweight, 0, (size_t)((of_weight + of_bias) * cut.count * width) * sizeof *dweight);
    RP_TRY(RP_CPU(for_rows)(launch, &(rp_rows){.rows = rows,
                                               .width = width,
                                               .in = 1 | 8,
                                               .cut = cut,
                                               .buffers = behind(wide, weight.bf16 ? width : 0),
                                               .body = backward_span,
                                               .job = &l}));
    if (of_weight)
        rp_add_pieces(launch, 1, dweight, cut.count, width);
    if (of_bias)
        rp_add_pieces(launch, 2, dbias, cut.count, width);
    return RP_OK;
}
