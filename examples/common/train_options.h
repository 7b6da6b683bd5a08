/* The model flags: what train_gpt takes, and every program that trains the same model. */
#ifndef EXAMPLES_TRAIN_OPTIONS_H
#define EXAMPLES_TRAIN_OPTIONS_H

#include "options.h"

typedef struct train_options {
    text_list data;
    const char *arch, *dtype, *attention, *backend, *costs, *recompute;
    int64_t layers, dim, heads, kv_heads, ffn, seq, batch, accum, vocab, steps, threads, seed;
    double lr, dropout, validation;
    bool untie;
    size_spec budget;
    const char *strategy, *plan, *load;
} train_options;

/* The defaults of the rules that this program and its PyTorch twin follow. 0 heads or ffn: made
 * from the others. */
#define TRAIN_OPTIONS                                                                              \
    {                                                                                              \
        .arch = "gpt2", .dtype = "f32", .attention = "fused", .backend = "cpu", .costs = "model",  \
        .recompute = "none", .layers = 4, .dim = 128, .heads = 4, .seq = 128, .batch = 4,          \
        .accum = 1, .vocab = 256, .steps = 10, .seed = 1, .lr = 3e-4                               \
    }

/* The rows of an option table for a train_options *o. */
#define TRAIN_OPTION_ROWS(o)                                                                       \
    {"data", OPTION_LIST, &(o)->data, "FILE",                                                      \
     "text, a token a byte; repeatable (default: synthetic)"},                                     \
        {"arch", OPTION_CHOICE, &(o)->arch, "gpt2|llama", "model; llama is not built yet"},        \
        {"layers", OPTION_COUNT, &(o)->layers, "N", "blocks"},                                     \
        {"dim", OPTION_COUNT, &(o)->dim, "N", "width of the residual stream"},                     \
        {"heads", OPTION_COUNT, &(o)->heads, "N", "attention heads; must divide the width"},       \
        {"kv-heads", OPTION_COUNT, &(o)->kv_heads, "N",                                            \
         "key/value heads (default: as many as heads)"},                                           \
        {"ffn", OPTION_COUNT, &(o)->ffn, "N", "inner width of the MLP (default: 4 dim)"},          \
        {"seq", OPTION_COUNT, &(o)->seq, "N", "tokens of a window"},                               \
        {"batch", OPTION_COUNT, &(o)->batch, "N", "windows of a micro-batch"},                     \
        {"accum", OPTION_COUNT, &(o)->accum, "N", "micro-batches of a step"},                      \
        {"vocab", OPTION_COUNT, &(o)->vocab, "N", "size of the vocabulary"},                       \
        {"steps", OPTION_COUNT, &(o)->steps, "N", "optimizer steps"},                              \
        {"lr", OPTION_REAL, &(o)->lr, "X", "learning rate of AdamW"},                              \
        {"dropout", OPTION_REAL, &(o)->dropout, "P", "probability, below 1"},                      \
        {"dtype", OPTION_CHOICE, &(o)->dtype, "f32|bf16",                                          \
         "storage; bf16 has master weights in f32"},                                               \
        {"attention", OPTION_CHOICE, &(o)->attention, "fused|unfused",                             \
         "one op, or scores, softmax, values"},                                                    \
        {"untie", OPTION_FLAG, &(o)->untie, NULL, "a head of its own instead of the embedding"},   \
        {"budget", OPTION_SIZE, &(o)->budget, "SIZE", "bytes for everything (default: no limit)"}, \
        {"strategy", OPTION_TEXT, &(o)->strategy, "NAME", "of the planner (default auto)"},        \
        {"recompute", OPTION_CHOICE, &(o)->recompute, "none|attention",                            \
         "attention: no plan keeps scores and probabilities (unfused)"},                           \
        {"costs", OPTION_TEXT, &(o)->costs, "model|FILE",                                          \
         "of the nodes; FILE: reprise-device (modelled) or reprise-costs (measured)"},             \
        {"plan", OPTION_TEXT, &(o)->plan, "PLAN.json", "run this plan instead of making one"},     \
        {"backend", OPTION_CHOICE, &(o)->backend, "cpu|cuda|null|auto",                            \
         "auto: a GPU, if there is one"},                                                          \
        {"threads", OPTION_COUNT, &(o)->threads, "N", "of the kernels (default: all cores)"},      \
        {"seed", OPTION_NUMBER, &(o)->seed, "N", "of initial weights and dropout"},                \
        {"load", OPTION_TEXT, &(o)->load, "FILE.safetensors", "initial weights"}, {                \
        "validation", OPTION_REAL, &(o)->validation, "F",                                          \
            "hold out the last F of the text; 0: the last 5 % if no step reads them"               \
    }

/* Fills what was left to a rule and refuses what no model can have: STATUS_USAGE names the option.
 */
bool train_options_complete(train_options *options, failure *failure);

/* f32 or bf16. */
rp_dtype train_options_dtype(const train_options *options);

/* Of a completed set; the CPU for "auto". */
rp_backend_kind train_options_backend(const train_options *options);

#endif
