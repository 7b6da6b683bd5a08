/* sum: x [n] -> scalar, times a factor; backward: dy scalar -> dx [n]. sum_leading: x [rows,
 * columns] -> [columns]. loss_seed: -> the loss scale of the step. Nothing is kept. */
#include "elementwise.h"
#include "reduce.h"
#include "row_sums.h"

namespace {

enum { THREADS = 256 };

/* ---- All elements ---------------------------------------------------------------------------- */

struct plain {
    __device__ __forceinline__ double operator()(float x) const { return (double)x; }
};

struct squared {
    __device__ __forceinline__ double operator()(float x) const { return (double)x * (double)x; }
};

/* Of a vector's elements the sum, in pairs. */
template <int N, typename F> __device__ __forceinline__ double add_vector(const float *v, F f) {
    double sum[N];
#pragma unroll
    for (int j = 0; j < N; j++)
        sum[j] = f(v[j]);
#pragma unroll
    for (int half = N / 2; half > 0; half /= 2) {
#pragma unroll
        for (int j = 0; j < N / 2; j++)
            if (j < half)
                sum[j] += sum[j + half];
    }
    return sum[0];
}

/* x [n] -> partial [pieces]: a piece a block. A thread takes every THREADS-th vector, whether it
 * reads it at once or element by element. */
template <typename T, typename F>
__global__ void __launch_bounds__(THREADS)
    sum_pieces(const T *__restrict__ x, double *__restrict__ partial, int64_t n, int64_t length,
               bool aligned, F f) {
    __shared__ double scratch[RP_CUDA_MOST_WARPS];
    constexpr int N = rp_cuda_pack<T>::COUNT;
    const int64_t begin = (int64_t)blockIdx.x * length;
    const int64_t end = begin + length < n ? begin + length : n;
    double sum = 0.0;
#pragma unroll 4
    for (int64_t i = begin + (int64_t)threadIdx.x * N; i < end; i += THREADS * N) {
        float v[N];
        if (aligned && i + N <= end) {
            rp_cuda_load<N>(x + i, v);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++)
                v[j] = i + j < end ? rp_cuda_widen(x[i + j]) : 0.0f;
        }
        sum += add_vector<N>(v, f);
    }
    sum = rp_cuda_reduce_row(sum, rp_cuda_sum(), scratch);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

/* One block: n doubles, 0 or more, to their sum. */
__device__ __forceinline__ double sum_doubles(const double *x, int64_t n) {
    __shared__ double scratch[RP_CUDA_MOST_WARPS];
    double sum = 0.0;
    for (int64_t i = threadIdx.x; i < n; i += THREADS)
        sum += x[i];
    return rp_cuda_reduce_row(sum, rp_cuda_sum(), scratch);
}

__global__ void __launch_bounds__(THREADS)
    sum_finish(const double *__restrict__ partial, float *__restrict__ out, int64_t pieces,
               double factor) {
    const double sum = sum_doubles(partial, pieces);
    if (threadIdx.x == 0)
        *out = (float)(sum * factor);
}

__global__ void __launch_bounds__(THREADS)
    squares_finish(const double *__restrict__ partial, double *__restrict__ out, int64_t pieces) {
    const double sum = sum_doubles(partial, pieces);
    if (threadIdx.x == 0)
        *out = sum;
}

__global__ void __launch_bounds__(THREADS)
    clip_finish(const double *__restrict__ squares, float *__restrict__ out, int64_t n,
                double most) {
    const double norm = sqrt(sum_doubles(squares, n));
    if (threadIdx.x == 0)
        *out = norm > most ? (float)(most / norm) : 1.0f;
}

template <typename F> rp_status run_pieces(const rp_launch *launch, double *partial, F f) {
    const int64_t n = rp_info_count(&launch->call.in[0]);
    const rp_cut cut = rp_cuda_cut_sum(n);
    const bool aligned = rp_cuda_aligned16(launch->in[0]);
    if (!rp_cuda_is_floating(launch->call.in[0].dtype))
        return RP_UNSUPPORTED;
    if (n == 0)
        return RP_OK;
    if (launch->call.in[0].dtype == RP_BF16)
        RP_CUDA_LAUNCH((sum_pieces<rp_cuda_bf16, F>), (unsigned)cut.count, THREADS, 0,
                       launch->queue->stream, static_cast<const rp_cuda_bf16 *>(launch->in[0]),
                       partial, n, cut.length, aligned, f);
    else
        RP_CUDA_LAUNCH((sum_pieces<float, F>), (unsigned)cut.count, THREADS, 0,
                       launch->queue->stream, static_cast<const float *>(launch->in[0]), partial, n,
                       cut.length, aligned, f);
    return RP_OK;
}

int64_t piece_count(const rp_launch *launch) {
    return rp_cuda_cut_sum(rp_info_count(&launch->call.in[0])).count;
}

/* ---- The gradient of a sum ------------------------------------------------------------------- */

/* The same number everywhere. */
struct slope {
    const float *dy;
    float factor;

    __device__ __forceinline__ float one(int64_t) const { return *dy * factor; }
    template <int N> __device__ __forceinline__ void get(int64_t i, float *v) const {
        const float x = one(i);
#pragma unroll
        for (int j = 0; j < N; j++)
            v[j] = x;
    }
};

/* ---- Sums over rows, and seeds --------------------------------------------------------------- */

template <typename T> struct rows_of {
    const T *x;
    int64_t columns;
    bool aligned;

    template <int G> __device__ __forceinline__ void get(int64_t r, int64_t c, float *v) const {
        rp_cuda_load_group<G>(x + r * columns + c, aligned, v);
    }
};

template <typename In, typename Out>
rp_status sum_rows(const rp_launch *launch, int64_t rows, int64_t columns) {
    const In *x = static_cast<const In *>(launch->in[0]);
    const rows_of<In> body = {x, columns, rp_cuda_aligned16(x)};
    const rp_cuda_row_sums sums = {launch->call.in[0].dtype, rows, columns,
                                   static_cast<float *>(launch->workspace)};
    return rp_cuda_run_row_sums<In, Out>(launch, 0, sums, body);
}

__global__ void __launch_bounds__(THREADS)
    seed_loss(const rp_step_state *__restrict__ step, float *__restrict__ dy, int64_t n) {
    if ((int64_t)threadIdx.x < n)
        dy[threadIdx.x] = step->loss_scale;
}

} // namespace

/* f32, whatever is summed. */
extern "C" rp_status rp_cuda_sum(const rp_launch *launch) {
    if (launch->call.out[0].dtype != RP_F32)
        return RP_UNSUPPORTED;
    RP_TRY(run_pieces(launch, static_cast<double *>(launch->workspace), plain()));
    RP_CUDA_LAUNCH(sum_finish, 1, THREADS, 0, launch->queue->stream,
                   static_cast<const double *>(launch->workspace),
                   static_cast<float *>(launch->out[0]), piece_count(launch),
                   (double)launch->call.params->sum.factor);
    return rp_cuda_launched(launch);
}

/* The sum of a single piece is the result: most parameters of a model are that small. */
extern "C" rp_status rp_cuda_sum_squares(const rp_launch *launch) {
    const bool single = piece_count(launch) == 1;
    RP_TRY(run_pieces(launch, static_cast<double *>(single ? launch->out[0] : launch->workspace),
                      squared()));
    if (!single)
        RP_CUDA_LAUNCH(squares_finish, 1, THREADS, 0, launch->queue->stream,
                       static_cast<const double *>(launch->workspace),
                       static_cast<double *>(launch->out[0]), piece_count(launch));
    return rp_cuda_launched(launch);
}

/* squares, f32 [2 n] that stands for n doubles -> scalar min(1, most / the root of their sum) */
extern "C" rp_status rp_cuda_clip_scale(const rp_launch *launch) {
    RP_CUDA_LAUNCH(clip_finish, 1, THREADS, 0, launch->queue->stream,
                   static_cast<const double *>(launch->in[0]), static_cast<float *>(launch->out[0]),
                   rp_info_count(&launch->call.in[0]) / 2,
                   (double)launch->call.params->clip_scale.most);
    return rp_cuda_launched(launch);
}

extern "C" rp_status rp_cuda_sum_backward(const rp_launch *launch) {
    const slope body = {static_cast<const float *>(launch->in[0]), launch->call.params->sum.factor};
    if (launch->call.in[0].dtype != RP_F32)
        return RP_UNSUPPORTED;
    if (launch->call.out[0].dtype == RP_BF16)
        return rp_cuda_run_each<8, rp_cuda_bf16>(launch, body, true);
    return launch->call.out[0].dtype == RP_F32 ? rp_cuda_run_each<4, float>(launch, body, true)
                                               : RP_UNSUPPORTED;
}

/* The bits do not depend on where x lies: its columns are grouped by shape. */
extern "C" rp_status rp_cuda_sum_leading(const rp_launch *launch) {
    const rp_dtype in = launch->call.in[0].dtype;
    const int64_t columns = rp_info_count(&launch->call.out[0]);
    const int64_t rows = columns > 0 ? rp_info_count(&launch->call.in[0]) / columns : 0;
    if (columns == 0)
        return RP_OK;
    return RP_CUDA_STORAGE(in, launch->call.out[0].dtype, sum_rows, launch, rows, columns);
}

extern "C" rp_status rp_cuda_loss_seed(const rp_launch *launch) {
    const int64_t n = rp_info_count(&launch->call.out[0]);
    if (launch->call.out[0].dtype != RP_F32 || n > THREADS)
        return RP_UNSUPPORTED;
    RP_CUDA_LAUNCH(seed_loss, 1, THREADS, 0, launch->queue->stream, launch->step,
                   static_cast<float *>(launch->out[0]), n);
    return rp_cuda_launched(launch);
}
