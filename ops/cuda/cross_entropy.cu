/* cross_entropy: logits [rows, V], targets [rows] -> loss scalar, lse [rows]. backward: logits,
 * targets, lse, dloss scalar -> dlogits [rows, V], which may lie on logits. Kept: logits and the
 * log-sum-exp of each row; probabilities are e^(logit - lse). */
#include "exponential.h"
#include "rows.h"

namespace {

enum { FINISH_THREADS = 1024 };

/* Elements that a thread has on their way: 32 bytes. */
template <typename T> struct held {
    enum { COUNT = 32 / sizeof(T) };
};

typedef struct problem {
    const int32_t *targets;
    int64_t rows, width;
    int32_t ignored;
    bool mean;
} problem;

problem problem_of(const rp_launch *launch) {
    const rp_shape shape = launch->call.in[0].shape;
    const problem p = {static_cast<const int32_t *>(launch->in[1]), rp_row_count(shape),
                       rp_row_length(shape), launch->call.params->cross_entropy.ignore_index,
                       launch->call.params->cross_entropy.reduction == RP_REDUCE_MEAN};
    return p;
}

__device__ __forceinline__ bool is_valid(const problem &p, int32_t target) {
    return target != p.ignored && target >= 0 && target < p.width;
}

/* What the sum over rows is multiplied with; one block. */
__device__ __forceinline__ double weight_of(const problem &p) {
    __shared__ int scratch[RP_CUDA_MOST_WARPS];
    int valid = 0;
    if (!p.mean)
        return 1.0;
    for (int64_t r = threadIdx.x; r < p.rows; r += FINISH_THREADS)
        valid += is_valid(p, p.targets[r]);
    valid = rp_cuda_reduce_row(valid, rp_cuda_sum(), scratch);
    return valid > 0 ? 1.0 / (double)valid : 0.0;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* One pass over the logits: a thread adds up the exponentials of its columns relative to the
 * largest one so far, then the threads of the row merge what they have. */
template <typename T, int E, int G>
__global__ void __launch_bounds__(RP_CUDA_HELD_THREADS)
    row_losses(const T *__restrict__ logits, float *__restrict__ lse, double *__restrict__ losses,
               problem p, bool aligned) {
    __shared__ float2 scratch[RP_CUDA_MOST_WARPS];
    const int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    const bool active = row < p.rows;
    const T *x = logits + (active ? row * p.width : 0);
    const int64_t width = active ? p.width : 0, step = (int64_t)blockDim.x * E;
    rp_cuda_exp_sum seen = rp_cuda_exp_sum_none();
    for (int64_t begin = 0; begin < width; begin += step) {
        float v[E];
        const int64_t left = width - begin;
        rp_cuda_load_row<E, G>(x + begin, left < step ? (int)left : (int)step, aligned, -INFINITY,
                               v);
        seen = rp_cuda_exp_sum_add<T, E>(seen, v);
    }
    seen = rp_cuda_reduce_row(seen, rp_cuda_exp_sum_merge(), scratch);
    if (!active || threadIdx.x != 0)
        return;
    const double log_sum = (double)seen.x + log((double)seen.y);
    const int32_t target = p.targets[row];
    if (lse != nullptr)
        lse[row] = (float)log_sum;
    losses[row] = is_valid(p, target) ? log_sum - (double)rp_cuda_widen(x[target]) : 0.0;
}

__global__ void __launch_bounds__(FINISH_THREADS)
    add_losses(const double *__restrict__ losses, float *__restrict__ loss, problem p) {
    __shared__ double scratch[RP_CUDA_MOST_WARPS];
    double sum = 0.0;
    for (int64_t r = threadIdx.x; r < p.rows; r += FINISH_THREADS)
        sum += losses[r];
    sum = rp_cuda_reduce_row(sum, rp_cuda_sum(), scratch);
    const double weight = weight_of(p);
    if (threadIdx.x == 0)
        *loss = (float)(sum * weight);
}

/* Elements of a row that the threads of a block pass over. */
dim3 block_of(const problem &p, int held) {
    return rp_cuda_row_block(p.width, held, 128);
}

template <int G, typename T>
rp_status launch_losses(const rp_launch *launch, const problem &p, const T *logits) {
    constexpr int E = held<T>::COUNT;
    const dim3 block = block_of(p, E);
    const int64_t blocks = rp_cuda_divide_up(p.rows, block.y);
    if (blocks > RP_CUDA_MOST_BLOCKS)
        return RP_UNSUPPORTED;
    RP_CUDA_LAUNCH((row_losses<T, E, G>), (unsigned)blocks, block, 0, launch->queue->stream, logits,
                   static_cast<float *>(rp_cuda_output(launch, 1)),
                   static_cast<double *>(launch->workspace), p, rp_cuda_aligned16(logits));
    return RP_OK;
}

template <typename T> rp_status run_losses(const rp_launch *launch, const problem &p) {
    const T *logits = static_cast<const T *>(launch->in[0]);
    return RP_CUDA_GROUPED(T, p.width, launch_losses, launch, p, logits);
}

/* ---- Backward -------------------------------------------------------------------------------- */

__global__ void __launch_bounds__(FINISH_THREADS)
    find_factor(const float *__restrict__ dloss, float *__restrict__ factor, problem p) {
    const double weight = weight_of(p);
    if (threadIdx.x == 0)
        *factor = (float)((double)*dloss * weight);
}

/* dlogits = (probability - 1 at the target) g; 0 in a row that does not count, whatever it holds.
 * A block passes over `across` parts of blockDim.y rows. */
template <typename In, typename Out, int E, int G>
__global__ void __launch_bounds__(RP_CUDA_HELD_THREADS)
    backward_kernel(const In *logits, Out *dlogits, const float *__restrict__ lse,
                    const float *__restrict__ factor, problem p, int64_t across, bool aligned) {
    const int64_t row = blockIdx.x / across * blockDim.y + threadIdx.y;
    const int64_t begin = blockIdx.x % across * ((int64_t)blockDim.x * E);
    if (row >= p.rows)
        return;
    const int64_t at = row * p.width + begin, left = p.width - begin;
    const int width = left < (int64_t)blockDim.x * E ? (int)left : (int)blockDim.x * E;
    const int32_t target = p.targets[row];
    float v[E];
    if (is_valid(p, target)) {
        const float log_sum = lse[row], g = *factor;
        const int64_t hit = target - begin;
        rp_cuda_load_row<E, G>(logits + at, width, aligned, 0.0f, v);
#pragma unroll
        for (int j = 0; j < E; j++) {
            const float probability = rp_cuda_math<In>::exp(v[j] - log_sum);
            v[j] = (rp_cuda_column(j / G, G) + j % G == hit ? probability - 1.0f : probability) * g;
        }
    } else {
#pragma unroll
        for (int j = 0; j < E; j++)
            v[j] = 0.0f;
    }
    rp_cuda_store_row<E, G>(dlogits + at, width, aligned, v);
}

template <int G, typename In, typename Out>
rp_status launch_backward(const rp_launch *launch, const problem &p, const In *logits,
                          Out *dlogits) {
    constexpr int E = held<In>::COUNT;
    const dim3 block = block_of(p, E);
    const int64_t across = rp_cuda_divide_up(p.width, (int64_t)block.x * E);
    const int64_t down = rp_cuda_divide_up(p.rows, block.y);
    if (down > RP_CUDA_MOST_BLOCKS / across)
        return RP_UNSUPPORTED;
    RP_CUDA_LAUNCH((backward_kernel<In, Out, E, G>), (unsigned)(down * across), block, 0,
                   launch->queue->stream, logits, dlogits,
                   static_cast<const float *>(launch->in[2]),
                   static_cast<const float *>(launch->workspace), p, across,
                   rp_cuda_aligned16(logits) && rp_cuda_aligned16(dlogits));
    return rp_cuda_launched(launch);
}

template <typename In, typename Out>
rp_status run_backward(const rp_launch *launch, const problem &p) {
    const In *logits = static_cast<const In *>(launch->in[0]);
    Out *dlogits = static_cast<Out *>(launch->out[0]);
    return RP_CUDA_GROUPED(In, p.width, launch_backward, launch, p, logits, dlogits);
}

} // namespace

extern "C" rp_status rp_cuda_cross_entropy(const rp_launch *launch) {
    const problem p = problem_of(launch);
    const rp_dtype dtype = launch->call.in[0].dtype;
    if (!rp_cuda_is_floating(dtype) || launch->call.out[0].dtype != RP_F32 ||
        !rp_cuda_is(rp_cuda_out_dtype(launch, 1), RP_F32))
        return RP_UNSUPPORTED;
    if (p.rows > 0)
        RP_TRY((dtype == RP_BF16 ? run_losses<rp_cuda_bf16> : run_losses<float>)(launch, p));
    RP_CUDA_LAUNCH(add_losses, 1, FINISH_THREADS, 0, launch->queue->stream,
                   static_cast<const double *>(launch->workspace),
                   static_cast<float *>(launch->out[0]), p);
    return rp_cuda_launched(launch);
}

extern "C" rp_status rp_cuda_cross_entropy_backward(const rp_launch *launch) {
    const problem p = problem_of(launch);
    if (launch->call.in[2].dtype != RP_F32 || launch->call.in[3].dtype != RP_F32)
        return RP_UNSUPPORTED;
    if (p.rows == 0 || p.width == 0)
        return RP_OK;
    RP_CUDA_LAUNCH(find_factor, 1, FINISH_THREADS, 0, launch->queue->stream,
                   static_cast<const float *>(launch->in[3]),
                   static_cast<float *>(launch->workspace), p);
    return RP_CUDA_STORAGE(launch->call.in[0].dtype, launch->call.out[0].dtype, run_backward,
                           launch, p);
}
