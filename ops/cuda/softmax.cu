/* softmax: x [rows, C] -> y [rows, C]; causal: x [..., T, C], row i of T sees columns j <= i + C -
 * T. backward: y, dy -> dx. Kept: y. What a row does not see is nothing but 0. */
#include "exponential.h"
#include "rows.h"

namespace {

enum { WIDE_THREADS = 512 };

/* Elements of a row that a thread holds of each tensor: 64 bytes, or 16 elements one by one. */
template <typename T, int G> struct held {
    enum { COUNT = G > 1 ? 64 / sizeof(T) : 16 };
};

/* `height` 0: every row sees all columns. */
typedef struct shape {
    int64_t rows, width, height;
} shape;

__device__ __forceinline__ int64_t visible(const shape &s, int64_t row) {
    if (s.height == 0)
        return s.width;
    const int64_t end = row % s.height + s.width - s.height + 1;
    return end < 0 ? 0 : end;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* A row of -infinity only sees nothing either. */
template <typename T, int E, int G>
__global__ void __launch_bounds__(RP_CUDA_HELD_THREADS)
    forward_held(const T *x, T *y, shape s, bool aligned) {
    __shared__ float scratch[RP_CUDA_MOST_WARPS];
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    const bool active = row < s.rows;
    const int width = active ? (int)s.width : 0, end = active ? (int)visible(s, row) : 0;
    const int64_t at = active ? row * s.width : 0;
    float v[E], top = -INFINITY, sum = 0.0f;
    rp_cuda_load_row<E, G>(x + at, end, aligned, -INFINITY, v);
#pragma unroll
    for (int j = 0; j < E; j++) {
        if (G > 1 && rp_cuda_column(j / G, G) + j % G >= end)
            v[j] = -INFINITY;
        top = fmaxf(top, v[j]);
    }
    top = rp_cuda_reduce_row(top, rp_cuda_max(), scratch);
    top = top == -INFINITY ? 0.0f : top;
#pragma unroll
    for (int j = 0; j < E; j++) {
        v[j] = rp_cuda_math<T>::exp(v[j] - top);
        sum += v[j];
    }
    sum = rp_cuda_reduce_row(sum, rp_cuda_sum(), scratch);
    const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
#pragma unroll
    for (int j = 0; j < E; j++)
        v[j] *= factor;
    rp_cuda_store_row<E, G>(y + at, width, aligned, v);
}

/* A row that no block holds: a block reads it twice, and each thread writes what it has read. */
template <typename T>
__global__ void __launch_bounds__(WIDE_THREADS) forward_wide(const T *x, T *y, shape s) {
    __shared__ float2 scratch[RP_CUDA_MOST_WARPS];
    const int64_t row = blockIdx.x, at = row * s.width, end = visible(s, row);
    rp_cuda_exp_sum seen = rp_cuda_exp_sum_none();
    for (int64_t c = threadIdx.x; c < end; c += WIDE_THREADS) {
        const float v = rp_cuda_widen(x[at + c]);
        seen = rp_cuda_exp_sum_add<T, 1>(seen, &v);
    }
    seen = rp_cuda_reduce_row(seen, rp_cuda_exp_sum_merge(), scratch);
    const float top = seen.x == -INFINITY ? 0.0f : seen.x;
    const float factor = seen.y == 0.0f ? 0.0f : 1.0f / seen.y;
    for (int64_t c = threadIdx.x; c < s.width; c += WIDE_THREADS)
        rp_cuda_put(y + at + c,
                    c < end ? rp_cuda_math<T>::exp(rp_cuda_widen(x[at + c]) - top) * factor : 0.0f);
}

shape shape_of(const rp_launch *launch) {
    const rp_shape x = launch->call.in[0].shape;
    const shape s = {rp_row_count(x), rp_row_length(x),
                     launch->call.params->softmax.causal ? x.dims[x.rank - 2] : 0};
    return s;
}

/* Of the rows, or -1 if there are too many. */
template <int E> int64_t block_count(const shape &s, dim3 block) {
    const int64_t blocks =
        rp_cuda_row_fits(s.width, E) ? rp_cuda_divide_up(s.rows, block.y) : s.rows;
    return blocks > RP_CUDA_MOST_BLOCKS ? -1 : blocks;
}

template <int G, typename T>
rp_status launch_forward(const rp_launch *launch, const shape &s, const T *x, T *y) {
    constexpr int E = held<T, G>::COUNT;
    const dim3 block = rp_cuda_row_block(s.width, E, 128);
    const int64_t blocks = block_count<E>(s, block);
    if (blocks < 0)
        return RP_UNSUPPORTED;
    if (rp_cuda_row_fits(s.width, E))
        RP_CUDA_LAUNCH((forward_held<T, E, G>), (unsigned)blocks, block, 0, launch->queue->stream,
                       x, y, s, rp_cuda_aligned16(x) && rp_cuda_aligned16(y));
    else
        RP_CUDA_LAUNCH((forward_wide<T>), (unsigned)blocks, WIDE_THREADS, 0, launch->queue->stream,
                       x, y, s);
    return rp_cuda_launched(launch);
}

template <typename T> rp_status run_forward(const rp_launch *launch) {
    const shape s = shape_of(launch);
    const T *x = static_cast<const T *>(launch->in[0]);
    T *y = static_cast<T *>(launch->out[0]);
    if (s.rows == 0 || s.width == 0)
        return RP_OK;
    return RP_CUDA_GROUPED(T, s.width, launch_forward, launch, s, x, y);
}

/* ---- Backward -------------------------------------------------------------------------------- */

template <typename In, typename Out> struct backward_slots {
    const In *y, *dy;
    const Out *sum;
    Out *dx;
    bool aligned;
};

/* dx = y (dy - sum of y dy). */
template <typename In, typename Out, int E, int G>
__global__ void __launch_bounds__(RP_CUDA_HELD_THREADS)
    backward_held(backward_slots<In, Out> b, shape s) {
    __shared__ float scratch[RP_CUDA_MOST_WARPS];
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    const bool active = row < s.rows;
    const int width = active ? (int)s.width : 0, end = active ? (int)visible(s, row) : 0;
    const int64_t at = active ? row * s.width : 0;
    float y[E], dy[E], dot = 0.0f;
    rp_cuda_load_row<E, G>(b.y + at, end, b.aligned, 0.0f, y);
    rp_cuda_load_row<E, G>(b.dy + at, end, b.aligned, 0.0f, dy);
#pragma unroll
    for (int j = 0; j < E; j++) {
        if (G > 1 && rp_cuda_column(j / G, G) + j % G >= end)
            y[j] = dy[j] = 0.0f;
        dot += y[j] * dy[j];
    }
    dot = rp_cuda_reduce_row(dot, rp_cuda_sum(), scratch);
#pragma unroll
    for (int j = 0; j < E; j++)
        y[j] = rp_cuda_column(j / G, G) + j % G < end ? y[j] * (dy[j] - dot) : 0.0f;
    if (b.sum != nullptr)
        rp_cuda_add_row<E, G>(b.sum + at, width, b.aligned, y);
    rp_cuda_store_row<E, G>(b.dx + at, width, b.aligned, y);
}

template <typename In, typename Out>
__global__ void __launch_bounds__(WIDE_THREADS) backward_wide(backward_slots<In, Out> b, shape s) {
    __shared__ float scratch[RP_CUDA_MOST_WARPS];
    const int64_t row = blockIdx.x, at = row * s.width, end = visible(s, row);
    float dot = 0.0f;
    for (int64_t c = threadIdx.x; c < end; c += WIDE_THREADS)
        dot += rp_cuda_widen(b.y[at + c]) * rp_cuda_widen(b.dy[at + c]);
    dot = rp_cuda_reduce_row(dot, rp_cuda_sum(), scratch);
    for (int64_t c = threadIdx.x; c < s.width; c += WIDE_THREADS) {
        float dx = 0.0f;
        if (c < end)
            dx = rp_cuda_widen(b.y[at + c]) * (rp_cuda_widen(b.dy[at + c]) - dot);
        rp_cuda_put(b.dx + at + c, b.sum != nullptr ? rp_cuda_widen(b.sum[at + c]) + dx : dx);
    }
}

template <int G, typename In, typename Out>
rp_status launch_backward(const rp_launch *launch, const shape &s,
                          const backward_slots<In, Out> &b) {
    constexpr int E = 16; /* of two tensors */
    const dim3 block = rp_cuda_row_block(s.width, E, 128);
    const int64_t blocks = block_count<E>(s, block);
    if (blocks < 0)
        return RP_UNSUPPORTED;
    if (rp_cuda_row_fits(s.width, E))
        RP_CUDA_LAUNCH((backward_held<In, Out, E, G>), (unsigned)blocks, block, 0,
                       launch->queue->stream, b, s);
    else
        RP_CUDA_LAUNCH((backward_wide<In, Out>), (unsigned)blocks, WIDE_THREADS, 0,
                       launch->queue->stream, b, s);
    return rp_cuda_launched(launch);
}

template <typename In, typename Out> rp_status run_backward(const rp_launch *launch) {
    const shape s = shape_of(launch);
    const In *y = static_cast<const In *>(launch->in[0]);
    const In *dy = static_cast<const In *>(launch->in[1]);
    const Out *sum = static_cast<const Out *>(rp_cuda_added(launch, 0));
    Out *dx = static_cast<Out *>(launch->out[0]);
    const backward_slots<In, Out> b = {y, dy, sum, dx,
                                       rp_cuda_aligned16(y) && rp_cuda_aligned16(dy) &&
                                           rp_cuda_aligned16(sum) && rp_cuda_aligned16(dx)};
    if (s.rows == 0 || s.width == 0)
        return RP_OK;
    return RP_CUDA_GROUPED(In, s.width, launch_backward, launch, s, b);
}

} // namespace

extern "C" rp_status rp_cuda_softmax(const rp_launch *launch) {
    const rp_dtype dtype = launch->call.in[0].dtype;
    if (launch->call.out[0].dtype != dtype)
        return RP_UNSUPPORTED;
    return dtype == RP_BF16  ? run_forward<rp_cuda_bf16>(launch)
           : dtype == RP_F32 ? run_forward<float>(launch)
                             : RP_UNSUPPORTED;
}

extern "C" rp_status rp_cuda_softmax_backward(const rp_launch *launch) {
    if (launch->call.in[0].dtype != launch->call.in[1].dtype)
        return RP_UNSUPPORTED;
    return RP_CUDA_STORAGE(launch->call.in[0].dtype, launch->call.out[0].dtype, run_backward,
                           launch);
}
