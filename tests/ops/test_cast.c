/* cast: every bf16 number, and how what lies between two of them is rounded. */
#include <math.h>
#include <string.h>

#include "ops_case.h"

enum { NUMBERS = 1 << 16 };

static const rp_step_state step = {0, 0, 0, 1.0f, false};

static rp_status cast(const rp_kernel *kernels, rp_dtype from, const void *x, rp_dtype to, void *y,
                      int threads) {
    const rp_tensor_info in = {from, {1, {NUMBERS}}};
    rp_tensor_info out = {to, {1, {NUMBERS}}};
    const rp_op_params params = {.cast = {to}};
    return ops_run(kernels, RP_OP_CAST, &(rp_op_call){&in, 1, &out, 1, &params},
                   (const void *[]){x}, (void *[]){y}, &step, threads);
}

/* A bf16 number is the upper half of a float: signed zeros, denormals, infinities and NaN too. */
static void widen(const rp_kernel *kernels, const char *set, void *user) {
    static uint16_t x[NUMBERS], back[NUMBERS];
    static uint32_t wide[NUMBERS];
    (void)user;
    for (uint32_t i = 0; i < NUMBERS; i++)
        x[i] = (uint16_t)i;
    RP_CHECK_OK(NULL, cast(kernels, RP_BF16, x, RP_F32, wide, 3));
    RP_CHECK_OK(NULL, cast(kernels, RP_F32, wide, RP_BF16, back, 2));
    for (uint32_t i = 0; i < NUMBERS; i++) {
        const bool is_nan = (i & 0x7fff) > 0x7f80;
        if (!RP_CHECK(wide[i] == i << 16, "%s: %#x becomes %#x", set, i, wide[i]) ||
            !RP_CHECK(back[i] == (is_nan ? i | 0x40 : i), "%s: %#x comes back as %#x", set, i,
                      (unsigned)back[i]))
            return;
    }
}

static void test_every_bf16_number_is_a_float_and_comes_back(void) {
    ops_for_each_set(widen, NULL);
}

/* Above each number a little, less than half, half, more than half, and all of a last place: ties
 * go to even, the largest numbers to infinity, a NaN stays one and keeps its sign. */
static void between(const rp_kernel *kernels, const char *set, void *user) {
    static const uint32_t lower[] = {1, 0x7fff, 0x8000, 0x8001, 0xffff};
    static uint32_t x[NUMBERS];
    static uint16_t y[NUMBERS];
    const rp_tensor_info bf16 = {RP_BF16, {1, {NUMBERS}}}, f32 = {RP_F32, {1, {NUMBERS}}};
    (void)user;
    for (size_t k = 0; k < sizeof lower / sizeof lower[0]; k++) {
        for (uint32_t i = 0; i < NUMBERS; i++)
            x[i] = i << 16 | lower[k];
        RP_CHECK_OK(NULL, cast(kernels, RP_F32, x, RP_BF16, y, 1));
        for (int64_t i = 0; i < NUMBERS; i++) {
            const double from = ops_element(&f32, x, i), got = ops_element(&bf16, y, i);
            const double want = ops_round_bf16(from);
            const bool same = isnan(from) ? isnan(got) : got == want;
            if (!RP_CHECK(same && y[i] >> 15 == i >> 15, "%s: %#x becomes %#x, not %g", set, x[i],
                          (unsigned)y[i], want))
                return;
        }
    }
}

static void test_casts_round_to_nearest_even(void) {
    ops_for_each_set(between, NULL);
}

/* The same by hand, so that the helper above is held to something, too. */
static void by_hand(const rp_kernel *kernels, const char *set, void *user) {
    static const struct {
        uint32_t from;
        uint16_t to;
    } rows[] = {
        {0x3f808000, 0x3f80}, /* 1 + 1/2 ulp: to even */
        {0x3f818000, 0x3f82}, /* 1 + 3/2 ulp: to even */
        {0x3f808001, 0x3f81}, /* a little more than half */
        {0xbf808000, 0xbf80}, /* the same below zero */
        {0x7f7f7fff, 0x7f7f}, /* the largest that is finite */
        {0x7f7f8000, 0x7f80}, /* half a last place more: infinity */
        {0xff800000, 0xff80}, /* -infinity */
        {0x00008000, 0x0000}, /* half of the smallest: to even */
        {0x00018000, 0x0002}, /* and one and a half */
        {0x80000001, 0x8000}, /* -0 */
        {0x007f8000, 0x0080}, /* a denormal carries into a normal number */
        {0x7f800001, 0x7fc0}, /* a NaN whose upper half is infinity */
    };
    static uint32_t x[NUMBERS];
    static uint16_t y[NUMBERS];
    (void)user;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        x[i] = rows[i].from;
    RP_CHECK_OK(NULL, cast(kernels, RP_F32, x, RP_BF16, y, 1));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        RP_CHECK(y[i] == rows[i].to, "%s: %#x becomes %#x, not %#x", set, x[i], (unsigned)y[i],
                 (unsigned)rows[i].to);
}

static void test_casts_of_numbers_by_hand(void) {
    ops_for_each_set(by_hand, NULL);
}

static const rp_test tests[] = {
    RP_TEST(test_every_bf16_number_is_a_float_and_comes_back),
    RP_TEST(test_casts_round_to_nearest_even),
    RP_TEST(test_casts_of_numbers_by_hand),
};
RP_SUITE(cast, tests)
