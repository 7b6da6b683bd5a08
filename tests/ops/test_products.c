/* linear and matmul. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/dispatch.h"
#include "ops_device.h"
#include "reference.h"
#include "vjp_record.h"

/* ---- linear ---------------------------------------------------------------------------------- */

static void run_linear(int64_t rows, int64_t in, int64_t out, rp_weight_layout layout, bool bias) {
    char name[96];
    snprintf(name, sizeof name, "linear [%lld, %lld] -> %lld%s%s", (long long)rows, (long long)in,
             (long long)out, layout == RP_OUT_IN ? " out_in" : "", bias ? " bias" : "");
    ops_case c = {.name = name,
                  .op = RP_OP_LINEAR,
                  .reference = reference_linear,
                  .params = {.linear = {layout}},
                  .in_count = 3,
                  .in = {OPS_F32(rows, in), OPS_F32(in, out)},
                  .tolerance = 2e-5,
                  .bits_vary = true};
    if (layout == RP_OUT_IN)
        c.in[1] = (rp_tensor_info)OPS_F32(out, in);
    if (bias)
        c.in[2] = (rp_tensor_info)OPS_F32(out);
    ops_case_run(&c);
}

static void test_linear_at_odd_sizes(void) {
    static const int64_t sizes[][3] = {{1, 1, 1},      {1, 3, 17},   {3, 1, 1},  {17, 63, 3},
                                       {63, 17, 65},   {65, 65, 63}, {3, 65, 1}, {2, 130, 129},
                                       {257, 33, 131}, {0, 3, 5},    {5, 0, 3},  {130, 1, 200}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int variant = 0; variant < 4; variant++)
            run_linear(sizes[i][0], sizes[i][1], sizes[i][2], variant & 1 ? RP_OUT_IN : RP_IN_OUT,
                       variant & 2);
}

static void test_linear_with_leading_dimensions(void) {
    static const ops_case c = {.name = "linear [2, 3, 5, 7]",
                               .op = RP_OP_LINEAR,
                               .reference = reference_linear,
                               .params = {.linear = {RP_IN_OUT}},
                               .in_count = 3,
                               .in = {OPS_F32(2, 3, 5, 7), OPS_F32(7, 4), OPS_F32(4)},
                               .tolerance = 1e-5,
                               .bits_vary = true};
    ops_case_run(&c);
}

/* The gradient of the bias alone is ours, not the BLAS's: its bits do not depend on threads. */
static void check_bias_gradient(const rp_kernel *kernels, const char *set, void *user) {
    enum { ROWS = 333, OUT = 1029 };
    (void)user;
    float *dy = malloc(sizeof(float) * ROWS * OUT), *dbias = malloc(sizeof(float) * OUT);
    double *expected = calloc(OUT, sizeof *expected);
    RP_REQUIRE(dy != NULL && dbias != NULL && expected != NULL, "no room");
    ops_random random = ops_random_seed("bias", 0);
    for (int i = 0; i < ROWS * OUT; i++) {
        dy[i] = (float)(ops_random_uniform(&random) - 0.25);
        expected[i % OUT] += (double)dy[i];
    }
    const rp_tensor_info in[] = {OPS_ABSENT, OPS_F32(ROWS, OUT)};
    rp_tensor_info out[] = {OPS_ABSENT, OPS_F32(OUT)};
    const rp_op_params params = {.linear = {RP_IN_OUT}};
    const double *const wanted[] = {NULL, expected};
    const ops_launch launch = {.name = set,
                               .op = RP_OP_LINEAR_BACKWARD_WEIGHT,
                               .call = {in, 2, out, 2, &params},
                               .in = (const void *[]){NULL, dy},
                               .out = (void *[]){NULL, dbias},
                               .expected = wanted,
                               .tolerance = 1e-6};
    ops_launch_check(kernels, &launch);
    free(dy);
    free(dbias);
    free(expected);
}

static void test_linear_bias_gradient_bits_do_not_depend_on_threads(void) {
    ops_for_each_set(check_bias_gradient, NULL);
}

static const rp_op_params in_out = {.linear = {RP_IN_OUT}};

static void record_linear(vjp_record *record, uint32_t wanted) {
    static const rp_tensor_info in[] = {OPS_F32(4, 3), OPS_F32(3, 5), OPS_F32(5)};
    static rp_tensor_info out[] = {OPS_F32(4, 5)};
    const rp_op_call call = {in, 3, out, 1, &in_out};
    vjp_record_make(record, RP_OP_LINEAR, &call, wanted);
}

/* So that x can die before the gradient of x is made. */
static void test_linear_emits_the_weight_gradient_first(void) {
    vjp_record record;
    record_linear(&record, 7);
    RP_REQUIRE_EQUAL(record.count, 2);
    const vjp_node *weight = &record.nodes[0], *input = &record.nodes[1];
    RP_CHECK_EQUAL(weight->op, RP_OP_LINEAR_BACKWARD_WEIGHT);
    RP_CHECK_EQUAL(weight->in[0], 0);
    RP_CHECK_EQUAL(weight->in[1], 200);
    RP_CHECK_EQUAL(weight->gradient_of[0], 1);
    RP_CHECK_EQUAL(weight->gradient_of[1], 2);
    RP_CHECK_EQUAL(input->op, RP_OP_LINEAR_BACKWARD_INPUT);
    RP_CHECK_EQUAL(input->in[0], 200);
    RP_CHECK_EQUAL(input->in[1], 1);
    RP_CHECK_EQUAL(input->gradient_of[0], 0);
}

static void test_linear_with_frozen_weight_does_not_read_x(void) {
    vjp_record record;
    record_linear(&record, 1);
    RP_REQUIRE_EQUAL(record.count, 1);
    RP_CHECK_EQUAL(record.nodes[0].op, RP_OP_LINEAR_BACKWARD_INPUT);
    record_linear(&record, 4);
    RP_REQUIRE_EQUAL(record.count, 1);
    RP_CHECK_EQUAL(record.nodes[0].op, RP_OP_LINEAR_BACKWARD_WEIGHT);
    RP_CHECK_EQUAL(record.nodes[0].in[0], RP_NONE);
    RP_CHECK_EQUAL(record.nodes[0].gradient_of[0], RP_VJP_ABSENT);
}

static void test_linear_of_constant_x_does_not_read_the_weight(void) {
    vjp_record record;
    record_linear(&record, 2);
    RP_REQUIRE_EQUAL(record.count, 1);
    RP_CHECK_EQUAL(record.nodes[0].op, RP_OP_LINEAR_BACKWARD_WEIGHT);
    RP_CHECK_EQUAL(record.nodes[0].gradient_of[1], RP_VJP_ABSENT);
}

/* ---- matmul ---------------------------------------------------------------------------------- */

static void run_matmul(int64_t batch, int64_t m, int64_t k, int64_t n, bool ta, bool tb) {
    char name[96];
    snprintf(name, sizeof name, "matmul %lld x [%lld, %lld] [%lld, %lld]%s%s", (long long)batch,
             (long long)m, (long long)k, (long long)k, (long long)n, ta ? " a transposed" : "",
             tb ? " b transposed" : "");
    ops_case c = {
        .name = name,
        .op = RP_OP_MATMUL,
        .reference = reference_matmul,
        .params = {.matmul = {ta, tb}},
        .in_count = 2,
        .in = {OPS_F32(batch, ta ? k : m, ta ? m : k), OPS_F32(batch, tb ? n : k, tb ? k : n)},
        .tolerance = 2e-5,
        .bits_vary = batch == 1 || ops_device_has_libraries()};
    ops_case_run(&c);
}

/* Batches of small products are shared out: bits do not depend on threads or alignment, but where a
 * library makes them. */
static void test_matmul_of_all_transposes(void) {
    static const int64_t sizes[][4] = {{1, 1, 1, 1},  {1, 3, 17, 65},  {1, 63, 65, 17},
                                       {2, 1, 3, 1},  {3, 17, 1, 3},   {5, 63, 3, 17},
                                       {7, 4, 65, 5}, {2, 65, 17, 63}, {0, 3, 4, 5},
                                       {2, 0, 3, 4},  {2, 3, 0, 4},    {40, 9, 8, 7}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (int t = 0; t < 4; t++)
            run_matmul(sizes[i][0], sizes[i][1], sizes[i][2], sizes[i][3], t & 1, t & 2);
}

static void test_matmul_without_and_with_two_leading_dimensions(void) {
    const ops_case cases[] = {{.name = "matmul [3, 4] [4, 5]",
                               .op = RP_OP_MATMUL,
                               .reference = reference_matmul,
                               .in_count = 2,
                               .in = {OPS_F32(3, 4), OPS_F32(4, 5)},
                               .tolerance = 1e-5,
                               .bits_vary = true},
                              {.name = "matmul [2, 3, 4, 5] [2, 3, 5, 6]",
                               .op = RP_OP_MATMUL,
                               .reference = reference_matmul,
                               .in_count = 2,
                               .in = {OPS_F32(2, 3, 4, 5), OPS_F32(2, 3, 5, 6)},
                               .tolerance = 1e-5,
                               .bits_vary = ops_device_has_libraries()}};
    ops_cases_run(cases, sizeof cases / sizeof cases[0]);
}

static void test_matmul_reads_only_the_other_operand(void) {
    static const rp_tensor_info in[] = {OPS_F32(4, 3), OPS_F32(3, 5)};
    static rp_tensor_info out[] = {OPS_F32(4, 5)};
    static const rp_op_params params = {.matmul = {false, false}};
    const rp_op_call call = {in, 2, out, 1, &params};
    vjp_record record;
    vjp_record_make(&record, RP_OP_MATMUL, &call, 1);
    RP_REQUIRE_EQUAL(record.count, 1);
    RP_CHECK_EQUAL(record.nodes[0].in[0], 200);
    RP_CHECK_EQUAL(record.nodes[0].in[1], 1);
    vjp_record_make(&record, RP_OP_MATMUL, &call, 2);
    RP_REQUIRE_EQUAL(record.count, 1);
    RP_CHECK_EQUAL(record.nodes[0].in[0], 0);
    RP_CHECK_EQUAL(record.nodes[0].in[1], 200);
}

/* ---- The same call, elsewhere in memory ------------------------------------------------------ */

typedef struct product {
    rp_op op;
    rp_op_call call;
    const void *const *in;
    int64_t out_count;
} product;

/* The bits of a replay do not depend on where the arena puts its output, nor on what lay there. */
static void check_places(const rp_kernel *kernels, const char *set, void *user) {
    enum { PLACES = 5 };
    static const size_t places[PLACES] = {0, 64, 192, 1088, 4032};
    const product *p = user;
    const size_t bytes = (size_t)p->out_count * sizeof(float);
    uint8_t *block = aligned_alloc(4096, (bytes + 2 * 4096) / 4096 * 4096);
    float *first = malloc(bytes);
    RP_REQUIRE(block != NULL && first != NULL, "no room");
    for (int i = 0; i < PLACES; i++) {
        void *out[] = {block + places[i]};
        memset(block, 0xFF, bytes + 4096);
        RP_CHECK_EQUAL(ops_run(kernels, p->op, &p->call, p->in, out, NULL, 2), RP_OK);
        if (i == 0)
            memcpy(first, out[0], bytes);
        RP_CHECK(memcmp(first, out[0], bytes) == 0, "%s: other bits at offset %zu", set, places[i]);
    }
    free(block);
    free(first);
}

static float *numbers(const char *seed, int64_t count) {
    float *x = malloc((size_t)count * sizeof *x);
    RP_REQUIRE(x != NULL, "no room");
    ops_random random = ops_random_seed(seed, 0);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)(2.0 * ops_random_uniform(&random) - 1.0);
    return x;
}

static void test_DE_01_matmul_bits_do_not_depend_on_the_place(void) {
    static const rp_tensor_info in[] = {OPS_F32(16, 4096), OPS_F32(4096, 16)};
    static rp_tensor_info out[] = {OPS_F32(16, 16)};
    static const rp_op_params params = {.matmul = {false, false}};
    float *a = numbers("a", 16 * 4096), *b = numbers("b", 16 * 4096);
    const void *const data[] = {a, b};
    product p = {RP_OP_MATMUL, {in, 2, out, 1, &params}, data, 16 * 16};
    ops_for_each_set(check_places, &p);
    free(a);
    free(b);
}

static void test_DE_01_linear_bits_do_not_depend_on_the_place(void) {
    static const rp_tensor_info in[] = {OPS_F32(130, 384), OPS_F32(384, 511), OPS_F32(511)};
    static rp_tensor_info out[] = {OPS_F32(130, 511)};
    float *x = numbers("x", 130 * 384), *w = numbers("w", 384 * 511), *bias = numbers("bias", 511);
    const void *const data[] = {x, w, bias};
    product p = {RP_OP_LINEAR, {in, 3, out, 1, &in_out}, data, 130 * 511};
    ops_for_each_set(check_places, &p);
    free(x);
    free(w);
    free(bias);
}

/* ---- bf16 ------------------------------------------------------------------------------------ */

/* op(a) [m, k] op(b) [k, n] + what is accumulated, in double. */
typedef struct panels_case {
    const char *name;
    rp_op op;
    rp_op_params params;
    int64_t batch, m, n, k;
    bool ta, tb;
    rp_dtype out;
} panels_case;

static double dot(const panels_case *c, const double *a, const double *b, int64_t i, int64_t j) {
    double sum = 0.0;
    for (int64_t k = 0; k < c->k; k++)
        sum += a[c->ta ? k * c->m + i : i * c->k + k] * b[c->tb ? j * c->k + k : k * c->n + j];
    return sum;
}

static double *wide_numbers(const rp_tensor_info *info, const char *seed, void **data) {
    const int64_t count = ops_count(info);
    double *wide = malloc((size_t)count * sizeof *wide);
    ops_random random = ops_random_seed(seed, (uint64_t)count);
    *data = malloc(ops_bytes(info));
    RP_REQUIRE(wide != NULL && *data != NULL, "no room");
    for (int64_t i = 0; i < count; i++) {
        ops_set(info, *data, i, 2.0 * ops_random_uniform(&random) - 1.0);
        wide[i] = ops_element(info, *data, i);
    }
    return wide;
}

static void check_panels(const rp_kernel *kernels, const char *set, void *user) {
    const panels_case *c = user;
    const rp_tensor_info in[] = {OPS_BF16(c->batch, c->ta ? c->k : c->m, c->ta ? c->m : c->k),
                                 OPS_BF16(c->batch, c->tb ? c->n : c->k, c->tb ? c->k : c->n)};
    rp_tensor_info out = {c->out, {3, {c->batch, c->m, c->n}}};
    void *data[2], *c_data = malloc((size_t)ops_count(&out) * sizeof(float));
    double *a = wide_numbers(&in[0], "a", &data[0]), *b = wide_numbers(&in[1], "b", &data[1]);
    double *want = malloc((size_t)ops_count(&out) * sizeof *want);
    char name[128];
    RP_REQUIRE(c_data != NULL && want != NULL, "no room");
    snprintf(name, sizeof name, "%s -> %s (%s)", c->name, rp_dtype_name(c->out), set);
    for (int64_t i = 0; i < ops_count(&out); i++) {
        const int64_t at = i / (c->m * c->n), row = i / c->n % c->m;
        want[i] = dot(c, a + at * c->m * c->k, b + at * c->k * c->n, row, i % c->n);
    }
    const ops_launch launch = {.name = name,
                               .op = c->op,
                               .call = {in, 2, &out, 1, &c->params},
                               .in = (const void *const *)data,
                               .out = &c_data,
                               .expected = (const double *const *)&want,
                               .tolerance = 1e-4,
                               .bits_vary = true};
    ops_launch_check(kernels, &launch);
    free(data[0]);
    free(data[1]);
    free(c_data);
    free(a);
    free(b);
    free(want);
}

/* More than one panel in every direction: of one product, and of products that are shared out. */
static void test_products_of_many_panels(void) {
    static const rp_op_params plain = {.matmul = {false, false}}, both = {.matmul = {true, true}};
    panels_case cases[] = {
        {"matmul [521, 1030] [1030, 517]", RP_OP_MATMUL, plain, 1, 521, 517, 1030, false, false,
         RP_BF16},
        {"matmul of transposes, shared", RP_OP_MATMUL, both, 20, 131, 60, 259, true, true, RP_BF16},
        {"matmul shared", RP_OP_MATMUL, plain, 3, 70, 140, 129, false, false, RP_F32},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ops_for_each_set(check_panels, &cases[i]);
}

/* Both gradients of one node, which a library may make in one go, and for some lengths does not. */
typedef struct gradients_case {
    rp_dtype in, out;
    rp_weight_layout layout;
    int64_t rows;
} gradients_case;

static void check_gradients(const rp_kernel *kernels, const char *set, void *user) {
    enum { IN = 40, OUT = 24 };
    const gradients_case *c = user;
    const bool transposed = c->layout == RP_OUT_IN;
    const rp_tensor_info in[] = {{c->in, {2, {c->rows, IN}}}, {c->in, {2, {c->rows, OUT}}}};
    rp_tensor_info out[] = {{c->out, {2, {transposed ? OUT : IN, transposed ? IN : OUT}}},
                            {c->out, {1, {OUT}}}};
    void *data[2];
    double *x = wide_numbers(&in[0], "x", &data[0]), *dy = wide_numbers(&in[1], "dy", &data[1]);
    double dweight[IN * OUT] = {0.0}, dbias[OUT] = {0.0};
    float got[IN * OUT], got_bias[OUT];
    char name[128];
    snprintf(name, sizeof name, "dweight and dbias of %lld rows, %s -> %s%s (%s)",
             (long long)c->rows, rp_dtype_name(c->in), rp_dtype_name(c->out),
             transposed ? " out_in" : "", set);
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t o = 0; o < OUT; o++) {
            dbias[o] += dy[r * OUT + o];
            for (int64_t i = 0; i < IN; i++)
                dweight[transposed ? o * IN + i : i * OUT + o] += x[r * IN + i] * dy[r * OUT + o];
        }
    const rp_op_params params = {.linear = {c->layout}};
    const ops_launch launch = {.name = name,
                               .op = RP_OP_LINEAR_BACKWARD_WEIGHT,
                               .call = {in, 2, out, 2, &params},
                               .in = (const void *const *)data,
                               .out = (void *[]){got, got_bias},
                               .expected = (const double *[]){dweight, dbias},
                               .tolerance = 1e-5,
                               .bits_vary = true};
    ops_launch_check(kernels, &launch);
    free(data[0]);
    free(data[1]);
    free(x);
    free(dy);
}

static void test_linear_makes_both_gradients_at_once(void) {
    static const rp_dtype types[][2] = {{RP_F32, RP_F32}, {RP_BF16, RP_BF16}, {RP_BF16, RP_F32}};
    for (int t = 0; t < 3; t++)
        for (int64_t rows = 0; rows <= 65; rows += rows == 0 ? 64 : 1) {
            gradients_case c = {types[t][0], types[t][1], RP_IN_OUT, rows};
            ops_for_each_set(check_gradients, &c);
            c.layout = RP_OUT_IN;
            ops_for_each_set(check_gradients, &c);
        }
}

/* A few MiB, however large a product is; none where nothing is bf16. */
static void test_products_of_bf16_take_little_workspace(void) {
    const rp_tensor_info in[] = {OPS_BF16(64, 1024, 4096), OPS_BF16(4096, 50257), OPS_ABSENT};
    const rp_tensor_info floats[] = {OPS_F32(64, 1024, 4096), OPS_F32(4096, 50257), OPS_ABSENT};
    rp_tensor_info out[] = {OPS_BF16(64, 1024, 50257)}, out_f32[] = {OPS_F32(64, 1024, 50257)};
    const rp_op_call call = {in, 3, out, 1, &in_out}, call_f32 = {floats, 3, out_f32, 1, &in_out};
    RP_CHECK_EQUAL(rp_op_workspace(RP_OP_LINEAR, &call), 3 << 20);
    RP_CHECK_EQUAL(rp_op_workspace(RP_OP_LINEAR, &call_f32), 0);
    const rp_tensor_info heads[] = {OPS_BF16(512, 1024, 1024), OPS_BF16(512, 1024, 64)};
    rp_tensor_info values[] = {OPS_BF16(512, 1024, 64)};
    const rp_op_params params = {.matmul = {false, false}};
    const rp_op_call shared = {heads, 2, values, 1, &params};
    RP_CHECK(rp_op_workspace(RP_OP_MATMUL, &shared) <= 3 << 20, "%lld bytes",
             (long long)rp_op_workspace(RP_OP_MATMUL, &shared));
}

/* ---- Wrong calls ----------------------------------------------------------------------------- */

static void check_refused(rp_op op, const rp_op_params *params, const rp_tensor_info *in,
                          size_t in_count, rp_status status, const char *words) {
    rp_context *context = rp_test_context(1);
    rp_tensor_info out[RP_OP_MAX_OUTPUTS];
    rp_op_call call = {in, in_count, out, 0, params};
    RP_CHECK_STATUS(context, rp_op_get(op)->infer(context, &call), status);
    RP_CHECK_MESSAGE(context, words);
    rp_context_destroy(context);
}

static void test_linear_refuses_wrong_shapes_and_types(void) {
    const struct {
        rp_tensor_info in[3];
        rp_status status;
        const char *words;
    } wrong[] = {
        {{OPS_F32(2, 3), OPS_F32(4, 5), OPS_ABSENT},
         RP_BAD_SHAPE,
         "x is f32 [2, 3], weight is f32 [4, 5]"},
        {{OPS_F32(2, 3), OPS_F32(3, 5), OPS_F32(4)}, RP_BAD_SHAPE, "bias [5] was expected"},
        {{OPS_F32(2, 3), OPS_F32(3), OPS_ABSENT}, RP_BAD_SHAPE, "weight is f32 [3]"},
        {{OPS_F32_SCALAR, OPS_F32(3, 5), OPS_ABSENT}, RP_BAD_SHAPE, "x is f32 []"},
        {{OPS_I32(2, 3), OPS_F32(3, 5), OPS_ABSENT}, RP_BAD_DTYPE, "x is i32 [2, 3]"},
        {{OPS_ABSENT, OPS_F32(3, 5), OPS_ABSENT}, RP_INVALID_ARGUMENT, "x is missing"},
        {{OPS_F32(2, 3), OPS_ABSENT, OPS_ABSENT}, RP_INVALID_ARGUMENT, "weight is missing"},
        {{OPS_F32(3000000000, 3), OPS_F32(3, 5), OPS_ABSENT}, RP_BAD_SHAPE, "3000000000"},
        {{OPS_F32(1, 3000000000), OPS_F32(3000000000, 1), OPS_ABSENT},
         RP_BAD_SHAPE,
         "up to 2147483647"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        check_refused(RP_OP_LINEAR, &in_out, wrong[i].in, 3, wrong[i].status, wrong[i].words);
}

static void test_matmul_refuses_wrong_shapes_and_types(void) {
    static const rp_op_params params = {.matmul = {false, true}};
    const struct {
        rp_tensor_info in[2];
        rp_status status;
        const char *words;
    } wrong[] = {
        {{OPS_F32(2, 3), OPS_F32(3, 5)}, RP_BAD_SHAPE, "b is f32 [3, 5] transposed"},
        {{OPS_F32(7, 2, 3), OPS_F32(6, 5, 3)}, RP_BAD_SHAPE, "equal leading dimensions"},
        {{OPS_F32(2, 3), OPS_F32(1, 5, 3)}, RP_BAD_SHAPE, "a is f32 [2, 3]"},
        {{OPS_F32(3), OPS_F32(3)}, RP_BAD_SHAPE, "a is f32 [3]"},
        {{OPS_F32(2, 3), OPS_I32(5, 3)}, RP_BAD_DTYPE, "b is i32 [5, 3]"},
        {{OPS_F32(2, 3), OPS_ABSENT}, RP_INVALID_ARGUMENT, "b is missing"},
        {{OPS_F32(3000000000, 3), OPS_F32(5, 3)}, RP_BAD_SHAPE, "M is 3000000000"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        check_refused(RP_OP_MATMUL, &params, wrong[i].in, 2, wrong[i].status, wrong[i].words);
}

static void test_products_count_two_operations_a_multiply_add(void) {
    const rp_tensor_info in[] = {OPS_F32(2, 4, 3), OPS_F32(3, 5), OPS_ABSENT};
    rp_tensor_info out[] = {OPS_F32(2, 4, 5)};
    const rp_op_call linear = {in, 3, out, 1, &in_out};
    RP_CHECK_EQUAL(rp_op_flops(RP_OP_LINEAR, &linear), 2 * 8 * 3 * 5);
    const rp_tensor_info matrices[] = {OPS_F32(2, 4, 3), OPS_F32(2, 3, 5)};
    const rp_op_params params = {.matmul = {false, false}};
    const rp_op_call matmul = {matrices, 2, out, 1, &params};
    RP_CHECK_EQUAL(rp_op_flops(RP_OP_MATMUL, &matmul), 2 * 2 * 4 * 3 * 5);
    const rp_tensor_info huge[] = {OPS_F32(2000000000, 2000000000),
                                   OPS_F32(2000000000, 2000000000)};
    const rp_op_call large = {huge, 2, out, 1, &params};
    RP_CHECK_EQUAL(rp_op_flops(RP_OP_MATMUL, &large), INT64_MAX);
}

static const rp_test tests[] = {
    RP_TEST(test_linear_at_odd_sizes),
    RP_TEST(test_linear_with_leading_dimensions),
    RP_TEST(test_linear_bias_gradient_bits_do_not_depend_on_threads),
    RP_TEST(test_linear_emits_the_weight_gradient_first),
    RP_TEST(test_linear_with_frozen_weight_does_not_read_x),
    RP_TEST(test_linear_of_constant_x_does_not_read_the_weight),
    RP_TEST(test_matmul_of_all_transposes),
    RP_TEST(test_matmul_without_and_with_two_leading_dimensions),
    RP_TEST(test_matmul_reads_only_the_other_operand),
    RP_TEST(test_DE_01_matmul_bits_do_not_depend_on_the_place),
    RP_TEST(test_DE_01_linear_bits_do_not_depend_on_the_place),
    RP_TEST(test_products_of_many_panels),
    RP_TEST(test_linear_makes_both_gradients_at_once),
    RP_TEST(test_products_of_bf16_take_little_workspace),
    RP_TEST(test_linear_refuses_wrong_shapes_and_types),
    RP_TEST(test_matmul_refuses_wrong_shapes_and_types),
    RP_TEST(test_products_count_two_operations_a_multiply_add),
};
RP_SUITE(products, tests)
