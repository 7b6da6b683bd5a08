/* Group C of cases.md: graph structure and segment boundaries. Each gradient stands in closed form
 * and is checked with everything kept, at the smallest budget, and with everything recomputed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/program.h"
#include "bench.h"
#include "models.h"

static rp_tensor x, y, w, a, b_, c, h, loss;

static void program_of_loss(bench *b) {
    bench_program(b, loss, NULL);
}

/* A program that lets y be read. */
static void program_of_loss_and_y(bench *b) {
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.outputs = &y;
    options.output_count = 1;
    bench_program(b, loss, &options);
}

static void open_with_x(bench *b, rp_shape shape, const float *values) {
    bench_open(b);
    x = bench_input(b, "x", shape, values);
    rp_require_gradient(b->tape, x, true);
}

/* ---- GR-01: a weight used twice -------------------------------------------------------------- */

static void check_GR_01(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_values(b, loss), 91);
    BENCH_CHECK(bench_gradient(b, w), 10, 14, 16, 24);
    BENCH_CHECK(bench_gradient(b, x), 17, 37);
}

static void test_GR_01_tied_weight_used_in_two_segments(void) {
    bench b;
    open_with_x(&b, RP_SHAPE(1, 2), (const float[]){1, 2});
    w = bench_parameter(&b, "w", RP_SHAPE(2, 2), (const float[]){1, 2, 3, 4});
    rp_block(b.tape, "first");
    const rp_tensor once = rp_matmul(b.tape, x, w, false, false);
    rp_block(b.tape, "second");
    loss = rp_sum(b.tape, rp_matmul(b.tape, once, w, false, false));
    bench_everywhere(&b, program_of_loss, check_GR_01);
    bench_close(&b);
}

/* Both contributions of the tied head go into one gradient, which is one output. */
static void test_GR_01_tied_embedding_has_one_gradient(void) {
    bench b;
    bench_open(&b);
    const model m = model_record(&b, (model_options){.tied = true});
    bench_program(&b, m.loss, NULL);
    size_t count = 0, outputs = 0;
    for (size_t i = 0; i < rp_program_parameter_count(b.program); i++)
        count +=
            strcmp(rp_tensor_name(b.tape, rp_program_parameter(b.program, i)), "wte.weight") == 0;
    RP_CHECK_EQUAL(count, 1);
    rp_graph_outputs(rp_program_graph(b.program), &outputs);
    RP_CHECK_EQUAL(outputs, rp_program_parameter_count(b.program) + 1);
    bench_close(&b);
}

/* ---- GR-04: four layers in one segment ------------------------------------------------------- */

static void check_GR_04(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_values(b, y), 31);
    BENCH_CHECK(bench_gradient(b, x), 16);
}

static void test_GR_04_each_layer_of_a_segment_reads_the_one_before(void) {
    bench b;
    open_with_x(&b, RP_SHAPE(1), (const float[]){1});
    const rp_tensor one = bench_input(&b, "one", RP_SHAPE(1), (const float[]){1});
    rp_block(b.tape, "segment");
    y = x;
    for (int i = 0; i < 4; i++)
        y = rp_add(b.tape, rp_scale(b.tape, y, 2.0f), one);
    rp_block_end(b.tape);
    loss = rp_sum(b.tape, y);
    bench_everywhere(&b, program_of_loss_and_y, check_GR_04);
    bench_close(&b);
}

/* ---- GR-06: every weight of a segment -------------------------------------------------------- */

static uint64_t expected;

/* Memory is poisoned: a gradient that was never written is NaN. */
static void check_GR_06(bench *b) {
    bench_run(b);
    for (size_t i = 0; i < b->leaf_count; i++) {
        if (!rp_tensor_needs_gradient(b->tape, b->leaves[i].tensor))
            continue;
        const float *gradient = bench_gradient(b, b->leaves[i].tensor);
        double sum = 0.0;
        for (size_t e = 0; e < b->leaves[i].count; e++)
            sum += fabs((double)gradient[e]);
        RP_CHECK(isfinite(sum) && sum > 0.0, "the gradient of %s adds up to %g",
                 rp_tensor_name(b->tape, b->leaves[i].tensor), sum);
    }
    const uint64_t hash = bench_hash_gradients(b);
    expected = expected != 0 ? expected : hash;
    RP_CHECK(hash == expected, "other bits: %016llx", (unsigned long long)hash);
}

static void test_GR_06_every_weight_of_a_segment_gets_its_gradient(void) {
    bench b;
    bench_open(&b);
    const model m = model_record(&b, (model_options){.layers = 2});
    loss = m.loss;
    expected = 0;
    bench_everywhere(&b, program_of_loss, check_GR_06);
    RP_CHECK_EQUAL(rp_program_parameter_count(b.program), 2 + 2 * 12 + 3);
    bench_make(&b, "uniform:1", RP_UNLIMITED);
    check_GR_06(&b);
    RP_CHECK(bench_replays(&b) > 0, "nothing was replayed");
    bench_close(&b);
}

/* ---- GR-07, GR-14: chains of blocks ------------------------------------------------------*/

/* `layers` blocks of two ops. */
static void record_chain(bench *b, int layers) {
    open_with_x(b, RP_SHAPE(2, 2), (const float[]){0.1f, 0.2f, -0.3f, 0.4f});
    w = bench_parameter(b, "w", RP_SHAPE(2, 2), (const float[]){0.9f, -0.5f, 0.4f, 1.1f});
    h = x;
    for (int i = 0; i < layers; i++) {
        rp_block(b->tape, "layer.%d", i);
        h = rp_tanh(b->tape, rp_matmul(b->tape, h, w, false, false));
    }
    rp_block_end(b->tape);
    loss = rp_sum(b->tape, h);
    bench_program(b, loss, NULL);
}

static void test_GR_07_layers_that_are_no_multiple_of_the_segment(void) {
    static const int layers[] = {24, 1, 7, 8};
    for (int i = 0; i < 4; i++) {
        bench b;
        record_chain(&b, layers[i]);
        bench_make(&b, "keep-all", RP_UNLIMITED);
        bench_run(&b);
        const uint64_t wanted = bench_hash_gradients(&b);
        bench_make(&b, "uniform:7", RP_UNLIMITED);
        bench_run(&b);
        RP_CHECK(bench_hash_gradients(&b) == wanted, "%d layers: other gradients", layers[i]);
        RP_CHECK((bench_replays(&b) > 0) == (layers[i] > 7), "%d layers: %u replays", layers[i],
                 bench_replays(&b));
        bench_close(&b);
    }
}

/* Replays inside replays are what a tight budget asks for: as many as planned. */
static void test_GR_14_replays_of_replays_are_as_many_as_planned(void) {
    bench b;
    record_chain(&b, 27);
    bench_make(&b, "keep-all", RP_UNLIMITED);
    bench_run(&b);
    const uint64_t wanted = bench_hash_gradients(&b);
    bench_make(&b, NULL, bench_minimum(&b));
    bench_run(&b);
    RP_CHECK(bench_hash_gradients(&b) == wanted, "other gradients");
    RP_CHECK_EQUAL(bench_replays(&b), b.report.recompute_nodes);
    uint32_t most = 0;
    for (uint32_t n = 0; n < rp_graph_node_count(rp_program_graph(b.program)); n++)
        most = b.replays[n] > most ? b.replays[n] : most;
    RP_CHECK(most > 1, "no node was replayed twice at the smallest budget");
    bench_close(&b);
}

/* ---- GR-08: absent inputs and outputs -------------------------------------------------------- */

static bool mask_was_absent, aux_gradient_was_absent;

/* y = 3 x (, plus the mask), aux = x. */
static rp_status masked_forward(const rp_custom_call *call) {
    const float *in = call->in[0], *mask = call->in[1];
    mask_was_absent = mask == NULL;
    for (int i = 0; i < 2; i++) {
        ((float *)call->out[0])[i] = 3.0f * in[i] + (mask != NULL ? mask[i] : 0.0f);
        ((float *)call->out[1])[i] = in[i];
    }
    return RP_OK;
}

static rp_status masked_backward(const rp_custom_call *call) {
    const float *of_y = call->grad_out[0], *of_aux = call->grad_out[1];
    aux_gradient_was_absent = of_aux == NULL;
    for (int i = 0; i < 2; i++)
        ((float *)call->grad_in[0])[i] = 3.0f * of_y[i] + (of_aux != NULL ? of_aux[i] : 0.0f);
    if (call->in_count > 1 && call->grad_in[1] != NULL)
        memcpy(call->grad_in[1], of_y, 2 * sizeof(float));
    return RP_OK;
}

static bool has_mask;

static void check_GR_08(bench *b) {
    mask_was_absent = has_mask;
    aux_gradient_was_absent = has_mask;
    bench_run(b);
    RP_CHECK_EQUAL(mask_was_absent, !has_mask);
    RP_CHECK_EQUAL(aux_gradient_was_absent, !has_mask);
    BENCH_CHECK(bench_gradient(b, x), has_mask ? 8.0f : 6.0f, has_mask ? 8.0f : 6.0f);
    BENCH_CHECK(bench_values(b, loss), has_mask ? 3 * 6 + 7 + 6.0f : 3 * 6.0f);
}

/* x reaches the op through an op of its own, so that there is something to replay. */
static void test_GR_08_absent_inputs_and_outputs_stay_absent(void) {
    for (int with = 0; with < 2; with++) {
        bench b;
        has_mask = with;
        open_with_x(&b, RP_SHAPE(2), (const float[]){1, 2});
        const rp_tensor mask = bench_input(&b, "mask", RP_SHAPE(2), (const float[]){3, 4});
        rp_custom_op op = RP_CUSTOM_OP;
        op.name = "masked";
        op.forward = masked_forward;
        op.backward = masked_backward;
        const rp_tensor in[] = {rp_scale(b.tape, x, 2.0f), with ? mask : RP_NO_TENSOR};
        const rp_tensor_info info = {RP_F32, RP_SHAPE(2)}, infos[] = {info, info};
        rp_tensor out[2];
        RP_REQUIRE_OK(b.context, rp_custom(b.tape, &op, in, 2, infos, 2, out));
        loss = rp_sum(b.tape, with ? rp_add(b.tape, out[0], out[1]) : out[0]);
        bench_everywhere(&b, program_of_loss, check_GR_08);
        bench_close(&b);
    }
}

static void check_absent_bias(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_values(b, loss), 17);
    BENCH_CHECK(bench_gradient(b, w), 1, 1, 2, 2);
    BENCH_CHECK(bench_gradient(b, x), 3, 7);
}

static void test_GR_08_a_linear_without_bias(void) {
    bench b;
    open_with_x(&b, RP_SHAPE(1, 2), (const float[]){1, 2});
    w = bench_parameter(&b, "w", RP_SHAPE(2, 2), (const float[]){1, 2, 3, 4});
    loss = rp_sum(b.tape, rp_linear(b.tape, x, w, RP_NO_TENSOR, RP_IN_OUT));
    bench_everywhere(&b, program_of_loss, check_absent_bias);
    bench_close(&b);
}

/* ---- GR-09: an integer argument -------------------------------------------------------------- */

static void check_GR_09(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_values(b, y), 30, 20, 90);
    BENCH_CHECK(bench_values(b, loss), 140);
    BENCH_CHECK(bench_gradient(b, x), 2, 0, 4);
    BENCH_CHECK(bench_gradient(b, w), 30, 10, 30);
    CU_ASSERT_PTR_NULL(rp_executor_gradient(b->executor, c));
}

static void test_GR_09_integer_argument_among_floats(void) {
    bench b;
    open_with_x(&b, RP_SHAPE(3, 1), (const float[]){10, 20, 30});
    c = bench_ids(&b, "idx", RP_SHAPE(3), (const int32_t[]){2, 0, 2});
    w = bench_parameter(&b, "y", RP_SHAPE(3, 1), (const float[]){1, 2, 3});
    y = rp_mul(b.tape, rp_embedding(b.tape, x, c), w);
    loss = rp_sum(b.tape, y);
    bench_everywhere(&b, program_of_loss_and_y, check_GR_09);
    bench_close(&b);
}

/* ---- GR-10: two outputs, one unused ---------------------------------------------------------- */

/* u = 2 x, v = x^2 */
static rp_status two_forward(const rp_custom_call *call) {
    const float *in = call->in[0];
    for (int i = 0; i < 2; i++) {
        ((float *)call->out[0])[i] = 2.0f * in[i];
        ((float *)call->out[1])[i] = in[i] * in[i];
    }
    return RP_OK;
}

static rp_status two_backward(const rp_custom_call *call) {
    const float *in = call->in[0], *of_u = call->grad_out[0], *of_v = call->grad_out[1];
    for (int i = 0; i < 2; i++)
        ((float *)call->grad_in[0])[i] =
            (of_u != NULL ? 2.0f * of_u[i] : 0.0f) + (of_v != NULL ? 2.0f * in[i] * of_v[i] : 0.0f);
    return RP_OK;
}

static void record_two(bench *b, rp_tensor out[2]) {
    rp_custom_op op = RP_CUSTOM_OP;
    op.name = "two";
    op.forward = two_forward;
    op.backward = two_backward;
    const rp_tensor_info info = {RP_F32, RP_SHAPE(2)}, infos[] = {info, info};
    RP_REQUIRE_OK(b->context, rp_custom(b->tape, &op, &x, 1, infos, 2, out));
}

static int used_output;

static void check_GR_10(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_gradient(b, x), 2, used_output == 0 ? 2.0f : 4.0f);
}

static void test_GR_10_segment_with_an_output_that_the_loss_does_not_use(void) {
    for (used_output = 0; used_output < 2; used_output++) {
        bench b;
        rp_tensor out[2];
        open_with_x(&b, RP_SHAPE(2), (const float[]){1, 2});
        record_two(&b, out);
        loss = rp_sum(b.tape, out[used_output]);
        bench_everywhere(&b, program_of_loss, check_GR_10);
        bench_close(&b);
    }
}

/* Documented: without a path there is nothing to differentiate, and as an output no gradient. */
static void test_GR_10_segment_that_the_loss_does_not_use_at_all(void) {
    bench b;
    rp_tensor out[2];
    open_with_x(&b, RP_SHAPE(2), (const float[]){1, 2});
    w = bench_parameter(&b, "w", RP_SHAPE(1), (const float[]){3});
    record_two(&b, out);
    loss = rp_sum(b.tape, rp_mul(b.tape, w, w));
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, bench_minimum(&b));
    bench_run(&b);
    BENCH_CHECK(bench_gradient(&b, w), 6);
    CU_ASSERT_PTR_NULL(rp_executor_gradient(b.executor, x));
    RP_CHECK_EQUAL(bench_replays(&b), 0);
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_program *none = NULL;
    options.losses = &loss;
    options.loss_count = 1;
    options.wanted = &x;
    options.wanted_count = 1;
    RP_CHECK_STATUS(b.context, rp_program_create(b.tape, &options, &none),
                    RP_NOTHING_TO_DIFFERENTIATE);
    CU_ASSERT_PTR_NULL(none);
    bench_close(&b);
}

/* ---- GR-11: what does not reach the loss ----------------------------------------------------- */

static size_t nodes_of_block(bench *b, const char *block, uint32_t *replays) {
    const rp_graph *graph = rp_program_graph(b->program);
    size_t count = 0;
    for (uint32_t n = 0; n < rp_graph_node_count(graph); n++) {
        rp_node_info info;
        rp_graph_node(graph, n, &info);
        if (strcmp(info.block, block) != 0)
            continue;
        count++;
        *replays += b->replays[n];
    }
    return count;
}

/* A branch that only logs gets no node; one that is only an output, or enters the loss as a
 * constant, gets no gradient and is never replayed. */
static void test_GR_11_branches_without_gradient_are_not_replayed(void) {
    bench b;
    bench_open(&b);
    const model m = model_record(&b, (model_options){0});
    rp_block(b.tape, "logging");
    const rp_tensor logged = rp_mean(b.tape, rp_tanh(b.tape, rp_tanh(b.tape, m.block_outputs[1])));
    rp_block_end(b.tape);
    rp_block(b.tape, "constant");
    const rp_tensor branch = rp_tanh(b.tape, rp_tanh(b.tape, m.block_outputs[2]));
    const rp_tensor constant = rp_mean(b.tape, rp_detach(b.tape, branch));
    rp_block_end(b.tape);
    uint32_t replays = 0;
    bench_program(&b, m.loss, NULL);
    RP_CHECK_EQUAL(nodes_of_block(&b, "logging", &replays), 0);

    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.outputs = &logged;
    options.output_count = 1;
    bench_program(&b, rp_add(b.tape, m.loss, constant), &options);
    bench_make(&b, NULL, bench_minimum(&b));
    bench_run(&b);
    RP_CHECK_EQUAL(nodes_of_block(&b, "logging", &replays), 3);
    RP_CHECK_EQUAL(nodes_of_block(&b, "constant", &replays), 4);
    RP_CHECK_EQUAL(replays, 0);
    RP_CHECK(bench_replays(&b) > 0, "nothing was replayed at the smallest budget");
    bench_close(&b);
}

/* ---- GR-12: a value used inside and outside -------------------------------------------------- */

static void check_GR_12(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_values(b, loss), 48);
    BENCH_CHECK(bench_gradient(b, x), 10, 26);
}

static void test_GR_12_tensor_used_inside_and_outside_a_segment(void) {
    bench b;
    open_with_x(&b, RP_SHAPE(2), (const float[]){1, 3});
    h = rp_scale(b.tape, x, 2.0f);
    rp_block(b.tape, "segment");
    const rp_tensor squared = rp_mul(b.tape, h, h);
    rp_block_end(b.tape);
    loss = rp_sum(b.tape, rp_add(b.tape, squared, h));
    bench_everywhere(&b, program_of_loss, check_GR_12);
    bench_close(&b);
}

/* ---- GR-17: one value, several backward readers ---------------------------------------------- */

static void check_GR_17(bench *b) {
    bench_run(b);
    const float t0 = tanhf(0.5f), t1 = tanhf(-1.0f);
    BENCH_CHECK(bench_gradient(b, a), t0, t1);
    BENCH_CHECK(bench_gradient(b, b_), t0, t1);
    BENCH_CHECK(bench_gradient(b, c), t0, t1);
}

static void test_GR_17_GR_18_value_needed_by_several_backward_nodes(void) {
    bench b;
    bench_open(&b);
    x = bench_input(&b, "x", RP_SHAPE(2), (const float[]){0.5f, -1});
    a = bench_parameter(&b, "a", RP_SHAPE(2), (const float[]){1, 2});
    b_ = bench_parameter(&b, "b", RP_SHAPE(2), (const float[]){3, 4});
    c = bench_parameter(&b, "c", RP_SHAPE(2), (const float[]){5, 6});
    h = rp_tanh(b.tape, x);
    const rp_tensor sums[] = {rp_sum(b.tape, rp_mul(b.tape, h, a)),
                              rp_sum(b.tape, rp_mul(b.tape, h, b_)),
                              rp_sum(b.tape, rp_mul(b.tape, h, c))};
    loss = rp_add(b.tape, rp_add(b.tape, sums[0], sums[1]), sums[2]);
    bench_everywhere(&b, program_of_loss, check_GR_17);

    rp_mark_node(b.tape, h, RP_MARK_RECOMPUTE);
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    check_GR_17(&b);
    RP_CHECK_EQUAL(bench_replays_of(&b, h), 1);
    RP_CHECK_EQUAL(b.report.recompute_nodes, 1);

    rp_mark_node(b.tape, h, RP_MARK_RECOMPUTE); /* GR-18: a second mark is the same mark */
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    check_GR_17(&b);
    RP_CHECK_EQUAL(bench_replays_of(&b, h), 1);
    bench_close(&b);
}

/* ---- GR-19: one layer, called twice ---------------------------------------------------------- */

static void check_GR_19(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_values(b, loss), 18);
    BENCH_CHECK(bench_gradient(b, w), 12);
    BENCH_CHECK(bench_gradient(b, x), 9);
}

static void test_GR_19_same_layer_called_twice(void) {
    bench b;
    open_with_x(&b, RP_SHAPE(1), (const float[]){2});
    w = bench_parameter(&b, "w", RP_SHAPE(1), (const float[]){3});
    const rp_tensor once = rp_mul(b.tape, w, x), twice = rp_mul(b.tape, w, once);
    loss = rp_sum(b.tape, twice);
    for (int marks = 0; marks < 4; marks++) {
        rp_mark_node(b.tape, once, marks & 1 ? RP_MARK_RECOMPUTE : RP_MARK_KEEP);
        rp_mark_node(b.tape, twice, marks & 2 ? RP_MARK_RECOMPUTE : RP_MARK_KEEP);
        bench_program(&b, loss, NULL);
        bench_make(&b, NULL, RP_UNLIMITED);
        check_GR_19(&b);
        RP_CHECK_EQUAL(bench_replays_of(&b, once), marks & 1);
    }
    bench_close(&b);
}

static const rp_test tests[] = {
    RP_TEST(test_GR_01_tied_weight_used_in_two_segments),
    RP_TEST(test_GR_01_tied_embedding_has_one_gradient),
    RP_TEST(test_GR_04_each_layer_of_a_segment_reads_the_one_before),
    RP_TEST(test_GR_06_every_weight_of_a_segment_gets_its_gradient),
    RP_TEST(test_GR_07_layers_that_are_no_multiple_of_the_segment),
    RP_TEST(test_GR_14_replays_of_replays_are_as_many_as_planned),
    RP_TEST(test_GR_08_absent_inputs_and_outputs_stay_absent),
    RP_TEST(test_GR_08_a_linear_without_bias),
    RP_TEST(test_GR_09_integer_argument_among_floats),
    RP_TEST(test_GR_10_segment_with_an_output_that_the_loss_does_not_use),
    RP_TEST(test_GR_10_segment_that_the_loss_does_not_use_at_all),
    RP_TEST(test_GR_11_branches_without_gradient_are_not_replayed),
    RP_TEST(test_GR_12_tensor_used_inside_and_outside_a_segment),
    RP_TEST(test_GR_17_GR_18_value_needed_by_several_backward_nodes),
    RP_TEST(test_GR_19_same_layer_called_twice),
};
RP_SUITE(graphs, tests)
