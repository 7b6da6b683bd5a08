/* transpose: [outer, A, middle, B, inner] -> [outer, B, middle, A, inner]. slice: [outer, D, inner]
 * -> [outer, length, inner], slice_backward the other way round, concat from several. Elements are
 * moved by their bytes: any dtype, but for slice_backward, which computes. */
#include "loops.h"
#include "tile.h"

/* Bytes that one thread moves at once. */
enum { PIECE = 64 * 1024 };

static int threads_for_bytes(const rp_launch *launch, int64_t bytes) {
    return rp_cpu_threads(launch, bytes / (int64_t)sizeof(float));
}

/* What moves keeps its type. */
static bool all_alike(const rp_launch *launch) {
    bool alike = true;
    for (size_t i = 0; i < launch->call.in_count; i++)
        alike = alike && launch->call.in[i].dtype == launch->call.out[0].dtype;
    return alike;
}

/* Copies `count` runs of `run` bytes, which lie `to_stride` and `from_stride` apart. */
typedef struct runs {
    uint8_t *to;
    const uint8_t *from;
    int64_t count, run, to_stride, from_stride;
} runs;

static void copy_runs(const rp_launch *launch, const runs *r) {
    const int64_t pieces = r->run / PIECE + (r->run % PIECE != 0);
    RP_PARALLEL_FOR(threads_for_bytes(launch, r->count * r->run), t, r->count * pieces, {
        const int64_t k = t / pieces, begin = t % pieces * PIECE, rest = r->run - begin;
        memcpy(r->to + k * r->to_stride + begin, r->from + k * r->from_stride + begin,
               (size_t)(rest < PIECE ? rest : PIECE));
    });
}

/* ---- transpose ------------------------------------------------------------------------------- */

typedef struct swap {
    int64_t outer, a, middle, b, inner; /* of the input; inner in elements */
    size_t size;                        /* of an element */
} swap;

static int64_t product(rp_shape shape, int begin, int end) {
    int64_t count = 1;
    for (int i = begin; i < end; i++)
        count *= shape.dims[i];
    return count;
}

static swap swap_of(const rp_launch *launch) {
    const rp_shape x = launch->call.in[0].shape;
    const int first = rp_axis(x, launch->call.params->transpose.first);
    const int second = rp_axis(x, launch->call.params->transpose.second);
    const int low = first < second ? first : second, high = first < second ? second : first;
    const size_t size = rp_dtype_bytes(launch->call.in[0].dtype);
    if (low == high)
        return (swap){1, 1, 1, 1, rp_shape_count(x), size};
    return (swap){product(x, 0, low),           x.dims[low],
                  product(x, low + 1, high),    x.dims[high],
                  product(x, high + 1, x.rank), size};
}

/* Blocks of [BLOCK, BLOCK] elements, turned in the first cache: memory is read and written in runs.
 * Rows of the output may lie a power of two apart, where single elements would push each other out.
 */
enum { BLOCK = 64 };

static void turn_4(const float *from, float *to, int64_t rows, int64_t columns, int64_t from_stride,
                   int64_t to_stride) {
    float turned[BLOCK][BLOCK];
    RP_CPU(tile_transpose)(turned[0], BLOCK, from, from_stride, rows, columns);
    for (int64_t c = 0; c < columns; c++)
        memcpy(to + c * to_stride, turned[c], (size_t)rows * sizeof *to);
}

static void turn_2(const uint16_t *from, uint16_t *to, int64_t rows, int64_t columns,
                   int64_t from_stride, int64_t to_stride) {
    uint16_t turned[BLOCK][BLOCK];
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++)
            turned[c][r] = from[r * from_stride + c];
    for (int64_t c = 0; c < columns; c++)
        memcpy(to + c * to_stride, turned[c], (size_t)rows * sizeof *to);
}

/* The t-th block of all matrices [A, B] of the tensor. */
static void transpose_task(const rp_launch *launch, const swap *s, int64_t t) {
    const int64_t down = (s->a + BLOCK - 1) / BLOCK, across = (s->b + BLOCK - 1) / BLOCK;
    const int64_t matrix = t / (down * across), block = t % (down * across);
    const int64_t top = block / across * BLOCK, left = block % across * BLOCK;
    const int64_t o = matrix / s->middle, m = matrix % s->middle;
    const int64_t rows = s->a - top < BLOCK ? s->a - top : BLOCK;
    const int64_t columns = s->b - left < BLOCK ? s->b - left : BLOCK;
    const int64_t from = (o * s->a + top) * s->middle * s->b + m * s->b + left;
    const int64_t to = (o * s->b + left) * s->middle * s->a + m * s->a + top;
    if (s->size == 4)
        turn_4((const float *)launch->in[0] + from, (float *)launch->out[0] + to, rows, columns,
               s->middle * s->b, s->middle * s->a);
    else
        turn_2((const uint16_t *)launch->in[0] + from, (uint16_t *)launch->out[0] + to, rows,
               columns, s->middle * s->b, s->middle * s->a);
}

static void transpose_elements(const rp_launch *launch, const swap *s, int64_t bytes) {
    const int64_t blocks = (s->a + BLOCK - 1) / BLOCK * ((s->b + BLOCK - 1) / BLOCK);
    RP_PARALLEL_FOR(threads_for_bytes(launch, bytes), t, s->outer * s->middle * blocks,
                    { transpose_task(launch, s, t); });
}

/* Where whole runs of `inner` elements move: row (o, b, m) of the output is `a` runs. */
static void transpose_runs(const rp_launch *launch, const swap *s, int64_t bytes) {
    const int64_t run = s->inner * (int64_t)s->size;
    RP_PARALLEL_FOR(threads_for_bytes(launch, bytes), t, s->outer * s->b * s->middle, {
        const int64_t m = t % s->middle, b = t / s->middle % s->b, o = t / s->middle / s->b;
        uint8_t *to = (uint8_t *)launch->out[0] + t * s->a * run;
        const uint8_t *from =
            (const uint8_t *)launch->in[0] + ((o * s->a * s->middle + m) * s->b + b) * run;
        for (int64_t a = 0; a < s->a; a++)
            memcpy(to + a * run, from + a * s->middle * s->b * run, (size_t)run);
    });
}

rp_status RP_CPU(transpose)(const rp_launch *launch) {
    const swap s = swap_of(launch);
    const int64_t bytes = rp_info_bytes(&launch->call.in[0]);
    if (!all_alike(launch))
        return RP_UNSUPPORTED;
    if (bytes == 0)
        return RP_OK;
    if (s.a == 1 && s.b == 1)
        copy_runs(launch, &(runs){launch->out[0], launch->in[0], 1, bytes, bytes, bytes});
    else if (s.inner == 1 && (s.size == 4 || s.size == 2))
        transpose_elements(launch, &s, bytes);
    else
        transpose_runs(launch, &s, bytes);
    return RP_OK;
}

/* ---- slice and concat ------------------------------------------------------------------------ */

/* A tensor as [outer, D, inner] around a dimension; inner in bytes. */
typedef struct around {
    int64_t outer, length, inner;
} around;

static around around_of(const rp_tensor_info *info, int dimension) {
    const int axis = rp_axis(info->shape, dimension);
    return (around){product(info->shape, 0, axis), info->shape.dims[axis],
                    product(info->shape, axis + 1, info->shape.rank) *
                        (int64_t)rp_dtype_bytes(info->dtype)};
}

rp_status RP_CPU(slice)(const rp_launch *launch) {
    const int64_t start = launch->call.params->slice.start;
    const around x = around_of(&launch->call.in[0], launch->call.params->slice.dimension);
    const around y = around_of(&launch->call.out[0], launch->call.params->slice.dimension);
    if (!all_alike(launch))
        return RP_UNSUPPORTED;
    if (rp_info_bytes(&launch->call.out[0]) == 0)
        return RP_OK;
    copy_runs(launch, &(runs){launch->out[0], (const uint8_t *)launch->in[0] + start * x.inner,
                              x.outer, y.length * y.inner, y.length * y.inner, x.length * x.inner});
    return RP_OK;
}

rp_status RP_CPU(concat)(const rp_launch *launch) {
    const int dimension = launch->call.params->concat.dimension;
    const around y = around_of(&launch->call.out[0], dimension);
    int64_t start = 0;
    if (!all_alike(launch))
        return RP_UNSUPPORTED;
    for (size_t i = 0; i < launch->call.in_count; i++) {
        const around x = around_of(&launch->call.in[i], dimension);
        if (rp_info_bytes(&launch->call.in[i]) > 0)
            copy_runs(launch,
                      &(runs){(uint8_t *)launch->out[0] + start * y.inner, launch->in[i], x.outer,
                              x.length * x.inner, y.length * y.inner, x.length * x.inner});
        start += x.length;
    }
    return RP_OK;
}

/* One row of dx [D inner]: dy where the slice is, 0 elsewhere, on what is accumulated. When that is
 * dx itself only the slice is touched. */
typedef struct slice_row {
    rp_source dy, sum;
    rp_target dx;
    int64_t row, begin, run; /* elements of a row, before the slice, in the slice */
} slice_row;

static void begin_outside(const slice_row *s, int64_t at, int64_t count) {
    const size_t bytes = (size_t)count * (s->dx.bf16 ? 2 : 4);
    if (count <= 0 || s->sum.at == s->dx.at)
        return;
    if (s->sum.at == NULL)
        memset(rp_target_from(s->dx, at).at, 0, bytes);
    else
        memcpy(rp_target_from(s->dx, at).at, rp_source_from(s->sum, at).at, bytes);
}

static void put_parts(const slice_row *s, int64_t from, int64_t to) {
    float dx[RP_CPU_PART], sum[RP_CPU_PART], buffer[RP_CPU_PART];
    for (int64_t begin = 0; begin < s->run; begin += RP_CPU_PART) {
        const int64_t left = s->run - begin, count = left < RP_CPU_PART ? left : RP_CPU_PART;
        const float *dy = rp_read(s->dy, from + begin, count, buffer);
        RP_LOOP(rp_write(s->dx, to + begin, dx), rp_read(s->sum, to + begin, count, sum), 0, count,
                dy[i]);
        rp_written(s->dx, to + begin, count, dx);
    }
}

static void put_floats(float *dx, const float *sum, int64_t at, const float *dy, int64_t count) {
    RP_LOOP(dx, sum != NULL ? sum + at : NULL, 0, count, dy[i]);
}

static void put_row(const slice_row *s, int64_t o) {
    const int64_t at = o * s->row, end = s->begin + s->run;
    begin_outside(s, at, s->begin);
    if (s->dy.bf16 || s->dx.bf16)
        put_parts(s, o * s->run, at + s->begin);
    else
        put_floats((float *)s->dx.at + at + s->begin, s->sum.at, at + s->begin,
                   (const float *)s->dy.at + o * s->run, s->run);
    begin_outside(s, at + end, s->row - end);
}

/* dy [outer, length, inner] -> dx [outer, D, inner]. */
rp_status RP_CPU(slice_backward)(const rp_launch *launch) {
    const int dimension = launch->call.params->slice.dimension;
    const rp_tensor_info *info = &launch->call.out[0];
    RP_TRY(rp_require_floating(launch));
    const around x = around_of(info, dimension);
    const int64_t inner = x.inner / (int64_t)rp_dtype_bytes(info->dtype);
    const slice_row s = {.dy = rp_launch_source(launch, 0),
                         .sum = rp_launch_sum(launch, 0),
                         .dx = rp_launch_target(launch, 0),
                         .row = x.length * inner,
                         .begin = launch->call.params->slice.start * inner,
                         .run = launch->call.params->slice.length * inner};
    RP_PARALLEL_FOR(rp_cpu_threads(launch, x.outer * s.row), o, x.outer, { put_row(&s, o); });
    return RP_OK;
}
