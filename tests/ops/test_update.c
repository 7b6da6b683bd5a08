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
                                              .correction2 = 0.029701f}};

/* From the formulas of executor.h; in[0] is what is updated, in[5] the scale. */
static void adamw_in_double(const double *const in[6], double *const out[4], int64_t i) {
    const double lr = (double)params.adamw.lr, b1 = (double)params.adamw.beta1,
                 b2 = (double)params.adamw.beta2;
    const double g = in[5][0] * in[1][i];
    const double m = b1 * in[2][i] + (1.0 - b1) * g;
    const double v = b2 * in[3][i] + (1.0 - b2) * g * g;
    const double p = in[0][i] * (1.0 - lr * (double)params.adamw.weight_decay);
    out[0][i] = p - lr * (m / (double)params.adamw.correction1) /
                        (sqrt(v / (double)params.adamw.correction2) + (double)params.adamw.eps);
    out[1][i] = m;
    out[2][i] = v;
}

static void sgd_in_double(const double *const in[6], double *const out[4], int64_t i) {
    const double g = in[5][0] * in[1][i];
    const double p = in[0][i];
    out[0][i] = p - (double)params.sgd.lr * (g + (double)params.sgd.weight_decay * p);
}

/* One way to call an optimizer: absent slots have no type. */
typedef struct optimizer {
    const char *name;
    rp_op op;
    size_t in_count, out_count;
    rp_dtype in[6], out[4];
    size_t master, scale; /* slots of the inputs */
    void (*in_double)(const double *const in[6], double *const out[4], int64_t i);
} optimizer;

typedef struct data {
    rp_tensor_info in_infos[6], out_infos[4];
    void *in[6], *out[4];
    double *wide[6], *want[4];
} data;

static void *room_for(int64_t count) {
    double *room = malloc((size_t)(count + 1) * sizeof *room);
    RP_REQUIRE(room != NULL, "no room");
    return room;
}

static data data_make(const optimizer *o, int64_t n) {
    data d = {.in_infos = {OPS_ABSENT}};
    ops_random random = ops_random_seed(o->name, (uint64_t)n);
    for (size_t s = 0; s < o->in_count; s++) {
        const int64_t count = s == o->scale ? 1 : n;
        if (o->in[s] == RP_NO_DTYPE)
            continue;
        d.in_infos[s] = (rp_tensor_info){o->in[s], {s != o->scale, {n}}};
        d.in[s] = room_for(count);
        d.wide[s] = room_for(count);
        for (int64_t i = 0; i < count; i++) {
            const double u = ops_random_uniform(&random);
            const bool is_v = o->op == RP_OP_ADAMW && s == 3;
            ops_set(&d.in_infos[s], d.in[s], i, s == o->scale || is_v ? 2.0 * u : 2.0 * u - 1.0);
            d.wide[s][i] = ops_element(&d.in_infos[s], d.in[s], i);
        }
    }
    for (size_t k = 0; k < o->out_count; k++) {
        if (o->out[k] == RP_NO_DTYPE)
            continue;
        d.out_infos[k] = (rp_tensor_info){o->out[k], {1, {n}}};
        d.out[k] = room_for(n);
        d.want[k] = room_for(n);
    }
    return d;
}

static void data_free(data *d) {
    for (int s = 0; s < 6; s++) {
        free(d->in[s]);
        free(d->wide[s]);
    }
    for (int k = 0; k < 4; k++) {
        free(d->out[k]);
        free(d->want[k]);
    }
}

/* The parameter is the new master, rounded: exactly. */
static void check_rounded(const char *name, const data *d, size_t master, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        const double p = ops_element(&d->out_infos[0], d->out[0], i);
        const double want = ops_round_bf16(ops_element(&d->out_infos[master], d->out[master], i));
        if (!RP_CHECK(p == want, "%s: p[%d] is %.9g, not %.9g", name, (int)i, p, want))
            return;
    }
}

static void check_optimizer(const rp_kernel *kernels, const char *set, const optimizer *o,
                            int64_t n) {
    char name[96];
    snprintf(name, sizeof name, "%s [%d] (%s)", o->name, (int)n, set);
    data d = data_make(o, n);
    const bool has_master = o->in[o->master] != RP_NO_DTYPE;
    const double one = 1.0, *in[6];
    for (int s = 0; s < 6; s++)
        in[s] = d.wide[s];
    if (has_master)
        in[0] = in[o->master];
    in[5] = in[o->scale] != NULL ? in[o->scale] : &one;
    for (int64_t i = 0; i < n; i++)
        o->in_double(in, d.want, i);
    if (has_master)
        memcpy(d.want[o->out_count - 1], d.want[0], (size_t)n * sizeof(double));
    const ops_launch launch = {
        .name = name,
        .op = o->op,
        .call = {d.in_infos, o->in_count, d.out_infos, o->out_count, &params},
        .in = (const void *const *)d.in,
        .out = d.out,
        .expected = (const double *const *)d.want,
        .step = &step,
        .tolerance = 3e-7};
    ops_launch_check(kernels, &launch);
    if (has_master)
        check_rounded(name, &d, o->out_count - 1, n);
    data_free(&d);
}

static void optimizers(const rp_kernel *kernels, const char *set, void *user) {
    static const int64_t lengths[] = {0, 1, 3, 17, 63, 65, 1025, 4097, 40001};
    for (size_t i = 0; i < COUNT(lengths); i++)
        check_optimizer(kernels, set, user, lengths[i]);
}

#define F RP_F32
#define H RP_BF16
#define NO RP_NO_DTYPE

static void test_adamw(void) {
    optimizer ways[] = {
        {"adamw", RP_OP_ADAMW, 6, 4, {F, F, F, F, NO, F}, {F, F, F, NO}, 4, 5, adamw_in_double},
        {"adamw unscaled", RP_OP_ADAMW, 6, 4, {F, F, F, F}, {F, F, F}, 4, 5, adamw_in_double},
        {"adamw of bf16",
         RP_OP_ADAMW,
         6,
         4,
         {H, H, F, F, F, F},
         {H, F, F, F},
         4,
         5,
         adamw_in_double},
        {"adamw of bf16 by f32 gradients",
         RP_OP_ADAMW,
         6,
         4,
         {H, F, F, F, F},
         {H, F, F, F},
         4,
         5,
         adamw_in_double},
    };
    for (size_t i = 0; i < COUNT(ways); i++)
        ops_for_each_set(optimizers, &ways[i]);
}

static void test_sgd(void) {
    optimizer ways[] = {
        {"sgd", RP_OP_SGD, 4, 2, {F, F, NO, F}, {F}, 2, 3, sgd_in_double},
        {"sgd unscaled", RP_OP_SGD, 4, 2, {F, F}, {F}, 2, 3, sgd_in_double},
        {"sgd of bf16", RP_OP_SGD, 4, 2, {H, H, F, F}, {H, F}, 2, 3, sgd_in_double},
        {"sgd of bf16 by f32 gradients", RP_OP_SGD, 4, 2, {H, F, F}, {H, F}, 2, 3, sgd_in_double},
    };
    for (size_t i = 0; i < COUNT(ways); i++)
        ops_for_each_set(optimizers, &ways[i]);
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

/* Of two doubles, and of what is no number. */
static void clip(const rp_kernel *kernels, const char *set, void *user) {
    static const struct {
        double squares[2];
        float want;
    } rows_[] = {{{9.0, 16.0}, 0.4f},        {{1.0, 2.0}, 1.0f}, {{4.0, 0.0}, 1.0f},
                 {{(double)NAN, 1.0}, 1.0f}, {{0.0, 0.0}, 1.0f}, {{(double)INFINITY, 0.0}, 0.0f}};
    const rp_tensor_info in = OPS_F32(4);
    rp_tensor_info out = OPS_F32_SCALAR;
    const rp_op_params most = {.clip_scale = {2.0f}};
    (void)user;
    for (size_t i = 0; i < COUNT(rows_); i++) {
        float got = NAN;
        RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_CLIP_SCALE, &(rp_op_call){&in, 1, &out, 1, &most},
                                  (const void *[]){rows_[i].squares}, (void *[]){&got}, &step, 1));
        RP_CHECK(got == rows_[i].want, "%s, row %zu: %.9g, not %.9g", set, i, (double)got,
                 (double)rows_[i].want);
    }
}

static void test_clip_scale(void) {
    ops_for_each_set(clip, NULL);
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
    RP_TEST(test_clip_scale),
};
RP_SUITE(update, tests)
