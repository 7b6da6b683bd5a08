/* add, mul, scale and the activations. */
#include <math.h>
#include <stdio.h>

#include "reference.h"

/* Around the width of a vector and of a chunk, and enough for several threads. */
static const int64_t lengths[] = {0, 1, 3, 17, 63, 65, 1000, 4097, 20001};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static void run_unary(const char *op_name, rp_op op, ops_reference reference, rp_op_params params) {
    for (size_t n = 0; n < LENGTHS; n++) {
        char name[64];
        snprintf(name, sizeof name, "%s [%lld]", op_name, (long long)lengths[n]);
        const ops_case c = {.name = name,
                            .op = op,
                            .reference = reference,
                            .params = params,
                            .in_count = 1,
                            .in = {OPS_F32(lengths[n])},
                            .tolerance = 4e-7,
                            .gradient_tolerance = 1e-6};
        ops_case_run(&c);
    }
}

static const rp_op_params no_params;

static void test_gelu_by_tanh(void) {
    run_unary("gelu tanh", RP_OP_GELU, reference_gelu, (rp_op_params){.gelu = {RP_GELU_TANH}});
}

static void test_gelu_by_erf(void) {
    run_unary("gelu erf", RP_OP_GELU, reference_gelu, (rp_op_params){.gelu = {RP_GELU_ERF}});
}

static void test_tanh(void) {
    run_unary("tanh", RP_OP_TANH, reference_tanh, no_params);
}

static void test_sigmoid(void) {
    run_unary("sigmoid", RP_OP_SIGMOID, reference_sigmoid, no_params);
}

static void test_relu(void) {
    run_unary("relu", RP_OP_RELU, reference_relu, no_params);
}

static void test_silu(void) {
    run_unary("silu", RP_OP_SILU, reference_silu, no_params);
}

static void test_scale(void) {
    run_unary("scale", RP_OP_SCALE, reference_scale, (rp_op_params){.scale = {-1.75f}});
}

/* a [rows, n], b [n]; also b of one element and of no dimension. */
static void run_suffix(const char *op_name, rp_op op, ops_reference reference) {
    static const rp_tensor_info shapes[][2] = {
        {OPS_F32(1), OPS_F32(1)},          {OPS_F32(17), OPS_F32(17)},
        {OPS_F32(3, 5), OPS_F32(5)},       {OPS_F32(2, 1), OPS_F32(1)},
        {OPS_F32(8, 2), OPS_F32(2)},       {OPS_F32(5, 3), OPS_F32(3)},
        {OPS_F32(7, 9), OPS_F32_SCALAR},   {OPS_F32_SCALAR, OPS_F32_SCALAR},
        {OPS_F32(2, 3, 65), OPS_F32(65)},  {OPS_F32(2, 3, 63), OPS_F32(3, 63)},
        {OPS_F32(1, 65), OPS_F32(65)},     {OPS_F32(17, 1000), OPS_F32(1000)},
        {OPS_F32(2, 9001), OPS_F32(9001)}, {OPS_F32(20001), OPS_F32(20001)},
        {OPS_F32(20001, 1), OPS_F32(1)},   {OPS_F32(6001, 3), OPS_F32(3)},
        {OPS_F32(0, 4), OPS_F32(4)},       {OPS_F32(4, 0), OPS_F32(0)},
        {OPS_F32(0), OPS_F32(0)},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        char name[96], a[RP_SHAPE_TEXT], b[RP_SHAPE_TEXT];
        const int64_t n = ops_count(&shapes[i][1]), rows = n > 0 ? ops_count(&shapes[i][0]) / n : 0;
        snprintf(name, sizeof name, "%s %.32s %.32s", op_name, rp_tensor_text(&shapes[i][0], a),
                 rp_tensor_text(&shapes[i][1], b));
        const ops_case c = {.name = name,
                            .op = op,
                            .reference = reference,
                            .in_count = 2,
                            .in = {shapes[i][0], shapes[i][1]},
                            .tolerance = 4e-7,
                            .gradient_tolerance = 1e-5,
                            /* the products that the gradient of b sums are rounded one by one */
                            .bf16_times = 1.0 + sqrt((double)rows)};
        ops_case_run(&c);
    }
}

static void test_add(void) {
    run_suffix("add", RP_OP_ADD, reference_add);
}

static void test_mul(void) {
    run_suffix("mul", RP_OP_MUL, reference_mul);
}

static const rp_test tests[] = {
    RP_TEST(test_gelu_by_tanh), RP_TEST(test_gelu_by_erf), RP_TEST(test_tanh),
    RP_TEST(test_sigmoid),      RP_TEST(test_relu),        RP_TEST(test_silu),
    RP_TEST(test_scale),        RP_TEST(test_add),         RP_TEST(test_mul),
};
RP_SUITE(elementwise, tests)
