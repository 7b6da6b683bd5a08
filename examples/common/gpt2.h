/* GPT-2: the model on a tape, its parameters under the names and in the layouts of Hugging Face
 * GPT2LMHeadModel. */
#ifndef EXAMPLES_GPT2_H
#define EXAMPLES_GPT2_H

#include "failure.h"

#define GPT2_PREFIX "transformer."

typedef struct gpt2_config {
    int64_t layers, dim, heads, ffn, vocab;
    int64_t positions; /* rows of wpe, at least seq */
    int64_t batch, seq;
    double dropout;
    rp_dtype dtype;      /* of parameters and activations: f32 or bf16; the loss is f32 */
    bool tied;           /* the head is the token embedding */
    bool fused;          /* attention as one op, else scores, softmax and values apart */
    bool recompute_core; /* unfused: scores, softmax and dropout are marked to be recomputed */
} gpt2_config;

typedef struct gpt2_parameter {
    rp_tensor tensor;
    rp_shape shape;
    double deviation; /* of the normal initial values; 0: all are `fill` */
    float fill;
} gpt2_parameter;

typedef struct gpt2 {
    rp_tensor tokens, targets; /* i32 [batch, seq] */
    rp_tensor loss;            /* cross entropy, summed over all positions */
    gpt2_parameter *parameters;
    size_t parameter_count;
} gpt2;

/* Records the model. Shapes that cannot be are STATUS_USAGE. */
bool gpt2_record(rp_tape *tape, rp_context *context, const gpt2_config *config, gpt2 *model,
                 failure *failure);
void gpt2_free(gpt2 *model);

/* Floating point operations of one micro-batch, forward and backward: 3 times the forward products,
 * 2 a multiply-add, causal scores counted half, look-ups and recompute not. */
int64_t gpt2_flops(const gpt2_config *config);

#endif
