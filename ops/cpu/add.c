/* add, mul: a [rows, n], b [n] -> [rows, n], b repeated for each row; scale: x [n] -> [n].
 * Nothing is kept. */
#include "loops.h"

#define SAME_RANGE(name, operator)                                                                 \
    static void name##_range(const rp_launch *launch, int64_t begin, int64_t end) {                \
        const float *a = launch->in[0], *b = launch->in[1], *sum = rp_accumulated(launch, 0);      \
        float *y = launch->out[0];                                                                 \
        RP_LOOP(y, sum, begin, end, a[i] operator b[i]);                                           \
    }
SAME_RANGE(add, +)
SAME_RANGE(mul, *)

static void scale_range(const rp_launch *launch, int64_t begin, int64_t end) {
    const float *x = launch->in[0], *sum = rp_accumulated(launch, 0);
    const float factor = launch->call.params->scale.factor;
    float *y = launch->out[0];
    RP_LOOP(y, sum, begin, end, factor * x[i]);
}

/* Where b is repeated: rows [top, bottom) and of each the columns [begin, end). */
typedef struct tile {
    int64_t top, bottom, begin, end;
} tile;

typedef void (*tile_body)(const rp_launch *launch, tile t, int64_t n);

#define TILE_BODY(name, operator)                                                                  \
    static void name##_tile(const rp_launch *launch, tile t, int64_t n) {                          \
        const float *b = launch->in[1];                                                            \
        for (int64_t row = t.top; row < t.bottom; row++) {                                         \
            const float *a = (const float *)launch->in[0] + row * n;                               \
            const float *sum = rp_accumulated(launch, 0);                                          \
            float *y = (float *)launch->out[0] + row * n;                                          \
            if (sum != NULL)                                                                       \
                sum += row * n;                                                                    \
            RP_LOOP(y, sum, t.begin, t.end, a[i] operator b[i]);                                   \
        }                                                                                          \
    }
TILE_BODY(add, +)
TILE_BODY(mul, *)

/* The same where b is one number. */
#define SCALAR_RANGE(name, operator)                                                               \
    static void name##_scalar_range(const rp_launch *launch, int64_t begin, int64_t end) {         \
        const float *a = launch->in[0], *sum = rp_accumulated(launch, 0);                          \
        const float b = *(const float *)launch->in[1];                                             \
        float *y = launch->out[0];                                                                 \
        RP_LOOP(y, sum, begin, end, a[i] operator b);                                              \
    }
SCALAR_RANGE(add, +)
SCALAR_RANGE(mul, *)

/* Tiles of about a chunk. */
static void for_tiles(const rp_launch *launch, int64_t rows, int64_t n, tile_body body) {
    const int64_t width = n < RP_CPU_CHUNK ? n : RP_CPU_CHUNK, height = RP_CPU_CHUNK / width;
    const int64_t across = n / width + (n % width != 0);
    const int64_t down = rows / height + (rows % height != 0);
    RP_PARALLEL_FOR(rp_cpu_threads(launch, rows * n), k, across * down, {
        const int64_t top = k / across * height, begin = k % across * width;
        const tile t = {top, top + height < rows ? top + height : rows, begin,
                        begin + width < n ? begin + width : n};
        body(launch, t, n);
    });
}

/* An output that is hardly larger than b may take b's place (sizes are compared when they are
 * rounded up, so it has a few elements): the row that lies on b is then the last one written. */
static void for_rows_upwards(const rp_launch *launch, int64_t rows, int64_t n, tile_body body) {
    for (int64_t row = rows - 1; row >= 0; row--)
        body(launch, (tile){row, row + 1, 0, n}, n);
}

typedef struct suffix_bodies {
    rp_range_body same, scalar;
    tile_body repeated;
} suffix_bodies;

static rp_status run_suffix(const rp_launch *launch, suffix_bodies bodies) {
    const int64_t count = rp_info_count(&launch->call.in[0]);
    const int64_t n = rp_info_count(&launch->call.in[1]);
    RP_TRY(rp_require_f32(launch));
    if (count == n)
        rp_for_chunks(launch, count, bodies.same);
    else if (n == 1)
        rp_for_chunks(launch, count, bodies.scalar);
    else if (n > 0 && launch->out[0] == launch->in[1])
        for_rows_upwards(launch, count / n, n, bodies.repeated);
    else if (n > 0)
        for_tiles(launch, count / n, n, bodies.repeated);
    return RP_OK;
}

rp_status RP_CPU(add)(const rp_launch *launch) {
    return run_suffix(launch, (suffix_bodies){add_range, add_scalar_range, add_tile});
}

rp_status RP_CPU(mul)(const rp_launch *launch) {
    return run_suffix(launch, (suffix_bodies){mul_range, mul_scalar_range, mul_tile});
}

rp_status RP_CPU(scale)(const rp_launch *launch) {
    RP_TRY(rp_require_f32(launch));
    rp_for_chunks(launch, rp_info_count(&launch->call.out[0]), scale_range);
    return RP_OK;
}
