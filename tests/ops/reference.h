/* Plain references of the forward runs in double precision, written from include/reprise/ops.h and
 * meant to be checked by eye. */
#ifndef REPRISE_TESTS_OPS_REFERENCE_H
#define REPRISE_TESTS_OPS_REFERENCE_H

#include "ops_case.h"

#define REFERENCE(name)                                                                            \
    void name(const rp_op_call *call, const double *const *in, double *const *out)

REFERENCE(reference_add);
REFERENCE(reference_mul);
REFERENCE(reference_scale);
REFERENCE(reference_gelu);
REFERENCE(reference_tanh);
REFERENCE(reference_sigmoid);
REFERENCE(reference_relu);
REFERENCE(reference_silu);
REFERENCE(reference_embedding);
REFERENCE(reference_layernorm);
REFERENCE(reference_softmax);
REFERENCE(reference_cross_entropy);
REFERENCE(reference_sum);
REFERENCE(reference_transpose);
REFERENCE(reference_slice);
REFERENCE(reference_concat);

/* reference_products.c */
REFERENCE(reference_linear);
REFERENCE(reference_matmul);
REFERENCE(reference_attention);
REFERENCE(reference_attention_scores);
REFERENCE(reference_attention_values);

#endif
