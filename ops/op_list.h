/* One row an op: X(ENUM, name). A row expands to the enum (op.h), to the definition
 * rp_op_def_<name> (one file in ops/) and, for RP_KERNEL_OP_LIST, to one kernel per backend: a
 * promised kernel that is missing is a link error. */
#ifndef REPRISE_OPS_OP_LIST_H
#define REPRISE_OPS_OP_LIST_H

#define RP_KERNEL_OP_LIST(X)                                                                       \
    /* elementwise */                                                                              \
    X(RP_OP_ADD, add)                                                                              \
    X(RP_OP_MUL, mul)                                                                              \
    X(RP_OP_SCALE, scale)                                                                          \
    X(RP_OP_GELU, gelu)                                                                            \
    X(RP_OP_GELU_BACKWARD, gelu_backward)                                                          \
    X(RP_OP_TANH, tanh)                                                                            \
    X(RP_OP_TANH_BACKWARD, tanh_backward)                                                          \
    X(RP_OP_SIGMOID, sigmoid)                                                                      \
    X(RP_OP_SIGMOID_BACKWARD, sigmoid_backward)                                                    \
    X(RP_OP_RELU, relu)                                                                            \
    X(RP_OP_RELU_BACKWARD, relu_backward)                                                          \
    X(RP_OP_SILU, silu)                                                                            \
    X(RP_OP_SILU_BACKWARD, silu_backward)                                                          \
    X(RP_OP_DROPOUT, dropout) /* its own backward: the same mask on the gradient */                \
    X(RP_OP_CAST, cast)       /* f32 <-> bf16 */                                                   \
    /* rows and reductions */                                                                      \
    X(RP_OP_EMBEDDING, embedding)                                                                  \
    X(RP_OP_EMBEDDING_BACKWARD, embedding_backward)                                                \
    X(RP_OP_LAYERNORM, layernorm)                                                                  \
    X(RP_OP_LAYERNORM_BACKWARD, layernorm_backward)                                                \
    X(RP_OP_SOFTMAX, softmax)                                                                      \
    X(RP_OP_SOFTMAX_BACKWARD, softmax_backward)                                                    \
    X(RP_OP_CROSS_ENTROPY, cross_entropy)                                                          \
    X(RP_OP_CROSS_ENTROPY_BACKWARD, cross_entropy_backward)                                        \
    X(RP_OP_SUM, sum) /* all elements, times a factor: sum and mean */                             \
    X(RP_OP_SUM_BACKWARD, sum_backward)                                                            \
    X(RP_OP_SUM_LEADING, sum_leading) /* over the leading dimensions: gradient of a repeat */      \
    X(RP_OP_LOSS_SEED, loss_seed)     /* the gradient of a loss: the loss scale of the step */     \
    /* products */                                                                                 \
    X(RP_OP_LINEAR, linear)                                                                        \
    X(RP_OP_LINEAR_BACKWARD_INPUT, linear_backward_input)                                          \
    X(RP_OP_LINEAR_BACKWARD_WEIGHT, linear_backward_weight)                                        \
    X(RP_OP_MATMUL, matmul)                                                                        \
    X(RP_OP_ATTENTION, attention)                                                                  \
    X(RP_OP_ATTENTION_BACKWARD, attention_backward)                                                \
    X(RP_OP_ATTENTION_SCORES, attention_scores)                                                    \
    X(RP_OP_ATTENTION_SCORES_BACKWARD, attention_scores_backward)                                  \
    X(RP_OP_ATTENTION_VALUES, attention_values)                                                    \
    X(RP_OP_ATTENTION_VALUES_BACKWARD, attention_values_backward)                                  \
    /* shape */                                                                                    \
    X(RP_OP_TRANSPOSE, transpose)                                                                  \
    X(RP_OP_SLICE, slice)                                                                          \
    X(RP_OP_SLICE_BACKWARD, slice_backward)                                                        \
    X(RP_OP_CONCAT, concat)                                                                        \
    /* updates: run between steps, not nodes of a graph today */                                   \
    X(RP_OP_ADAMW, adamw)                                                                          \
    X(RP_OP_SGD, sgd)                                                                              \
    X(RP_OP_SUM_SQUARES, sum_squares)                                                              \
    X(RP_OP_CLIP_SCALE, clip_scale)                                                                \
    /* the caller's */                                                                             \
    X(RP_OP_CUSTOM, custom)                                                                        \
    X(RP_OP_CUSTOM_BACKWARD, custom_backward)

/* Ops without a kernel: the output is the input's memory from a byte offset on. */
#define RP_VIEW_OP_LIST(X)                                                                         \
    X(RP_OP_VIEW, view) /* reshape, detach, contiguous slices, transposes that move nothing */

#define RP_OP_LIST(X) RP_KERNEL_OP_LIST(X) RP_VIEW_OP_LIST(X)

#endif
