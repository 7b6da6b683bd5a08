/* Gradient of the fused attention: the probabilities are made again from the scores and the
 * log-sum-exp of each row. One kernel goes down the queries for the dk and dv of a block of keys,
 * one along the keys for the dq of a block of queries: every element has one block that adds it up,
 * in one order. */
#include "attention_tiles.h"

namespace {

/* What backward reads besides q, k and v. o is NULL if only dv is wanted, and then so is delta
 * [B, H, T] = sum over d of do o, which is the sum over j of p dp (Dao et al. 2022, section
 * B.4). */
struct saved {
    const void *o, *gradient;
    const float *lse;
    float *delta;
    bool vector; /* of o and gradient */
};

/* Where gradients go, as the inputs lie, and what is added to them, or NULL. */
struct gradients {
    void *dq, *dk, *dv;
    const void *dq_added, *dk_added, *dv_added;
    bool vector;
};

/* do, o [B, T, H D] -> delta [B, H, T]: a warp a row */
template <typename T>
__global__ void __launch_bounds__(RP_TILE_THREADS) attention_delta(rp_attention_layout l, saved s) {
    enum { LANES = 32 };
    const int lane = (int)threadIdx.x % LANES;
    const int64_t row = (int64_t)blockIdx.x * (RP_TILE_THREADS / LANES) + (int)threadIdx.x / LANES;
    if (row >= l.batch * l.queries * l.heads)
        return;
    const int64_t h = row % l.heads, at = row / l.heads, b = at / l.queries, i = at % l.queries;
    const T *o = (const T *)s.o + row * l.size, *g = (const T *)s.gradient + row * l.size;
    float sum = 0.0f;
    for (int d = lane * 4; d < l.size; d += LANES * 4) {
        const float4 x = rp_load4(o + d, (int)l.size - d, s.vector);
        const float4 y = rp_load4(g + d, (int)l.size - d, s.vector);
        sum = fmaf(x.x, y.x, sum);
        sum = fmaf(x.y, y.y, sum);
        sum = fmaf(x.z, y.z, sum);
        sum = fmaf(x.w, y.w, sum);
    }
#pragma unroll
    for (int mask = LANES / 2; mask > 0; mask /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, mask);
    if (lane == 0)
        s.delta[(b * l.heads + h) * l.queries + i] = sum;
}

/* Scores and dp of one query and key become the probability, times dropout's factor, and the
 * gradient of the score. A query without keys has lse = -inf. */
__device__ __forceinline__ void differentiate(float &score, float &dp, bool visible, float lse,
                                              float delta, float factor, float base2_scale,
                                              float scale) {
    const float p =
        visible && lse != -INFINITY ? exp2f(score * base2_scale - lse * RP_CUDA_LOG2_E) : 0.0f;
    score = p * factor;
    dp = visible ? p * (dp * factor - delta) * scale : 0.0f;
}

__device__ __forceinline__ float element_of(const float4 &x, int i) {
    return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w;
}

template <int R, int PARTS> __device__ __forceinline__ void clear(float4 (&sum)[R][PARTS]) {
#pragma unroll
    for (int i = 0; i < R; i++)
#pragma unroll
        for (int part = 0; part < PARTS; part++)
            sum[i][part] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

/* dq for a block of queries of one head. Kept: nothing but the sum. */
template <typename T, int D, bool WIDE>
__global__ void __launch_bounds__(RP_TILE_THREADS, D > 64 ? 1 : 2)
    attention_backward_q(rp_cuda_attention_job job, saved s, gradients to, int64_t blocks,
                         int chunks) {
    typedef rp_tile<D> tile;
    constexpr int R = tile::R;
    RP_CUDA_SHARED(float, shared);
    float *q_tile = shared, *do_tile = q_tile + tile::ROWS_FLOATS;
    float *k_tile = do_tile + tile::ROWS_FLOATS, *v_tile = k_tile + tile::COLUMNS_FLOATS;
    float *ds_tile = v_tile + tile::COLUMNS_FLOATS;
    const rp_attention_layout &l = job.l;
    const int size = (int)l.size, group = (int)threadIdx.x / RP_TILE_LANES;
    const int lane = (int)threadIdx.x % RP_TILE_LANES;
    const int column = WIDE ? (int)(blockIdx.x % (unsigned)chunks) * D : 0;
    const rp_cuda_place at = rp_cuda_place_make(blockIdx.x / (unsigned)chunks, l.heads, l.batch,
                                                blocks, tile::ROWS, true);
    const int64_t left = l.queries - at.begin, count = left < tile::ROWS ? left : tile::ROWS;
    const int64_t q_at = (at.b * l.queries + at.begin) * l.q_stride + at.h * l.size;
    const int64_t kv_at = at.b * l.keys * l.kv_stride + at.h / l.group * l.size;
    const int64_t first = at.begin + group * R, head = at.b * l.heads + at.h;
    const int64_t end = rp_cuda_visible(job, at.begin + count - 1);
    const rp_cuda_drawing drawing = rp_cuda_drawing_begin(job);
    float4 dq[R][tile::PARTS];
    float lse[R], delta[R];
    clear(dq);
#pragma unroll
    for (int i = 0; i < R; i++) {
        const bool there = first + i < l.queries;
        lse[i] = there ? s.lse[head * l.queries + first + i] : -INFINITY;
        delta[i] = there ? s.delta[head * l.queries + first + i] : 0.0f;
    }
    const rp_tile_source<T> of_q = {(const T *)job.q + q_at, l.q_stride, count, job.vector};
    const rp_tile_source<T> of_do = {(const T *)s.gradient +
                                         (at.b * l.queries + at.begin) * l.o_stride + at.h * l.size,
                                     l.o_stride, count, s.vector};
    if (!WIDE) {
        rp_tile_load<D, tile::ROWS>(q_tile, of_q, 0, size);
        rp_tile_load<D, tile::ROWS>(do_tile, of_do, 0, size);
    }
    for (int64_t j0 = 0; j0 < end; j0 += RP_TILE_COLUMNS) {
        float scores[R][4], dp[R][4];
        const int64_t kv = kv_at + j0 * l.kv_stride, key = j0 + lane * 4;
        const rp_tile_source<T> of_k = {(const T *)job.k + kv, l.kv_stride, l.keys - j0,
                                        job.vector};
        const rp_tile_source<T> of_v = {(const T *)job.v + kv, l.kv_stride, l.keys - j0,
                                        job.vector};
        if (!WIDE) {
            __syncthreads();
            rp_tile_load<D, RP_TILE_COLUMNS>(k_tile, of_k, 0, size);
            rp_tile_load<D, RP_TILE_COLUMNS>(v_tile, of_v, 0, size);
            __syncthreads();
        }
        rp_tile_scores<D, WIDE>(scores, q_tile, k_tile, of_q, of_k, size);
        rp_tile_scores<D, WIDE>(dp, do_tile, v_tile, of_do, of_v, size);
#pragma unroll
        for (int i = 0; i < R; i++) {
            const int64_t visible = rp_cuda_visible(job, first + i);
            const uint64_t row = (uint64_t)(head * l.queries + first + i);
            float4 f = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
            if (drawing.on)
                f = rp_cuda_draw4(drawing, row * (uint64_t)l.keys + (uint64_t)key);
#pragma unroll
            for (int j = 0; j < 4; j++)
                differentiate(scores[i][j], dp[i][j], key + j < visible, lse[i], delta[i],
                              element_of(f, j), job.base2_scale, l.scale);
        }
        rp_tile_share(ds_tile, dp);
        if (WIDE)
            rp_tile_reload<D>(k_tile, of_k, column, size);
        rp_tile_add<D>(dq, ds_tile, k_tile);
    }
#pragma unroll
    for (int i = 0; i < R; i++) {
        if (first + i >= l.queries)
            continue;
        const int64_t row = q_at + (group * R + i) * l.q_stride + column;
        rp_tile_store<D>((T *)to.dq + row,
                         to.dq_added != nullptr ? (const T *)to.dq_added + row : nullptr, dq[i],
                         1.0f, size - column, to.vector);
    }
}

/* dk and dv for a block of keys of one key/value head: the query heads that read it, and their
 * blocks of queries, one after the other. Rows of the tiles are keys, columns queries. */
template <typename T, int D, bool WIDE>
__global__ void __launch_bounds__(RP_TILE_THREADS, D > 64 ? 1 : 2)
    attention_backward_kv(rp_cuda_attention_job job, saved s, gradients to, int64_t blocks,
                          int chunks) {
    typedef rp_tile<D> tile;
    constexpr int R = tile::R;
    RP_CUDA_SHARED(float, shared);
    float *k_tile = shared, *v_tile = k_tile + tile::ROWS_FLOATS;
    float *q_tile = v_tile + tile::ROWS_FLOATS, *do_tile = q_tile + tile::COLUMNS_FLOATS;
    float *p_tile = do_tile + tile::COLUMNS_FLOATS;
    const rp_attention_layout &l = job.l;
    const int size = (int)l.size, group = (int)threadIdx.x / RP_TILE_LANES;
    const int lane = (int)threadIdx.x % RP_TILE_LANES;
    const int column = WIDE ? (int)(blockIdx.x % (unsigned)chunks) * D : 0;
    const rp_cuda_place at = rp_cuda_place_make(blockIdx.x / (unsigned)chunks, l.kv_heads, l.batch,
                                                blocks, tile::ROWS, false);
    const int64_t left = l.keys - at.begin, count = left < tile::ROWS ? left : tile::ROWS;
    const int64_t kv_at = (at.b * l.keys + at.begin) * l.kv_stride + at.h * l.size;
    const int64_t first = at.begin + group * R;
    const int64_t begin = rp_cuda_first_query(job, at.begin) / RP_TILE_COLUMNS * RP_TILE_COLUMNS;
    const rp_cuda_drawing drawing = rp_cuda_drawing_begin(job);
    const bool scores_too = s.delta != nullptr;
    float4 dk[R][tile::PARTS], dv[R][tile::PARTS];
    clear(dk);
    clear(dv);
    const rp_tile_source<T> of_k = {(const T *)job.k + kv_at, l.kv_stride, count, job.vector};
    const rp_tile_source<T> of_v = {(const T *)job.v + kv_at, l.kv_stride, count, job.vector};
    if (!WIDE)
        rp_tile_load<D, tile::ROWS>(k_tile, of_k, 0, size);
    if (!WIDE && scores_too)
        rp_tile_load<D, tile::ROWS>(v_tile, of_v, 0, size);
    for (int64_t h = at.h * l.group; h < (at.h + 1) * l.group; h++)
        for (int64_t i0 = begin; i0 < l.queries; i0 += RP_TILE_COLUMNS) {
            float scores[R][4], dp[R][4];
            const int64_t row = at.b * l.queries + i0, head = at.b * l.heads + h;
            const int64_t query = i0 + lane * 4;
            const rp_tile_source<T> of_q = {(const T *)job.q + row * l.q_stride + h * l.size,
                                            l.q_stride, l.queries - i0, job.vector};
            const rp_tile_source<T> of_do = {(const T *)s.gradient + row * l.o_stride + h * l.size,
                                             l.o_stride, l.queries - i0, s.vector};
            if (!WIDE) {
                __syncthreads();
                rp_tile_load<D, RP_TILE_COLUMNS>(q_tile, of_q, 0, size);
                rp_tile_load<D, RP_TILE_COLUMNS>(do_tile, of_do, 0, size);
                __syncthreads();
            }
            rp_tile_scores<D, WIDE>(scores, k_tile, q_tile, of_k, of_q, size);
            if (scores_too)
                rp_tile_scores<D, WIDE>(dp, v_tile, do_tile, of_v, of_do, size);
            else
                rp_tile_clear(dp);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const bool there = query + j < l.queries;
                const int64_t statistics = head * l.queries + query + j;
                const float lse = there ? s.lse[statistics] : -INFINITY;
                const float delta = there && scores_too ? s.delta[statistics] : 0.0f;
                const int64_t visible = there ? rp_cuda_visible(job, query + j) : 0;
                float4 f = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
                if (drawing.on)
                    f = rp_cuda_draw4(drawing,
                                      (uint64_t)statistics * (uint64_t)l.keys + (uint64_t)first);
#pragma unroll
                for (int i = 0; i < R; i++)
                    differentiate(scores[i][j], dp[i][j], first + i < visible, lse, delta,
                                  element_of(f, i), job.base2_scale, l.scale);
            }
            if (to.dv != nullptr) {
                rp_tile_share(p_tile, scores);
                if (WIDE)
                    rp_tile_reload<D>(do_tile, of_do, column, size);
                rp_tile_add<D>(dv, p_tile, do_tile);
            }
            if (to.dk != nullptr) {
                rp_tile_share(p_tile, dp);
                if (WIDE)
                    rp_tile_reload<D>(q_tile, of_q, column, size);
                rp_tile_add<D>(dk, p_tile, q_tile);
            }
        }
#pragma unroll
    for (int i = 0; i < R; i++) {
        if (first + i >= l.keys)
            continue;
        const int64_t row = kv_at + (group * R + i) * l.kv_stride + column;
        if (to.dk != nullptr)
            rp_tile_store<D>((T *)to.dk + row,
                             to.dk_added != nullptr ? (const T *)to.dk_added + row : nullptr, dk[i],
                             1.0f, size - column, to.vector);
        if (to.dv != nullptr)
            rp_tile_store<D>((T *)to.dv + row,
                             to.dv_added != nullptr ? (const T *)to.dv_added + row : nullptr, dv[i],
                             1.0f, size - column, to.vector);
    }
}

gradients gradients_of(const rp_launch *launch, const rp_attention_layout *l) {
    const rp_dtype dtype = launch->call.in[0].dtype;
    const bool packed = launch->call.params->attention.packed;
    gradients to = {};
    to.dq = rp_cuda_output(launch, 0);
    to.dq_added = rp_cuda_added(launch, 0);
    to.dk =
        packed ? (void *)rp_cuda_at_column(to.dq, dtype, l->k_column) : rp_cuda_output(launch, 1);
    to.dv =
        packed ? (void *)rp_cuda_at_column(to.dq, dtype, l->v_column) : rp_cuda_output(launch, 2);
    to.dk_added =
        packed ? rp_cuda_at_column(to.dq_added, dtype, l->k_column) : rp_cuda_added(launch, 1);
    to.dv_added =
        packed ? rp_cuda_at_column(to.dq_added, dtype, l->v_column) : rp_cuda_added(launch, 2);
    to.vector = rp_cuda_vector_rows(to.dq, dtype, l->q_stride, l->size) &&
                rp_cuda_vector_rows(to.dq_added, dtype, l->q_stride, l->size) &&
                rp_cuda_vector_rows(to.dk, dtype, l->kv_stride, l->size) &&
                rp_cuda_vector_rows(to.dk_added, dtype, l->kv_stride, l->size) &&
                rp_cuda_vector_rows(to.dv, dtype, l->kv_stride, l->size) &&
                rp_cuda_vector_rows(to.dv_added, dtype, l->kv_stride, l->size);
    return to;
}

saved saved_of(const rp_launch *launch, const rp_attention_layout *l) {
    const rp_dtype dtype = launch->call.in[5].dtype;
    saved s = {};
    s.o = launch->in[3];
    s.lse = (const float *)launch->in[4];
    s.gradient = launch->in[5];
    s.delta = s.o != nullptr ? (float *)launch->workspace : nullptr;
    s.vector = rp_cuda_vector_rows(s.o, dtype, l->o_stride, l->size) &&
               rp_cuda_vector_rows(s.gradient, dtype, l->o_stride, l->size);
    return s;
}

template <typename T, int D, bool WIDE>
cudaError_t launch_q(const rp_launch *launch, const rp_cuda_attention_job *job, const saved *s,
                     const gradients *to) {
    typedef rp_tile<D> tile;
    const size_t bytes =
        (2 * tile::ROWS_FLOATS + 2 * tile::COLUMNS_FLOATS + tile::PRODUCT_FLOATS) * sizeof(float);
    const int64_t blocks = (job->l.queries + tile::ROWS - 1) / tile::ROWS;
    const int64_t chunks = WIDE ? (job->l.size + D - 1) / D : 1;
    const int64_t grid = blocks * job->l.heads * job->l.batch * chunks;
    if (grid > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    const cudaError_t error =
        cudaFuncSetAttribute((const void *)attention_backward_q<T, D, WIDE>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess)
        return error;
    RP_CUDA_LAUNCH((attention_backward_q<T, D, WIDE>), (unsigned)grid, RP_TILE_THREADS, bytes,
                   launch->queue->stream, *job, *s, *to, blocks, (int)chunks);
    return cudaGetLastError();
}

template <typename T, int D, bool WIDE>
cudaError_t launch_kv(const rp_launch *launch, const rp_cuda_attention_job *job, const saved *s,
                      const gradients *to) {
    typedef rp_tile<D> tile;
    const size_t bytes =
        (2 * tile::ROWS_FLOATS + 2 * tile::COLUMNS_FLOATS + tile::PRODUCT_FLOATS) * sizeof(float);
    const int64_t blocks = (job->l.keys + tile::ROWS - 1) / tile::ROWS;
    const int64_t chunks = WIDE ? (job->l.size + D - 1) / D : 1;
    const int64_t grid = blocks * job->l.kv_heads * job->l.batch * chunks;
    if (grid > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    const cudaError_t error =
        cudaFuncSetAttribute((const void *)attention_backward_kv<T, D, WIDE>,
                             cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    if (error != cudaSuccess)
        return error;
    RP_CUDA_LAUNCH((attention_backward_kv<T, D, WIDE>), (unsigned)grid, RP_TILE_THREADS, bytes,
                   launch->queue->stream, *job, *s, *to, blocks, (int)chunks);
    return cudaGetLastError();
}

template <typename T, int D, bool WIDE> cudaError_t launch_backward(const rp_launch *launch) {
    const rp_cuda_attention_job job = rp_cuda_attention_make(launch);
    const rp_attention_layout *l = &job.l;
    const saved s = saved_of(launch, l);
    const gradients to = gradients_of(launch, l);
    const int64_t rows = l->batch * l->heads * l->queries, warps = RP_TILE_THREADS / 32;
    cudaError_t error = cudaSuccess;
    if (s.delta != nullptr && rows > 0)
        RP_CUDA_LAUNCH((attention_delta<T>), (unsigned)((rows + warps - 1) / warps),
                       RP_TILE_THREADS, 0, launch->queue->stream, *l, s);
    if ((to.dk != nullptr || to.dv != nullptr) && l->batch * l->keys > 0)
        error = launch_kv<T, D, WIDE>(launch, &job, &s, &to);
    if (to.dq != nullptr && rows > 0 && error == cudaSuccess)
        error = launch_q<T, D, WIDE>(launch, &job, &s, &to);
    return error;
}

} // namespace

/* q, k, v (or packed), o, lse, do -> dq, dk, dv (or one packed gradient) */
extern "C" rp_status rp_cuda_attention_backward_own(const rp_launch *launch) {
    const rp_tensor_info *q = &launch->call.in[0];
    const int64_t size = rp_attention_size_of_q(launch->call.params, q);
    RP_TRY(rp_cuda_attention_check(launch->queue, "attention_backward", q->dtype));
#define BACKWARD(D, WIDE)                                                                          \
    (q->dtype == RP_BF16 ? launch_backward<__nv_bfloat16, D, WIDE>(launch)                         \
                         : launch_backward<float, D, WIDE>(launch))
    return rp_cuda_status(launch->queue, RP_CUDA_FOR_SIZE(size, BACKWARD), "attention_backward");
#undef BACKWARD
}
