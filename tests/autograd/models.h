/* The small transformers of cases.md: T0, T0d (dropout 0.1), T0t (head tied to the embedding). */
#ifndef REPRISE_TESTS_AUTOGRAD_MODELS_H
#define REPRISE_TESTS_AUTOGRAD_MODELS_H

#include "bench.h"

enum { MODEL_LAYERS = 4, MODEL_BATCH = 2, MODEL_SEQ = 16, MODEL_DIM = 32, MODEL_VOCAB = 64 };

typedef struct model_options {
    int layers;    /* 0: 4 */
    int seq;       /* 0: 16 */
    float dropout; /* of the attention probabilities and both residuals */
    bool tied, unfused;
    bool casts; /* parameters stay f32, and everything is computed with casts of them to bf16 */
    int frozen_below; /* parameters of everything before this block get no gradient; 0: none */
    bool frozen_end;  /* neither do those behind the blocks */
} model_options;

typedef struct model {
    rp_tensor tokens, targets, logits, loss;
    rp_tensor block_outputs[MODEL_LAYERS];
    rp_tensor attention[MODEL_LAYERS];
    int seq;
} model;

/* Records the model on the bench's tape: leaves have fixed pseudo-random data. */
model model_record(bench *b, model_options options);

/* Other tokens and targets, by number; written to the executor. */
void model_batch(bench *b, const model *m, uint64_t number);

#endif
