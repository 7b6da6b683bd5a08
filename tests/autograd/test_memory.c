/* Group H of cases.md as far as it speaks of running, and what a step must not do: allocate. */
#include <stdlib.h>
#include <string.h>

#include "autograd/executor.h"
#include "bench.h"
#include "fault.h"
#include "heap.h"
#include "models.h"
#include "planner/graph.h"

/* ---- No allocation in a step ----------------------------------------------------------------- */

static void step(bench *b, const model *m, uint64_t number, int accumulate) {
    RP_REQUIRE_OK(b->context, rp_executor_begin_step(b->executor, number, 1.0f));
    for (int i = 0; i < accumulate; i++) {
        model_batch(b, m, number * 4 + (uint64_t)i);
        RP_REQUIRE_OK(b->context, rp_executor_run(b->executor));
    }
    rp_adamw_options adamw = RP_ADAMW_OPTIONS;
    adamw.max_grad_norm = 1.0f;
    RP_REQUIRE_OK(b->context, rp_adamw_step(b->executor, &adamw));
}

/* Requests during five steps behind the first. */
static int64_t calls_of_steps(const char *strategy, int accumulate, int threads, bool bare) {
    bench b;
    rp_program_options options = RP_PROGRAM_OPTIONS;
    bench_open_in(&b, rp_test_context(threads));
    const model m = model_record(&b, (model_options){.dropout = 0.1f, .unfused = threads == 1});
    options.optimizer = RP_OPTIMIZER_ADAMW;
    options.accumulate = accumulate > 1;
    bench_program(&b, m.loss, &options);
    if (bare)
        b.options = (rp_executor_options)RP_EXECUTOR_OPTIONS;
    bench_make(&b, strategy, RP_UNLIMITED);
    step(&b, &m, 0, accumulate);
    const int64_t before = heap_calls();
    for (uint64_t s = 1; s <= 5; s++)
        step(&b, &m, s, accumulate);
    const int64_t after = heap_calls();
    bench_close(&b);
    return after - before;
}

static void test_no_step_but_the_first_allocates(void) {
    if (!heap_is_counted()) {
        CU_PASS("see heap.h; that nothing is asked of the context's allocator is ME-16, below");
        return;
    }
    const int64_t before = heap_calls();
    void *volatile block = malloc(10); /* volatile: or the compiler leaves it out */
    free(block);
    RP_REQUIRE(heap_calls() > before, "malloc is not counted");
    RP_CHECK_EQUAL(calls_of_steps("keep-all", 1, 1, true), 0);
    RP_CHECK_EQUAL(calls_of_steps("uniform:1", 1, 2, true), 0);
    RP_CHECK_EQUAL(calls_of_steps("uniform:1", 4, 2, false), 0);
}

/* ---- Allocations of ours, counted by the context --------------------------------------------- */

typedef struct counted {
    int64_t calls, live;
} counted;

static void *counted_resize(void *user, void *block, size_t bytes) {
    counted *c = user;
    c->calls++;
    c->live += (bytes > 0 && block == NULL) - (bytes == 0 && block != NULL);
    if (bytes > 0)
        return realloc(block, bytes);
    free(block);
    return NULL;
}

/* ME-16: a thousand steps of T0d; every third one is forward only. Nothing is asked of the
 * allocator after the executor was made, so nothing can grow. */
static void test_ME_16_nothing_leaks_over_a_thousand_steps(void) {
    bench b;
    counted count = {0, 0};
    rp_context_options options = RP_CONTEXT_OPTIONS;
    options.allocator = (rp_allocator){counted_resize, &count};
    options.threads = 1;
    rp_context *context = NULL;
    RP_REQUIRE_OK(NULL, rp_context_create(&options, &context));
    bench_open_in(&b, context);
    const model m = model_record(&b, (model_options){.dropout = 0.1f, .layers = 2});
    bench_program(&b, m.loss, NULL);
    b.options = (rp_executor_options)RP_EXECUTOR_OPTIONS;
    bench_make(&b, "uniform:1", RP_UNLIMITED);
    const counted before = count;
    for (uint64_t s = 0; s < 1000; s++) {
        RP_REQUIRE_OK(b.context, rp_executor_begin_step(b.executor, s, 1.0f));
        RP_REQUIRE_OK(b.context, rp_executor_forward(b.executor));
        if (s % 3 != 2) {
            RP_REQUIRE_OK(b.context, rp_executor_backward(b.executor));
            RP_REQUIRE_OK(b.context, rp_sgd_step(b.executor, 1e-3f, 0.0f, 0.0f));
        }
    }
    RP_CHECK_EQUAL(count.calls, before.calls);
    RP_CHECK_EQUAL(count.live, before.live);
    bench_close(&b);
    RP_CHECK_EQUAL(count.live, 0);
}

/* ---- What is live ---------------------------------------------------------------------------- */

/* ME-14: behind a backward nothing is live but loss and gradients of parameters, in every step. */
static void test_ME_14_only_gradients_of_parameters_outlive_a_step(void) {
    bench b;
    bench_open(&b);
    const model m = model_record(&b, (model_options){0});
    bench_program(&b, m.loss, NULL);
    const rp_graph *graph = rp_program_graph(b.program);
    int64_t gradients = 0;
    for (size_t i = 0; i < b.leaf_count; i++)
        if (rp_tensor_needs_gradient(b.tape, b.leaves[i].tensor))
            gradients += (int64_t)(b.leaves[i].bytes + 63) / 64 * 64;
    static const char *const strategies[] = {"keep-all", "uniform:1", "auto"};
    for (int i = 0; i < 3; i++) {
        bench_make(&b, strategies[i], i == 2 ? bench_minimum(&b) : RP_UNLIMITED);
        for (int run = 0; run < 3; run++) {
            int64_t live = 0;
            bench_run(&b);
            for (uint32_t v = 0; v < rp_graph_value_count(graph); v++)
                if (b.executor->offset[v] >= 0 && !graph->values[v].persistent)
                    live += graph->values[v].bytes;
            RP_CHECK_EQUAL(live, gradients + 64); /* and the loss, rounded up */
        }
    }
    bench_close(&b);
}

/* Rounded-up bytes of all storages live at the peak of a keep-all plan, persistent ones left
 * out. */
static int64_t kept_bytes(bench *b, rp_tensor loss) {
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_plan_options plan_options = RP_PLAN_OPTIONS;
    rp_plan_report report;
    bench_program(b, loss, &options);
    plan_options.strategy = "keep-all";
    rp_plan_destroy(b->plan);
    RP_REQUIRE_OK(b->context,
                  rp_plan_create(rp_program_graph(b->program), &plan_options, &b->plan, &report));
    return report.live_peak_bytes - rp_graph_persistent_bytes(rp_program_graph(b->program));
}

/* The bytes of a value's own storage in the graph, and those of what it is a view of. */
static int64_t own_bytes(bench *b, rp_tensor tensor, int64_t *of_base) {
    const rp_graph *graph = rp_program_graph(b->program);
    const rp_value *value = &graph->values[b->program->graph_value[tensor.id - 1]];
    *of_base = graph->values[value->root].bytes;
    return value->bytes;
}

static void test_ME_17_a_view_holds_its_base_and_has_no_bytes(void) {
    bench b;
    bench_open(&b);
    int64_t base = 0;
    const rp_tensor p = rp_parameter(b.tape, "p", RP_F32, RP_SHAPE(1024, 4096));
    const rp_tensor h = rp_tanh(b.tape, p);
    const rp_tensor row = rp_slice(b.tape, h, 0, 7, 1);
    kept_bytes(&b, rp_sum(b.tape, rp_mul(b.tape, row, row)));
    RP_CHECK_EQUAL(own_bytes(&b, row, &base), 0);
    RP_CHECK_EQUAL(base, 16777216);

    /* a copy of the row costs its own bytes and lets the base go */
    const rp_tensor x = rp_input(b.tape, "x", RP_F32, RP_SHAPE(1024, 4096));
    const rp_tensor q = rp_parameter(b.tape, "q", RP_F32, RP_SHAPE(4096));
    const rp_tensor scaled = rp_scale(b.tape, x, 2.0f);
    const rp_tensor copy = rp_scale(b.tape, rp_slice(b.tape, scaled, 0, 7, 1), 1.0f);
    kept_bytes(&b, rp_sum(b.tape, rp_mul(b.tape, copy, q)));
    RP_CHECK_EQUAL(own_bytes(&b, copy, &base), 16384);
    bench_close(&b);
}

/* A vector that is repeated over rows is kept once, and x once however many views are read. */
static void test_ME_17_repeated_and_viewed_values_count_once(void) {
    bench b;
    bench_open(&b);
    int64_t base = 0;
    const rp_tensor a = rp_parameter(b.tape, "a", RP_F32, RP_SHAPE(4, 1000));
    const rp_tensor v = rp_tanh(b.tape, rp_parameter(b.tape, "v", RP_F32, RP_SHAPE(1000)));
    kept_bytes(&b, rp_sum(b.tape, rp_mul(b.tape, a, v)));
    own_bytes(&b, v, &base);
    RP_CHECK_EQUAL(base, (4000 + 63) / 64 * 64);

    const rp_tensor x = rp_tanh(b.tape, a), flat = rp_reshape(b.tape, x, RP_SHAPE(-1));
    const rp_tensor one = rp_sum(b.tape, rp_mul(b.tape, x, x));
    const rp_tensor both =
        rp_sum(b.tape, rp_mul(b.tape, flat, rp_reshape(b.tape, x, RP_SHAPE(-1))));
    const int64_t plain = kept_bytes(&b, one), viewed = kept_bytes(&b, both);
    RP_CHECK_EQUAL(viewed, plain);
    bench_close(&b);
}

/* ME-20: an output that nobody reads is there while its node runs, and so is its workspace. */
static rp_status copy_twice(const rp_custom_call *call) {
    for (int k = 0; k < 2; k++)
        memcpy(call->out[k], call->in[0], 4096);
    return RP_OK;
}

static void test_ME_20_unused_outputs_count(void) {
    bench b;
    bench_open(&b);
    const rp_tensor x = bench_input(&b, "x", RP_SHAPE(1024), NULL);
    rp_custom_op op = RP_CUSTOM_OP;
    op.name = "twice";
    op.forward = copy_twice;
    const rp_tensor_info info = {RP_F32, RP_SHAPE(1024)}, infos[] = {info, info};
    const rp_tensor in = rp_scale(b.tape, x, 1.0f);
    rp_tensor out[2];
    RP_REQUIRE_OK(b.context, rp_custom(b.tape, &op, &in, 1, infos, 2, out));
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.forward_only = true;
    bench_program(&b, rp_sum(b.tape, out[0]), &options);
    bench_make(&b, NULL, RP_UNLIMITED);
    bench_run(&b);
    const int64_t persistent = rp_graph_persistent_bytes(rp_program_graph(b.program));
    RP_CHECK_EQUAL(b.report.peak_bytes - persistent, 3 * 4096); /* in, y, aux */
    bench_close(&b);
}

/* ME-18: planned and run without a byte of it being there. */
static void test_ME_18_thirteen_gigabytes_of_logits(void) {
    bench b;
    bench_open(&b);
    int64_t base = 0;
    const int64_t batch = 64, seq = 1024, vocab = 50257, dim = 768;
    const rp_tensor h = rp_parameter(b.tape, "h", RP_F32, RP_SHAPE(batch, seq, dim));
    const rp_tensor head = rp_parameter(b.tape, "head", RP_F32, RP_SHAPE(vocab, dim));
    const rp_tensor targets = rp_input(b.tape, "targets", RP_I32, RP_SHAPE(batch, seq));
    const rp_tensor logits = rp_linear(b.tape, h, head, RP_NO_TENSOR, RP_OUT_IN);
    const rp_tensor loss = rp_cross_entropy(b.tape, logits, targets, -100, RP_REDUCE_MEAN);
    bench_program(&b, loss, NULL);
    RP_CHECK_EQUAL(rp_shape_count(rp_tensor_get_info(b.tape, logits).shape), INT64_C(3293642752));
    RP_CHECK_EQUAL(own_bytes(&b, logits, &base), INT64_C(13174571008));
    b.options.backend = RP_BACKEND_NULL;
    b.options.check_replays = false;
    bench_make(&b, NULL, RP_UNLIMITED);
    RP_CHECK(b.report.peak_bytes > INT64_C(13174571008), "a peak of %lld",
             (long long)b.report.peak_bytes);
    bench_run(&b);
    CU_ASSERT_PTR_NULL(rp_executor_data(b.executor, loss));
    bench_close(&b);
}

static const rp_test tests[] = {
    RP_TEST(test_no_step_but_the_first_allocates),
    RP_TEST(test_ME_14_only_gradients_of_parameters_outlive_a_step),
    RP_TEST(test_ME_16_nothing_leaks_over_a_thousand_steps),
    RP_TEST(test_ME_17_a_view_holds_its_base_and_has_no_bytes),
    RP_TEST(test_ME_17_repeated_and_viewed_values_count_once),
    RP_TEST(test_ME_20_unused_outputs_count),
    RP_TEST(test_ME_18_thirteen_gigabytes_of_logits),
};
RP_SUITE(memory, tests)
