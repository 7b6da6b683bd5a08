/* embedding (table, ids) -> rows, and embedding_backward (ids, gradient of the rows) -> gradient of
 * the table. */
#include "define.h"

static rp_status embedding_infer(rp_context *context, rp_op_call *call) {
    char text[RP_SHAPE_TEXT];
    RP_TRY(rp_check_in_count(context, "embedding", call, 2));
    const rp_tensor_info *table = &call->in[0], *ids = &call->in[1];
    RP_TRY(rp_check_floating(context, "embedding", "table", table, table));
    RP_TRY(rp_check_dtype(context, "embedding", "ids", ids, RP_I32));
    if (table->shape.rank != 2)
        return rp_fail(context, RP_BAD_SHAPE, "embedding: table is %s, [rows, width] is needed",
                       rp_tensor_text(table, text));
    if (ids->shape.rank >= RP_MAX_RANK)
        return rp_fail(context, RP_BAD_SHAPE, "embedding: ids is %s, at most %d dimensions fit",
                       rp_tensor_text(ids, text), RP_MAX_RANK - 1);
    rp_tensor_info y = {table->dtype, ids->shape};
    y.shape.dims[y.shape.rank++] = table->shape.dims[1];
    return rp_set_output(context, "embedding", call, y);
}

static rp_status embedding_vjp(rp_vjp *vjp) {
    if (!vjp->wanted[0])
        return RP_OK;
    const uint32_t in[] = {vjp->in[1], vjp->gradient[0]};
    return rp_emit_gradient(vjp, RP_OP_EMBEDDING_BACKWARD, NULL, in, 2, 0);
}

static int64_t embedding_flops(const rp_op_call *call) {
    (void)call;
    return 0;
}

/* One row of the table is read for each one that is written. */
static int64_t embedding_bytes(const rp_op_call *call) {
    const int64_t rows = rp_info_bytes(&call->out[0]), ids = rp_info_bytes(&call->in[1]);
    return rp_saturated_add(rp_saturated_multiply(rows, 2), ids);
}

const rp_op_def rp_op_def_embedding = {
    .name = "embedding",
    .infer = embedding_infer,
    .vjp = embedding_vjp,
    .flops = embedding_flops,
    .bytes_moved = embedding_bytes,
};

static int64_t embedding_backward_flops(const rp_op_call *call) {
    return rp_info_count(&call->in[1]);
}

/* Which positions have the same id, where a row is rounded only when all are added. */
static int64_t embedding_backward_workspace(const rp_op_call *call) {
    const int64_t ids = rp_info_count(&call->in[0]), rows = call->out[0].shape.dims[0];
    if (call->out[0].dtype != RP_BF16 || ids == 0)
        return 0;
    return rp_saturated_multiply(rp_saturated_add(ids, rows), (int64_t)sizeof(int64_t));
}

const rp_op_def rp_op_def_embedding_backward = {
    .name = "embedding_backward",
    .flops = embedding_backward_flops,
    .workspace = embedding_backward_workspace,
    .accumulates = 1,
    .widens = 1,
};
