/* Rows that a block, or a part of one, holds in registers: read once, written once.
 *
 * blockDim.x threads, a power of two and whole warps, hold a row; blockDim.y rows lie in a block.
 * Thread t has groups of G neighbours, E elements in all: those from column (k blockDim.x + t) G
 * on, for k < E / G. G is the elements of 16 bytes where rows are whole vectors, else 1, by shape:
 * the order of sums does not depend on addresses. */
#ifndef REPRISE_OPS_CUDA_ROWS_H
#define REPRISE_OPS_CUDA_ROWS_H

#include "reduce.h"
#include "reduction_sizes.h"

enum { RP_CUDA_HELD_THREADS = 512 }; /* for a row, at most */

RP_CUDA_INLINE int rp_cuda_column(int k, int group) {
    return (k * (int)blockDim.x + (int)threadIdx.x) * group;
}

/* The thread's part of columns [0, width) of a row, `absent` beyond. A group that the end of
 * `width` cuts is whole in memory. */
template <int E, int G, typename T>
RP_CUDA_INLINE void rp_cuda_load_row(const T *row, int width, bool aligned, float absent,
                                     float *v) {
#pragma unroll
    for (int k = 0; k < E / G; k++) {
        const int c = rp_cuda_column(k, G);
        if (c < width) {
            rp_cuda_load_group<G>(row + c, aligned, v + k * G);
        } else {
#pragma unroll
            for (int j = 0; j < G; j++)
                v[k * G + j] = absent;
        }
    }
}

/* v += columns [0, width) of a row. */
template <int E, int G, typename T>
RP_CUDA_INLINE void rp_cuda_add_row(const T *row, int width, bool aligned, float *v) {
#pragma unroll
    for (int k = 0; k < E / G; k++) {
        const int c = rp_cuda_column(k, G);
        float w[G];
        if (c >= width)
            continue;
        rp_cuda_load_group<G>(row + c, aligned, w);
#pragma unroll
        for (int j = 0; j < G; j++)
            v[k * G + j] += w[j];
    }
}

template <int E, int G, typename T>
RP_CUDA_INLINE void rp_cuda_store_row(T *row, int width, bool aligned, const float *v) {
#pragma unroll
    for (int k = 0; k < E / G; k++) {
        const int c = rp_cuda_column(k, G);
        if (c < width)
            rp_cuda_store_group<G>(row + c, aligned, v + k * G);
    }
}

/* ---- The host's side ------------------------------------------------------------------------- */

/* `held`: elements of a row that one thread holds. Blocks have 128 threads or more. */
static inline dim3 rp_cuda_row_block(int64_t width, int held, int least) {
    const int threads = rp_cuda_row_threads(width, held);
    return dim3((unsigned)threads, (unsigned)(threads < least ? least / threads : 1));
}

static inline bool rp_cuda_row_fits(int64_t width, int held) {
    return width <= (int64_t)RP_CUDA_HELD_THREADS * held;
}

/* function<In, Out, G>(...) for the group of the rows' width. */
#define RP_CUDA_GROUPED(In, width, function, ...)                                                  \
    (width) % rp_cuda_pack<In>::COUNT == 0 ? function<rp_cuda_pack<In>::COUNT>(__VA_ARGS__)        \
                                           : function<1>(__VA_ARGS__)

#endif
