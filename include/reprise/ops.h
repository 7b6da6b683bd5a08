/* The ops that a tape records.
 *
 * Each entry gives: the formula; shapes and data types; what backward reads (what a plan must keep
 * or recompute); the cost of forward. Letters: B batch, T sequence, C width, H heads, D = C / H, V
 * vocabulary, N = all leading dimensions multiplied. Storage is f32 or bf16, one type for all
 * floating inputs of an op, and its output has that type unless said otherwise; sums are made in
 * f32 or wider and rounded once, to nearest even. "..." is any number of dimensions. All return the
 * tensor 0 and set the tape's status when the arguments do not fit (tape.h).
 */
#ifndef REPRISE_OPS_H
#define REPRISE_OPS_H

#include "tape.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Elementwise ----------------------------------------------------------------------------- */

/* a + b, a * b. a [..., shape of b]: b is repeated over the leading dimensions of a. Same dtype.
 * Backward of add reads nothing; of mul both operands, each only if the other one needs a
 * gradient. */
RP_API rp_tensor rp_add(rp_tape *tape, rp_tensor a, rp_tensor b);
RP_API rp_tensor rp_mul(rp_tape *tape, rp_tensor a, rp_tensor b);

/* factor * x. Backward reads nothing. */
RP_API rp_tensor rp_scale(rp_tape *tape, rp_tensor x, float factor);

/* Any shape. Backward reads x (gelu, silu) or the output (tanh, sigmoid, relu). */
typedef enum rp_gelu_form {
    RP_GELU_TANH, /* x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) */
    RP_GELU_ERF   /* x/2 (1 + erf(x / sqrt 2)) */
} rp_gelu_form;
RP_API rp_tensor rp_gelu(rp_tape *tape, rp_tensor x, rp_gelu_form form);
RP_API rp_tensor rp_tanh(rp_tape *tape, rp_tensor x);
RP_API rp_tensor rp_sigmoid(rp_tape *tape, rp_tensor x);
RP_API rp_tensor rp_relu(rp_tape *tape, rp_tensor x);
RP_API rp_tensor rp_silu(rp_tape *tape, rp_tensor x);

/* Each element is 0 with probability p, else x / (1 - p). 0 <= p < 1. The mask is a pure function
 * of the program's seed, the step, the micro-batch, this op and the element's index (Philox
 * 4x32-10): a replay draws the same one and nothing is stored. Backward reads nothing. An executor
 * that evaluates (executor.h) takes p as 0. Recorded with p = 0 it is x itself, and no op. */
RP_API rp_tensor rp_dropout(rp_tape *tape, rp_tensor x, float p);

/* x as f32 or as bf16, rounded to nearest even (a NaN stays one): x itself, and no op, where it has
 * that type. Backward reads nothing: the gradient is cast back. A cast of a parameter or of a view
 * of one is marked RP_MARK_RECOMPUTE, unless it or a view of it is marked RP_MARK_KEEP or an output
 * of the program: the parameter is at hand all the time, so no plan keeps a copy. Views of the
 * marked cast are the cast itself to the graph, so that none of them holds its bytes. (`keep-all`
 * then does not apply where backward reads the cast; RP_MARK_KEEP lets it.) */
RP_API rp_tensor rp_cast(rp_tape *tape, rp_tensor x, rp_dtype dtype);

/* ---- Rows ------------------------------------------------------------------------------------ */

/* table [V, C], ids [...] i32 -> [..., C]: row ids[i] of the table. Ids must lie in [0, V); an id
 * outside gives a row of NaN forward and is ignored backward (checking ids is the caller's, who
 * made them). Backward reads the ids. Equal ids add up in the order of their position:
 * deterministic. */
RP_API rp_tensor rp_embedding(rp_tape *tape, rp_tensor table, rp_tensor ids);

/* y = (x - mean) / sqrt(variance + eps) * weight + bias over the last dimension; variance is the
 * biased one. x [..., C], weight [C], bias [C] or absent. Backward reads x, weight and 8 bytes of
 * statistics a row, never y. */
RP_API rp_tensor rp_layernorm(rp_tape *tape, rp_tensor x, rp_tensor weight, rp_tensor bias,
                              float eps);

/* softmax over the last dimension. causal: x [..., T, T'], row i sees columns j <= i + T' - T; the
 * others get 0 (also those with -inf in them); a row that sees nothing is 0. Backward reads the
 * output. */
RP_API rp_tensor rp_softmax(rp_tape *tape, rp_tensor x, bool causal);

typedef enum rp_reduction {
    RP_REDUCE_MEAN, /* over the valid targets; 0 if there is none */
    RP_REDUCE_SUM
} rp_reduction;

/* -log softmax(logits)[target], reduced to a scalar, an f32. logits [..., V], targets [...] i32;
 * rows whose target is `ignore_index` (-100 by custom) or lies outside [0, V) count nothing and get
 * gradient 0. Backward reads logits, targets and 4 bytes a row (log-sum-exp), never
 * probabilities. */
RP_API rp_tensor rp_cross_entropy(rp_tape *tape, rp_tensor logits, rp_tensor targets,
                                  int32_t ignore_index, rp_reduction reduction);

/* The sum or the mean of all elements, an f32 scalar. Backward reads nothing. */
RP_API rp_tensor rp_sum(rp_tape *tape, rp_tensor x);
RP_API rp_tensor rp_mean(rp_tape *tape, rp_tensor x);

/* ---- Products -------------------------------------------------------------------------------- */

typedef enum rp_weight_layout {
    RP_IN_OUT, /* weight [in, out]: GPT-2's Conv1D */
    RP_OUT_IN  /* weight [out, in]: everybody else's Linear, and a tied embedding as head */
} rp_weight_layout;

/* y = x weight + bias. x [..., in], bias [out] or absent -> [..., out]. Cost 2 N in out.
 * Backward reads x if the weight needs a gradient, and the weight if x does. */
RP_API rp_tensor rp_linear(rp_tape *tape, rp_tensor x, rp_tensor weight, rp_tensor bias,
                           rp_weight_layout layout);

/* C = op(A) op(B), op the identity or the transpose of the last two dimensions, batched over equal
 * leading ones. op(A) [..., M, K], op(B) [..., K, N] -> [..., M, N]. Cost 2 M N K a batch. Backward
 * reads A and B, each if the other one needs a gradient. */
RP_API rp_tensor rp_matmul(rp_tape *tape, rp_tensor a, rp_tensor b, bool transpose_a,
                           bool transpose_b);

typedef struct rp_attention_options {
    size_t struct_size; /* sizeof(rp_attention_options) */
    int heads;          /* of the queries */
    /* of keys and values; 0: as many. Query head h reads key/value head h kv_heads / heads */
    int kv_heads;
    bool causal;   /* row i sees columns j <= i + T_k - T_q */
    float scale;   /* of the scores; 0: 1 / sqrt(D) */
    float dropout; /* of the probabilities; as rp_dropout */
} rp_attention_options;

#define RP_ATTENTION_OPTIONS                                                                       \
    { sizeof(rp_attention_options), 1, 0, true, 0.0f, 0.0f }

/* softmax(scale q k^T) v for each head, fused: no matrix of scores in memory. q [B, T, H D], k and
 * v [B, T', H' D] -> [B, T, H D]; head h is the columns [h D, h D + D). Or k and v absent and q the
 * three beside each other, [B, T, (H + 2 H') D]: q, k, v in this order. Backward reads q, k, v, the
 * output and 4 H bytes a row (log-sum-exp). Cost 4 B T T' H D, half of it if causal. */
RP_API rp_tensor rp_attention(rp_tape *tape, rp_tensor q, rp_tensor k, rp_tensor v,
                              const rp_attention_options *options);

/* The same in separate ops, so that a plan can keep or drop each: scores, softmax, (dropout,)
 * values. Dropout is options->dropout. The scores are [B, H, T, T']. Backward reads q, k, v, the
 * probabilities (and the dropped ones). */
RP_API rp_tensor rp_attention_unfused(rp_tape *tape, rp_tensor q, rp_tensor k, rp_tensor v,
                                      const rp_attention_options *options);

/* ---- Shape ----------------------------------------------------------------------------------- */

/* A view: costs nothing, holds its base. The number of elements must not change; one dimension may
 * be -1. */
RP_API rp_tensor rp_reshape(rp_tape *tape, rp_tensor x, rp_shape shape);

/* Swaps two dimensions (negative ones count from the end). A view where nothing moves (a dimension
 * of 1), else a copy. */
RP_API rp_tensor rp_transpose(rp_tape *tape, rp_tensor x, int first, int second);

/* Elements [start, start + length) of a dimension. A view where they are contiguous (every
 * dimension before it is 1), else a copy. Any dtype. */
RP_API rp_tensor rp_slice(rp_tape *tape, rp_tensor x, int dimension, int64_t start, int64_t length);

/* `count` >= 1 tensors that agree in all other dimensions, one behind the other. A copy. */
RP_API rp_tensor rp_concat(rp_tape *tape, const rp_tensor *tensors, size_t count, int dimension);

/* ---- Ops of your own: UNSTABLE --------------------------------------------------------------- */

/* What a callback of a custom op sees. `in[i]` are the op's inputs, `out[i]` its outputs,
 * `grad_out[i]` the gradient of each output, `grad_in[i]` where to write the gradient of each
 * input; NULL where a gradient is absent or not wanted. Row-major host memory. Backward gets NULL
 * for inputs or outputs that the op does not read there, and then their types and shapes only as
 * far as their gradients are there. `is_replay`: this forward run recomputes. */
typedef struct rp_custom_call {
    const rp_tensor_info *in_info, *out_info;
    const void *const *in;
    void *const *out;
    const void *const *grad_out;
    void *const *grad_in;
    size_t in_count, out_count;
    bool is_replay;
    void *user;
} rp_custom_call;

typedef struct rp_custom_op {
    size_t struct_size; /* sizeof(rp_custom_op) */
    const char *name;
    rp_status (*forward)(const rp_custom_call *call);
    /* NULL: RP_UNSUPPORTED where a gradient would flow through */
    rp_status (*backward)(const rp_custom_call *call);
    void *user; /* handed to both; must outlive the programs of the tape */
    int64_t forward_cost_ns, backward_cost_ns;
    bool has_side_effects;      /* never replayed */
    bool backward_reads_inputs; /* which of them a plan must have at hand for backward */
    bool backward_reads_outputs;
} rp_custom_op;

#define RP_CUSTOM_OP                                                                               \
    { sizeof(rp_custom_op), NULL, NULL, NULL, NULL, 0, 0, false, true, true }

/* `inputs` may hold absent tensors (0). `outputs` gets `output_count` tensors of the given types
 * and shapes; it may be the same list. CPU only. */
RP_API rp_status rp_custom(rp_tape *tape, const rp_custom_op *op, const rp_tensor *inputs,
                           size_t input_count, const rp_tensor_info *output_infos,
                           size_t output_count, rp_tensor *outputs);

#ifdef __cplusplus
}
#endif

#endif
