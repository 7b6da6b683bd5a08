/* Sums over rows: column by column, in pieces of rows that are added in their order. */
#ifndef REPRISE_OPS_CPU_PIECES_H
#define REPRISE_OPS_CPU_PIECES_H

#include "loops.h"

/* Columns that one thread takes at once: a line of sums that stays in the first cache. */
#define RP_CPU_TILE 1024

static inline int64_t rp_tile_count(int64_t columns) {
    return columns / RP_CPU_TILE + (columns % RP_CPU_TILE != 0);
}

/* line[i] += the sum over `rows` rows of x, which are `stride` apart. One at a time: memory is read
 * in one stream (four rows side by side measured 0.7 times as fast). */
static inline void rp_add_rows(float *line, const float *x, int64_t rows, int64_t stride,
                               int64_t width) {
    for (int64_t r = 0; r < rows; r++) {
        const float *row = x + r * stride;
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            line[i] += row[i];
    }
}

/* out[i] = (sum[i] +) line[i]; `sum` may be `out` or NULL. */
static inline void rp_put_line(float *out, const float *sum, const float *line, int64_t width) {
    RP_LOOP(out, sum, 0, width, line[i]);
}

/* out [columns] = (sum +) the sum of the pieces [count, columns]; NULL if there are none. Pieces
 * are few: only many columns are worth a second thread. */
static inline void rp_add_pieces(const rp_launch *launch, float *out, const float *sum,
                                 const float *pieces, int64_t count, int64_t columns) {
    const int64_t tiles = rp_tile_count(columns);
    RP_PARALLEL_FOR(rp_cpu_threads(launch, columns), t, tiles, {
        const int64_t begin = t * RP_CPU_TILE, rest = columns - begin;
        const int64_t width = rest < RP_CPU_TILE ? rest : RP_CPU_TILE;
        float line[RP_CPU_TILE] = {0};
        if (count > 0)
            rp_add_rows(line, pieces + begin, count, columns, width);
        rp_put_line(out + begin, sum != NULL ? sum + begin : NULL, line, width);
    });
}

#endif
