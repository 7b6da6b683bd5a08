/* Biases of linear where cuBLASLt does not add them itself, and their gradients. */
#include "bias.h"
#include "floats.h"
#include "product_sizes.h"
#include "slots.h"

namespace {

enum { LANES = 32, WARPS = 8, THREADS = LANES * WARPS };

/* bias [columns] -> y [rows, columns]: one thread for N columns of a row */
template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    bias_rows(T *__restrict__ y, const T *__restrict__ bias, int64_t count, int64_t packs) {
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step)
        reinterpret_cast<rp_pack<T, N> *>(y)[i] =
            reinterpret_cast<const rp_pack<T, N> *>(bias)[i % packs];
}

/* dy [rows, columns] -> sums [pieces, columns] f32. A block has N columns a lane of one piece; its
 * warps take turns at the rows, and their sums are added in order. */
template <typename T, int N>
__global__ void __launch_bounds__(THREADS)
    bias_sums(const T *__restrict__ dy, float *__restrict__ sums, int64_t rows, int64_t columns,
              int64_t length, int64_t column_blocks) {
    __shared__ float part[WARPS][LANES * N];
    const int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;
    const int64_t piece = (int64_t)blockIdx.x / column_blocks;
    const int64_t column = ((int64_t)blockIdx.x % column_blocks * LANES + lane) * N;
    const int64_t begin = piece * length, end = begin + length < rows ? begin + length : rows;
    float sum[N];
#pragma unroll
    for (int j = 0; j < N; j++)
        sum[j] = 0.0f;
    if (column < columns)
#pragma unroll 4
        for (int64_t i = begin + warp; i < end; i += WARPS) {
            const rp_pack<T, N> x =
                *reinterpret_cast<const rp_pack<T, N> *>(dy + i * columns + column);
#pragma unroll
            for (int j = 0; j < N; j++)
                sum[j] += rp_to_float(x.at[j]);
        }
#pragma unroll
    for (int j = 0; j < N; j++)
        part[warp][lane * N + j] = sum[j];
    __syncthreads();
    for (int j = (int)threadIdx.x; j < LANES * N; j += THREADS) {
        const int64_t to = (int64_t)blockIdx.x % column_blocks * LANES * N + j;
        float total = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++)
            total += part[w][j];
        if (to < columns)
            sums[piece * columns + to] = total;
    }
}

/* sums [pieces, columns] -> dbias [columns] */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    bias_total(const float *__restrict__ sums, const T *added, T *dbias, int64_t pieces,
               int64_t columns) {
    __shared__ float part[WARPS][LANES];
    const int lane = (int)threadIdx.x % LANES, warp = (int)threadIdx.x / LANES;
    const int64_t column = (int64_t)blockIdx.x * LANES + lane;
    float sum = 0.0f;
    if (column < columns)
#pragma unroll 8
        for (int64_t i = warp; i < pieces; i += WARPS)
            sum += sums[i * columns + column];
    part[warp][lane] = sum;
    __syncthreads();
    if (warp != 0 || column >= columns)
        return;
    float total = 0.0f;
#pragma unroll
    for (int w = 0; w < WARPS; w++)
        total += part[w][lane];
    rp_store(&dbias[column], added != nullptr ? rp_to_float(added[column]) + total : total);
}

template <typename T, int N>
void launch_sums(const rp_launch *launch, const T *dy, int64_t rows, int64_t columns) {
    const rp_cut cut = rp_cuda_cut_bias(rows);
    const int64_t blocks = (columns + LANES * N - 1) / (LANES * N);
    RP_CUDA_LAUNCH((bias_sums<T, N>), (unsigned)(cut.count * blocks), THREADS, 0,
                   launch->queue->stream, dy, (float *)launch->workspace, rows, columns, cut.length,
                   blocks);
}

template <typename T>
void sum_rows(const rp_launch *launch, const T *dy, int64_t rows, int64_t columns) {
    enum { N = 16 / sizeof(T) };
    if (columns % N == 0 && rp_cuda_aligned16(dy))
        launch_sums<T, N>(launch, dy, rows, columns);
    else
        launch_sums<T, 1>(launch, dy, rows, columns);
}

template <typename T>
void total_rows(const rp_launch *launch, const T *added, T *dbias, int64_t rows, int64_t columns) {
    RP_CUDA_LAUNCH((bias_total<T>), (unsigned)((columns + LANES - 1) / LANES), THREADS, 0,
                   launch->queue->stream, (const float *)launch->workspace, added, dbias,
                   rp_cuda_cut_bias(rows).count, columns);
}

template <typename T, int N>
void launch_rows(const rp_launch *launch, T *y, const T *bias, int64_t rows, int64_t columns) {
    const int64_t count = rows * (columns / N), blocks = (count + THREADS - 1) / THREADS;
    RP_CUDA_LAUNCH((bias_rows<T, N>), (unsigned)(blocks < 65536 ? blocks : 65536), THREADS, 0,
                   launch->queue->stream, y, bias, count, columns / N);
}

template <typename T>
void fill_rows(const rp_launch *launch, T *y, const T *bias, int64_t rows, int64_t columns) {
    enum { N = 16 / sizeof(T) };
    if (columns % N == 0 && rp_cuda_aligned16(y) && rp_cuda_aligned16(bias))
        launch_rows<T, N>(launch, y, bias, rows, columns);
    else
        launch_rows<T, 1>(launch, y, bias, rows, columns);
}

} // namespace

extern "C" rp_status rp_cuda_bias_rows(const rp_launch *launch, rp_dtype dtype, void *y,
                                       const void *bias, int64_t rows, int64_t columns) {
    if (rows == 0 || columns == 0)
        return RP_OK;
    if (dtype == RP_BF16)
        fill_rows(launch, (__nv_bfloat16 *)y, (const __nv_bfloat16 *)bias, rows, columns);
    else
        fill_rows(launch, (float *)y, (const float *)bias, rows, columns);
    return rp_cuda_launched(launch);
}

extern "C" rp_status rp_cuda_bias_gradient(const rp_launch *launch, rp_dtype in, rp_dtype out,
                                           const void *dy, const void *added, void *dbias,
                                           int64_t rows, int64_t columns) {
    if (columns == 0)
        return RP_OK;
    if (rows > 0) {
        if (in == RP_BF16)
            sum_rows(launch, (const __nv_bfloat16 *)dy, rows, columns);
        else
            sum_rows(launch, (const float *)dy, rows, columns);
    }
    if (out == RP_BF16)
        total_rows(launch, (const __nv_bfloat16 *)added, (__nv_bfloat16 *)dbias, rows, columns);
    else
        total_rows(launch, (const float *)added, (float *)dbias, rows, columns);
    return rp_cuda_launched(launch);
}
