/* The table of all ops, and what is the same for every op: bytes, FLOPs, shapes in words. */
#include <inttypes.h>
#include <stdio.h>

#include "op.h"

static const rp_op_def *const defs[RP_OP_COUNT] = {
#define DEF_ROW(id, name) [id] = &rp_op_def_##name,
    RP_OP_LIST(DEF_ROW)
#undef DEF_ROW
};

const rp_op_def *rp_op_get(rp_op op) {
    return defs[op];
}

/* 0 for an absent slot. A recorded tensor's bytes fit 63 bits, so only their sum can overflow. */
static int64_t tensor_bytes(const rp_tensor_info *info) {
    return rp_shape_count(info->shape) * (int64_t)rp_dtype_bytes(info->dtype);
}

static int64_t add_saturated(int64_t a, int64_t b) {
    int64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

int64_t rp_op_bytes_moved(rp_op op, const rp_op_call *call) {
    if (defs[op]->bytes_moved != NULL)
        return defs[op]->bytes_moved(call);
    int64_t bytes = 0;
    for (size_t i = 0; i < call->in_count; i++)
        bytes = add_saturated(bytes, tensor_bytes(&call->in[i]));
    for (size_t i = 0; i < call->out_count; i++)
        bytes = add_saturated(bytes, tensor_bytes(&call->out[i]));
    return bytes;
}

int64_t rp_op_flops(rp_op op, const rp_op_call *call) {
    if (defs[op]->flops != NULL)
        return defs[op]->flops(call);
    int64_t flops = 0;
    for (size_t i = 0; i < call->out_count; i++)
        if (call->out[i].dtype != RP_NO_DTYPE)
            flops = add_saturated(flops, rp_shape_count(call->out[i].shape));
    return flops;
}

int64_t rp_op_workspace(rp_op op, const rp_op_call *call) {
    return defs[op]->workspace != NULL ? defs[op]->workspace(call) : 0;
}

bool rp_is_floating(rp_dtype dtype) {
    return dtype == RP_F32 || dtype == RP_BF16;
}

bool rp_call_has_bf16(const rp_op_call *call) {
    bool any = false;
    for (size_t i = 0; i < call->in_count; i++)
        any = any || call->in[i].dtype == RP_BF16;
    for (size_t k = 0; k < call->out_count; k++)
        any = any || call->out[k].dtype == RP_BF16;
    return any;
}

const char *rp_tensor_text(const rp_tensor_info *info, char text[RP_SHAPE_TEXT]) {
    if (info->dtype == RP_NO_DTYPE) {
        snprintf(text, RP_SHAPE_TEXT, "absent");
        return text;
    }
    /* Room for a name and RP_MAX_RANK numbers of 20 digits; snprintf cuts what would not fit. */
    int used = snprintf(text, RP_SHAPE_TEXT, "%s [", rp_dtype_name(info->dtype));
    for (int i = 0; i < info->shape.rank && i < RP_MAX_RANK && used < RP_SHAPE_TEXT; i++)
        used += snprintf(text + used, (size_t)(RP_SHAPE_TEXT - used), "%s%" PRId64, i ? ", " : "",
                         info->shape.dims[i]);
    if (used < RP_SHAPE_TEXT)
        snprintf(text + used, (size_t)(RP_SHAPE_TEXT - used), "]");
    return text;
}

int64_t rp_row_length(rp_shape shape) {
    return shape.rank ? shape.dims[shape.rank - 1] : 1;
}

int64_t rp_row_count(rp_shape shape) {
    if (shape.rank > 0)
        shape.rank--;
    return rp_shape_count(shape);
}
