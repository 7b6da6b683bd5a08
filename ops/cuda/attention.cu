/* attention, fused: scores are made, used and forgotten, 32 keys at a time (Milakov & Gimelshein
 * 2018, online softmax; Dao et al. 2022, FlashAttention). Arithmetic in f32, whatever the
 * storage. */
#include "attention_tiles.h"

namespace {

/* Scores of one thread's rows and columns become probabilities up to a factor of the row; what was
 * summed before shrinks. A row that has seen nothing is relative to 0, as -inf - -inf is no
 * number. */
template <int R, int PARTS>
__device__ __forceinline__ void exponentials(float (&scores)[R][4], float (&top)[R],
                                             float (&sum)[R], float4 (&out)[R][PARTS]) {
#pragma unroll
    for (int i = 0; i < R; i++) {
        float high = top[i], total = 0.0f;
#pragma unroll
        for (int j = 0; j < 4; j++)
            high = fmaxf(high, scores[i][j]);
        high = rp_tile_row_max(high);
        const float base = high == -INFINITY ? 0.0f : high, shrink = exp2f(top[i] - base);
        top[i] = high;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            scores[i][j] = exp2f(scores[i][j] - base);
            total += scores[i][j];
        }
        sum[i] = sum[i] * shrink + rp_tile_row_sum(total);
#pragma unroll
        for (int part = 0; part < PARTS; part++) {
            out[i][part].x *= shrink;
            out[i][part].y *= shrink;
            out[i][part].z *= shrink;
            out[i][part].w *= shrink;
        }
    }
}

/* q [B, T, H, D], k and v [B, T', H', D] by strides -> o [B, T, H D], lse [B, H, T] or absent.
 * Kept of the scores: nothing but lse. */
template <typename T, int D, bool WIDE>
__global__ void __launch_bounds__(RP_TILE_THREADS)
    attention_forward(rp_cuda_attention_job job, T *__restrict__ o, float *__restrict__ lse,
                      int64_t blocks, int chunks, bool store_vector) {
    typedef rp_tile<D> tile;
    constexpr int R = tile::R;
    RP_CUDA_SHARED(float, shared);
    float *q_tile = shared, *k_tile = q_tile + tile::ROWS_FLOATS;
    float *v_tile = k_tile + tile::COLUMNS_FLOATS, *p_tile = v_tile + tile::COLUMNS_FLOATS;
    const rp_attention_layout &l = job.l;
    const int size = (int)l.size, group = (int)threadIdx.x / RP_TILE_LANES;
    const int lane = (int)threadIdx.x % RP_TILE_LANES;
    const int column = WIDE ? (int)(blockIdx.x % (unsigned)chunks) * D : 0;
    const rp_cuda_place at = rp_cuda_place_make(blockIdx.x / (unsigned)chunks, l.heads, l.batch,
                                                blocks, tile::ROWS, true);
    const int64_t left = l.queries - at.begin, count = left < tile::ROWS ? left : tile::ROWS;
    const T *q = (const T *)job.q + (at.b * l.queries + at.begin) * l.q_stride + at.h * l.size;
    const T *k = (const T *)job.k + at.b * l.keys * l.kv_stride + at.h / l.group * l.size;
    const T *v = (const T *)job.v + at.b * l.keys * l.kv_stride + at.h / l.group * l.size;
    const rp_cuda_drawing drawing = rp_cuda_drawing_begin(job);
    const int64_t first = at.begin + group * R, head = at.b * l.heads + at.h;
    const int64_t end = rp_cuda_visible(job, at.begin + count - 1);
    float4 out[R][tile::PARTS];
    float top[R], sum[R];
#pragma unroll
    for (int i = 0; i < R; i++) {
        top[i] = -INFINITY;
        sum[i] = 0.0f;
#pragma unroll
        for (int part = 0; part < tile::PARTS; part++)
            out[i][part] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    }
    if (!WIDE)
        rp_tile_load<D, tile::ROWS, false>(q_tile, q, l.q_stride, count, size, job.vector);
    for (int64_t j0 = 0; j0 < end; j0 += RP_TILE_COLUMNS) {
        float scores[R][4];
        __syncthreads();
        if (!WIDE)
            rp_tile_load<D, RP_TILE_COLUMNS, true>(k_tile, k + j0 * l.kv_stride, l.kv_stride,
                                                   l.keys - j0, size, job.vector);
        rp_tile_load<D, RP_TILE_COLUMNS, true>(v_tile, v + j0 * l.kv_stride + column, l.kv_stride,
                                               l.keys - j0, size - column, job.vector);
        __syncthreads();
        rp_tile_scores<D, WIDE>(
            scores, q_tile, k_tile, rp_tile_source<T>{q, l.q_stride, count, job.vector},
            rp_tile_source<T>{k + j0 * l.kv_stride, l.kv_stride, l.keys - j0, job.vector}, size);
        const int64_t key = j0 + lane * 4;
#pragma unroll
        for (int i = 0; i < R; i++) {
            const int64_t visible = rp_cuda_visible(job, first + i);
#pragma unroll
            for (int j = 0; j < 4; j++)
                scores[i][j] = key + j < visible ? scores[i][j] * job.base2_scale : -INFINITY;
        }
        exponentials<R, tile::PARTS>(scores, top, sum, out);
        if (drawing.on) {
#pragma unroll
            for (int i = 0; i < R; i++) {
                const uint64_t row = (uint64_t)(head * l.queries + first + i);
                const float4 f = rp_cuda_draw4(drawing, row * (uint64_t)l.keys + (uint64_t)key);
                scores[i][0] *= f.x;
                scores[i][1] *= f.y;
                scores[i][2] *= f.z;
                scores[i][3] *= f.w;
            }
        }
        rp_tile_share(p_tile, scores);
        rp_tile_add<D>(out, p_tile, v_tile);
    }
#pragma unroll
    for (int i = 0; i < R; i++) {
        if (first + i >= l.queries)
            continue;
        const float factor = sum[i] == 0.0f ? 0.0f : 1.0f / sum[i];
        T *row = o + (at.b * l.queries + first + i) * l.o_stride + at.h * l.size + column;
        rp_tile_store<D>(row, (const T *)nullptr, out[i], factor, size - column, store_vector);
        if (lse != nullptr && lane == 0 && column == 0)
            lse[head * l.queries + first + i] =
                sum[i] == 0.0f ? -INFINITY : (top[i] + log2f(sum[i])) * RP_CUDA_LN_2;
    }
}

template <typename T, int D, bool WIDE> cudaError_t launch_forward(const rp_launch *launch) {
    typedef rp_tile<D> tile;
    const rp_cuda_attention_job job = rp_cuda_attention_make(launch);
    const rp_attention_layout *l = &job.l;
    const size_t bytes =
        (tile::ROWS_FLOATS + 2 * tile::COLUMNS_FLOATS + tile::PRODUCT_FLOATS) * sizeof(float);
    const int64_t blocks = (l->queries + tile::ROWS - 1) / tile::ROWS;
    const int64_t chunks = WIDE ? (l->size + D - 1) / D : 1;
    const int64_t grid = blocks * l->heads * l->batch * chunks;
    if (grid == 0)
        return cudaSuccess;
    if (grid > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    const cudaError_t error =
        cudaFuncSetAttribute((const void *)attention_forward<T, D, WIDE>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess)
        return error;
    RP_CUDA_LAUNCH(
        (attention_forward<T, D, WIDE>), (unsigned)grid, RP_TILE_THREADS, bytes,
        launch->queue->stream, job, (T *)launch->out[0], (float *)rp_cuda_output(launch, 1), blocks,
        (int)chunks,
        rp_cuda_vector_rows(launch->out[0], launch->call.out[0].dtype, l->o_stride, l->size));
    return cudaGetLastError();
}

} // namespace

/* q, k, v (or packed) -> o, lse */
extern "C" rp_status rp_cuda_attention_own(const rp_launch *launch) {
    const rp_tensor_info *q = &launch->call.in[0];
    const int64_t size = rp_attention_size_of_q(launch->call.params, q);
    RP_TRY(rp_cuda_attention_check(launch->queue, "attention", q->dtype));
#define FORWARD(D, WIDE)                                                                           \
    (q->dtype == RP_BF16 ? launch_forward<__nv_bfloat16, D, WIDE>(launch)                          \
                         : launch_forward<float, D, WIDE>(launch))
    return rp_cuda_status(launch->queue, RP_CUDA_FOR_SIZE(size, FORWARD), "attention");
#undef FORWARD
}
