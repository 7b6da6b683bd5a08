/* The promises of a plan, on T0, T0d and T0t, in f32 and in bf16: measured peak equals predicted
 * peak, and the bits of losses, gradients and parameters are those of keeping everything. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "models.h"

enum { STEPS = 3 };

/* From the minimum to keep-all; the ends are two of them. */
static int budgets_tried(void) {
    return (int)rp_test_samples(10, 10);
}

typedef struct variant {
    const char *name;
    model_options options;
    bool bf16;
} variant;

static const variant variants[] = {
    {"T0", {.layers = 4}, false},
    {"T0d", {.dropout = 0.1f}, false},
    {"T0t", {.tied = true, .dropout = 0.1f}, false},
    {"T0t in bf16", {.tied = true, .dropout = 0.1f}, true},
};
enum { VARIANTS = sizeof variants / sizeof variants[0] };

/* Strategies as a user names them. */
static const char *const names[] = {
    "keep-all",       "uniform:1", "uniform:2", "block:1",   "block:3", "sqrt",
    "sqrt-recursive", "revolve",   "chain-dp",  "selective", "auto"};
enum { NAMES = sizeof names / sizeof names[0] };

/* A parameter, its gradient, and its master if it has one. */
static uint64_t hash_parameter(bench *b, rp_tensor p, uint64_t hash) {
    const size_t count = (size_t)rp_shape_count(rp_tensor_get_info(b->tape, p).shape);
    float *exact = malloc((count + 1) * sizeof *exact);
    RP_REQUIRE(exact != NULL, "no memory");
    RP_REQUIRE_OK(b->context, rp_executor_read_f32(b->executor, p, exact, count));
    hash = bench_hash(hash, exact, count * sizeof *exact);
    free(exact);
    hash = bench_hash(hash, bench_gradient(b, p), bench_gradient_bytes(b, p));
    return bench_hash(hash, bench_values(b, p), bench_bytes(b, p));
}

/* Everything that three steps compute: losses, gradients, parameters. */
static uint64_t train(bench *b, const model *m, int accumulate) {
    uint64_t hash = BENCH_HASH;
    for (int s = 0; s < STEPS; s++) {
        RP_REQUIRE_OK(b->context,
                      rp_executor_begin_step(b->executor, (uint64_t)s, 1.0f / (float)accumulate));
        for (int i = 0; i < accumulate; i++) {
            model_batch(b, m, (uint64_t)(s * accumulate + i));
            bench_run(b);
            hash = bench_hash(hash, bench_values(b, m->loss), sizeof(float));
        }
        for (size_t i = 0; i < rp_program_parameter_count(b->program); i++)
            hash = hash_parameter(b, rp_program_parameter(b->program, i), hash);
        RP_REQUIRE_OK(b->context, rp_adamw_step(b->executor, NULL));
    }
    return hash;
}

static void open_variant(bench *b, model *m, const variant *v, int accumulate) {
    rp_program_options options = RP_PROGRAM_OPTIONS;
    bench_open(b);
    b->dtype = v->bf16 ? RP_BF16 : RP_F32;
    *m = model_record(b, v->options);
    options.optimizer = RP_OPTIMIZER_ADAMW;
    options.accumulate = accumulate > 1;
    options.seed = 11;
    bench_program(b, m->loss, &options);
}

/* Budgets from the strategy's minimum to keep-all; how many of them replayed something. */
static int sweep(bench *b, const model *m, const char *strategy, int accumulate, uint64_t wanted) {
    const int budgets = budgets_tried();
    int replayed = 0;
    const rp_status status = bench_plan(b, strategy, RP_UNLIMITED);
    if (status == RP_NOT_APPLICABLE)
        return 0;
    RP_REQUIRE_OK(b->context, status);
    const int64_t least = b->report.strategy_min_bytes, most = b->report.keep_all_peak_bytes;
    for (int i = 0; i < budgets; i++) {
        const int64_t budget = least + (most - least) * i / (budgets - 1);
        bench_make(b, strategy, budget);
        RP_CHECK(b->report.peak_bytes <= budget, "%s: a peak of %lld for a budget of %lld",
                 strategy, (long long)b->report.peak_bytes, (long long)budget);
        const uint64_t hash = train(b, m, accumulate);
        RP_CHECK(hash == wanted, "%s at %lld bytes: %016llx, keep-all %016llx", strategy,
                 (long long)budget, (unsigned long long)hash, (unsigned long long)wanted);
        replayed += bench_replays(b) > 0;
    }
    return replayed;
}

static void check_variant(const variant *v, int accumulate) {
    bench b;
    model m;
    int replayed = 0;
    open_variant(&b, &m, v, accumulate);
    bench_make(&b, "keep-all", RP_UNLIMITED);
    const uint64_t wanted = train(&b, &m, accumulate);
    for (int i = 0; i < NAMES; i++)
        replayed += sweep(&b, &m, names[i], accumulate, wanted);
    RP_CHECK(replayed >= 2 * budgets_tried(), "%s: only %d plans replayed anything", v->name,
             replayed);
    bench_close(&b);
}

/* With RP_TEST_BRIEF=1 the last one alone, which has everything. */
static int first_variant(void) {
    return VARIANTS - (int)rp_test_samples(VARIANTS, VARIANTS);
}

static void test_every_plan_gives_the_same_bits_in_one_micro_batch(void) {
    for (int i = first_variant(); i < VARIANTS; i++)
        check_variant(&variants[i], 1);
}

static void test_every_plan_gives_the_same_bits_in_four_micro_batches(void) {
    for (int i = first_variant(); i < VARIANTS; i++)
        check_variant(&variants[i], 4);
}

static void test_unfused_attention_gives_the_same_bits_under_every_plan(void) {
    const model_options options = {.unfused = true, .dropout = 0.1f, .layers = 2};
    check_variant(&(variant){"T0d unfused", options, false}, 1);
    check_variant(&(variant){"T0d unfused in bf16", options, true}, 1);
}

/* Below the minimum nothing is made that could run, and the answer says what would fit. */
static void test_budgets_below_the_minimum_are_refused(void) {
    for (int i = first_variant(); i < VARIANTS; i++) {
        bench b;
        model m;
        open_variant(&b, &m, &variants[i], 1);
        const int64_t least = bench_minimum(&b);
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)least);
        const int64_t refused[] = {least - 1, 0};
        for (int j = 0; j < 2; j++) {
            RP_CHECK_STATUS(b.context, bench_plan(&b, NULL, refused[j]), RP_INFEASIBLE);
            CU_ASSERT_PTR_NULL(b.plan);
            CU_ASSERT_PTR_NULL(b.executor);
            RP_CHECK_EQUAL(b.report.min_feasible_bytes, least);
            CU_ASSERT_TRUE(b.report.peak_node != RP_NONE);
            RP_CHECK_MESSAGE(b.context, text);
        }
        bench_make(&b, NULL, least);
        bench_run(&b);
        bench_make(&b, "auto", b.report.keep_all_peak_bytes);
        RP_CHECK_EQUAL(b.report.recompute_nodes, 0);
        bench_run(&b);
        bench_close(&b);
    }
}

/* PL-14: a plan that went through a file does what it did. */
static void test_PL_14_saved_plan_runs_the_same_after_loading(void) {
    bench b;
    model m;
    char path[RP_TEST_PATH];
    open_variant(&b, &m, &variants[1], 1);
    bench_make(&b, NULL, bench_minimum(&b));
    const uint64_t wanted = train(&b, &m, 1);
    const uint32_t replays = bench_replays(&b);
    const int64_t peak = b.report.peak_bytes;
    RP_REQUIRE_OK(b.context, rp_plan_save(b.plan, rp_test_temporary(path, "plan.json")));
    rp_executor_destroy(b.executor);
    rp_plan_destroy(b.plan);
    b.executor = NULL;
    b.plan = NULL;
    RP_REQUIRE_OK(b.context, rp_plan_load(rp_program_graph(b.program), path, RP_UNLIMITED, &b.plan,
                                          &b.report));
    RP_REQUIRE_OK(b.context, rp_executor_create(b.program, b.plan, &b.options, &b.executor));
    bench_write(&b);
    const uint32_t before = bench_replays(&b);
    RP_CHECK(train(&b, &m, 1) == wanted, "other bits after loading");
    RP_CHECK_EQUAL(bench_replays(&b) - before, replays);
    RP_CHECK_EQUAL(b.report.peak_bytes, peak);
    remove(path);
    bench_close(&b);
}

/* PL-14: the steps of a plan, handed back as if they came from elsewhere, are that plan. */
static void test_PL_14_imported_schedule_is_the_plan_it_came_from(void) {
    bench b;
    model m;
    size_t count = 0;
    open_variant(&b, &m, &variants[0], 1);
    bench_make(&b, NULL, bench_minimum(&b));
    const uint64_t wanted = train(&b, &m, 1);
    const rp_plan_report report = b.report;
    const uint32_t replays = bench_replays(&b);
    const rp_step *steps = rp_plan_steps(b.plan, &count);
    rp_step *copy = malloc(count * sizeof *copy);
    RP_REQUIRE(copy != NULL, "no memory");
    memcpy(copy, steps, count * sizeof *copy);
    bench_import(&b, copy, count, report.budget_bytes);
    free(copy);
    RP_CHECK(train(&b, &m, 1) == wanted, "other bits"); /* and the measured peak is the predicted */
    RP_CHECK_EQUAL(b.report.peak_bytes, report.peak_bytes);
    RP_CHECK_EQUAL(b.report.live_peak_bytes, report.live_peak_bytes);
    RP_CHECK_EQUAL(b.report.recompute_cost_ns, report.recompute_cost_ns);
    RP_CHECK_EQUAL(b.report.recompute_nodes, report.recompute_nodes);
    RP_CHECK_EQUAL(bench_replays(&b), replays);
    bench_close(&b);
}

/* PL-07: the user's marks hold in what runs. */
static void test_PL_07_marks_win_over_the_budget(void) {
    bench b;
    bench_open(&b);
    const model m = model_record(&b, (model_options){0});
    rp_mark_node(b.tape, m.attention[1], RP_MARK_RECOMPUTE);
    rp_mark_node(b.tape, m.attention[2], RP_MARK_KEEP);
    bench_program(&b, m.loss, NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    bench_run(&b);
    RP_CHECK_EQUAL(bench_replays_of(&b, m.attention[1]), 1);
    RP_CHECK_EQUAL(bench_replays(&b), 1);
    bench_make(&b, NULL, bench_minimum(&b));
    bench_run(&b);
    RP_CHECK_EQUAL(bench_replays_of(&b, m.attention[2]), 0);
    RP_CHECK(bench_replays_of(&b, m.attention[1]) >= 1, "marked recompute, and kept");
    bench_close(&b);
}

/* PL-01, PL-02: the ends of the range are budgets like any other. */
static void test_PL_01_budgets_at_the_ends_of_the_range(void) {
    bench b;
    model m;
    open_variant(&b, &m, &variants[0], 1);
    RP_CHECK_STATUS(b.context, bench_plan(&b, NULL, 0), RP_INFEASIBLE);
    RP_CHECK_STATUS(b.context, bench_plan(&b, NULL, 1), RP_INFEASIBLE);
    CU_ASSERT_TRUE(b.report.min_feasible_bytes > 1);
    RP_CHECK_STATUS(b.context, bench_plan(&b, NULL, -1), RP_INVALID_ARGUMENT);
    bench_make(&b, NULL, INT64_MAX);
    RP_CHECK_EQUAL(b.report.recompute_nodes, 0);
    bench_close(&b);
}

static void test_PL_02_extreme_budgets_take_no_other_path(void) {
    bench b;
    model m;
    open_variant(&b, &m, &variants[1], 1);
    bench_make(&b, "keep-all", RP_UNLIMITED);
    const uint64_t wanted = train(&b, &m, 1);
    const int64_t plain = b.report.peak_bytes, least = bench_minimum(&b);
    const int64_t budgets[] = {least, least + 1, plain - 1, plain, plain + 1};
    for (int i = 0; i < 5; i++) {
        bench_make(&b, NULL, budgets[i]);
        RP_CHECK(train(&b, &m, 1) == wanted, "other bits at %lld bytes", (long long)budgets[i]);
        RP_CHECK((bench_replays(&b) == 0) == (i >= 3), "%u replays at %lld bytes",
                 bench_replays(&b), (long long)budgets[i]);
    }
    bench_close(&b);
}

/* What costs nothing to recompute is not recomputed for nothing. */
static void test_PL_17_nothing_is_replayed_without_need(void) {
    bench b;
    bench_open(&b);
    const rp_tensor x = bench_input(&b, "x", RP_SHAPE(4, 4), NULL);
    const rp_tensor w = bench_parameter(&b, "w", RP_SHAPE(4, 4), NULL);
    rp_tensor h = rp_reshape(b.tape, rp_matmul(b.tape, x, w, false, false), RP_SHAPE(16));
    h = rp_dropout(b.tape, rp_relu(b.tape, h), 0.5f);
    bench_program(&b, rp_sum(b.tape, h), NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    bench_run(&b);
    RP_CHECK_EQUAL(b.report.recompute_nodes, 0);
    RP_CHECK_EQUAL(bench_replays(&b), 0);
    bench_close(&b);
}

/* The budget is hard: 60 % of what keeping everything takes. T0, most of which is parameters, is
 * refused; with longer sequences it fits, in what the kernels were bound to and what was taken. */
static void test_PL_18_the_budget_is_a_limit(void) {
    for (int i = 0; i < 2; i++) {
        bench b;
        bench_open(&b);
        const model m = model_record(&b, (model_options){.seq = i == 0 ? 16 : 256});
        bench_program(&b, m.loss, NULL);
        bench_make(&b, "keep-all", RP_UNLIMITED);
        const int64_t budget = b.report.peak_bytes * 6 / 10;
        const rp_status status = bench_plan(&b, NULL, budget);
        RP_CHECK_STATUS(b.context, status, i == 0 ? RP_INFEASIBLE : RP_OK);
        CU_ASSERT_TRUE((b.executor == NULL) == (i == 0)); /* nothing that could run */
        if (status == RP_OK) {
            rp_executor_stats stats;
            bench_run(&b);
            rp_executor_get_stats(b.executor, &stats);
            RP_CHECK(stats.measured_peak_bytes <= budget && stats.arena_bytes <= budget,
                     "%lld bytes used, %lld taken, of %lld", (long long)stats.measured_peak_bytes,
                     (long long)stats.arena_bytes, (long long)budget);
            RP_CHECK(stats.replays > 0, "nothing was replayed");
        } else {
            RP_CHECK(b.report.min_feasible_bytes > budget, "a minimum of %lld",
                     (long long)b.report.min_feasible_bytes);
        }
        bench_close(&b);
    }
}

/* A plan of another graph is not run. */
static void test_plan_of_another_program_is_refused(void) {
    bench a, b;
    model m, n;
    rp_executor *executor = NULL;
    open_variant(&a, &m, &variants[0], 1);
    open_variant(&b, &n, &variants[2], 1);
    bench_make(&a, NULL, RP_UNLIMITED);
    RP_CHECK_STATUS(b.context, rp_executor_create(b.program, a.plan, NULL, &executor),
                    RP_BAD_INPUT);
    CU_ASSERT_PTR_NULL(executor);
    /* the same structure from another tape is the same graph */
    bench_close(&b);
    open_variant(&b, &n, &variants[0], 1);
    RP_REQUIRE_OK(b.context, rp_executor_create(b.program, a.plan, NULL, &executor));
    rp_executor_destroy(executor);
    bench_close(&b);
    bench_close(&a);
}

static const rp_test tests[] = {
    RP_TEST(test_every_plan_gives_the_same_bits_in_one_micro_batch),
    RP_TEST(test_every_plan_gives_the_same_bits_in_four_micro_batches),
    RP_TEST(test_unfused_attention_gives_the_same_bits_under_every_plan),
    RP_TEST(test_budgets_below_the_minimum_are_refused),
    RP_TEST(test_PL_14_saved_plan_runs_the_same_after_loading),
    RP_TEST(test_PL_14_imported_schedule_is_the_plan_it_came_from),
    RP_TEST(test_PL_01_budgets_at_the_ends_of_the_range),
    RP_TEST(test_PL_02_extreme_budgets_take_no_other_path),
    RP_TEST(test_PL_07_marks_win_over_the_budget),
    RP_TEST(test_PL_17_nothing_is_replayed_without_need),
    RP_TEST(test_PL_18_the_budget_is_a_limit),
    RP_TEST(test_plan_of_another_program_is_refused),
};
RP_SUITE(plans, tests)
