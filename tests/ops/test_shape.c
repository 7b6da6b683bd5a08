/* transpose, slice, concat: values in every variant, gradients, every dtype. */
#include <string.h>

#include "reference.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const rp_step_state step = {0, 0, 0, 1.0f, false};

static void test_transpose(void) {
#define ROW(name_, first_, second_, ...)                                                           \
    {                                                                                              \
        .name = name_, .op = RP_OP_TRANSPOSE, .reference = reference_transpose,                    \
        .params = {.transpose = {first_, second_}}, .in_count = 1, .in = {OPS_F32(__VA_ARGS__)},   \
        .tolerance = 0.0, .gradient_tolerance = 1e-6                                               \
    }
    static const ops_case cases[] = {
        ROW("transpose [1, 1]", 0, 1, 1, 1),
        ROW("transpose [3, 17]", 0, 1, 3, 17),
        ROW("transpose [63, 65], negative", -1, -2, 63, 65),
        ROW("transpose heads", 1, 2, 2, 17, 3, 8),
        ROW("transpose heads, width 1", 1, 2, 2, 5, 3, 1),
        ROW("transpose outer and inner", 0, 2, 5, 3, 7),
        ROW("transpose with runs", 0, 2, 5, 3, 7, 2),
        ROW("transpose 6 dimensions", 1, 4, 2, 3, 2, 2, 5, 3),
        ROW("transpose a dimension with itself", 1, -1, 3, 5),
        ROW("transpose threads", 0, 1, 130, 131),
        ROW("transpose heads, threads", 1, 2, 3, 43, 4, 33),
        ROW("transpose of nothing", 0, 1, 0, 5),
    };
#undef ROW
    ops_cases_run(cases, COUNT(cases));
}

static void test_slice(void) {
#define ROW(name_, dimension_, start_, length_, ...)                                               \
    {                                                                                              \
        .name = name_, .op = RP_OP_SLICE, .reference = reference_slice,                            \
        .params = {.slice = {dimension_, start_, length_}}, .in_count = 1,                         \
        .in = {OPS_F32(__VA_ARGS__)}, .tolerance = 0.0, .gradient_tolerance = 1e-6                 \
    }
    static const ops_case cases[] = {
        ROW("slice [1]", 0, 0, 1, 1),
        ROW("slice all", 0, 0, 17, 17),
        ROW("slice first", 0, 2, 3, 17, 5),
        ROW("slice last", -1, 16, 49, 3, 65),
        ROW("slice middle", 1, 1, 2, 3, 5, 7),
        ROW("slice end", 1, 4, 1, 3, 5, 7),
        ROW("slice nothing", 1, 5, 0, 3, 5, 7),
        ROW("slice threads", 1, 50, 80, 100, 170),
        ROW("slice a long run", 0, 1, 1, 3, 20000),
        ROW("slice of nothing", 1, 0, 3, 0, 3),
    };
#undef ROW
    ops_cases_run(cases, COUNT(cases));
}

static void test_concat(void) {
#define ROW(name_, dimension_, count_, ...)                                                        \
    {                                                                                              \
        .name = name_, .op = RP_OP_CONCAT, .reference = reference_concat,                          \
        .params = {.concat = {dimension_}}, .in_count = count_, .in = {__VA_ARGS__},               \
        .tolerance = 0.0, .gradient_tolerance = 1e-6                                               \
    }
    static const ops_case cases[] = {
        ROW("concat one", 0, 1, OPS_F32(3, 2)),
        ROW("concat vectors", 0, 3, OPS_F32(3), OPS_F32(17), OPS_F32(1)),
        ROW("concat first", 0, 2, OPS_F32(3, 5), OPS_F32(2, 5)),
        ROW("concat last", -1, 3, OPS_F32(3, 5), OPS_F32(3, 63), OPS_F32(3, 1)),
        ROW("concat middle", 1, 2, OPS_F32(2, 3, 5), OPS_F32(2, 4, 5)),
        ROW("concat with nothing", 1, 3, OPS_F32(2, 3), OPS_F32(2, 0), OPS_F32(2, 1)),
        ROW("concat behind ones", 1, 2, OPS_F32(1, 3, 5), OPS_F32(1, 4, 5)),
        ROW("concat threads", 1, 2, OPS_F32(100, 150), OPS_F32(100, 33)),
        ROW("concat long runs", 0, 2, OPS_F32(3000), OPS_F32(17001)),
    };
#undef ROW
    ops_cases_run(cases, COUNT(cases));
}

/* Elements are moved as bytes: i32 and bf16 come out as they went in. */
static void move_ids(const rp_kernel *kernels, const char *set, void *user) {
    static const int32_t x[6] = {INT32_MIN, -1, 0, 1, 0x7fc00001, INT32_MAX};
    static const int32_t turned[6] = {INT32_MIN, 1, -1, 0x7fc00001, 0, INT32_MAX};
    rp_tensor_info in[] = {OPS_I32(2, 3), OPS_I32(2, 3)}, out = OPS_I32(3, 2);
    int32_t y[12];
    const rp_op_params swap = {.transpose = {0, 1}}, slice = {.slice = {1, 1, 2}};
    const rp_op_params join = {.concat = {0}};
    (void)user;
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_TRANSPOSE, &(rp_op_call){in, 1, &out, 1, &swap},
                              (const void *[]){x}, (void *[]){y}, &step, 1));
    RP_CHECK(memcmp(y, turned, sizeof turned) == 0, "%s: transpose", set);
    out = (rp_tensor_info)OPS_I32(2, 2);
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_SLICE, &(rp_op_call){in, 1, &out, 1, &slice},
                              (const void *[]){x}, (void *[]){y}, &step, 1));
    RP_CHECK(y[0] == x[1] && y[1] == x[2] && y[2] == x[4] && y[3] == x[5], "%s: slice", set);
    out = (rp_tensor_info)OPS_I32(4, 3);
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_CONCAT, &(rp_op_call){in, 2, &out, 1, &join},
                              (const void *[]){x, x}, (void *[]){y}, &step, 1));
    RP_CHECK(memcmp(y, x, sizeof x) == 0 && memcmp(y + 6, x, sizeof x) == 0, "%s: concat", set);
}

static void move_halves(const rp_kernel *kernels, const char *set, void *user) {
    enum { A = 33, B = 35 };
    static uint16_t x[A * B], y[A * B];
    const rp_tensor_info in = {RP_BF16, RP_SHAPE(A, B)};
    rp_tensor_info out = {RP_BF16, RP_SHAPE(B, A)};
    const rp_op_params swap = {.transpose = {0, 1}};
    (void)user;
    for (int i = 0; i < A * B; i++)
        x[i] = (uint16_t)(i * 57);
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_TRANSPOSE, &(rp_op_call){&in, 1, &out, 1, &swap},
                              (const void *[]){x}, (void *[]){y}, &step, 2));
    for (int i = 0; i < A * B; i++)
        RP_CHECK(y[i % B * A + i / B] == x[i], "%s: element %d", set, i);
}

static void test_shape_ops_move_any_dtype(void) {
    ops_for_each_set(move_ids, NULL);
    ops_for_each_set(move_halves, NULL);
}

static const rp_test tests[] = {
    RP_TEST(test_transpose),
    RP_TEST(test_slice),
    RP_TEST(test_concat),
    RP_TEST(test_shape_ops_move_any_dtype),
};
RP_SUITE(shape, tests)
