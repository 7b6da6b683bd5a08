/* Ops on values in flat lists. */
#include "code.h"

#include <string.h>

/* A dimension of 0 hides how large the others are, which ops multiply among themselves. */
bool rp_code_info_bytes(const rp_tensor_info *info, int64_t *bytes) {
    rp_shape shape = info->shape;
    bool empty = false;
    for (int i = 0; i < shape.rank && i < RP_MAX_RANK; i++)
        if (shape.dims[i] == 0) {
            empty = true;
            shape.dims[i] = 1;
        }
    if (!rp_checked_multiply(rp_shape_count(shape), (int64_t)rp_dtype_bytes(info->dtype), bytes))
        return false;
    *bytes = empty ? 0 : *bytes;
    return true;
}

bool rp_code_info_equal(const rp_tensor_info *a, const rp_tensor_info *b) {
    return a->dtype == b->dtype && rp_shape_equal(a->shape, b->shape);
}

/* Where the dimensions of `shape` lie: those of the value before if they are equal, else behind
 * all others. */
static bool place_dims(rp_context *context, rp_code *code, rp_shape shape, uint32_t *dims) {
    const size_t rank = (size_t)shape.rank, bytes = rank * sizeof *code->dims;
    if (code->value_count > 0) {
        const rp_code_value *last = &code->values[code->value_count - 1];
        if (last->rank == rank &&
            (rank == 0 || memcmp(code->dims + last->dims, shape.dims, bytes) == 0)) {
            *dims = last->dims;
            return true;
        }
    }
    if (code->dim_count + rank > UINT32_MAX)
        return false;
    if (!rp_reserve(context, &code->dims, &code->dim_capacity, code->dim_count + rank + 1,
                    sizeof *code->dims))
        return false;
    memcpy(code->dims + code->dim_count, shape.dims, bytes);
    *dims = (uint32_t)code->dim_count;
    code->dim_count += rank;
    return true;
}

bool rp_code_add_value(rp_context *context, rp_code *code, const rp_tensor_info *info,
                       rp_code_kind kind, uint32_t *index) {
    if (code->value_count >= RP_NONE - 1)
        return false;
    if (!rp_reserve(context, &code->values, &code->value_capacity, code->value_count + 1,
                    sizeof *code->values))
        return false;
    rp_code_value value = {.writer = RP_NONE,
                           .rank = (uint8_t)info->shape.rank,
                           .dtype = (uint8_t)info->dtype,
                           .kind = (uint8_t)kind};
    if (!place_dims(context, code, info->shape, &value.dims))
        return false;
    *index = (uint32_t)code->value_count;
    code->values[code->value_count++] = value;
    return true;
}

/* The index of these parameters: those of the node before if they are equal. NULL: the op has
 * none. */
static bool place_params(rp_context *context, rp_code *code, const rp_op_params *params,
                         uint32_t *index) {
    static const rp_op_params none;
    if (params == NULL)
        params = &none;
    const rp_op_params *last = code->params + code->params_count - (code->params_count > 0);
    if (code->params_count == 0 || memcmp(last, params, sizeof *params) != 0) {
        if (code->params_count >= UINT32_MAX ||
            !rp_reserve(context, &code->params, &code->params_capacity, code->params_count + 1,
                        sizeof *code->params))
            return false;
        memcpy(code->params + code->params_count++, params, sizeof *params);
    }
    *index = (uint32_t)(code->params_count - 1);
    return true;
}

bool rp_code_add_node(rp_context *context, rp_code *code, const rp_code_call *call,
                      uint32_t *index) {
    const size_t lists = call->accumulate != NULL ? 2 : 1;
    if (code->node_count >= RP_NONE - 1 || call->in_count > UINT32_MAX / 4 ||
        call->out_count > UINT32_MAX / 4)
        return false;
    const size_t slots = call->in_count + lists * call->out_count;
    if (!rp_reserve(context, &code->nodes, &code->node_capacity, code->node_count + 1,
                    sizeof *code->nodes) ||
        !rp_reserve(context, &code->edges, &code->edge_capacity, code->edge_count + slots + 1,
                    sizeof *code->edges))
        return false;
    rp_code_node node = {.edges = code->edge_count,
                         .in_count = (uint32_t)call->in_count,
                         .out_count = (uint32_t)call->out_count,
                         .op = (uint8_t)call->op,
                         .accumulates = call->accumulate != NULL};
    if (!place_params(context, code, call->params, &node.params))
        return false;
    uint32_t *edge = code->edges + code->edge_count;
    for (size_t i = 0; i < call->in_count; i++)
        *edge++ = call->in[i];
    for (size_t i = 0; i < call->out_count; i++)
        *edge++ = call->out[i];
    for (size_t i = 0; call->accumulate != NULL && i < call->out_count; i++)
        *edge++ = call->accumulate[i];
    code->edge_count += slots;
    *index = (uint32_t)code->node_count;
    for (size_t i = 0; i < call->out_count; i++)
        if (call->out[i] != RP_NONE && code->values[call->out[i]].kind == RP_CODE_ACTIVATION)
            code->values[call->out[i]].writer = *index;
    code->nodes[code->node_count++] = node;
    return true;
}

void rp_code_clear(rp_context *context, rp_code *code) {
    rp_free(context, code->dims);
    rp_free(context, code->values);
    rp_free(context, code->nodes);
    rp_free(context, code->edges);
    rp_free(context, code->params);
    *code = (rp_code){0};
}

rp_tensor_info rp_code_info(const rp_code *code, uint32_t value) {
    rp_tensor_info info = {.dtype = RP_NO_DTYPE};
    if (value == RP_NONE)
        return info;
    const rp_code_value *v = &code->values[value];
    info.dtype = (rp_dtype)v->dtype;
    info.shape.rank = v->rank;
    for (int i = 0; i < v->rank; i++)
        info.shape.dims[i] = code->dims[v->dims + (uint32_t)i];
    return info;
}

void rp_code_infos(const rp_code *code, const uint32_t *slots, size_t count,
                   rp_tensor_info *infos) {
    for (size_t i = 0; i < count; i++)
        infos[i] = rp_code_info(code, slots[i]);
}
