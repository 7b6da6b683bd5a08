/* Groups J and M of cases.md: semantics of backward, and gradients that accumulate. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/program.h"
#include "bench.h"
#include "models.h"

static rp_tensor x, w, y, loss;

static void program_of_loss(bench *b) {
    bench_program(b, loss, NULL);
}

static rp_tensor add_x(bench *b, rp_shape shape, const float *values) {
    x = bench_input(b, "x", shape, values);
    rp_require_gradient(b->tape, x, true);
    return x;
}

/* ---- BW-01: a saved value is read twice ------------------------------------------------------ */

static const void *first_look, *second_look;
static float looked_at;

static rp_status cube_forward(const rp_custom_call *call) {
    const float v = ((const float *)call->in[0])[0];
    ((float *)call->out[0])[0] = v * v * v;
    return RP_OK;
}

static rp_status cube_backward(const rp_custom_call *call) {
    first_look = call->in[0];
    const float once = ((const float *)call->in[0])[0];
    second_look = call->in[0];
    const float twice = ((const float *)call->in[0])[0];
    looked_at = twice;
    ((float *)call->grad_in[0])[0] = 3.0f * once * twice * ((const float *)call->grad_out[0])[0];
    return RP_OK;
}

static rp_tensor record_cube(bench *b, rp_tensor in, bool with_backward) {
    rp_custom_op op = RP_CUSTOM_OP;
    op.name = "cube";
    op.forward = cube_forward;
    op.backward = with_backward ? cube_backward : NULL;
    op.backward_reads_outputs = false;
    const rp_tensor_info info = {RP_F32, RP_SHAPE(1)};
    rp_tensor out = RP_NO_TENSOR;
    RP_REQUIRE_OK(b->context, rp_custom(b->tape, &op, &in, 1, &info, 1, &out));
    return out;
}

static void check_BW_01(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_gradient(b, x), 24); /* (2 x)^3 at 1 */
    CU_ASSERT_PTR_EQUAL(first_look, second_look);
    BENCH_CHECK(&looked_at, 2);
}

static void test_BW_01_saved_value_read_twice_is_replayed_once(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(1), (const float[]){1});
    const rp_tensor h = rp_scale(b.tape, x, 2.0f);
    loss = rp_sum(b.tape, record_cube(&b, h, true));
    bench_everywhere(&b, program_of_loss, check_BW_01);
    rp_mark_node(b.tape, h, RP_MARK_RECOMPUTE);
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    check_BW_01(&b);
    RP_CHECK_EQUAL(bench_replays_of(&b, h), 1);
    bench_close(&b);
}

/* ---- BW-02: backward twice ------------------------------------------------------------------- */

static void program_that_accumulates(bench *b) {
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.accumulate = true;
    bench_program(b, loss, &options);
}

static void check_BW_02(bench *b) {
    RP_REQUIRE_OK(b->context, rp_executor_begin_step(b->executor, 0, 1.0f));
    bench_run(b);
    BENCH_CHECK(bench_gradient(b, w), 10, 14, 16, 24);
    bench_run(b);
    BENCH_CHECK(bench_gradient(b, w), 20, 28, 32, 48);
    bench_run(b);
    BENCH_CHECK(bench_gradient(b, w), 30, 42, 48, 72);
    RP_CHECK_STATUS(b->context, rp_executor_backward(b->executor), RP_BAD_STATE);
    RP_CHECK_MESSAGE(b->context, "gone after one backward");
    BENCH_CHECK(bench_gradient(b, w), 30, 42, 48, 72);
    RP_REQUIRE_OK(b->context, rp_executor_begin_step(b->executor, 1, 1.0f));
    BENCH_CHECK(bench_gradient(b, w), 0, 0, 0, 0);
}

/* The gradient of an input does not accumulate; after a new step began it is not there. */
static void check_BW_02_then_input(bench *b) {
    RP_REQUIRE_OK(b->context, rp_executor_begin_step(b->executor, 0, 1.0f));
    for (int run = 0; run < 3; run++) {
        bench_run(b);
        BENCH_CHECK(bench_gradient(b, x), 17, 37);
    }
    RP_REQUIRE_OK(b->context, rp_executor_begin_step(b->executor, 1, 1.0f));
    CU_ASSERT_PTR_NULL(rp_executor_gradient(b->executor, x));
    CU_ASSERT_PTR_NOT_NULL(rp_executor_gradient(b->executor, w));
}

static void test_BW_02_gradients_add_up_until_the_step_ends(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(1, 2), (const float[]){1, 2});
    w = bench_parameter(&b, "w", RP_SHAPE(2, 2), (const float[]){1, 2, 3, 4});
    const rp_tensor once = rp_matmul(b.tape, x, w, false, false);
    loss = rp_sum(b.tape, rp_matmul(b.tape, once, w, false, false));
    bench_everywhere(&b, program_that_accumulates, check_BW_02_then_input);
    bench_everywhere(&b, program_that_accumulates, check_BW_02);
    bench_close(&b);
}

/* ---- BW-03: the gradient of a subset --------------------------------------------------------- */

static size_t nodes_of(bench *b, rp_op op) {
    size_t count = 0;
    for (size_t n = 0; n < b->program->code.node_count; n++)
        count += b->program->code.nodes[n].op == op;
    return count;
}

static void test_BW_03_gradient_of_a_subset_of_parameters(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(1, 2), (const float[]){1, 2});
    const rp_tensor w1 =
        bench_parameter(&b, "W1", RP_SHAPE(2, 2), (const float[]){.1f, .2f, .3f, .4f});
    const rp_tensor w2 = bench_parameter(&b, "W2", RP_SHAPE(2, 1), (const float[]){1, 2});
    rp_block(b.tape, "first");
    const rp_tensor h = rp_tanh(b.tape, rp_matmul(b.tape, x, w1, false, false));
    rp_block(b.tape, "second");
    loss = rp_sum(b.tape, rp_matmul(b.tape, h, w2, false, false));
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.wanted = &w2;
    options.wanted_count = 1;
    bench_program(&b, loss, &options);
    RP_CHECK_EQUAL(rp_program_parameter_count(b.program), 1);
    RP_CHECK_EQUAL(nodes_of(&b, RP_OP_TANH_BACKWARD), 0);
    bench_make(&b, NULL, RP_UNLIMITED);
    bench_run(&b);
    BENCH_CHECK(bench_gradient(&b, w2), tanhf(0.7f), tanhf(1.0f));
    CU_ASSERT_PTR_NULL(rp_executor_gradient(b.executor, w1));
    CU_ASSERT_PTR_NULL(rp_executor_gradient(b.executor, x));
    RP_CHECK_EQUAL(bench_replays(&b), 0);
    float unused[4];
    RP_CHECK_STATUS(b.context, rp_executor_read_gradient(b.executor, w1, unused, sizeof unused),
                    RP_INVALID_ARGUMENT);
    bench_close(&b);
}

/* ---- BW-04: higher order --------------------------------------------------------------------- */

static void check_first_of_cube(bench *b) {
    bench_run(b);
    const float at = *(const float *)bench_data(b, x);
    BENCH_CHECK(bench_gradient(b, x), 3 * at * at);
}

static void check_second_of_cube(bench *b) {
    bench_run(b);
    const float at = *(const float *)bench_data(b, x);
    BENCH_CHECK(bench_gradient(b, x), 6 * at);
}

/* Not supported: a gradient is no tensor of the tape, so it cannot be named as a loss, and a tape
 * does not grow by being differentiated. A first derivative that is written down with ops is a loss
 * like any other. At 2 both derivatives are 12, so 3 is tried too. */
static void test_BW_04_a_gradient_cannot_be_differentiated_again(void) {
    for (int at = 2; at <= 3; at++) {
        bench b;
        rp_program *program = NULL;
        rp_program_options options = RP_PROGRAM_OPTIONS;
        bench_open(&b);
        add_x(&b, RP_SHAPE(1), (const float[]){(float)at});
        rp_block(b.tape, "segment");
        const rp_tensor square = rp_mul(b.tape, x, x), cube = rp_mul(b.tape, square, x);
        rp_block_end(b.tape);
        const rp_tensor last = rp_sum(b.tape, cube);
        loss = last;
        bench_everywhere(&b, program_of_loss, check_first_of_cube);

        const rp_tensor behind = {last.id + 1}; /* where a tensor of backward would be */
        options.losses = &behind;
        options.loss_count = 1;
        RP_CHECK_STATUS(b.context, rp_program_create(b.tape, &options, &program),
                        RP_INVALID_ARGUMENT);
        RP_CHECK_MESSAGE(b.context, "the tape has 1 to");
        CU_ASSERT_PTR_NULL(program);
        options.losses = &last;
        options.outputs = &behind;
        options.output_count = 1;
        RP_CHECK_STATUS(b.context, rp_program_create(b.tape, &options, &program),
                        RP_INVALID_ARGUMENT);
        RP_CHECK_MESSAGE(b.context, "the tape has 1 to");
        CU_ASSERT_PTR_NULL(program);

        loss = rp_sum(b.tape, rp_scale(b.tape, square, 3.0f));
        bench_everywhere(&b, program_of_loss, check_second_of_cube);
        bench_close(&b);
    }
}

/* ---- BW-08: threads -------------------------------------------------------------------------- */

/* Two tapes in two threads, the same weights in the memory of each. */
typedef struct worker {
    bench *b;
    model m;
    rp_status status;
} worker;

static void *run_forward(void *argument) {
    worker *work = argument;
    work->status = rp_executor_forward(work->b->executor);
    return NULL;
}

static void *run_backward(void *argument) {
    worker *work = argument;
    work->status = rp_executor_backward(work->b->executor);
    return NULL;
}

static void run_both(worker works[2], void *(*run)(void *)) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        RP_REQUIRE(pthread_create(&threads[i], NULL, run, &works[i]) == 0, "no thread");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++)
        RP_CHECK_OK(works[i].b->context, works[i].status);
}

static void test_BW_08_backward_in_another_thread_than_forward(void) {
    static bench benches[3];
    worker works[3];
    for (int i = 0; i < 3; i++) {
        bench_open(&benches[i]);
        works[i] = (worker){
            &benches[i], model_record(&benches[i], (model_options){.layers = 2, .dropout = 0.1f}),
            RP_OK};
        bench_program(&benches[i], works[i].m.loss, NULL);
        bench_make(&benches[i], i < 2 ? "uniform:1" : "keep-all", RP_UNLIMITED);
    }
    bench_run(&benches[2]);
    run_both(works, run_forward);
    run_both(works, run_backward);
    for (int i = 0; i < 2; i++)
        for (size_t j = 3; j < benches[i].leaf_count; j++)
            RP_CHECK(memcmp(bench_gradient(&benches[i], benches[i].leaves[j].tensor),
                            bench_gradient(&benches[2], benches[2].leaves[j].tensor),
                            bench_gradient_bytes(&benches[i], benches[i].leaves[j].tensor)) == 0,
                     "thread %d: another gradient of leaf %zu", i, j);
    for (int i = 0; i < 3; i++)
        bench_close(&benches[i]);
}

/* ---- BW-09: an op without backward ----------------------------------------------------------- */

static void test_BW_09_op_without_backward_is_a_status(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(1), (const float[]){2});
    rp_block(b.tape, "segment");
    const rp_tensor in = rp_scale(b.tape, x, 1.0f);
    rp_name(b.tape, "one_way");
    y = record_cube(&b, in, false);
    rp_block_end(b.tape);
    const rp_tensor blocked = rp_sum(b.tape, y), open = rp_sum(b.tape, rp_mul(b.tape, x, x));
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_program *program = NULL;
    options.losses = &blocked;
    options.loss_count = 1;
    RP_CHECK_STATUS(b.context, rp_program_create(b.tape, &options, &program), RP_UNSUPPORTED);
    RP_CHECK_MESSAGE(b.context, "segment.one_way");
    CU_ASSERT_PTR_NULL(program);

    /* the tape is as good as before, and the op too where no gradient flows */
    options.losses = NULL;
    options.loss_count = 0;
    options.outputs = &y;
    options.output_count = 1;
    bench_program(&b, open, &options);
    bench_make(&b, NULL, RP_UNLIMITED);
    bench_run(&b);
    BENCH_CHECK(bench_gradient(&b, x), 4);
    BENCH_CHECK(bench_values(&b, y), 8);
    bench_close(&b);
}

/* ---- BW-11: two norms ------------------------------------------------------------------------ */

/* Both norms of every block are recomputed; then the same parameters are evaluated. */
static void test_BW_11_norms_are_recomputed_in_their_order(void) {
    bench b;
    float losses[2][2];
    bench_open(&b);
    const model m = model_record(&b, (model_options){0});
    const rp_code *code = &b.tape->code;
    for (int i = 0; i < 2; i++) {
        for (size_t n = 0; n < code->node_count; n++)
            if (code->nodes[n].op == RP_OP_LAYERNORM && i == 1)
                rp_mark_node(b.tape, (rp_tensor){rp_code_outputs(code, &code->nodes[n])[0] + 1},
                             RP_MARK_RECOMPUTE);
        bench_program(&b, m.loss, NULL);
        bench_make(&b, NULL, RP_UNLIMITED);
        bench_run(&b);
        RP_CHECK_EQUAL(bench_replays(&b), i == 0 ? 0 : 9); /* two a block and the last one */
        losses[i][0] = bench_scalar(&b, m.loss);
        RP_REQUIRE_OK(b.context, rp_sgd_step(b.executor, 0.1f, 0.0f, 0.0f));
        RP_REQUIRE_OK(b.context, rp_executor_forward(b.executor));
        losses[i][1] = bench_scalar(&b, m.loss);
    }
    RP_CHECK(memcmp(losses[0], losses[1], sizeof losses[0]) == 0,
             "losses %g and %g, then %g and %g", (double)losses[0][0], (double)losses[0][1],
             (double)losses[1][0], (double)losses[1][1]);
    RP_CHECK(losses[0][1] < losses[0][0], "the step did not help");
    bench_close(&b);
}

/* ---- Several losses -------------------------------------------------------------------------- */

static void check_losses(bench *b) {
    RP_REQUIRE_OK(b->context, rp_executor_begin_step(b->executor, 0, 0.5f));
    bench_run(b);
    BENCH_CHECK(bench_values(b, loss), 5);
    BENCH_CHECK(bench_values(b, y), 9);
    BENCH_CHECK(bench_gradient(b, x), 2.5f, 3.5f); /* (2 x + 3) / 2 */
}

static void program_of_two_losses(bench *b) {
    const rp_tensor losses[] = {loss, y};
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.losses = losses;
    options.loss_count = 2;
    bench_program(b, RP_NO_TENSOR, &options);
}

static void test_losses_add_up_each_with_the_loss_scale(void) {
    bench b;
    bench_open(&b);
    add_x(&b, RP_SHAPE(2), (const float[]){1, 2});
    loss = rp_sum(b.tape, rp_mul(b.tape, x, x));
    y = rp_sum(b.tape, rp_scale(b.tape, x, 3.0f));
    bench_everywhere(&b, program_of_two_losses, check_losses);
    bench_close(&b);
}

/* ---- Contributions that meet -------------------------------------------------------------*/

/* The sum so far is also what the kernel reads: the product must not be added in place. With
 * h = p, L = sum(h + h W) the gradient is 1 + W 1. */
static void check_residual(bench *b) {
    RP_REQUIRE_OK(b->context, rp_executor_begin_step(b->executor, 0, 1.0f));
    bench_run(b);
    BENCH_CHECK(bench_values(b, loss), 3 + 1 * 1 + 2 * 5 + 1 * 2 + 2 * 7);
    BENCH_CHECK(bench_gradient(b, x), 1 + 1 + 2, 1 + 5 + 7);
    BENCH_CHECK(bench_gradient(b, w), 1, 1, 2, 2);
}

static void test_residual_around_a_product(void) {
    bench b;
    bench_open(&b);
    x = bench_parameter(&b, "p", RP_SHAPE(1, 2), (const float[]){1, 2});
    w = bench_parameter(&b, "w", RP_SHAPE(2, 2), (const float[]){1, 2, 5, 7});
    const rp_tensor h = rp_scale(b.tape, x, 1.0f);
    const rp_tensor product = rp_linear(b.tape, h, w, RP_NO_TENSOR, RP_IN_OUT);
    loss = rp_sum(b.tape, rp_add(b.tape, h, product));
    bench_everywhere(&b, program_of_loss, check_residual);
    bench_everywhere(&b, program_that_accumulates, check_residual);
    bench_close(&b);
}

static float wanted_of_attention[24];

static void check_attention(bench *b) {
    RP_REQUIRE_OK(b->context, rp_executor_begin_step(b->executor, 0, 1.0f));
    bench_run(b);
    bench_check("dx", bench_gradient(b, x), wanted_of_attention, 24);
}

/* One tensor as q, k and v: three gradients of one node for one tensor, against those of copies. */
static void test_one_tensor_in_three_slots(void) {
    bench b;
    rp_attention_options attention = RP_ATTENTION_OPTIONS;
    bench_open(&b);
    x = bench_parameter(&b, "x", RP_SHAPE(1, 3, 8), NULL);
    for (int i = 0; i < 24; i++)
        ((float *)bench_data(&b, x))[i] = (float)(i * 5 % 7) / 7.0f;
    attention.heads = 2;
    const rp_tensor q = rp_scale(b.tape, x, 1.0f), k = rp_scale(b.tape, x, 1.0f);
    const rp_tensor v = rp_scale(b.tape, x, 1.0f);
    const rp_tensor copies = rp_attention(b.tape, q, k, v, &attention);
    loss = rp_sum(b.tape, rp_mul(b.tape, copies, copies));
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    bench_run(&b);
    memcpy(wanted_of_attention, bench_gradient(&b, x), sizeof wanted_of_attention);
    const rp_tensor same = rp_attention(b.tape, x, x, x, &attention);
    loss = rp_sum(b.tape, rp_mul(b.tape, same, same));
    bench_everywhere(&b, program_of_loss, check_attention);
    bench_everywhere(&b, program_that_accumulates, check_attention);
    bench_close(&b);
}

/* Rows 1 and 2 of three are a view, column 1 is a copy; both give their part of the gradient. */
static void check_slices(bench *b) {
    RP_REQUIRE_OK(b->context, rp_executor_begin_step(b->executor, 0, 1.0f));
    bench_run(b);
    BENCH_CHECK(bench_values(b, loss), 3 * 3 + 4 * 4 + 5 * 5 + 6 * 6 + 2 + 4 + 6);
    BENCH_CHECK(bench_gradient(b, x), 0, 1, 6, 9, 10, 13);
}

static void test_slices_give_their_part_of_the_gradient(void) {
    bench b;
    bench_open(&b);
    x = bench_parameter(&b, "x", RP_SHAPE(3, 2), (const float[]){1, 2, 3, 4, 5, 6});
    const rp_tensor rows = rp_slice(b.tape, x, 0, 1, 2), column = rp_slice(b.tape, x, 1, 1, 1);
    loss = rp_add(b.tape, rp_sum(b.tape, rp_mul(b.tape, rows, rows)), rp_sum(b.tape, column));
    bench_everywhere(&b, program_of_loss, check_slices);
    bench_everywhere(&b, program_that_accumulates, check_slices);
    bench_close(&b);
}

/* A batch of nothing has a loss of 0 and gradients of 0. */
static void check_PL_12(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_values(b, loss), 0);
    BENCH_CHECK(bench_gradient(b, w), 0, 0, 0, 0);
}

static void test_PL_12_empty_batch(void) {
    bench b;
    bench_open(&b);
    x = bench_input(&b, "x", RP_SHAPE(0, 3, 2), NULL);
    w = bench_parameter(&b, "w", RP_SHAPE(2, 2), (const float[]){1, 2, 3, 4});
    rp_attention_options attention = RP_ATTENTION_OPTIONS;
    rp_tensor h = rp_linear(b.tape, x, w, RP_NO_TENSOR, RP_IN_OUT);
    h = rp_add(b.tape, h, rp_attention(b.tape, h, h, h, &attention));
    loss = rp_sum(b.tape, rp_gelu(b.tape, h, RP_GELU_ERF));
    bench_everywhere(&b, program_of_loss, check_PL_12);
    bench_close(&b);
}

/* Every op of a GPT-2, with dropout and both forms of attention, over a batch of nothing. */
static void check_PL_12_model(bench *b) {
    RP_REQUIRE_OK(b->context, rp_executor_begin_step(b->executor, 0, 1.0f));
    bench_run(b);
    BENCH_CHECK(bench_values(b, loss), 0);
    for (size_t i = 0; i < b->leaf_count; i++) {
        if (!rp_tensor_needs_gradient(b->tape, b->leaves[i].tensor))
            continue;
        const float *gradient = bench_gradient(b, b->leaves[i].tensor);
        for (size_t e = 0; e < b->leaves[i].count; e++)
            RP_CHECK(gradient[e] == 0.0f, "leaf %zu, element %zu: %g", i, e, (double)gradient[e]);
    }
    RP_CHECK_OK(b->context, rp_sgd_step(b->executor, 0.1f, 0.0f, 1.0f));
}

static rp_tensor record_empty_model(bench *b, bool unfused) {
    enum { SEQ = 3, DIM = 4, VOCAB = 5 };
    rp_tape *t = b->tape;
    rp_attention_options attention = RP_ATTENTION_OPTIONS;
    attention.heads = 2;
    attention.dropout = 0.1f;
    const rp_tensor ids = bench_ids(b, "ids", RP_SHAPE(0, SEQ), NULL);
    const rp_tensor targets = bench_ids(b, "targets", RP_SHAPE(0, SEQ), NULL);
    const rp_tensor places = bench_ids(b, "places", RP_SHAPE(SEQ), (const int32_t[]){0, 1, 2});
    const rp_tensor wte = bench_parameter(b, "wte", RP_SHAPE(VOCAB, DIM), NULL);
    const rp_tensor wpe = bench_parameter(b, "wpe", RP_SHAPE(SEQ, DIM), NULL);
    const rp_tensor gain = bench_parameter(b, "gain", RP_SHAPE(DIM), NULL);
    const rp_tensor shift = bench_parameter(b, "shift", RP_SHAPE(DIM), NULL);
    const rp_tensor qkv = bench_parameter(b, "qkv", RP_SHAPE(DIM, 3 * DIM), NULL);
    const rp_tensor bias = bench_parameter(b, "bias", RP_SHAPE(3 * DIM), NULL);
    for (size_t i = 0; i < b->leaf_count; i++)
        for (size_t e = 0; i > 2 && e < b->leaves[i].count; e++)
            ((float *)b->leaves[i].data)[e] = 0.5f + (float)e;
    rp_tensor h = rp_add(t, rp_embedding(t, wte, ids), rp_embedding(t, wpe, places));
    rp_tensor inner = rp_linear(t, rp_layernorm(t, h, gain, shift, 1e-5f), qkv, bias, RP_IN_OUT);
    inner = unfused ? rp_attention_unfused(t, inner, RP_NO_TENSOR, RP_NO_TENSOR, &attention)
                    : rp_attention(t, inner, RP_NO_TENSOR, RP_NO_TENSOR, &attention);
    h = rp_add(t, h, rp_dropout(t, rp_gelu(t, inner, RP_GELU_TANH), 0.1f));
    const rp_tensor logits = rp_linear(t, h, wte, RP_NO_TENSOR, RP_OUT_IN);
    return rp_cross_entropy(t, logits, targets, -100, RP_REDUCE_MEAN);
}

static void test_PL_12_empty_batch_of_a_whole_model(void) {
    for (int unfused = 0; unfused < 2; unfused++) {
        bench b;
        bench_open(&b);
        loss = record_empty_model(&b, unfused == 1);
        bench_everywhere(&b, program_of_loss, check_PL_12_model);
        bench_everywhere(&b, program_that_accumulates, check_PL_12_model);
        bench_close(&b);
    }
}

/* ---- M: accumulation ------------------------------------------------------------------------- */

/* A loss that is the sum over tokens of w times the token's number; absent tokens are 0. */
static void open_tokens(bench *b) {
    bench_open(b);
    x = bench_input(b, "tokens", RP_SHAPE(3), NULL);
    w = bench_parameter(b, "w", RP_SHAPE(1), (const float[]){1});
    const rp_tensor column = rp_reshape(b->tape, x, RP_SHAPE(3, 1));
    loss = rp_sum(b->tape, rp_mul(b->tape, column, w));
}

static void add_micro_batch(bench *b, float first, float second, float third) {
    float *data = bench_data(b, x);
    data[0] = first;
    data[1] = second;
    data[2] = third;
    bench_write(b);
    bench_run(b);
}

static void check_GA_01(bench *b) {
    RP_REQUIRE_OK(b->context, rp_executor_begin_step(b->executor, 0, 1.0f / 4.0f));
    add_micro_batch(b, 1, 2, 3);
    float sum = bench_scalar(b, loss);
    add_micro_batch(b, 6, 0, 0);
    sum += bench_scalar(b, loss);
    BENCH_CHECK(bench_gradient(b, w), 3);
    RP_CHECK_NEAR((double)sum / 4.0, 3.0, 1e-6);
}

static void test_GA_01_the_mean_is_over_all_tokens(void) {
    bench b;
    open_tokens(&b);
    bench_everywhere(&b, program_that_accumulates, check_GA_01);
    bench_close(&b);
}

/* Cross entropy with ids to ignore: the sum over the valid ones, scaled by their number in all
 * micro-batches, is the mean of the tokens in one batch. */
static void test_GA_01_cross_entropy_of_unequal_micro_batches(void) {
    bench b;
    bench_open(&b);
    const float logits[] = {1, 2, 3, 0.5f, -1, 2, 0, 0, 1, 3, 1, 2};
    w = bench_parameter(&b, "logits", RP_SHAPE(4, 3), logits);
    const rp_tensor targets =
        bench_ids(&b, "targets", RP_SHAPE(4), (const int32_t[]){0, 1, -100, 2});
    const rp_tensor sum = rp_cross_entropy(b.tape, w, targets, -100, RP_REDUCE_SUM);
    const rp_tensor mean = rp_cross_entropy(b.tape, w, targets, -100, RP_REDUCE_MEAN);
    float wanted[12];
    bench_program(&b, mean, NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    bench_run(&b);
    memcpy(wanted, bench_gradient(&b, w), sizeof wanted);
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.accumulate = true;
    bench_program(&b, sum, &options);
    bench_make(&b, NULL, RP_UNLIMITED);
    RP_REQUIRE_OK(b.context, rp_executor_begin_step(b.executor, 0, 1.0f / 3.0f));
    const int32_t parts[2][4] = {{0, 1, -100, -100}, {-100, -100, -100, 2}};
    for (int i = 0; i < 2; i++) {
        RP_REQUIRE_OK(b.context, rp_executor_write(b.executor, targets, parts[i], sizeof parts[i]));
        bench_run(&b);
    }
    bench_check("gradient of the logits", bench_gradient(&b, w), wanted, 12);
    bench_close(&b);
}

static void check_GA_02(bench *b) {
    int left = 10;
    for (int step = 0; step < 3; step++) {
        const int count = left < 4 ? left : 4;
        left -= count;
        RP_REQUIRE_OK(b->context,
                      rp_executor_begin_step(b->executor, (uint64_t)step, 1.0f / (float)count));
        for (int i = 0; i < count; i++)
            add_micro_batch(b, 1, 0, 0);
        BENCH_CHECK(bench_gradient(b, w), 1);
    }
}

static void test_GA_02_a_short_last_window_has_its_own_scale(void) {
    bench b;
    open_tokens(&b);
    bench_everywhere(&b, program_that_accumulates, check_GA_02);
    bench_close(&b);
}

/* Runs of nodes that write the gradient of a parameter. */
static uint32_t writes_of(bench *b, uint32_t parameter) {
    const rp_code *code = &b->program->code;
    const uint32_t value = b->program->gradients[parameter].gradient;
    uint32_t count = 0;
    for (size_t n = 0; n < code->node_count; n++) {
        const uint32_t *out = rp_code_outputs(code, &code->nodes[n]);
        for (uint32_t k = 0; k < code->nodes[n].out_count; k++)
            count += out[k] == value ? b->runs[n] : 0;
    }
    return count;
}

static void test_GA_03_accumulation_with_replay(void) {
    static const char *const strategies[] = {"keep-all", "uniform:1"};
    bench b;
    bench_open(&b);
    const model m = model_record(&b, (model_options){0});
    loss = m.loss;
    program_that_accumulates(&b);
    uint64_t hashes[2];
    for (int i = 0; i < 2; i++) {
        bench_make(&b, strategies[i], RP_UNLIMITED);
        RP_REQUIRE_OK(b.context, rp_executor_begin_step(b.executor, 0, 0.25f));
        for (uint64_t micro_batch = 0; micro_batch < 4; micro_batch++) {
            model_batch(&b, &m, micro_batch);
            bench_run(&b);
        }
        hashes[i] = BENCH_HASH;
        for (size_t j = 3; j < b.leaf_count; j++)
            hashes[i] = bench_hash(hashes[i], bench_gradient(&b, b.leaves[j].tensor),
                                   bench_gradient_bytes(&b, b.leaves[j].tensor));
        for (uint32_t p = 0; p < rp_program_parameter_count(b.program); p++)
            RP_CHECK_EQUAL(writes_of(&b, p), 4);
    }
    RP_CHECK(bench_replays(&b) > 0, "nothing was replayed");
    RP_CHECK(hashes[0] == hashes[1], "replays change what accumulates");
    bench_close(&b);
}

static const rp_test tests[] = {
    RP_TEST(test_BW_01_saved_value_read_twice_is_replayed_once),
    RP_TEST(test_BW_02_gradients_add_up_until_the_step_ends),
    RP_TEST(test_BW_03_gradient_of_a_subset_of_parameters),
    RP_TEST(test_BW_04_a_gradient_cannot_be_differentiated_again),
    RP_TEST(test_BW_08_backward_in_another_thread_than_forward),
    RP_TEST(test_BW_09_op_without_backward_is_a_status),
    RP_TEST(test_BW_11_norms_are_recomputed_in_their_order),
    RP_TEST(test_losses_add_up_each_with_the_loss_scale),
    RP_TEST(test_residual_around_a_product),
    RP_TEST(test_one_tensor_in_three_slots),
    RP_TEST(test_slices_give_their_part_of_the_gradient),
    RP_TEST(test_PL_12_empty_batch),
    RP_TEST(test_PL_12_empty_batch_of_a_whole_model),
    RP_TEST(test_GA_01_the_mean_is_over_all_tokens),
    RP_TEST(test_GA_01_cross_entropy_of_unequal_micro_batches),
    RP_TEST(test_GA_02_a_short_last_window_has_its_own_scale),
    RP_TEST(test_GA_03_accumulation_with_replay),
};
RP_SUITE(backward, tests)
