/* Group D of cases.md: frozen parameters, inputs without gradient, modes without gradient. */
#include <string.h>

#include "autograd/program.h"
#include "bench.h"
#include "models.h"

static rp_tensor x, w, table, loss;

static void program_of_loss(bench *b) {
    bench_program(b, loss, NULL);
}

/* Nodes of the program by op, in blocks that begin with `block`. */
static size_t count_nodes(bench *b, rp_op op, const char *block) {
    const rp_code *code = &b->program->code;
    size_t count = 0;
    for (uint32_t n = 0; n < code->node_count; n++) {
        rp_node_info info;
        rp_graph_node(rp_program_graph(b->program), n, &info);
        count += code->nodes[n].op == op && strncmp(info.block, block, strlen(block)) == 0;
    }
    return count;
}

static size_t count_backward(bench *b, const char *block) {
    const rp_graph *graph = rp_program_graph(b->program);
    size_t count = 0;
    for (uint32_t n = 0; n < rp_graph_node_count(graph); n++) {
        rp_node_info info;
        rp_graph_node(graph, n, &info);
        count += info.phase == RP_BACKWARD && strncmp(info.block, block, strlen(block)) == 0;
    }
    return count;
}

/* ---- FZ-01 ----------------------------------------------------------------------------------- */

static void check_FZ_01(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_values(b, loss), 7);
    BENCH_CHECK(bench_gradient(b, w), 2, 1);
    CU_ASSERT_PTR_NULL(rp_executor_gradient(b->executor, table));
    RP_CHECK_EQUAL(count_nodes(b, RP_OP_EMBEDDING_BACKWARD, ""), 0);
    rp_memory_report memory;
    rp_program_memory(b->program, &memory);
    RP_CHECK_EQUAL(memory.gradients_bytes, 64); /* 8 bytes of dW, rounded up */
}

static void test_FZ_01_trainable_segment_behind_a_frozen_input(void) {
    bench b;
    bench_open(&b);
    const rp_tensor ids = bench_ids(&b, "ids", RP_SHAPE(2), (const int32_t[]){0, 2});
    table = bench_parameter(&b, "E", RP_SHAPE(3, 2), (const float[]){1, 0, 0, 1, 1, 1});
    rp_require_gradient(b.tape, table, false);
    w = bench_parameter(&b, "W", RP_SHAPE(2, 1), (const float[]){2, 3});
    rp_block(b.tape, "segment");
    const rp_tensor rows = rp_embedding(b.tape, table, ids);
    loss = rp_sum(b.tape, rp_matmul(b.tape, rows, w, false, false));
    bench_everywhere(&b, program_of_loss, check_FZ_01);
    bench_close(&b);
}

/* ---- FZ-02 ----------------------------------------------------------------------------------- */

static void test_FZ_02_a_loss_that_depends_on_nothing_trainable_is_a_status(void) {
    bench b;
    bench_open(&b);
    x = bench_input(&b, "x", RP_SHAPE(2), (const float[]){1, 2});
    w = bench_parameter(&b, "w", RP_SHAPE(2), (const float[]){1, 2});
    const rp_tensor losses[] = {
        rp_sum(b.tape, x),
        rp_sum(b.tape, rp_mul(b.tape, x, rp_detach(b.tape, rp_tanh(b.tape, w))))};
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.losses = losses;
    options.loss_count = 2;
    rp_program *program = NULL;
    RP_CHECK_STATUS(b.context, rp_program_create(b.tape, &options, &program),
                    RP_NOTHING_TO_DIFFERENTIATE);
    CU_ASSERT_PTR_NULL(program);
    RP_CHECK_OK(b.context, rp_tape_status(b.tape));
    bench_close(&b);
}

/* ---- FZ-03 ----------------------------------------------------------------------------------- */

static rp_status split_forward(const rp_custom_call *call) {
    const float *in = call->in[0];
    ((float *)call->out[0])[0] = in[0] + in[1];
    ((int32_t *)call->out[1])[0] = in[0] >= in[1] ? 0 : 1;
    return RP_OK;
}

static rp_status split_backward(const rp_custom_call *call) {
    const float *of_y = call->grad_out[0];
    ((float *)call->grad_in[0])[0] = ((float *)call->grad_in[0])[1] = of_y[0];
    return call->grad_out[1] == NULL ? RP_OK : RP_INTERNAL_ERROR; /* an integer has no gradient */
}

static rp_tensor outputs[3];

static void program_of_three(bench *b) {
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.outputs = outputs;
    options.output_count = 3;
    bench_program(b, loss, &options);
}

static void check_FZ_03(bench *b) {
    bench_run(b);
    BENCH_CHECK(bench_gradient(b, w), 1, 1);
    BENCH_CHECK(bench_values(b, outputs[0]), 7);
    BENCH_CHECK(bench_values(b, outputs[2]), 3, 5);
    int32_t argmax = -1;
    RP_CHECK_OK(b->context, rp_executor_read(b->executor, outputs[1], &argmax, sizeof argmax));
    RP_CHECK_EQUAL(argmax, 1);
}

static void test_FZ_03_outputs_that_need_no_gradient(void) {
    bench b;
    bench_open(&b);
    x = bench_input(&b, "frozen", RP_SHAPE(2), (const float[]){3, 5});
    w = bench_parameter(&b, "w", RP_SHAPE(2), (const float[]){3, 4});
    rp_custom_op op = RP_CUSTOM_OP;
    op.name = "split";
    op.forward = split_forward;
    op.backward = split_backward;
    const rp_tensor_info infos[] = {{RP_F32, RP_SHAPE(1)}, {RP_I32, RP_SHAPE(1)}};
    const rp_tensor in = rp_scale(b.tape, w, 1.0f);
    RP_REQUIRE_OK(b.context, rp_custom(b.tape, &op, &in, 1, infos, 2, outputs));
    outputs[2] = rp_scale(b.tape, x, 1.0f);
    loss = rp_sum(b.tape, outputs[0]);
    CU_ASSERT_TRUE(rp_tensor_needs_gradient(b.tape, outputs[0]));
    CU_ASSERT_FALSE(rp_tensor_needs_gradient(b.tape, outputs[1]));
    CU_ASSERT_FALSE(rp_tensor_needs_gradient(b.tape, outputs[2]));
    bench_everywhere(&b, program_of_three, check_FZ_03);
    bench_close(&b);
}

/* Freezing and thawing a leaf later reaches everything that was recorded from it. */
static void test_FZ_03_flags_follow_the_leaf(void) {
    bench b;
    bench_open(&b);
    w = bench_parameter(&b, "w", RP_SHAPE(2), NULL);
    x = bench_input(&b, "x", RP_SHAPE(2), NULL);
    const rp_tensor y = rp_tanh(b.tape, rp_add(b.tape, rp_tanh(b.tape, w), x));
    CU_ASSERT_TRUE(rp_tensor_needs_gradient(b.tape, y));
    rp_require_gradient(b.tape, w, false);
    CU_ASSERT_FALSE(rp_tensor_needs_gradient(b.tape, y));
    rp_require_gradient(b.tape, x, true);
    CU_ASSERT_TRUE(rp_tensor_needs_gradient(b.tape, y));
    CU_ASSERT_FALSE(rp_tensor_needs_gradient(b.tape, rp_detach(b.tape, y)));
    bench_close(&b);
}

/* ---- FZ-04 ----------------------------------------------------------------------------------- */

static void test_FZ_04_frozen_blocks_cost_nothing_in_backward(void) {
    bench b;
    bench_open(&b);
    const model m = model_record(&b, (model_options){.frozen_below = 3, .frozen_end = true});
    rp_mark_node(b.tape, m.attention[3], RP_MARK_RECOMPUTE);
    bench_program(&b, m.loss, NULL);
    RP_CHECK_EQUAL(rp_program_parameter_count(b.program), 12);
    for (size_t i = 0; i < rp_program_parameter_count(b.program); i++) {
        const char *name = rp_tensor_name(b.tape, rp_program_parameter(b.program, i));
        RP_CHECK(strncmp(name, "h.3.", 4) == 0, "%s is frozen", name);
    }
    RP_CHECK_EQUAL(count_backward(&b, "h.0"), 0);
    RP_CHECK_EQUAL(count_backward(&b, "h.1"), 0);
    RP_CHECK_EQUAL(count_backward(&b, "h.2"), 0);
    RP_CHECK_EQUAL(count_nodes(&b, RP_OP_EMBEDDING_BACKWARD, ""), 0);
    RP_CHECK_EQUAL(count_nodes(&b, RP_OP_LINEAR_BACKWARD_WEIGHT, ""), 4);
    RP_CHECK_EQUAL(count_nodes(&b, RP_OP_LINEAR_BACKWARD_WEIGHT, "h.3"), 4);
    int64_t bytes = 0;
    for (size_t i = 0; i < b.leaf_count; i++)
        if (rp_tensor_needs_gradient(b.tape, b.leaves[i].tensor))
            bytes += (int64_t)(bench_gradient_bytes(&b, b.leaves[i].tensor) + 63) / 64 * 64;
    rp_memory_report memory;
    rp_program_memory(b.program, &memory);
    RP_CHECK_EQUAL(memory.gradients_bytes, bytes);
    bench_make(&b, NULL, RP_UNLIMITED);
    bench_run(&b);
    RP_CHECK_EQUAL(bench_replays_of(&b, m.attention[3]), 1);
    for (uint32_t n = 0; n < b.program->code.node_count; n++) {
        rp_node_info info;
        rp_graph_node(rp_program_graph(b.program), n, &info);
        const bool below = info.block[0] == 'h' && info.block[2] < '3';
        RP_CHECK(!below || b.replays[n] == 0, "%s was replayed", info.name);
    }
    bench_close(&b);
}

/* ---- FZ-05 ----------------------------------------------------------------------------------- */

/* Values of a tensor that a backward node reads. */
static size_t backward_reads(bench *b, rp_tensor tensor) {
    const rp_graph *graph = rp_program_graph(b->program);
    const uint32_t value = b->program->graph_value[tensor.id - 1];
    size_t count = 0;
    for (uint32_t n = 0; n < rp_graph_node_count(graph); n++) {
        rp_node_info info;
        rp_graph_node(graph, n, &info);
        for (size_t i = 0; i < info.input_count && info.phase == RP_BACKWARD; i++)
            count += info.inputs[i] == value;
    }
    return count;
}

static void test_FZ_05_frozen_linear_does_not_keep_its_input(void) {
    for (int frozen = 0; frozen < 2; frozen++) {
        bench b;
        bench_open(&b);
        w = bench_parameter(&b, "w", RP_SHAPE(2, 2), (const float[]){1, 2, 3, 4});
        rp_require_gradient(b.tape, w, !frozen);
        const rp_tensor p = bench_parameter(&b, "p", RP_SHAPE(1, 2), (const float[]){1, 2});
        x = rp_scale(b.tape, p, 2.0f);
        loss = rp_sum(b.tape, rp_linear(b.tape, x, w, RP_NO_TENSOR, RP_IN_OUT));
        bench_program(&b, loss, NULL);
        RP_CHECK_EQUAL(backward_reads(&b, x), frozen ? 0 : 1);
        bench_make(&b, "keep-all", RP_UNLIMITED);
        bench_run(&b);
        BENCH_CHECK(bench_gradient(&b, p), 6, 14);
        bench_close(&b);
    }
}

/* ---- FZ-06 ----------------------------------------------------------------------------------- */

/* Gradients in evaluation: the plan is applied, and dropout is the identity. */
static void test_FZ_06_evaluation_with_gradients_applies_the_plan(void) {
    bench b, plain;
    bench_open(&b);
    bench_open(&plain);
    const model m = model_record(&b, (model_options){.layers = 2, .dropout = 0.1f});
    const model n = model_record(&plain, (model_options){.layers = 2});
    b.options.evaluate = true;
    bench_program(&b, m.loss, NULL);
    bench_make(&b, "uniform:1", RP_UNLIMITED);
    bench_run(&b);
    RP_CHECK(bench_replays(&b) > 0, "nothing was replayed");
    bench_program(&plain, n.loss, NULL);
    bench_make(&plain, "keep-all", RP_UNLIMITED);
    bench_run(&plain);
    RP_CHECK(bench_scalar(&b, m.loss) == bench_scalar(&plain, n.loss),
             "loss %g, without dropout %g", (double)bench_scalar(&b, m.loss),
             (double)bench_scalar(&plain, n.loss));
    for (size_t i = 3; i < b.leaf_count; i++)
        RP_CHECK(memcmp(bench_gradient(&b, b.leaves[i].tensor),
                        bench_gradient(&plain, plain.leaves[i].tensor),
                        bench_gradient_bytes(&b, b.leaves[i].tensor)) == 0,
                 "%s has another gradient", rp_tensor_name(b.tape, b.leaves[i].tensor));
    bench_close(&b);
    bench_close(&plain);
}

/* Without gradients: what a value needs beyond its last reader is nothing, so the peak does not
 * grow with the number of blocks. */
static void test_FZ_06_inference_keeps_nothing(void) {
    int64_t peaks[2];
    for (int i = 0; i < 2; i++) {
        bench b;
        bench_open(&b);
        const model m = model_record(&b, (model_options){.layers = i == 0 ? 2 : 4});
        rp_program_options options = RP_PROGRAM_OPTIONS;
        options.forward_only = true;
        bench_program(&b, m.loss, &options);
        const rp_graph *graph = rp_program_graph(b.program);
        RP_CHECK_EQUAL(count_backward(&b, ""), 0);
        bench_make(&b, NULL, RP_UNLIMITED);
        peaks[i] = b.report.peak_bytes - rp_graph_persistent_bytes(graph);
        bench_run(&b);
        RP_CHECK_EQUAL(bench_replays(&b), 0);
        RP_CHECK_EQUAL(rp_program_parameter_count(b.program), 0);
        bench_close(&b);
    }
    RP_CHECK_EQUAL(peaks[0], peaks[1]);
}

static const rp_test tests[] = {
    RP_TEST(test_FZ_01_trainable_segment_behind_a_frozen_input),
    RP_TEST(test_FZ_02_a_loss_that_depends_on_nothing_trainable_is_a_status),
    RP_TEST(test_FZ_03_outputs_that_need_no_gradient),
    RP_TEST(test_FZ_03_flags_follow_the_leaf),
    RP_TEST(test_FZ_04_frozen_blocks_cost_nothing_in_backward),
    RP_TEST(test_FZ_05_frozen_linear_does_not_keep_its_input),
    RP_TEST(test_FZ_06_evaluation_with_gradients_applies_the_plan),
    RP_TEST(test_FZ_06_inference_keeps_nothing),
};
RP_SUITE(frozen, tests)
