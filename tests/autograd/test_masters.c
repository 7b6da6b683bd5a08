/* Master copies: what an optimizer updates where parameters are bf16; f32 numbers in and out. */
#include <math.h>
#include <string.h>

#include "autograd/program.h"
#include "bench.h"

static rp_tensor w, loss;

/* To nearest, ties to even, by arithmetic: 8 significant bits. No NaN, no subnormal. */
static float rounded(float value) {
    int exponent = 0;
    const double fraction = frexp((double)value, &exponent);
    return isfinite(value) ? (float)ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8) : value;
}

static float widened(uint16_t half) {
    const uint32_t bits = (uint32_t)half << 16;
    float value = 0.0f;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void open_bf16(bench *b) {
    bench_open(b);
    b->dtype = RP_BF16;
}

static rp_program_options options_with(rp_optimizer_kind optimizer) {
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.optimizer = optimizer;
    return options;
}

/* The exact f32 values of a leaf, and those that kernels read. */
static void read_both(bench *b, rp_tensor leaf, float *exact, float *stored, size_t count) {
    uint16_t halves[64];
    RP_REQUIRE(count <= 64, "%zu elements", count);
    RP_REQUIRE_OK(b->context, rp_executor_read_f32(b->executor, leaf, exact, count));
    RP_REQUIRE_OK(b->context, rp_executor_read(b->executor, leaf, halves, 2 * count));
    for (size_t i = 0; i < count; i++)
        stored[i] = widened(halves[i]);
}

enum { FEW = 6 };
static const float weights[FEW] = {1.001f, -2.5f, 1.00390625f, 3.0517578e-5f, 0.0f, 1e30f};

/* L = sum(w), of which bf16 is only the storage. */
static void open_sum(bench *b, rp_optimizer_kind optimizer) {
    const rp_program_options options = options_with(optimizer);
    open_bf16(b);
    w = bench_parameter(b, "w", RP_SHAPE(FEW), weights);
    loss = rp_sum(b->tape, rp_cast(b->tape, w, RP_F32));
    bench_program(b, loss, &options);
    bench_make(b, NULL, RP_UNLIMITED);
}

static void test_masters_begin_as_they_were_written(void) {
    static const rp_optimizer_kind optimizers[] = {RP_OPTIMIZER_ADAMW, RP_OPTIMIZER_SGD,
                                                   RP_OPTIMIZER_NONE};
    for (int i = 0; i < 3; i++) {
        bench b;
        float exact[FEW], stored[FEW];
        const uint16_t halves[FEW] = {0x3F80, 0xBF81, 0x4000, 0, 0x8000, 0x7F80};
        open_sum(&b, optimizers[i]);
        read_both(&b, w, exact, stored, FEW);
        for (int e = 0; e < FEW; e++) {
            RP_CHECK(stored[e] == rounded(weights[e]), "stored %g", (double)stored[e]);
            RP_CHECK(exact[e] == (i < 2 ? weights[e] : stored[e]), "exact %g", (double)exact[e]);
        }
        RP_CHECK_OK(b.context, rp_executor_write(b.executor, w, halves, sizeof halves));
        read_both(&b, w, exact, stored, FEW);
        for (int e = 0; e < FEW; e++)
            RP_CHECK(exact[e] == stored[e] && stored[e] == widened(halves[e]), "%g, stored %g",
                     (double)exact[e], (double)stored[e]);
        bench_close(&b);
    }
}

/* The numbers of an f32 parameter, and their roundings. */
static void test_normal_numbers_reach_masters(void) {
    enum { COUNT = 50 };
    bench b, plain;
    float exact[COUNT], stored[COUNT], wanted[COUNT];
    const rp_program_options options = options_with(RP_OPTIMIZER_ADAMW);
    bench_open(&plain);
    open_bf16(&b);
    bench *const both[] = {&plain, &b};
    for (int i = 0; i < 2; i++) {
        bench *c = both[i];
        w = bench_parameter(c, "w", RP_SHAPE(COUNT), NULL);
        loss = rp_sum(c->tape, rp_cast(c->tape, w, RP_F32));
        bench_program(c, loss, &options);
        bench_make(c, NULL, RP_UNLIMITED);
        RP_CHECK_OK(c->context, rp_executor_write_normal(c->executor, w, 0.02, 5, 6));
    }
    RP_CHECK_OK(plain.context, rp_executor_read_f32(plain.executor, w, wanted, COUNT));
    read_both(&b, w, exact, stored, COUNT);
    RP_CHECK(memcmp(exact, wanted, sizeof wanted) == 0, "a master is not what f32 gets");
    for (int i = 0; i < COUNT; i++)
        RP_CHECK(stored[i] == rounded(wanted[i]), "%g is stored as %g", (double)wanted[i],
                 (double)stored[i]);
    bench_close(&b);
    bench_close(&plain);
}

/* Most updates are too small for a bf16 parameter: 1 - 0.001 is 1 there. */
static void test_updates_are_made_to_the_master(void) {
    bench b;
    float exact[FEW], stored[FEW];
    open_sum(&b, RP_OPTIMIZER_SGD);
    for (int step = 0; step < 100; step++) {
        bench_run(&b);
        RP_REQUIRE_OK(b.context, rp_sgd_step(b.executor, 0.001f, 0.0f, 0.0f));
    }
    read_both(&b, w, exact, stored, FEW);
    for (int i = 0; i < FEW; i++) {
        const double wanted = (double)weights[i] - 0.1;
        RP_CHECK(fabs((double)exact[i] - wanted) <= 1e-5 * fmax(1.0, fabs(wanted)), "%g, not %g",
                 (double)exact[i], wanted);
        RP_CHECK(stored[i] == rounded(exact[i]), "%g is stored as %g", (double)exact[i],
                 (double)stored[i]);
    }
    bench_close(&b);
}

/* A gradient of 1 in either type: the masters go where f32 parameters go. */
static void test_adamw_moves_masters_as_f32_parameters(void) {
    bench b, plain;
    float exact[FEW], stored[FEW], wanted[FEW];
    rp_adamw_options adamw = RP_ADAMW_OPTIONS;
    adamw.max_grad_norm = 1.0f;
    open_sum(&b, RP_OPTIMIZER_ADAMW);
    const rp_tensor in_bf16 = w;
    const rp_program_options options = options_with(RP_OPTIMIZER_ADAMW);
    bench_open(&plain);
    w = bench_parameter(&plain, "w", RP_SHAPE(FEW), weights);
    bench_program(&plain, rp_sum(plain.tape, w), &options);
    bench_make(&plain, NULL, RP_UNLIMITED);
    for (int step = 0; step < 10; step++) {
        bench_run(&b);
        bench_run(&plain);
        RP_REQUIRE_OK(b.context, rp_adamw_step(b.executor, &adamw));
        RP_REQUIRE_OK(plain.context, rp_adamw_step(plain.executor, &adamw));
    }
    RP_CHECK_OK(plain.context, rp_executor_read_f32(plain.executor, w, wanted, FEW));
    read_both(&b, in_bf16, exact, stored, FEW);
    for (int i = 0; i < FEW; i++) {
        RP_CHECK(exact[i] == wanted[i], "%.9g, in f32 %.9g", (double)exact[i], (double)wanted[i]);
        RP_CHECK(stored[i] == rounded(exact[i]), "%g is stored as %g", (double)exact[i],
                 (double)stored[i]);
    }
    bench_close(&b);
    bench_close(&plain);
}

static void test_sgd_without_masters_is_refused(void) {
    bench b;
    open_sum(&b, RP_OPTIMIZER_NONE);
    bench_run(&b);
    RP_CHECK_STATUS(b.context, rp_sgd_step(b.executor, 0.1f, 0.0f, 0.0f), RP_BAD_STATE);
    RP_CHECK_MESSAGE(b.context, "w is bf16");
    RP_CHECK_MESSAGE(b.context, "RP_OPTIMIZER_SGD");
    bench_run(&b); /* nothing has changed */
    bench_close(&b);
}

static bool has_value(const rp_program *program, const char *name, int64_t bytes) {
    const rp_graph *graph = rp_program_graph(program);
    for (uint32_t v = 0; v < rp_graph_value_count(graph); v++) {
        rp_value_info info;
        rp_graph_value(graph, v, &info);
        if (strcmp(info.name, name) == 0)
            return info.bytes == bytes && info.kind == RP_PERSISTENT;
    }
    return false;
}

static void test_masters_count_in_the_memory(void) {
    static const struct {
        rp_optimizer_kind optimizer;
        int64_t values; /* of state, an element */
    } rows[] = {{RP_OPTIMIZER_NONE, 0}, {RP_OPTIMIZER_SGD, 1}, {RP_OPTIMIZER_ADAMW, 3}};
    for (int accumulate = 0; accumulate < 2; accumulate++)
        for (int i = 0; i < 3; i++) {
            bench b;
            rp_memory_report memory;
            rp_program_options options = options_with(rows[i].optimizer);
            options.accumulate = accumulate == 1;
            open_bf16(&b);
            w = bench_parameter(&b, "w", RP_SHAPE(32, 32), NULL);
            loss = rp_sum(b.tape, rp_cast(b.tape, w, RP_F32));
            bench_program(&b, loss, &options);
            rp_program_memory(b.program, &memory);
            RP_CHECK_EQUAL(memory.parameters_bytes, 2048);
            RP_CHECK_EQUAL(memory.gradients_bytes, accumulate == 1 ? 4096 : 2048);
            RP_CHECK_EQUAL(memory.optimizer_bytes, 4096 * rows[i].values);
            RP_CHECK_EQUAL(has_value(b.program, "w.master", 4096), i > 0);
            RP_CHECK_EQUAL(has_value(b.program, "w.moment2", 4096), i > 1);
            RP_CHECK_EQUAL(has_value(b.program, "w.grad", 4096), accumulate == 1);
            const rp_tensor_info info = rp_program_gradient_info(b.program, w);
            RP_CHECK_EQUAL(info.dtype, accumulate == 1 ? RP_F32 : RP_BF16);
            RP_CHECK_EQUAL(rp_shape_count(info.shape), 1024);
            RP_CHECK_EQUAL(rp_program_gradient_info(b.program, loss).dtype, RP_NO_DTYPE);
            bench_make(&b, NULL, RP_UNLIMITED);
            bench_run(&b);
            bench_close(&b);
        }
}

/* The executor of another program in the same memory writes what the optimizer updates. */
static void test_shared_memory_has_one_master(void) {
    bench b;
    rp_program *other = NULL;
    rp_plan *plan = NULL;
    rp_executor *executor = NULL;
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_executor_options with = RP_EXECUTOR_OPTIONS;
    float ones[FEW], exact[FEW], stored[FEW];
    for (int i = 0; i < FEW; i++)
        ones[i] = 1.001f;
    open_sum(&b, RP_OPTIMIZER_SGD);
    options.losses = &loss;
    options.loss_count = 1;
    options.forward_only = true;
    RP_REQUIRE_OK(b.context, rp_program_create(b.tape, &options, &other));
    RP_REQUIRE_OK(b.context, rp_plan_create(rp_program_graph(other), NULL, &plan, NULL));
    with.share = b.executor;
    RP_REQUIRE_OK(b.context, rp_executor_create(other, plan, &with, &executor));
    RP_CHECK_OK(b.context, rp_executor_write_f32(executor, w, ones, FEW));
    RP_CHECK_OK(b.context, rp_executor_read_f32(executor, w, exact, FEW));
    RP_CHECK(memcmp(exact, ones, sizeof ones) == 0, "read back as %g", (double)exact[0]);
    read_both(&b, w, exact, stored, FEW);
    RP_CHECK(memcmp(exact, ones, sizeof ones) == 0, "the owner's master is %g", (double)exact[0]);
    bench_run(&b);
    RP_CHECK_OK(b.context, rp_sgd_step(b.executor, 0.001f, 0.0f, 0.0f));
    read_both(&b, w, exact, stored, FEW);
    RP_CHECK(fabsf(exact[0] - 1.0f) < 1e-6f && stored[0] == 1.0f, "updated to %g",
             (double)exact[0]);
    rp_executor_destroy(executor);
    rp_plan_destroy(plan);
    rp_program_destroy(other);
    bench_close(&b);
}

static void test_f32_numbers_are_checked(void) {
    bench b;
    float values[FEW] = {0};
    open_sum(&b, RP_OPTIMIZER_ADAMW);
    rp_context *c = b.context;
    RP_CHECK_STATUS(c, rp_executor_write_f32(b.executor, w, values, FEW - 1), RP_INVALID_ARGUMENT);
    RP_CHECK_MESSAGE(c, "5 values, the tensor has 6");
    RP_CHECK_STATUS(c, rp_executor_read_f32(b.executor, w, values, FEW + 1), RP_INVALID_ARGUMENT);
    RP_CHECK_STATUS(c, rp_executor_write_f32(b.executor, loss, values, 1), RP_INVALID_ARGUMENT);
    RP_CHECK_STATUS(c, rp_executor_read_f32(b.executor, loss, values, 1), RP_BAD_STATE);
    RP_CHECK_STATUS(c, rp_executor_read_gradient_f32(b.executor, w, values, FEW), RP_BAD_STATE);
    bench_run(&b);
    RP_CHECK_OK(c, rp_executor_read_f32(b.executor, loss, values, 1));
    RP_CHECK_OK(c, rp_executor_read_gradient_f32(b.executor, w, values, FEW));
    BENCH_CHECK(values, 1, 1, 1, 1, 1, 1);
    RP_CHECK_STATUS(c, rp_executor_read_gradient_f32(b.executor, loss, values, 1),
                    RP_INVALID_ARGUMENT);
    RP_CHECK_OK(c, rp_executor_forward(b.executor));
    RP_CHECK_STATUS(c, rp_executor_write_f32(b.executor, w, values, FEW), RP_BAD_STATE);
    bench_close(&b);

    bench_open(&b);
    const rp_tensor ids = bench_ids(&b, "ids", RP_SHAPE(2), NULL);
    w = bench_parameter(&b, "w", RP_SHAPE(3, 2), NULL);
    bench_program(&b, rp_sum(b.tape, rp_embedding(b.tape, w, ids)), NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    RP_CHECK_STATUS(b.context, rp_executor_write_f32(b.executor, ids, values, 2), RP_BAD_DTYPE);
    RP_CHECK_STATUS(b.context, rp_executor_read_f32(b.executor, ids, values, 2), RP_BAD_DTYPE);
    RP_CHECK_STATUS(b.context, rp_executor_write_normal(b.executor, ids, 1.0, 0, 0), RP_BAD_DTYPE);
    RP_CHECK_MESSAGE(b.context, "i32 [2]");
    bench_close(&b);
}

static const rp_test tests[] = {
    RP_TEST(test_masters_begin_as_they_were_written),
    RP_TEST(test_normal_numbers_reach_masters),
    RP_TEST(test_updates_are_made_to_the_master),
    RP_TEST(test_adamw_moves_masters_as_f32_parameters),
    RP_TEST(test_sgd_without_masters_is_refused),
    RP_TEST(test_masters_count_in_the_memory),
    RP_TEST(test_shared_memory_has_one_master),
    RP_TEST(test_f32_numbers_are_checked),
};
RP_SUITE(masters, tests)
