/* The bounds that ops/cpu/vector_math.h states, measured through the kernels of every instruction
 * set, on a million floats spread over all bit patterns. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops_case.h"
#include "ops_device.h"

enum { N = 1 << 20 };

static const rp_step_state step = {0, 0, 0, 1.0f, false};

/* Every 4096th bit pattern that is no NaN, and the limits. */
static void fill(float *x) {
    for (uint32_t i = 0; i < N; i++) {
        const uint32_t bits = i * 4096 + (i & 4095);
        memcpy(&x[i], &bits, sizeof bits);
        if (isnan(x[i]))
            x[i] = (float)((int)i - N / 2) * 0x1p-12f;
    }
}

/* A unit in the last place of a float near v, which is no subnormal. */
static double unit(double v) {
    int exponent = 0;
    frexp(v, &exponent);
    return ldexp(1.0, exponent - 24);
}

typedef struct function {
    const char *name;
    rp_op op;
    rp_op_params params;
    double (*in_double)(double x);
    double most;        /* where it is stated: up to this x */
    double bound, tail; /* in units: bound, and for negative x tail x^2 on top */
} function;

/* Results below 2^-126 may be 0, and a product with one as wrong as that. */
static bool is_within(const function *f, double x, double got, double want) {
    if (isnan(want))
        return isnan(got);
    if (isinf(want))
        return got == want;
    if (fabs(want) < 0x1p-126 * fmax(1.0, fabs(x)))
        return fabs(got - want) <= 0x1p-126 * fmax(1.0, fabs(x));
    return fabs(got - want) <= (f->bound + (x < 0.0 ? f->tail * x * x : 0.0)) * unit(want);
}

static void check_bound(const char *set, const function *f, const float *x, const float *y) {
    double worst = 0.0;
    int wrong = -1;
    for (int i = 0; i < N; i++) {
        const double want = f->in_double((double)x[i]), error = fabs((double)y[i] - want);
        if ((double)x[i] > f->most)
            continue;
        if (!is_within(f, (double)x[i], (double)y[i], want) && wrong < 0)
            wrong = i;
        if (fabs(want) >= 0x1p-120 && isfinite(want))
            worst = fmax(worst, error / unit(want));
    }
    RP_CHECK(wrong < 0, "%s, %s: %.9g at %.9g (worst error %.3f units)", f->name, set,
             (double)y[wrong < 0 ? 0 : wrong], (double)x[wrong < 0 ? 0 : wrong], worst);
    if (getenv("RP_TEST_FIGURES") != NULL)
        printf("%s, %s: %.3f units\n", f->name, set, worst);
}

static double sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static double gelu_erf(double x) {
    return x == -INFINITY ? NAN : x / 2.0 * erfc(-x / sqrt(2.0));
}

/* One more rounding than rp_math_cdf for the product with x. */
static void unary(const rp_kernel *kernels, const char *set, void *user) {
    static const function functions[] = {
        {"tanh", RP_OP_TANH, {.gelu = {0}}, tanh, INFINITY, 2.6, 0.0},
        {"sigmoid", RP_OP_SIGMOID, {.gelu = {0}}, sigmoid, INFINITY, 2.5, 0.0},
        {"gelu erf", RP_OP_GELU, {.gelu = {RP_GELU_ERF}}, gelu_erf, INFINITY, 4.0, 0.5},
    };
    const float *x = user;
    float *y = malloc(N * sizeof *y);
    const rp_tensor_info in = OPS_F32(N);
    rp_tensor_info out = OPS_F32(N);
    RP_REQUIRE(y != NULL, "no room");
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        const function *f = &functions[i];
        RP_CHECK_OK(NULL, ops_run(kernels, f->op, &(rp_op_call){&in, 1, &out, 1, &f->params},
                                  (const void *[]){x}, (void *[]){y}, &step, 2));
        check_bound(set, f, x, y);
    }
    free(y);
}

/* The gradient of cross entropy away from the target, with a log-sum-exp of 0, is e^x. */
static void exponential(const rp_kernel *kernels, const char *set, void *user) {
    const function f = {.name = "exp",
                        .op = RP_OP_CROSS_ENTROPY_BACKWARD,
                        .in_double = exp,
                        .most = 88.0,
                        .bound = ops_device() != NULL ? 2.0 : 1.1}; /* of CUDA's expf */
    const float zero = 0.0f, one = 1.0f, *x = user;
    const int32_t target = 0;
    float *y = malloc(N * sizeof *y);
    const rp_tensor_info in[] = {OPS_F32(N), OPS_I32_SCALAR, OPS_F32(1), OPS_F32_SCALAR};
    rp_tensor_info out = OPS_F32(N);
    const rp_op_params params = {.cross_entropy = {-100, RP_REDUCE_SUM}};
    RP_REQUIRE(y != NULL, "no room");
    RP_CHECK_OK(NULL, ops_run(kernels, f.op, &(rp_op_call){in, 4, &out, 1, &params},
                              (const void *[]){x, &target, &zero, &one}, (void *[]){y}, &step, 1));
    y[0] = expf(x[0]);
    check_bound(set, &f, x, y);
    free(y);
}

static void run_on_all_floats(void (*body)(const rp_kernel *, const char *, void *)) {
    float *x = malloc(N * sizeof *x);
    RP_REQUIRE(x != NULL, "no room");
    fill(x);
    ops_for_each_set(body, x);
    free(x);
}

static void test_exp_is_within_its_bound(void) {
    run_on_all_floats(exponential);
}

static void test_tanh_sigmoid_and_cdf_are_within_their_bounds(void) {
    run_on_all_floats(unary);
}

/* Limits, and NaN in means NaN out. */
static void limits(const rp_kernel *kernels, const char *set, void *user) {
    static const struct {
        rp_op op;
        rp_op_params params;
        float want[4]; /* at infinity, -infinity, 0 and -0 */
    } rows[] = {
        {RP_OP_TANH, {.gelu = {0}}, {1, -1, 0, -0.0f}},
        {RP_OP_SIGMOID, {.gelu = {0}}, {1, 0, 0.5f, 0.5f}},
        {RP_OP_RELU, {.gelu = {0}}, {INFINITY, 0, 0, -0.0f}},
        {RP_OP_SILU, {.gelu = {0}}, {INFINITY, NAN, 0, -0.0f}},
        {RP_OP_GELU, {.gelu = {RP_GELU_TANH}}, {INFINITY, NAN, 0, -0.0f}},
        {RP_OP_GELU, {.gelu = {RP_GELU_ERF}}, {INFINITY, 0, 0, -0.0f}},
    };
    const float x[5] = {INFINITY, -INFINITY, 0.0f, -0.0f, NAN};
    const rp_tensor_info in = OPS_F32(5);
    rp_tensor_info out = OPS_F32(5);
    (void)user;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        float y[5];
        RP_CHECK_OK(NULL,
                    ops_run(kernels, rows[r].op, &(rp_op_call){&in, 1, &out, 1, &rows[r].params},
                            (const void *[]){x}, (void *[]){y}, &step, 1));
        for (int i = 0; i < 4; i++)
            RP_CHECK(isnan(rows[r].want[i]) ? isnan(y[i])
                                            : memcmp(&y[i], &rows[r].want[i], sizeof y[i]) == 0,
                     "%s, %s of %g is %g", set, rp_op_get(rows[r].op)->name, (double)x[i],
                     (double)y[i]);
        RP_CHECK(isnan(y[4]), "%s, %s of NaN is %g", set, rp_op_get(rows[r].op)->name,
                 (double)y[4]);
    }
}

static void test_limits_of_activations(void) {
    ops_for_each_set(limits, NULL);
}

/* Far out a slope is 0 or 1, not 0 times infinity; a dead unit stops even NaN. */
static void slopes(const rp_kernel *kernels, const char *set, void *user) {
    static const struct {
        rp_op op;
        rp_op_params params;
    } rows[] = {
        {RP_OP_GELU_BACKWARD, {.gelu = {RP_GELU_TANH}}},
        {RP_OP_GELU_BACKWARD, {.gelu = {RP_GELU_ERF}}},
        {RP_OP_SILU_BACKWARD, {.gelu = {0}}},
        {RP_OP_RELU_BACKWARD, {.gelu = {0}}},
    };
    const float x[4] = {-1e30f, 1e30f, -200.0f, 200.0f}, dy[4] = {3, 3, 3, 3};
    const float dead[4] = {0.0f, -0.0f, 0.0f, 1.0f}, nan[4] = {NAN, NAN, INFINITY, NAN};
    const rp_tensor_info in[] = {OPS_F32(4), OPS_F32(4)};
    rp_tensor_info out = OPS_F32(4);
    float dx[4];
    (void)user;
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        RP_CHECK_OK(NULL,
                    ops_run(kernels, rows[r].op, &(rp_op_call){in, 2, &out, 1, &rows[r].params},
                            (const void *[]){x, dy}, (void *[]){dx}, &step, 1));
        for (int i = 0; i < 4; i++)
            RP_CHECK(dx[i] == (i % 2 ? 3.0f : 0.0f), "%s, %s at %g: %g", set,
                     rp_op_get(rows[r].op)->name, (double)x[i], (double)dx[i]);
    }
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_RELU_BACKWARD, &(rp_op_call){in, 2, &out, 1, NULL},
                              (const void *[]){dead, nan}, (void *[]){dx}, &step, 1));
    RP_CHECK(dx[0] == 0.0f && dx[1] == 0.0f && dx[2] == 0.0f && isnan(dx[3]), "%s: relu", set);
}

static void test_slopes_of_activations_far_out(void) {
    ops_for_each_set(slopes, NULL);
}

static const rp_test tests[] = {
    RP_TEST(test_exp_is_within_its_bound),
    RP_TEST(test_tanh_sigmoid_and_cdf_are_within_their_bounds),
    RP_TEST(test_limits_of_activations),
    RP_TEST(test_slopes_of_activations_far_out),
};
RP_SUITE(math, tests)
