/* Sums over rows: column by column, in pieces of rows that are added in their order. */
#ifndef REPRISE_OPS_CPU_PIECES_H
#define REPRISE_OPS_CPU_PIECES_H

#include "loops.h"

/* Columns that one thread takes at once: a line of sums that stays in the first cache. */
#define RP_CPU_TILE RP_CPU_PART

static inline int64_t rp_tile_count(int64_t columns) {
    return columns / RP_CPU_TILE + (columns % RP_CPU_TILE != 0);
}

/* line[i] += the sum over `rows` rows of x, which begin at element `at` and lie `stride` apart;
 * `width` is at most RP_CPU_TILE. One at a time: memory is read in one stream (four rows side by
 * side measured 0.7 times as fast). */
static inline void rp_add_rows(float *line, rp_source x, int64_t at, int64_t rows, int64_t stride,
                               int64_t width) {
    float buffer[RP_CPU_TILE];
    for (int64_t r = 0; r < rows; r++) {
        const float *row = rp_read(x, at + r * stride, width, buffer);
#pragma omp simd
        for (int64_t i = 0; i < width; i++)
            line[i] += row[i];
    }
}

/* out[at + i] = (sum[at + i] +) line[i]; `sum` may be `out`, or absent. */
static inline void rp_put_line(rp_target out, int64_t at, rp_source sum, const float *line,
                               int64_t width) {
    float rounded[RP_CPU_TILE], added[RP_CPU_TILE];
    RP_LOOP(rp_write(out, at, rounded), rp_read(sum, at, width, added), 0, width, line[i]);
    rp_written(out, at, width, rounded);
}

/* Output k [columns] = (what is added to it +) the sum of the pieces [count, columns], NULL if
 * there are none. Pieces are few: only many columns are worth a second thread. */
static inline void rp_add_pieces(const rp_launch *launch, size_t k, const float *pieces,
                                 int64_t count, int64_t columns) {
    const rp_target out = rp_launch_target(launch, k);
    const rp_source sum = rp_launch_sum(launch, k);
    const int64_t tiles = rp_tile_count(columns);
    RP_PARALLEL_FOR(rp_cpu_threads(launch, columns), t, tiles, {
        const int64_t begin = t * RP_CPU_TILE, rest = columns - begin;
        const int64_t width = rest < RP_CPU_TILE ? rest : RP_CPU_TILE;
        float line[RP_CPU_TILE] = {0};
        if (count > 0)
            rp_add_rows(line, (rp_source){pieces, false}, begin, count, columns, width);
        rp_put_line(out, begin, sum, line, width);
    });
}

#endif
