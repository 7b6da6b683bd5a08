/* Sums over rows: columns by threads, in pieces of rows that are added in their order. */
#ifndef REPRISE_OPS_CUDA_ROW_SUMS_H
#define REPRISE_OPS_CUDA_ROW_SUMS_H

#include "reduce.h"
#include "reduction_sizes.h"

enum { RP_CUDA_ROW_LANES = 32, RP_CUDA_ROW_WARPS = 8, RP_CUDA_ROW_THREADS = 256 };

/* The body gives G columns of row r at once, get<G>(r, c, v) -> out [pieces, columns]. A warp takes
 * G columns a lane and every eighth row of the piece; then the warps' sums are added in order. */
template <int G, typename Out, typename Body>
static __global__ void __launch_bounds__(RP_CUDA_ROW_THREADS)
    rp_cuda_row_pieces(Body body, const Out *added, Out *out, int64_t rows, int64_t columns,
                       int64_t length, int64_t across) {
    constexpr int lanes = RP_CUDA_ROW_LANES, warps = RP_CUDA_ROW_WARPS;
    __shared__ float part[warps][lanes * G];
    const int lane = (int)threadIdx.x % lanes, warp = (int)threadIdx.x / lanes;
    const int64_t piece = blockIdx.x / across, left = blockIdx.x % across * (lanes * G);
    const int64_t begin = piece * length, end = begin + length < rows ? begin + length : rows;
    const int64_t column = left + lane * G;
    float sum[G];
#pragma unroll
    for (int j = 0; j < G; j++)
        sum[j] = 0.0f;
    if (column < columns) {
#pragma unroll 4
        for (int64_t r = begin + warp; r < end; r += warps) {
            float v[G];
            body.template get<G>(r, column, v);
#pragma unroll
            for (int j = 0; j < G; j++)
                sum[j] += v[j];
        }
    }
#pragma unroll
    for (int j = 0; j < G; j++)
        part[warp][lane * G + j] = sum[j];
    __syncthreads();
    const int mine = (int)threadIdx.x;
    if (mine >= lanes * G || left + mine >= columns)
        return;
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < warps; w++)
        total += part[w][mine];
    const int64_t to = piece * columns + left + mine;
    rp_cuda_put(out + to, added != nullptr ? rp_cuda_widen(added[to]) + total : total);
}

/* sums [pieces, columns] -> out [columns]: a lane a column, a warp every 32nd piece. */
template <typename Out>
static __global__ void __launch_bounds__(1024)
    rp_cuda_add_pieces(const float *__restrict__ sums, const Out *added, Out *out, int64_t pieces,
                       int64_t columns) {
    __shared__ float part[32][33];
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int64_t column = (int64_t)blockIdx.x * 32 + lane, mine = (int64_t)blockIdx.x * 32 + warp;
    float sum = 0.0f;
    if (column < columns) {
#pragma unroll 8
        for (int64_t p = warp; p < pieces; p += 32)
            sum += sums[p * columns + column];
    }
    part[lane][warp] = sum;
    __syncthreads();
    sum = rp_cuda_reduce_warp(part[warp][lane], rp_cuda_sum());
    if (lane == 0 && mine < columns)
        rp_cuda_put(out + mine, added != nullptr ? rp_cuda_widen(added[mine]) + sum : sum);
}

/* Output k, [columns], as (what is added +) the sum of the pieces. */
template <typename Out>
static inline rp_status rp_cuda_run_add_pieces(const rp_launch *launch, size_t k, const float *sums,
                                               int64_t pieces, int64_t columns) {
    RP_CUDA_LAUNCH((rp_cuda_add_pieces<Out>), (unsigned)rp_cuda_divide_up(columns, 32), 1024, 0,
                   launch->queue->stream, sums, static_cast<const Out *>(rp_cuda_added(launch, k)),
                   static_cast<Out *>(launch->out[k]), pieces, columns);
    return rp_cuda_launched(launch);
}

typedef struct rp_cuda_row_sums {
    rp_dtype dtype; /* of what is summed: by it the columns are grouped */
    int64_t rows, columns;
    float *scratch; /* rp_cuda_cut_rows pieces, if there are several */
} rp_cuda_row_sums;

template <int G, typename Out, typename Body>
static inline void rp_cuda_launch_row_pieces(const rp_launch *launch, const rp_cuda_row_sums &s,
                                             const Body &body, const Out *added, Out *out) {
    const rp_cut cut = rp_cuda_cut_rows(s.dtype, s.rows, s.columns);
    const int64_t across = rp_cuda_divide_up(s.columns, RP_CUDA_ROW_LANES * G);
    RP_CUDA_LAUNCH((rp_cuda_row_pieces<G, Out, Body>), (unsigned)(cut.count * across),
                   RP_CUDA_ROW_THREADS, 0, launch->queue->stream, body, added, out, s.rows,
                   s.columns, cut.length, across);
}

template <int G, typename Out, typename Body>
static inline rp_status rp_cuda_group_row_sums(const rp_launch *launch, size_t k,
                                               const rp_cuda_row_sums &s, const Body &body) {
    const int64_t pieces = rp_cuda_cut_rows(s.dtype, s.rows, s.columns).count;
    if (pieces == 1) {
        rp_cuda_launch_row_pieces<G, Out, Body>(launch, s, body,
                                                static_cast<const Out *>(rp_cuda_added(launch, k)),
                                                static_cast<Out *>(launch->out[k]));
        return rp_cuda_launched(launch);
    }
    if (pieces > 1)
        rp_cuda_launch_row_pieces<G, float, Body>(launch, s, body, nullptr, s.scratch);
    return rp_cuda_run_add_pieces<Out>(launch, k, s.scratch, pieces, s.columns);
}

/* Output k, [columns], as (what is added +) the sum of the body's rows. */
template <typename In, typename Out, typename Body>
static inline rp_status rp_cuda_run_row_sums(const rp_launch *launch, size_t k,
                                             const rp_cuda_row_sums &s, const Body &body) {
    if (rp_cuda_column_group(s.dtype, s.columns) > 1)
        return rp_cuda_group_row_sums<rp_cuda_pack<In>::COUNT, Out>(launch, k, s, body);
    return rp_cuda_group_row_sums<1, Out>(launch, k, s, body);
}

#endif
