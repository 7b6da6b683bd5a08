/* dropout: the mask is a pure function of (seed, step, micro-batch, stream, index). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "random.h"
#include "reference.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const rp_step_state step = {UINT64_C(0x123456789), UINT64_C(0x300000004), 5, 1.0f, false};

/* One word at a time, from the address of the element. */
static bool is_kept(const rp_step_state *s, uint32_t stream, float p, uint64_t element) {
    uint32_t key[2];
    rp_random_key(s->seed, s->step, s->micro_batch, key);
    return rp_random_block(key, stream, element / 4).word[element % 4] >= rp_dropout_threshold(p);
}

static rp_status drop(const rp_kernel *kernels, const float *x, float *y, int64_t n, float p,
                      uint32_t stream, const rp_step_state *s, int threads) {
    const rp_tensor_info in = OPS_F32(n);
    rp_tensor_info out = OPS_F32(n);
    const rp_op_params params = {.dropout = {p, stream}};
    return ops_run(kernels, RP_OP_DROPOUT, &(rp_op_call){&in, 1, &out, 1, &params},
                   (const void *[]){x}, (void *[]){y}, s, threads);
}

static void reference_dropout(const rp_op_call *call, const double *const *in, double *const *out) {
    const float p = call->params->dropout.p;
    for (int64_t i = 0; i < ops_count(&call->out[0]); i++)
        out[0][i] = is_kept(&ops_case_step, call->params->dropout.stream, p, (uint64_t)i)
                        ? in[0][i] / (1.0 - (double)p)
                        : 0.0;
}

static void test_dropout(void) {
#define ROW(name_, p_, ...)                                                                        \
    {                                                                                              \
        .name = name_, .op = RP_OP_DROPOUT, .reference = reference_dropout,                        \
        .params = {.dropout = {p_, 77}}, .in_count = 1, .in = {OPS_F32(__VA_ARGS__)},              \
        .tolerance = 3e-7, .gradient_tolerance = 1e-6                                              \
    }
    static const ops_case cases[] = {
        ROW("dropout [1]", 0.5f, 1),           ROW("dropout [3]", 0.1f, 3),
        ROW("dropout [17]", 0.9f, 17),         ROW("dropout [3, 21]", 0.25f, 3, 21),
        ROW("dropout [65]", 0.5f, 65),         ROW("dropout [1025]", 0.5f, 1025),
        ROW("dropout [4099]", 0.1f, 4099),     ROW("dropout [201, 200]", 0.1f, 201, 200),
        ROW("dropout of nothing", 0.5f, 0),    ROW("dropout with p = 0", 0.0f, 65),
        ROW("dropout of p near 1", 0.999f, 65)};
#undef ROW
    ops_cases_run(cases, COUNT(cases));
}

enum { BIG = 1000003 };

typedef struct masks {
    float *x, *y;
    uint8_t *want;
    float p;
} masks;

static void big_mask(const rp_kernel *kernels, const char *set, void *user) {
    const masks *m = user;
    const float kept = 1.0f / (1.0f - m->p);
    for (int threads = 1; threads <= 7; threads += threads == 3 ? 4 : 1) {
        memset(m->y, 0xff, BIG * sizeof *m->y);
        RP_CHECK_OK(NULL, drop(kernels, m->x, m->y, BIG, m->p, 9, &step, threads));
        int64_t wrong = 0;
        for (int64_t i = 0; i < BIG; i++)
            wrong += m->y[i] != (m->want[i] ? kept : 0.0f);
        RP_CHECK(wrong == 0, "%s, %d threads: %lld elements differ", set, threads,
                 (long long)wrong);
    }
    /* A part of the tensor has the same mask: neither length nor cut matters. */
    RP_CHECK_OK(NULL, drop(kernels, m->x, m->y, 5003, m->p, 9, &step, 1));
    int64_t wrong = 0;
    for (int64_t i = 0; i < 5003; i++)
        wrong += m->y[i] != (m->want[i] ? kept : 0.0f);
    RP_CHECK(wrong == 0, "%s, 5003 elements: %lld differ", set, (long long)wrong);
}

static void test_RNG_05_mask_is_a_pure_function_of_the_index(void) {
    masks m = {malloc(BIG * sizeof(float)), malloc(BIG * sizeof(float)), malloc(BIG), 0.1f};
    RP_REQUIRE(m.x != NULL && m.y != NULL && m.want != NULL, "no room");
    for (int64_t i = 0; i < BIG; i++) {
        m.x[i] = 1.0f;
        m.want[i] = is_kept(&step, 9, m.p, (uint64_t)i);
    }
    ops_for_each_set(big_mask, &m);
    /* Rate, and pairs at distances 1 to 4, within 5 sigma. */
    const double n = BIG, q = 1.0 - (double)m.p, sigma = sqrt(n * q * (1.0 - q));
    double kept = 0.0;
    for (int64_t i = 0; i < BIG; i++)
        kept += m.want[i];
    RP_CHECK(fabs(kept - n * q) < 5.0 * sigma, "%g of %g kept", kept, n);
    for (int64_t distance = 1; distance <= 4; distance++) {
        double sum = 0.0;
        for (int64_t i = 0; i + distance < BIG; i++)
            sum += (m.want[i] - q) * (m.want[i + distance] - q);
        RP_CHECK(fabs(sum) < 5.0 * sqrt(n) * q * (1.0 - q), "distance %lld: %g",
                 (long long)distance, sum);
    }
    free(m.x);
    free(m.y);
    free(m.want);
}

/* Of each part of the address: another one gives another mask; about half the elements differ. */
static void other_masks(const rp_kernel *kernels, const char *set, void *user) {
    enum { N = 4096 };
    static float x[N], y[6][N];
    const rp_step_state states[6] = {
        step,
        {step.seed + 1, step.step, step.micro_batch, 1.0f, false},
        {step.seed, step.step + 1, step.micro_batch, 1.0f, false},
        {step.seed, step.step, step.micro_batch + 1, 1.0f, false},
        {step.seed ^ UINT64_C(1) << 40, step.step, step.micro_batch, 1.0f, false},
        step, /* with another stream */
    };
    (void)user;
    for (int i = 0; i < N; i++)
        x[i] = 1.0f;
    for (int s = 0; s < 6; s++)
        RP_CHECK_OK(NULL, drop(kernels, x, y[s], N, 0.5f, s == 5 ? 3 : 2, &states[s], 1));
    for (int a = 0; a < 6; a++)
        for (int b = 0; b < a; b++) {
            int differ = 0;
            for (int i = 0; i < N; i++)
                differ += y[a][i] != y[b][i];
            RP_CHECK(abs(differ - N / 2) < 5 * 32, "%s: masks %d and %d differ in %d", set, a, b,
                     differ);
        }
}

static void test_dropout_draws_anew_for_each_seed_step_micro_batch_and_op(void) {
    ops_for_each_set(other_masks, NULL);
}

static void evaluating(const rp_kernel *kernels, const char *set, void *user) {
    enum { N = 5000 };
    static float x[N], y[N];
    const rp_step_state evaluate = {1, 2, 3, 1.0f, true};
    (void)user;
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    RP_CHECK_OK(NULL, drop(kernels, x, y, N, 0.5f, 1, &evaluate, 2));
    RP_CHECK(memcmp(x, y, sizeof x) == 0, "%s: evaluation changed something", set);
}

static void test_dropout_does_nothing_when_evaluating(void) {
    ops_for_each_set(evaluating, NULL);
}

static const rp_test tests[] = {
    RP_TEST(test_dropout),
    RP_TEST(test_RNG_05_mask_is_a_pure_function_of_the_index),
    RP_TEST(test_dropout_draws_anew_for_each_seed_step_micro_batch_and_op),
    RP_TEST(test_dropout_does_nothing_when_evaluating),
};
RP_SUITE(dropout, tests)
