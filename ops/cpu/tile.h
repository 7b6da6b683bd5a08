/* Small products of matrices with vectors held in registers: the inner loops of attention.
 *
 * A tile has one dimension in the lanes of vectors (columns) and one that is repeated (rows). The
 * left operand is read one scalar at a time, in place and in any orientation: nothing is packed. */
#ifndef REPRISE_OPS_CPU_TILE_H
#define REPRISE_OPS_CPU_TILE_H

#include "kernel.h"

/* Floats in a vector of the instruction set being compiled. */
#if defined(__AVX512F__)
#define RP_LANES 16
#elif defined(__AVX__)
#define RP_LANES 8
#else
#define RP_LANES 4
#endif

/* c [rows, columns] = what it begins with + a b.  a(r, k) = a[r a_row + k a_depth], one of the two
 * steps is 1; b [depth, columns], c [rows, columns] with the strides given. */
typedef struct rp_tile {
    int64_t rows, columns, depth;
    const float *a;
    int64_t a_row, a_depth;
    const float *b;
    int64_t b_stride;
    float *c;
    int64_t c_stride;
    bool add;           /* begins with c, else with 0 */
    const float *scale; /* with add: begins with c times this factor of the column, or NULL. Then
                           columns must be a multiple of RP_LANES */
} rp_tile;

void RP_CPU(tile_product)(const rp_tile *tile);

/* to[c to_stride + r] = from[r from_stride + c] for r < rows, c < columns */
void RP_CPU(tile_transpose)(float *to, int64_t to_stride, const float *from, int64_t from_stride,
                            int64_t rows, int64_t columns);

#endif
