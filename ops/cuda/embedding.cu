/* embedding: table [V, C], ids [N] -> y [N, C]. embedding_backward: ids [N], dy [N, C] -> dtable
 * [V, C]. Kept: the ids. */
#include <climits>

#include "rows.h"

namespace {

enum { THREADS = 256, SORT_THREADS = 1024, SORT_ROWS = 256, WARP = 32, VECTORS = 2 };

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

/* Whether warps before this one, and lanes before this one, have set their flag; and how many
 * have. */
typedef struct places {
    int before, all;
} places;

__device__ __forceinline__ places count_flags(bool flag, int *scratch) {
    const int lane = (int)threadIdx.x % WARP, warp = (int)threadIdx.x / WARP;
    const unsigned flags = __ballot_sync(0xffffffffu, flag);
    places p = {__popc(flags & ((1u << lane) - 1u)), 0};
    __syncthreads(); /* what the last call left has been read */
    if (lane == 0)
        scratch[warp] = __popc(flags);
    __syncthreads();
    for (int w = 0; w < SORT_THREADS / WARP; w++) {
        p.before += w < warp ? scratch[w] : 0;
        p.all += scratch[w];
    }
    return p;
}

/* Of the positions [0, n) those whose id is one of the block's rows, in their order. For each of
 * these rows `next` is advanced by their number; with `order`, they are put there from next on. */
typedef struct finder {
    const int32_t *ids;
    int64_t n, top, vocabulary; /* rows [top, top + SORT_ROWS) of the table */
    int *next, *scratch;        /* shared: [SORT_ROWS], [warps] */
    int *found_row, *found_at;  /* shared: [SORT_THREADS] each */
} finder;

/* Positions of lower rows are counted on the way. */
__device__ __forceinline__ int64_t find_positions(const finder &f, int32_t *order) {
    int64_t lower = 0;
    for (int64_t begin = 0; begin < f.n; begin += SORT_THREADS) {
        const int64_t at = begin + threadIdx.x;
        const int64_t id = at < f.n ? f.ids[at] : -1;
        const int64_t row = id - f.top;
        const bool mine = id < f.vocabulary && row >= 0 && row < SORT_ROWS;
        lower += id >= 0 && row < 0;
        if (__syncthreads_or(mine) == 0)
            continue;
        const places p = count_flags(mine, f.scratch);
        if (mine) {
            f.found_row[p.before] = (int)row;
            f.found_at[p.before] = (int)at;
        }
        __syncthreads();
        const int k = (int)threadIdx.x;
        if (k < p.all) {
            /* Among those found here, the k-th is the rank-th of its row, and maybe the last. */
            int rank = 0, same = 0;
            for (int i = 0; i < p.all; i++) {
                const bool equal = f.found_row[i] == f.found_row[k];
                rank += equal && i < k;
                same += equal;
            }
            const int place = f.next[f.found_row[k]] + rank;
            if (order != nullptr)
                order[place] = f.found_at[k];
            f.found_at[k] = rank + 1 == same ? place + 1 : -1;
        }
        __syncthreads();
        if (k < p.all && f.found_at[k] >= 0)
            f.next[f.found_row[k]] = f.found_at[k];
    }
    __syncthreads();
    return lower;
}

/* ids [N] -> start [V + 1] and order [N]: the positions of row v are order[start[v], start[v + 1]),
 * ascending. A block passes over all ids for SORT_ROWS rows, twice: it counts, then it puts. */
__global__ void __launch_bounds__(SORT_THREADS)
    sort_positions(const int32_t *__restrict__ ids, int32_t *__restrict__ start,
                   int32_t *__restrict__ order, int64_t n, int64_t vocabulary) {
    __shared__ int next[SORT_ROWS], begins[SORT_ROWS], scratch[WARP];
    __shared__ int found_row[SORT_THREADS], found_at[SORT_THREADS];
    const int k = (int)threadIdx.x;
    const finder f = {
        ids, n, (int64_t)blockIdx.x * SORT_ROWS, vocabulary, next, scratch, found_row, found_at};
    if (k < SORT_ROWS)
        next[k] = 0;
    __syncthreads();
    int lower = (int)find_positions(f, nullptr);
    lower = rp_cuda_reduce_row(lower, rp_cuda_sum(), scratch);
    if (k < SORT_ROWS) {
        int begin = lower;
        for (int r = 0; r < k; r++)
            begin += next[r];
        begins[k] = begin;
        if (f.top + k < vocabulary)
            start[f.top + k] = begin;
        if (f.top + k == vocabulary - 1)
            start[vocabulary] = begin + next[k];
    }
    __syncthreads();
    if (k < SORT_ROWS)
        next[k] = begins[k];
    __syncthreads();
    find_positions(f, order);
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
