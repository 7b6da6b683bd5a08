/* GPT-2-shaped models that the tests share: names, layouts and structure of GPT2LMHeadModel. */
#ifndef REPRISE_TESTS_AUTOGRAD_GPT2_H
#define REPRISE_TESTS_AUTOGRAD_GPT2_H

#include <reprise/reprise.h>

typedef struct rp_test_gpt2_shape {
    int layers, dim, heads, seq, batch, vocab; /* at most RP_TEST_GPT2_LAYERS layers */
    bool tied;                                 /* the head is the embedding of the tokens */
    bool fused;                                /* attention in one op */
    bool bf16;                                 /* parameters and activations, else f32 */
    float dropout; /* of the embedding, the probabilities of attention and both residuals */
    rp_reduction reduction;
} rp_test_gpt2_shape;

enum { RP_TEST_GPT2_LAYERS = 8, RP_TEST_GPT2_PARAMETERS = 12 * RP_TEST_GPT2_LAYERS + 5 };

typedef struct rp_test_gpt2 {
    rp_test_gpt2_shape shape;
    rp_tape *tape;
    rp_tensor parameters[RP_TEST_GPT2_PARAMETERS]; /* in the order of the model's parts */
    size_t parameter_count;
    rp_tensor ids, positions, targets; /* [batch, seq], [seq], [batch, seq], all i32 */
    rp_tensor logits, loss;
} rp_test_gpt2;

/* T0 of the project's list of cases: 4 layers, batch 2, seq 16, dim 32, 4 heads, vocabulary 64. */
extern const rp_test_gpt2_shape rp_test_t0;

/* Records the model; whether that went well says the tape's status. */
void rp_test_gpt2_record(rp_tape *tape, const rp_test_gpt2_shape *shape, rp_test_gpt2 *model);

/* Writes weights, each from a formula of the number of the parameter and the element, and the
 * positions. Norm weights lie around 1, everything else around 0, all within a quarter. */
rp_status rp_test_gpt2_write_weights(const rp_test_gpt2 *model, rp_executor *executor);

/* Writes ids and targets: a window of one endless pseudo-random text that begins at `at`. */
rp_status rp_test_gpt2_write_batch(const rp_test_gpt2 *model, rp_executor *executor, int64_t at);

#endif
