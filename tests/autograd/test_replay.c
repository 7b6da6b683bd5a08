/* Groups A, B, E, G and L of cases.md: random numbers, places that are shared, side effects, and
 * checks of what a replay computes. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "autograd/program.h"
#include "bench.h"
#include "models.h"

static rp_tensor x, y, w, loss;

static void program_of_loss(bench *b) {
    bench_program(b, loss, NULL);
}

static void program_of_loss_and_y(bench *b) {
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.outputs = &y;
    options.output_count = 1;
    options.seed = 7;
    bench_program(b, loss, &options);
}

static rp_tensor add_x(bench *b, rp_shape shape, const float *values) {
    x = bench_input(b, "x", shape, values);
    rp_require_gradient(b->tape, x, true);
    return x;
}

static uint64_t hash_gradients(bench *b, uint64_t hash) {
    for (size_t i = 0; i < b->leaf_count; i++)
        if (rp_tensor_needs_gradient(b->tape, b->leaves[i].tensor))
            hash = bench_hash(hash, bench_gradient(b, b->leaves[i].tensor),
                              bench_gradient_bytes(b, b->leaves[i].tensor));
    return hash;
}

static const char *const strategies[] = {"keep-all", "uniform:1", "block:2", "auto"};
enum { STRATEGIES = sizeof strategies / sizeof strategies[0] };

/* Those that adapt to a budget get the smallest one. */
static void make_strategy(bench *b, int i) {
    bench_make(b, strategies[i], i == STRATEGIES - 1 ? bench_minimum(b) : RP_UNLIMITED);
}

/* ---- A: random numbers ----------------------------------------------------------------------- */

enum { RNG_01 = 1000 };

/* x is 1, so both y and dx are mask / (1 - p). */
static void check_RNG_01(bench *b) {
    bench_run(b);
    const float *value = bench_values(b, y), *gradient = bench_gradient(b, x);
    int dropped = 0;
    for (int i = 0; i < RNG_01; i++) {
        dropped += value[i] == 0.0f;
        RP_CHECK(value[i] == gradient[i] && (value[i] == 0.0f || value[i] == 2.0f),
                 "element %d: y %g, dx %g", i, (double)value[i], (double)gradient[i]);
    }
    RP_CHECK(dropped > 400 && dropped < 600, "%d of 1000 dropped", dropped);
}

static void test_RNG_01_replays_draw_the_mask_of_the_first_run(void) {
    bench b;
    float ones[RNG_01];
    for (int i = 0; i < RNG_01; i++)
        ones[i] = 1.0f;
    bench_open(&b);
    add_x(&b, RP_SHAPE(RNG_01), ones);
    y = rp_dropout(b.tape, x, 0.5f);
    loss = rp_sum(b.tape, y);
    bench_everywhere(&b, program_of_loss_and_y, check_RNG_01);
    bench_close(&b);
}

/* Three products behind it: the same bits at the smallest budget, 50 %, 90 % and without limit. */
static void test_RNG_01_equal_under_every_budget(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(32, 32), NULL);
    float *data = bench_data(&b, x);
    for (int i = 0; i < 1024; i++)
        data[i] = 1.0f;
    rp_tensor h = rp_dropout(b.tape, x, 0.5f);
    for (int i = 0; i < 3; i++) {
        const rp_tensor weight = bench_parameter(&b, "w", RP_SHAPE(32, 32), NULL);
        data = bench_data(&b, weight);
        for (int e = 0; e < 1024; e++)
            data[e] = (float)((e * 7 + i) % 11) / 11.0f - 0.4f;
        h = rp_tanh(b.tape, rp_matmul(b.tape, h, weight, false, false));
    }
    loss = rp_sum(b.tape, h);
    bench_program(&b, loss, NULL);
    const int64_t least = bench_minimum(&b);
    bench_make(&b, "keep-all", RP_UNLIMITED);
    const int64_t most = b.report.peak_bytes;
    bench_run(&b);
    const uint64_t wanted = hash_gradients(&b, BENCH_HASH);
    const int64_t budgets[] = {least, least + (most - least) / 2, least + (most - least) * 9 / 10,
                               most, RP_UNLIMITED};
    for (int i = 0; i < 5; i++) {
        bench_make(&b, NULL, budgets[i]);
        bench_run(&b);
        RP_CHECK(hash_gradients(&b, BENCH_HASH) == wanted, "budget %lld: other gradients",
                 (long long)budgets[i]);
    }
    bench_close(&b);
}

/* Hash of the losses and gradients of `steps` steps of T0d. */
static uint64_t train_T0d(bench *b, const model *m, int steps) {
    uint64_t hash = BENCH_HASH;
    for (int s = 0; s < steps; s++) {
        model_batch(b, m, (uint64_t)s);
        RP_REQUIRE_OK(b->context, rp_executor_begin_step(b->executor, (uint64_t)s, 1.0f));
        bench_run(b);
        hash = hash_gradients(b, bench_hash(hash, bench_values(b, m->loss), sizeof(float)));
        RP_REQUIRE_OK(b->context, rp_sgd_step(b->executor, 0.1f, 0.0f, 0.0f));
    }
    return hash;
}

static void test_RNG_02_fifty_steps_have_equal_losses(void) {
    bench b;
    bench_open(&b);
    const model m = model_record(&b, (model_options){.layers = 2, .dropout = 0.1f});
    bench_program(&b, m.loss, NULL);
    uint64_t wanted = 0;
    for (int i = 0; i < STRATEGIES; i++) {
        make_strategy(&b, i);
        const uint64_t hash = train_T0d(&b, &m, 50);
        wanted = i == 0 ? hash : wanted;
        RP_CHECK(hash == wanted, "%s: other losses or gradients", strategies[i]);
        RP_CHECK(i == 0 || bench_replays(&b) > 0, "%s: nothing was replayed", strategies[i]);
    }
    bench_close(&b);
}

/* There is no generator that a replay could move: what step 1 draws depends on neither step 0 nor
 * its replays. */
static void test_RNG_03_a_replay_moves_no_generator(void) {
    bench b;
    bench_open(&b);
    const model m = model_record(&b, (model_options){.layers = 2, .dropout = 0.1f});
    bench_program(&b, m.loss, NULL);
    uint64_t hashes[2 * STRATEGIES];
    for (int i = 0; i < 2 * STRATEGIES; i++) {
        make_strategy(&b, i / 2);
        if (i % 2 == 0)
            bench_run(&b);
        RP_REQUIRE_OK(b.context, rp_executor_begin_step(b.executor, 1, 1.0f));
        bench_run(&b);
        hashes[i] = hash_gradients(&b, BENCH_HASH);
        RP_CHECK(hashes[i] == hashes[0], "%s: step 1 has other gradients", strategies[i / 2]);
    }
    RP_REQUIRE_OK(b.context, rp_executor_begin_step(b.executor, 2, 1.0f));
    bench_run(&b);
    RP_CHECK(hash_gradients(&b, BENCH_HASH) != hashes[0], "step 2 draws the masks of step 1");
    bench_close(&b);
}

/* ---- B: places that are shared --------------------------------------------------------------- */

static void check_IP_01(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_gradient(b, w), 54, 108);
    BENCH_CHECK(bench_gradient(b, x), 54, 54);
}

/* The in-place product becomes an op of its own whose output may lie where its input was. */
static void test_IP_01_kept_value_is_scaled_where_it_lies(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(1, 2), (const float[]){1, 2});
    w = bench_parameter(&b, "W", RP_SHAPE(2, 1), (const float[]){1, 1});
    y = rp_matmul(b.tape, x, w, false, false);
    const rp_tensor z = rp_scale(b.tape, y, 3.0f);
    loss = rp_sum(b.tape, rp_mul(b.tape, z, z));
    bench_everywhere(&b, program_of_loss, check_IP_01);
    rp_mark_node(b.tape, y, RP_MARK_KEEP);
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, bench_minimum(&b));
    check_IP_01(&b);
    bench_close(&b);
}

static void check_IP_01_sigmoid(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_gradient(b, x), 0.5f, 0.393224f);
}

static void test_IP_01_sigmoid_keeps_the_output_that_it_reads(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(2), (const float[]){0, 1});
    loss = rp_sum(b.tape, rp_scale(b.tape, rp_sigmoid(b.tape, x), 2.0f));
    bench_everywhere(&b, program_of_loss, check_IP_01_sigmoid);
    bench_close(&b);
}

static void check_IP_03(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_gradient(b, x), 1, 1, 1, 1, 1, 1);
}

static void test_IP_03_transpose_of_a_transpose(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(2, 3), (const float[]){1, 2, 3, 4, 5, 6});
    y = rp_transpose(b.tape, x, 0, 1);
    loss = rp_sum(b.tape, rp_transpose(b.tape, y, 0, 1));
    bench_everywhere(&b, program_of_loss, check_IP_03);
    bench_close(&b);
}

static uint64_t first_hash;

static void check_equal(bench *b) {
    bench_run(b);
    const uint64_t hash = hash_gradients(b, bench_hash(BENCH_HASH, bench_values(b, loss), 4));
    first_hash = first_hash != 0 ? first_hash : hash;
    RP_CHECK(hash == first_hash, "other bits: %016llx", (unsigned long long)hash);
}

static void test_IP_03_norm_relu_and_dropout_of_nothing(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(2, 4), (const float[]){1, -2, 3, 4, 5, 6, -7, 8});
    w = bench_parameter(&b, "w", RP_SHAPE(4), (const float[]){1, 2, -1, 0.5f});
    const rp_tensor norm = rp_layernorm(b.tape, x, w, RP_NO_TENSOR, 1e-5f);
    loss = rp_sum(b.tape, rp_dropout(b.tape, rp_relu(b.tape, norm), 0.0f));
    first_hash = 0;
    bench_everywhere(&b, program_of_loss, check_equal);
    bench_close(&b);
}

static void check_IP_04(bench *b) {
    check_equal(b);
    BENCH_CHECK(bench_values(b, y), 2, 4);
}

/* The boundary y is an output: it must have the same bits whatever lies on it in between. */
static void test_IP_04_ops_in_place_inside_a_segment(void) {
    for (int single = 0; single < 2; single++) {
        bench b;
        bench_open(&b);
        add_x(&b, RP_SHAPE(1, 2), (const float[]){1, 2});
        w = bench_parameter(&b, "w", RP_SHAPE(2, 2), (const float[]){1, -1, 0.5f, 2});
        y = rp_scale(b.tape, x, 2.0f);
        rp_block(b.tape, "segment");
        rp_tensor h = single ? y : rp_linear(b.tape, y, w, RP_NO_TENSOR, RP_IN_OUT);
        h = rp_gelu(b.tape, h, RP_GELU_TANH);
        rp_block_end(b.tape);
        h = single ? rp_mul(b.tape, h, h) : rp_linear(b.tape, h, w, RP_NO_TENSOR, RP_IN_OUT);
        loss = rp_sum(b.tape, single ? rp_linear(b.tape, h, w, RP_NO_TENSOR, RP_IN_OUT) : h);
        first_hash = 0;
        bench_everywhere(&b, program_of_loss_and_y, check_IP_04);
        bench_close(&b);
    }
}

static void check_IP_05(bench *b) {
    for (int run = 0; run < 2; run++) {
        bench_run(b);
        RP_CHECK(fabs((double)bench_scalar(b, loss) - 0.336513) < 1e-6, "L is %g",
                 (double)bench_scalar(b, loss));
        BENCH_CHECK(bench_gradient(b, x), -0.022872f, 0.114195f, -0.024657f);
        BENCH_CHECK(bench_values(b, y), 2, 0, -1);
    }
}

static void test_IP_05_logits_have_a_second_reader(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(1, 3), (const float[]){2, 0, -1});
    const rp_tensor target = bench_ids(&b, "target", RP_SHAPE(1), (const int32_t[]){0});
    y = rp_scale(b.tape, x, 1.0f);
    const rp_tensor ce = rp_cross_entropy(b.tape, y, target, -100, RP_REDUCE_MEAN);
    const rp_tensor square = rp_mean(b.tape, rp_mul(b.tape, y, y));
    loss = rp_add(b.tape, ce, rp_scale(b.tape, square, 0.1f));
    bench_everywhere(&b, program_of_loss_and_y, check_IP_05);
    bench_close(&b);
}

/* Inputs are borrowed from the arena, so changing them in between is refused. */
static void test_IP_08_inputs_must_not_change_before_backward(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(1), (const float[]){3});
    w = bench_parameter(&b, "w", RP_SHAPE(1), (const float[]){1});
    y = rp_mul(b.tape, x, x);
    rp_mark_node(b.tape, y, RP_MARK_RECOMPUTE);
    loss = rp_sum(b.tape, rp_mul(b.tape, y, w));
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    const float five = 5.0f;
    bench_run(&b);
    RP_CHECK_OK(b.context, rp_executor_forward(b.executor));
    RP_CHECK_STATUS(b.context, rp_executor_write(b.executor, x, &five, sizeof five), RP_BAD_STATE);
    RP_CHECK_MESSAGE(b.context, "must not change in between");
    RP_CHECK_STATUS(b.context, rp_sgd_step(b.executor, 1.0f, 0.0f, 0.0f), RP_BAD_STATE);
    RP_CHECK_OK(b.context, rp_executor_backward(b.executor));
    BENCH_CHECK(bench_gradient(&b, x), 6);
    BENCH_CHECK(bench_gradient(&b, w), 9);
    RP_CHECK_OK(b.context, rp_executor_write(b.executor, x, &five, sizeof five));
    bench_run(&b);
    BENCH_CHECK(bench_gradient(&b, x), 10);
    bench_close(&b);
}

static void check_IP_09(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_gradient(b, x), 0.786448f, 0.419974f);
}

static void test_IP_09_op_reads_its_own_output_through_a_reshape(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(2), (const float[]){0.5f, -1});
    y = rp_tanh(b.tape, x);
    loss = rp_sum(b.tape, rp_reshape(b.tape, y, RP_SHAPE(2, -1)));
    bench_everywhere(&b, program_of_loss, check_IP_09);
    rp_mark_node(b.tape, y, RP_MARK_RECOMPUTE);
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    check_IP_09(&b);
    RP_CHECK_EQUAL(bench_replays_of(&b, y), 1);
    bench_close(&b);
}

/* ---- E: side effects ------------------------------------------------------------------------- */

typedef struct effects {
    int calls, replays;
    float running_mean;
} effects;

/* Its input, unchanged; updates a running mean with momentum 0.1. */
static rp_status effect_forward(const rp_custom_call *call) {
    effects *e = call->user;
    e->calls++;
    e->replays += call->is_replay;
    e->running_mean = 0.9f * e->running_mean + 0.1f * ((const float *)call->in[0])[0];
    memcpy(call->out[0], call->in[0], sizeof(float));
    return RP_OK;
}

static rp_status effect_backward(const rp_custom_call *call) {
    memcpy(call->grad_in[0], call->grad_out[0], sizeof(float));
    return RP_OK;
}

/* The op lies in a segment whose end is recomputed; its output is dropped where that is allowed. */
static effects run_with_effects(bool declared) {
    bench b;
    effects e = {0};
    bench_open(&b);
    add_x(&b, RP_SHAPE(1), (const float[]){1});
    rp_custom_op op = RP_CUSTOM_OP;
    op.name = "effect";
    op.forward = effect_forward;
    op.backward = effect_backward;
    op.user = &e;
    op.has_side_effects = declared;
    const rp_tensor_info info = {RP_F32, RP_SHAPE(1)};
    rp_tensor out;
    const rp_tensor in = rp_scale(b.tape, x, 1.0f);
    RP_REQUIRE_OK(b.context, rp_custom(b.tape, &op, &in, 1, &info, 1, &out));
    const rp_tensor end = rp_tanh(b.tape, out);
    loss = rp_sum(b.tape, rp_mul(b.tape, end, out));
    rp_mark_node(b.tape, end, RP_MARK_RECOMPUTE);
    if (!declared)
        rp_mark_node(b.tape, out, RP_MARK_RECOMPUTE);
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    bench_run(&b);
    RP_CHECK(bench_replays(&b) > 0, "nothing was replayed");
    bench_close(&b);
    return e;
}

static void test_ST_01_declared_state_is_updated_once(void) {
    const effects e = run_with_effects(true);
    RP_CHECK_NEAR((double)e.running_mean, 0.1, 1e-6);
    RP_CHECK_EQUAL(e.calls, 1);
}

/* Documented: an op with side effects runs once; one that declares none hears of replays. */
static void test_ST_02_callbacks_run_once_or_hear_of_the_replay(void) {
    const effects once = run_with_effects(true), twice = run_with_effects(false);
    RP_CHECK_EQUAL(once.calls, 1);
    RP_CHECK_EQUAL(once.replays, 0);
    RP_CHECK_EQUAL(twice.calls, 2);
    RP_CHECK_EQUAL(twice.replays, 1);
}

static void test_ST_02_a_mark_cannot_replay_side_effects(void) {
    bench b;
    effects e = {0};
    bench_open(&b);
    add_x(&b, RP_SHAPE(1), (const float[]){1});
    rp_custom_op op = RP_CUSTOM_OP;
    op.name = "effect";
    op.forward = effect_forward;
    op.backward = effect_backward;
    op.user = &e;
    op.has_side_effects = true;
    const rp_tensor_info info = {RP_F32, RP_SHAPE(1)};
    rp_tensor out;
    RP_REQUIRE_OK(b.context, rp_custom(b.tape, &op, &x, 1, &info, 1, &out));
    rp_mark_node(b.tape, out, RP_MARK_RECOMPUTE);
    loss = rp_sum(b.tape, out);
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.losses = &loss;
    options.loss_count = 1;
    rp_program *program = NULL;
    RP_CHECK_STATUS(b.context, rp_program_create(b.tape, &options, &program), RP_BAD_INPUT);
    RP_CHECK_MESSAGE(b.context, "effect");
    bench_close(&b);
}

/* "Keep every second product": decided when the tape is marked, so every step has the same
 * kernels. */
static void test_ST_05_decisions_are_made_once(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(2, 2), (const float[]){0.1f, -0.2f, 0.3f, 0.4f});
    rp_tensor h = x, products[6];
    for (int i = 0; i < 6; i++) {
        rp_block(b.tape, "block.%d", i / 3);
        const rp_tensor weight = bench_parameter(&b, "w", RP_SHAPE(2, 2), NULL);
        float *data = bench_data(&b, weight);
        for (int e = 0; e < 4; e++)
            data[e] = 0.3f * (float)(e + i) - 0.7f;
        products[i] = rp_matmul(b.tape, h, weight, false, false);
        h = rp_tanh(b.tape, products[i]);
    }
    rp_block_end(b.tape);
    loss = rp_sum(b.tape, h);
    first_hash = 0;
    bench_program(&b, loss, NULL);
    bench_make(&b, "keep-all", RP_UNLIMITED);
    check_equal(&b);
    for (int i = 0; i < 6; i++)
        rp_mark_node(b.tape, products[i], i % 2 == 0 ? RP_MARK_KEEP : RP_MARK_RECOMPUTE);
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, bench_minimum(&b));
    uint32_t before[6] = {0};
    for (int step = 0; step < 2; step++) {
        check_equal(&b);
        for (int i = 0; i < 6; i++) {
            const uint32_t replays = bench_replays_of(&b, products[i]);
            RP_CHECK(i % 2 == 1 || replays == 0, "product %d is marked keep and ran again", i);
            RP_CHECK(step == 0 || replays == 2 * before[i], "product %d: %u replays, then %u", i,
                     before[i], replays - before[i]);
            before[i] = replays;
        }
    }
    bench_close(&b);
}

/* The caller's OpenMP settings are not ours: they hold neither in the replay nor afterwards. */
static void test_ST_06_the_callers_thread_count_does_not_matter(void) {
    bench b;
    bench_open(&b);
    const model m = model_record(&b, (model_options){.layers = 2, .dropout = 0.1f});
    loss = m.loss;
    first_hash = 0;
    bench_program(&b, loss, NULL);
    bench_make(&b, "uniform:1", RP_UNLIMITED);
    check_equal(&b);
    const int before = omp_get_max_threads();
    for (int threads = 1; threads <= 7; threads += 2) {
        RP_CHECK_OK(b.context, rp_executor_begin_step(b.executor, 0, 1.0f));
        RP_CHECK_OK(b.context, rp_executor_forward(b.executor));
        omp_set_num_threads(threads);
        RP_CHECK_OK(b.context, rp_executor_backward(b.executor));
        RP_CHECK_EQUAL(omp_get_max_threads(), threads);
        const uint64_t hash = bench_hash(BENCH_HASH, bench_values(&b, loss), sizeof(float));
        RP_CHECK(hash_gradients(&b, hash) == first_hash, "%d threads: other bits", threads);
    }
    omp_set_num_threads(before);
    bench_close(&b);
}

/* ---- G: the same bits every time ------------------------------------------------------------- */

/* All ids equal: a hundred rows add up in one row of the embedding's gradient, in one order. */
static void test_DE_03_a_hundred_runs_have_one_hash(void) {
    bench b;
    bench_open_in(&b, rp_test_context(2));
    const model m = model_record(&b, (model_options){.tied = true});
    memset(bench_data(&b, m.tokens), 0, sizeof(int32_t) * MODEL_BATCH * MODEL_SEQ);
    loss = m.loss;
    first_hash = 0;
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, bench_minimum(&b));
    for (int i = 0; i < 100; i++)
        check_equal(&b);
    bench_close(&b);
}

/* ---- G, L: checked replays ------------------------------------------------------------------- */

/* x plus a counter that differs from call to call in the elements from 5 on. */
static rp_status counter_forward(const rp_custom_call *call) {
    int *counter = call->user;
    const float *in = call->in[0];
    for (int i = 0; i < 8; i++)
        ((float *)call->out[0])[i] = in[i] + (i >= 5 ? (float)*counter : 0.0f);
    (*counter)++;
    return RP_OK;
}

static rp_status counter_backward(const rp_custom_call *call) {
    memcpy(call->grad_in[0], call->grad_out[0], 8 * sizeof(float));
    return RP_OK;
}

static void test_DE_06_a_replay_that_differs_is_named(void) {
    bench b;
    int counter = 0;
    bench_open(&b);
    add_x(&b, RP_SHAPE(8), (const float[]){NAN, 1, 2, 3, 4, 5, 6, 7});
    rp_custom_op op = RP_CUSTOM_OP;
    op.name = "counter";
    op.forward = counter_forward;
    op.backward = counter_backward;
    op.user = &counter;
    const rp_tensor_info info = {RP_F32, RP_SHAPE(8)};
    rp_tensor out;
    rp_block(b.tape, "segment");
    rp_name(b.tape, "impure");
    RP_REQUIRE_OK(b.context, rp_custom(b.tape, &op, &x, 1, &info, 1, &out));
    rp_block_end(b.tape);
    rp_mark_node(b.tape, out, RP_MARK_RECOMPUTE);
    loss = rp_sum(b.tape, rp_mul(b.tape, out, out));
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    RP_CHECK_STATUS(b.context, rp_executor_run(b.executor), RP_VALUE_CHANGED);
    RP_CHECK_MESSAGE(b.context, "node 0 (segment.impure)");
    RP_CHECK_MESSAGE(b.context, "output 0");
    RP_CHECK_MESSAGE(b.context, "element 5");
    RP_CHECK_STATUS(b.context, rp_executor_run(b.executor), RP_BAD_STATE);
    RP_CHECK_STATUS(b.context, rp_executor_begin_step(b.executor, 0, 1.0f), RP_BAD_STATE);

    b.options.check_replays = false; /* what is not asked for is not looked at */
    bench_make(&b, NULL, RP_UNLIMITED);
    bench_run(&b);
    bench_close(&b);
}

static void check_NA_04(bench *b) {
    check_equal(b);
    RP_CHECK(isnan(bench_gradient(b, x)[0]), "the gradient of NaN is %g",
             (double)bench_gradient(b, x)[0]);
}

/* Bits are compared, so NaN equals itself. */
static void test_NA_04_not_a_number_is_reproduced(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(4), (const float[]){NAN, INFINITY, -0.0f, 1});
    y = rp_tanh(b.tape, rp_mul(b.tape, x, x));
    loss = rp_sum(b.tape, rp_mul(b.tape, y, x));
    first_hash = 0;
    bench_everywhere(&b, program_of_loss, check_NA_04);
    bench_close(&b);
}

static const rp_test tests[] = {
    RP_TEST(test_RNG_01_replays_draw_the_mask_of_the_first_run),
    RP_TEST(test_RNG_01_equal_under_every_budget),
    RP_TEST(test_RNG_02_fifty_steps_have_equal_losses),
    RP_TEST(test_RNG_03_a_replay_moves_no_generator),
    RP_TEST(test_IP_01_kept_value_is_scaled_where_it_lies),
    RP_TEST(test_IP_01_sigmoid_keeps_the_output_that_it_reads),
    RP_TEST(test_IP_03_transpose_of_a_transpose),
    RP_TEST(test_IP_03_norm_relu_and_dropout_of_nothing),
    RP_TEST(test_IP_04_ops_in_place_inside_a_segment),
    RP_TEST(test_IP_05_logits_have_a_second_reader),
    RP_TEST(test_IP_08_inputs_must_not_change_before_backward),
    RP_TEST(test_IP_09_op_reads_its_own_output_through_a_reshape),
    RP_TEST(test_ST_01_declared_state_is_updated_once),
    RP_TEST(test_ST_02_callbacks_run_once_or_hear_of_the_replay),
    RP_TEST(test_ST_02_a_mark_cannot_replay_side_effects),
    RP_TEST(test_ST_05_decisions_are_made_once),
    RP_TEST(test_ST_06_the_callers_thread_count_does_not_matter),
    RP_TEST(test_DE_03_a_hundred_runs_have_one_hash),
    RP_TEST(test_DE_06_a_replay_that_differs_is_named),
    RP_TEST(test_NA_04_not_a_number_is_reproduced),
};
RP_SUITE(replay, tests)
