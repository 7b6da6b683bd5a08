/* sum, mean, sum_leading, loss_seed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "ops_device.h"
#include "reference.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const rp_step_state step = {0, 0, 0, 0.25f, false};

static void test_sum_and_mean(void) {
    static const int64_t lengths[] = {0, 1, 3, 17, 63, 65, 8191, 8193, 600001};
    for (size_t i = 0; i < 2 * COUNT(lengths); i++) {
        const int64_t n = lengths[i / 2];
        char name[64];
        snprintf(name, sizeof name, "%s [%d]", i % 2 ? "mean" : "sum", (int)n);
        const ops_case c = {.name = name,
                            .op = RP_OP_SUM,
                            .reference = reference_sum,
                            .params = {.sum = {i % 2 && n > 0 ? 1.0f / (float)n : 1.0f}},
                            .in_count = 1,
                            .in = {OPS_F32(n)},
                            .tolerance = 1e-7,
                            .gradient_tolerance = 1e-6};
        ops_case_run(&c);
    }
}

static void test_sum_of_a_scalar(void) {
    const ops_case c = {.name = "sum of a scalar",
                        .op = RP_OP_SUM,
                        .reference = reference_sum,
                        .params = {.sum = {-2.0f}},
                        .in_count = 1,
                        .in = {OPS_F32_SCALAR},
                        .tolerance = 1e-7};
    ops_case_run(&c);
}

/* A float that counts ones in order stops at 2^24; one in 64 pieces, each in double, does not. */
static void many_ones(const rp_kernel *kernels, const char *set, void *user) {
    enum { N = (1 << 24) + 4096 };
    float *x = malloc(N * sizeof *x), sum = 0.0f;
    const rp_tensor_info in = OPS_F32(N);
    rp_tensor_info out = OPS_F32_SCALAR;
    const rp_op_params params = {.sum = {1.0f}};
    (void)user;
    RP_REQUIRE(x != NULL, "no room");
    for (int i = 0; i < N; i++)
        x[i] = 1.0f;
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_SUM, &(rp_op_call){&in, 1, &out, 1, &params},
                              (const void *[]){x}, (void *[]){&sum}, &step, 2));
    RP_CHECK(sum == (float)N, "%s: %g", set, (double)sum);
    free(x);
}

static void test_sum_of_more_ones_than_a_float_counts(void) {
    ops_for_each_set(many_ones, NULL);
}

/* Column sums against double, in all variants; also with nothing to sum. */
typedef struct sum_types {
    rp_dtype in, out;
} sum_types;

static void check_leading(const rp_kernel *kernels, const char *set, const sum_types *types,
                          int64_t rows, int64_t columns) {
    const rp_tensor_info in = {types->in, {2, {rows, columns}}};
    rp_tensor_info out = {types->out, {1, {columns}}};
    float *x = malloc((size_t)(rows * columns + 1) * sizeof *x);
    float *y = malloc((size_t)(columns + 1) * sizeof *y);
    double *want = calloc((size_t)columns + 1, sizeof *want);
    char name[96];
    snprintf(name, sizeof name, "sum_leading %s [%d, %d] -> %s (%s)", rp_dtype_name(in.dtype),
             (int)rows, (int)columns, rp_dtype_name(out.dtype), set);
    ops_random random = ops_random_seed(name, 0);
    RP_REQUIRE(x != NULL && y != NULL && want != NULL, "no room");
    for (int64_t i = 0; i < rows * columns; i++) {
        ops_set(&in, x, i, 2.0 * ops_random_uniform(&random) - 1.0);
        want[i % columns] += ops_element(&in, x, i);
    }
    const ops_launch launch = {.name = name,
                               .op = RP_OP_SUM_LEADING,
                               .call = {&in, 1, &out, 1, NULL},
                               .in = (const void *[]){x},
                               .out = (void *[]){y},
                               .expected = (const double *[]){want},
                               .step = &step,
                               .tolerance = 5e-6};
    ops_launch_check(kernels, &launch);
    free(x);
    free(y);
    free(want);
}

static void leading(const rp_kernel *kernels, const char *set, void *user) {
    static const int64_t shapes[][2] = {{1, 1},     {3, 17},  {17, 63},  {65, 3},
                                        {1000, 65}, {4, 513}, {5000, 7}, {40, 8200},
                                        {3, 20000}, {0, 4},   {4, 0}};
    for (size_t s = 0; s < COUNT(shapes); s++)
        check_leading(kernels, set, user, shapes[s][0], shapes[s][1]);
}

static void test_sum_leading(void) {
    sum_types types[] = {{RP_F32, RP_F32}, {RP_BF16, RP_BF16}, {RP_BF16, RP_F32}};
    for (size_t i = 0; i < COUNT(types); i++)
        ops_for_each_set(leading, &types[i]);
}

static void seed(const rp_kernel *kernels, const char *set, void *user) {
    rp_tensor_info out = OPS_F32_SCALAR;
    float dy;
    const double want = 0.25;
    const ops_launch launch = {.name = set,
                               .op = RP_OP_LOSS_SEED,
                               .call = {NULL, 0, &out, 1, NULL},
                               .in = NULL,
                               .out = (void *[]){&dy},
                               .expected = (const double *[]){&want},
                               .step = &step,
                               .tolerance = 0.0};
    (void)user;
    ops_launch_check(kernels, &launch);
}

static void test_loss_seed_is_the_loss_scale(void) {
    ops_for_each_set(seed, NULL);
}

/* Micro-batches with token losses [1, 2, 3] and [6]: L = sum of w x; dL/dw of a token is its loss.
 * Sums, and a loss scale of 1 / 4 tokens: 3, where a mean of means gives 4. */
static void accumulate_tokens(const rp_kernel *kernels, const char *set, void *user) {
    static const float batches[2][3] = {{1, 2, 3}, {6}};
    static const int64_t sizes[2] = {3, 1};
    float dw = 0.0f, seed_value;
    rp_tensor_info scalar = OPS_F32_SCALAR;
    const rp_op_params sum = {.sum = {1.0f}};
    (void)user;
    for (int b = 0; b < 2; b++) {
        rp_tensor_info x = OPS_F32(sizes[b]);
        float dy[3], product[3];
        RP_CHECK_OK(NULL,
                    ops_run(kernels, RP_OP_LOSS_SEED, &(rp_op_call){NULL, 0, &scalar, 1, NULL},
                            NULL, (void *[]){&seed_value}, &step, 1));
        RP_CHECK_OK(NULL,
                    ops_run(kernels, RP_OP_SUM_BACKWARD, &(rp_op_call){&scalar, 1, &x, 1, &sum},
                            (const void *[]){&seed_value}, (void *[]){dy}, &step, 1));
        RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_MUL,
                                  &(rp_op_call){(rp_tensor_info[]){x, x}, 2, &x, 1, NULL},
                                  (const void *[]){dy, batches[b]}, (void *[]){product}, &step, 1));
        const rp_launch launch = {.call = {&x, 1, &scalar, 1, NULL},
                                  .in = (const void *[]){product},
                                  .out = (void *[]){&dw},
                                  .accumulate = (const void *[]){&dw},
                                  .step = &step,
                                  .threads = 1};
        RP_CHECK_OK(NULL, ops_call(kernels, RP_OP_SUM_LEADING, &launch));
    }
    RP_CHECK(dw == 3.0f, "%s: %g", set, (double)dw);
}

static void test_GA_01_gradients_are_means_over_all_tokens(void) {
    ops_for_each_set(accumulate_tokens, NULL);
}

/* 1 and then 256 times 0.001. */
static void accumulate_small(const rp_kernel *kernels, const char *set, void *user) {
    float gradient = 1.0f;
    const float small = 0.001f;
    rp_tensor_info scalar = OPS_F32_SCALAR;
    const rp_launch launch = {.call = {&scalar, 1, &scalar, 1, NULL},
                              .in = (const void *[]){&small},
                              .out = (void *[]){&gradient},
                              .accumulate = (const void *[]){&gradient},
                              .step = &step,
                              .threads = 1};
    (void)user;
    for (int i = 0; i < 256; i++)
        RP_CHECK_OK(NULL, ops_call(kernels, RP_OP_SUM_LEADING, &launch));
    RP_CHECK(fabs((double)gradient - 1.256) <= 1.256e-5, "%s: %.9g", set, (double)gradient);
}

static void test_DT_04_small_terms_are_not_lost(void) {
    ops_for_each_set(accumulate_small, NULL);
}

static const rp_test tests[] = {
    RP_TEST(test_sum_and_mean),
    RP_TEST(test_sum_of_a_scalar),
    RP_TEST(test_sum_of_more_ones_than_a_float_counts),
    RP_TEST(test_sum_leading),
    RP_TEST(test_loss_seed_is_the_loss_scale),
    RP_TEST(test_GA_01_gradients_are_means_over_all_tokens),
    RP_TEST(test_DT_04_small_terms_are_not_lost),
};
RP_SUITE(sums, tests)
