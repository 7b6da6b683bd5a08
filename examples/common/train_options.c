/* What the model flags must satisfy together. */
#include "train_options.h"

#include <inttypes.h>
#include <string.h>

bool train_options_complete(train_options *o, failure *failure) {
    if (strcmp(o->arch, "llama") == 0)
        return fail(failure, STATUS_USAGE, "--arch llama is not built yet: expected gpt2");
    if (o->dim % o->heads != 0) {
        return fail(failure, STATUS_USAGE,
                    "--dim %" PRId64 ": expected a multiple of --heads %" PRId64, o->dim, o->heads);
    }
    o->kv_heads = o->kv_heads != 0 ? o->kv_heads : o->heads;
    if (o->kv_heads != o->heads) {
        return fail(failure, STATUS_USAGE,
                    "--kv-heads %" PRId64 ": gpt2 has as many as heads, expected %" PRId64,
                    o->kv_heads, o->heads);
    }
    o->ffn = o->ffn != 0 ? o->ffn : 4 * o->dim;
    if (strcmp(o->recompute, "attention") == 0 && strcmp(o->attention, "unfused") != 0) {
        return fail(failure, STATUS_USAGE,
                    "--recompute attention: fused attention keeps neither scores nor "
                    "probabilities, expected --attention unfused");
    }
    if ((float)o->dropout >= 1.0f) { /* also what rounds to 1 */
        return fail(failure, STATUS_USAGE, "--dropout %.10g: expected a probability below 1",
                    o->dropout);
    }
    if (o->threads > RP_MAX_THREADS) {
        return fail(failure, STATUS_USAGE, "--threads %" PRId64 ": expected at most %d", o->threads,
                    RP_MAX_THREADS);
    }
    if (o->validation >= 1.0) {
        return fail(failure, STATUS_USAGE, "--validation %g: expected a part of the text, below 1",
                    o->validation);
    }
    return true;
}

rp_dtype train_options_dtype(const train_options *options) {
    return strcmp(options->dtype, "bf16") == 0 ? RP_BF16 : RP_F32;
}

rp_backend_kind train_options_backend(const train_options *options) {
    return strcmp(options->backend, "null") == 0   ? RP_BACKEND_NULL
           : strcmp(options->backend, "cuda") == 0 ? RP_BACKEND_CUDA
                                                   : RP_BACKEND_CPU;
}
