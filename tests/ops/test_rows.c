/* embedding, layernorm, softmax, cross entropy. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops_device.h"
#include "reference.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const rp_step_state step = {0, 0, 0, 1.0f, false};

/* ---- embedding ------------------------------------------------------------------------------- */

static void test_embedding(void) {
#define ROW(name_, ids_high, table, ids)                                                           \
    {                                                                                              \
        .name = name_, .op = RP_OP_EMBEDDING, .reference = reference_embedding, .in_count = 2,     \
        .in = {table, ids}, .tolerance = 1e-6, .gradient_tolerance = 1e-5, .id_high = ids_high     \
    }
    static const ops_case cases[] = {
        ROW("embedding 1x1", 1, OPS_F32(1, 1), OPS_I32(1)),
        ROW("embedding scalar id", 5, OPS_F32(5, 3), OPS_I32_SCALAR),
        ROW("embedding 5x3", 5, OPS_F32(5, 3), OPS_I32(2, 4)),
        ROW("embedding 7x17", 7, OPS_F32(7, 17), OPS_I32(11)),
        ROW("embedding 9x63", 9, OPS_F32(9, 63), OPS_I32(2, 2, 3)),
        ROW("embedding 3x65, many equal ids", 3, OPS_F32(3, 65), OPS_I32(70)),
        ROW("embedding 50x130, threads", 50, OPS_F32(50, 130), OPS_I32(9, 33)),
        ROW("embedding 600x8, more ids than threads", 600, OPS_F32(600, 8), OPS_I32(2500)),
        ROW("embedding without ids", 4, OPS_F32(4, 3), OPS_I32(0)),
        ROW("embedding of width 0", 4, OPS_F32(4, 0), OPS_I32(3)),
    };
#undef ROW
    ops_cases_run(cases, COUNT(cases));
}

static void wild_ids(const rp_kernel *kernels, const char *set, void *user) {
    enum { V = 3, C = 2, N = 5 };
    static const float table[V * C] = {1, 2, 3, 4, 5, 6},
                                 dy[N * C] = {1, 1, 2, 2, 4, 4, 8, 8, 16, 16};
    static const int32_t ids[N] = {-1, 2, 3, INT32_MIN, INT32_MAX};
    const rp_tensor_info info[] = {OPS_F32(V, C), OPS_I32(N)}, back[] = {OPS_I32(N), OPS_F32(N, C)};
    rp_tensor_info y_info = OPS_F32(N, C), table_info = OPS_F32(V, C);
    /* and a row behind the table that must stay */
    float y[N * C], dtable[(V + 1) * C] = {[V * C] = 7, [V * C + 1] = 7};
    const rp_op_call forward = {info, 2, &y_info, 1, NULL},
                     backward = {back, 2, &table_info, 1, NULL};
    (void)user;
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_EMBEDDING, &forward, (const void *[]){table, ids},
                              (void *[]){y}, &step, 2));
    for (int i = 0; i < N * C; i++)
        RP_CHECK(i / C == 1 ? y[i] == table[2 * C + i % C] : isnan(y[i]), "%s: y[%d] is %g", set, i,
                 (double)y[i]);
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_EMBEDDING_BACKWARD, &backward,
                              (const void *[]){ids, dy}, (void *[]){dtable}, &step, 2));
    for (int i = 0; i < (V + 1) * C; i++)
        RP_CHECK(dtable[i] == (i / C == V   ? 7.0f
                               : i / C == 2 ? 2.0f
                                            : 0.0f),
                 "%s: dtable[%d] is %g", set, i, (double)dtable[i]);
}

static void test_embedding_ids_outside_give_nan_and_no_gradient(void) {
    ops_for_each_set(wild_ids, NULL);
}

/* 1 + 1e8 - 1e8 is 0 in this order and 1 in others. */
static void in_order(const rp_kernel *kernels, const char *set, void *user) {
    enum { C = 300, N = 3 * 450 }; /* more than a block of a device sorts at once */
    static float dy[N * C], dtable[2 * C];
    static int32_t ids[N];
    const rp_tensor_info in[] = {OPS_I32(N), OPS_F32(N, C)};
    rp_tensor_info out = OPS_F32(2, C);
    const rp_op_call call = {in, 2, &out, 1, NULL};
    (void)user;
    for (int r = 0; r < N; r++) {
        ids[r] = 1;
        for (int c = 0; c < C; c++)
            dy[r * C + c] = r % 3 == 0 ? 1.0f : r % 3 == 1 ? 1e8f : -1e8f;
    }
    for (int threads = 1; threads <= 7; threads += 2) {
        RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_EMBEDDING_BACKWARD, &call,
                                  (const void *[]){ids, dy}, (void *[]){dtable}, &step, threads));
        for (int c = 0; c < C; c++)
            RP_CHECK(dtable[C + c] == 0.0f && dtable[c] == 0.0f, "%s, %d threads: %g", set, threads,
                     (double)dtable[C + c]);
    }
}

static void test_embedding_equal_ids_add_in_order_of_position(void) {
    ops_for_each_set(in_order, NULL);
}

/* Rows that no id names are not even written: NaN with a payload of its own stays. */
static void tied(const rp_kernel *kernels, const char *set, void *user) {
    enum { V = 6, C = 5, N = 4 };
    static const int32_t ids[N] = {4, 1, 4, 4};
    float dy[N * C], dtable[V * C];
    uint32_t before[V * C];
    const rp_tensor_info in[] = {OPS_I32(N), OPS_F32(N, C)};
    rp_tensor_info out = OPS_F32(V, C);
    (void)user;
    for (int i = 0; i < N * C; i++)
        dy[i] = (float)i;
    for (int i = 0; i < V * C; i++)
        before[i] = i / C == 4 || i / C == 1 ? 0x40000000 : UINT32_C(0xffabc000) + (uint32_t)i;
    memcpy(dtable, before, sizeof dtable);
    const rp_launch launch = {.call = {in, 2, &out, 1, NULL},
                              .in = (const void *[]){ids, dy},
                              .out = (void *[]){dtable},
                              .accumulate = (const void *[]){dtable},
                              .step = &step,
                              .threads = 2};
    RP_CHECK_OK(NULL, ops_call(kernels, RP_OP_EMBEDDING_BACKWARD, &launch));
    for (int i = 0; i < V * C; i++) {
        const int c = i % C;
        if (i / C == 1)
            RP_CHECK(dtable[i] == 2.0f + dy[C + c], "%s: row 1", set);
        else if (i / C == 4)
            RP_CHECK(dtable[i] == 2.0f + dy[c] + dy[2 * C + c] + dy[3 * C + c], "%s: row 4", set);
        else
            RP_CHECK(memcmp(&dtable[i], &before[i], 4) == 0, "%s: element %d changed", set, i);
    }
}

static void test_embedding_accumulates_on_touched_rows_only(void) {
    ops_for_each_set(tied, NULL);
}

/* ---- layernorm ------------------------------------------------------------------------------- */

static void test_layernorm(void) {
    static const int64_t shapes[][2] = {{1, 1},   {3, 1},  {1, 3},     {5, 17},   {4, 63},
                                        {17, 65}, {65, 3}, {100, 257}, {700, 64}, {0, 5}};
    for (size_t i = 0; i < 2 * COUNT(shapes); i++) {
        const int64_t rows = shapes[i / 2][0], width = shapes[i / 2][1];
        char name[64];
        ops_case c = {.name = name,
                      .op = RP_OP_LAYERNORM,
                      .reference = reference_layernorm,
                      .params = {.layernorm = {1e-3f}},
                      .in_count = 3,
                      .in = {OPS_F32(rows, width), OPS_F32(width), OPS_F32(width)},
                      .tolerance = 2e-6,
                      .gradient_tolerance = 3e-5};
        snprintf(name, sizeof name, "layernorm [%d, %d]%s", (int)rows, (int)width,
                 i % 2 ? " without bias" : "");
        if (i % 2)
            c.in[2] = (rp_tensor_info)OPS_ABSENT;
        ops_case_run(&c);
    }
}

static void test_layernorm_of_a_vector_and_of_many_dimensions(void) {
    static const ops_case cases[] = {
        {.name = "layernorm [17]",
         .op = RP_OP_LAYERNORM,
         .reference = reference_layernorm,
         .params = {.layernorm = {1e-5f}},
         .in_count = 3,
         .in = {OPS_F32(17), OPS_F32(17), OPS_F32(17)},
         .tolerance = 2e-6,
         .gradient_tolerance = 3e-5},
        {.name = "layernorm [2, 1, 3, 33]",
         .op = RP_OP_LAYERNORM,
         .reference = reference_layernorm,
         .params = {.layernorm = {1e-5f}},
         .in_count = 3,
         .in = {OPS_F32(2, 1, 3, 33), OPS_F32(33), OPS_F32(33)},
         .tolerance = 2e-6,
         .gradient_tolerance = 3e-5},
    };
    ops_cases_run(cases, COUNT(cases));
}

/* The two-pass variance: a mean 10,000 times the spread costs no digits of it. */
static void offset_rows(const rp_kernel *kernels, const char *set, void *user) {
    enum { C = 768 };
    static float x[C], y[C], weight[C], stats[2];
    const rp_tensor_info in[] = {OPS_F32(1, C), OPS_F32(C), OPS_ABSENT};
    rp_tensor_info out[] = {OPS_F32(1, C), OPS_F32(1, 2)};
    const rp_op_params params = {.layernorm = {0.0f}};
    const rp_op_call call = {in, 3, out, 2, &params};
    (void)user;
    for (int i = 0; i < C; i++) {
        x[i] = i % 2 ? 10001.0f : 9999.0f;
        weight[i] = 1.0f;
    }
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_LAYERNORM, &call, (const void *[]){x, weight, NULL},
                              (void *[]){y, stats}, &step, 1));
    RP_CHECK_NEAR((double)stats[0], 10000.0, 1e-6);
    RP_CHECK_NEAR((double)stats[1], 1.0, 1e-5);
    for (int i = 0; i < C; i++)
        RP_CHECK(fabsf(y[i] - (i % 2 ? 1.0f : -1.0f)) < 1e-2f, "%s: y[%d] is %g", set, i,
                 (double)y[i]);
}

static void test_layernorm_far_from_zero(void) {
    ops_for_each_set(offset_rows, NULL);
}

/* 1024 rows that each give 1 to the gradients: 1024, exactly, where a sum in bf16 stops at 256. Of
 * layernorm's weight and bias, a linear's weight and bias, a row that all ids name, and columns. */
enum { ONES = 1024, ONES_WIDTH = 2 };

static void check_ones(const rp_kernel *kernels, const char *set, rp_op op, const rp_op_call *call,
                       const void *const *in) {
    uint16_t sums[2][ONES_WIDTH * ONES_WIDTH] = {{0}};
    void *out[3];
    for (size_t k = 0; k < call->out_count; k++)
        out[k] = call->out[k].dtype != RP_NO_DTYPE ? sums[k % 2] : NULL;
    RP_CHECK_OK(NULL, ops_run(kernels, op, call, in, out, &step, 3));
    for (size_t k = 0; k < call->out_count; k++)
        for (int64_t i = 0; i < ops_count(&call->out[k]); i++)
            RP_CHECK(ops_element(&call->out[k], out[k], i) == 1024.0, "%s, %s: output %zu is %g",
                     set, rp_op_get(op)->name, k, ops_element(&call->out[k], out[k], i));
}

static void count_rows(const rp_kernel *kernels, const char *set, void *user) {
    static uint16_t ones[ONES * ONES_WIDTH], threes[ONES * ONES_WIDTH];
    static float stats[2 * ONES];
    static const int32_t ids[ONES];
    const rp_tensor_info rows = OPS_BF16(ONES, ONES_WIDTH), vector = OPS_BF16(ONES_WIDTH);
    const rp_op_params in_out = {.linear = {RP_IN_OUT}};
    (void)user;
    for (int i = 0; i < ONES * ONES_WIDTH; i++) {
        ops_set(&rows, threes, i, 3.0);
        ops_set(&rows, ones, i, 1.0);
        stats[i] = i % 2 ? 1.0f : 2.0f;
    }
    const rp_tensor_info norm[] = {rows, OPS_F32(ONES, 2), OPS_ABSENT, rows}, two[] = {rows, rows};
    const rp_tensor_info embedding[] = {OPS_I32(ONES), rows};
    rp_tensor_info norm_out[] = {OPS_ABSENT, vector, vector}, table = OPS_BF16(1, ONES_WIDTH);
    rp_tensor_info linear_out[] = {OPS_BF16(ONES_WIDTH, ONES_WIDTH), vector}, sum = vector;
    check_ones(kernels, set, RP_OP_LAYERNORM_BACKWARD, &(rp_op_call){norm, 4, norm_out, 3, NULL},
               (const void *[]){threes, stats, NULL, ones});
    check_ones(kernels, set, RP_OP_LINEAR_BACKWARD_WEIGHT,
               &(rp_op_call){two, 2, linear_out, 2, &in_out}, (const void *[]){ones, ones});
    check_ones(kernels, set, RP_OP_EMBEDDING_BACKWARD, &(rp_op_call){embedding, 2, &table, 1, NULL},
               (const void *[]){ids, ones});
    check_ones(kernels, set, RP_OP_SUM_LEADING, &(rp_op_call){two, 1, &sum, 1, NULL},
               (const void *[]){ones});
}

static void test_DT_03_1024_rows_of_one_sum_to_1024(void) {
    ops_for_each_set(count_rows, NULL);
}

/* ---- softmax --------------------------------------------------------------------------------- */

static void test_softmax(void) {
#define ROW(name_, is_causal, ...)                                                                 \
    {                                                                                              \
        .name = name_, .op = RP_OP_SOFTMAX, .reference = reference_softmax,                        \
        .params = {.softmax = {is_causal}}, .in_count = 1, .in = {OPS_F32(__VA_ARGS__)},           \
        .tolerance = 5e-7, .gradient_tolerance = 2e-6                                              \
    }
    static const ops_case cases[] = {
        ROW("softmax [1]", false, 1),
        ROW("softmax [3]", false, 3),
        ROW("softmax [5, 17]", false, 5, 17),
        ROW("softmax [2, 3, 63]", false, 2, 3, 63),
        ROW("softmax [7, 65]", false, 7, 65),
        ROW("softmax [40, 1001]", false, 40, 1001),
        ROW("softmax [3, 0]", false, 3, 0),
        ROW("softmax [0, 3]", false, 0, 3),
        ROW("softmax causal [1, 1]", true, 1, 1),
        ROW("softmax causal [3, 3]", true, 3, 3),
        ROW("softmax causal [2, 2, 17, 17]", true, 2, 2, 17, 17),
        ROW("softmax causal, more columns", true, 2, 3, 65),
        ROW("softmax causal, rows that see nothing", true, 2, 9, 4),
        ROW("softmax causal [3, 63, 63]", true, 3, 63, 63),
        ROW("softmax causal [5, 65, 65]", true, 5, 65, 65),
        ROW("softmax causal [2, 0, 3]", true, 2, 0, 3),
    };
#undef ROW
    ops_cases_run(cases, COUNT(cases));
}

/* What is masked may hold anything; what is not gives NaN to its row only. */
static void masked(const rp_kernel *kernels, const char *set, void *user) {
    enum { T = 4, N = T * T };
    const float inf = INFINITY;
    const float x[N] = {1, NAN, -inf, inf,  -inf, -inf, NAN, NAN, //
                        0, 0,   0,    -inf, 1,    NAN,  0,   0};
    const float dy[N] = {1, NAN, NAN, inf, 1, 1, NAN, NAN, 1, 2, 3, NAN, 1, 1, 1, 1};
    const rp_tensor_info in[] = {OPS_F32(T, T), OPS_F32(T, T)};
    rp_tensor_info out = OPS_F32(T, T);
    const rp_op_params params = {.softmax = {true}};
    const rp_op_call forward = {in, 1, &out, 1, &params}, backward = {in, 2, &out, 1, &params};
    const float third = 1.0f / 3.0f;
    const float want_y[N] = {1, 0, 0, 0, 0, 0, 0, 0, third, third, third, 0, NAN, NAN, NAN, NAN};
    const float want_dx[N] = {0, 0, 0, 0, 0, 0, 0, 0, -third, 0, third, 0, NAN, NAN, NAN, NAN};
    float y[N], dx[N];
    (void)user;
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_SOFTMAX, &forward, (const void *[]){x}, (void *[]){y},
                              &step, 1));
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_SOFTMAX_BACKWARD, &backward, (const void *[]){y, dy},
                              (void *[]){dx}, &step, 1));
    for (int i = 0; i < N; i++) {
        RP_CHECK(isnan(want_y[i]) ? isnan(y[i]) : fabsf(y[i] - want_y[i]) < 1e-6f,
                 "%s: y[%d] is %g", set, i, (double)y[i]);
        RP_CHECK(isnan(want_dx[i]) ? isnan(dx[i]) : fabsf(dx[i] - want_dx[i]) < 1e-6f,
                 "%s: dx[%d] is %g", set, i, (double)dx[i]);
    }
}

static void test_NA_01_softmax_rows_that_see_nothing_are_zero(void) {
    ops_for_each_set(masked, NULL);
}

/* Shifts of thousands neither overflow nor lose what is visible. */
static void shifted(const rp_kernel *kernels, const char *set, void *user) {
    const float x[6] = {-5000, -5001, -5002, 88000, 88001, 88002};
    const rp_tensor_info in = OPS_F32(2, 3);
    rp_tensor_info out = OPS_F32(2, 3);
    const rp_op_params params = {.softmax = {false}};
    const rp_op_call call = {&in, 1, &out, 1, &params};
    const double want[3] = {0.66524096, 0.24472847, 0.09003057};
    float y[6];
    (void)user;
    RP_CHECK_OK(
        NULL, ops_run(kernels, RP_OP_SOFTMAX, &call, (const void *[]){x}, (void *[]){y}, &step, 1));
    for (int i = 0; i < 3; i++)
        RP_CHECK(fabs((double)y[i] - want[i]) < 1e-7 && fabs((double)y[5 - i] - want[i]) < 1e-7,
                 "%s: column %d: %g and %g", set, i, (double)y[i], (double)y[5 - i]);
}

static void test_softmax_of_shifted_rows(void) {
    ops_for_each_set(shifted, NULL);
}

/* ---- cross entropy --------------------------------------------------------------------------- */

/* Targets include -1, V and the ignored index 1. */
static void test_cross_entropy(void) {
#define ROW(name_, reduction_, width, logits, targets)                                             \
    {                                                                                              \
        .name = name_, .op = RP_OP_CROSS_ENTROPY, .reference = reference_cross_entropy,            \
        .params = {.cross_entropy = {1, reduction_}}, .in_count = 2, .in = {logits, targets},      \
        .tolerance = 1e-6, .gradient_tolerance = 2e-6, .id_low = -1, .id_high = (width) + 1        \
    }
    static const ops_case cases[] = {
        ROW("ce [1, 1]", RP_REDUCE_MEAN, 1, OPS_F32(1, 1), OPS_I32(1)),
        ROW("ce [4]", RP_REDUCE_MEAN, 4, OPS_F32(4), OPS_I32_SCALAR),
        ROW("ce [5, 3]", RP_REDUCE_MEAN, 3, OPS_F32(5, 3), OPS_I32(5)),
        ROW("ce [3, 17]", RP_REDUCE_SUM, 17, OPS_F32(3, 17), OPS_I32(3)),
        ROW("ce [2, 3, 63]", RP_REDUCE_MEAN, 63, OPS_F32(2, 3, 63), OPS_I32(2, 3)),
        ROW("ce [9, 65]", RP_REDUCE_SUM, 65, OPS_F32(9, 65), OPS_I32(9)),
        ROW("ce [33, 1000]", RP_REDUCE_MEAN, 1000, OPS_F32(33, 1000), OPS_I32(33)),
        ROW("ce [2, 5000]", RP_REDUCE_MEAN, 5000, OPS_F32(2, 5000), OPS_I32(2)),
        ROW("ce [0, 7]", RP_REDUCE_MEAN, 7, OPS_F32(0, 7), OPS_I32(0)),
        ROW("ce [0, 7] sum", RP_REDUCE_SUM, 7, OPS_F32(0, 7), OPS_I32(0)),
    };
#undef ROW
    ops_cases_run(cases, COUNT(cases));
}

typedef struct entropy {
    float loss, lse[4], dx[8];
} entropy;

/* 2 columns, `rows` rows. */
static entropy run_entropy(const rp_kernel *kernels, const float *x, const int32_t *targets,
                           int rows, rp_reduction reduction, float dloss) {
    const rp_tensor_info in[] = {OPS_F32(rows, 2), OPS_I32(rows), OPS_F32(rows), OPS_F32_SCALAR};
    rp_tensor_info out[] = {OPS_F32_SCALAR, OPS_F32(rows)}, dx_info = OPS_F32(rows, 2);
    const rp_op_params params = {.cross_entropy = {-100, reduction}};
    const rp_op_call forward = {in, 2, out, 2, &params}, backward = {in, 4, &dx_info, 1, &params};
    entropy e;
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_CROSS_ENTROPY, &forward, (const void *[]){x, targets},
                              (void *[]){&e.loss, e.lse}, &step, 2));
    RP_CHECK_OK(NULL,
                ops_run(kernels, RP_OP_CROSS_ENTROPY_BACKWARD, &backward,
                        (const void *[]){x, targets, e.lse, &dloss}, (void *[]){e.dx}, &step, 2));
    return e;
}

static void ignored_rows(const rp_kernel *kernels, const char *set, void *user) {
    const float x[8] = {1, 1, NAN, INFINITY, 2, 2, NAN, 0};
    (void)user;
    const entropy some =
        run_entropy(kernels, x, (const int32_t[]){0, -100, 1, 2}, 4, RP_REDUCE_MEAN, 1.0f);
    RP_CHECK_NEAR((double)some.loss, 0.69314718, 1e-6);
    const float want[8] = {-0.25f, 0.25f, 0, 0, 0.25f, -0.25f, 0, 0};
    for (int i = 0; i < 8; i++)
        RP_CHECK(fabsf(some.dx[i] - want[i]) < 1e-7f, "%s: dx[%d] is %g", set, i,
                 (double)some.dx[i]);
    const entropy none =
        run_entropy(kernels, x, (const int32_t[]){-100, -100, -1, 7}, 4, RP_REDUCE_MEAN, 1.0f);
    RP_CHECK(none.loss == 0.0f, "%s: the loss of no rows is %g", set, (double)none.loss);
    for (int i = 0; i < 8; i++)
        RP_CHECK(none.dx[i] == 0.0f, "%s: dx[%d] is %g", set, i, (double)none.dx[i]);
    const entropy nan =
        run_entropy(kernels, x, (const int32_t[]){0, 0, 1, -100}, 4, RP_REDUCE_SUM, 1.0f);
    RP_CHECK(isnan(nan.loss), "%s: NaN in a row that counts gives %g", set, (double)nan.loss);
    RP_CHECK(isnan(nan.dx[2]) && !isnan(nan.dx[0]), "%s: NaN of one row in another", set);
}

static void test_cross_entropy_ignores_rows_whatever_they_hold(void) {
    ops_for_each_set(ignored_rows, NULL);
}

/* L = CE + 0.1 mean(logits^2) of [2, 0, -1] with target 0, backward twice. */
static void two_readers(const rp_kernel *kernels, const char *set, void *user) {
    const float x[3] = {2, 0, -1}, one = 1.0f;
    const int32_t target = 0;
    const double want[3] = {-0.022872, 0.114195, -0.024657};
    const rp_tensor_info in[] = {OPS_F32(3), OPS_I32_SCALAR, OPS_F32(1), OPS_F32_SCALAR};
    rp_tensor_info out[] = {OPS_F32_SCALAR, OPS_F32(1)}, row = OPS_F32(3);
    const rp_op_params ce = {.cross_entropy = {-100, RP_REDUCE_MEAN}};
    const rp_op_params mean = {.sum = {0.1f / 3.0f}};
    float loss, lse, square[3], other, dx[3];
    (void)user;
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_CROSS_ENTROPY, &(rp_op_call){in, 2, out, 2, &ce},
                              (const void *[]){x, &target}, (void *[]){&loss, &lse}, &step, 1));
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_MUL,
                              &(rp_op_call){(rp_tensor_info[]){row, row}, 2, &row, 1, NULL},
                              (const void *[]){x, x}, (void *[]){square}, &step, 1));
    RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_SUM, &(rp_op_call){&row, 1, out, 1, &mean},
                              (const void *[]){square}, (void *[]){&other}, &step, 1));
    RP_CHECK_NEAR((double)loss + (double)other, 0.336513, 2e-6);
    for (int twice = 0; twice < 2; twice++) {
        RP_CHECK_OK(
            NULL, ops_run(kernels, RP_OP_CROSS_ENTROPY_BACKWARD, &(rp_op_call){in, 4, &row, 1, &ce},
                          (const void *[]){x, &target, &lse, &one}, (void *[]){dx}, &step, 1));
        for (int i = 0; i < 3; i++)
            RP_CHECK(fabs((double)dx[i] + 0.2 / 3.0 * (double)x[i] - want[i]) < 1e-6,
                     "%s: dlogits[%d]", set, i);
        RP_CHECK(x[0] == 2.0f && x[1] == 0.0f && x[2] == -1.0f, "%s: the logits changed", set);
    }
}

static void test_IP_05_cross_entropy_leaves_the_logits_to_other_readers(void) {
    ops_for_each_set(two_readers, NULL);
}

static const rp_test tests[] = {
    RP_TEST(test_embedding),
    RP_TEST(test_embedding_ids_outside_give_nan_and_no_gradient),
    RP_TEST(test_embedding_equal_ids_add_in_order_of_position),
    RP_TEST(test_embedding_accumulates_on_touched_rows_only),
    RP_TEST(test_layernorm),
    RP_TEST(test_layernorm_of_a_vector_and_of_many_dimensions),
    RP_TEST(test_layernorm_far_from_zero),
    RP_TEST(test_DT_03_1024_rows_of_one_sum_to_1024),
    RP_TEST(test_softmax),
    RP_TEST(test_NA_01_softmax_rows_that_see_nothing_are_zero),
    RP_TEST(test_softmax_of_shifted_rows),
    RP_TEST(test_cross_entropy),
    RP_TEST(test_cross_entropy_ignores_rows_whatever_they_hold),
    RP_TEST(test_IP_05_cross_entropy_leaves_the_logits_to_other_readers),
};
RP_SUITE(rows, tests)
