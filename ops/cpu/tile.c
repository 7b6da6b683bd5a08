/* Small products of matrices. */
#include "tile.h"

#include <string.h>

typedef float lanes __attribute__((vector_size(RP_LANES * sizeof(float))));
/* The same anywhere in memory. */
typedef float lanes_at
    __attribute__((vector_size(RP_LANES * sizeof(float)), aligned(sizeof(float)), may_alias));

/* Loops over registers must vanish: an array of vectors lives in registers only if every index is a
 * constant. */
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Vectors beside each other, and rows below each other for each number of vectors: what the
 * registers hold, enough sums in flight to hide the latency of an addition. */
#if defined(__AVX512F__) || defined(__aarch64__)
enum { VECTORS = 4, ROWS_1 = 8, ROWS_2 = 8, ROWS_3 = 4, ROWS_4 = 4 };
#else
enum { VECTORS = 2, ROWS_1 = 8, ROWS_2 = 6, ROWS_3 = 1, ROWS_4 = 1 };
#endif
enum { MAX_ROWS = 8, MAX_VECTORS = 4 };

/* Rows [row, row + rows) and `vectors` vectors from `column` on. `rows`, `vectors` and `by_row` are
 * constants where this is called. by_row: a_depth is 1, else a_row is. */
static inline __attribute__((always_inline)) void micro(const rp_tile *t, int64_t row,
                                                        int64_t column, const int rows,
                                                        const int vectors, const bool by_row) {
    const int64_t row_step = by_row ? t->a_row : 1, depth_step = by_row ? 1 : t->a_depth;
    const float *a = t->a + row * row_step, *b = t->b + column;
    float *c = t->c + row * t->c_stride + column;
    lanes sum[MAX_ROWS][MAX_VECTORS], bv[MAX_VECTORS];
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int n = 0; n < vectors; n++) {
            sum[r][n] = (lanes){0};
            if (t->add)
                sum[r][n] = *(const lanes_at *)(c + r * t->c_stride + n * RP_LANES);
            if (t->add && t->scale != NULL)
                sum[r][n] *= *(const lanes_at *)(t->scale + column + n * RP_LANES);
        }
    }
    for (int64_t k = 0; k < t->depth; k++) {
        UNROLL for (int n = 0; n < vectors; n++) bv[n] = *(const lanes_at *)(b + n * RP_LANES);
        UNROLL for (int r = 0; r < rows; r++) {
            const float x = a[r * row_step];
            UNROLL for (int n = 0; n < vectors; n++) sum[r][n] += x * bv[n];
        }
        a += depth_step;
        b += t->b_stride;
    }
    UNROLL for (int r = 0; r < rows; r++) {
        UNROLL for (int n = 0; n < vectors; n++) *
            (lanes_at *)(c + r * t->c_stride + n * RP_LANES) = sum[r][n];
    }
}

/* All rows of one column of tiles. */
#define STRIPE(name, height, vectors, by_row)                                                      \
    static void name(const rp_tile *t, int64_t column) {                                           \
        int64_t r = 0;                                                                             \
        for (; r + (height) <= t->rows; r += (height))                                             \
            micro(t, r, column, height, vectors, by_row);                                          \
        for (; r < t->rows; r++)                                                                   \
            micro(t, r, column, 1, vectors, by_row);                                               \
    }

STRIPE(by_row_1, ROWS_1, 1, true)
STRIPE(by_row_2, ROWS_2, 2, true)
STRIPE(by_column_1, ROWS_1, 1, false)
STRIPE(by_column_2, ROWS_2, 2, false)
#if defined(__AVX512F__) || defined(__aarch64__)
STRIPE(by_row_3, ROWS_3, 3, true)
STRIPE(by_row_4, ROWS_4, 4, true)
STRIPE(by_column_3, ROWS_3, 3, false)
STRIPE(by_column_4, ROWS_4, 4, false)
static void (*const stripes[2][VECTORS])(const rp_tile *, int64_t) = {
    {by_column_1, by_column_2, by_column_3, by_column_4}, {by_row_1, by_row_2, by_row_3, by_row_4}};
#else
static void (*const stripes[2][VECTORS])(const rp_tile *, int64_t) = {{by_column_1, by_column_2},
                                                                      {by_row_1, by_row_2}};
#endif

/* The last columns, fewer than a vector: through copies that are filled up with zeros. */
static void edge(const rp_tile *t, int64_t column) {
    enum { DEPTH = 64 };
    float b[DEPTH * RP_LANES], c[MAX_ROWS * RP_LANES] = {0};
    const size_t bytes = (size_t)(t->columns - column) * sizeof(float);
    for (int64_t k = 0; k < t->depth || k == 0; k += DEPTH) {
        rp_tile part = {.columns = RP_LANES,
                        .a_row = t->a_row,
                        .a_depth = t->a_depth,
                        .b = b,
                        .b_stride = RP_LANES,
                        .c = c,
                        .c_stride = RP_LANES,
                        .add = true};
        part.depth = t->depth - k < DEPTH ? t->depth - k : DEPTH;
        memset(b, 0, sizeof b);
        for (int64_t i = 0; i < part.depth; i++)
            memcpy(b + i * RP_LANES, t->b + (k + i) * t->b_stride + column, bytes);
        for (int64_t r = 0; r < t->rows; r += MAX_ROWS) {
            part.rows = t->rows - r < MAX_ROWS ? t->rows - r : MAX_ROWS;
            part.a = t->a + r * t->a_row + k * t->a_depth;
            part.add = t->add || k > 0;
            for (int64_t i = 0; i < part.rows && part.add; i++)
                memcpy(c + i * RP_LANES, t->c + (r + i) * t->c_stride + column, bytes);
            stripes[t->a_depth == 1][0](&part, 0);
            for (int64_t i = 0; i < part.rows; i++)
                memcpy(t->c + (r + i) * t->c_stride + column, c + i * RP_LANES, bytes);
        }
    }
}

void RP_CPU(tile_product)(const rp_tile *t) {
    int64_t column = 0;
    while (t->columns - column >= RP_LANES) {
        const int64_t left = (t->columns - column) / RP_LANES;
        const int64_t vectors = left < VECTORS ? left : VECTORS;
        stripes[t->a_depth == 1][vectors - 1](t, column);
        column += vectors * RP_LANES;
    }
    if (column < t->columns)
        edge(t, column);
}

typedef float four __attribute__((vector_size(4 * sizeof(float))));
typedef float four_at
    __attribute__((vector_size(4 * sizeof(float)), aligned(sizeof(float)), may_alias));

static inline void transpose_4x4(float *to, int64_t to_stride, const float *from,
                                 int64_t from_stride) {
    const four a = *(const four_at *)from, b = *(const four_at *)(from + from_stride);
    const four c = *(const four_at *)(from + 2 * from_stride);
    const four d = *(const four_at *)(from + 3 * from_stride);
    const four ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const four ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const four cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const four cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    *(four_at *)to = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
    *(four_at *)(to + to_stride) = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
    *(four_at *)(to + 2 * to_stride) = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
    *(four_at *)(to + 3 * to_stride) = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
}

void RP_CPU(tile_transpose)(float *to, int64_t to_stride, const float *from, int64_t from_stride,
                            int64_t rows, int64_t columns) {
    const int64_t whole_rows = rows / 4 * 4, whole_columns = columns / 4 * 4;
    for (int64_t r = 0; r < whole_rows; r += 4)
        for (int64_t c = 0; c < whole_columns; c += 4)
            transpose_4x4(to + c * to_stride + r, to_stride, from + r * from_stride + c,
                          from_stride);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; c++)
            to[c * to_stride + r] = from[r * from_stride + c];
}
