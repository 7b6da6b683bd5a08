/* Weights and tokens of the shared models: the formulas of
 * tests/golden/make_golden.py. */
#include "gpt2.h"

#include <stdlib.h>
#include <string.h>

static uint32_t mix(uint32_t x) {
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    return x ^ x >> 16;
}

static float initial_value(uint32_t parameter, uint32_t e, bool is_norm_weight) {
    const float unit = (float)(mix(e + parameter * 1000003u + 1) >> 16) / 32768.0f - 1.0f;
    return is_norm_weight ? 1.0f + unit / 4 : unit / 4;
}

static rp_status write_weight(const rp_test_gpt2 *model, rp_executor *executor, size_t p) {
    const char *name = rp_tensor_name(model->tape, model->parameters[p]);
    const rp_tensor_info info = rp_tensor_get_info(model->tape, model->parameters[p]);
    const size_t count = (size_t)rp_shape_count(info.shape);
    const bool is_norm_weight = strstr(name, "ln_") != NULL && strstr(name, "weight") != NULL;
    float *values = malloc(count * sizeof *values);
    if (values == NULL)
        return RP_OUT_OF_MEMORY;
    for (size_t e = 0; e < count; e++)
        values[e] = initial_value((uint32_t)p, (uint32_t)e, is_norm_weight);
    const rp_status status = rp_executor_write_f32(executor, model->parameters[p], values, count);
    free(values);
    return status;
}

rp_status rp_test_gpt2_write_weights(const rp_test_gpt2 *model, rp_executor *executor) {
    rp_status status = RP_OK;
    for (size_t p = 0; p < model->parameter_count && status == RP_OK; p++)
        status = write_weight(model, executor, p);
    const size_t seq = (size_t)model->shape.seq;
    int32_t *positions = malloc(seq * sizeof *positions);
    if (positions == NULL)
        return RP_OUT_OF_MEMORY;
    for (size_t i = 0; i < seq; i++)
        positions[i] = (int32_t)i;
    if (status == RP_OK)
        status = rp_executor_write(executor, model->positions, positions, seq * sizeof *positions);
    free(positions);
    return status;
}

static int32_t token(const rp_test_gpt2_shape *shape, int64_t at) {
    return (int32_t)(mix((uint32_t)at + 77777777u) % (uint32_t)shape->vocab);
}

rp_status rp_test_gpt2_write_batch(const rp_test_gpt2 *model, rp_executor *executor, int64_t at) {
    const size_t count = (size_t)model->shape.batch * (size_t)model->shape.seq;
    int32_t *text = malloc((count + 1) * sizeof *text);
    if (text == NULL)
        return RP_OUT_OF_MEMORY;
    for (size_t i = 0; i <= count; i++)
        text[i] = token(&model->shape, at + (int64_t)i);
    rp_status status = rp_executor_write(executor, model->ids, text, count * sizeof *text);
    if (status == RP_OK)
        status = rp_executor_write(executor, model->targets, text + 1, count * sizeof *text);
    free(text);
    return status;
}
