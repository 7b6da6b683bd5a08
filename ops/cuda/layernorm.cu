/* layernorm: x [rows, C], weight [C], bias [C] or absent -> y [rows, C], stats [rows, 2].
 * backward: x, stats, weight, dy -> dx [rows, C], dweight [C], dbias [C], each present or absent.
 * Kept: x and of each row its mean and 1 / sqrt(variance + eps); normalising again costs less than
 * reading a kept y. */
#include "row_sums.h"
#include "rows.h"

namespace {

enum { WIDE_THREADS = 512 };

/* Elements of a row that a thread holds: in forward 64 bytes, or 16 elements one by one; in
 * backward rp_cuda_norm_held, of two tensors and two rows. */
template <typename T, int G> struct held {
    enum { FORWARD = G > 1 ? 64 / sizeof(T) : 16, BACKWARD = G == 8 ? 16 : 8 };
};

/* ---- Forward --------------------------------------------------------------------------------- */

template <typename T> struct forward_slots {
    const T *x, *weight, *bias;
    T *y;
    float *stats;
    int64_t rows, width;
    float eps;
    bool aligned;
};

template <typename T>
__device__ __forceinline__ void put_stats(const forward_slots<T> &s, int64_t row, float mean,
                                          float scale) {
    if (s.stats == nullptr || threadIdx.x != 0)
        return;
    s.stats[2 * row] = mean;
    s.stats[2 * row + 1] = scale;
}

template <typename T, int E, int G>
__global__ void __launch_bounds__(RP_CUDA_HELD_THREADS) forward_held(forward_slots<T> s) {
    __shared__ float scratch[RP_CUDA_MOST_WARPS];
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    const bool active = row < s.rows;
    const int width = active ? (int)s.width : 0;
    const int64_t at = active ? row * s.width : 0;
    const float count = (float)s.width;
    float v[E], sum = 0.0f, squares = 0.0f;
    rp_cuda_load_row<E, G>(s.x + at, width, s.aligned, 0.0f, v);
#pragma unroll
    for (int j = 0; j < E; j++)
        sum += v[j];
    const float mean = rp_cuda_reduce_row(sum, rp_cuda_sum(), scratch) / count;
#pragma unroll
    for (int j = 0; j < E; j++) {
        v[j] -= mean;
        if (rp_cuda_column(j / G, G) < width)
            squares += v[j] * v[j];
    }
    squares = rp_cuda_reduce_row(squares, rp_cuda_sum(), scratch);
    const float scale = 1.0f / sqrtf(squares / count + s.eps);
#pragma unroll
    for (int k = 0; k < E / G; k++) {
        const int c = rp_cuda_column(k, G);
        float w[G];
        if (c >= width)
            continue;
        rp_cuda_load_group<G>(s.weight + c, s.aligned, w);
#pragma unroll
        for (int j = 0; j < G; j++)
            v[k * G + j] *= scale * w[j];
        if (s.bias != nullptr) {
            rp_cuda_load_group<G>(s.bias + c, s.aligned, w);
#pragma unroll
            for (int j = 0; j < G; j++)
                v[k * G + j] += w[j];
        }
        rp_cuda_store_group<G>(s.y + at + c, s.aligned, v + k * G);
    }
    if (active)
        put_stats(s, row, mean, scale);
}

/* A row that no block holds: a block reads it three times. Each thread writes what it has read. */
template <typename T>
__global__ void __launch_bounds__(WIDE_THREADS) forward_wide(forward_slots<T> s) {
    __shared__ float scratch[RP_CUDA_MOST_WARPS];
    const int64_t row = blockIdx.x, at = row * s.width;
    const float count = (float)s.width;
    float sum = 0.0f, squares = 0.0f;
    for (int64_t c = threadIdx.x; c < s.width; c += WIDE_THREADS)
        sum += rp_cuda_widen(s.x[at + c]);
    const float mean = rp_cuda_reduce_row(sum, rp_cuda_sum(), scratch) / count;
    for (int64_t c = threadIdx.x; c < s.width; c += WIDE_THREADS) {
        const float centered = rp_cuda_widen(s.x[at + c]) - mean;
        squares += centered * centered;
    }
    squares = rp_cuda_reduce_row(squares, rp_cuda_sum(), scratch);
    const float scale = 1.0f / sqrtf(squares / count + s.eps);
    for (int64_t c = threadIdx.x; c < s.width; c += WIDE_THREADS) {
        const float n = (rp_cuda_widen(s.x[at + c]) - mean) * scale * rp_cuda_widen(s.weight[c]);
        rp_cuda_put(s.y + at + c, s.bias != nullptr ? n + rp_cuda_widen(s.bias[c]) : n);
    }
    put_stats(s, row, mean, scale);
}

template <int G, typename T>
rp_status launch_forward(const rp_launch *launch, const forward_slots<T> &s) {
    constexpr int E = held<T, G>::FORWARD;
    const bool fits = rp_cuda_row_fits(s.width, E);
    const dim3 block = rp_cuda_row_block(s.width, E, 128);
    const int64_t blocks = fits ? rp_cuda_divide_up(s.rows, block.y) : s.rows;
    if (blocks > RP_CUDA_MOST_BLOCKS)
        return RP_UNSUPPORTED;
    if (!fits)
        RP_CUDA_LAUNCH((forward_wide<T>), (unsigned)blocks, WIDE_THREADS, 0, launch->queue->stream,
                       s);
    else
        RP_CUDA_LAUNCH((forward_held<T, E, G>), (unsigned)blocks, block, 0, launch->queue->stream,
                       s);
    return rp_cuda_launched(launch);
}

template <typename T> rp_status run_forward(const rp_launch *launch) {
    const rp_shape shape = launch->call.in[0].shape;
    const T *x = static_cast<const T *>(launch->in[0]);
    const T *weight = static_cast<const T *>(launch->in[1]);
    const T *bias = static_cast<const T *>(rp_cuda_input(launch, 2));
    T *y = static_cast<T *>(launch->out[0]);
    const forward_slots<T> s = {x,
                                weight,
                                bias,
                                y,
                                static_cast<float *>(rp_cuda_output(launch, 1)),
                                rp_row_count(shape),
                                rp_row_length(shape),
                                launch->call.params->layernorm.eps,
                                rp_cuda_aligned16(x) && rp_cuda_aligned16(weight) &&
                                    rp_cuda_aligned16(bias) && rp_cuda_aligned16(y)};
    if (s.rows == 0)
        return RP_OK;
    return RP_CUDA_GROUPED(T, s.width, launch_forward, launch, s);
}

/* ---- Backward -------------------------------------------------------------------------------- */

template <typename In, typename Out> struct backward_slots {
    const In *x, *weight, *dy;
    const float *stats;
    const Out *sum;
    Out *dx;
    float *dweight, *dbias; /* [pieces, C] of sums */
    int64_t rows, width, length;
    bool aligned;
};

/* dx = scale (g - mean of g - n(x) mean of (g n(x))), with g = dy weight and n(x) the normalised x;
 * of g and of g (x - mean) these are the sums over the row. */
__device__ __forceinline__ float input_gradient(float g, float centered, float scale,
                                                float2 means) {
    return scale * (g - means.x - centered * (means.y * scale * scale));
}

/* The thread's gradients of parameters, of all rows of the block together, to its piece: row after
 * row of the block. `line`: shared memory for a row. */
template <int E, int G>
__device__ __forceinline__ void put_piece(float *piece, float *line, int width, const float *v) {
    for (int y = 0; y < (int)blockDim.y; y++) {
        if (y == (int)threadIdx.y) {
#pragma unroll
            for (int j = 0; j < E; j++) {
                const int c = rp_cuda_column(j / G, G) + j % G;
                if (c >= width)
                    continue;
                const float sum = y > 0 ? line[c] + v[j] : v[j];
                if (y + 1 < (int)blockDim.y)
                    line[c] = sum;
                else
                    piece[c] = sum;
            }
        }
        __syncthreads();
    }
}

/* A thread's part of a row as it lies in memory. */
template <typename In, int E, int G> struct raw_row {
    rp_cuda_raw<In, G> x[E / G], dy[E / G];
    float mean, scale;
};

template <typename In, typename Out, int E, int G>
__device__ __forceinline__ void load_raw_row(const backward_slots<In, Out> &s, int64_t row,
                                             int64_t bottom, raw_row<In, E, G> *r) {
    if (row >= bottom)
        return;
    const int64_t at = row * s.width;
    r->mean = s.stats[2 * row];
    r->scale = s.stats[2 * row + 1];
#pragma unroll
    for (int k = 0; k < E / G; k++) {
        const int c = rp_cuda_column(k, G);
        if (c >= (int)s.width)
            continue;
        rp_cuda_load_raw(s.x + at + c, s.aligned, &r->x[k]);
        rp_cuda_load_raw(s.dy + at + c, s.aligned, &r->dy[k]);
    }
}

/* Adds to the gradients of parameters what group k gives, and returns its part of the sums over the
 * row of g and of g (x - mean). */
template <typename In, typename Out, int E, int G>
__device__ __forceinline__ float2 add_group(const backward_slots<In, Out> &s,
                                            const raw_row<In, E, G> &r, int k, float *dweight,
                                            float *dbias) {
    float x[G], dy[G], w[G];
    float2 sums = make_float2(0.0f, 0.0f);
    rp_cuda_widen_raw(r.x[k], x);
    rp_cuda_widen_raw(r.dy[k], dy);
#pragma unroll
    for (int j = 0; j < G; j++) {
        x[j] -= r.mean;
        dweight[k * G + j] += dy[j] * (x[j] * r.scale);
        dbias[k * G + j] += dy[j];
    }
    if (s.dx == nullptr)
        return sums;
    rp_cuda_load_group<G>(s.weight + rp_cuda_column(k, G), s.aligned, w);
#pragma unroll
    for (int j = 0; j < G; j++) {
        sums.x += dy[j] * w[j];
        sums.y += dy[j] * w[j] * x[j];
    }
    return sums;
}

/* Group k of dx. */
template <typename In, typename Out, int E, int G>
__device__ __forceinline__ void put_group(const backward_slots<In, Out> &s,
                                          const raw_row<In, E, G> &r, int k, int64_t row,
                                          float2 means) {
    const int c = rp_cuda_column(k, G);
    const int64_t at = row * s.width + c;
    float x[G], dy[G], w[G];
    rp_cuda_widen_raw(r.x[k], x);
    rp_cuda_widen_raw(r.dy[k], dy);
    rp_cuda_load_group<G>(s.weight + c, s.aligned, w);
#pragma unroll
    for (int j = 0; j < G; j++)
        dy[j] = input_gradient(dy[j] * w[j], x[j] - r.mean, r.scale, means);
    if (s.sum != nullptr) {
        rp_cuda_load_group<G>(s.sum + at, s.aligned, w);
#pragma unroll
        for (int j = 0; j < G; j++)
            dy[j] += w[j];
    }
    rp_cuda_store_group<G>(s.dx + at, s.aligned, dy);
}

/* A block takes a piece of the rows, blockDim.y at a time, and adds up in registers what they give
 * to dweight and dbias. The next row is on its way while one is worked on. */
template <typename In, typename Out, int E, int G>
__global__ void __launch_bounds__(RP_CUDA_HELD_THREADS) backward_held(backward_slots<In, Out> s) {
    RP_CUDA_SHARED(float, line);
    __shared__ float2 scratch[RP_CUDA_MOST_WARPS];
    const int64_t top = (int64_t)blockIdx.x * s.length;
    const int64_t bottom = top + s.length < s.rows ? top + s.length : s.rows;
    const float count = (float)s.width;
    raw_row<In, E, G> r = {}, next = {};
    float dweight[E], dbias[E];
#pragma unroll
    for (int j = 0; j < E; j++)
        dweight[j] = dbias[j] = 0.0f;
    load_raw_row(s, top + threadIdx.y, bottom, &r);
    for (int64_t first = top; first < bottom; first += blockDim.y) {
        const int64_t row = first + threadIdx.y;
        float2 sums = make_float2(0.0f, 0.0f);
        load_raw_row(s, row + blockDim.y, bottom, &next);
#pragma unroll
        for (int k = 0; k < E / G; k++)
            if (row < bottom && rp_cuda_column(k, G) < (int)s.width)
                sums = rp_cuda_sum()(sums, add_group(s, r, k, dweight, dbias));
        if (s.dx != nullptr) {
            sums = rp_cuda_reduce_row(sums, rp_cuda_sum(), scratch);
            const float2 means = make_float2(sums.x / count, sums.y / count);
#pragma unroll
            for (int k = 0; k < E / G; k++)
                if (row < bottom && rp_cuda_column(k, G) < (int)s.width)
                    put_group(s, r, k, row, means);
        }
        r = next;
    }
    if (s.dweight != nullptr)
        put_piece<E, G>(s.dweight + blockIdx.x * s.width, line, (int)s.width, dweight);
    if (s.dbias != nullptr)
        put_piece<E, G>(s.dbias + blockIdx.x * s.width, line, (int)s.width, dbias);
}

/* dx of a row that no block holds. */
template <typename In, typename Out>
__global__ void __launch_bounds__(WIDE_THREADS) backward_wide(backward_slots<In, Out> s) {
    __shared__ float2 scratch[RP_CUDA_MOST_WARPS];
    const int64_t row = blockIdx.x, at = row * s.width;
    const float count = (float)s.width, mean = s.stats[2 * row], scale = s.stats[2 * row + 1];
    float2 sums = make_float2(0.0f, 0.0f);
    for (int64_t c = threadIdx.x; c < s.width; c += WIDE_THREADS) {
        const float g = rp_cuda_widen(s.dy[at + c]) * rp_cuda_widen(s.weight[c]);
        sums.x += g;
        sums.y += g * (rp_cuda_widen(s.x[at + c]) - mean);
    }
    sums = rp_cuda_reduce_row(sums, rp_cuda_sum(), scratch);
    const float2 means = make_float2(sums.x / count, sums.y / count);
    for (int64_t c = threadIdx.x; c < s.width; c += WIDE_THREADS) {
        const float g = rp_cuda_widen(s.dy[at + c]) * rp_cuda_widen(s.weight[c]);
        const float dx = input_gradient(g, rp_cuda_widen(s.x[at + c]) - mean, scale, means);
        rp_cuda_put(s.dx + at + c, s.sum != nullptr ? rp_cuda_widen(s.sum[at + c]) + dx : dx);
    }
}

/* The rows whose sum is dweight, or dbias, where dx is made apart from them. */
template <typename In> struct parameter_rows {
    const In *x, *dy;
    const float *stats;
    int64_t width;
    bool aligned, of_weight;

    template <int G> __device__ __forceinline__ void get(int64_t r, int64_t c, float *v) const {
        rp_cuda_load_group<G>(dy + r * width + c, aligned, v);
        if (!of_weight)
            return;
        const float mean = stats[2 * r], scale = stats[2 * r + 1];
        float n[G];
        rp_cuda_load_group<G>(x + r * width + c, aligned, n);
#pragma unroll
        for (int j = 0; j < G; j++)
            v[j] *= (n[j] - mean) * scale;
    }
};

template <typename In>
rp_status run_parameter_rows(const rp_launch *launch, size_t k, const rp_cuda_row_sums &sums,
                             const parameter_rows<In> &body) {
    if (launch->out[k] == nullptr)
        return RP_OK;
    return launch->call.out[k].dtype == RP_BF16
               ? rp_cuda_run_row_sums<In, rp_cuda_bf16>(launch, k, sums, body)
               : rp_cuda_run_row_sums<In, float>(launch, k, sums, body);
}

/* dx before the gradients of parameters would be wrong where it lies on x or dy. */
template <typename In, typename Out>
rp_status run_backward_wide(const rp_launch *launch, const backward_slots<In, Out> &s) {
    const rp_cuda_row_sums sums = {launch->call.in[0].dtype, s.rows, s.width,
                                   static_cast<float *>(launch->workspace)};
    parameter_rows<In> body = {s.x, s.dy, s.stats, s.width, s.aligned, true};
    RP_TRY(run_parameter_rows(launch, 1, sums, body));
    body.of_weight = false;
    RP_TRY(run_parameter_rows(launch, 2, sums, body));
    if (s.dx == nullptr || s.rows == 0)
        return RP_OK;
    if (s.rows > RP_CUDA_MOST_BLOCKS)
        return RP_UNSUPPORTED;
    RP_CUDA_LAUNCH((backward_wide<In, Out>), (unsigned)s.rows, WIDE_THREADS, 0,
                   launch->queue->stream, s);
    return rp_cuda_launched(launch);
}

template <int G, typename In, typename Out>
rp_status launch_backward_held(const rp_launch *launch, const backward_slots<In, Out> &s,
                               int64_t pieces) {
    constexpr int E = held<In, G>::BACKWARD;
    const dim3 block = rp_cuda_row_block(s.width, E, 256);
    const size_t line = block.y > 1 ? (size_t)s.width * sizeof(float) : 0;
    if (pieces > 0)
        RP_CUDA_LAUNCH((backward_held<In, Out, E, G>), (unsigned)pieces, block, line,
                       launch->queue->stream, s);
    return rp_cuda_launched(launch);
}

rp_status add_pieces(const rp_launch *launch, size_t k, const float *sums, int64_t pieces,
                     int64_t width) {
    if (launch->out[k] == nullptr)
        return RP_OK;
    return launch->call.out[k].dtype == RP_BF16
               ? rp_cuda_run_add_pieces<rp_cuda_bf16>(launch, k, sums, pieces, width)
               : rp_cuda_run_add_pieces<float>(launch, k, sums, pieces, width);
}

/* Workspace: [pieces, C] sums for the weight, then for the bias, those that are wanted. */
template <typename In, typename Out> rp_status run_backward(const rp_launch *launch) {
    const rp_shape shape = launch->call.in[0].shape;
    const int64_t rows = rp_row_count(shape), width = rp_row_length(shape);
    const rp_cut cut = rp_cuda_cut_norm(launch->call.in[0].dtype, rows, width);
    float *sums = static_cast<float *>(launch->workspace);
    backward_slots<In, Out> s = {};
    s.x = static_cast<const In *>(launch->in[0]);
    s.stats = static_cast<const float *>(launch->in[1]);
    s.weight = static_cast<const In *>(launch->in[2]);
    s.dy = static_cast<const In *>(launch->in[3]);
    s.sum = static_cast<const Out *>(rp_cuda_added(launch, 0));
    s.dx = static_cast<Out *>(launch->out[0]);
    s.dweight = launch->out[1] != nullptr ? sums : nullptr;
    s.dbias = launch->out[2] == nullptr   ? nullptr
              : launch->out[1] != nullptr ? sums + cut.count * width
                                          : sums;
    s.rows = rows;
    s.width = width;
    s.length = cut.length;
    s.aligned = rp_cuda_aligned16(s.x) && rp_cuda_aligned16(s.weight) && rp_cuda_aligned16(s.dy) &&
                rp_cuda_aligned16(s.sum) && rp_cuda_aligned16(s.dx);
    if (width == 0)
        return RP_OK;
    if (width > rp_cuda_norm_widest(launch->call.in[0].dtype, width))
        return run_backward_wide(launch, s);
    RP_TRY(RP_CUDA_GROUPED(In, width, launch_backward_held, launch, s, cut.count));
    RP_TRY(add_pieces(launch, 1, s.dweight, cut.count, width));
    return add_pieces(launch, 2, s.dbias, cut.count, width);
}

bool stored_as(rp_dtype dtype, const rp_tensor_info *infos, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!rp_cuda_is(infos[i].dtype, dtype))
            return false;
    return true;
}

} // namespace

extern "C" rp_status rp_cuda_layernorm(const rp_launch *launch) {
    const rp_dtype dtype = launch->call.in[0].dtype;
    if (!stored_as(dtype, launch->call.in, launch->call.in_count) ||
        launch->call.out[0].dtype != dtype || !rp_cuda_is(rp_cuda_out_dtype(launch, 1), RP_F32))
        return RP_UNSUPPORTED;
    return dtype == RP_BF16  ? run_forward<rp_cuda_bf16>(launch)
           : dtype == RP_F32 ? run_forward<float>(launch)
                             : RP_UNSUPPORTED;
}

extern "C" rp_status rp_cuda_layernorm_backward(const rp_launch *launch) {
    const rp_tensor_info *in = launch->call.in, *out = launch->call.out;
    const rp_dtype dtype = in[0].dtype, dx = out[0].dtype;
    if (in[1].dtype != RP_F32 || !rp_cuda_is(in[2].dtype, dtype) || in[3].dtype != dtype)
        return RP_UNSUPPORTED;
    for (int k = 1; k < 3; k++)
        if (!rp_cuda_is(out[k].dtype, dtype) && out[k].dtype != RP_F32)
            return RP_UNSUPPORTED;
    return RP_CUDA_STORAGE(dtype, dx == RP_NO_DTYPE ? dtype : dx, run_backward, launch);
}
