/* layernorm: x [rows, C], weight [C], bias [C] or absent -> y [rows, C], stats [rows, 2].
 * backward: x, stats, weight, dy -> dx [rows, C], dweight [C], dbias [C], each present or absent.
 * Kept: x and of each row its mean and 1 / sqrt(variance + eps); normalising again costs less than
 * reading a kept y. */
#include <math.h>

#include "pieces.h"
#include "rows.h"

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

static float sum_block(const float *x, int64_t count, float mean) {
    (void)mean;
    return row_sum(x, count);
}

/* Over the blocks of a row. */
static float over_blocks(rp_source x, int64_t width, int64_t block, float mean, float *buffer,
                         float (*sum)(const float *x, int64_t count, float mean)) {
    float total = 0.0f;
    for (int64_t c = 0; c < width; c += block) {
        const int64_t count = width - c < block ? width - c : block;
        total += sum(rp_read(x, c, count, buffer), count, mean);
    }
    return total;
}

typedef struct affine {
    const float *weight, *bias; /* bias may be NULL */
} affine;

static void normalize(const float *x, affine a, float *y, int64_t width, float mean, float scale) {
    const float *weight = a.weight, *bias = a.bias;
    if (bias != NULL) {
#pragma omp simd
        for (int64_t c = 0; c < width; c++)
            y[c] = (x[c] - mean) * scale * weight[c] + bias[c];
    } else {
#pragma omp simd
        for (int64_t c = 0; c < width; c++)
            y[c] = (x[c] - mean) * scale * weight[c];
    }
}

static void forward_row(rp_source x, affine a, rp_target y, float *stats, int64_t width,
                        int64_t block, float eps) {
    float buffer[RP_CPU_ROW];
    const float count = width > 0 ? (float)width : 1.0f;
    const float mean = over_blocks(x, width, block, 0.0f, buffer, sum_block) / count;
    const float variance = over_blocks(x, width, block, mean, buffer, row_squares) / count;
    const float scale = 1.0f / sqrtf(variance + eps);
    for (int64_t c = 0; c < width; c += block) {
        const int64_t length = width - c < block ? width - c : block;
        const affine from = {a.weight + c, a.bias != NULL ? a.bias + c : NULL};
        normalize(rp_read(x, c, length, buffer), from, rp_write(y, c, buffer), length, mean, scale);
        rp_written(y, c, length, buffer);
    }
    if (stats != NULL) {
        stats[0] = mean;
        stats[1] = scale;
    }
}

/* `count` floats further in a workspace, if there is one. */
static float *behind(float *at, int64_t count) {
    return at != NULL ? at + count : NULL;
}

/* Weight and bias are widened once, into the workspace. */
rp_status RP_CPU(layernorm)(const rp_launch *launch) {
    const rp_shape shape = launch->call.in[0].shape;
    const int64_t rows = rp_row_count(shape), width = rp_row_length(shape);
    const int64_t block = rp_row_block(launch, width);
    const rp_source x = rp_launch_source(launch, 0);
    const rp_target y = rp_launch_target(launch, 0);
    float *stats = launch->out[1], *wide = launch->workspace;
    RP_TRY(rp_require_floating(launch));
    const affine a = {rp_read(rp_launch_source(launch, 1), 0, width, wide),
                      rp_read(rp_launch_source(launch, 2), 0, width, behind(wide, width))};
    RP_PARALLEL_FOR(rp_cpu_threads(launch, rows * width), r, rows, {
        forward_row(rp_source_from(x, r * width), a, rp_target_from(y, r * width),
                    stats ? stats + 2 * r : NULL, width, block, launch->call.params->layernorm.eps);
    });
    return RP_OK;
}

/* One row, or a block of one; n(x) is the normalised x. Gradients of weight and bias are added to
 * lines that one thread owns, before dx, which may lie on x or dy, is written. */
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

/* dx = scale (g - mean of g - n(x) mean of (g n(x))); the means are over `width` elements. */
static void put_input_gradient(const row *r, row_sums sums, int64_t width) {
    const float *x = r->x, *dy = r->dy, *weight = r->weight;
    const float mean = r->mean, scale = r->scale, count = (float)width;
    const float mean_g = sums.g / count, slope = sums.dot / count * scale * scale;
    RP_LOOP(r->dx, r->sum, 0, r->width,
            scale * (dy[i] * weight[i] - mean_g - (x[i] - mean) * slope));
}

static row_sums add_gradients(const row *r, bool of_x) {
    if (of_x && r->dweight != NULL && r->dbias != NULL)
        return add_all(r);
    add_parameter_gradients(r);
    return of_x ? add_sums(r) : (row_sums){0.0f, 0.0f};
}

/* What the rows of a call have in common; one piece of them has lines of its own. */
typedef struct problem {
    rp_source x, dy, sum;
    rp_target dx;
    const float *stats, *weight;
    int64_t rows, width, block;
} problem;

typedef struct buffers {
    float x[RP_CPU_ROW], dy[RP_CPU_ROW], sum[RP_CPU_ROW], dx[RP_CPU_ROW];
} buffers;

/* Columns from c on of row k, without what is written. */
static row block_at(const problem *p, int64_t k, int64_t c, buffers *b) {
    const int64_t left = p->width - c, width = left < p->block ? left : p->block;
    const int64_t at = k * p->width + c;
    return (row){.x = rp_read(p->x, at, width, b->x),
                 .dy = rp_read(p->dy, at, width, b->dy),
                 .weight = p->weight != NULL ? p->weight + c : NULL,
                 .mean = p->stats[2 * k],
                 .scale = p->stats[2 * k + 1],
                 .width = width};
}

static void backward_row(const problem *p, int64_t k, float *dweight, float *dbias) {
    buffers b;
    row_sums sums = {0.0f, 0.0f};
    for (int64_t c = 0; c < p->width; c += p->block) {
        row r = block_at(p, k, c, &b);
        r.dweight = dweight != NULL ? dweight + c : NULL;
        r.dbias = dbias != NULL ? dbias + c : NULL;
        const row_sums more = add_gradients(&r, p->dx.at != NULL);
        sums = (row_sums){sums.g + more.g, sums.dot + more.dot};
    }
    for (int64_t c = 0; c < p->width && p->dx.at != NULL; c += p->block) {
        const int64_t at = k * p->width + c;
        row r = block_at(p, k, c, &b);
        r.sum = rp_read(p->sum, at, r.width, b.sum);
        r.dx = rp_write(p->dx, at, b.dx);
        put_input_gradient(&r, sums, p->width);
        rp_written(p->dx, at, r.width, b.dx);
    }
}

static float *clear_line(float *line, int64_t width) {
    for (int64_t c = 0; c < width; c++)
        line[c] = 0.0f;
    return line;
}

/* Workspace: [pieces, C] partial gradients of the weight, then of the bias, those that are wanted;
 * then the weight, widened. */
rp_status RP_CPU(layernorm_backward)(const rp_launch *launch) {
    const rp_shape shape = launch->call.in[0].shape;
    const int64_t rows = rp_row_count(shape), width = rp_row_length(shape);
    const rp_cut cut = rp_cut_rows(rows);
    const bool of_weight = launch->out[1] != NULL, of_bias = launch->out[2] != NULL;
    const int64_t lines = rows > 0 ? cut.count * width : 0;
    float *dweight = launch->workspace; /* NULL without rows */
    float *dbias = behind(dweight, of_weight ? lines : 0);
    float *wide = behind(dbias, of_bias ? lines : 0);
    RP_TRY(rp_require_floating(launch));
    const problem p = {.x = rp_launch_source(launch, 0),
                       .dy = rp_launch_source(launch, 3),
                       .sum = rp_launch_sum(launch, 0),
                       .dx = rp_launch_target(launch, 0),
                       .stats = launch->in[1],
                       .weight = rp_read(rp_launch_source(launch, 2), 0, width, wide),
                       .rows = rows,
                       .width = width,
                       .block = rp_row_block(launch, width)};
    if (width == 0)
        return RP_OK;
    RP_PARALLEL_FOR(rp_cpu_threads(launch, rows * width), piece, cut.count, {
        const int64_t top = piece * cut.length, end = top + cut.length;
        float *weights = of_weight ? clear_line(dweight + piece * width, width) : NULL;
        float *biases = of_bias ? clear_line(dbias + piece * width, width) : NULL;
        for (int64_t k = top; k < end && k < rows; k++)
            backward_row(&p, k, weights, biases);
    });
    if (of_weight)
        rp_add_pieces(launch, 1, dweight, cut.count, width);
    if (of_bias)
        rp_add_pieces(launch, 2, dbias, cut.count, width);
    return RP_OK;
}
