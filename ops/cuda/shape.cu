/* transpose: [outer, A, middle, B, inner] -> [outer, B, middle, A, inner]. slice: [outer, D, inner]
 * -> [outer, length, inner], slice_backward the other way round, concat from several. Elements are
 * moved by their bytes: any dtype, but for slice_backward, which computes. */
#include "elementwise.h"

namespace {

enum { THREADS = 256, VECTORS = 4, TILE = 64 };

/* The largest unit of 1 to 16 bytes that divides what `bits` were or-ed of: sizes, addresses. */
size_t unit_of(uint64_t bits) {
    size_t unit = 16;
    while (unit > 2 && (bits & (unit - 1)) != 0)
        unit /= 2;
    return unit;
}

uint64_t bits_of(const void *address) {
    return (uint64_t)(uintptr_t)address;
}

/* a / b, of 32 bits where both fit: a third of the instructions. */
__device__ __forceinline__ int64_t divide(int64_t a, int64_t b) {
    return (uint64_t)(a | b) <= UINT32_MAX ? (int64_t)((uint32_t)a / (uint32_t)b) : a / b;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* `count` runs of `run` units, which lie `to_stride` and `from_stride` units apart. */
typedef struct runs {
    void *to;
    const void *from;
    int64_t count, run, to_stride, from_stride;
} runs;

template <typename Unit> __global__ void __launch_bounds__(THREADS) copy_kernel(runs r) {
    const Unit *from = static_cast<const Unit *>(r.from);
    Unit *to = static_cast<Unit *>(r.to);
    const int64_t first = (int64_t)blockIdx.x * (THREADS * VECTORS) + threadIdx.x;
    const int64_t all = r.count * r.run;
    Unit moved[VECTORS];
    int64_t place[VECTORS];
#pragma unroll
    for (int u = 0; u < VECTORS; u++) {
        const int64_t i = first + u * THREADS;
        if (i >= all)
            continue;
        const int64_t k = divide(i, r.run), c = i - k * r.run;
        place[u] = k * r.to_stride + c;
        moved[u] = from[k * r.from_stride + c];
    }
#pragma unroll
    for (int u = 0; u < VECTORS; u++)
        if (first + u * THREADS < all)
            to[place[u]] = moved[u];
}

template <typename Unit> rp_status launch_copy(const rp_launch *launch, runs r) {
    const int64_t size = (int64_t)sizeof(Unit);
    r.run /= size;
    r.to_stride /= size;
    r.from_stride /= size;
    const int64_t blocks = rp_cuda_divide_up(r.count * r.run, THREADS * VECTORS);
    if (blocks > RP_CUDA_MOST_BLOCKS)
        return RP_UNSUPPORTED;
    RP_CUDA_LAUNCH((copy_kernel<Unit>), (unsigned)blocks, THREADS, 0, launch->queue->stream, r);
    return rp_cuda_launched(launch);
}

/* Lengths in bytes. */
rp_status copy_runs(const rp_launch *launch, const runs &r) {
    const size_t unit = unit_of(bits_of(r.to) | bits_of(r.from) | (uint64_t)r.run |
                                (uint64_t)r.to_stride | (uint64_t)r.from_stride);
    return unit == 16  ? launch_copy<uint4>(launch, r)
           : unit == 8 ? launch_copy<uint2>(launch, r)
           : unit == 4 ? launch_copy<uint32_t>(launch, r)
                       : launch_copy<uint16_t>(launch, r);
}

/* ---- transpose ------------------------------------------------------------------------------- */

typedef struct swap {
    int64_t outer, a, middle, b, inner; /* of the input; inner in units */
} swap;

int64_t product(rp_shape shape, int begin, int end) {
    int64_t count = 1;
    for (int i = begin; i < end; i++)
        count *= shape.dims[i];
    return count;
}

swap swap_of(const rp_launch *launch) {
    const rp_shape x = launch->call.in[0].shape;
    const int first = rp_axis(x, launch->call.params->transpose.first);
    const int second = rp_axis(x, launch->call.params->transpose.second);
    const int low = first < second ? first : second, high = first < second ? second : first;
    swap s = {1, 1, 1, 1, rp_shape_count(x)};
    if (low != high) {
        s.outer = product(x, 0, low);
        s.a = x.dims[low];
        s.middle = product(x, low + 1, high);
        s.b = x.dims[high];
        s.inner = product(x, high + 1, x.rank);
    }
    return s;
}

/* Where runs of `inner` units move: unit (o, b, m, a, i) of the output. */
template <typename Unit>
__global__ void __launch_bounds__(THREADS)
    transpose_runs(const Unit *__restrict__ x, Unit *__restrict__ y, swap s, int64_t all) {
    const int64_t first = (int64_t)blockIdx.x * (THREADS * VECTORS) + threadIdx.x;
    Unit moved[VECTORS];
#pragma unroll
    for (int u = 0; u < VECTORS; u++) {
        int64_t rest = first + u * THREADS;
        if (rest >= all)
            continue;
        int64_t at = divide(rest, s.inner);
        const int64_t i = rest - at * s.inner;
        rest = at;
        at = divide(rest, s.a);
        const int64_t a = rest - at * s.a;
        rest = at;
        at = divide(rest, s.middle);
        const int64_t m = rest - at * s.middle, o = divide(at, s.b), b = at - o * s.b;
        moved[u] = x[(((o * s.a + a) * s.middle + m) * s.b + b) * s.inner + i];
    }
#pragma unroll
    for (int u = 0; u < VECTORS; u++)
        if (first + u * THREADS < all)
            y[first + u * THREADS] = moved[u];
}

/* Single elements: tiles of [TILE, TILE] are turned in shared memory, whose rows are a bank longer,
 * so that both ways memory is passed over in runs. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    transpose_tiles(const T *__restrict__ x, T *__restrict__ y, swap s, int64_t down,
                    int64_t across) {
    __shared__ T tile[TILE][TILE + 4 / sizeof(T)];
    constexpr int step = THREADS / TILE;
    const int column = (int)threadIdx.x % TILE, first = (int)threadIdx.x / TILE;
    const int64_t matrix = blockIdx.x / (down * across), t = blockIdx.x % (down * across);
    const int64_t top = t / across * TILE, left = t % across * TILE;
    const int64_t o = matrix / s.middle, m = matrix % s.middle;
    const T *from = x + (o * s.a * s.middle + m) * s.b;
    T *to = y + (o * s.b * s.middle + m) * s.a;
    const int64_t from_stride = s.middle * s.b, to_stride = s.middle * s.a;
    T moved[TILE / step];
#pragma unroll
    for (int k = 0; k < TILE / step; k++)
        if (top + first + k * step < s.a && left + column < s.b)
            moved[k] = from[(top + first + k * step) * from_stride + left + column];
#pragma unroll
    for (int k = 0; k < TILE / step; k++)
        tile[first + k * step][column] = moved[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < TILE / step; k++)
        if (left + first + k * step < s.b && top + column < s.a)
            to[(left + first + k * step) * to_stride + top + column] =
                tile[column][first + k * step];
}

template <typename T> rp_status launch_tiles(const rp_launch *launch, const swap &s) {
    const int64_t down = rp_cuda_divide_up(s.a, TILE), across = rp_cuda_divide_up(s.b, TILE);
    const int64_t blocks = s.outer * s.middle * down * across;
    if (blocks > RP_CUDA_MOST_BLOCKS)
        return RP_UNSUPPORTED;
    RP_CUDA_LAUNCH((transpose_tiles<T>), (unsigned)blocks, THREADS, 0, launch->queue->stream,
                   static_cast<const T *>(launch->in[0]), static_cast<T *>(launch->out[0]), s, down,
                   across);
    return rp_cuda_launched(launch);
}

/* `bytes`: of a run. */
template <typename Unit>
rp_status launch_runs(const rp_launch *launch, swap s, int64_t bytes, int64_t all) {
    const int64_t size = (int64_t)sizeof(Unit),
                  blocks = rp_cuda_divide_up(all, THREADS * VECTORS * size);
    s.inner = bytes / size;
    if (blocks > RP_CUDA_MOST_BLOCKS)
        return RP_UNSUPPORTED;
    RP_CUDA_LAUNCH((transpose_runs<Unit>), (unsigned)blocks, THREADS, 0, launch->queue->stream,
                   static_cast<const Unit *>(launch->in[0]), static_cast<Unit *>(launch->out[0]), s,
                   all / size);
    return rp_cuda_launched(launch);
}

/* ---- slice and concat ------------------------------------------------------------------------ */

/* A tensor as [outer, D, inner] around a dimension; inner in elements. */
typedef struct around {
    int64_t outer, length, inner;
} around;

around around_of(const rp_tensor_info *info, int dimension) {
    const int axis = rp_axis(info->shape, dimension);
    const around a = {product(info->shape, 0, axis), info->shape.dims[axis],
                      product(info->shape, axis + 1, info->shape.rank)};
    return a;
}

/* dy [outer, run] -> dx [outer, row]: dy from column `begin` on, else `other`, which is 0; or -0
 * where there is something to add to: that leaves every number as it is, -0 too, as does adding in
 * place, which touches nothing else. Vectors do not cross the ends of any of these. */
template <typename In> struct spread {
    const In *dy;
    int64_t row, begin, run;
    float other;

    __device__ __forceinline__ float one(int64_t i) const {
        const int64_t o = divide(i, row), c = i - o * row - begin;
        return c >= 0 && c < run ? rp_cuda_widen(dy[o * run + c]) : other;
    }
    template <int N> __device__ __forceinline__ void get(int64_t i, float *v) const {
        const int64_t o = divide(i, row), c = i - o * row - begin;
        if (c >= 0 && c < run) {
            rp_cuda_load<N>(dy + o * run + c, v);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++)
                v[j] = other;
        }
    }
};

/* dx += dy where dx is what is accumulated on: nothing else is touched. */
template <typename In, typename Out>
__global__ void __launch_bounds__(THREADS) add_slice(spread<In> s, Out *dx, int64_t count) {
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= count)
        return;
    const int64_t o = divide(i, s.run), to = o * s.row + s.begin + (i - o * s.run);
    rp_cuda_put(dx + to, rp_cuda_widen(dx[to]) + rp_cuda_widen(s.dy[i]));
}

template <typename In, typename Out> rp_status run_slice_backward(const rp_launch *launch) {
    enum { N = rp_cuda_pack<In, Out>::COUNT };
    const rp_op_params *params = launch->call.params;
    const around x = around_of(&launch->call.out[0], params->slice.dimension);
    const spread<In> s = {static_cast<const In *>(launch->in[0]), x.length * x.inner,
                          params->slice.start * x.inner, params->slice.length * x.inner,
                          rp_cuda_added(launch, 0) != nullptr ? -0.0f : 0.0f};
    const int64_t count = x.outer * s.run, blocks = rp_cuda_divide_up(count, THREADS);
    if (rp_cuda_added(launch, 0) != launch->out[0] || launch->out[0] == nullptr)
        return rp_cuda_run_each<N, Out>(launch, s,
                                        s.row % N == 0 && s.begin % N == 0 && s.run % N == 0 &&
                                            rp_cuda_aligned16(s.dy));
    if (blocks > RP_CUDA_MOST_BLOCKS)
        return RP_UNSUPPORTED;
    if (count > 0)
        RP_CUDA_LAUNCH((add_slice<In, Out>), (unsigned)blocks, THREADS, 0, launch->queue->stream, s,
                       static_cast<Out *>(launch->out[0]), count);
    return rp_cuda_launched(launch);
}

} // namespace

extern "C" rp_status rp_cuda_transpose(const rp_launch *launch) {
    const swap s = swap_of(launch);
    const int64_t size = (int64_t)rp_dtype_bytes(launch->call.in[0].dtype);
    const int64_t all = rp_info_bytes(&launch->call.in[0]), run = s.inner * size;
    if (all == 0)
        return RP_OK;
    if (s.inner == 1 && s.a > 1 && s.b > 1)
        return size == 4 ? launch_tiles<uint32_t>(launch, s) : launch_tiles<uint16_t>(launch, s);
    const size_t unit = unit_of(bits_of(launch->in[0]) | bits_of(launch->out[0]) | (uint64_t)run);
    return unit == 16  ? launch_runs<uint4>(launch, s, run, all)
           : unit == 8 ? launch_runs<uint2>(launch, s, run, all)
           : unit == 4 ? launch_runs<uint32_t>(launch, s, run, all)
                       : launch_runs<uint16_t>(launch, s, run, all);
}

extern "C" rp_status rp_cuda_slice(const rp_launch *launch) {
    const int64_t size = (int64_t)rp_dtype_bytes(launch->call.in[0].dtype);
    const around x = around_of(&launch->call.in[0], launch->call.params->slice.dimension);
    const around y = around_of(&launch->call.out[0], launch->call.params->slice.dimension);
    const int64_t run = y.length * y.inner * size, stride = x.length * x.inner * size;
    const char *from = static_cast<const char *>(launch->in[0]);
    if (y.outer * run == 0)
        return RP_OK;
    const runs r = {
        launch->out[0], from + launch->call.params->slice.start * x.inner * size, x.outer, run, run,
        stride};
    return copy_runs(launch, r);
}

extern "C" rp_status rp_cuda_concat(const rp_launch *launch) {
    const int dimension = launch->call.params->concat.dimension;
    const int64_t size = (int64_t)rp_dtype_bytes(launch->call.out[0].dtype);
    const around y = around_of(&launch->call.out[0], dimension);
    char *to = static_cast<char *>(launch->out[0]);
    for (size_t i = 0; i < launch->call.in_count; i++) {
        const around x = around_of(&launch->call.in[i], dimension);
        const int64_t run = x.length * x.inner * size;
        const runs r = {to, launch->in[i], x.outer, run, y.length * y.inner * size, run};
        if (x.outer * run == 0)
            continue;
        RP_TRY(copy_runs(launch, r));
        to += run;
    }
    return RP_OK;
}

extern "C" rp_status rp_cuda_slice_backward(const rp_launch *launch) {
    return RP_CUDA_STORAGE(launch->call.in[0].dtype, launch->call.out[0].dtype, run_slice_backward,
                           launch);
}
