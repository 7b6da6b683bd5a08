/* What the fused attention kernels share: which queries and keys a block works on, tiles of f32 in
 * shared memory, and their products.
 *
 * A block of 128 threads holds a tile of ROWS rows (queries, or keys in the kernel of dk and dv)
 * and goes through the others COLUMNS at a time. Thread (group, lane) = (thread / 8, thread % 8)
 * has of a product [ROWS, COLUMNS] the rows group * R + i and four columns next to each other,
 * lane * 4 + j; of a result [ROWS, D] the same rows and columns lane * 4 + 32 * j of D. So the
 * rows of a warp are its own: what its threads tell each other through shared memory needs no
 * barrier of the block, and four keys of a row share a draw of random numbers. */
#ifndef REPRISE_OPS_CUDA_ATTENTION_TILES_H
#define REPRISE_OPS_CUDA_ATTENTION_TILES_H

#include <math.h>

#include "attention_call.h"
#include "floats.h"
#include "random.h"

enum {
    RP_TILE_THREADS = 128,
    RP_TILE_LANES = 8,
    RP_TILE_GROUPS = RP_TILE_THREADS / RP_TILE_LANES,
    RP_TILE_COLUMNS = 32,
    RP_TILE_PRODUCT = RP_TILE_COLUMNS + 4, /* from row to row of a product in shared memory */
};

/* For heads of up to D elements, D a multiple of 32; or, WIDE in the kernels, for larger ones, in
 * chunks of D: a block makes one chunk of the result, and the scores of all chunks for it. */
template <int D> struct rp_tile {
    static constexpr int R = 4;
    static constexpr int ROWS = RP_TILE_GROUPS * R;
    /* Keeps 16 bytes aligned, and the rows of a column apart. */
    static constexpr int STRIDE = D + 4;
    static constexpr int PARTS = D / 32; /* quadruples of a row that a thread has */
    static constexpr int ROWS_FLOATS = ROWS * STRIDE;
    static constexpr int COLUMNS_FLOATS = RP_TILE_COLUMNS * STRIDE;
    static constexpr int PRODUCT_FLOATS = ROWS * RP_TILE_PRODUCT;
};

/* Where a column lies in its tile: neighbours 8 rows apart, so that the lanes, which read every
 * fourth column at once, meet different banks. */
__device__ __forceinline__ int rp_tile_column_at(int position) {
    return position % RP_TILE_LANES * 4 + position / RP_TILE_LANES;
}

/* tile [HEIGHT, D] = rows [count, size] of T, zeros elsewhere; SPREAD: as rp_tile_column_at says */
template <int D, int HEIGHT, bool SPREAD, typename T>
__device__ __forceinline__ void rp_tile_load(float *tile, const T *rows, int64_t stride,
                                             int64_t count, int size, bool vector) {
    for (int i = (int)threadIdx.x; i < HEIGHT * (D / 4); i += RP_TILE_THREADS) {
        const int at = i / (D / 4), d = i % (D / 4) * 4;
        const int row = SPREAD ? rp_tile_column_at(at) : at;
        float4 x = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        if (row < count && d < size)
            x = rp_load4(rows + row * stride + d, size - d, vector);
        *reinterpret_cast<float4 *>(tile + at * rp_tile<D>::STRIDE + d) = x;
    }
}

template <int R> __device__ __forceinline__ void rp_tile_clear(float (&product)[R][4]) {
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            product[i][j] = 0.0f;
}

/* product[i][j] += the row group * R + i of `rows` times column lane * 4 + j of `columns` */
template <int D, int R>
__device__ __forceinline__ void rp_tile_multiply(float (&product)[R][4], const float *rows,
                                                 const float *columns, int size) {
    const int group = (int)threadIdx.x / RP_TILE_LANES, lane = (int)threadIdx.x % RP_TILE_LANES;
    const float *a = rows + group * R * rp_tile<D>::STRIDE;
    const float *b = columns + lane * rp_tile<D>::STRIDE;
#pragma unroll 2
    for (int d = 0; d < size; d += 4) {
        float4 x[R], y[4];
#pragma unroll
        for (int i = 0; i < R; i++)
            x[i] = *reinterpret_cast<const float4 *>(a + i * rp_tile<D>::STRIDE + d);
#pragma unroll
        for (int j = 0; j < 4; j++)
            y[j] =
                *reinterpret_cast<const float4 *>(b + j * RP_TILE_LANES * rp_tile<D>::STRIDE + d);
#pragma unroll
        for (int i = 0; i < R; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                product[i][j] = fmaf(x[i].x, y[j].x, product[i][j]);
                product[i][j] = fmaf(x[i].y, y[j].y, product[i][j]);
                product[i][j] = fmaf(x[i].z, y[j].z, product[i][j]);
                product[i][j] = fmaf(x[i].w, y[j].w, product[i][j]);
            }
    }
}

/* Rows of a tensor that a tile is loaded from. */
template <typename T> struct rp_tile_source {
    const T *at;
    int64_t stride, count;
    bool vector;
};

/* tile [HEIGHT, D] from column `begin` of heads of `size`: spread if it is a tile of columns. */
template <int D, int HEIGHT, typename T>
__device__ __forceinline__ void rp_tile_load(float *tile, const rp_tile_source<T> &from, int begin,
                                             int size) {
    rp_tile_load<D, HEIGHT, HEIGHT == RP_TILE_COLUMNS>(tile, from.at + begin, from.stride,
                                                       from.count, size - begin, from.vector);
}

/* Another chunk in a tile of columns that all threads have read. */
template <int D, typename T>
__device__ __forceinline__ void rp_tile_reload(float *tile, const rp_tile_source<T> &from,
                                               int begin, int size) {
    __syncthreads();
    rp_tile_load<D, RP_TILE_COLUMNS>(tile, from, begin, size);
    __syncthreads();
}

/* product = rows times columns, over all of a head; of a wide one chunk by chunk through the tiles,
 * which else are loaded. */
template <int D, bool WIDE, int R, typename T>
__device__ __forceinline__ void rp_tile_scores(float (&product)[R][4], float *rows, float *columns,
                                               const rp_tile_source<T> &of_rows,
                                               const rp_tile_source<T> &of_columns, int size) {
    rp_tile_clear(product);
    if constexpr (WIDE) {
#pragma unroll 1
        for (int begin = 0; begin < size; begin += D) {
            __syncthreads();
            rp_tile_load<D, rp_tile<D>::ROWS>(rows, of_rows, begin, size);
            rp_tile_load<D, RP_TILE_COLUMNS>(columns, of_columns, begin, size);
            __syncthreads();
            rp_tile_multiply<D>(product, rows, columns, size - begin < D ? size - begin : D);
        }
    } else {
        rp_tile_multiply<D>(product, rows, columns, size);
    }
}

/* The warp's rows of a product to shared memory, columns by their positions. Both sides of it are
 * waits: for those who still read what was there, and for this. */
template <int R>
__device__ __forceinline__ void rp_tile_share(float *shared, const float (&product)[R][4]) {
    const int group = (int)threadIdx.x / RP_TILE_LANES, lane = (int)threadIdx.x % RP_TILE_LANES;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
            shared[(group * R + i) * RP_TILE_PRODUCT + j * RP_TILE_LANES + lane] = product[i][j];
    __syncwarp();
}

__device__ __forceinline__ void rp_add_product(float4 &sum, float a, const float4 &x) {
    sum.x = fmaf(a, x.x, sum.x);
    sum.y = fmaf(a, x.y, sum.y);
    sum.z = fmaf(a, x.z, sum.z);
    sum.w = fmaf(a, x.w, sum.w);
}

/* sum [rows, D] += product [rows, COLUMNS] (shared) columns [COLUMNS, D] */
template <int D, int R>
__device__ __forceinline__ void rp_tile_add(float4 (&sum)[R][rp_tile<D>::PARTS],
                                            const float *shared, const float *columns) {
    const int group = (int)threadIdx.x / RP_TILE_LANES, lane = (int)threadIdx.x % RP_TILE_LANES;
    const float *a = shared + group * R * RP_TILE_PRODUCT;
#pragma unroll 1
    for (int c = 0; c < RP_TILE_COLUMNS; c += 4) {
        float4 p[R];
#pragma unroll
        for (int i = 0; i < R; i++)
            p[i] = *reinterpret_cast<const float4 *>(a + i * RP_TILE_PRODUCT + c);
#pragma unroll
        for (int part = 0; part < rp_tile<D>::PARTS; part++) {
            const float *b = columns + c * rp_tile<D>::STRIDE + lane * 4 + part * 32;
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const float4 x = *reinterpret_cast<const float4 *>(b + j * rp_tile<D>::STRIDE);
#pragma unroll
                for (int i = 0; i < R; i++)
                    rp_add_product(sum[i][part],
                                   j == 0   ? p[i].x
                                   : j == 1 ? p[i].y
                                   : j == 2 ? p[i].z
                                            : p[i].w,
                                   x);
            }
        }
    }
}

/* The thread's part of row group * R + i to a row of T, plus what is added to it, or nothing. */
template <int D, typename T>
__device__ __forceinline__ void rp_tile_store(T *row, const T *added,
                                              const float4 (&sum)[rp_tile<D>::PARTS], float factor,
                                              int size, bool vector) {
    const int lane = (int)threadIdx.x % RP_TILE_LANES;
#pragma unroll
    for (int part = 0; part < rp_tile<D>::PARTS; part++) {
        const int d = lane * 4 + part * 32;
        if (d >= size)
            continue;
        float4 x = sum[part];
        x = make_float4(x.x * factor, x.y * factor, x.z * factor, x.w * factor);
        if (added != nullptr) {
            const float4 y = rp_load4(added + d, size - d, vector);
            x = make_float4(y.x + x.x, y.y + x.y, y.z + x.z, y.w + x.w);
        }
        rp_store4(row + d, x, size - d, vector);
    }
}

/* Over the 8 lanes that share a row. */
__device__ __forceinline__ float rp_tile_row_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    x += __shfl_xor_sync(0xffffffffu, x, 2);
    return x + __shfl_xor_sync(0xffffffffu, x, 4);
}

__device__ __forceinline__ float rp_tile_row_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 4));
}

/* ---- Dropout --------------------------------------------------------------------------------- */

struct rp_cuda_drawing {
    uint32_t key[2], stream, threshold;
    float factor;
    bool on;
};

__device__ __forceinline__ rp_cuda_drawing rp_cuda_drawing_begin(const rp_cuda_attention_job &job) {
    rp_cuda_drawing d = {{0, 0}, job.stream, job.threshold, job.factor, false};
    if (job.threshold == 0 || job.step->evaluate)
        return d;
    rp_random_key(job.step->seed, job.step->step, job.step->micro_batch, d.key);
    d.on = true;
    return d;
}

/* The factors of four elements next to each other. The words of two blocks are moved into place by
 * two selections each, as an index that varies would put them into local memory. */
__device__ __forceinline__ float4 rp_cuda_draw4(const rp_cuda_drawing &d, uint64_t element) {
    const rp_philox a = rp_random_block(d.key, d.stream, element / 4);
    uint32_t w0 = a.word[0], w1 = a.word[1], w2 = a.word[2], w3 = a.word[3];
    const bool one = element % 2 == 1, two = element / 2 % 2 == 1;
    if (one || two) {
        const rp_philox b = rp_random_block(d.key, d.stream, element / 4 + 1);
        const uint32_t v0 = two ? w2 : w0, v1 = two ? w3 : w1, v2 = two ? b.word[0] : w2;
        const uint32_t v3 = two ? b.word[1] : w3, v4 = two ? b.word[2] : b.word[0];
        w0 = one ? v1 : v0;
        w1 = one ? v2 : v1;
        w2 = one ? v3 : v2;
        w3 = one ? v4 : v3;
    }
    return make_float4(w0 >= d.threshold ? d.factor : 0.0f, w1 >= d.threshold ? d.factor : 0.0f,
                       w2 >= d.threshold ? d.factor : 0.0f, w3 >= d.threshold ? d.factor : 0.0f);
}

/* ---- What sees what -------------------------------------------------------------------------- */

/* How many keys query i sees. */
__device__ __forceinline__ int64_t rp_cuda_visible(const rp_cuda_attention_job &job, int64_t i) {
    const int64_t end = i + job.l.keys - job.l.queries + 1;
    return !job.causal || end > job.l.keys ? job.l.keys : end < 0 ? 0 : end;
}

/* The first query that sees key j. */
__device__ __forceinline__ int64_t rp_cuda_first_query(const rp_cuda_attention_job &job,
                                                       int64_t j) {
    const int64_t first = j - (job.l.keys - job.l.queries);
    return !job.causal || first < 0 ? 0 : first;
}

/* Block `index` of `blocks` of one head: the blocks of all heads that have most to do come
 * first. */
struct rp_cuda_place {
    int64_t b, h, begin;
};

__device__ __forceinline__ rp_cuda_place rp_cuda_place_make(int64_t index, int64_t heads,
                                                            int64_t batch, int64_t blocks,
                                                            int64_t rows, bool last_first) {
    const int64_t of_all = heads * batch, block = index / of_all, head = index % of_all;
    rp_cuda_place place;
    place.b = head / heads;
    place.h = head % heads;
    place.begin = (last_first ? blocks - 1 - block : block) * rows;
    return place;
}

/* X(D, WIDE) for the smallest D that holds `size`. */
#define RP_CUDA_FOR_SIZE(size, X)                                                                  \
    ((size) <= 32    ? X(32, false)                                                                \
     : (size) <= 64  ? X(64, false)                                                                \
     : (size) <= 128 ? X(128, false)                                                               \
                     : X(96, true))

#endif
