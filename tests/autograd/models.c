/* T0: four pre-LN blocks, B = 2, T = 16, C = 32, four heads, an MLP of 4 C with GELU, V = 64. */
#include "models.h"

#include <stdio.h>

/* A fixed sequence of numbers, the same for every build. */
static uint32_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* A parameter, or its cast. */
static rp_tensor add_parameter(bench *b, const model_options *o, const char *prefix,
                               const char *name, rp_shape shape, float mean) {
    char full[64];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const rp_tensor tensor = bench_parameter(b, full, shape, NULL);
    float *data = bench_data(b, tensor);
    uint64_t state = b->leaf_count; /* not the id: dropout and the like must not change the data */
    const int64_t count = rp_shape_count(shape);
    for (int64_t i = 0; i < count; i++)
        data[i] = mean + 0.4f * ((float)next_random(&state) / 2147483648.0f - 0.5f);
    return o->casts ? rp_cast(b->tape, tensor, RP_BF16) : tensor;
}

static rp_tensor norm(bench *b, const model_options *o, const char *prefix, const char *name,
                      rp_tensor x) {
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    const rp_tensor w = add_parameter(b, o, prefix, weight, RP_SHAPE(MODEL_DIM), 1.0f);
    const rp_tensor c = add_parameter(b, o, prefix, bias, RP_SHAPE(MODEL_DIM), 0.0f);
    return rp_layernorm(b->tape, x, w, c, 1e-5f);
}

static rp_tensor linear(bench *b, const model_options *o, const char *prefix, const char *name,
                        rp_tensor x, int64_t in, int64_t out) {
    char weight[64], bias[64];
    snprintf(weight, sizeof weight, "%s.weight", name);
    snprintf(bias, sizeof bias, "%s.bias", name);
    const rp_tensor w = add_parameter(b, o, prefix, weight, RP_SHAPE(in, out), 0.0f);
    const rp_tensor c = add_parameter(b, o, prefix, bias, RP_SHAPE(out), 0.0f);
    return rp_linear(b->tape, x, w, c, RP_IN_OUT);
}

static rp_tensor block(bench *b, model *m, int i, rp_tensor h, const model_options *o) {
    char prefix[32];
    snprintf(prefix, sizeof prefix, "h.%d.", i);
    rp_block(b->tape, "h.%d", i);
    rp_attention_options attention = RP_ATTENTION_OPTIONS;
    attention.heads = 4;
    attention.dropout = o->dropout;
    rp_tensor x = norm(b, o, prefix, "ln_1", h);
    x = linear(b, o, prefix, "attn.c_attn", x, MODEL_DIM, 3 * MODEL_DIM);
    x = o->unfused ? rp_attention_unfused(b->tape, x, RP_NO_TENSOR, RP_NO_TENSOR, &attention)
                   : rp_attention(b->tape, x, RP_NO_TENSOR, RP_NO_TENSOR, &attention);
    m->attention[i] = x;
    x = linear(b, o, prefix, "attn.c_proj", x, MODEL_DIM, MODEL_DIM);
    h = rp_add(b->tape, h, rp_dropout(b->tape, x, o->dropout));
    x = norm(b, o, prefix, "ln_2", h);
    x = linear(b, o, prefix, "mlp.c_fc", x, MODEL_DIM, 4 * MODEL_DIM);
    x = rp_gelu(b->tape, x, RP_GELU_TANH);
    x = linear(b, o, prefix, "mlp.c_proj", x, 4 * MODEL_DIM, MODEL_DIM);
    return m->block_outputs[i] = rp_add(b->tape, h, rp_dropout(b->tape, x, o->dropout));
}

static void freeze_from(bench *b, size_t begin) {
    for (size_t i = begin; i < b->leaf_count; i++)
        rp_require_gradient(b->tape, b->leaves[i].tensor, false);
}

model model_record(bench *b, model_options options) {
    model m = {.seq = options.seq > 0 ? options.seq : MODEL_SEQ};
    const int layers = options.layers > 0 ? options.layers : MODEL_LAYERS;
    const rp_shape ids = RP_SHAPE(MODEL_BATCH, m.seq);
    m.tokens = bench_ids(b, "tokens", ids, NULL);
    m.targets = bench_ids(b, "targets", ids, NULL);
    const rp_tensor positions = bench_ids(b, "positions", RP_SHAPE(m.seq), NULL);
    for (int i = 0; i < m.seq; i++)
        ((int32_t *)bench_data(b, positions))[i] = i;
    const rp_tensor wte =
        add_parameter(b, &options, "", "wte.weight", RP_SHAPE(MODEL_VOCAB, MODEL_DIM), 0.0f);
    const rp_tensor wpe =
        add_parameter(b, &options, "", "wpe.weight", RP_SHAPE(m.seq, MODEL_DIM), 0.0f);
    rp_tensor h = rp_add(b->tape, rp_embedding(b->tape, wte, m.tokens),
                         rp_embedding(b->tape, wpe, positions));
    if (options.frozen_below > 0)
        freeze_from(b, 0);
    for (int i = 0; i < layers; i++) {
        const size_t begin = b->leaf_count;
        h = block(b, &m, i, h, &options);
        if (i < options.frozen_below)
            freeze_from(b, begin);
    }
    rp_block_end(b->tape);
    const size_t end = b->leaf_count;
    h = norm(b, &options, "", "ln_f", h);
    const rp_tensor head = options.tied ? wte
                                        : add_parameter(b, &options, "", "lm_head.weight",
                                                        RP_SHAPE(MODEL_VOCAB, MODEL_DIM), 0.0f);
    if (options.frozen_end)
        freeze_from(b, end);
    m.logits = rp_linear(b->tape, h, head, RP_NO_TENSOR, RP_OUT_IN);
    m.loss = rp_cross_entropy(b->tape, m.logits, m.targets, -100, RP_REDUCE_MEAN);
    RP_REQUIRE_OK(b->context, rp_tape_status(b->tape));
    model_batch(b, &m, 0);
    return m;
}

void model_batch(bench *b, const model *m, uint64_t number) {
    uint64_t state = number + 1000;
    int32_t *tokens = bench_data(b, m->tokens), *targets = bench_data(b, m->targets);
    for (int i = 0; i < MODEL_BATCH * m->seq; i++) {
        tokens[i] = (int32_t)(next_random(&state) % MODEL_VOCAB);
        targets[i] = (int32_t)(next_random(&state) % MODEL_VOCAB);
    }
    if (b->executor == NULL)
        return;
    const size_t bytes = sizeof(int32_t) * MODEL_BATCH * (size_t)m->seq;
    RP_REQUIRE_OK(b->context, rp_executor_write(b->executor, m->tokens, tokens, bytes));
    RP_REQUIRE_OK(b->context, rp_executor_write(b->executor, m->targets, targets, bytes));
}
