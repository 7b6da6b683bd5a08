/* How near the kernels that are bound by memory come to a copy: each is timed in turns with a
 * memcpy of the same number of bytes (half read, half written) by the same threads.
 *
 *   bench_kernels [--threads N] [--rounds N] [--set NAME] [--json] [--check] [PART OF A NAME]
 *
 * Prints for each kernel GB/s, those of the copy, and their ratio: of the medians, and of the best
 * rounds (what is left when others use the machine too). Then how many of those that should reach
 * 0.8 of the copy, elementwise ones, norms and updates of parameters, do not in their best rounds;
 * with --check the status is then 1. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backend.h"
#include "dispatch.h"
#include "op.h"

enum {
    ROWS = 16384,
    WIDTH = 768,
    VOCABULARY = 50257,
    TOKENS = 256,
    MAX_SLOTS = 4,
    MAX_ROUNDS = 200
};

/* What a kernel of the class should reach. */
#define SHARE 0.8

typedef struct row {
    const char *name;
    rp_op op;
    rp_op_params params;
    rp_tensor_info in[MAX_SLOTS], out[MAX_SLOTS];
} row;

#define T(...)                                                                                     \
    {                                                                                              \
        RP_F32, {                                                                                  \
            (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {                           \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }
#define IDS(n)                                                                                     \
    {                                                                                              \
        RP_I32, {                                                                                  \
            1, {                                                                                   \
                n                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
#define SCALAR                                                                                     \
    {                                                                                              \
        RP_F32, {                                                                                  \
            0, {                                                                                   \
                0                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
#define X T(ROWS, WIDTH)
#define V T(WIDTH)
#define STATS T(ROWS, 2)
#define LOGITS T(TOKENS, VOCABULARY)
#define SQUARE T(96, 384, 384)
#define NONE                                                                                       \
    {                                                                                              \
        .gelu = { RP_GELU_TANH }                                                                   \
    }
#define ERF                                                                                        \
    {                                                                                              \
        .gelu = { RP_GELU_ERF }                                                                    \
    }
#define UPDATE                                                                                     \
    {                                                                                              \
        .adamw = { 1e-3f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.1f, 0.001f }                                \
    }

static const row rows[] = {
    {"add", RP_OP_ADD, NONE, {X, X}, {X}},
    {"add bias", RP_OP_ADD, NONE, {X, V}, {X}},
    {"mul", RP_OP_MUL, NONE, {X, X}, {X}},
    {"scale", RP_OP_SCALE, {.scale = {0.5f}}, {X}, {X}},
    {"gelu tanh", RP_OP_GELU, NONE, {X}, {X}},
    {"gelu tanh backward", RP_OP_GELU_BACKWARD, NONE, {X, X}, {X}},
    {"gelu erf", RP_OP_GELU, ERF, {X}, {X}},
    {"gelu erf backward", RP_OP_GELU_BACKWARD, ERF, {X, X}, {X}},
    {"tanh", RP_OP_TANH, NONE, {X}, {X}},
    {"tanh backward", RP_OP_TANH_BACKWARD, NONE, {X, X}, {X}},
    {"sigmoid", RP_OP_SIGMOID, NONE, {X}, {X}},
    {"sigmoid backward", RP_OP_SIGMOID_BACKWARD, NONE, {X, X}, {X}},
    {"relu", RP_OP_RELU, NONE, {X}, {X}},
    {"relu backward", RP_OP_RELU_BACKWARD, NONE, {X, X}, {X}},
    {"silu", RP_OP_SILU, NONE, {X}, {X}},
    {"silu backward", RP_OP_SILU_BACKWARD, NONE, {X, X}, {X}},
    {"dropout", RP_OP_DROPOUT, {.dropout = {0.1f, 1}}, {X}, {X}},
    {"layernorm", RP_OP_LAYERNORM, {.layernorm = {1e-5f}}, {X, V, V}, {X, STATS}},
    {"layernorm backward", RP_OP_LAYERNORM_BACKWARD, NONE, {X, STATS, V, X}, {X, V, V}},
    {"softmax", RP_OP_SOFTMAX, {.softmax = {false}}, {SQUARE}, {SQUARE}},
    {"softmax causal", RP_OP_SOFTMAX, {.softmax = {true}}, {SQUARE}, {SQUARE}},
    {"softmax backward", RP_OP_SOFTMAX_BACKWARD, {.softmax = {false}}, {SQUARE, SQUARE}, {SQUARE}},
    {"cross entropy",
     RP_OP_CROSS_ENTROPY,
     {.cross_entropy = {-100, RP_REDUCE_MEAN}},
     {LOGITS, IDS(TOKENS)},
     {SCALAR, T(TOKENS)}},
    {"cross entropy backward",
     RP_OP_CROSS_ENTROPY_BACKWARD,
     {.cross_entropy = {-100, RP_REDUCE_MEAN}},
     {LOGITS, IDS(TOKENS), T(TOKENS), SCALAR},
     {LOGITS}},
    {"embedding", RP_OP_EMBEDDING, NONE, {T(VOCABULARY, WIDTH), IDS(ROWS)}, {X}},
    {"embedding backward", RP_OP_EMBEDDING_BACKWARD, NONE, {IDS(ROWS), X}, {T(VOCABULARY, WIDTH)}},
    {"sum", RP_OP_SUM, {.sum = {1.0f}}, {X}, {SCALAR}},
    {"sum leading", RP_OP_SUM_LEADING, NONE, {X}, {V}},
    {"transpose heads",
     RP_OP_TRANSPOSE,
     {.transpose = {1, 2}},
     {T(16, 1024, 12, 64)},
     {T(16, 12, 1024, 64)}},
    {"transpose", RP_OP_TRANSPOSE, {.transpose = {0, 1}}, {X}, {T(WIDTH, ROWS)}},
    {"slice", RP_OP_SLICE, {.slice = {1, 256, 256}}, {X}, {T(ROWS, 256)}},
    {"slice backward", RP_OP_SLICE_BACKWARD, {.slice = {1, 256, 256}}, {T(ROWS, 256)}, {X}},
    {"adamw", RP_OP_ADAMW, UPDATE, {X, X, X, X}, {X, X, X}},
    {"sgd", RP_OP_SGD, UPDATE, {X, X}, {X}},
    {"sum squares", RP_OP_SUM_SQUARES, NONE, {X}, {T(2)}},
};

/* Elementwise ops, norms, and the updates of parameters. */
static bool is_of_class(rp_op op) {
    static const rp_op others[] = {RP_OP_SOFTMAX,       RP_OP_SOFTMAX_BACKWARD,
                                   RP_OP_CROSS_ENTROPY, RP_OP_CROSS_ENTROPY_BACKWARD,
                                   RP_OP_EMBEDDING,     RP_OP_EMBEDDING_BACKWARD,
                                   RP_OP_SUM,           RP_OP_SUM_LEADING,
                                   RP_OP_TRANSPOSE,     RP_OP_SLICE,
                                   RP_OP_SLICE_BACKWARD};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i] == op)
            return false;
    return true;
}

typedef struct options {
    int threads, rounds;
    bool json, check;
    const char *set, *part;
} options;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static size_t bytes_of(const rp_tensor_info *info) {
    return (size_t)rp_shape_count(info->shape) * rp_dtype_bytes(info->dtype);
}

static size_t slots_of(const rp_tensor_info *infos) {
    size_t count = 0;
    while (count < MAX_SLOTS && infos[count].dtype != RP_NO_DTYPE)
        count++;
    return count;
}

/* From the backend, as the executor has it: the pages matter. */
static void *block_make(rp_context *context, size_t bytes) {
    void *block = NULL;
    if (rp_backend_cpu.allocate(context, NULL, bytes, &block) != RP_OK)
        exit(5);
    memset(block, 0, bytes);
    return block;
}

static void *tensor_make(rp_context *context, const rp_tensor_info *info) {
    void *data = block_make(context, bytes_of(info));
    for (int64_t i = 0; i < rp_shape_count(info->shape); i++)
        if (info->dtype == RP_I32)
            ((int32_t *)data)[i] = (int32_t)(i * 7919 % VOCABULARY);
        else
            ((float *)data)[i] = (float)(i * 7919 % 1024) * 0x1p-9f + 0.001f;
    return data;
}

static void copy(char *to, const char *from, size_t bytes, int threads) {
    const size_t part = (bytes / (size_t)threads + 63) / 64 * 64;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int t = 0; t < threads; t++) {
        const size_t begin = (size_t)t * part;
        if (begin < bytes)
            memcpy(to + begin, from + begin, bytes - begin < part ? bytes - begin : part);
    }
}

/* `ratio` of the best rounds. */
static rp_status run_row(const row *r, const rp_kernel *kernels, const options *o,
                         rp_context *context, double *ratio) {
    const rp_op_def *def = rp_op_get(r->op);
    const rp_step_state step = {1, 2, 3, 1.0f, false};
    rp_tensor_info outs[MAX_SLOTS];
    memcpy(outs, r->out, sizeof outs);
    const rp_op_call call = {r->in, slots_of(r->in), outs, slots_of(r->out), &r->params};
    void *in[MAX_SLOTS] = {0}, *out[MAX_SLOTS] = {0};
    static double kernel_s[MAX_ROUNDS], copy_s[MAX_ROUNDS];
    rp_status status = RP_OK;
    for (size_t i = 0; i < call.in_count; i++)
        in[i] = tensor_make(context, &r->in[i]);
    for (size_t k = 0; k < call.out_count; k++)
        out[k] = tensor_make(context, &r->out[k]);
    const size_t scratch = def->workspace != NULL ? (size_t)def->workspace(&call) : 0;
    void *workspace = block_make(context, scratch);
    const size_t bytes = (size_t)rp_op_bytes_moved(r->op, &call);
    char *from = block_make(context, bytes / 2), *to = block_make(context, bytes / 2);
    const rp_launch launch = {.call = call,
                              .in = (const void *const *)in,
                              .out = out,
                              .workspace = workspace,
                              .step = &step,
                              .threads = o->threads};
    for (int n = -1; n < o->rounds; n++) { /* round -1 touches the memory */
        const double begin = now();
        copy(to, from, bytes / 2, o->threads);
        const double middle = now();
        status = kernels[r->op](&launch);
        const double end = now();
        if (n >= 0) {
            copy_s[n] = middle - begin;
            kernel_s[n] = end - middle;
        }
    }
    qsort(kernel_s, (size_t)o->rounds, sizeof kernel_s[0], by_value);
    qsort(copy_s, (size_t)o->rounds, sizeof copy_s[0], by_value);
    const int mid = o->rounds / 2;
    *ratio = copy_s[0] / kernel_s[0];
    printf(o->json ? "%s{\"kernel\": \"%s\", \"gb_s\": %.2f, \"copy_gb_s\": %.2f, \"ratio\": %.3f, "
                     "\"best_ratio\": %.3f}\n"
                   : "%s%-24s %8.2f %8.2f %8.3f %8.3f\n",
           "", r->name, (double)bytes * 1e-9 / kernel_s[mid], (double)bytes * 1e-9 / copy_s[mid],
           copy_s[mid] / kernel_s[mid], *ratio);
    for (size_t i = 0; i < call.in_count; i++)
        rp_backend_cpu.release(NULL, in[i], bytes_of(&r->in[i]));
    for (size_t k = 0; k < call.out_count; k++)
        rp_backend_cpu.release(NULL, out[k], bytes_of(&r->out[k]));
    rp_backend_cpu.release(NULL, workspace, scratch);
    rp_backend_cpu.release(NULL, from, bytes / 2);
    rp_backend_cpu.release(NULL, to, bytes / 2);
    return status;
}

static const rp_kernel *kernels_of(const char *name) {
    size_t count = 0;
    const rp_cpu_set *sets = rp_cpu_sets(&count);
    for (size_t s = 0; s < count; s++)
        if (sets[s].is_available() && (name == NULL || strcmp(name, sets[s].name) == 0))
            return sets[s].kernels;
    return NULL;
}

int main(int argc, char **argv) {
    options o = {omp_get_max_threads(), 15, false, false, NULL, ""};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            o.threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc)
            o.rounds = atoi(argv[++i]);
        else if (strcmp(argv[i], "--set") == 0 && i + 1 < argc)
            o.set = argv[++i];
        else if (strcmp(argv[i], "--json") == 0)
            o.json = true;
        else if (strcmp(argv[i], "--check") == 0)
            o.check = true;
        else
            o.part = argv[i];
    }
    const rp_kernel *kernels = kernels_of(o.set);
    if (o.threads < 1 || o.rounds < 1 || o.rounds > MAX_ROUNDS || kernels == NULL) {
        fprintf(stderr,
                "bench_kernels: threads and rounds (up to %d) are 1 or more, the set is one "
                "of this processor's\n",
                MAX_ROUNDS);
        return 2;
    }
    rp_context *context = NULL;
    if (rp_context_create(NULL, &context) != RP_OK)
        return 5;
    rp_status status = RP_OK;
    int members = 0, below = 0;
    if (!o.json)
        printf("%-24s %8s %8s %8s %8s\n", "kernel", "GB/s", "copy", "ratio", "best");
    for (size_t r = 0; r < sizeof rows / sizeof rows[0] && status == RP_OK; r++)
        if (strstr(rows[r].name, o.part) != NULL) {
            double ratio = 0.0;
            status = run_row(&rows[r], kernels, &o, context, &ratio);
            members += is_of_class(rows[r].op);
            below += is_of_class(rows[r].op) && ratio < SHARE;
        }
    rp_context_destroy(context);
    printf(o.json ? "{\"elementwise_norm_update\": %d, \"below\": %d, \"share\": %.2f}\n"
                  : "%d elementwise, norm and update kernels, %d below %.2f of the copy\n",
           members, below, SHARE);
    return status != RP_OK || (o.check && below > 0) ? 1 : 0;
}
