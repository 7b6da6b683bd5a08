/* What the library promises, on a device: gradients that no plan changes, peaks that are predicted,
 * recordings that are replayed as the steps they stand for, masks of dropout that are new in each
 * step and the CPU's. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/gpt2.h"
#include "unit.h"

/* ---- Training -------------------------------------------------------------------------------- */

enum { STEPS = 4 };

/* How a model is trained. */
typedef struct training {
    const rp_test_gpt2_shape *shape;
    rp_backend_kind backend;
    const char *strategy; /* NULL: auto */
    int64_t budget;
    bool record;
    int micro_batches; /* more than 1: gradients add up */
} training;

/* What came out: a hash of losses, gradients and parameters of each step. */
typedef struct outcome {
    uint64_t bits[STEPS];
    float loss[STEPS];
    rp_plan_report report;
    rp_executor_stats stats;
    float *gradients; /* of the first parameters in the last step, as f32; owned */
    size_t gradient_count;
} outcome;

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes) {
    const uint8_t *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static size_t count_of(const rp_test_gpt2 *model, rp_tensor tensor) {
    return (size_t)rp_shape_count(rp_tensor_get_info(model->tape, tensor).shape);
}

/* Every gradient and every parameter, in f32 (which every bf16 number is). */
static void look(rp_context *context, const rp_test_gpt2 *model, rp_executor *executor,
                 uint64_t *bits, outcome *out) {
    size_t most = 0;
    for (size_t p = 0; p < model->parameter_count; p++)
        if (count_of(model, model->parameters[p]) > most)
            most = count_of(model, model->parameters[p]);
    float *values = malloc(most * sizeof *values);
    RP_REQUIRE(values != NULL, "no memory");
    for (size_t p = 0; p < model->parameter_count; p++) {
        const rp_tensor parameter = model->parameters[p];
        const size_t count = count_of(model, parameter);
        RP_REQUIRE_OK(context, rp_executor_read_gradient_f32(executor, parameter, values, count));
        *bits = hash_bytes(*bits, values, count * sizeof *values);
        if (p == 0) {
            free(out->gradients);
            out->gradients = malloc(count * sizeof *values);
            RP_REQUIRE(out->gradients != NULL, "no memory");
            memcpy(out->gradients, values, count * sizeof *values);
            out->gradient_count = count;
        }
        RP_REQUIRE_OK(context, rp_executor_read_f32(executor, parameter, values, count));
        *bits = hash_bytes(*bits, values, count * sizeof *values);
    }
    free(values);
}

static void run_step(rp_context *context, const training *t, const rp_test_gpt2 *model,
                     rp_executor *executor, int step, outcome *out) {
    rp_adamw_options adamw = RP_ADAMW_OPTIONS;
    adamw.max_grad_norm = 1.0f;
    RP_REQUIRE_OK(context, rp_executor_begin_step(executor, (uint64_t)step, 1.0f));
    for (int b = 0; b < t->micro_batches; b++) {
        RP_REQUIRE_OK(context,
                      rp_test_gpt2_write_batch(model, executor, step * t->micro_batches + b));
        RP_REQUIRE_OK(context, rp_executor_run(executor));
    }
    RP_REQUIRE_OK(
        context, rp_executor_read(executor, model->loss, &out->loss[step], sizeof out->loss[step]));
    out->bits[step] =
        hash_bytes(UINT64_C(0xcbf29ce484222325), &out->loss[step], sizeof out->loss[step]);
    RP_REQUIRE_OK(context, rp_adamw_step(executor, &adamw));
    look(context, model, executor, &out->bits[step], out);
}

static rp_program *make_program(rp_tape *tape, const training *t, const rp_test_gpt2 *model) {
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_program *program = NULL;
    options.losses = &model->loss;
    options.loss_count = 1;
    options.optimizer = RP_OPTIMIZER_ADAMW;
    options.accumulate = t->micro_batches > 1;
    options.backend = t->backend;
    options.seed = 5;
    RP_REQUIRE_OK(NULL, rp_program_create(tape, &options, &program));
    return program;
}

static outcome train(const training *t) {
    rp_context *context = rp_test_context(1);
    rp_tape *tape = NULL;
    rp_test_gpt2 model;
    rp_plan *plan = NULL;
    rp_executor *executor = NULL;
    outcome out = {.gradients = NULL};
    RP_REQUIRE_OK(context, rp_tape_create(context, &tape));
    rp_test_gpt2_record(tape, t->shape, &model);
    RP_REQUIRE_OK(context, rp_tape_status(tape));
    rp_program *program = make_program(tape, t, &model);
    rp_plan_options wanted = RP_PLAN_OPTIONS;
    wanted.budget_bytes = t->budget;
    wanted.strategy = t->strategy;
    RP_REQUIRE_OK(context, rp_plan_create(rp_program_graph(program), &wanted, &plan, &out.report));
    rp_executor_options options = RP_EXECUTOR_OPTIONS;
    options.backend = t->backend;
    options.poison = true;
    options.record = t->record;
    options.check_replays = !t->record;
    RP_REQUIRE_OK(context, rp_executor_create(program, plan, &options, &executor));
    RP_REQUIRE_OK(context, rp_test_gpt2_write_weights(&model, executor));
    for (int step = 0; step < STEPS; step++)
        run_step(context, t, &model, executor, step, &out);
    RP_REQUIRE_OK(context, rp_executor_finish(executor));
    rp_executor_get_stats(executor, &out.stats);
    rp_context_destroy(context);
    return out;
}

static void check_same_bits(const outcome *got, const outcome *wanted, const char *what) {
    for (int step = 0; step < STEPS; step++)
        RP_CHECK(got->bits[step] == wanted->bits[step],
                 "%s: step %d has other bits; its loss is %.9g, not %.9g", what, step,
                 (double)got->loss[step], (double)wanted->loss[step]);
}

static void check_peak(const outcome *o) {
    RP_CHECK_EQUAL(o->stats.measured_peak_bytes, o->report.peak_bytes);
    RP_CHECK(o->report.peak_bytes <= o->report.budget_bytes, "%lld bytes, %lld are allowed",
             (long long)o->report.peak_bytes, (long long)o->report.budget_bytes);
}

static const rp_test_gpt2_shape fused = {.layers = 2,
                                         .dim = 32,
                                         .heads = 4,
                                         .seq = 16,
                                         .batch = 2,
                                         .vocab = 64,
                                         .tied = true,
                                         .fused = true,
                                         .dropout = 0.1f,
                                         .reduction = RP_REDUCE_MEAN};

/* ---- Plans ----------------------------------------------------------------------------------- */

/* Everything kept, then four budgets down to the smallest. */
static void check_budgets(const rp_test_gpt2_shape *shape, int micro_batches) {
    training t = {shape, RP_BACKEND_CUDA, "keep-all", RP_UNLIMITED, false, micro_batches};
    const outcome kept = train(&t);
    check_peak(&kept);
    RP_CHECK_EQUAL(kept.stats.replays, 0);
    RP_CHECK(isfinite(kept.loss[STEPS - 1]) && kept.loss[STEPS - 1] > 0.0f, "the loss is %g",
             (double)kept.loss[STEPS - 1]);
    const int64_t most = kept.report.keep_all_peak_bytes, least = kept.report.min_feasible_bytes;
    t.strategy = NULL;
    for (int quarter = 0; quarter < 4; quarter++) {
        t.budget = least + (most - least) * quarter / 4;
        const outcome planned = train(&t);
        char what[64];
        snprintf(what, sizeof what, "a budget of %lld bytes", (long long)t.budget);
        check_peak(&planned);
        check_same_bits(&planned, &kept, what);
        RP_CHECK(quarter > 0 || planned.stats.replays > 0, "%s: nothing was replayed", what);
        free(planned.gradients);
    }
    free(kept.gradients);
}

static void test_a_plan_changes_no_bit(void) {
    check_budgets(&fused, 1);
}

static void test_a_plan_changes_no_bit_of_separate_attention(void) {
    rp_test_gpt2_shape shape = fused;
    shape.fused = shape.tied = false;
    check_budgets(&shape, 1);
}

static void test_a_plan_changes_no_bit_in_bf16(void) {
    rp_test_gpt2_shape shape = fused;
    shape.bf16 = true;
    check_budgets(&shape, 1);
}

static void test_a_plan_changes_no_bit_of_gradients_that_add_up(void) {
    rp_test_gpt2_shape shape = fused;
    shape.bf16 = true;
    check_budgets(&shape, 2);
}

/* ---- The CPU --------------------------------------------------------------------------------- */

static void check_cpu(const rp_test_gpt2_shape *shape, double tolerance) {
    const outcome device = train(&(training){shape, RP_BACKEND_CUDA, NULL, RP_UNLIMITED, false, 1});
    const outcome cpu = train(&(training){shape, RP_BACKEND_CPU, NULL, RP_UNLIMITED, false, 1});
    double error = 0.0, size = 0.0;
    for (size_t i = 0; i < cpu.gradient_count; i++) {
        const double want = (double)cpu.gradients[i], off = (double)device.gradients[i] - want;
        error += off * off;
        size += want * want;
    }
    for (int step = 0; step < STEPS; step++)
        RP_CHECK_NEAR((double)device.loss[step], (double)cpu.loss[step], tolerance);
    RP_CHECK(sqrt(error) <= tolerance * sqrt(size), "gradients are off by %.3g",
             sqrt(error / size));
    free(device.gradients);
    free(cpu.gradients);
}

static void test_steps_are_those_of_the_cpu(void) {
    check_cpu(&fused, 1e-4);
}

/* ---- Recordings ------------------------------------------------------------------------------ */

static void check_recording(const rp_test_gpt2_shape *shape, int micro_batches) {
    training t = {shape, RP_BACKEND_CUDA, "keep-all", RP_UNLIMITED, false, micro_batches};
    const outcome eager = train(&t);
    t.record = true;
    const outcome recorded = train(&t);
    check_same_bits(&recorded, &eager, "recorded");
    check_peak(&recorded);
    t.strategy = NULL;
    t.budget = eager.report.min_feasible_bytes;
    const outcome least = train(&t);
    check_same_bits(&least, &eager, "recorded at the smallest budget");
    check_peak(&least);
    free(eager.gradients);
    free(recorded.gradients);
    free(least.gradients);
}

static void test_a_recorded_step_is_the_step(void) {
    check_recording(&fused, 1);
}

static void test_a_recorded_step_is_the_step_in_bf16_and_micro_batches(void) {
    rp_test_gpt2_shape shape = fused;
    shape.bf16 = true;
    check_recording(&shape, 2);
}

enum { MASK = 1000 };

/* y = dropout(x, 0.4), x all ones; y of each step. */
static void draw_masks(rp_backend_kind backend, bool record, float masks[STEPS][MASK]) {
    rp_context *context = rp_test_context(1);
    rp_tape *tape = NULL;
    rp_program *program = NULL;
    rp_plan *plan = NULL;
    rp_executor *executor = NULL;
    float ones[MASK];
    for (int i = 0; i < MASK; i++)
        ones[i] = 1.0f;
    RP_REQUIRE_OK(context, rp_tape_create(context, &tape));
    const rp_tensor x = rp_input(tape, "x", RP_F32, RP_SHAPE(MASK));
    rp_require_gradient(tape, x, true);
    const rp_tensor y = rp_dropout(tape, x, 0.4f), loss = rp_sum(tape, y);
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.losses = &loss;
    options.outputs = &y;
    options.loss_count = options.output_count = 1;
    options.backend = backend;
    options.seed = 99;
    RP_REQUIRE_OK(context, rp_program_create(tape, &options, &program));
    RP_REQUIRE_OK(context, rp_plan_create(rp_program_graph(program), NULL, &plan, NULL));
    rp_executor_options how = RP_EXECUTOR_OPTIONS;
    how.backend = backend;
    how.record = record;
    RP_REQUIRE_OK(context, rp_executor_create(program, plan, &how, &executor));
    RP_REQUIRE_OK(context, rp_executor_write(executor, x, ones, sizeof ones));
    for (int step = 0; step < STEPS; step++) {
        float gradient[MASK];
        RP_REQUIRE_OK(context, rp_executor_begin_step(executor, (uint64_t)step, 1.0f));
        RP_REQUIRE_OK(context, rp_executor_run(executor));
        RP_REQUIRE_OK(context, rp_executor_read(executor, y, masks[step], sizeof masks[step]));
        RP_REQUIRE_OK(context, rp_executor_read_gradient(executor, x, gradient, sizeof gradient));
        RP_CHECK(memcmp(gradient, masks[step], sizeof gradient) == 0,
                 "step %d: backward drew another mask", step);
    }
    rp_context_destroy(context);
}

static void test_RNG_04_RNG_05_RNG_07_masks_are_new_and_those_of_the_cpu(void) {
    static float cpu[STEPS][MASK], recorded[STEPS][MASK];
    draw_masks(RP_BACKEND_CPU, false, cpu);
    draw_masks(RP_BACKEND_CUDA, true, recorded);
    for (int step = 0; step < STEPS; step++) {
        int differ = 0;
        RP_CHECK(memcmp(recorded[step], cpu[step], sizeof cpu[step]) == 0,
                 "step %d: not the mask of the CPU", step);
        for (int i = 0; i < MASK && step > 0; i++)
            differ += recorded[step][i] != recorded[step - 1][i];
        RP_CHECK(step == 0 || differ > MASK / 4, "step %d: %d of %d differ from the step before",
                 step, differ, MASK);
    }
}

/* ---- Memory and refusals --------------------------------------------------------------------- */

/* A parameter, and the loss that is made of it; ends in the status of an executor for it. */
static rp_status make_executor(rp_context *context, int64_t rows, const rp_custom_op *custom,
                               rp_executor **executor) {
    rp_tape *tape = NULL;
    rp_program *program = NULL;
    rp_plan *plan = NULL;
    RP_REQUIRE_OK(context, rp_tape_create(context, &tape));
    const rp_tensor x = rp_parameter(tape, "x", RP_F32, RP_SHAPE(rows, 1024));
    const rp_tensor_info info = rp_tensor_get_info(tape, x);
    rp_tensor y = x;
    if (custom != NULL)
        RP_REQUIRE_OK(context, rp_custom(tape, custom, &x, 1, &info, 1, &y));
    const rp_tensor loss = rp_sum(tape, y);
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.losses = &loss;
    options.loss_count = 1;
    options.backend = RP_BACKEND_CUDA;
    RP_REQUIRE_OK(context, rp_program_create(tape, &options, &program));
    RP_REQUIRE_OK(context, rp_plan_create(rp_program_graph(program), NULL, &plan, NULL));
    rp_executor_options how = RP_EXECUTOR_OPTIONS;
    how.backend = RP_BACKEND_CUDA;
    return rp_executor_create(program, plan, &how, executor);
}

/* 1 TiB. */
static void test_memory_that_the_device_has_not_is_a_status(void) {
    rp_context *context = rp_test_context(1);
    rp_executor *executor = NULL;
    RP_CHECK_STATUS(context, make_executor(context, (int64_t)1 << 28, NULL, &executor),
                    RP_OUT_OF_MEMORY);
    RP_CHECK_MESSAGE(context, "are free");
    rp_context_destroy(context);
}

/* What somebody else takes, here another executor, lies outside of an executor's budget; its own
 * memory does not. A device gives memory in pieces of a few MiB, so that little may not show. */
static void test_ME_07_memory_of_others_is_told_apart(void) {
    enum { SLACK = 8 << 20 };
    rp_context *context = rp_test_context(1), *other = rp_test_context(1);
    rp_executor *executor = NULL, *second = NULL;
    rp_executor_stats before, after, of_second;
    RP_REQUIRE_OK(context, make_executor(context, 32 << 10, NULL, &executor));
    rp_executor_get_stats(executor, &before);
    RP_CHECK(before.arena_bytes >= 256 << 20 && before.arena_bytes >= before.measured_peak_bytes,
             "%lld of %lld bytes are used", (long long)before.measured_peak_bytes,
             (long long)before.arena_bytes);
    RP_CHECK(before.outside_bytes < before.arena_bytes / 2, "%lld bytes of %lld are outside",
             (long long)before.outside_bytes, (long long)before.arena_bytes);
    RP_REQUIRE_OK(other, make_executor(other, 16 << 10, NULL, &second));
    rp_executor_get_stats(executor, &after);
    rp_executor_get_stats(second, &of_second);
    RP_CHECK(after.outside_bytes - before.outside_bytes >= of_second.arena_bytes - SLACK,
             "of %lld bytes %lld are seen", (long long)of_second.arena_bytes,
             (long long)(after.outside_bytes - before.outside_bytes));
    rp_context_destroy(other);
    rp_context_destroy(context);
}

static rp_status never_called(const rp_custom_call *call) {
    *(bool *)call->user = true;
    return RP_OK;
}

static void test_ops_of_the_caller_are_refused_by_name(void) {
    rp_context *context = rp_test_context(1);
    rp_executor *executor = NULL;
    rp_custom_op op = RP_CUSTOM_OP;
    bool was_called = false;
    op.name = "mine";
    op.forward = op.backward = never_called;
    op.user = &was_called;
    rp_status status = make_executor(context, 16, &op, &executor);
    if (status == RP_OK)
        status = rp_executor_run(executor);
    RP_CHECK_EQUAL(status, RP_UNSUPPORTED);
    RP_CHECK_MESSAGE(context, "mine");
    RP_CHECK_MESSAGE(context, "run on the CPU only");
    RP_CHECK(!was_called, "it was called");
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_a_plan_changes_no_bit),
    RP_TEST(test_a_plan_changes_no_bit_of_separate_attention),
    RP_TEST(test_a_plan_changes_no_bit_in_bf16),
    RP_TEST(test_a_plan_changes_no_bit_of_gradients_that_add_up),
    RP_TEST(test_steps_are_those_of_the_cpu),
    RP_TEST(test_a_recorded_step_is_the_step),
    RP_TEST(test_a_recorded_step_is_the_step_in_bf16_and_micro_batches),
    RP_TEST(test_RNG_04_RNG_05_RNG_07_masks_are_new_and_those_of_the_cpu),
    RP_TEST(test_memory_that_the_device_has_not_is_a_status),
    RP_TEST(test_ME_07_memory_of_others_is_told_apart),
    RP_TEST(test_ops_of_the_caller_are_refused_by_name),
};
RP_SUITE(promises, tests)
