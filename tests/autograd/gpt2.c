/* GPT-2-shaped models that the tests share. */
#include "gpt2.h"

#include <stdio.h>

const rp_test_gpt2_shape rp_test_t0 = {.layers = 4,
                                       .dim = 32,
                                       .heads = 4,
                                       .seq = 16,
                                       .batch = 2,
                                       .vocab = 64,
                                       .fused = true,
                                       .reduction = RP_REDUCE_MEAN};

/* ---- Recording ------------------------------------------------------------------------------- */

static rp_tensor parameter(rp_test_gpt2 *m, const char *name, rp_shape shape) {
    const rp_tensor made = rp_parameter(m->tape, name, m->shape.bf16 ? RP_BF16 : RP_F32, shape);
    m->parameters[m->parameter_count++] = made;
    return made;
}

typedef struct layer {
    rp_tensor ln_1[2], c_attn[2], attn_proj[2], ln_2[2], c_fc[2], mlp_proj[2];
} layer;

static void make_pair(rp_test_gpt2 *m, int i, const char *name, rp_shape weight, rp_shape bias,
                      rp_tensor pair[2]) {
    char text[100];
    snprintf(text, sizeof text, "transformer.h.%d.%s.weight", i, name);
    pair[0] = parameter(m, text, weight);
    snprintf(text, sizeof text, "transformer.h.%d.%s.bias", i, name);
    pair[1] = parameter(m, text, bias);
}

static void make_layer(rp_test_gpt2 *m, int i, layer *made) {
    const int64_t c = m->shape.dim;
    make_pair(m, i, "ln_1", RP_SHAPE(c), RP_SHAPE(c), made->ln_1);
    make_pair(m, i, "attn.c_attn", RP_SHAPE(c, 3 * c), RP_SHAPE(3 * c), made->c_attn);
    make_pair(m, i, "attn.c_proj", RP_SHAPE(c, c), RP_SHAPE(c), made->attn_proj);
    make_pair(m, i, "ln_2", RP_SHAPE(c), RP_SHAPE(c), made->ln_2);
    make_pair(m, i, "mlp.c_fc", RP_SHAPE(c, 4 * c), RP_SHAPE(4 * c), made->c_fc);
    make_pair(m, i, "mlp.c_proj", RP_SHAPE(4 * c, c), RP_SHAPE(c), made->mlp_proj);
}

static rp_tensor norm(rp_test_gpt2 *m, rp_tensor x, const rp_tensor pair[2]) {
    return rp_layernorm(m->tape, x, pair[0], pair[1], 1e-5f);
}

static rp_tensor conv(rp_test_gpt2 *m, rp_tensor x, const rp_tensor pair[2]) {
    return rp_linear(m->tape, x, pair[0], pair[1], RP_IN_OUT);
}

static rp_tensor drop(rp_test_gpt2 *m, rp_tensor x) {
    return m->shape.dropout > 0 ? rp_dropout(m->tape, x, m->shape.dropout) : x;
}

static rp_tensor attention(rp_test_gpt2 *m, rp_tensor qkv) {
    rp_attention_options options = RP_ATTENTION_OPTIONS;
    options.heads = m->shape.heads;
    options.dropout = m->shape.dropout;
    if (m->shape.fused)
        return rp_attention(m->tape, qkv, RP_NO_TENSOR, RP_NO_TENSOR, &options);
    const int64_t c = m->shape.dim;
    const rp_tensor q = rp_slice(m->tape, qkv, 2, 0, c), k = rp_slice(m->tape, qkv, 2, c, c),
                    v = rp_slice(m->tape, qkv, 2, 2 * c, c);
    return rp_attention_unfused(m->tape, q, k, v, &options);
}

static rp_tensor run_layer(rp_test_gpt2 *m, rp_tensor x, const layer *l) {
    const rp_tensor attended = attention(m, conv(m, norm(m, x, l->ln_1), l->c_attn));
    x = rp_add(m->tape, x, drop(m, conv(m, attended, l->attn_proj)));
    const rp_tensor inner = rp_gelu(m->tape, conv(m, norm(m, x, l->ln_2), l->c_fc), RP_GELU_TANH);
    return rp_add(m->tape, x, drop(m, conv(m, inner, l->mlp_proj)));
}

void rp_test_gpt2_record(rp_tape *tape, const rp_test_gpt2_shape *shape, rp_test_gpt2 *model) {
    rp_test_gpt2 *m = model;
    *m = (rp_test_gpt2){.shape = *shape, .tape = tape};
    const int64_t c = shape->dim, t = shape->seq, b = shape->batch, v = shape->vocab;
    layer layers[RP_TEST_GPT2_LAYERS];
    m->ids = rp_input(tape, "ids", RP_I32, RP_SHAPE(b, t));
    m->positions = rp_input(tape, "positions", RP_I32, RP_SHAPE(t));
    m->targets = rp_input(tape, "targets", RP_I32, RP_SHAPE(b, t));
    const rp_tensor wte = parameter(m, "transformer.wte.weight", RP_SHAPE(v, c));
    const rp_tensor wpe = parameter(m, "transformer.wpe.weight", RP_SHAPE(t, c));
    for (int i = 0; i < shape->layers; i++)
        make_layer(m, i, &layers[i]);
    const rp_tensor weight = parameter(m, "transformer.ln_f.weight", RP_SHAPE(c));
    const rp_tensor ln_f[2] = {weight, parameter(m, "transformer.ln_f.bias", RP_SHAPE(c))};
    const rp_tensor head = shape->tied ? wte : parameter(m, "lm_head.weight", RP_SHAPE(v, c));

    const rp_tensor embedded = rp_embedding(tape, wte, m->ids);
    rp_tensor x = drop(m, rp_add(tape, embedded, rp_embedding(tape, wpe, m->positions)));
    for (int i = 0; i < shape->layers; i++) {
        rp_block(tape, "h.%d", i);
        x = run_layer(m, x, &layers[i]);
    }
    rp_block_end(tape);
    m->logits = rp_linear(tape, norm(m, x, ln_f), head, RP_NO_TENSOR, RP_OUT_IN);
    m->loss = rp_cross_entropy(tape, m->logits, m->targets, -100, shape->reduction);
}
