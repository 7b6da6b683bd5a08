/* The n-th allocation fails, for every n, from recording to destroying; and a check that the sweep
 * itself sees what it looks for. */
#include "fault.h"
#include "gpt2.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* ---- The sweep sees planted faults ----------------------------------------------------------- */

typedef struct planted {
    enum { PLANTED_NOTHING, PLANTED_LEAK, PLANTED_SILENCE, PLANTED_STATUS } what;
    void *leaked;
} planted;

/* Two blocks; what is planted goes wrong when the second one is refused. */
static rp_status two_blocks(rp_context *context, void *user) {
    planted *plan = user;
    void *first = rp_alloc(context, 10, 1);
    if (first == NULL)
        return rp_fail_memory(context, "the first block");
    void *second = rp_alloc(context, 10, 1);
    if (second == NULL) {
        if (plan->what == PLANTED_LEAK)
            plan->leaked = first;
        else
            rp_free(context, first);
        if (plan->what == PLANTED_SILENCE)
            return RP_OUT_OF_MEMORY;
        return plan->what == PLANTED_STATUS ? rp_fail(context, RP_BAD_STATE, "the second block")
                                            : rp_fail_memory(context, "the second block");
    }
    rp_free(context, second);
    rp_free(context, first);
    return RP_OK;
}

static void check_planted(int what, const char *wanted) {
    planted plan = {.what = what};
    const char *problem = rp_fault_problem(two_blocks, &plan, 3, 3);
    RP_CHECK_STRING(problem ? problem : "nothing", wanted);
    rp_faulty_memory memory = {0};
    const rp_allocator allocator = rp_faulty_allocator(&memory);
    allocator.resize(allocator.user, plan.leaked, 0);
}

static void test_sweep_sees_leak_silence_and_wrong_status(void) {
    planted nothing = {.what = PLANTED_NOTHING};
    check_planted(PLANTED_NOTHING, "nothing");
    check_planted(PLANTED_LEAK, "a leak");
    check_planted(PLANTED_SILENCE, "no message");
    check_planted(PLANTED_STATUS, "RP_BAD_STATE");
    RP_CHECK_STRING(rp_fault_problem(two_blocks, &nothing, 4, 4), "no allocation failed");
}

static void test_allocator_sees_damage_and_moves_blocks(void) {
    rp_faulty_memory memory = {0};
    const rp_allocator allocator = rp_faulty_allocator(&memory);
    char *block = allocator.resize(allocator.user, NULL, 5);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    memcpy(block, "1234", 5);
    char *moved = allocator.resize(allocator.user, block, 6);
    CU_ASSERT_PTR_NOT_NULL_FATAL(moved);
    RP_CHECK_STRING(moved, "1234");
    RP_CHECK_EQUAL(memory.live, 1);
    RP_CHECK_EQUAL(memory.misused, false);
    const char behind = moved[6];
    moved[6] ^= 1; /* one byte too far, inside the guard */
    allocator.resize(allocator.user, moved, 0);
    RP_CHECK_EQUAL(memory.misused, true);
    moved[6] = behind;
    allocator.resize(allocator.user, moved, 0);
    RP_CHECK_EQUAL(memory.live, 0);
}

/* ---- The library ----------------------------------------------------------------------------- */

static rp_status helpers_of_the_context(rp_context *context, void *user) {
    (void)user;
    int *array = NULL;
    size_t capacity = 0;
    rp_status status = RP_OK;
    char *copy = rp_copy_string(context, "text");
    if (copy == NULL)
        return rp_fail_memory(context, "a copy");
    for (size_t i = 0; i < 1000 && status == RP_OK; i++)
        if (!rp_reserve(context, &array, &capacity, i + 1, sizeof *array))
            status = rp_fail_memory(context, "the array");
    rp_free(context, array);
    rp_free(context, copy);
    return status;
}

static void test_every_allocation_of_the_context_may_fail(void) {
    rp_fault_sweep("context", helpers_of_the_context, NULL);
}

static rp_test_gpt2_shape small_model(void) {
    rp_test_gpt2_shape shape = rp_test_t0;
    shape.layers = 2;
    shape.fused = false;
    shape.tied = true;
    shape.dropout = 0.1f;
    return shape;
}

/* The first failure of a tape stays with it, and every later call only returns the tensor 0. */
static rp_status record(rp_context *context, void *user) {
    rp_tape *tape = NULL;
    rp_test_gpt2 model;
    rp_status status = rp_tape_create(context, &tape);
    if (status == RP_OK) {
        rp_test_gpt2_record(tape, user, &model);
        status = rp_tape_status(tape);
        RP_CHECK(status == RP_OK || model.loss.id == 0, "a tape that failed gave a loss");
    }
    rp_tape_destroy(tape);
    return status;
}

static void test_every_allocation_of_recording_may_fail(void) {
    rp_test_gpt2_shape shape = small_model();
    rp_fault_sweep("record", record, &shape);
}

static rp_status make_program(rp_context *context, rp_tape *tape, const rp_test_gpt2 *model) {
    rp_program *program = NULL;
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.losses = &model->loss;
    options.loss_count = 1;
    options.outputs = &model->logits;
    options.output_count = 1;
    options.optimizer = RP_OPTIMIZER_ADAMW;
    const rp_status status = rp_program_create(tape, &options, &program);
    RP_CHECK((program != NULL) == (status == RP_OK), "%s: %s", rp_status_name(status),
             rp_context_message(context));
    rp_program_destroy(program);
    return status;
}

static rp_status differentiate(rp_context *context, void *user) {
    rp_tape *tape = NULL;
    rp_test_gpt2 model;
    rp_status status = rp_tape_create(context, &tape);
    if (status == RP_OK) {
        rp_test_gpt2_record(tape, user, &model);
        status = make_program(context, tape, &model);
    }
    rp_tape_destroy(tape);
    return status;
}

static void test_every_allocation_of_differentiating_may_fail(void) {
    rp_test_gpt2_shape shape = small_model();
    rp_fault_sweep("differentiate", differentiate, &shape);
}

/* ---- From the tape to the trained parameters ------------------------------------------------- */

/* What a step is run with. */
typedef struct training {
    rp_test_gpt2_shape shape;
    bool at_minimum, accumulate;
    rp_executor_options options;
    rp_step *steps; /* of a plan made before the sweep; NULL: it is made each time */
    size_t step_count;
} training;

static rp_status run_steps(const rp_test_gpt2 *model, rp_executor *executor) {
    const rp_adamw_options adamw = RP_ADAMW_OPTIONS;
    rp_status status = rp_test_gpt2_write_weights(model, executor);
    for (uint64_t step = 0; step < 2 && status == RP_OK; step++) {
        status = rp_test_gpt2_write_batch(model, executor, (int64_t)step * 100);
        if (status == RP_OK)
            status = rp_executor_begin_step(executor, step, 1.0f);
        if (status == RP_OK)
            status = rp_executor_run(executor);
        if (status == RP_OK)
            status = rp_adamw_step(executor, &adamw);
    }
    return status;
}

static rp_status make_plan(const rp_graph *graph, const training *t, rp_plan **plan) {
    rp_plan_options limits = RP_PLAN_OPTIONS;
    rp_plan_report report = {0};
    if (t->steps != NULL)
        return rp_plan_import(graph, t->steps, t->step_count, RP_UNLIMITED, plan, NULL);
    const rp_status status = t->at_minimum ? rp_plan_limits(graph, &report) : RP_OK;
    if (t->at_minimum)
        limits.budget_bytes = report.min_feasible_bytes;
    else
        limits.strategy = "keep-all";
    return status == RP_OK ? rp_plan_create(graph, &limits, plan, NULL) : status;
}

static rp_status plan_and_run(const rp_test_gpt2 *model, const rp_program *program,
                              const training *t) {
    rp_plan *plan = NULL;
    rp_executor *executor = NULL;
    rp_status status = make_plan(rp_program_graph(program), t, &plan);
    if (status == RP_OK)
        status = rp_executor_create(program, plan, &t->options, &executor);
    if (status == RP_OK)
        status = run_steps(model, executor);
    rp_executor_destroy(executor);
    rp_plan_destroy(plan);
    return status;
}

static rp_status make_training(rp_tape *tape, const training *t, rp_test_gpt2 *model,
                               rp_program **program) {
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_test_gpt2_record(tape, &t->shape, model);
    options.losses = &model->loss;
    options.loss_count = 1;
    options.accumulate = t->accumulate;
    options.optimizer = RP_OPTIMIZER_ADAMW;
    return rp_program_create(tape, &options, program);
}

static rp_status train(rp_context *context, void *user) {
    const training *t = user;
    rp_tape *tape = NULL;
    rp_program *program = NULL;
    rp_test_gpt2 model;
    rp_status status = rp_tape_create(context, &tape);
    if (status == RP_OK)
        status = make_training(tape, t, &model, &program);
    if (status == RP_OK)
        status = plan_and_run(&model, program, t);
    rp_program_destroy(program);
    rp_tape_destroy(tape);
    return status;
}

static void copy_plan(training *t) {
    rp_context *context = rp_test_context(1);
    rp_tape *tape = NULL;
    rp_program *program = NULL;
    rp_plan *plan = NULL;
    rp_test_gpt2 model;
    RP_REQUIRE_OK(context, rp_tape_create(context, &tape));
    RP_REQUIRE_OK(context, make_training(tape, t, &model, &program));
    RP_REQUIRE_OK(context, make_plan(rp_program_graph(program), t, &plan));
    const rp_step *steps = rp_plan_steps(plan, &t->step_count);
    t->steps = malloc(t->step_count * sizeof *t->steps);
    RP_REQUIRE(t->steps != NULL, "no memory");
    memcpy(t->steps, steps, t->step_count * sizeof *t->steps);
    rp_context_destroy(context);
}

/* A search for each allocation that fails takes nearly all the time: with RP_TEST_LONG=1 alone.
 * Else the plan is imported, and those of the search fail in tests/planner/test_fault_plan.c, those
 * of all from the tape to the step in test_training_without_memory_is_a_status, with a small
 * graph. */
static void check_training(const char *name, training t) {
    if (!rp_test_is_long())
        copy_plan(&t);
    rp_fault_sweep(name, train, &t);
    free(t.steps);
}

static training small_training(void) {
    return (training){.shape = small_model(), .options = RP_EXECUTOR_OPTIONS};
}

static void test_every_allocation_of_training_may_fail(void) {
    training t = small_training();
    t.shape.layers = 1;
    check_training("training", t);
}

static void test_every_allocation_of_training_at_the_minimum_may_fail(void) {
    training t = small_training();
    t.shape.fused = true;
    t.at_minimum = t.accumulate = true;
    t.options.check_replays = t.options.poison = true;
    check_training("training at the minimum", t);
}

/* With masters, and gradients in f32 beside them. */
static void test_every_allocation_of_training_in_bf16_may_fail(void) {
    training t = small_training();
    t.shape.bf16 = true;
    t.shape.layers = 1;
    t.accumulate = true;
    check_training("training in bf16", t);
}

static const rp_test tests[] = {
    RP_TEST(test_sweep_sees_leak_silence_and_wrong_status),
    RP_TEST(test_allocator_sees_damage_and_moves_blocks),
    RP_TEST(test_every_allocation_of_the_context_may_fail),
    RP_TEST(test_every_allocation_of_recording_may_fail),
    RP_TEST(test_every_allocation_of_differentiating_may_fail),
    RP_TEST(test_every_allocation_of_training_may_fail),
    RP_TEST(test_every_allocation_of_training_at_the_minimum_may_fail),
    RP_TEST(test_every_allocation_of_training_in_bf16_may_fail),
};
RP_SUITE(fault, tests)
