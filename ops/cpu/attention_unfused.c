/* Attention in separate ops: the products around the softmax, by the BLAS, one a batch and head. */
#include "gemm.h"

/* What the products of a call have in common. Products that can be made at the same time: from
 * RP_HEADS_MANY on they are shared out to the threads; fewer, and each is made by all threads. By
 * shape alone. */
typedef struct heads {
    rp_attention_layout l;
    bool packed;
} heads;

static void run(const rp_launch *launch, const heads *h, int64_t count,
                void (*body)(const rp_launch *launch, const void *job, int64_t i,
                             const rp_room *room)) {
    RP_CPU(for_products)
    (launch,
     &(rp_products){.count = count,
                    .shared = count >= RP_HEADS_MANY,
                    .threads = launch->threads,
                    .floats = rp_panels_floats(h->l.queries, h->l.keys, h->l.size, RP_SHARED_PANEL),
                    .body = body,
                    .job = h});
}

/* Columns [column, column + count) of a packed gradient that this op adds nothing to. */
static void pass_columns(rp_target out, rp_source added, const rp_attention_layout *l,
                         int64_t column, int64_t count, int threads) {
    const int64_t rows = l->batch * l->keys;
    const size_t bytes = (size_t)count * (out.bf16 ? 2 : 4);
    if (added.at == out.at)
        return;
    RP_PARALLEL_FOR(rows * count > RP_CPU_SERIAL ? threads : 1, i, rows, {
        void *to = rp_target_from(out, i * l->kv_stride + column).at;
        if (added.at != NULL)
            memcpy(to, rp_source_from(added, i * l->kv_stride + column).at, bytes);
        else
            memset(to, 0, bytes);
    });
}

/* Where the matrices of a batch and head begin in their tensors. */
static int64_t at_query(const rp_attention_layout *l, int64_t b, int64_t h, int64_t stride) {
    return b * l->queries * stride + h * l->size;
}

static int64_t at_key(const rp_attention_layout *l, int64_t b, int64_t g, int64_t column) {
    return b * l->keys * l->kv_stride + column + g * l->size;
}

static int64_t at_score(const rp_attention_layout *l, int64_t b, int64_t h) {
    return (b * l->heads + h) * l->queries * l->keys;
}

/* ---- Scores ---------------------------------------------------------------------------------- */

static void score(const rp_launch *launch, const void *job, int64_t i, const rp_room *room) {
    const heads *p = job;
    const rp_attention_layout *l = &p->l;
    const int64_t b = i / l->heads, h = i % l->heads;
    const rp_product product = {
        .tb = true,
        .m = l->queries,
        .n = l->keys,
        .k = l->size,
        .alpha = l->scale,
        .a = rp_matrix_read(rp_launch_source(launch, 0), at_query(l, b, h, l->q_stride),
                            l->q_stride),
        .b = rp_matrix_read(rp_launch_source(launch, p->packed ? 0 : 1),
                            at_key(l, b, h / l->group, l->k_column), l->kv_stride),
        .c = rp_matrix_written(rp_launch_target(launch, 0), at_score(l, b, h), l->keys),
        .terms = 1};
    RP_CPU(product)(&product, room);
}

/* q [B, T, H D], k [B, T', H' D] or packed -> scores [B, H, T, T'] = scale q k^T */
rp_status RP_CPU(attention_scores)(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const heads h = {
        rp_attention_layout_of_scores(params, &launch->call.out[0],
                                      rp_attention_size_of_q(params, &launch->call.in[0])),
        params->attention.packed};
    RP_TRY(rp_require_floating(launch));
    run(launch, &h, h.l.batch * h.l.heads, score);
    return RP_OK;
}

/* dq = scale dscores k for one batch and query head */
static void scores_backward_q(const rp_launch *launch, const heads *p, int64_t b, int64_t h,
                              const rp_room *room) {
    const rp_attention_layout *l = &p->l;
    const int64_t at = at_query(l, b, h, l->q_stride);
    const rp_product product = {
        .m = l->queries,
        .n = l->size,
        .k = l->keys,
        .alpha = l->scale,
        .a = rp_matrix_read(rp_launch_source(launch, 2), at_score(l, b, h), l->keys),
        .b = rp_matrix_read(rp_launch_source(launch, p->packed ? 0 : 1),
                            at_key(l, b, h / l->group, l->k_column), l->kv_stride),
        .c = rp_matrix_written(rp_launch_target(launch, 0), at, l->q_stride),
        .added = rp_matrix_read(rp_launch_sum(launch, 0), at, l->q_stride),
        .terms = 1};
    RP_CPU(product)(&product, room);
}

/* The gradient of keys or values: output `slot` from `column` on. */
typedef struct kv_gradient {
    rp_source scores, rows; /* [B, H, T, T'] and [B, T, H D] */
    int64_t row_stride, column;
    float alpha;
    size_t slot;
} kv_gradient;

/* dkv = alpha scores^T rows for one batch and key/value head: the query heads of its group one
 * after the other. */
static void backward_kv(const rp_launch *launch, const rp_attention_layout *l, const kv_gradient *g,
                        int64_t b, int64_t head, const rp_room *room) {
    const int64_t at = at_key(l, b, head, g->column), first = head * l->group;
    const rp_product product = {
        .ta = true,
        .m = l->keys,
        .n = l->size,
        .k = l->queries,
        .alpha = g->alpha,
        .a = rp_matrix_read(g->scores, at_score(l, b, first), l->keys),
        .b = rp_matrix_read(g->rows, at_query(l, b, first, g->row_stride), g->row_stride),
        .c = rp_matrix_written(rp_launch_target(launch, g->slot), at, l->kv_stride),
        .added = rp_matrix_read(rp_launch_sum(launch, g->slot), at, l->kv_stride),
        .terms = l->group,
        .a_step = l->queries * l->keys,
        .b_step = l->size};
    RP_CPU(product)(&product, room);
}

static void score_backward(const rp_launch *launch, const void *job, int64_t i,
                           const rp_room *room) {
    const heads *p = job;
    const rp_attention_layout *l = &p->l;
    const int64_t b = i / l->kv_heads, g = i % l->kv_heads;
    const kv_gradient of_k = {.scores = rp_launch_source(launch, 2),
                              .rows = rp_launch_source(launch, 0),
                              .row_stride = l->q_stride,
                              .column = l->k_column,
                              .alpha = l->scale,
                              .slot = p->packed ? 0 : 1};
    for (int64_t h = g * l->group; h < (g + 1) * l->group && launch->out[0] != NULL; h++)
        scores_backward_q(launch, p, b, h, room);
    if (rp_launch_target(launch, of_k.slot).at != NULL)
        backward_kv(launch, l, &of_k, b, g, room);
}

/* q, k, dscores [B, H, T, T'] -> dq, dk (each absent if not wanted, then k or q is too); packed:
 * q k v, absent, dscores -> the gradient of all three, whose columns of v only pass through */
rp_status RP_CPU(attention_scores_backward)(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const int64_t size = launch->in[0] != NULL
                             ? rp_attention_size_of_q(params, &launch->call.in[0])
                             : rp_attention_size_of_kv(params, &launch->call.in[1]);
    const heads h = {rp_attention_layout_of_scores(params, &launch->call.in[2], size),
                     params->attention.packed};
    RP_TRY(rp_require_floating(launch));
    if (h.packed)
        pass_columns(rp_launch_target(launch, 0), rp_launch_sum(launch, 0), &h.l, h.l.v_column,
                     h.l.kv_heads * h.l.size, launch->threads);
    run(launch, &h, h.l.batch * h.l.kv_heads, score_backward);
    return RP_OK;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static void value(const rp_launch *launch, const void *job, int64_t i, const rp_room *room) {
    const heads *p = job;
    const rp_attention_layout *l = &p->l;
    const int64_t b = i / l->heads, h = i % l->heads;
    const rp_product product = {
        .m = l->queries,
        .n = l->size,
        .k = l->keys,
        .alpha = 1.0f,
        .a = rp_matrix_read(rp_launch_source(launch, 0), at_score(l, b, h), l->keys),
        .b = rp_matrix_read(rp_launch_source(launch, 1), at_key(l, b, h / l->group, l->v_column),
                            l->kv_stride),
        .c = rp_matrix_written(rp_launch_target(launch, 0), at_query(l, b, h, l->o_stride),
                               l->o_stride),
        .terms = 1};
    RP_CPU(product)(&product, room);
}

/* p [B, H, T, T'], v [B, T', H' D] or packed -> o [B, T, H D] */
rp_status RP_CPU(attention_values)(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const heads h = {
        rp_attention_layout_of_scores(params, &launch->call.in[0],
                                      rp_attention_size_of_kv(params, &launch->call.in[1])),
        params->attention.packed};
    RP_TRY(rp_require_floating(launch));
    run(launch, &h, h.l.batch * h.l.heads, value);
    return RP_OK;
}

/* dp = do v^T for one batch and query head */
static void values_backward_p(const rp_launch *launch, const rp_attention_layout *l, int64_t b,
                              int64_t h, const rp_room *room) {
    const int64_t at = at_score(l, b, h);
    const rp_product product = {.tb = true,
                                .m = l->queries,
                                .n = l->keys,
                                .k = l->size,
                                .alpha = 1.0f,
                                .a = rp_matrix_read(rp_launch_source(launch, 2),
                                                    at_query(l, b, h, l->o_stride), l->o_stride),
                                .b = rp_matrix_read(rp_launch_source(launch, 1),
                                                    at_key(l, b, h / l->group, l->v_column),
                                                    l->kv_stride),
                                .c = rp_matrix_written(rp_launch_target(launch, 0), at, l->keys),
                                .added = rp_matrix_read(rp_launch_sum(launch, 0), at, l->keys),
                                .terms = 1};
    RP_CPU(product)(&product, room);
}

static void value_backward(const rp_launch *launch, const void *job, int64_t i,
                           const rp_room *room) {
    const heads *p = job;
    const rp_attention_layout *l = &p->l;
    const int64_t b = i / l->kv_heads, g = i % l->kv_heads;
    const kv_gradient of_v = {.scores = rp_launch_source(launch, 0),
                              .rows = rp_launch_source(launch, 2),
                              .row_stride = l->o_stride,
                              .column = l->v_column,
                              .alpha = 1.0f,
                              .slot = 1};
    for (int64_t h = g * l->group; h < (g + 1) * l->group && launch->out[0] != NULL; h++)
        values_backward_p(launch, l, b, h, room);
    if (rp_launch_target(launch, 1).at != NULL)
        backward_kv(launch, l, &of_v, b, g, room);
}

/* p (absent if dv is), v or packed (absent if dp is), do [B, T, H D] -> dp [B, H, T, T'], dv;
 * packed: the gradient of all three, whose columns of q and k pass through: zeros if there is
 * nothing to add to */
rp_status RP_CPU(attention_values_backward)(const rp_launch *launch) {
    const rp_op_params *params = launch->call.params;
    const rp_tensor_info *scores =
        launch->in[0] != NULL ? &launch->call.in[0] : &launch->call.out[0];
    const heads h = {
        rp_attention_layout_of_scores(params, scores,
                                      launch->call.in[2].shape.dims[2] / params->attention.heads),
        params->attention.packed};
    RP_TRY(rp_require_floating(launch));
    if (h.packed && rp_launch_target(launch, 1).at != NULL)
        pass_columns(rp_launch_target(launch, 1), rp_launch_sum(launch, 1), &h.l, 0, h.l.v_column,
                     launch->threads);
    run(launch, &h, h.l.batch * h.l.kv_heads, value_backward);
    return RP_OK;
}
