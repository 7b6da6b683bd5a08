/* add, mul: a [rows, n], b [n] -> [rows, n], b repeated for each row; scale: x [n] -> [n].
 * Nothing is kept. */
#include "loops.h"

#define SAME_SPAN(name, operator)                                                                  \
    static void name##_span(const rp_span *span) {                                                 \
        const float *a = span->in[0], *b = span->in[1];                                            \
        RP_LOOP(span->out[0], span->sum, 0, span->count, a[i] operator b[i]);                      \
    }
SAME_SPAN(add, +)
SAME_SPAN(mul, *)

static void scale_span(const rp_span *span) {
    const float factor = span->launch->call.params->scale.factor, *x = span->in[0];
    RP_LOOP(span->out[0], span->sum, 0, span->count, factor * x[i]);
}

/* The same where b is one number. */
#define SCALAR_SPAN(name, operator)                                                                \
    static void name##_scalar_span(const rp_span *span) {                                          \
        const float b = rp_element(rp_launch_source(span->launch, 1), 0), *a = span->in[0];        \
        RP_LOOP(span->out[0], span->sum, 0, span->count, a[i] operator b);                         \
    }
SCALAR_SPAN(add, +)
SCALAR_SPAN(mul, *)

/* Where b is repeated: `rows` rows, n apart, and of each `width` columns. */
typedef struct tile {
    int64_t rows, width, n;
    const float *a, *b, *sum;
    float *y;
} tile;

typedef void (*tile_body)(const tile *t);

#define TILE_BODY(name, operator)                                                                  \
    static void name##_tile(const tile *t) {                                                       \
        const float *b = t->b;                                                                     \
        for (int64_t row = 0; row < t->rows; row++) {                                              \
            const float *a = t->a + row * t->n;                                                    \
            const float *sum = t->sum != NULL ? t->sum + row * t->n : NULL;                        \
            RP_LOOP(t->y + row * t->n, sum, 0, t->width, a[i] operator b[i]);                      \
        }                                                                                          \
    }
TILE_BODY(add, +)
TILE_BODY(mul, *)

typedef struct suffix {
    rp_source a, b, sum;
    rp_target y;
    int64_t rows, n;
    tile_body body;
} suffix;

/* Whole rows, or a part of one: either way a run of memory. */
static void run_tile(const suffix *s, int64_t top, int64_t rows, int64_t column, int64_t width) {
    float a[RP_CPU_PART], b[RP_CPU_PART], sum[RP_CPU_PART], y[RP_CPU_PART];
    const int64_t at = top * s->n + column, count = rows * width;
    const tile t = {.rows = rows,
                    .width = width,
                    .n = s->n,
                    .a = rp_read(s->a, at, count, a),
                    .b = rp_read(s->b, column, width, b),
                    .sum = rp_read(s->sum, at, count, sum),
                    .y = rp_write(s->y, at, y)};
    s->body(&t);
    rp_written(s->y, at, count, y);
}

/* Tiles of about a chunk; of what is converted at once where something is bf16. */
static void for_tiles(const rp_launch *launch, const suffix *s) {
    const int64_t most = rp_call_has_bf16(&launch->call) ? RP_CPU_PART : RP_CPU_CHUNK;
    const int64_t width = s->n < most ? s->n : most, height = most / width;
    const int64_t across = s->n / width + (s->n % width != 0);
    const int64_t down = s->rows / height + (s->rows % height != 0);
    RP_PARALLEL_FOR(rp_cpu_threads(launch, s->rows * s->n), k, across * down, {
        const int64_t top = k / across * height, column = k % across * width;
        const int64_t left = s->rows - top, right = s->n - column;
        run_tile(s, top, left < height ? left : height, column, right < width ? right : width);
    });
}

/* An output that is hardly larger than b may take b's place (sizes are compared when they are
 * rounded up, so it has a few elements): the row that lies on b is then the last one written. */
static void for_rows_upwards(const suffix *s) {
    for (int64_t row = s->rows - 1; row >= 0; row--)
        run_tile(s, row, 1, 0, s->n);
}

typedef struct suffix_bodies {
    rp_span_body same, scalar;
    tile_body repeated;
} suffix_bodies;

static rp_status run_suffix(const rp_launch *launch, suffix_bodies bodies) {
    const int64_t count = rp_info_count(&launch->call.in[0]);
    const int64_t n = rp_info_count(&launch->call.in[1]);
    RP_TRY(rp_require_floating(launch));
    if (count == n || n == 1)
        return RP_CPU(for_spans)(launch, count == n ? bodies.same : bodies.scalar);
    if (n == 0)
        return RP_OK;
    const suffix s = {.a = rp_launch_source(launch, 0),
                      .b = rp_launch_source(launch, 1),
                      .sum = rp_launch_sum(launch, 0),
                      .y = rp_launch_target(launch, 0),
                      .rows = count / n,
                      .n = n,
                      .body = bodies.repeated};
    if (launch->out[0] == launch->in[1])
        for_rows_upwards(&s);
    else
        for_tiles(launch, &s);
    return RP_OK;
}

rp_status RP_CPU(add)(const rp_launch *launch) {
    return run_suffix(launch, (suffix_bodies){add_span, add_scalar_span, add_tile});
}

rp_status RP_CPU(mul)(const rp_launch *launch) {
    return run_suffix(launch, (suffix_bodies){mul_span, mul_scalar_span, mul_tile});
}

rp_status RP_CPU(scale)(const rp_launch *launch) {
    return RP_CPU(for_spans)(launch, scale_span);
}
