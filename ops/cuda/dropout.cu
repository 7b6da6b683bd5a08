/* dropout: x [n] -> y [n], y = x / (1 - p) where the element's random word says keep, else 0.
 * Nothing is kept: the same words are drawn again from (seed, step, micro-batch, stream, index). */
#include "random.h"
#include "vector.h"

namespace {

enum { THREADS = 256, VECTORS = 2 };

typedef struct drawing {
    uint32_t stream, threshold;
    float factor;
    bool keeps_all;
} drawing;

/* The factors, 0 where dropped, of elements [4 block, 4 block + 4). */
__device__ __forceinline__ void draw_factors(const uint32_t key[2], const drawing &d,
                                             uint64_t block, float *factors) {
    const rp_philox drawn = rp_random_block(key, d.stream, block);
#pragma unroll
    for (int j = 0; j < 4; j++)
        factors[j] = drawn.word[j] >= d.threshold ? d.factor : 0.0f;
}

/* A dropped NaN is 0, too. */
__device__ __forceinline__ float drop(float x, float factor) {
    return factor == 0.0f ? 0.0f : factor * x;
}

/* N elements of each of a thread's vectors, a multiple of 4. The key, one more drawing, is drawn
 * once a block, while the vectors are on their way. */
template <typename In, typename Out, int N>
__global__ void __launch_bounds__(THREADS)
    dropout_kernel(const In *x, const Out *sum, Out *y, const rp_step_state *step, drawing d,
                   int64_t count, bool aligned) {
    __shared__ uint32_t shared_key[2];
    constexpr int64_t block = (int64_t)THREADS * VECTORS * N;
    const int64_t begin = (int64_t)blockIdx.x * block, first = begin + (int64_t)threadIdx.x * N;
    const bool whole = aligned && begin + block <= count;
    float v[VECTORS][N];
#pragma unroll
    for (int u = 0; u < VECTORS; u++) {
        const int64_t at = first + u * THREADS * N;
        if (whole) {
            rp_cuda_load<N>(x + at, v[u]);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++)
                v[u][j] = at + j < count ? rp_cuda_widen(x[at + j]) : 0.0f;
        }
    }
    if (threadIdx.x == 0)
        rp_random_key(step->seed, step->step, step->micro_batch, shared_key);
    __syncthreads();
    const uint32_t key[2] = {shared_key[0], shared_key[1]};
    const bool keeps_all = d.keeps_all || step->evaluate;
#pragma unroll
    for (int u = 0; u < VECTORS; u++) {
        const int64_t at = first + u * THREADS * N;
        if (!keeps_all) {
#pragma unroll
            for (int j = 0; j < N; j += 4) {
                float factors[4];
                draw_factors(key, d, (uint64_t)(at + j) / 4, factors);
#pragma unroll
                for (int k = 0; k < 4; k++)
                    v[u][j + k] = drop(v[u][j + k], factors[k]);
            }
        }
        if (whole) {
            if (sum != nullptr) {
                float added[N];
                rp_cuda_load<N>(sum + at, added);
#pragma unroll
                for (int j = 0; j < N; j++)
                    v[u][j] += added[j];
            }
            rp_cuda_store<N>(y + at, v[u]);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++)
                if (at + j < count)
                    rp_cuda_put(y + at + j,
                                sum != nullptr ? rp_cuda_widen(sum[at + j]) + v[u][j] : v[u][j]);
        }
    }
}

template <typename In, typename Out> rp_status run(const rp_launch *launch) {
    enum { N = rp_cuda_pack<In, Out>::COUNT };
    const float p = launch->call.params->dropout.p;
    const drawing d = {launch->call.params->dropout.stream, rp_dropout_threshold(p),
                       1.0f / (1.0f - p), p == 0.0f};
    const int64_t count = rp_info_count(&launch->call.out[0]);
    const int64_t blocks = rp_cuda_divide_up(count, (int64_t)THREADS * VECTORS * N);
    const In *x = static_cast<const In *>(launch->in[0]);
    const Out *sum = static_cast<const Out *>(rp_cuda_added(launch, 0));
    Out *y = static_cast<Out *>(launch->out[0]);
    if (count == 0)
        return RP_OK;
    if (blocks > RP_CUDA_MOST_BLOCKS)
        return RP_UNSUPPORTED;
    RP_CUDA_LAUNCH((dropout_kernel<In, Out, N>), (unsigned)blocks, THREADS, 0,
                   launch->queue->stream, x, sum, y, launch->step, d, count,
                   rp_cuda_aligned16(x) && rp_cuda_aligned16(sum) && rp_cuda_aligned16(y));
    return rp_cuda_launched(launch);
}

} // namespace

extern "C" rp_status rp_cuda_dropout(const rp_launch *launch) {
    return RP_CUDA_STORAGE(launch->call.in[0].dtype, launch->call.out[0].dtype, run, launch);
}
