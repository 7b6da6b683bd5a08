/* Sums over rows: column by column, in pieces of rows that are added in their order. */
#ifndef REPRISE_OPS_CPU_PIECES_H
#define REPRISE_OPS_CPU_PIECES_H

#include "loops.h"

/* Columns that one thread takes at once: a line of sums that stays in the first cache. */
#define RP_CPU_TILE 512

static inline int64_t rp_tile_count(int64_t columns) {
    return columns / RP_CPU_TILE + (columns % RP_CPU_TILE != 0);
}

/* line[i] += the sum over `rows` rows of x, which are `stride` apart; four at a time. */
static inline void rp_add_rows(float *line, const float *x, int64_t rows, int64_t stride,
                               int64_t width) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const float *x0 = x + r * stride, *x1 = x0 + stride, *x2 = x1 + stride, *x3 = x2 + stride;
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            line[i] += (x0[i] + x1[i]) + (x2[i] + x3[i]);
    }
    for (; r < rows; r++) {
        const float *x0 = x + r * stride;
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            line[i] += x0[i];
    }
}

/* out[i] = (sum[i] +) line[i]; `sum` may be `out` or NULL. */
static inline void rp_put_line(float *out, const float *sum, const float *line, int64_t width) {
    RP_LOOP(out, sum, 0, width, line[i]);
}

/* out [columns] = (sum +) the sum of the pieces [count, columns]. */
static inline void rp_add_pieces(const rp_launch *launch, float *out, const float *sum,
                                 const float *pieces, int64_t count, int64_t columns) {
    const int64_t tiles = rp_tile_count(columns);
#pragma omp parallel for schedule(static) num_threads(rp_cpu_threads(launch, count *columns))
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t begin = t * RP_CPU_TILE, rest = columns - begin;
        const int64_t width = rest < RP_CPU_TILE ? rest : RP_CPU_TILE;
        float line[RP_CPU_TILE] = {0};
        rp_add_rows(line, pieces + begin, count, columns, width);
        rp_put_line(out + begin, sum != NULL ? sum + begin : NULL, line, width);
    }
}

#endif
