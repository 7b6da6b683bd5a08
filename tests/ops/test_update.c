/* adamw, sgd, sum_squares. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "define.h"
#include "reference.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const rp_step_state step = {0, 0, 0, 1.0f, false};

static const rp_op_params params = {.adamw = {.lr = 0.01f,
                                              .beta1 = 0.9f,
                                              .beta2 = 0.99f,
                                              .eps = 1e-6f,
                                              .weight_decay = 0.1f,
                                              .correction1 = 0.271f,
                                              .correction2 = 0.029701f,
                                              .gradient_scale = 0.5f}};

/* From the formulas of executor.h. */
static void adamw_in_double(const float *const in[4], double *const out[3], int64_t i) {
    const double lr = (double)params.adamw.lr, b1 = (double)params.adamw.beta1,
                 b2 = (double)params.adamw.beta2;
    const double g = (double)params.adamw.gradient_scale * (double)in[1][i];
    const double m = b1 * (double)in[2][i] + (1.0 - b1) * g;
    const double v = b2 * (double)in[3][i] + (1.0 - b2) * g * g;
    const double p = (double)in[0][i] * (1.0 - lr * (double)params.adamw.weight_decay);
    out[0][i] = p - lr * (m / (double)params.adamw.correction1) /
                        (sqrt(v / (double)params.adamw.correction2) + (double)params.adamw.eps);
    out[1][i] = m;
    out[2][i] = v;
}

static void sgd_in_double(const float *const in[4], double *const out[3], int64_t i) {
    const double g = (double)params.sgd.gradient_scale * (double)in[1][i];
    const double p = (double)in[0][i];
    out[0][i] = p - (double)params.sgd.lr * (g + (double)params.sgd.weight_decay * p);
}

typedef struct optimizer {
    const char *name;
    rp_op op;
    size_t in_count, out_count;
    void (*in_double)(const float *const in[4], double *const out[3], int64_t i);
} optimizer;

static void check_optimizer(const rp_kernel *kernels, const char *set, const optimizer *o,
                            int64_t n) {
    const size_t room = (size_t)n + 1;
    float *in[4], *out[3];
    double *want[3];
    char name[64];
    snprintf(name, sizeof name, "%s [%d] (%s)", o->name, (int)n, set);
    ops_random random = ops_random_seed(o->name, (uint64_t)n);
    for (int s = 0; s < 4; s++) {
        in[s] = malloc(room * sizeof *in[s]);
        RP_REQUIRE(in[s] != NULL, "no room");
        for (int64_t i = 0; i < n; i++)
            in[s][i] = (float)((s == 3 ? 0.0 : -1.0) + 2.0 * ops_random_uniform(&random));
    }
    for (int s = 0; s < 3; s++) {
        out[s] = malloc(room * sizeof *out[s]);
        want[s] = malloc(room * sizeof *want[s]);
        RP_REQUIRE(out[s] != NULL && want[s] != NULL, "no room");
    }
    for (int64_t i = 0; i < n; i++)
        o->in_double((const float *const *)in, want, i);
    const rp_tensor_info info = OPS_F32(n), infos[4] = {info, info, info, info};
    rp_tensor_info outs[3] = {info, info, info};
    const ops_launch launch = {.name = name,
                               .op = o->op,
                               .call = {infos, o->in_count, outs, o->out_count, &params},
                               .in = (const void *const *)in,
                               .out = (void *const *)out,
                               .expected = (const double *const *)want,
                               .step = &step,
                               .tolerance = 3e-7};
    ops_launch_check(kernels, &launch);
    for (int s = 0; s < 4; s++)
        free(in[s]);
    for (int s = 0; s < 3; s++) {
        free(out[s]);
        free(want[s]);
    }
}

static void optimizers(const rp_kernel *kernels, const char *set, void *user) {
    static const int64_t lengths[] = {0, 1, 3, 17, 63, 65, 4097, 40001};
    for (size_t i = 0; i < COUNT(lengths); i++)
        check_optimizer(kernels, set, user, lengths[i]);
}

static void test_adamw(void) {
    optimizer o = {"adamw", RP_OP_ADAMW, 4, 3, adamw_in_double};
    ops_for_each_set(optimizers, &o);
}

static void test_sgd(void) {
    optimizer o = {"sgd", RP_OP_SGD, 2, 1, sgd_in_double};
    ops_for_each_set(optimizers, &o);
}

static void squares(const rp_kernel *kernels, const char *set, void *user) {
    static const int64_t lengths[] = {0, 1, 3, 17, 63, 65, 8193, 600001};
    (void)user;
    for (size_t s = 0; s < COUNT(lengths); s++) {
        const int64_t n = lengths[s];
        float *x = malloc((size_t)(n + 1) * sizeof *x);
        double want = 0.0, first = 0.0;
        ops_random random = ops_random_seed("squares", (uint64_t)n);
        RP_REQUIRE(x != NULL, "no room");
        for (int64_t i = 0; i < n; i++) {
            x[i] = (float)(2.0 * ops_random_uniform(&random) - 1.0);
            want += (double)x[i] * (double)x[i];
        }
        const rp_tensor_info in = OPS_F32(n);
        rp_tensor_info out = OPS_F32(2);
        for (int threads = 1; threads <= 7; threads += 2) {
            double got = NAN;
            RP_CHECK_OK(NULL,
                        ops_run(kernels, RP_OP_SUM_SQUARES, &(rp_op_call){&in, 1, &out, 1, NULL},
                                (const void *[]){x}, (void *[]){&got}, &step, threads));
            RP_CHECK(fabs(got - want) <= 1e-12 * want, "%s [%d]: %.17g, not %.17g", set, (int)n,
                     got, want);
            if (threads == 1)
                first = got;
            RP_CHECK(memcmp(&got, &first, sizeof got) == 0, "%s [%d]: other bits with %d threads",
                     set, (int)n, threads);
        }
        free(x);
    }
}

static void test_sum_squares(void) {
    ops_for_each_set(squares, NULL);
}

/* The gradient norm keeps the partial sums of any tensor in a list of this length. */
static void test_partial_sums_of_squares_are_few(void) {
    for (int64_t count = 0; count < INT64_MAX / 8; count = 3 * count + 1) {
        const rp_tensor_info x = {RP_F32, {1, {count}}};
        const rp_op_call call = {&x, 1, NULL, 0, NULL};
        const int64_t bytes = rp_op_get(RP_OP_SUM_SQUARES)->workspace(&call);
        RP_CHECK(bytes <= RP_SUM_PIECES * (int64_t)sizeof(double), "%lld elements: %lld bytes",
                 (long long)count, (long long)bytes);
    }
}

static const rp_test tests[] = {
    RP_TEST(test_partial_sums_of_squares_are_few),
    RP_TEST(test_adamw),
    RP_TEST(test_sgd),
    RP_TEST(test_sum_squares),
};
RP_SUITE(update, tests)
