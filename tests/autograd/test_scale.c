/* Long tapes, small stacks, many contexts. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "models.h"

/* ---- BW-06, BW-07: long chains --------------------------------------------------------------- */

enum { CHAIN_STACK = 256 * 1024 };

typedef struct chain {
    int nodes;    /* in a row, or */
    int segments; /* side by side */
    const char *strategy;
    rp_status status;
    char message[512];
    float loss, gradient;
    size_t graph_nodes;
    uint64_t replays;
} chain;

/* x, negated again and again: the gradient is 1 or -1. Every kernel reads what the last one wrote
 * and nothing is kept, so memory is small whatever the length. */
static rp_tensor record_row(rp_tape *tape, rp_tensor x, int nodes) {
    rp_tensor h = x;
    for (int i = 0; i < nodes; i++)
        h = rp_scale(tape, h, -1.0f);
    return rp_sum(tape, h);
}

/* The sum of many x^3, each a segment whose x^2 is recomputed. */
static rp_tensor record_segments(rp_tape *tape, rp_tensor x, int segments) {
    rp_tensor sum = x;
    for (int i = 0; i < segments; i++) {
        rp_block(tape, "segment.%d", i);
        const rp_tensor square = rp_mul(tape, x, x);
        rp_mark_node(tape, square, RP_MARK_RECOMPUTE);
        const rp_tensor cube = rp_mul(tape, square, x);
        rp_block_end(tape);
        sum = rp_add(tape, sum, cube);
    }
    return rp_sum(tape, sum);
}

static rp_status run_chain(chain *c, rp_context *context, rp_tape **tape, rp_program **program,
                           rp_plan **plan, rp_executor **executor) {
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_plan_options plan_options = RP_PLAN_OPTIONS;
    rp_status status = rp_tape_create(context, tape);
    if (status != RP_OK)
        return status;
    const rp_tensor x = rp_parameter(*tape, "x", RP_F32, RP_SHAPE(1));
    const rp_tensor loss =
        c->nodes > 0 ? record_row(*tape, x, c->nodes) : record_segments(*tape, x, c->segments);
    options.losses = &loss;
    options.loss_count = 1;
    plan_options.strategy = c->strategy;
    status = rp_program_create(*tape, &options, program);
    if (status != RP_OK)
        return status;
    c->graph_nodes = rp_graph_node_count(rp_program_graph(*program));
    status = rp_plan_create(rp_program_graph(*program), &plan_options, plan, NULL);
    if (status == RP_OK)
        status = rp_executor_create(*program, *plan, NULL, executor);
    if (status == RP_OK)
        status = rp_executor_write(*executor, x, (const float[]){3}, sizeof(float));
    if (status == RP_OK)
        status = rp_executor_run(*executor);
    if (status == RP_OK)
        status = rp_executor_read(*executor, loss, &c->loss, sizeof(float));
    if (status == RP_OK)
        status = rp_executor_read_gradient(*executor, x, &c->gradient, sizeof(float));
    rp_executor_stats stats;
    rp_executor_get_stats(*executor, &stats);
    c->replays = stats.replays;
    return status;
}

static void *chain_thread(void *argument) {
    chain *c = argument;
    rp_context_options options = RP_CONTEXT_OPTIONS;
    rp_context *context = NULL;
    rp_tape *tape = NULL;
    rp_program *program = NULL;
    rp_plan *plan = NULL;
    rp_executor *executor = NULL;
    options.threads = 1;
    c->status = rp_context_create(&options, &context);
    if (c->status != RP_OK)
        return NULL;
    c->status = run_chain(c, context, &tape, &program, &plan, &executor);
    strncpy(c->message, rp_context_message(context), sizeof c->message - 1);
    rp_executor_destroy(executor);
    rp_plan_destroy(plan);
    rp_program_destroy(program);
    rp_tape_destroy(tape);
    rp_context_destroy(context);
    return NULL;
}

static void run_on_small_stack(chain *c) {
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    RP_REQUIRE(pthread_attr_setstacksize(&attributes, CHAIN_STACK) == 0, "no such stack");
    RP_REQUIRE(pthread_create(&thread, &attributes, chain_thread, c) == 0, "no thread");
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
}

static void check_chain(int nodes, const char *strategy) {
    chain c = {.nodes = nodes, .strategy = strategy};
    run_on_small_stack(&c);
    const float sign = nodes % 2 == 0 ? 1.0f : -1.0f;
    RP_CHECK(c.status == RP_OK, "%d nodes: %s: %s", nodes, rp_status_name(c.status), c.message);
    RP_CHECK(c.loss == 3.0f * sign && c.gradient == sign, "%d nodes: loss %g, gradient %g", nodes,
             (double)c.loss, (double)c.gradient);
    RP_CHECK_EQUAL(c.graph_nodes, 2 * (size_t)nodes + 3);
}

static void test_BW_06_a_million_nodes_on_a_small_stack(void) {
    check_chain((int)rp_test_samples(1000000, 1000000), "keep-all");
}

static void test_BW_06_five_thousand_segments_side_by_side(void) {
    enum { SEGMENTS = 5000 };
    chain c = {.segments = SEGMENTS, .strategy = "uniform:1"};
    run_on_small_stack(&c);
    RP_CHECK(c.status == RP_OK, "%s: %s", rp_status_name(c.status), c.message);
    RP_CHECK_EQUAL(c.replays, SEGMENTS);
    RP_CHECK_EQUAL(c.loss, 3 + 27 * SEGMENTS); /* exact in f32 */
    RP_CHECK_EQUAL(c.gradient, 1 + 27 * SEGMENTS);
}

/* Powers of two and their neighbours: no table has a fixed size. RP_TEST_BRIEF=1: the first two. */
static void test_BW_07_no_number_of_nodes_is_special(void) {
    static const int powers[] = {64, 256, 1024, 4096, 65536};
    for (int i = 0; i < (int)rp_test_samples(5, 5); i++)
        for (int d = -1; d <= 1; d++)
            check_chain(powers[i] + d, "keep-all");
}

/* ---- Many contexts --------------------------------------------------------------------------- */

enum { CONTEXTS = 8, CONTEXT_STEPS = 5 };

typedef struct trainer {
    uint64_t hash;
    int failures;
} trainer;

/* CUnit's checks are not for threads: plain calls, and what fails is counted. */
static void *train_thread(void *argument) {
    trainer *t = argument;
    rp_context_options options = RP_CONTEXT_OPTIONS;
    bench b = {.options = RP_EXECUTOR_OPTIONS};
    options.threads = 1;
    t->failures += rp_context_create(&options, &b.context) != RP_OK;
    t->failures += rp_tape_create(b.context, &b.tape) != RP_OK;
    const rp_tensor x = rp_input(b.tape, "x", RP_F32, RP_SHAPE(4, 16));
    const rp_tensor w = rp_parameter(b.tape, "w", RP_F32, RP_SHAPE(16, 16));
    rp_tensor h = x;
    for (int i = 0; i < 6; i++) {
        rp_block(b.tape, "layer.%d", i);
        h = rp_matmul(b.tape, h, w, false, i % 2 == 1);
        h = rp_dropout(b.tape, rp_tanh(b.tape, h), 0.1f);
    }
    const rp_tensor loss = rp_mean(b.tape, rp_mul(b.tape, h, h));
    rp_program_options program_options = RP_PROGRAM_OPTIONS;
    rp_plan_options plan_options = RP_PLAN_OPTIONS;
    program_options.losses = &loss;
    program_options.loss_count = 1;
    program_options.optimizer = RP_OPTIMIZER_ADAMW;
    plan_options.strategy = "uniform:1";
    float data[256];
    for (int i = 0; i < 256; i++)
        data[i] = (float)(i * 37 % 101) / 101.0f - 0.5f;
    t->failures += rp_program_create(b.tape, &program_options, &b.program) != RP_OK;
    t->failures +=
        rp_plan_create(rp_program_graph(b.program), &plan_options, &b.plan, NULL) != RP_OK;
    t->failures += rp_executor_create(b.program, b.plan, NULL, &b.executor) != RP_OK;
    t->failures += rp_executor_write(b.executor, x, data, 4 * 16 * sizeof(float)) != RP_OK;
    t->failures += rp_executor_write(b.executor, w, data, sizeof data) != RP_OK;
    t->hash = BENCH_HASH;
    for (uint64_t s = 0; s < CONTEXT_STEPS && t->failures == 0; s++) {
        t->failures += rp_executor_begin_step(b.executor, s, 1.0f) != RP_OK;
        t->failures += rp_executor_run(b.executor) != RP_OK;
        t->failures += rp_executor_read_gradient(b.executor, w, data, sizeof data) != RP_OK;
        t->failures += rp_adamw_step(b.executor, NULL) != RP_OK;
        t->hash = bench_hash(t->hash, data, sizeof data);
    }
    rp_executor_destroy(b.executor);
    rp_plan_destroy(b.plan);
    rp_program_destroy(b.program);
    rp_tape_destroy(b.tape);
    rp_context_destroy(b.context);
    return NULL;
}

static void test_eight_contexts_in_eight_threads_give_the_bits_of_one(void) {
    trainer alone = {0, 0}, together[CONTEXTS] = {{0, 0}};
    pthread_t threads[CONTEXTS];
    train_thread(&alone);
    RP_CHECK_EQUAL(alone.failures, 0);
    for (int i = 0; i < CONTEXTS; i++)
        RP_REQUIRE(pthread_create(&threads[i], NULL, train_thread, &together[i]) == 0, "no thread");
    for (int i = 0; i < CONTEXTS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < CONTEXTS; i++) {
        RP_CHECK_EQUAL(together[i].failures, 0);
        RP_CHECK(together[i].hash == alone.hash, "thread %d: other bits", i);
    }
}

static const rp_test tests[] = {
    RP_TEST(test_BW_06_a_million_nodes_on_a_small_stack),
    RP_TEST(test_BW_06_five_thousand_segments_side_by_side),
    RP_TEST(test_BW_07_no_number_of_nodes_is_special),
    RP_TEST(test_eight_contexts_in_eight_threads_give_the_bits_of_one),
};
RP_SUITE(scale, tests)
