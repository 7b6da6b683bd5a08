/* f32 numbers to and from tensors of either floating type, and the master copies of bf16
 * parameters, which get them unrounded. */
#include <string.h>

#include "executor.h"

enum { PIECE = 4096 }; /* elements, on the stack */

static uint16_t round_to_bf16(float value) {
    uint32_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) /* NaN: stays one whatever is cut off */
        return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16); /* to nearest, ties to even */
}

static float widen_bf16(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float value = 0.0f;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The caller's memory may lie anywhere. */
static uint16_t load_half(const void *data, int64_t index) {
    uint16_t half = 0;
    memcpy(&half, (const char *)data + (size_t)index * sizeof half, sizeof half);
    return half;
}

static int64_t piece_length(int64_t left) {
    return left < PIECE ? left : PIECE;
}

/* Memory that is shared is written with the masters of its owner, whose optimizer reads them. */
static float *master_of(const rp_executor *executor, uint32_t leaf) {
    const rp_executor *owner = executor->owner;
    const rp_program_gradient *g = rp_program_find_gradient(owner->program, leaf);
    const uint32_t master = g != NULL ? g->state[RP_STATE_MASTER] : RP_NONE;
    return master != RP_NONE ? rp_executor_place_of(owner, master) : NULL;
}

static rp_status check_dtype(const rp_executor *executor, const char *call,
                             const rp_tensor_info *info) {
    char text[RP_SHAPE_TEXT];
    if (info->dtype == RP_F32 || info->dtype == RP_BF16)
        return RP_OK;
    return rp_fail(executor->context, RP_BAD_DTYPE, "%s: the tensor is %s, f32 or bf16 is needed",
                   call, rp_tensor_text(info, text));
}

static rp_status check_values(const rp_executor *executor, const char *call, int64_t needed,
                              const float *values, size_t count) {
    if (values == NULL && needed > 0)
        return rp_fail(executor->context, RP_INVALID_ARGUMENT, "%s: no values", call);
    if (count != (size_t)needed)
        return rp_fail(executor->context, RP_INVALID_ARGUMENT,
                       "%s: %zu values, the tensor has %lld", call, count, (long long)needed);
    return RP_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

rp_status rp_executor_find_floats(rp_executor *executor, const char *call, rp_tensor leaf,
                                  rp_float_target *target) {
    void *place = NULL;
    const rp_status status = rp_executor_find_leaf(executor, call, leaf, &place);
    if (status != RP_OK)
        return status;
    const rp_tensor_info info = rp_code_info(&executor->program->code, leaf.id - 1);
    *target = (rp_float_target){info.dtype, place, master_of(executor, leaf.id - 1),
                                rp_shape_count(info.shape)};
    return check_dtype(executor, call, &info);
}

rp_status rp_executor_write_floats(const rp_executor *executor, const rp_float_target *target,
                                   int64_t begin, const float *values, int64_t count) {
    const rp_backend *backend = executor->backend;
    const size_t bytes = (size_t)count * sizeof *values;
    rp_status status = RP_OK;
    if (target->dtype == RP_F32)
        return backend->write(executor->queue, (float *)target->place + begin, values, bytes);
    if (target->master != NULL)
        status = backend->write(executor->queue, target->master + begin, values, bytes);
    for (int64_t done = 0; done < count && status == RP_OK; done += PIECE) {
        uint16_t rounded[PIECE];
        const int64_t length = piece_length(count - done);
        for (int64_t i = 0; i < length; i++)
            rounded[i] = round_to_bf16(values[done + i]);
        status = backend->write(executor->queue, (uint16_t *)target->place + begin + done, rounded,
                                (size_t)length * sizeof *rounded);
    }
    return status;
}

rp_status rp_executor_write_f32(rp_executor *executor, rp_tensor leaf, const float *values,
                                size_t count) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    const char *call = "rp_executor_write_f32";
    rp_float_target target;
    rp_status status = rp_executor_find_floats(executor, call, leaf, &target);
    if (status == RP_OK)
        status = check_values(executor, call, target.count, values, count);
    return status == RP_OK ? rp_executor_write_floats(executor, &target, 0, values, target.count)
                           : status;
}

rp_status rp_executor_write_master(const rp_executor *executor, uint32_t leaf, const void *data) {
    float *master = master_of(executor, leaf);
    const int64_t count = rp_shape_count(rp_code_info(&executor->program->code, leaf).shape);
    rp_status status = RP_OK;
    for (int64_t done = 0; master != NULL && done < count && status == RP_OK; done += PIECE) {
        float values[PIECE];
        const int64_t length = piece_length(count - done);
        for (int64_t i = 0; i < length; i++)
            values[i] = widen_bf16(load_half(data, done + i));
        status = executor->backend->write(executor->queue, master + done, values,
                                          (size_t)length * sizeof *values);
    }
    return status;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static rp_status read_floats(const rp_executor *executor, const char *call,
                             const rp_tensor_info *info, const void *place, float *values,
                             size_t count) {
    const rp_backend *backend = executor->backend;
    rp_status status = check_dtype(executor, call, info);
    if (status == RP_OK)
        status = check_values(executor, call, rp_shape_count(info->shape), values, count);
    if (status == RP_OK && info->dtype == RP_F32)
        return backend->read(executor->queue, values, place, count * sizeof *values);
    for (size_t done = 0; done < count && status == RP_OK; done += PIECE) {
        uint16_t halves[PIECE];
        const size_t length = (size_t)piece_length((int64_t)(count - done));
        status = backend->read(executor->queue, halves, (const uint16_t *)place + done,
                               length * sizeof *halves);
        for (size_t i = 0; i < length; i++)
            values[done + i] = widen_bf16(halves[i]);
    }
    return status;
}

rp_status rp_executor_read_f32(const rp_executor *executor, rp_tensor tensor, float *values,
                               size_t count) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    const char *call = "rp_executor_read_f32";
    const void *place = NULL;
    const rp_status status = rp_executor_find_tensor(executor, call, tensor, &place);
    if (status != RP_OK)
        return status;
    rp_tensor_info info = rp_code_info(&executor->program->code, tensor.id - 1);
    const float *master = master_of(executor, tensor.id - 1);
    if (master != NULL)
        info.dtype = RP_F32;
    return read_floats(executor, call, &info, master != NULL ? master : place, values, count);
}

rp_status rp_executor_read_gradient_f32(const rp_executor *executor, rp_tensor leaf, float *values,
                                        size_t count) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    const char *call = "rp_executor_read_gradient_f32";
    const void *place = NULL;
    uint32_t value = RP_NONE;
    const rp_status status = rp_executor_find_gradient(executor, call, leaf, &value, &place);
    if (status != RP_OK)
        return status;
    const rp_tensor_info info = rp_code_info(&executor->program->code, value);
    return read_floats(executor, call, &info, place, values, count);
}
