/* Attention in separate ops: the products around the softmax, all batches and heads in one launch.
 * One kernel makes them all: what differs is where rows, columns, heads and batches lie. */
#include "attention_call.h"
#include "floats.h"

namespace {

enum { TILE = 64, DEPTH = 16, THREADS = 256, STRIDE = TILE + 4, LANES = TILE / 4 };

/* Element (b, h, i, j) lies at batch * b + head * (h / group) + row * i + column * j. */
struct operand {
    const void *at;
    int64_t batch, head, group, row, column;
};

/* c (b, h) [m, n] = added + alpha * sum over `heads_summed` heads of a (b, h') b (b, h'), a [m, k],
 * b [k, n]; h' = h * heads_summed and up. `c` is where results lie. */
struct product {
    operand a, b, c;
    const void *added;
    int64_t m, n, k, heads, batch, heads_summed;
    float alpha;
};

__device__ __forceinline__ int64_t start_of(const operand &x, int64_t b, int64_t h) {
    return b * x.batch + h / x.group * x.head;
}

/* tile [DEPTH, TILE] = a part of an operand, transposed or not, zeros beyond its ends. Neighbouring
 * threads take what lies next to each other. */
template <typename T>
__device__ __forceinline__ void load(float *tile, const T *from, int64_t across, int64_t down,
                                     int64_t width, int64_t depth) {
#pragma unroll
    for (int i = 0; i < TILE * DEPTH / THREADS; i++) {
        const int e = (int)threadIdx.x + i * THREADS;
        const int x = down == 1 ? e / DEPTH : e % TILE, y = down == 1 ? e % DEPTH : e / TILE;
        tile[y * STRIDE + x] =
            x < width && y < depth ? rp_to_float(from[x * across + y * down]) : 0.0f;
    }
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    attention_product(product p, int64_t tiles_m, int64_t tiles_n) {
    __shared__ __align__(16) float a_tile[DEPTH * STRIDE], b_tile[DEPTH * STRIDE];
    const int group = (int)threadIdx.x / LANES, lane = (int)threadIdx.x % LANES;
    const int64_t tile = blockIdx.x % (tiles_m * tiles_n), at = blockIdx.x / (tiles_m * tiles_n);
    const int64_t b = at / p.heads, h = at % p.heads;
    const int64_t m = tile / tiles_n * TILE, n = tile % tiles_n * TILE;
    float sum[4][4] = {};
    for (int64_t s = h * p.heads_summed; s < (h + 1) * p.heads_summed; s++) {
        const T *x = (const T *)p.a.at + start_of(p.a, b, s) + m * p.a.row;
        const T *y = (const T *)p.b.at + start_of(p.b, b, s) + n * p.b.column;
        for (int64_t k = 0; k < p.k; k += DEPTH) {
            __syncthreads();
            load(a_tile, x + k * p.a.column, p.a.row, p.a.column, p.m - m, p.k - k);
            load(b_tile, y + k * p.b.row, p.b.column, p.b.row, p.n - n, p.k - k);
            __syncthreads();
#pragma unroll 4
            for (int d = 0; d < DEPTH; d++) {
                const float4 u = *reinterpret_cast<const float4 *>(a_tile + d * STRIDE + group * 4);
                const float4 v = *reinterpret_cast<const float4 *>(b_tile + d * STRIDE + lane * 4);
                const float r[4] = {u.x, u.y, u.z, u.w}, c[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
                for (int i = 0; i < 4; i++)
#pragma unroll
                    for (int j = 0; j < 4; j++)
                        sum[i][j] = fmaf(r[i], c[j], sum[i][j]);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int64_t row = m + group * 4 + i, column = n + lane * 4 + j;
            if (row >= p.m || column >= p.n)
                continue;
            const int64_t to = start_of(p.c, b, h) + row * p.c.row + column * p.c.column;
            const float result = p.alpha * sum[i][j];
            rp_store((T *)p.c.at + to,
                     p.added != nullptr ? rp_to_float(((const T *)p.added)[to]) + result : result);
        }
}

/* Columns [0, count) of rows of `stride`: what is added to them, or zeros. */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    attention_pass(T *to, const T *added, int64_t rows, int64_t stride, int64_t count) {
    const int64_t step = (int64_t)gridDim.x * THREADS;
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < rows * count; i += step) {
        const int64_t at = i / count * stride + i % count;
        if (added != nullptr)
            to[at] = added[at];
        else
            rp_store(&to[at], 0.0f);
    }
}

cudaError_t multiply(const rp_launch *launch, rp_dtype dtype, const product *p) {
    const int64_t tiles_m = (p->m + TILE - 1) / TILE, tiles_n = (p->n + TILE - 1) / TILE;
    const int64_t grid = tiles_m * tiles_n * p->heads * p->batch;
    if (grid == 0)
        return cudaSuccess;
    if (grid > INT32_MAX)
        return cudaErrorInvalidConfiguration;
    if (dtype == RP_BF16)
        RP_CUDA_LAUNCH((attention_product<__nv_bfloat16>), (unsigned)grid, THREADS, 0,
                       launch->queue->stream, *p, tiles_m, tiles_n);
    else
        RP_CUDA_LAUNCH((attention_product<float>), (unsigned)grid, THREADS, 0,
                       launch->queue->stream, *p, tiles_m, tiles_n);
    return cudaGetLastError();
}

/* Columns [column, column + count) of a packed gradient that an op adds nothing to. */
cudaError_t pass_columns(const rp_launch *launch, rp_dtype dtype, void *out, const void *added,
                         const rp_attention_layout *l, int64_t column, int64_t count) {
    const int64_t rows = l->batch * l->keys, blocks = (rows * count + THREADS - 1) / THREADS;
    const unsigned grid = (unsigned)(blocks < 65536 ? blocks : 65536);
    if (out == added || grid == 0)
        return cudaSuccess;
    void *to = (void *)rp_cuda_at_column(out, dtype, column);
    const void *from = rp_cuda_at_column(added, dtype, column);
    if (dtype == RP_BF16)
        RP_CUDA_LAUNCH((attention_pass<__nv_bfloat16>), grid, THREADS, 0, launch->queue->stream,
                       (__nv_bfloat16 *)to, (const __nv_bfloat16 *)from, rows, l->kv_stride, count);
    else
        RP_CUDA_LAUNCH((attention_pass<float>), grid, THREADS, 0, launch->queue->stream,
                       (float *)to, (const float *)from, rows, l->kv_stride, count);
    return cudaGetLastError();
}

/* ---- Where tensors lie ----------------------------------------------------------------------- */

operand transposed(const operand &x) {
    return {x.at, x.batch, x.head, x.group, x.column, x.row};
}

/* [B, H, T, T'] */
operand scores_of(const rp_attention_layout *l, const void *at) {
    return {at, l->heads * l->queries * l->keys, l->queries * l->keys, 1, l->keys, 1};
}

/* Rows of query heads: q, or o. */
operand queries_of(const rp_attention_layout *l, const void *at, int64_t stride) {
    return {at, l->queries * stride, l->size, 1, stride, 1};
}

/* k or v at its column, for query heads (`group` of them read one) or for its own. */
operand keys_of(const rp_attention_layout *l, const void *at, int64_t group) {
    return {at, l->keys * l->kv_stride, l->size, group, l->kv_stride, 1};
}

/* [T, T'] = alpha rows columns^T, by query head */
product to_scores(const rp_attention_layout *l, const operand &rows, const operand &columns,
                  float alpha, void *to, const void *added) {
    return {rows,
            transposed(columns),
            scores_of(l, to),
            added,
            l->queries,
            l->keys,
            l->size,
            l->heads,
            l->batch,
            1,
            alpha};
}

/* [T, D] = alpha scores keys, by query head */
product to_queries(const rp_attention_layout *l, const void *scores, const operand &keys,
                   float alpha, const operand &to, const void *added) {
    return {scores_of(l, scores),
            keys,
            to,
            added,
            l->queries,
            l->size,
            l->keys,
            l->heads,
            l->batch,
            1,
            alpha};
}

/* [T', D] = alpha scores^T rows, by key/value head: the query heads of its group summed in order */
product to_keys(const rp_attention_layout *l, const void *scores, const operand &rows, float alpha,
                const operand &to, const void *added) {
    return {transposed(scores_of(l, scores)),
            rows,
            to,
            added,
            l->keys,
            l->size,
            l->queries,
            l->kv_heads,
            l->batch,
            l->group,
            alpha};
}

rp_status check(const rp_launch *launch, const char *op, rp_dtype dtype) {
    return rp_cuda_attention_check(launch->queue, op, dtype);
}

} // namespace

/* q [B, T, H D], k [B, T', H' D] or packed -> scores [B, H, T, T'] = scale q k^T */
extern "C" rp_status rp_cuda_attention_scores(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const rp_dtype dtype = launch->call.in[0].dtype;
    RP_TRY(check(launch, "attention_scores", dtype));
    const rp_attention_layout l = rp_attention_layout_of_scores(
        params, &launch->call.out[0], rp_attention_size_of_q(params, &launch->call.in[0]));
    const void *q = launch->in[0], *k = params->attention.packed ? q : launch->in[1];
    const product p = to_scores(&l, queries_of(&l, q, l.q_stride),
                                keys_of(&l, rp_cuda_at_column(k, dtype, l.k_column), l.group),
                                l.scale, launch->out[0], nullptr);
    return rp_cuda_status(launch->queue, multiply(launch, dtype, &p), "attention_scores");
}

/* q, k, dscores [B, H, T, T'] -> dq, dk (each absent if not wanted, then k or q is too); packed:
 * q k v, absent, dscores -> the gradient of all three, whose columns of v only pass through */
extern "C" rp_status rp_cuda_attention_scores_backward(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const rp_dtype dtype = launch->call.in[2].dtype;
    RP_TRY(check(launch, "attention_scores_backward", dtype));
    const bool packed = params->attention.packed;
    const void *q = launch->in[0], *k = packed ? q : launch->in[1], *dscores = launch->in[2];
    void *dq = launch->out[0], *dk = packed ? dq : rp_cuda_output(launch, 1);
    const void *q_added = rp_cuda_added(launch, 0);
    const void *k_added = packed ? q_added : rp_cuda_added(launch, 1);
    const int64_t size = q != nullptr ? rp_attention_size_of_q(params, &launch->call.in[0])
                                      : rp_attention_size_of_kv(params, &launch->call.in[1]);
    const rp_attention_layout l = rp_attention_layout_of_scores(params, &launch->call.in[2], size);
    cudaError_t error = cudaSuccess;
    if (packed)
        error = pass_columns(launch, dtype, dq, q_added, &l, l.v_column, l.kv_heads * l.size);
    if (dq != nullptr && error == cudaSuccess) {
        const product p =
            to_queries(&l, dscores, keys_of(&l, rp_cuda_at_column(k, dtype, l.k_column), l.group),
                       l.scale, queries_of(&l, dq, l.q_stride), q_added);
        error = multiply(launch, dtype, &p);
    }
    if (dk != nullptr && error == cudaSuccess) {
        const product p = to_keys(&l, dscores, queries_of(&l, q, l.q_stride), l.scale,
                                  keys_of(&l, rp_cuda_at_column(dk, dtype, l.k_column), 1),
                                  rp_cuda_at_column(k_added, dtype, l.k_column));
        error = multiply(launch, dtype, &p);
    }
    return rp_cuda_status(launch->queue, error, "attention_scores_backward");
}

/* p [B, H, T, T'], v [B, T', H' D] or packed -> o [B, T, H D] */
extern "C" rp_status rp_cuda_attention_values(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const rp_dtype dtype = launch->call.in[0].dtype;
    RP_TRY(check(launch, "attention_values", dtype));
    const rp_attention_layout l = rp_attention_layout_of_scores(
        params, &launch->call.in[0], rp_attention_size_of_kv(params, &launch->call.in[1]));
    const product p =
        to_queries(&l, launch->in[0],
                   keys_of(&l, rp_cuda_at_column(launch->in[1], dtype, l.v_column), l.group), 1.0f,
                   queries_of(&l, launch->out[0], l.o_stride), nullptr);
    return rp_cuda_status(launch->queue, multiply(launch, dtype, &p), "attention_values");
}

/* p (absent if dv is), v or packed (absent if dp is), do [B, T, H D] -> dp [B, H, T, T'], dv;
 * packed: the gradient of all three, whose columns of q and k pass through: zeros if there is
 * nothing to add to */
extern "C" rp_status rp_cuda_attention_values_backward(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const rp_dtype dtype = launch->call.in[2].dtype;
    RP_TRY(check(launch, "attention_values_backward", dtype));
    const void *p = launch->in[0], *v = launch->in[1], *gradient = launch->in[2];
    void *dp = launch->out[0], *dv = rp_cuda_output(launch, 1);
    const void *v_added = rp_cuda_added(launch, 1);
    const rp_tensor_info *scores = p != nullptr ? &launch->call.in[0] : &launch->call.out[0];
    const rp_attention_layout l = rp_attention_layout_of_scores(
        params, scores, launch->call.in[2].shape.dims[2] / params->attention.heads);
    const operand rows = queries_of(&l, gradient, l.o_stride);
    cudaError_t error = cudaSuccess;
    if (params->attention.packed && dv != nullptr)
        error = pass_columns(launch, dtype, dv, v_added, &l, 0, l.v_column);
    if (dp != nullptr && error == cudaSuccess) {
        const product of_p =
            to_scores(&l, rows, keys_of(&l, rp_cuda_at_column(v, dtype, l.v_column), l.group), 1.0f,
                      dp, rp_cuda_added(launch, 0));
        error = multiply(launch, dtype, &of_p);
    }
    if (dv != nullptr && error == cudaSuccess) {
        const product of_v =
            to_keys(&l, p, rows, 1.0f, keys_of(&l, rp_cuda_at_column(dv, dtype, l.v_column), 1),
                    rp_cuda_at_column(v_added, dtype, l.v_column));
        error = multiply(launch, dtype, &of_v);
    }
    return rp_cuda_status(launch->queue, error, "attention_values_backward");
}
