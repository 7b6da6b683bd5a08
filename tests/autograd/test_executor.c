/* The executor: states, data in and out, optimizers, shared memory, counters, failures. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/executor.h"
#include "bench.h"
#include "fault.h"
#include "models.h"

static rp_tensor x, w, y, loss;

/* loss = sum((x w)^2), y = x w is an output */
static void open_small(bench *b, const rp_program_options *options) {
    rp_program_options used = RP_PROGRAM_OPTIONS;
    if (options != NULL)
        used = *options;
    bench_open(b);
    x = bench_input(b, "x", RP_SHAPE(2), (const float[]){1, 2});
    w = bench_parameter(b, "w", RP_SHAPE(2), (const float[]){3, -1});
    y = rp_mul(b->tape, x, w);
    loss = rp_sum(b->tape, rp_mul(b->tape, y, y));
    used.outputs = &y;
    used.output_count = 1;
    bench_program(b, loss, &used);
    bench_make(b, NULL, RP_UNLIMITED);
}

/* ---- Initial values -------------------------------------------------------------------------- */

enum { NORMALS = 100003 };

/* A program with one parameter of that many elements, drawn with so many threads. */
static const float *draw_normal(bench *b, int threads, uint64_t seed, uint32_t stream) {
    *b = (bench){.context = rp_test_context(threads)};
    RP_REQUIRE_OK(b->context, rp_tape_create(b->context, &b->tape));
    w = rp_parameter(b->tape, "w", RP_F32, RP_SHAPE(NORMALS));
    const rp_tensor sum = rp_sum(b->tape, w);
    RP_REQUIRE_OK(b->context, rp_program_create(b->tape, RP_LOSS(sum), &b->program));
    RP_REQUIRE_OK(b->context, rp_plan_create(rp_program_graph(b->program), RP_BUDGET(RP_UNLIMITED),
                                             &b->plan, NULL));
    RP_REQUIRE_OK(b->context, rp_executor_create(b->program, b->plan, NULL, &b->executor));
    RP_CHECK_OK(b->context, rp_executor_write_normal(b->executor, w, 0.02, seed, stream));
    return rp_executor_data(b->executor, w);
}

static void test_normal_numbers(void) {
    bench one, three, other;
    const float *drawn = draw_normal(&one, 1, 7, 3);
    RP_CHECK(memcmp(drawn, draw_normal(&three, 3, 7, 3), NORMALS * sizeof *drawn) == 0,
             "the threads change nothing");
    RP_CHECK(memcmp(drawn, draw_normal(&other, 1, 7, 4), NORMALS * sizeof *drawn) != 0,
             "another stream has other numbers");
    double sum = 0.0, squares = 0.0;
    for (int i = 0; i < NORMALS; i++) {
        sum += (double)drawn[i];
        squares += (double)drawn[i] * (double)drawn[i];
    }
    RP_CHECK(fabs(sum / NORMALS) < 0.02 * 5.0 / sqrt(NORMALS), "mean %g", sum / NORMALS);
    RP_CHECK_NEAR(sqrt(squares / NORMALS), 0.02, 0.01);
    RP_CHECK_STATUS(one.context, rp_executor_write_normal(one.executor, w, -1.0, 0, 0),
                    RP_INVALID_ARGUMENT);
    RP_CHECK_STATUS(one.context, rp_executor_write_normal(one.executor, w, NAN, 0, 0),
                    RP_INVALID_ARGUMENT);
    RP_CHECK_STATUS(one.context, rp_executor_write_normal(one.executor, (rp_tensor){2}, 1.0, 0, 0),
                    RP_INVALID_ARGUMENT); /* an op's output */
    rp_context_destroy(one.context);
    rp_context_destroy(three.context);
    rp_context_destroy(other.context);
}

/* One status for a leaf without memory, whatever is done with it. */
static void test_a_leaf_that_nothing_needs_is_named(void) {
    bench b;
    float value[2] = {0};
    bench_open(&b);
    x = bench_input(&b, "x", RP_SHAPE(2), (const float[]){1, 2});
    w = bench_parameter(&b, "w", RP_SHAPE(2), (const float[]){3, -1});
    const rp_tensor idle = rp_input(b.tape, "idle", RP_F32, RP_SHAPE(2));
    bench_program(&b, rp_sum(b.tape, rp_mul(b.tape, x, w)), NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    for (int ran = 0; ran < 2; ran++) {
        RP_CHECK_STATUS(b.context, rp_executor_read(b.executor, idle, value, 8),
                        RP_INVALID_ARGUMENT);
        RP_CHECK_MESSAGE(b.context,
                         "rp_executor_read: nothing that the program computes needs idle");
        RP_CHECK_STATUS(b.context, rp_executor_write(b.executor, idle, value, 8),
                        RP_INVALID_ARGUMENT);
        RP_CHECK_MESSAGE(b.context, "needs idle");
        RP_CHECK_STATUS(b.context, rp_executor_write_normal(b.executor, idle, 1.0, 0, 0),
                        RP_INVALID_ARGUMENT);
        CU_ASSERT_PTR_NULL(rp_executor_data(b.executor, idle));
        RP_CHECK_OK(b.context, rp_executor_run(b.executor));
    }
    bench_close(&b);
}

/* ---- States ---------------------------------------------------------------------------------- */

static void test_values_are_there_when_they_are(void) {
    bench b;
    float value[2];
    open_small(&b, NULL);
    RP_CHECK_STATUS(b.context, rp_executor_read(b.executor, loss, value, 4), RP_BAD_STATE);
    CU_ASSERT_PTR_NULL(rp_executor_data(b.executor, y));
    CU_ASSERT_PTR_NULL(rp_executor_gradient(b.executor, w));
    RP_CHECK_STATUS(b.context, rp_executor_backward(b.executor), RP_BAD_STATE);
    RP_CHECK_OK(b.context, rp_executor_read(b.executor, w, value, 8));
    BENCH_CHECK(value, 3, -1);

    RP_CHECK_OK(b.context, rp_executor_forward(b.executor));
    RP_CHECK_OK(b.context, rp_executor_read(b.executor, loss, value, 4));
    RP_CHECK_EQUAL(value[0], 13);
    BENCH_CHECK(bench_values(&b, y), 3, -2);
    RP_CHECK_STATUS(b.context, rp_executor_read_gradient(b.executor, w, value, 8), RP_BAD_STATE);
    RP_CHECK_OK(b.context, rp_executor_backward(b.executor));
    RP_CHECK_OK(b.context, rp_executor_read_gradient(b.executor, w, value, 8));
    BENCH_CHECK(value, 6, -8);
    RP_CHECK_STATUS(b.context, rp_executor_read(b.executor, rp_tanh(b.tape, x), value, 8),
                    RP_INVALID_ARGUMENT); /* recorded after the program */

    RP_CHECK_OK(b.context, rp_executor_forward(b.executor)); /* a forward abandons another one */
    RP_CHECK_OK(b.context, rp_executor_forward(b.executor));
    RP_CHECK_OK(b.context, rp_executor_backward(b.executor));
    BENCH_CHECK(bench_gradient(&b, w), 6, -8);
    bench_close(&b);
}

static void test_arguments_are_checked(void) {
    bench b;
    float value[4] = {0};
    rp_executor *none = NULL;
    open_small(&b, NULL);
    const struct {
        rp_status status;
        const char *words;
    } cases[] = {
        {rp_executor_write(b.executor, x, value, 12), "12 bytes, the tensor has 8"},
        {rp_executor_write(b.executor, x, NULL, 8), "no data"},
        {rp_executor_write(b.executor, y, value, 8), "no parameter or input"},
        {rp_executor_write(b.executor, RP_NO_TENSOR, value, 8), "tensor 0"},
        {rp_executor_read(b.executor, RP_NO_TENSOR, value, 8), "no tensor 0"},
        {rp_executor_read_gradient(b.executor, x, value, 8), "gets no gradient"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        RP_CHECK_STATUS(b.context, cases[i].status, RP_INVALID_ARGUMENT);
    rp_executor_read_gradient(b.executor, x, value, 8);
    RP_CHECK_MESSAGE(b.context, "gets no gradient");
    rp_executor_write(b.executor, x, value, 12);
    RP_CHECK_MESSAGE(b.context, "12 bytes, the tensor has 8");
    rp_executor_options options = RP_EXECUTOR_OPTIONS;
    options.backend = (rp_backend_kind)9;
    RP_CHECK_STATUS(b.context, rp_executor_create(b.program, b.plan, &options, &none),
                    RP_INVALID_ARGUMENT);
    /* an older caller's options, which end behind their first members: nothing more is read */
    size_t *shorter = calloc(2, sizeof *shorter);
    CU_ASSERT_PTR_NOT_NULL_FATAL(shorter);
    shorter[0] = 2 * sizeof *shorter; /* its struct_size */
    RP_CHECK_STATUS(b.context, rp_executor_create(b.program, b.plan, (const void *)shorter, &none),
                    RP_INVALID_ARGUMENT);
    RP_CHECK_MESSAGE(b.context, "struct_size");
    free(shorter);
    CU_ASSERT_PTR_NULL(none);
    RP_CHECK_STATUS(NULL, rp_executor_create(NULL, b.plan, NULL, &none), RP_INVALID_ARGUMENT);
    RP_CHECK_STATUS(NULL, rp_executor_run(NULL), RP_INVALID_ARGUMENT);
    RP_CHECK_STATUS(NULL, rp_executor_write(NULL, x, value, 8), RP_INVALID_ARGUMENT);
    rp_executor_destroy(NULL);
    bench_close(&b);
}

/* ---- Failing kernels ------------------------------------------------------------------------- */

static rp_status broken(const rp_custom_call *call) {
    return *(const rp_status *)call->user;
}

static void test_a_kernel_that_fails_is_named_and_poisons(void) {
    static const rp_status statuses[] = {RP_DEVICE_ERROR, RP_OUT_OF_MEMORY, RP_VALUE_CHANGED};
    for (int i = 0; i < 3; i++) {
        bench b;
        bench_open(&b);
        x = bench_input(&b, "x", RP_SHAPE(1), (const float[]){1});
        rp_custom_op op = RP_CUSTOM_OP;
        op.name = "broken";
        op.forward = broken;
        op.user = (void *)(uintptr_t)&statuses[i];
        const rp_tensor_info info = {RP_F32, RP_SCALAR};
        RP_REQUIRE_OK(b.context, rp_custom(b.tape, &op, &x, 1, &info, 1, &loss));
        rp_program_options options = RP_PROGRAM_OPTIONS;
        options.forward_only = true;
        bench_program(&b, loss, &options);
        bench_make(&b, NULL, RP_UNLIMITED);
        RP_CHECK_STATUS(b.context, rp_executor_run(b.executor), statuses[i]);
        RP_CHECK_MESSAGE(b.context, "node 0 (broken.0)");
        const float one = 1.0f;
        RP_CHECK_STATUS(b.context, rp_executor_run(b.executor), RP_BAD_STATE);
        RP_CHECK_STATUS(b.context, rp_executor_write(b.executor, x, &one, 4), RP_BAD_STATE);
        RP_CHECK_MESSAGE(b.context, "can only be destroyed");
        bench_close(&b);
    }
}

/* ---- Optimizers ------------------------------------------------------------------------------ */

static void test_sgd_follows_its_formula(void) {
    bench b;
    double norm = 0.0;
    open_small(&b, NULL);
    RP_CHECK_STATUS(b.context, rp_sgd_step(b.executor, 0.1f, 0.0f, 0.0f), RP_BAD_STATE);
    RP_CHECK_STATUS(b.context, rp_gradient_norm(b.executor, &norm), RP_BAD_STATE);
    bench_run(&b); /* the gradient is 6, -8 */
    RP_CHECK_OK(b.context, rp_gradient_norm(b.executor, &norm));
    RP_CHECK_NEAR(norm, 10.0, 1e-12);
    RP_CHECK_OK(b.context, rp_sgd_step(b.executor, 0.1f, 0.5f, 0.0f));
    BENCH_CHECK(bench_values(&b, w), 3 - 0.1f * (6 + 0.5f * 3), -1 - 0.1f * (-8 - 0.5f));
    bench_write(&b);
    bench_run(&b);
    RP_CHECK_OK(b.context, rp_sgd_step(b.executor, 0.1f, 0.0f, 5.0f)); /* scaled by 5 / 10 */
    BENCH_CHECK(bench_values(&b, w), 3 - 0.1f * 3, -1 + 0.1f * 4);
    RP_CHECK_STATUS(b.context, rp_sgd_step(b.executor, 0.1f, 0.0f, -1.0f), RP_INVALID_ARGUMENT);
    RP_CHECK_STATUS(b.context, rp_adamw_step(b.executor, NULL), RP_BAD_STATE);
    RP_CHECK_MESSAGE(b.context, "RP_OPTIMIZER_ADAMW");
    bench_close(&b);
}

/* Three steps of the formula in double; a matrix decays, a vector does not. */
static void check_adamw(bool matrix, float most) {
    bench b;
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.optimizer = RP_OPTIMIZER_ADAMW;
    bench_open(&b);
    const rp_shape shape = matrix ? RP_SHAPE(1, 2) : RP_SHAPE(2);
    x = bench_input(&b, "x", shape, (const float[]){1, 2});
    w = bench_parameter(&b, "w", shape, (const float[]){3, -1});
    y = rp_mul(b.tape, x, w);
    loss = rp_sum(b.tape, rp_mul(b.tape, y, y));
    bench_program(&b, loss, &options);
    bench_make(&b, NULL, RP_UNLIMITED);
    rp_adamw_options adamw = RP_ADAMW_OPTIONS;
    adamw.lr = 0.1f;
    adamw.max_grad_norm = most;
    double p[2] = {3, -1}, m[2] = {0}, v[2] = {0};
    for (int t = 1; t <= 3; t++) {
        RP_REQUIRE_OK(b.context, rp_executor_begin_step(b.executor, (uint64_t)t, 1.0f));
        bench_run(&b);
        RP_CHECK_OK(b.context, rp_adamw_step(b.executor, &adamw));
        const double g[2] = {2 * p[0], 8 * p[1]}, norm = sqrt(g[0] * g[0] + g[1] * g[1]);
        for (int i = 0; i < 2; i++) {
            const double scaled =
                most > 0 && norm > (double)most ? g[i] * (double)most / norm : g[i];
            m[i] = 0.9 * m[i] + 0.1 * scaled;
            v[i] = 0.999 * v[i] + 0.001 * scaled * scaled;
            p[i] -= 0.1 * (matrix ? 0.1 : 0.0) * p[i];
            p[i] -= 0.1 * (m[i] / (1 - pow(0.9, t))) / (sqrt(v[i] / (1 - pow(0.999, t))) + 1e-8);
        }
        for (int i = 0; i < 2; i++)
            RP_CHECK_NEAR((double)bench_values(&b, w)[i], p[i], 2e-6);
    }
    adamw.beta1 = 1.0f;
    RP_CHECK_STATUS(b.context, rp_adamw_step(b.executor, &adamw), RP_INVALID_ARGUMENT);
    bench_close(&b);
}

static void test_adamw_follows_its_formula(void) {
    check_adamw(true, 0.0f);
    check_adamw(false, 0.0f);
    check_adamw(true, 0.5f);
}

/* ---- Shared memory --------------------------------------------------------------------------- */

/* Validation between steps: a forward-only program of the same tape in the same arena. */
static void test_validation_shares_the_arena_of_training(void) {
    bench b;
    bench_open(&b);
    const model m = model_record(&b, (model_options){.layers = 2, .dropout = 0.1f});
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_program *validation = NULL;
    rp_plan *plan = NULL;
    rp_executor *shared = NULL;
    rp_executor_options shared_options = b.options;
    bench_program(&b, m.loss, NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    options.losses = &m.loss;
    options.loss_count = 1;
    options.forward_only = true;
    RP_REQUIRE_OK(b.context, rp_program_create(b.tape, &options, &validation));
    RP_REQUIRE_OK(b.context, rp_plan_create(rp_program_graph(validation), NULL, &plan, NULL));
    shared_options.share = b.executor;
    shared_options.evaluate = true;
    shared_options.trace = NULL;
    RP_REQUIRE_OK(b.context, rp_executor_create(validation, plan, &shared_options, &shared));

    float before = 0.0f, after = 0.0f, loss_of_training = 0.0f;
    RP_CHECK_OK(b.context, rp_executor_run(shared));
    RP_CHECK_OK(b.context, rp_executor_read(shared, m.loss, &before, 4));
    RP_REQUIRE_OK(b.context, rp_executor_begin_step(b.executor, 0, 1.0f));
    RP_CHECK_OK(b.context, rp_executor_forward(b.executor));
    RP_CHECK_STATUS(b.context, rp_executor_run(shared), RP_BAD_STATE); /* would overwrite it */
    RP_CHECK_OK(b.context, rp_executor_backward(b.executor));
    CU_ASSERT_PTR_NULL(rp_executor_data(shared, m.loss));
    RP_CHECK_OK(b.context, rp_executor_read(b.executor, m.loss, &loss_of_training, 4));
    RP_CHECK_OK(b.context, rp_sgd_step(b.executor, 0.5f, 0.0f, 0.0f));
    RP_CHECK_OK(b.context, rp_executor_run(shared));
    RP_CHECK_OK(b.context, rp_executor_read(shared, m.loss, &after, 4));
    RP_CHECK(after < before, "the loss went from %g to %g", (double)before, (double)after);
    RP_CHECK(loss_of_training != before, "dropout did nothing in training");
    RP_CHECK_STATUS(b.context, rp_sgd_step(b.executor, 0.5f, 0.0f, 0.0f), RP_BAD_STATE);
    CU_ASSERT_PTR_NULL(rp_executor_data(b.executor, m.loss));
    rp_executor_stats stats;
    rp_executor_get_stats(shared, &stats);
    RP_CHECK_EQUAL(stats.arena_bytes, 0);
    RP_CHECK(stats.measured_peak_bytes <= b.report.peak_bytes, "it reached %lld of %lld bytes",
             (long long)stats.measured_peak_bytes, (long long)b.report.peak_bytes);
    bench_run(&b); /* and training goes on */
    rp_executor_destroy(shared);
    rp_plan_destroy(plan);
    rp_program_destroy(validation);
    bench_close(&b);
}

/* What training does not have lies behind everything that persists. */
static void test_shared_program_may_have_inputs_of_its_own(void) {
    bench b;
    rp_program *program = NULL;
    rp_plan *plan = NULL;
    rp_executor *shared = NULL;
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_executor_options shared_options = RP_EXECUTOR_OPTIONS;
    bench_open(&b);
    w = bench_parameter(&b, "w", RP_SHAPE(2), (const float[]){3, -1});
    x = bench_input(&b, "x", RP_SHAPE(64, 2), NULL);
    const rp_tensor other = rp_input(b.tape, "other", RP_F32, RP_SHAPE(2));
    loss = rp_sum(b.tape, rp_tanh(b.tape, rp_mul(b.tape, x, w)));
    y = rp_sum(b.tape, rp_mul(b.tape, other, w));
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    options.losses = &y;
    options.loss_count = 1;
    RP_REQUIRE_OK(b.context, rp_program_create(b.tape, &options, &program));
    RP_REQUIRE_OK(b.context, rp_plan_create(rp_program_graph(program), NULL, &plan, NULL));
    shared_options.share = b.executor;
    shared_options.poison = true;
    RP_REQUIRE_OK(b.context, rp_executor_create(program, plan, &shared_options, &shared));
    RP_CHECK_OK(b.context, rp_executor_write(shared, other, (const float[]){5, 7}, 8));
    RP_CHECK_OK(b.context, rp_executor_run(shared));
    float value = 0.0f, gradient[2];
    RP_CHECK_OK(b.context, rp_executor_read(shared, y, &value, 4));
    RP_CHECK_EQUAL(value, 8);
    RP_CHECK_OK(b.context, rp_executor_read_gradient(shared, w, gradient, 8));
    BENCH_CHECK(gradient, 5, 7);
    bench_run(&b);
    BENCH_CHECK(bench_values(&b, loss), 0);
    rp_executor_destroy(shared);
    rp_plan_destroy(plan);
    rp_program_destroy(program);
    bench_close(&b);
}

static void test_what_cannot_share_is_refused(void) {
    bench b, stranger;
    rp_program *program = NULL;
    rp_plan *plan = NULL;
    rp_executor *shared = NULL;
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_executor_options shared_options = RP_EXECUTOR_OPTIONS;
    open_small(&b, NULL);
    rp_executor *small = b.executor;
    const rp_tensor big = rp_input(b.tape, "big", RP_F32, RP_SHAPE(1000));
    const rp_tensor sum = rp_sum(b.tape, big);
    options.outputs = &sum;
    options.output_count = 1;
    options.forward_only = true;
    RP_REQUIRE_OK(b.context, rp_program_create(b.tape, &options, &program));
    RP_REQUIRE_OK(b.context, rp_plan_create(rp_program_graph(program), NULL, &plan, NULL));
    shared_options.share = small;
    RP_CHECK_STATUS(b.context, rp_executor_create(program, plan, &shared_options, &shared),
                    RP_INVALID_ARGUMENT);
    RP_CHECK_MESSAGE(b.context, "of an arena that has");
    rp_plan_destroy(plan);
    rp_program_destroy(program);

    options = (rp_program_options)RP_PROGRAM_OPTIONS;
    options.losses = &loss;
    options.loss_count = 1;
    options.accumulate = true;
    RP_REQUIRE_OK(b.context, rp_program_create(b.tape, &options, &program));
    RP_REQUIRE_OK(b.context, rp_plan_create(rp_program_graph(program), NULL, &plan, NULL));
    RP_CHECK_STATUS(b.context, rp_executor_create(program, plan, &shared_options, &shared),
                    RP_INVALID_ARGUMENT);
    RP_CHECK_MESSAGE(b.context, "accumulates");
    rp_plan_destroy(plan);
    rp_program_destroy(program);

    open_small(&stranger, NULL);
    RP_CHECK_STATUS(stranger.context,
                    rp_executor_create(stranger.program, stranger.plan, &shared_options, &shared),
                    RP_INVALID_ARGUMENT);
    bench_close(&stranger);
    bench_close(&b);
}

/* ---- Recordings ------------------------------------------------------------------------------ */

/* What looks at single kernels cannot look at a recording of them. */
static void test_recording_goes_with_no_observer(void) {
    bench b;
    open_small(&b, NULL);
    for (int i = 0; i < 4; i++) {
        rp_executor_options options = RP_EXECUTOR_OPTIONS;
        rp_executor *none = NULL;
        options.record = true;
        options.trace = i == 0 ? b.options.trace : NULL;
        options.trace_user = &b;
        options.time_replays = i == 1;
        options.check_replays = i == 2;
        options.synchronous = i == 3;
        RP_CHECK_STATUS(b.context, rp_executor_create(b.program, b.plan, &options, &none),
                        RP_INVALID_ARGUMENT);
        RP_CHECK_MESSAGE(b.context, "record goes with none");
        CU_ASSERT_PTR_NULL(none);
    }
    bench_close(&b);
}

/* The CPU has nothing to record: its runs are as they were, with nothing to wait for. */
static void test_the_cpu_records_nothing(void) {
    uint64_t hash[2];
    for (int record = 0; record < 2; record++) {
        bench b;
        bench_open(&b);
        const model m = model_record(&b, (model_options){.layers = 2, .dropout = 0.1f});
        bench_program(&b, m.loss, NULL);
        b.options = (rp_executor_options)RP_EXECUTOR_OPTIONS;
        b.options.record = record == 1;
        b.options.synchronous = record == 0;
        bench_make(&b, "uniform:1", RP_UNLIMITED);
        for (uint64_t step = 0; step < 3; step++) {
            RP_REQUIRE_OK(b.context, rp_executor_begin_step(b.executor, step, 1.0f));
            bench_run(&b);
            RP_CHECK_OK(b.context, rp_executor_finish(b.executor));
        }
        hash[record] = bench_hash_gradients(&b);
        bench_close(&b);
    }
    RP_CHECK(hash[0] == hash[1], "recording changes bits");
}

/* ---- Counters -------------------------------------------------------------------------------- */

static void test_PF_03_counters_tell_what_ran(void) {
    bench b;
    rp_executor_stats stats;
    bench_open(&b);
    const model m = model_record(&b, (model_options){.layers = 2});
    bench_program(&b, m.loss, NULL);
    b.options.time_replays = true;
    bench_make(&b, "uniform:1", RP_UNLIMITED);
    rp_executor_get_stats(b.executor, &stats);
    RP_CHECK_EQUAL(stats.runs, 0);
    RP_CHECK_EQUAL(stats.arena_bytes, b.report.peak_bytes);
    RP_CHECK_EQUAL(stats.measured_peak_bytes,
                   rp_graph_persistent_bytes(rp_program_graph(b.program)));
    for (int i = 0; i < 2; i++) {
        bench_run(&b);
        rp_executor_get_stats(b.executor, &stats);
        size_t kernels = 0;
        for (size_t n = 0; n < b.program->code.node_count; n++)
            kernels += b.program->code.nodes[n].op != RP_OP_VIEW;
        RP_CHECK_EQUAL(stats.replays, bench_replays(&b) / (uint32_t)(i + 1));
        RP_CHECK_EQUAL(stats.runs, kernels + stats.replays);
        RP_CHECK(stats.replay_ns > 0, "replays took %lld ns", (long long)stats.replay_ns);
        RP_CHECK(stats.outside_bytes >= 0, "%lld bytes outside", (long long)stats.outside_bytes);
    }
    bench_close(&b);
}

/* The measured peak is that of the addresses that kernels got, found here by looking at each. */
static void test_measured_peak_is_that_of_the_addresses(void) {
    bench b;
    bench_open(&b);
    const model m = model_record(&b, (model_options){.layers = 2, .dropout = 0.1f});
    bench_program(&b, m.loss, NULL);
    bench_make(&b, NULL, bench_minimum(&b));
    bench_run(&b);
    const rp_executor *e = b.executor;
    const rp_code *code = &b.program->code;
    int64_t highest = 0;
    for (size_t i = 0; i < e->bound_count; i++) {
        const rp_bound *bound = &e->bound[i];
        if (bound->node == RP_NONE)
            continue;
        const rp_code_node *node = &code->nodes[bound->node];
        for (size_t s = 0; s < rp_code_slots(node); s++) {
            const uint32_t value = rp_code_inputs(code, node)[s];
            const char *place = e->places[bound->slots + s];
            RP_CHECK_EQUAL(place == NULL, value == RP_NONE);
            if (place == NULL)
                continue;
            const int64_t bytes = ((int64_t)rp_executor_bytes(e, value) + 63) / 64 * 64;
            const int64_t end = place - e->arena + bytes;
            highest = end > highest ? end : highest;
        }
    }
    rp_executor_stats stats;
    rp_executor_get_stats(e, &stats);
    RP_CHECK(highest <= stats.measured_peak_bytes && highest <= stats.arena_bytes,
             "a kernel reaches %lld", (long long)highest);
    RP_CHECK_EQUAL(stats.measured_peak_bytes, b.report.peak_bytes);
    bench_close(&b);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static rp_status train_with(rp_context *context, void *user) {
    const rp_tensor_info info = {RP_F32, RP_SHAPE(4, 4)};
    float data[16] = {1, 2, 3};
    rp_tape *tape = NULL;
    rp_program *program = NULL;
    rp_plan *plan = NULL;
    rp_executor *executor = NULL;
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_plan_options plan_options = RP_PLAN_OPTIONS;
    rp_executor_options executor_options = RP_EXECUTOR_OPTIONS;
    rp_status status = rp_tape_create(context, &tape);
    if (status != RP_OK)
        return status;
    rp_tensor h = rp_input(tape, "x", RP_F32, info.shape);
    const rp_tensor in = h, weight = rp_parameter(tape, "w", RP_F32, info.shape);
    for (int i = 0; i < 2; i++) { /* too few nodes to be annealed, which is most of the time */
        rp_block(tape, "layer.%d", i);
        h = rp_tanh(tape, rp_matmul(tape, h, weight, false, false));
    }
    const rp_tensor sum = rp_sum(tape, h);
    options.losses = &sum;
    options.loss_count = 1;
    options.optimizer = RP_OPTIMIZER_ADAMW;
    plan_options.strategy = user;
    executor_options.poison = executor_options.check_replays = true;
    status = rp_program_create(tape, &options, &program);
    if (status == RP_OK)
        status = rp_plan_create(rp_program_graph(program), &plan_options, &plan, NULL);
    if (status == RP_OK)
        status = rp_executor_create(program, plan, &executor_options, &executor);
    if (status == RP_OK)
        status = rp_executor_write(executor, in, data, sizeof data);
    if (status == RP_OK)
        status = rp_executor_write(executor, weight, data, sizeof data);
    if (status == RP_OK)
        status = rp_executor_run(executor);
    if (status == RP_OK)
        status = rp_adamw_step(executor, NULL);
    return status; /* the context destroys what was made */
}

static void test_training_without_memory_is_a_status(void) {
    static char strategies[][16] = {"keep-all", "uniform:1", "block:2",
                                    "sqrt",     "selective", "auto"};
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++)
        rp_fault_sweep(strategies[i], train_with, strategies[i]);
}

static const rp_test tests[] = {
    RP_TEST(test_normal_numbers),
    RP_TEST(test_a_leaf_that_nothing_needs_is_named),
    RP_TEST(test_values_are_there_when_they_are),
    RP_TEST(test_arguments_are_checked),
    RP_TEST(test_a_kernel_that_fails_is_named_and_poisons),
    RP_TEST(test_sgd_follows_its_formula),
    RP_TEST(test_adamw_follows_its_formula),
    RP_TEST(test_validation_shares_the_arena_of_training),
    RP_TEST(test_shared_program_may_have_inputs_of_its_own),
    RP_TEST(test_what_cannot_share_is_refused),
    RP_TEST(test_recording_goes_with_no_observer),
    RP_TEST(test_the_cpu_records_nothing),
    RP_TEST(test_PF_03_counters_tell_what_ran),
    RP_TEST(test_measured_peak_is_that_of_the_addresses),
    RP_TEST(test_training_without_memory_is_a_status),
};
RP_SUITE(executor, tests)
