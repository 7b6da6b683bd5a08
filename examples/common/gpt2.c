/* GPT-2 recorded on a tape. Shapes: x [B, T, C] everywhere between embedding and head. */
#include "gpt2.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 wide;

enum { PARAMETERS_A_BLOCK = 12, OTHER_PARAMETERS = 5 };

typedef struct recorder {
    rp_tape *tape;
    const gpt2_config *config;
    gpt2 *model;
    char block[32]; /* "h.3.", or "" outside */
} recorder;

/* The next parameter, in the order in which they are numbered: transformer.<block><module>.<kind>.
 */
static rp_tensor parameter(recorder *r, const char *module, const char *kind, rp_shape shape,
                           double deviation, float fill) {
    char name[96];
    const bool inside = strcmp(module, "lm_head") != 0;
    snprintf(name, sizeof name, "%s%s%s.%s", inside ? GPT2_PREFIX : "", r->block, module, kind);
    const rp_tensor tensor = rp_parameter(r->tape, name, r->config->dtype, shape);
    r->model->parameters[r->model->parameter_count++] =
        (gpt2_parameter){tensor, shape, deviation, fill};
    return tensor;
}

static rp_tensor norm(recorder *r, rp_tensor x, const char *module) {
    const rp_shape shape = RP_SHAPE(r->config->dim);
    const rp_tensor weight = parameter(r, module, "weight", shape, 0.0, 1.0f);
    const rp_tensor bias = parameter(r, module, "bias", shape, 0.0, 0.0f);
    rp_name(r->tape, "%s", module);
    return rp_layernorm(r->tape, x, weight, bias, 1e-5f);
}

/* x weight + bias, weight [in, out]. */
static rp_tensor dense(recorder *r, rp_tensor x, const char *module, int64_t in, int64_t out,
                       double deviation) {
    const rp_tensor weight = parameter(r, module, "weight", RP_SHAPE(in, out), deviation, 0.0f);
    const rp_tensor bias = parameter(r, module, "bias", RP_SHAPE(out), 0.0, 0.0f);
    rp_name(r->tape, "%s", module);
    return rp_linear(r->tape, x, weight, bias, RP_IN_OUT);
}

static rp_tensor drop(recorder *r, rp_tensor x) {
    return r->config->dropout > 0.0 ? rp_dropout(r->tape, x, (float)r->config->dropout) : x;
}

static rp_tensor attention(recorder *r, rp_tensor qkv) {
    rp_attention_options options = RP_ATTENTION_OPTIONS;
    options.heads = (int)r->config->heads;
    options.causal = true;
    options.dropout = (float)r->config->dropout;
    if (!r->config->fused) {
        if (r->config->recompute_core)
            rp_mark_from_here(r->tape, RP_MARK_RECOMPUTE);
        const rp_tensor values =
            rp_attention_unfused(r->tape, qkv, RP_NO_TENSOR, RP_NO_TENSOR, &options);
        rp_mark_from_here(r->tape, RP_MARK_AUTO);
        rp_mark_node(r->tape, values, RP_MARK_AUTO);
        return values;
    }
    rp_name(r->tape, "attn");
    return rp_attention(r->tape, qkv, RP_NO_TENSOR, RP_NO_TENSOR, &options);
}

/* x + c_proj(attention(c_attn(ln_1(x)))), then the same with c_proj(gelu(c_fc(ln_2(x)))). */
static rp_tensor block(recorder *r, rp_tensor x, int64_t index) {
    const gpt2_config *c = r->config;
    const double plain = 0.02, residual = 0.02 / sqrt(2.0 * (double)c->layers);
    snprintf(r->block, sizeof r->block, "h.%lld.", (long long)index);
    rp_block(r->tape, "h.%lld", (long long)index);
    rp_tensor n = norm(r, x, "ln_1");
    n = dense(r, n, "attn.c_attn", c->dim, 3 * c->dim, plain);
    n = dense(r, attention(r, n), "attn.c_proj", c->dim, c->dim, residual);
    x = rp_add(r->tape, x, drop(r, n));
    n = norm(r, x, "ln_2");
    n = rp_gelu(r->tape, dense(r, n, "mlp.c_fc", c->dim, c->ffn, plain), RP_GELU_TANH);
    n = dense(r, n, "mlp.c_proj", c->ffn, c->dim, residual);
    x = rp_add(r->tape, x, drop(r, n));
    rp_block_end(r->tape);
    r->block[0] = '\0';
    return x;
}

static void record(recorder *r) {
    const gpt2_config *c = r->config;
    rp_tape *t = r->tape;
    r->model->tokens = rp_input(t, "tokens", RP_I32, RP_SHAPE(c->batch, c->seq));
    r->model->targets = rp_input(t, "targets", RP_I32, RP_SHAPE(c->batch, c->seq));
    const rp_tensor wte = parameter(r, "wte", "weight", RP_SHAPE(c->vocab, c->dim), 0.02, 0.0f);
    rp_tensor wpe = parameter(r, "wpe", "weight", RP_SHAPE(c->positions, c->dim), 0.02, 0.0f);
    if (c->positions > c->seq)
        wpe = rp_slice(t, wpe, 0, 0, c->seq);
    rp_tensor x = drop(r, rp_add(t, rp_embedding(t, wte, r->model->tokens), wpe));
    for (int64_t i = 0; i < c->layers; i++)
        x = block(r, x, i);
    x = norm(r, x, "ln_f");
    const rp_tensor head =
        c->tied ? wte : parameter(r, "lm_head", "weight", RP_SHAPE(c->vocab, c->dim), 0.02, 0.0f);
    rp_name(t, "lm_head");
    x = rp_linear(t, x, head, RP_NO_TENSOR, RP_OUT_IN);
    r->model->loss = rp_cross_entropy(t, x, r->model->targets, -100, RP_REDUCE_SUM);
}

bool gpt2_record(rp_tape *tape, rp_context *context, const gpt2_config *config, gpt2 *model,
                 failure *failure) {
    *model = (gpt2){0};
    model->parameters = calloc((size_t)(PARAMETERS_A_BLOCK * config->layers + OTHER_PARAMETERS),
                               sizeof *model->parameters);
    if (model->parameters == NULL)
        return fail_memory(failure, "the parameters of the model");
    record(&(recorder){tape, config, model, ""});
    const rp_status status = rp_tape_status(tape);
    return status == RP_OK || fail_library(failure, context, status,
                                           "the model of --dim, --ffn, --seq, --batch, --vocab");
}

void gpt2_free(gpt2 *model) {
    free(model->parameters);
    *model = (gpt2){0};
}

int64_t gpt2_flops(const gpt2_config *c) {
    const wide weights = (wide)c->layers * (4 * (wide)c->dim * c->dim + 2 * (wide)c->dim * c->ffn) +
                         (wide)c->vocab * c->dim;
    const wide token = 2 * weights + 2 * (wide)c->layers * c->seq * c->dim;
    const wide limit = INT64_MAX, tokens = 3 * (wide)c->batch * c->seq;
    return token > limit || tokens > limit || token * tokens > limit ? INT64_MAX
                                                                     : (int64_t)(token * tokens);
}
