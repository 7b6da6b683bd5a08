/* Group H of cases.md as far as it speaks of running, and what a step must not do: allocate. */
#include <stdio.h>
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

/* Requests during six steps. */
static int64_t calls_of_steps(const char *strategy, int accumulate, int threads, bool bare) {
    bench b;
    rp_program_options options = RP_PROGRAM_OPTIONS;
    bench_open_in(&b, rp_test_context(threads));
    const model m =
        model_record(&b, (model_options){.layers = 2, .dropout = 0.1f, .unfused = threads == 1});
    options.optimizer = RP_OPTIMIZER_ADAMW;
    options.accumulate = accumulate > 1;
    bench_program(&b, m.loss, &options);
    if (bare)
        b.options = (rp_executor_options)RP_EXECUTOR_OPTIONS;
    bench_make(&b, strategy, RP_UNLIMITED);
    const int64_t before = heap_calls();
    for (uint64_t s = 0; s <= 5; s++)
        step(&b, &m, s, accumulate);
    const int64_t after = heap_calls();
    bench_close(&b);
    return after - before;
}

static void test_no_step_allocates(void) {
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

/* A thousand steps of half of T0d, a quarter of them with RP_TEST_BRIEF=1; every third one is
 * forward only. Nothing is asked of the allocator after the executor was made, and what the process
 * holds is flat from step 5 on. */
static void check_thousand_steps(const char *strategy) {
    enum { FLAT = 64 * 1024 }; /* a kilobyte a step would be 4 or 16 times as much */
    bench b;
    counted count = {0, 0};
    rp_context_options options = RP_CONTEXT_OPTIONS;
    options.allocator = (rp_allocator){counted_resize, &count};
    options.threads = 1;
    rp_context *context = NULL;
    int64_t early = 0;
    RP_REQUIRE_OK(NULL, rp_context_create(&options, &context));
    bench_open_in(&b, context);
    const model m = model_record(&b, (model_options){.layers = 2, .dropout = 0.1f});
    bench_program(&b, m.loss, NULL);
    b.options = (rp_executor_options)RP_EXECUTOR_OPTIONS;
    bench_make(&b, strategy, strategy[0] == 'a' ? bench_minimum(&b) : RP_UNLIMITED);
    const rp_executor *e = b.executor;
    const counted before = count;
    const uint64_t steps = rp_test_samples(1000, 1000);
    for (uint64_t s = 0; s < steps; s++) {
        RP_REQUIRE_OK(b.context, rp_executor_begin_step(b.executor, s, 1.0f));
        RP_REQUIRE_OK(b.context, rp_executor_forward(b.executor));
        if (s % 3 != 2) {
            RP_REQUIRE_OK(b.context, rp_executor_backward(b.executor));
            RP_REQUIRE_OK(b.context, rp_sgd_step(b.executor, 1e-3f, 0.0f, 0.0f));
        }
        early = s == 5 ? rp_process_outside(e->arena, e->arena_bytes) : early;
    }
    const int64_t late = rp_process_outside(e->arena, e->arena_bytes);
    RP_CHECK(early > 0 && (late - early <= FLAT || heap_is_held_back()),
             "%s: %lld bytes more behind step %d than step 5", strategy, (long long)(late - early),
             (int)steps);
    RP_CHECK_EQUAL(count.calls, before.calls);
    RP_CHECK_EQUAL(count.live, before.live);
    bench_close(&b);
    RP_CHECK_EQUAL(count.live, 0);
}

/* Replays of whole blocks, and replays that stop at what backward asks for. */
static void test_ME_16_nothing_leaks_over_a_thousand_steps(void) {
    check_thousand_steps("uniform:1");
    check_thousand_steps("auto");
}

/* ---- What is live ---------------------------------------------------------------------------- */

/* ME-14: behind a backward nothing is live but loss and gradients of parameters, in every step. */
static void test_ME_14_only_gradients_of_parameters_outlive_a_step(void) {
    bench b;
    bench_open(&b);
    const model m = model_record(&b, (model_options){.layers = 2});
    bench_program(&b, m.loss, NULL);
    const rp_graph *graph = rp_program_graph(b.program);
    int64_t gradients = 0;
    for (size_t i = 0; i < b.leaf_count; i++)
        if (rp_tensor_needs_gradient(b.tape, b.leaves[i].tensor))
            gradients += (int64_t)(bench_gradient_bytes(&b, b.leaves[i].tensor) + 63) / 64 * 64;
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

/* ---- What dominates -------------------------------------------------------------------------- */

static rp_tensor wide_linear(rp_tape *t, rp_tensor x, int64_t in, int64_t out) {
    const rp_tensor w = rp_parameter(t, "w", RP_F32, RP_SHAPE(in, out));
    return rp_linear(t, x, w, RP_NO_TENSOR, RP_IN_OUT);
}

static const char *node_at_peak(bench *b, const rp_plan_report *report, const char **block) {
    rp_node_info info;
    RP_REQUIRE(report->peak_node != RP_NONE, "no node is named");
    rp_graph_node(rp_program_graph(b->program), report->peak_node, &info);
    *block = info.block;
    return info.name;
}

/* ME-08: two small blocks below a vocabulary of 50257. Nothing runs: the report is what counts. */
static void test_ME_08_the_loss_is_named_where_it_dominates(void) {
    enum { BATCH = 8, SEQ = 1024, VOCAB = 50257, DIM = 64 };
    static const int64_t logits_bytes = 1646821376;
    bench b;
    rp_plan_report limits;
    int64_t base = 0;
    const char *block;
    bench_open(&b);
    rp_tape *t = b.tape;
    const rp_tensor ids = rp_input(t, "ids", RP_I32, RP_SHAPE(BATCH, SEQ));
    const rp_tensor targets = rp_input(t, "targets", RP_I32, RP_SHAPE(BATCH, SEQ));
    const rp_tensor table = rp_parameter(t, "table", RP_F32, RP_SHAPE(VOCAB, DIM));
    rp_tensor h = rp_embedding(t, table, ids);
    for (int i = 0; i < 2; i++) {
        rp_block(t, "block.%d", i);
        const rp_tensor inner = rp_gelu(t, wide_linear(t, h, DIM, 4 * DIM), RP_GELU_TANH);
        h = rp_add(t, h, wide_linear(t, inner, 4 * DIM, DIM));
    }
    rp_block(t, "loss");
    const rp_tensor logits = rp_linear(t, h, table, RP_NO_TENSOR, RP_OUT_IN);
    const rp_tensor loss = rp_cross_entropy(t, logits, targets, -100, RP_REDUCE_MEAN);
    bench_program(&b, loss, NULL);
    RP_CHECK_EQUAL(own_bytes(&b, logits, &base), logits_bytes);
    RP_REQUIRE_OK(b.context, rp_plan_limits(rp_program_graph(b.program), &limits));
    const char *name = node_at_peak(&b, &limits, &block);
    RP_CHECK(strcmp(block, "loss") == 0, "%s sets the minimum", name);
    RP_CHECK(limits.min_feasible_bytes > logits_bytes, "a minimum of %lld",
             (long long)limits.min_feasible_bytes);
    RP_CHECK_STATUS(b.context, bench_plan(&b, NULL, logits_bytes), RP_INFEASIBLE);
    char text[32];
    snprintf(text, sizeof text, "%lld bytes", (long long)limits.min_feasible_bytes);
    RP_CHECK_MESSAGE(b.context, text);
    RP_CHECK_MESSAGE(b.context, name);
    /* checkpointing the blocks does not help: the loss stands at the peak with and without it */
    b.options.backend = RP_BACKEND_NULL;
    b.options.check_replays = false;
    static const char *const strategies[] = {"keep-all", "uniform:1"};
    for (int i = 0; i < 2; i++) {
        bench_make(&b, strategies[i], RP_UNLIMITED);
        bench_run(&b);
        name = node_at_peak(&b, &b.report, &block);
        RP_CHECK(strcmp(block, "loss") == 0, "%s: %s sets the peak", strategies[i], name);
    }
    bench_close(&b);
}

/* ME-09: what recomputing can save is less than 1 % where parameters are nearly everything. */
static void test_ME_09_parameters_are_told_from_activations(void) {
    enum { WIDTH = 8192 };
    bench b;
    rp_memory_report memory;
    rp_plan_report limits;
    bench_open(&b);
    rp_tape *t = b.tape;
    rp_tensor h = rp_input(t, "x", RP_F32, RP_SHAPE(1, WIDTH));
    for (int i = 0; i < 2; i++) {
        rp_block(t, "layer.%d", i);
        h = rp_tanh(t, wide_linear(t, h, WIDTH, WIDTH));
    }
    rp_block_end(t);
    bench_program(&b, rp_sum(t, h), NULL);
    rp_program_memory(b.program, &memory);
    RP_CHECK_EQUAL(memory.parameters_bytes, INT64_C(2) * WIDTH * WIDTH * 4);
    RP_CHECK_EQUAL(memory.gradients_bytes, memory.parameters_bytes);
    RP_CHECK_EQUAL(memory.inputs_bytes, WIDTH * 4);
    RP_REQUIRE_OK(b.context, rp_plan_limits(rp_program_graph(b.program), &limits));
    const int64_t plain = limits.keep_all_peak_bytes;
    const int64_t activations = plain - memory.parameters_bytes - memory.gradients_bytes;
    RP_CHECK(activations > 0 && activations < plain / 100, "activations: %lld of %lld bytes",
             (long long)activations, (long long)plain);
    RP_CHECK(plain - limits.min_feasible_bytes < plain / 100, "%lld of %lld bytes can be saved",
             (long long)(plain - limits.min_feasible_bytes), (long long)plain);
    bench_close(&b);
}

/* ---- Live and reserved ----------------------------------------------------------------------- */

enum { RAGGED_UNIT = 16384, RAGGED_ROWS = 16, RAGGED_STEPS = 100 /* or a quarter of it */ };

/* Values of 1, 8, 3, 1, 8 and 3 MiB for sixteen rows. */
static rp_tensor record_ragged(bench *b, rp_tensor w, int rows) {
    rp_tape *t = b->tape;
    rp_tensor h = rp_mul(
        t, bench_input(b, rows == RAGGED_ROWS ? "x" : "rest", RP_SHAPE(rows, RAGGED_UNIT), NULL),
        w);
    for (int i = 0; i < 2; i++) {
        const rp_tensor narrow = rp_tanh(t, rp_slice(t, h, 1, 0, RAGGED_UNIT));
        rp_tensor copies[8];
        for (int k = 0; k < 8; k++)
            copies[k] = narrow;
        const rp_tensor wide = rp_tanh(t, rp_concat(t, copies, 8, 1));
        h = rp_tanh(t, rp_slice(t, wide, 1, RAGGED_UNIT, 3 * RAGGED_UNIT));
    }
    return rp_sum(t, h);
}

/* The runs beyond the first of nodes with a kernel: a plan counts views too, a run does not. */
static uint64_t count_replayed_kernels(const rp_plan *plan) {
    const rp_graph *graph = rp_plan_graph(plan);
    size_t count = 0;
    uint64_t replays = 0;
    const rp_step *steps = rp_plan_steps(plan, &count);
    for (size_t i = 0; i < count; i++) {
        rp_node_info node;
        bool is_view = true, again = false;
        if (steps[i].kind != RP_STEP_RUN)
            continue;
        rp_graph_node(graph, steps[i].index, &node);
        for (size_t o = 0; o < node.output_count; o++) {
            rp_value_info value;
            rp_graph_value(graph, node.outputs[o], &value);
            is_view = is_view && value.alias_of != RP_NONE;
        }
        for (size_t k = 0; k < i; k++)
            again = again || (steps[k].kind == RP_STEP_RUN && steps[k].index == steps[i].index);
        replays += again && !is_view;
    }
    return replays;
}

static void check_reserved(const rp_executor *executor, uint64_t replays, int64_t arena_bytes,
                           int step) {
    rp_executor_stats stats;
    rp_executor_get_stats(executor, &stats);
    RP_CHECK(stats.arena_bytes == arena_bytes, "step %d: %lld bytes reserved, not %lld", step,
             (long long)stats.arena_bytes, (long long)arena_bytes);
    RP_CHECK(stats.replays == replays, "step %d: other replays", step);
}

/* ME-13: full batches and smaller ones in turn, in one arena. What is reserved is what was
 * predicted, and both numbers are reported. */
static void test_ME_13_reserved_is_predicted_and_does_not_grow(void) {
    bench b;
    rp_program *rest = NULL;
    rp_plan *rest_plan = NULL;
    rp_executor *rest_executor = NULL;
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_executor_options with = RP_EXECUTOR_OPTIONS;
    rp_plan_report report;
    bench_open(&b);
    const rp_tensor w = bench_parameter(&b, "w", RP_SHAPE(RAGGED_UNIT), NULL);
    const rp_tensor full = record_ragged(&b, w, RAGGED_ROWS), less = record_ragged(&b, w, 7);
    bench_program(&b, full, NULL);
    b.options = with;
    bench_make(&b, NULL, bench_minimum(&b));
    RP_CHECK(b.report.recompute_nodes > 0, "nothing is recomputed");
    RP_CHECK(b.report.peak_bytes <= b.report.live_peak_bytes * 101 / 100,
             "%lld bytes reserved for %lld live ones", (long long)b.report.peak_bytes,
             (long long)b.report.live_peak_bytes);
    options.losses = &less;
    options.loss_count = 1;
    RP_REQUIRE_OK(b.context, rp_program_create(b.tape, &options, &rest));
    RP_REQUIRE_OK(b.context, rp_plan_create(rp_program_graph(rest), NULL, &rest_plan, &report));
    with.share = b.executor;
    RP_REQUIRE_OK(b.context, rp_executor_create(rest, rest_plan, &with, &rest_executor));
    const uint64_t replays = count_replayed_kernels(b.plan);
    const uint64_t rest_replays = count_replayed_kernels(rest_plan);
    int64_t calls = 0;
    for (int s = 0; s < (int)rp_test_samples(RAGGED_STEPS, RAGGED_STEPS); s++) {
        const bool ragged = s % 4 == 3;
        if (ragged)
            RP_REQUIRE_OK(b.context, rp_executor_run(rest_executor));
        else
            bench_run(&b);
        check_reserved(ragged ? rest_executor : b.executor, ragged ? rest_replays : replays,
                       ragged ? 0 : b.report.peak_bytes, s);
        calls = s < 4 ? heap_calls() : calls;
        RP_CHECK(heap_calls() == calls, "step %d asked for memory", s);
    }
    rp_executor_destroy(rest_executor);
    rp_plan_destroy(rest_plan);
    rp_program_destroy(rest);
    bench_close(&b);
}

/* ---- What a replay and an op take ------------------------------------------------------------ */

/* ME-15: 64 MiB that are dropped and recomputed come back once, not beside a copy. */
static void test_ME_15_a_recomputed_value_takes_its_bytes_once(void) {
    enum { SIDE = 4096 };
    const int64_t bytes = INT64_C(64) << 20;
    bench b;
    int64_t base = 0;
    bench_open(&b);
    const rp_tensor column = bench_input(&b, "column", RP_SHAPE(SIDE, 1), NULL);
    const rp_tensor line = bench_input(&b, "row", RP_SHAPE(1, SIDE), NULL);
    const rp_tensor v = bench_parameter(&b, "v", RP_SHAPE(SIDE, 1), NULL);
    for (int i = 0; i < SIDE; i++) {
        ((float *)bench_data(&b, column))[i] = (float)(i % 3 - 1);
        ((float *)bench_data(&b, line))[i] = (float)(i % 5);
    }
    const rp_tensor h = rp_matmul(b.tape, column, line, false, false);
    rp_mark_node(b.tape, h, RP_MARK_RECOMPUTE);
    bench_program(&b, rp_sum(b.tape, rp_matmul(b.tape, h, v, false, false)), NULL);
    b.options = (rp_executor_options)RP_EXECUTOR_OPTIONS;
    bench_make(&b, NULL, RP_UNLIMITED);
    bench_run(&b);
    RP_CHECK_EQUAL(own_bytes(&b, h, &base), bytes);
    RP_CHECK_EQUAL(b.report.recompute_nodes, 1);
    const int64_t persistent = rp_graph_persistent_bytes(rp_program_graph(b.program));
    const int64_t more = b.report.peak_bytes - persistent - bytes; /* y, dy and dv beside it */
    RP_CHECK(more > 0 && more <= 3 * SIDE * 4, "64 MiB and %lld bytes", (long long)more);
    /* column i of h is row[i] times the column, which adds up to -1 */
    const float *gradient = bench_gradient(&b, v);
    for (int i = 0; i < SIDE; i++)
        RP_CHECK(gradient[i] == (float)-(i % 5), "dv[%d] is %g", i, (double)gradient[i]);
    bench_close(&b);
}

/* ME-20: what an op takes for itself counts while it runs. Cross entropy takes 8 bytes a row, twice
 * as much as it could keep. */
static void test_ME_20_temporaries_count(void) {
    enum { ROWS = 1024 };
    bench b;
    bench_open(&b);
    const rp_tensor x = bench_input(&b, "x", RP_SHAPE(ROWS, 2), NULL);
    const rp_tensor targets = bench_ids(&b, "targets", RP_SHAPE(ROWS), NULL);
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.forward_only = true;
    const rp_tensor loss = rp_cross_entropy(b.tape, x, targets, -100, RP_REDUCE_MEAN);
    bench_program(&b, loss, &options);
    bench_make(&b, NULL, RP_UNLIMITED);
    bench_run(&b); /* checks that the measured peak is the predicted one */
    const int64_t persistent = rp_graph_persistent_bytes(rp_program_graph(b.program));
    RP_CHECK_EQUAL(b.report.live_peak_bytes - persistent, ROWS * 8 + 64);
    bench_close(&b);
}

/* ME-21: each strategy is predicted for itself, and right. */
static void test_ME_21_each_strategy_has_a_prediction_of_its_own(void) {
    static const char *const strategies[] = {"keep-all", "sqrt", "selective", "uniform:1"};
    bench b;
    int64_t peaks[4];
    uint64_t wanted = 0;
    bench_open(&b);
    const model m = model_record(&b, (model_options){.seq = 1024});
    bench_program(&b, m.loss, NULL);
    for (int i = 0; i < 4; i++) {
        bench_make(&b, strategies[i], RP_UNLIMITED);
        if (i == 1 || i == 2) /* those that fit themselves to the budget */
            bench_make(&b, strategies[i], b.report.strategy_min_bytes);
        bench_run(&b); /* checks that the measured peak is the predicted one */
        peaks[i] = b.report.peak_bytes;
        const uint64_t hash = bench_hash_gradients(&b);
        wanted = i == 0 ? hash : wanted;
        RP_CHECK(hash == wanted, "%s: other bits", strategies[i]);
        for (int k = 0; k < i; k++)
            RP_CHECK(peaks[k] != peaks[i] && peaks[i] < peaks[0], "%s: %lld, %s: %lld",
                     strategies[k], (long long)peaks[k], strategies[i], (long long)peaks[i]);
    }
    bench_close(&b);
}

/* a and b of a + b get the same gradient, which lies in memory once; the parts of a concat get
 * views of one. */
static void test_a_gradient_that_leaves_share_is_counted_once(void) {
    for (int i = 0; i < 2; i++) {
        bench b;
        bench_open(&b);
        const rp_tensor leaves[] = {bench_parameter(&b, "a", RP_SHAPE(64), NULL),
                                    bench_parameter(&b, "b", RP_SHAPE(64), NULL)};
        const rp_tensor both =
            i == 0 ? rp_add(b.tape, leaves[0], leaves[1]) : rp_concat(b.tape, leaves, 2, 0);
        bench_program(&b, rp_sum(b.tape, both), NULL);
        rp_memory_report memory;
        rp_program_memory(b.program, &memory);
        RP_CHECK_EQUAL(memory.gradients_bytes, i == 0 ? 256 : 512);
        bench_close(&b);
    }
}

static const rp_test tests[] = {
    RP_TEST(test_a_gradient_that_leaves_share_is_counted_once),
    RP_TEST(test_no_step_allocates),
    RP_TEST(test_ME_08_the_loss_is_named_where_it_dominates),
    RP_TEST(test_ME_09_parameters_are_told_from_activations),
    RP_TEST(test_ME_13_reserved_is_predicted_and_does_not_grow),
    RP_TEST(test_ME_14_only_gradients_of_parameters_outlive_a_step),
    RP_TEST(test_ME_15_a_recomputed_value_takes_its_bytes_once),
    RP_TEST(test_ME_16_nothing_leaks_over_a_thousand_steps),
    RP_TEST(test_ME_17_a_view_holds_its_base_and_has_no_bytes),
    RP_TEST(test_ME_17_repeated_and_viewed_values_count_once),
    RP_TEST(test_ME_20_unused_outputs_count),
    RP_TEST(test_ME_18_thirteen_gigabytes_of_logits),
    RP_TEST(test_ME_20_temporaries_count),
    RP_TEST(test_ME_21_each_strategy_has_a_prediction_of_its_own),
};
RP_SUITE(memory, tests)
