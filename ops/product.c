/* Checks that the definitions of the products share. */
#include "product.h"

#include <limits.h>

#include "define.h"

rp_status rp_product_check_blas(rp_context *context, const char *op, const char *what,
                                int64_t size) {
    if (size >= 0 && size <= INT_MAX)
        return RP_OK;
    return rp_fail(context, RP_BAD_SHAPE, "%s: %s is %lld, the matrix library takes up to %d", op,
                   what, (long long)size, INT_MAX);
}

rp_status rp_attention_check_params(rp_context *context, const char *op,
                                    const rp_op_params *params) {
    const int heads = params->attention.heads, kv_heads = params->attention.kv_heads;
    const float dropout = params->attention.dropout;
    if (heads < 1)
        return rp_fail(context, RP_INVALID_ARGUMENT, "%s: %d heads, 1 or more were expected", op,
                       heads);
    if (kv_heads < 0 || (kv_heads > 0 && heads % kv_heads != 0))
        return rp_fail(context, RP_INVALID_ARGUMENT,
                       "%s: %d heads read %d key/value heads, a divisor of the heads (or 0: as "
                       "many) was expected",
                       op, heads, kv_heads);
    if (!(dropout >= 0.0f && dropout < 1.0f))
        return rp_fail(context, RP_INVALID_ARGUMENT,
                       "%s: dropout is %g, 0 <= dropout < 1 was expected", op, (double)dropout);
    if (!isfinite(params->attention.scale))
        return rp_fail(context, RP_INVALID_ARGUMENT, "%s: the scale of the scores is not finite",
                       op);
    return RP_OK;
}

/* One of q, k, v, packed: [batch, rows, width], width a multiple of `parts`. */
static rp_status check_tensor(rp_context *context, const char *op, const char *name,
                              const rp_tensor_info *info, const rp_tensor_info *q, int64_t parts) {
    char text[RP_SHAPE_TEXT];
    const rp_status status = rp_check_floating(context, op, name, info, q);
    if (status != RP_OK)
        return status;
    if (info->shape.rank != 3)
        return rp_fail(context, RP_BAD_SHAPE,
                       "%s: %s is %s, [batch, positions, width] was expected", op, name,
                       rp_tensor_text(info, text));
    if (info->shape.dims[2] % parts != 0 || info->shape.dims[2] == 0)
        return rp_fail(context, RP_BAD_SHAPE,
                       "%s: %s is %s, a width that %lld heads divide was expected", op, name,
                       rp_tensor_text(info, text), (long long)parts);
    return rp_product_check_blas(context, op, "the width", info->shape.dims[2]);
}

static rp_status check_kv(rp_context *context, const char *op, const char *name,
                          const rp_tensor_info *kv, const rp_tensor_info *q,
                          const rp_tensor_info *k, const rp_op_params *params) {
    char kv_text[RP_SHAPE_TEXT], other[RP_SHAPE_TEXT];
    const int64_t kv_heads = rp_attention_kv_heads(params);
    const rp_status status = check_tensor(context, op, name, kv, q, kv_heads);
    if (status != RP_OK)
        return status;
    const int64_t width = q->shape.dims[2] / params->attention.heads * kv_heads;
    if (kv->shape.dims[0] != q->shape.dims[0] || kv->shape.dims[2] != width)
        return rp_fail(context, RP_BAD_SHAPE,
                       "%s: q is %s with %d heads, %s is %s with %lld: [%lld, positions, %lld]"
                       " was expected",
                       op, rp_tensor_text(q, other), params->attention.heads, name,
                       rp_tensor_text(kv, kv_text), (long long)kv_heads,
                       (long long)q->shape.dims[0], (long long)width);
    if (kv->shape.dims[1] != k->shape.dims[1])
        return rp_fail(context, RP_BAD_SHAPE, "%s: k is %s, v is %s: the same shape was expected",
                       op, rp_tensor_text(k, other), rp_tensor_text(kv, kv_text));
    return RP_OK;
}

rp_status rp_attention_check(rp_context *context, const char *op, const rp_op_call *call,
                             rp_attention_layout *layout) {
    const rp_op_params *params = call->params;
    rp_status status = rp_attention_check_params(context, op, params);
    if (status != RP_OK)
        return status;
    const bool packed = params->attention.packed;
    if (!rp_slot_present(call->in, call->in_count, 0))
        return rp_fail(context, RP_INVALID_ARGUMENT, "%s: q is missing", op);
    for (size_t i = 1; i < call->in_count; i++)
        if (rp_slot_present(call->in, call->in_count, i) == packed)
            return rp_fail(context, RP_INVALID_ARGUMENT,
                           "%s: k and v are expected both or, packed into q, not at all", op);
    const rp_tensor_info *q = &call->in[0];
    const int64_t parts = packed ? params->attention.heads + 2 * rp_attention_kv_heads(params)
                                 : params->attention.heads;
    status = check_tensor(context, op, packed ? "packed q, k, v" : "q", q, q, parts);
    for (size_t i = 1; i < call->in_count && status == RP_OK && !packed; i++)
        status = check_kv(context, op, i == 1 ? "k" : "v", &call->in[i], q, &call->in[1], params);
    if (status == RP_OK)
        *layout = rp_attention_layout_of(params, q, packed ? NULL : &call->in[1]);
    return status;
}
