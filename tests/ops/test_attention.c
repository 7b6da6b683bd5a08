/* attention, fused and in separate ops. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/dispatch.h"
#include "ops_device.h"
#include "product.h"
#include "random.h"
#include "reference.h"
#include "vjp_record.h"

typedef struct shape {
    int64_t batch, queries, keys, size;
    int heads, kv_heads;
    bool causal, packed;
    float dropout, scale;
} shape;

static rp_op_params params_of(const shape *s) {
    return (rp_op_params){.attention = {.heads = s->heads,
                                        .kv_heads = s->kv_heads,
                                        .causal = s->causal,
                                        .packed = s->packed,
                                        .scale = s->scale,
                                        .dropout = s->dropout,
                                        .stream = 5}};
}

static rp_tensor_info q_info(const shape *s) {
    const int64_t width = s->packed ? (s->heads + 2 * s->kv_heads) * s->size : s->heads * s->size;
    return (rp_tensor_info)OPS_F32(s->batch, s->queries, width);
}

static rp_tensor_info kv_info(const shape *s) {
    const int64_t heads = s->kv_heads ? s->kv_heads : s->heads;
    return s->packed ? (rp_tensor_info){0}
                     : (rp_tensor_info)OPS_F32(s->batch, s->keys, heads * s->size);
}

static rp_tensor_info o_info(const shape *s) {
    return (rp_tensor_info)OPS_F32(s->batch, s->queries, s->heads * s->size);
}

static rp_tensor_info lse_info(const shape *s) {
    return (rp_tensor_info)OPS_F32(s->batch, s->heads, s->queries);
}

static rp_tensor_info scores_info(const shape *s) {
    return (rp_tensor_info)OPS_F32(s->batch, s->heads, s->queries, s->keys);
}

#define NAME_BYTES 128

static const char *name_of(char name[NAME_BYTES], const char *op, const shape *s) {
    snprintf(name, NAME_BYTES, "%s B %lld T %lld T' %lld D %lld H %d H' %d%s%s p %g", op,
             (long long)s->batch, (long long)s->queries, (long long)s->keys, (long long)s->size,
             s->heads, s->kv_heads, s->causal ? " causal" : "", s->packed ? " packed" : "",
             (double)s->dropout);
    return name;
}

/* ---- Against the reference ------------------------------------------------------------------- */

/* Whether a device gives it in bf16 to a library if it is aligned, and else to a kernel of ours. */
static bool is_of_library(const shape *s) {
    return ops_device_has_libraries() && s->size % 8 == 0 && s->size <= 128 && s->dropout == 0.0f &&
           (!s->causal || s->queries == s->keys);
}

static void run_fused(const shape *s) {
    char name[NAME_BYTES];
    const ops_case c = {.name = name_of(name, "attention", s),
                        .op = RP_OP_ATTENTION,
                        .reference = reference_attention,
                        .params = params_of(s),
                        .in_count = 3,
                        .in = {q_info(s), kv_info(s), kv_info(s)},
                        .tolerance = 2e-6,
                        .gradient_tolerance = 3e-5,
                        .bf16_bits_vary = is_of_library(s),
                        /* o is rounded, and with it the sum that all scores of a row lose */
                        .bf16_times = 4.0};
    ops_case_run(&c);
}

static void test_attention_at_odd_sizes(void) {
    static const int64_t sizes[][2] = {{1, 1},  {3, 17}, {17, 3}, {63, 1},
                                       {65, 2}, {1, 65}, {2, 63}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int causal = 0; causal < 2; causal++)
            run_fused(&(shape){.batch = 2,
                               .queries = sizes[i][0],
                               .keys = sizes[i][0],
                               .size = sizes[i][1],
                               .heads = 1 + causal,
                               .kv_heads = 1 + causal,
                               .causal = causal});
}

static void test_attention_packed(void) {
    for (int causal = 0; causal < 2; causal++) {
        run_fused(&(shape){1, 17, 17, 3, 2, 2, causal, true, 0.0f, 0.0f});
        run_fused(&(shape){2, 65, 65, 4, 2, 1, causal, true, 0.0f, 0.0f});
        run_fused(&(shape){1, 20, 20, 4, 4, 2, causal, true, 0.25f, 0.0f});
        if (!ops_device_has_libraries())
            continue;
        run_fused(&(shape){1, 72, 72, 64, 2, 2, causal, true, 0.0f, 0.0f});
        run_fused(&(shape){2, 33, 33, 16, 4, 2, causal, true, 0.0f, 0.0f});
    }
}

static void test_attention_with_grouped_heads(void) {
    for (int causal = 0; causal < 2; causal++) {
        run_fused(&(shape){1, 17, 17, 3, 4, 2, causal, false, 0.0f, 0.0f});
        run_fused(&(shape){2, 5, 9, 2, 6, 1, causal, false, 0.0f, 0.0f});
        run_fused(&(shape){1, 65, 65, 2, 4, 0, causal, false, 0.0f, 0.0f});
    }
}

/* Also causal with fewer keys than queries: the first rows see nothing. */
static void test_attention_of_other_keys_than_queries(void) {
    static const int64_t lengths[][2] = {{1, 17},  {17, 1},   {17, 65}, {65, 17}, {63, 64},
                                         {64, 63}, {70, 131}, {3, 0},   {0, 3}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (int causal = 0; causal < 2; causal++)
            run_fused(&(shape){.batch = 1,
                               .queries = lengths[i][0],
                               .keys = lengths[i][1],
                               .size = 3,
                               .heads = 2,
                               .kv_heads = 2,
                               .causal = causal});
}

static void test_attention_over_many_blocks(void) {
    for (int causal = 0; causal < 2; causal++)
        run_fused(&(shape){1, 256, 256, 8, 2, 2, causal, false, 0.0f, 0.0f});
}

/* 65 keys: the elements of neighbouring queries lie at other lanes of the generator. */
static void test_attention_with_dropout(void) {
    static const int64_t lengths[][2] = {{3, 5}, {17, 64}, {65, 65}, {30, 33}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (int causal = 0; causal < 2; causal++)
            run_fused(&(shape){.batch = 2,
                               .queries = lengths[i][0],
                               .keys = lengths[i][1],
                               .size = 2,
                               .heads = 2,
                               .kv_heads = 1,
                               .causal = causal,
                               .dropout = 0.3f});
}

/* On the CPU blocks of 32 and 16 queries, and above 256 tiles in the workspace; on a device chunks
 * of 96 columns. The emulator takes its time. */
static void test_attention_of_large_heads(void) {
    static const int64_t sizes[] = {72, 200, 257, 128, 256, 320};
    const size_t count = ops_device() != NULL && !ops_device_has_libraries() ? 3 : 6;
    for (size_t i = 0; i < count; i++)
        run_fused(&(shape){1, i == 1 ? 20 : 33, i == 1 ? 20 : 33, sizes[i], 2, 1, i % 2, false,
                           0.0f, 0.0f});
}

static void test_attention_with_a_scale_of_its_own(void) {
    run_fused(&(shape){1, 17, 19, 4, 2, 2, true, false, 0.0f, 0.3f});
    run_fused(&(shape){1, 17, 19, 4, 2, 2, true, false, 0.0f, -0.3f});
}

static void run_scores(const shape *s) {
    char name[NAME_BYTES];
    const ops_case c = {.name = name_of(name, "attention_scores", s),
                        .op = RP_OP_ATTENTION_SCORES,
                        .reference = reference_attention_scores,
                        .params = params_of(s),
                        .in_count = 2,
                        .in = {q_info(s), kv_info(s)},
                        .tolerance = 1e-5,
                        .bits_vary = true};
    ops_case_run(&c);
}

static void run_values(const shape *s) {
    char name[NAME_BYTES];
    const ops_case c = {.name = name_of(name, "attention_values", s),
                        .op = RP_OP_ATTENTION_VALUES,
                        .reference = reference_attention_values,
                        .params = params_of(s),
                        .in_count = 2,
                        .in = {scores_info(s), s->packed ? q_info(s) : kv_info(s)},
                        .tolerance = 1e-5,
                        .bits_vary = true};
    ops_case_run(&c);
}

static void test_scores_and_values_at_odd_sizes(void) {
    static const shape shapes[] = {
        {1, 1, 1, 1, 1, 1, false, false, 0, 0},    {2, 3, 17, 1, 2, 2, true, false, 0, 0},
        {1, 17, 3, 5, 4, 2, false, false, 0, 0},   {2, 63, 65, 3, 2, 1, false, false, 0, 0.5f},
        {1, 65, 65, 17, 6, 3, false, false, 0, 0}, {2, 5, 5, 3, 2, 2, false, true, 0, 0},
        {1, 17, 17, 2, 4, 2, true, true, 0, 0},    {0, 3, 3, 2, 2, 2, false, false, 0, 0},
        {2, 0, 3, 2, 2, 2, false, false, 0, 0},    {2, 3, 0, 2, 2, 2, false, false, 0, 0},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        run_scores(&shapes[i]);
        run_values(&shapes[i]);
    }
}

/* ---- One forward and backward run on data at hand -------------------------------------------- */

typedef struct data {
    shape s;
    rp_op_params params;
    float *q, *k, *v, *o, *lse, *upstream, *dq, *dk, *dv;
} data;

static float *numbers(const char *seed, const rp_tensor_info *info) {
    float *x = malloc(ops_bytes(info) + 1);
    RP_REQUIRE(x != NULL, "no room");
    ops_random random = ops_random_seed(seed, 0);
    for (int64_t i = 0; i < ops_count(info); i++)
        x[i] = (float)(3.0 * ops_random_uniform(&random) - 1.5);
    return x;
}

static data data_make(const shape *s) {
    const rp_tensor_info q = q_info(s), kv = kv_info(s), o = o_info(s), lse = lse_info(s);
    return (data){.s = *s,
                  .params = params_of(s),
                  .q = numbers("q", &q),
                  .k = numbers("k", &kv),
                  .v = numbers("v", &kv),
                  .o = numbers("o", &o),
                  .lse = numbers("lse", &lse),
                  .upstream = numbers("upstream", &o),
                  .dq = numbers("dq", &q),
                  .dk = numbers("dk", &kv),
                  .dv = numbers("dv", &kv)};
}

static void data_free(data *d) {
    free(d->q);
    free(d->k);
    free(d->v);
    free(d->o);
    free(d->lse);
    free(d->upstream);
    free(d->dq);
    free(d->dk);
    free(d->dv);
}

static const rp_step_state training = {.seed = 1, .step = 2, .loss_scale = 1.0f};

static void run_forward(const rp_kernel *kernels, data *d, const rp_step_state *step) {
    const bool packed = d->s.packed;
    const rp_tensor_info in[] = {q_info(&d->s), kv_info(&d->s), kv_info(&d->s)};
    rp_tensor_info out[] = {o_info(&d->s), lse_info(&d->s)};
    const rp_op_call call = {in, 3, out, 2, &d->params};
    const void *in_at[] = {d->q, packed ? NULL : d->k, packed ? NULL : d->v};
    void *out_at[] = {d->o, d->lse};
    RP_CHECK_EQUAL(ops_run(kernels, RP_OP_ATTENTION, &call, in_at, out_at, step, 2), RP_OK);
}

static void run_backward(const rp_kernel *kernels, data *d, const rp_step_state *step) {
    const bool packed = d->s.packed;
    const rp_tensor_info in[] = {q_info(&d->s), kv_info(&d->s),  kv_info(&d->s),
                                 o_info(&d->s), lse_info(&d->s), o_info(&d->s)};
    rp_tensor_info out[] = {q_info(&d->s), kv_info(&d->s), kv_info(&d->s)};
    const rp_op_call call = {in, 6, out, 3, &d->params};
    const void *in_at[] = {d->q,   packed ? NULL : d->k, packed ? NULL : d->v, d->o,
                           d->lse, d->upstream};
    void *out_at[] = {d->dq, packed ? NULL : d->dk, packed ? NULL : d->dv};
    RP_CHECK_EQUAL(ops_run(kernels, RP_OP_ATTENTION_BACKWARD, &call, in_at, out_at, step, 2),
                   RP_OK);
}

/* Of the shape of training: whole tiles, several blocks, both ways of dropout. */
static void check_bits(const rp_kernel *kernels, const char *set, void *user) {
    data d = data_make(user);
    run_forward(kernels, &d, &training);
    const bool packed = d.s.packed;
    const rp_tensor_info in[] = {q_info(&d.s), kv_info(&d.s),  kv_info(&d.s),
                                 o_info(&d.s), lse_info(&d.s), o_info(&d.s)};
    rp_tensor_info out[] = {o_info(&d.s), lse_info(&d.s)};
    rp_tensor_info out_backward[] = {q_info(&d.s), kv_info(&d.s), kv_info(&d.s)};
    const void *in_at[] = {d.q, packed ? NULL : d.k, packed ? NULL : d.v, d.o, d.lse, d.upstream};
    const ops_launch forward = {.name = set,
                                .op = RP_OP_ATTENTION,
                                .call = {in, 3, out, 2, &d.params},
                                .in = in_at,
                                .out = (void *[]){d.o, d.lse},
                                .step = &training,
                                .tolerance = 1e-5};
    ops_launch_check(kernels, &forward);
    const ops_launch backward = {.name = set,
                                 .op = RP_OP_ATTENTION_BACKWARD,
                                 .call = {in, 6, out_backward, 3, &d.params},
                                 .in = in_at,
                                 .out = (void *[]){d.dq, d.dk, d.dv},
                                 .step = &training,
                                 .tolerance = 1e-5};
    ops_launch_check(kernels, &backward);
    data_free(&d);
}

static void test_attention_bits_do_not_depend_on_threads_or_places(void) {
    static const shape shapes[] = {{2, 256, 256, 64, 3, 3, true, true, 0.1f, 0.0f},
                                   {1, 200, 333, 64, 4, 2, true, false, 0.0f, 0.0f},
                                   {2, 130, 131, 40, 2, 2, false, false, 0.1f, 0.0f}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        ops_for_each_set(check_bits, (void *)(uintptr_t)&shapes[i]);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

/* q = [1, 1], k = [1, 2], v = [3, 5], D = 1: one row sees nothing, one sees both keys. The
 * causal mask of 3 queries and 2 keys has these two rows and one between them, whose gradient is
 * 0 here. */
static void check_masked_row(const rp_kernel *kernels, const char *set, void *user) {
    static const shape s = {1, 3, 2, 1, 1, 1, true, false, 0.0f, 0.0f};
    static const float q[] = {1, 1, 1}, k[] = {1, 2}, v[] = {3, 5}, upstream[] = {1, 0, 1};
    (void)user;
    data d = data_make(&s);
    memcpy(d.q, q, sizeof q);
    memcpy(d.k, k, sizeof k);
    memcpy(d.v, v, sizeof v);
    memcpy(d.upstream, upstream, sizeof upstream);
    run_forward(kernels, &d, &training);
    run_backward(kernels, &d, &training);
    RP_CHECK(d.o[0] == 0.0f && d.lse[0] == -INFINITY, "%s: o %g, lse %g", set, (double)d.o[0],
             (double)d.lse[0]);
    RP_CHECK_NEAR(d.o[2], 4.462117, 1e-6);
    RP_CHECK(d.dq[0] == 0.0f && d.dq[1] == 0.0f, "%s: dq %g %g", set, (double)d.dq[0],
             (double)d.dq[1]);
    RP_CHECK_NEAR(d.dq[2], 0.393224, 1e-5);
    RP_CHECK_NEAR(d.dk[0], -0.393224, 2e-6);
    RP_CHECK_NEAR(d.dk[1], 0.393224, 2e-6);
    RP_CHECK_NEAR(d.dv[0], 0.268941, 2e-6);
    RP_CHECK_NEAR(d.dv[1], 0.731059, 2e-6);
    data_free(&d);
}

static void test_NA_01_fully_masked_row(void) {
    ops_for_each_set(check_masked_row, NULL);
}

/* All scores equal: every probability is 1 / (keys seen), o the mean of the values seen. */
static void check_all_equal(const rp_kernel *kernels, const char *set, void *user) {
    static const shape s = {1, 64, 64, 4, 1, 1, true, false, 0.0f, 0.0f};
    (void)user;
    data d = data_make(&s);
    for (int i = 0; i < 64 * 4; i++) {
        d.q[i] = d.k[i] = 0.5f;
        d.v[i] = (float)(i / 4);
    }
    run_forward(kernels, &d, &training);
    run_backward(kernels, &d, &training);
    for (int i = 0; i < 64 * 4; i++) {
        RP_CHECK_NEAR(d.o[i], i / 4 * 0.5, 1e-6);
        RP_CHECK(isfinite(d.dq[i]) && isfinite(d.dk[i]) && isfinite(d.dv[i]), "%s: element %d", set,
                 i);
    }
    data_free(&d);
}

static void test_attention_of_equal_inputs_is_the_mean(void) {
    ops_for_each_set(check_all_equal, NULL);
}

/* Scores around -128: the sum of their exponentials is no normal number, the log-sum-exp is. */
static void fill_shifted(const ops_case *c, size_t input, void *values, int64_t count) {
    float *x = values;
    ops_random random = ops_random_seed(c->name, input);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(ops_random_uniform(&random) - 0.5) + (input == 0   ? 8.0f
                                                             : input == 1 ? -8.0f
                                                                          : 0.0f);
}

static void test_NA_03_scores_far_below_zero(void) {
    static const int64_t lengths[][2] = {{65, 65}, {1, 128}};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const shape s = {1, lengths[i][0], lengths[i][1], 4, 1, 1, true, false, 0.0f, 0.0f};
        const ops_case c = {.name = "attention far below zero",
                            .op = RP_OP_ATTENTION,
                            .reference = reference_attention,
                            .params = params_of(&s),
                            .in_count = 3,
                            .in = {q_info(&s), kv_info(&s), kv_info(&s)},
                            .tolerance = 3e-5,
                            .gradient_tolerance = 1e-4,
                            .bf16_times = 4.0,
                            .fill = fill_shifted};
        ops_case_run(&c);
    }
}

/* NaN stays in its row and column and comes out with the same bits again. */
static void check_nan(const rp_kernel *kernels, const char *set, void *user) {
    static const shape s = {1, 130, 130, 8, 1, 1, true, false, 0.0f, 0.0f};
    (void)user;
    data clean = data_make(&s), d = data_make(&s), again = data_make(&s);
    d.q[40 * 8] = again.q[40 * 8] = NAN;
    d.q[50 * 8] = again.q[50 * 8] = -0.0f;
    data *const all[] = {&clean, &d, &again};
    for (int i = 0; i < 3; i++) {
        run_forward(kernels, all[i], &training);
        run_backward(kernels, all[i], &training);
    }
    for (int i = 0; i < 130 * 8; i++)
        if (i / 8 != 50)
            RP_CHECK(i / 8 == 40 ? isnan(d.o[i]) : d.o[i] == clean.o[i], "%s: o %d is %g", set, i,
                     (double)d.o[i]);
    RP_CHECK(isnan(d.dq[40 * 8]) && isnan(d.dk[0]), "%s: gradients hide the NaN", set);
    RP_CHECK(isfinite(d.dk[64 * 8]) && isfinite(d.dv[41 * 8]), "%s: a key that no NaN sees", set);
    RP_CHECK(memcmp(d.o, again.o, sizeof(float) * 130 * 8) == 0 &&
                 memcmp(d.dq, again.dq, sizeof(float) * 130 * 8) == 0 &&
                 memcmp(d.dk, again.dk, sizeof(float) * 130 * 8) == 0 &&
                 memcmp(d.dv, again.dv, sizeof(float) * 130 * 8) == 0,
             "%s: other bits in the second run", set);
    data_free(&clean);
    data_free(&d);
    data_free(&again);
}

static void test_NA_04_attention_reproduces_nan(void) {
    ops_for_each_set(check_nan, NULL);
}

static void check_evaluation(const rp_kernel *kernels, const char *set, void *user) {
    shape s = {1, 17, 17, 3, 2, 2, true, true, 0.5f, 0.0f};
    const rp_step_state evaluation = {.seed = 1, .step = 2, .evaluate = true};
    (void)user;
    data d = data_make(&s);
    s.dropout = 0.0f;
    data plain = data_make(&s);
    run_forward(kernels, &d, &evaluation);
    run_forward(kernels, &plain, &training);
    RP_CHECK(memcmp(d.o, plain.o, sizeof(float) * 17 * 6) == 0, "%s: evaluation drops", set);
    run_forward(kernels, &d, &training);
    RP_CHECK(memcmp(d.o, plain.o, sizeof(float) * 17 * 6) != 0, "%s: training does not drop", set);
    data_free(&d);
    data_free(&plain);
}

static void test_attention_evaluates_without_dropout(void) {
    ops_for_each_set(check_evaluation, NULL);
}

/* ---- Fused and separate are the same formula ------------------------------------------------- */

static void check_near(const char *what, const char *set, const float *got, const float *want,
                       int64_t count, double tolerance) {
    for (int64_t i = 0; i < count; i++)
        if (!RP_CHECK(fabs((double)got[i] - (double)want[i]) <=
                          tolerance * (1.0 + fabs((double)want[i])),
                      "%s: %s, element %lld is %.9g, not %.9g", set, what, (long long)i,
                      (double)got[i], (double)want[i]))
            return;
}

static void run_op(const rp_kernel *kernels, rp_op op, const rp_op_params *params,
                   const rp_tensor_info *in, const void *const *in_at, size_t in_count,
                   rp_tensor_info *out, void *const *out_at, size_t out_count,
                   const void *const *accumulate) {
    const rp_launch launch = {.call = {in, in_count, out, out_count, params},
                              .in = in_at,
                              .out = out_at,
                              .accumulate = accumulate,
                              .step = &training,
                              .threads = 2};
    RP_CHECK_EQUAL(ops_call(kernels, op, &launch), RP_OK);
}

/* scores, softmax, dropout, values; then their gradients, where both ends write into one
 * gradient of the packed tensor. p is kept before and after dropout. */
static void run_separate(const rp_kernel *kernels, data *d, float *p, float *dropped, float *dp) {
    const rp_op_params softmax = {.softmax = {d->s.causal}};
    const rp_op_params dropout = {.dropout = {d->s.dropout, d->params.attention.stream}};
    rp_tensor_info q = q_info(&d->s), o = o_info(&d->s), scores = scores_info(&d->s);
    const rp_tensor_info none = {0};
    rp_tensor_info packed_and_none[] = {q, none}, scores_and_packed[] = {scores, q};
    run_op(kernels, RP_OP_ATTENTION_SCORES, &d->params, (rp_tensor_info[]){q, none},
           (const void *[]){d->q, NULL}, 2, &scores, (void *[]){p}, 1, NULL);
    run_op(kernels, RP_OP_SOFTMAX, &softmax, &scores, (const void *[]){p}, 1, &scores,
           (void *[]){p}, 1, NULL);
    run_op(kernels, RP_OP_DROPOUT, &dropout, &scores, (const void *[]){p}, 1, &scores,
           (void *[]){dropped}, 1, NULL);
    run_op(kernels, RP_OP_ATTENTION_VALUES, &d->params, (rp_tensor_info[]){scores, q},
           (const void *[]){dropped, d->q}, 2, &o, (void *[]){d->o}, 1, NULL);
    run_op(kernels, RP_OP_ATTENTION_VALUES_BACKWARD, &d->params, (rp_tensor_info[]){scores, q, o},
           (const void *[]){dropped, d->q, d->upstream}, 3, scores_and_packed,
           (void *[]){dp, d->dq}, 2, NULL);
    run_op(kernels, RP_OP_DROPOUT, &dropout, &scores, (const void *[]){dp}, 1, &scores,
           (void *[]){dp}, 1, NULL);
    run_op(kernels, RP_OP_SOFTMAX_BACKWARD, &softmax, (rp_tensor_info[]){scores, scores},
           (const void *[]){p, dp}, 2, &scores, (void *[]){dp}, 1, NULL);
    run_op(kernels, RP_OP_ATTENTION_SCORES_BACKWARD, &d->params,
           (rp_tensor_info[]){q, none, scores}, (const void *[]){d->q, NULL, dp}, 3,
           packed_and_none, (void *[]){d->dq, NULL}, 2, (const void *[]){d->dq, NULL});
}

static void check_separate(const rp_kernel *kernels, const char *set, void *user) {
    const shape *s = user;
    const rp_tensor_info scores = scores_info(s), q = q_info(s), o = o_info(s);
    data fused = data_make(s), separate = data_make(s);
    float *p = numbers("p", &scores), *dropped = numbers("p", &scores), *dp = numbers("p", &scores);
    run_forward(kernels, &fused, &training);
    run_backward(kernels, &fused, &training);
    run_separate(kernels, &separate, p, dropped, dp);
    check_near("o", set, separate.o, fused.o, ops_count(&o), 1e-5);
    check_near("the gradient of q k v", set, separate.dq, fused.dq, ops_count(&q), 2e-5);
    free(p);
    free(dropped);
    free(dp);
    data_free(&fused);
    data_free(&separate);
}

static void test_attention_fused_and_separate_agree(void) {
    static const shape shapes[] = {{2, 33, 33, 8, 2, 2, true, true, 0.2f, 0.0f},
                                   {1, 65, 65, 4, 4, 2, false, true, 0.0f, 0.0f}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++)
        ops_for_each_set(check_separate, (void *)(uintptr_t)&shapes[i]);
}

/* ---- Definitions ----------------------------------------------------------------------------- */

static void record(vjp_record *r, rp_op op, const shape *s, const rp_tensor_info *in,
                   size_t in_count, rp_op_params *params, uint32_t wanted) {
    rp_tensor_info out[] = {o_info(s), lse_info(s)};
    *params = params_of(s);
    const rp_op_call call = {in, in_count, out, 2, params};
    vjp_record_make(r, op, &call, wanted);
}

static void test_attention_reads_only_what_a_gradient_needs(void) {
    const shape s = {1, 4, 4, 2, 2, 2, true, false, 0.0f, 0.0f};
    const rp_tensor_info in[] = {q_info(&s), kv_info(&s), kv_info(&s)};
    rp_op_params params;
    vjp_record r;
    record(&r, RP_OP_ATTENTION, &s, in, 3, &params, 1);
    RP_REQUIRE_EQUAL(r.count, 1);
    RP_CHECK_EQUAL(r.nodes[0].in[3], 100);
    RP_CHECK_EQUAL(r.nodes[0].in[4], 101);
    RP_CHECK_EQUAL(r.nodes[0].in[5], 200);
    RP_CHECK_EQUAL(r.nodes[0].gradient_of[1], RP_VJP_ABSENT);
    record(&r, RP_OP_ATTENTION, &s, in, 3, &params, 4); /* v alone: neither v nor o */
    RP_REQUIRE_EQUAL(r.count, 1);
    RP_CHECK_EQUAL(r.nodes[0].in[2], RP_NONE);
    RP_CHECK_EQUAL(r.nodes[0].in[3], RP_NONE);
    record(&r, RP_OP_ATTENTION, &s, in, 3, &params, 0);
    RP_CHECK_EQUAL(r.count, 0);
    record(&r, RP_OP_ATTENTION_SCORES, &s, in, 2, &params, 1);
    RP_REQUIRE_EQUAL(r.count, 1);
    RP_CHECK_EQUAL(r.nodes[0].in[0], RP_NONE);
    RP_CHECK_EQUAL(r.nodes[0].in[1], 1);
    const rp_tensor_info p_and_v[] = {scores_info(&s), kv_info(&s)};
    record(&r, RP_OP_ATTENTION_VALUES, &s, p_and_v, 2, &params, 2);
    RP_REQUIRE_EQUAL(r.count, 1);
    RP_CHECK_EQUAL(r.nodes[0].in[0], 0);
    RP_CHECK_EQUAL(r.nodes[0].in[1], RP_NONE);
}

static void check_refused(rp_op op, rp_op_params params, const rp_tensor_info *in, size_t in_count,
                          rp_status status, const char *words) {
    rp_context *context = rp_test_context(1);
    rp_tensor_info out[RP_OP_MAX_OUTPUTS];
    rp_op_call call = {in, in_count, out, 0, &params};
    RP_CHECK_STATUS(context, rp_op_get(op)->infer(context, &call), status);
    RP_CHECK_MESSAGE(context, words);
    rp_context_destroy(context);
}

static void test_attention_refuses_wrong_shapes_and_options(void) {
    const rp_tensor_info q = OPS_F32(2, 5, 12), kv = OPS_F32(2, 7, 6), none = OPS_ABSENT;
    const rp_op_params good = {.attention = {.heads = 4, .kv_heads = 2}};
    const rp_op_params packed = {.attention = {.heads = 4, .kv_heads = 2, .packed = true}};
    const struct {
        rp_op_params params;
        rp_tensor_info in[3];
        rp_status status;
        const char *words;
    } wrong[] = {
        {{.attention = {.heads = 0}}, {q, kv, kv}, RP_INVALID_ARGUMENT, "0 heads"},
        {{.attention = {.heads = 4, .kv_heads = 3}}, {q, kv, kv}, RP_INVALID_ARGUMENT, "divisor"},
        {{.attention = {.heads = 4, .dropout = 1.0f}},
         {q, kv, kv},
         RP_INVALID_ARGUMENT,
         "dropout is 1"},
        {{.attention = {.heads = 4, .dropout = NAN}},
         {q, kv, kv},
         RP_INVALID_ARGUMENT,
         "dropout is nan"},
        {{.attention = {.heads = 4, .scale = INFINITY}}, {q, kv, kv}, RP_INVALID_ARGUMENT, "scale"},
        {good, {none, kv, kv}, RP_INVALID_ARGUMENT, "q is missing"},
        {good, {q, none, kv}, RP_INVALID_ARGUMENT, "both"},
        {packed, {q, kv, kv}, RP_INVALID_ARGUMENT, "packed into q"},
        {packed, {OPS_F32(2, 5, 12), none, none}, RP_BAD_SHAPE, "8 heads divide"},
        {good, {OPS_F32(5, 12), kv, kv}, RP_BAD_SHAPE, "q is f32 [5, 12]"},
        {good, {OPS_F32(2, 5, 10), kv, kv}, RP_BAD_SHAPE, "4 heads divide"},
        {good, {OPS_F32(2, 5, 0), kv, kv}, RP_BAD_SHAPE, "q is f32 [2, 5, 0]"},
        {good, {q, OPS_F32(3, 7, 6), kv}, RP_BAD_SHAPE, "k is f32 [3, 7, 6]"},
        {good, {q, OPS_F32(2, 7, 8), kv}, RP_BAD_SHAPE, "[2, positions, 6] was expected"},
        {good, {q, kv, OPS_F32(2, 8, 6)}, RP_BAD_SHAPE, "v is f32 [2, 8, 6]"},
        {good, {q, kv, OPS_I32(2, 7, 6)}, RP_BAD_DTYPE, "v is i32 [2, 7, 6]"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        check_refused(RP_OP_ATTENTION, wrong[i].params, wrong[i].in, 3, wrong[i].status,
                      wrong[i].words);
}

static void test_scores_and_values_refuse_wrong_shapes(void) {
    const rp_tensor_info q = OPS_F32(2, 5, 12), kv = OPS_F32(2, 7, 6), p = OPS_F32(2, 4, 5, 7);
    const rp_op_params good = {.attention = {.heads = 4, .kv_heads = 2}};
    const rp_tensor_info scores[][2] = {{q, OPS_ABSENT}, {q, OPS_F32(2, 7, 8)}};
    check_refused(RP_OP_ATTENTION_SCORES, good, scores[0], 2, RP_INVALID_ARGUMENT, "both");
    check_refused(RP_OP_ATTENTION_SCORES, good, scores[1], 2, RP_BAD_SHAPE, "k is f32 [2, 7, 8]");
    const rp_tensor_info values[][2] = {
        {p, OPS_ABSENT}, {p, OPS_F32(2, 8, 6)}, {OPS_F32(2, 3, 5, 7), kv}, {p, OPS_I32(2, 7, 6)}};
    check_refused(RP_OP_ATTENTION_VALUES, good, values[0], 2, RP_INVALID_ARGUMENT, "expected");
    check_refused(RP_OP_ATTENTION_VALUES, good, values[1], 2, RP_BAD_SHAPE, "v is f32 [2, 8, 6]");
    check_refused(RP_OP_ATTENTION_VALUES, good, values[2], 2, RP_BAD_SHAPE,
                  "p is f32 [2, 3, 5, 7]");
    check_refused(RP_OP_ATTENTION_VALUES, good, values[3], 2, RP_BAD_DTYPE, "v is i32");
}

static int64_t flops_of(rp_op op, const shape *s, size_t in_count, size_t out_count) {
    const rp_op_params params = params_of(s);
    const rp_tensor_info in[] = {q_info(s), kv_info(s),  kv_info(s),
                                 o_info(s), lse_info(s), o_info(s)};
    rp_tensor_info out[] = {q_info(s), kv_info(s), kv_info(s)};
    const rp_op_call call = {in, in_count, out, out_count, &params};
    return rp_op_flops(op, &call);
}

/* 4 B T T' H D forward, half of it if causal; 2.5 times that backward. */
static void test_attention_operations(void) {
    shape s = {2, 8, 8, 4, 3, 3, false, false, 0.0f, 0.0f};
    const int64_t forward = 4 * 2 * 8 * 8 * 3 * 4;
    RP_CHECK_EQUAL(flops_of(RP_OP_ATTENTION, &s, 3, 2), forward);
    RP_CHECK_EQUAL(flops_of(RP_OP_ATTENTION_BACKWARD, &s, 6, 3), forward * 5 / 2);
    s.causal = true;
    RP_CHECK_EQUAL(flops_of(RP_OP_ATTENTION, &s, 3, 2), forward / 2);
    RP_CHECK_EQUAL(flops_of(RP_OP_ATTENTION_BACKWARD, &s, 6, 3), forward * 5 / 4);
}

/* Nothing for usual heads, whatever the length; no matrix of scores for large ones. */
static void test_DE_04_attention_needs_no_quadratic_workspace(void) {
    const shape usual = {1, 8192, 8192, 128, 16, 16, true, false, 0.0f, 0.0f};
    const shape large = {1, 8192, 8192, 512, 16, 16, true, false, 0.0f, 0.0f};
    const rp_op_params params[] = {params_of(&usual), params_of(&large)};
    const rp_tensor_info in[][2] = {{q_info(&usual), kv_info(&usual)},
                                    {q_info(&large), kv_info(&large)}};
    const rp_op_call calls[] = {{in[0], 2, NULL, 0, &params[0]}, {in[1], 2, NULL, 0, &params[1]}};
    RP_CHECK_EQUAL(rp_op_get(RP_OP_ATTENTION)->workspace(&calls[0]), 0);
    RP_CHECK_EQUAL(rp_op_get(RP_OP_ATTENTION_BACKWARD)->workspace(&calls[0]), 0);
    RP_CHECK_EQUAL(rp_op_get(RP_OP_ATTENTION)->workspace(&calls[1]), 16 * 2 * 16 * 512 * 4);
    RP_CHECK_EQUAL(rp_op_get(RP_OP_ATTENTION_BACKWARD)->workspace(&calls[1]),
                   16 * 3 * 16 * 512 * 4);
}

static const rp_test tests[] = {
    RP_TEST(test_attention_at_odd_sizes),
    RP_TEST(test_attention_packed),
    RP_TEST(test_attention_with_grouped_heads),
    RP_TEST(test_attention_of_other_keys_than_queries),
    RP_TEST(test_attention_over_many_blocks),
    RP_TEST(test_attention_with_dropout),
    RP_TEST(test_attention_of_large_heads),
    RP_TEST(test_attention_with_a_scale_of_its_own),
    RP_TEST(test_scores_and_values_at_odd_sizes),
    RP_TEST(test_attention_bits_do_not_depend_on_threads_or_places),
    RP_TEST(test_NA_01_fully_masked_row),
    RP_TEST(test_attention_of_equal_inputs_is_the_mean),
    RP_TEST(test_NA_03_scores_far_below_zero),
    RP_TEST(test_NA_04_attention_reproduces_nan),
    RP_TEST(test_attention_evaluates_without_dropout),
    RP_TEST(test_attention_fused_and_separate_agree),
    RP_TEST(test_attention_reads_only_what_a_gradient_needs),
    RP_TEST(test_attention_refuses_wrong_shapes_and_options),
    RP_TEST(test_scores_and_values_refuse_wrong_shapes),
    RP_TEST(test_attention_operations),
    RP_TEST(test_DE_04_attention_needs_no_quadratic_workspace),
};
RP_SUITE(attention, tests)
