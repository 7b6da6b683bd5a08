/* embedding: table [V, C], ids [N] -> y [N, C]. embedding_backward: ids [N], dy [N, C] -> dtable
 * [V, C]. Kept: the ids. */
#include <climits>

#include "rows.h"

namespace {

enum { THREADS = 256, WARP = 32, VECTORS = 2 };
enum { SORT_THREADS = 1024, SORT_WARPS = SORT_THREADS / WARP, SORT_ROWS = 256 };

/* ---- Forward --------------------------------------------------------------------------------- */

/* A unit is what a thread moves at once, `nan` one full of NaN. */
template <typename Unit>
__global__ void __launch_bounds__(THREADS)
    gather(const Unit *__restrict__ table, const int32_t *__restrict__ ids, Unit *__restrict__ y,
           int64_t count, int64_t width, int64_t vocabulary, Unit nan) {
    const int64_t first = (int64_t)blockIdx.x * (THREADS * VECTORS) + threadIdx.x;
    Unit moved[VECTORS];
#pragma unroll
    for (int u = 0; u < VECTORS; u++) {
        const int64_t i = first + u * THREADS;
        if (i >= count)
            continue;
        const int64_t row = i <= (int64_t)UINT32_MAX && width <= (int64_t)UINT32_MAX
                                ? (int64_t)((uint32_t)i / (uint32_t)width)
                                : i / width;
        const int64_t id = ids[row];
        moved[u] = id >= 0 && id < vocabulary ? table[id * width + (i - row * width)] : nan;
    }
#pragma unroll
    for (int u = 0; u < VECTORS; u++)
        if (first + u * THREADS < count)
            y[first + u * THREADS] = moved[u];
}

template <typename Unit> rp_status run_gather(const rp_launch *launch, size_t element, Unit nan) {
    const rp_shape table = launch->call.in[0].shape;
    const int64_t rows = rp_info_count(&launch->call.in[1]);
    const int64_t width = table.dims[1] * (int64_t)element / (int64_t)sizeof(Unit);
    const int64_t blocks = rp_cuda_divide_up(rows * width, THREADS * VECTORS);
    if (blocks > RP_CUDA_MOST_BLOCKS)
        return RP_UNSUPPORTED;
    RP_CUDA_LAUNCH((gather<Unit>), (unsigned)blocks, THREADS, 0, launch->queue->stream,
                   static_cast<const Unit *>(launch->in[0]),
                   static_cast<const int32_t *>(launch->in[1]), static_cast<Unit *>(launch->out[0]),
                   rows * width, width, table.dims[0], nan);
    return rp_cuda_launched(launch);
}

/* ---- Backward: positions by rows ------------------------------------------------------------- */

/* ids [N] -> start [V + 1] and order [N]: the positions of row v are order[start[v], start[v + 1]),
 * ascending. A block passes over all ids for SORT_ROWS rows, twice: it counts, then it puts
 * SORT_THREADS positions at a time, those of a warp behind those of warps before it. */
typedef struct sorter {
    const int32_t *ids;
    int64_t n, top, vocabulary; /* rows [top, top + SORT_ROWS) of the table */
} sorter;

/* The row of the block that position `at` has, or -1; `lower`: whether an earlier block has it. */
__device__ __forceinline__ int row_at(const sorter &s, int64_t at, bool *lower) {
    const int64_t id = at < s.n ? s.ids[at] : -1, row = id - s.top;
    *lower = id >= 0 && row < 0;
    return id < s.vocabulary && row >= 0 && row < SORT_ROWS ? (int)row : -1;
}

/* How many positions each row has, next [SORT_ROWS]; and how many earlier blocks have. */
__device__ __forceinline__ int count_positions(const sorter &s, int *next, int *scratch) {
    int lower = 0;
    for (int64_t at = threadIdx.x; at < s.n; at += SORT_THREADS) {
        bool is_lower;
        const int row = row_at(s, at, &is_lower);
        lower += is_lower;
        if (row >= 0)
            atomicAdd(&next[row], 1);
    }
    return rp_cuda_reduce_row(lower, rp_cuda_sum(), scratch); /* a barrier is in it */
}

/* `part`: by warp and row how many positions there are, then where the first of them goes. */
__device__ __forceinline__ void put_positions(const sorter &s, int *next, int (*part)[SORT_ROWS],
                                              int32_t *order) {
    const int k = (int)threadIdx.x, lane = k % WARP, warp = k / WARP;
    for (int64_t begin = 0; begin < s.n; begin += SORT_THREADS) {
        bool is_lower;
        const int row = row_at(s, begin + k, &is_lower);
        if (__syncthreads_or(row >= 0) == 0) /* behind it nobody reads `part` any more */
            continue;
        for (int i = k; i < SORT_WARPS * SORT_ROWS; i += SORT_THREADS)
            part[i / SORT_ROWS][i % SORT_ROWS] = 0;
        __syncthreads();
        const unsigned same = __match_any_sync(0xffffffffu, row);
        const int rank = __popc(same & ((1u << lane) - 1u));
        if (row >= 0 && rank == 0)
            part[warp][row] = __popc(same);
        __syncthreads();
        if (k < SORT_ROWS) {
            int place = next[k];
#pragma unroll 8
            for (int w = 0; w < SORT_WARPS; w++) {
                const int count = part[w][k];
                part[w][k] = place;
                place += count;
            }
            next[k] = place;
        }
        __syncthreads();
        if (row >= 0)
            order[part[warp][row] + rank] = (int32_t)(begin + k);
    }
}

__global__ void __launch_bounds__(SORT_THREADS)
    sort_positions(const int32_t *__restrict__ ids, int32_t *__restrict__ start,
                   int32_t *__restrict__ order, int64_t n, int64_t vocabulary) {
    __shared__ int next[SORT_ROWS], begins[SORT_ROWS], scratch[WARP];
    __shared__ int part[SORT_WARPS][SORT_ROWS];
    const int k = (int)threadIdx.x;
    const sorter s = {ids, n, (int64_t)blockIdx.x * SORT_ROWS, vocabulary};
    if (k < SORT_ROWS)
        next[k] = 0;
    __syncthreads();
    const int lower = count_positions(s, next, scratch);
    if (k < SORT_ROWS) {
        int begin = lower;
        for (int r = 0; r < k; r++)
            begin += next[r];
        begins[k] = begin;
        if (s.top + k < vocabulary)
            start[s.top + k] = begin;
        if (s.top + k == vocabulary - 1)
            start[vocabulary] = begin + next[k];
    }
    __syncthreads();
    if (k < SORT_ROWS)
        next[k] = begins[k];
    __syncthreads();
    put_positions(s, next, part, order);
}

/* ---- Backward: sums -------------------------------------------------------------------------- */

/* A warp adds up 32 G columns of the rows of dy that belong to one row of the table, in the order
 * of their positions, from what is accumulated on. */
template <typename In, typename Out, int G>
__global__ void __launch_bounds__(THREADS)
    add_rows(const In *__restrict__ dy, const int32_t *__restrict__ start,
             const int32_t *__restrict__ order, const Out *sum, Out *dtable, int64_t vocabulary,
             int64_t width, int64_t across, bool aligned) {
    const int64_t task = (int64_t)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP;
    const int64_t row = task / across;
    const int64_t column = (task % across * WARP + threadIdx.x % WARP) * G;
    if (row >= vocabulary || column >= width)
        return;
    const int64_t to = row * width + column;
    const int begin = start[row], end = start[row + 1];
    float v[G];
    if (begin == end && sum == dtable)
        return;
    if (sum != nullptr) {
        rp_cuda_load_group<G>(sum + to, aligned, v);
    } else {
#pragma unroll
        for (int j = 0; j < G; j++)
            v[j] = 0.0f;
    }
#pragma unroll 4
    for (int i = begin; i < end; i++) {
        float w[G];
        rp_cuda_load_group<G>(dy + order[i] * width + column, aligned, w);
#pragma unroll
        for (int j = 0; j < G; j++)
            v[j] += w[j];
    }
    rp_cuda_store_group<G>(dtable + to, aligned, v);
}

template <int G, typename In, typename Out>
rp_status launch_add(const rp_launch *launch, const In *dy, Out *dtable, const int32_t *start) {
    const int64_t vocabulary = launch->call.out[0].shape.dims[0];
    const int64_t width = launch->call.out[0].shape.dims[1];
    const int64_t across = rp_cuda_divide_up(width, WARP * G);
    const int64_t blocks = rp_cuda_divide_up(vocabulary * across, THREADS / WARP);
    const Out *sum = static_cast<const Out *>(rp_cuda_added(launch, 0));
    if (blocks > RP_CUDA_MOST_BLOCKS)
        return RP_UNSUPPORTED;
    RP_CUDA_LAUNCH((add_rows<In, Out, G>), (unsigned)blocks, THREADS, 0, launch->queue->stream, dy,
                   start, start + vocabulary + 1, sum, dtable, vocabulary, width, across,
                   rp_cuda_aligned16(dy) && rp_cuda_aligned16(sum) && rp_cuda_aligned16(dtable));
    return rp_cuda_launched(launch);
}

template <typename In, typename Out>
rp_status run_add(const rp_launch *launch, const int32_t *start) {
    const In *dy = static_cast<const In *>(launch->in[1]);
    Out *dtable = static_cast<Out *>(launch->out[0]);
    return RP_CUDA_GROUPED(In, launch->call.out[0].shape.dims[1], launch_add, launch, dy, dtable,
                           start);
}

} // namespace

extern "C" rp_status rp_cuda_embedding(const rp_launch *launch) {
    const rp_dtype dtype = launch->call.in[0].dtype;
    const bool whole = launch->call.in[0].shape.dims[1] % (dtype == RP_BF16 ? 8 : 4) == 0;
    if (!rp_cuda_is_floating(dtype) || launch->call.out[0].dtype != dtype)
        return RP_UNSUPPORTED;
    if (rp_info_count(&launch->call.out[0]) == 0)
        return RP_OK;
    const unsigned nan = dtype == RP_BF16 ? 0x7fc07fc0u : 0x7fc00000u;
    if (whole && rp_cuda_aligned16(launch->in[0]) && rp_cuda_aligned16(launch->out[0]))
        return run_gather(launch, rp_dtype_bytes(dtype), make_uint4(nan, nan, nan, nan));
    return dtype == RP_BF16 ? run_gather(launch, 2, (uint16_t)0x7fc0) : run_gather(launch, 4, nan);
}

/* Workspace: start [V + 1], order [N]. */
extern "C" rp_status rp_cuda_embedding_backward(const rp_launch *launch) {
    const int64_t vocabulary = launch->call.out[0].shape.dims[0];
    const int64_t n = rp_info_count(&launch->call.in[0]);
    int32_t *start = static_cast<int32_t *>(launch->workspace);
    if (n > INT_MAX || rp_cuda_divide_up(vocabulary, SORT_ROWS) > RP_CUDA_MOST_BLOCKS)
        return RP_UNSUPPORTED;
    if (rp_info_count(&launch->call.out[0]) == 0)
        return RP_OK;
    RP_CUDA_LAUNCH(sort_positions, (unsigned)rp_cuda_divide_up(vocabulary, SORT_ROWS), SORT_THREADS,
                   0, launch->queue->stream, static_cast<const int32_t *>(launch->in[0]), start,
                   start + vocabulary + 1, n, vocabulary);
    return RP_CUDA_STORAGE(launch->call.in[1].dtype, launch->call.out[0].dtype, run_add, launch,
                           start);
}
