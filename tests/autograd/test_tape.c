/* Recording: what is checked, how failures stick, names, blocks, marks, and which ops are views. */
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/program.h"
#include "fault.h"
#include "unit.h"
#include <reprise/reprise.h>

static rp_context *context;
static rp_tape *tape;
static rp_tensor x, w, ids;

static void open_tape(void) {
    context = rp_test_context(1);
    RP_REQUIRE_OK(context, rp_tape_create(context, &tape));
    x = rp_input(tape, "x", RP_F32, RP_SHAPE(4, 6));
    w = rp_parameter(tape, "w", RP_F32, RP_SHAPE(6, 3));
    ids = rp_input(tape, "ids", RP_I32, RP_SHAPE(4));
}

static void close_tape(void) {
    rp_tape_destroy(tape);
    rp_context_destroy(context);
}

static void check_shape(rp_tensor tensor, rp_shape wanted) {
    const rp_tensor_info info = rp_tensor_get_info(tape, tensor);
    char got[RP_SHAPE_TEXT], text[RP_SHAPE_TEXT];
    const rp_tensor_info expected = {info.dtype, wanted};
    RP_CHECK_STRING(rp_tensor_text(&info, got), rp_tensor_text(&expected, text));
}

/* ---- Failing --------------------------------------------------------------------------------- */

static void test_first_failure_sticks(void) {
    open_tape();
    RP_CHECK_EQUAL(rp_linear(tape, w, x, RP_NO_TENSOR, RP_IN_OUT).id, 0);
    RP_CHECK_STATUS(context, rp_tape_status(tape), RP_BAD_SHAPE);
    RP_CHECK_MESSAGE(context, "linear");
    RP_CHECK_MESSAGE(context, "f32 [6, 3]");
    RP_CHECK_MESSAGE(context, "f32 [4, 6]");
    char first[512];
    snprintf(first, sizeof first, "%s", rp_context_message(context));
    /* later calls, right or wrong, do nothing and leave the message */
    RP_CHECK_EQUAL(rp_tanh(tape, x).id, 0);
    RP_CHECK_EQUAL(rp_parameter(tape, "late", RP_F32, RP_SHAPE(1)).id, 0);
    RP_CHECK_EQUAL(rp_embedding(tape, ids, x).id, 0);
    rp_block(tape, "late");
    rp_name(tape, "late");
    rp_mark_node(tape, RP_NO_TENSOR, RP_MARK_KEEP);
    RP_CHECK_STATUS(context, rp_tape_status(tape), RP_BAD_SHAPE);
    RP_CHECK_STRING(rp_context_message(context), first);
    rp_fail(context, RP_IO_ERROR, "something else");
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_program *program = NULL;
    RP_CHECK_STATUS(context, rp_program_create(tape, &options, &program), RP_BAD_SHAPE);
    RP_CHECK_STRING(rp_context_message(context), first);
    close_tape();
}

/* Every op with the tensor 0 and with one of another tape, where a tensor is required. */
static void test_tensors_that_are_none_are_refused_by_name(void) {
    static const char *const names[] = {"add", "linear", "reshape", "concat", "mean", "attention"};
    const rp_tensor wrong[] = {RP_NO_TENSOR, {1000}};
    for (int op = 0; op < 6; op++)
        for (int i = 0; i < 2; i++) {
            open_tape();
            const rp_tensor list[] = {x, wrong[i]};
            rp_attention_options attention = RP_ATTENTION_OPTIONS;
            const rp_tensor got = op == 0   ? rp_add(tape, x, wrong[i])
                                  : op == 1 ? rp_linear(tape, x, wrong[i], RP_NO_TENSOR, RP_IN_OUT)
                                  : op == 2 ? rp_reshape(tape, wrong[i], RP_SHAPE(1))
                                  : op == 3 ? rp_concat(tape, list, 2, 0)
                                  : op == 4 ? rp_mean(tape, wrong[i])
                                            : rp_attention(tape, wrong[i], x, x, &attention);
            RP_CHECK_EQUAL(got.id, 0);
            RP_CHECK_STATUS(context, rp_tape_status(tape), RP_INVALID_ARGUMENT);
            RP_CHECK_MESSAGE(context, names[op]);
            close_tape();
        }
}

static void test_leaves_are_checked(void) {
    const struct {
        const char *name;
        rp_dtype dtype;
        rp_shape shape;
        rp_status status;
    } cases[] = {
        {NULL, RP_F32, RP_SHAPE(1), RP_INVALID_ARGUMENT},
        {"", RP_F32, RP_SHAPE(1), RP_INVALID_ARGUMENT},
        {"a", RP_NO_DTYPE, RP_SHAPE(1), RP_BAD_DTYPE},
        {"a", (rp_dtype)77, RP_SHAPE(1), RP_BAD_DTYPE},
        {"a", RP_F32, RP_SHAPE(2, -1), RP_BAD_SHAPE},
        {"a", RP_F32, {.rank = 7}, RP_BAD_SHAPE},
        {"a", RP_F32, {.rank = -1}, RP_BAD_SHAPE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        open_tape();
        RP_CHECK_EQUAL(rp_parameter(tape, cases[i].name, cases[i].dtype, cases[i].shape).id, 0);
        RP_CHECK_STATUS(context, rp_tape_status(tape), cases[i].status);
        close_tape();
    }
}

static void test_options_and_lists_are_checked(void) {
    rp_attention_options attention = RP_ATTENTION_OPTIONS;
    for (int i = 0; i < 8; i++) {
        open_tape();
        rp_status wanted = RP_INVALID_ARGUMENT;
        const rp_tensor q = rp_input(tape, "q", RP_F32, RP_SHAPE(1, 2, 6));
        attention = (rp_attention_options)RP_ATTENTION_OPTIONS;
        if (i == 0)
            rp_attention(tape, q, q, q, NULL);
        attention.struct_size = i == 1 ? 3 : sizeof attention;
        if (i == 1)
            rp_attention(tape, q, q, q, &attention);
        attention.dropout = i == 2 ? 1.0f : NAN;
        if (i == 2 || i == 3)
            rp_attention_unfused(tape, q, q, q, &attention);
        attention.dropout = 0.0f;
        if (i == 4)
            rp_attention(tape, q, q, RP_NO_TENSOR, &attention);
        if (i == 5)
            rp_concat(tape, NULL, 1, 0);
        if (i == 6)
            rp_require_gradient(tape, rp_tanh(tape, x), true);
        if (i == 7) {
            rp_require_gradient(tape, ids, true);
            wanted = RP_BAD_DTYPE;
        }
        RP_CHECK_STATUS(context, rp_tape_status(tape), wanted);
        close_tape();
    }
}

static void test_no_tape_at_all(void) {
    RP_CHECK_STATUS(NULL, rp_tape_status(NULL), RP_INVALID_ARGUMENT);
    RP_CHECK_STATUS(NULL, rp_tape_create(NULL, &tape), RP_INVALID_ARGUMENT);
    RP_CHECK_EQUAL(rp_input(NULL, "x", RP_F32, RP_SHAPE(1)).id, 0);
    RP_CHECK_EQUAL(rp_add(NULL, (rp_tensor){1}, (rp_tensor){1}).id, 0);
    RP_CHECK_EQUAL(rp_dropout(NULL, (rp_tensor){1}, 0.5f).id, 0);
    RP_CHECK_EQUAL(rp_attention(NULL, x, x, x, NULL).id, 0);
    RP_CHECK_EQUAL(rp_concat(NULL, &x, 1, 0).id, 0);
    RP_CHECK_STATUS(NULL, rp_custom(NULL, NULL, NULL, 0, NULL, 0, NULL), RP_INVALID_ARGUMENT);
    rp_block(NULL, "x");
    rp_name(NULL, "x");
    rp_require_gradient(NULL, x, true);
    rp_tape_destroy(NULL);
    RP_CHECK_STRING(rp_tensor_name(NULL, x), "");
    RP_CHECK_EQUAL(rp_tensor_get_info(NULL, x).dtype, RP_NO_DTYPE);
}

static void test_custom_ops_are_checked(void) {
    for (int i = 0; i < 6; i++) {
        open_tape();
        rp_custom_op op = RP_CUSTOM_OP;
        op.name = i == 0 ? NULL : "mine";
        op.forward = i == 1 ? NULL : (rp_status(*)(const rp_custom_call *))abort;
        op.struct_size -= i == 2;
        op.forward_cost_ns = i == 3 ? -1 : 0;
        const rp_tensor_info info = {i == 4 ? RP_NO_DTYPE : RP_F32, RP_SHAPE(1)};
        rp_tensor out = {77};
        const rp_status wanted = i == 4 ? RP_BAD_SHAPE : RP_INVALID_ARGUMENT;
        RP_CHECK_STATUS(context, rp_custom(tape, &op, &x, 1, &info, i == 5 ? 0 : 1, &out), wanted);
        RP_CHECK(i == 5 || out.id == 0, "tensor %u", out.id);
        close_tape();
    }
}

static void test_a_custom_op_may_write_over_its_list(void) {
    open_tape();
    rp_custom_op op = RP_CUSTOM_OP;
    op.name = "mine";
    op.forward = (rp_status(*)(const rp_custom_call *))abort;
    const rp_tensor_info info = {RP_F32, RP_SHAPE(4, 6)};
    rp_tensor h = x;
    RP_REQUIRE_OK(context, rp_custom(tape, &op, &h, 1, &info, 1, &h));
    CU_ASSERT_TRUE(h.id > x.id);
    const rp_code_node *node = &tape->code.nodes[tape->code.values[h.id - 1].writer];
    RP_CHECK_EQUAL(rp_code_inputs(&tape->code, node)[0], x.id - 1);
    close_tape();
}

static void test_marks_are_for_nodes(void) {
    open_tape();
    rp_mark_node(tape, w, RP_MARK_KEEP);
    RP_CHECK_STATUS(context, rp_tape_status(tape), RP_INVALID_ARGUMENT);
    RP_CHECK_MESSAGE(context, "w is written by no node");
    close_tape();
    open_tape();
    rp_mark_node(tape, rp_tanh(tape, x), (rp_mark)9);
    RP_CHECK_STATUS(context, rp_tape_status(tape), RP_INVALID_ARGUMENT);
    close_tape();
}

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* Whether a tensor is written by a view, which has no memory of its own. */
static bool is_view(rp_tensor tensor) {
    const rp_code_value *value = &tape->code.values[tensor.id - 1];
    return tape->code.nodes[value->writer].op == RP_OP_VIEW;
}

static void test_reshape_resolves_one_open_dimension(void) {
    open_tape();
    check_shape(rp_reshape(tape, x, RP_SHAPE(3, -1)), RP_SHAPE(3, 8));
    check_shape(rp_reshape(tape, x, RP_SHAPE(-1)), RP_SHAPE(24));
    check_shape(rp_reshape(tape, x, RP_SHAPE(2, 2, 6)), RP_SHAPE(2, 2, 6));
    const rp_tensor empty = rp_input(tape, "empty", RP_F32, RP_SHAPE(0, 5));
    check_shape(rp_reshape(tape, empty, RP_SHAPE(5, -1)), RP_SHAPE(5, 0));
    const rp_tensor one = rp_input(tape, "one", RP_F32, RP_SHAPE(1));
    check_shape(rp_reshape(tape, one, RP_SCALAR), RP_SCALAR);
    RP_CHECK_OK(context, rp_tape_status(tape));
    close_tape();
    const rp_shape wrong[] = {
        RP_SHAPE(5, -1), RP_SHAPE(-1, -1), RP_SHAPE(23), RP_SHAPE(-2, 12), {.rank = 9}};
    for (int i = 0; i < 5; i++) {
        open_tape();
        rp_reshape(tape, x, wrong[i]);
        RP_CHECK_STATUS(context, rp_tape_status(tape), RP_BAD_SHAPE);
        RP_CHECK_MESSAGE(context, "reshape");
        close_tape();
    }
}

static void test_what_moves_nothing_is_a_view(void) {
    open_tape();
    const rp_tensor flat = rp_reshape(tape, x, RP_SHAPE(1, 4, 1, 6));
    CU_ASSERT_TRUE(is_view(flat));
    CU_ASSERT_TRUE(is_view(rp_transpose(tape, flat, 0, 1)));  /* 4 1 1 6 */
    CU_ASSERT_TRUE(is_view(rp_transpose(tape, flat, 2, -1))); /* 1 4 6 1 */
    CU_ASSERT_FALSE(is_view(rp_transpose(tape, flat, 0, 3))); /* 6 4 1 1 */
    CU_ASSERT_FALSE(is_view(rp_transpose(tape, flat, 1, 3))); /* 1 6 1 4 */
    CU_ASSERT_TRUE(is_view(rp_transpose(tape, flat, 1, 1)));
    CU_ASSERT_TRUE(is_view(rp_slice(tape, x, 0, 1, 2)));
    CU_ASSERT_TRUE(is_view(rp_slice(tape, x, 1, 0, 6)));
    CU_ASSERT_FALSE(is_view(rp_slice(tape, x, 1, 1, 2)));
    CU_ASSERT_TRUE(is_view(rp_slice(tape, rp_slice(tape, x, 0, 1, 1), 1, 1, 2)));
    CU_ASSERT_TRUE(is_view(rp_detach(tape, x)));
    check_shape(rp_transpose(tape, flat, 0, 3), RP_SHAPE(6, 4, 1, 1));
    check_shape(rp_slice(tape, x, -1, 1, 2), RP_SHAPE(4, 2));
    RP_CHECK_OK(context, rp_tape_status(tape));
    close_tape();
    for (int i = 0; i < 8; i++) {
        const int64_t slices[8][3] = {
            {0, 3, 2},  {2, 0, 1},  {0, -1, 2},        {0, 5, 0},
            {1, 0, -1}, {-3, 0, 1}, {0, INT64_MAX, 1}, {1, INT64_MIN, INT64_MIN}};
        open_tape();
        rp_slice(tape, x, (int)slices[i][0], slices[i][1], slices[i][2]);
        RP_CHECK_STATUS(context, rp_tape_status(tape), RP_BAD_SHAPE);
        RP_CHECK_MESSAGE(context, "slice");
        close_tape();
    }
}

/* From -rank to rank - 1, for concat as for slice and transpose. */
static void test_dimensions_of_concat_are_checked_as_given(void) {
    open_tape();
    const rp_tensor parts[] = {x, x};
    check_shape(rp_concat(tape, parts, 2, -1), RP_SHAPE(4, 12));
    check_shape(rp_concat(tape, parts, 2, -2), RP_SHAPE(8, 6));
    RP_CHECK_OK(context, rp_tape_status(tape));
    close_tape();
    const int wrong[] = {-3, -4, 2, INT_MIN, INT_MAX};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        open_tape();
        char dimension[32];
        snprintf(dimension, sizeof dimension, "dimension %d", wrong[i]);
        const rp_tensor two[] = {x, x};
        RP_CHECK_EQUAL(rp_concat(tape, two, 2, wrong[i]).id, 0);
        RP_CHECK_STATUS(context, rp_tape_status(tape), RP_INVALID_ARGUMENT);
        RP_CHECK_MESSAGE(context, dimension);
        close_tape();
    }
}

/* Whatever else they do with it, mean and a dropout of nothing take f32, as the others do. */
static void test_ids_are_no_numbers(void) {
    for (int i = 0; i < 2; i++) {
        open_tape();
        RP_CHECK_EQUAL((i == 0 ? rp_mean(tape, ids) : rp_dropout(tape, ids, 0.0f)).id, 0);
        RP_CHECK_STATUS(context, rp_tape_status(tape), RP_BAD_DTYPE);
        RP_CHECK_MESSAGE(context, i == 0 ? "mean: x is i32 [4]" : "dropout: x is i32 [4]");
        close_tape();
    }
}

/* A loss in another storage type would only fail in the kernel that seeds its gradient. */
static void test_losses_are_f32(void) {
    const rp_dtype dtypes[] = {RP_BF16, RP_I32};
    for (int i = 0; i < 2; i++) {
        open_tape();
        const rp_tensor scalar = rp_parameter(tape, "scalar", dtypes[i], RP_SCALAR);
        rp_program_options options = RP_PROGRAM_OPTIONS;
        options.losses = &scalar;
        options.loss_count = 1;
        rp_program *program = NULL;
        RP_CHECK_STATUS(context, rp_program_create(tape, &options, &program), RP_BAD_DTYPE);
        RP_CHECK_MESSAGE(context, i == 0 ? "loss 0 is bf16 []" : "loss 0 is i32 []");
        rp_program_destroy(program);
        close_tape();
    }
}

static void test_dropout_of_nothing_is_its_input(void) {
    open_tape();
    RP_CHECK_EQUAL(rp_dropout(tape, x, 0.0f).id, x.id);
    CU_ASSERT_TRUE(rp_dropout(tape, x, 0.1f).id != x.id);
    RP_CHECK_OK(context, rp_tape_status(tape));
    rp_dropout(tape, x, 1.0f);
    CU_ASSERT_TRUE(rp_tape_status(tape) != RP_OK);
    RP_CHECK_MESSAGE(context, "dropout");
    close_tape();
}

static void test_cast_to_the_same_type_is_its_input(void) {
    open_tape();
    RP_CHECK_EQUAL(rp_cast(tape, x, RP_F32).id, x.id);
    const rp_tensor narrow = rp_cast(tape, x, RP_BF16);
    RP_CHECK_EQUAL(rp_tensor_get_info(tape, narrow).dtype, RP_BF16);
    RP_CHECK_EQUAL(rp_cast(tape, narrow, RP_BF16).id, narrow.id);
    RP_CHECK_OK(context, rp_tape_status(tape));
    RP_CHECK_EQUAL(rp_add(tape, x, narrow).id, 0);
    RP_CHECK_STATUS(context, rp_tape_status(tape), RP_BAD_DTYPE);
    RP_CHECK_MESSAGE(context, "f32: one type is needed");
    close_tape();
    open_tape();
    RP_CHECK_EQUAL(rp_cast(tape, x, RP_I32).id, 0);
    RP_CHECK_MESSAGE(context, "cast: to i32");
    close_tape();
}

/* ME-18: a shape that has no size is refused where it is made. */
static void test_ME_18_sizes_beyond_63_bits_are_refused(void) {
    open_tape();
    rp_parameter(tape, "huge", RP_F32, RP_SHAPE(INT64_C(1) << 31, INT64_C(1) << 31));
    RP_CHECK_STATUS(context, rp_tape_status(tape), RP_BAD_SHAPE);
    RP_CHECK_MESSAGE(context, "huge");
    close_tape();
    open_tape(); /* nothing is in it, but ops multiply some of its dimensions */
    rp_input(tape, "hidden", RP_F32, RP_SHAPE(1, 4, INT64_C(1) << 40, INT64_C(1) << 40, 0));
    RP_CHECK_STATUS(context, rp_tape_status(tape), RP_BAD_SHAPE);
    RP_CHECK_MESSAGE(context, "hidden");
    close_tape();
    open_tape(); /* two factors that fit, and a product that does not */
    const rp_tensor tall = rp_input(tape, "tall", RP_F32, RP_SHAPE(INT64_C(1) << 40, 1));
    const rp_tensor wide = rp_parameter(tape, "wide", RP_F32, RP_SHAPE(1, INT64_C(1) << 30));
    rp_linear(tape, tall, wide, RP_NO_TENSOR, RP_IN_OUT);
    CU_ASSERT_TRUE(rp_tape_status(tape) != RP_OK);
    RP_CHECK_MESSAGE(context, "linear");
    close_tape();
}

/* ---- Names ----------------------------------------------------------------------------------- */

static void check_node(const rp_graph *graph, uint32_t node, const char *name, const char *block) {
    rp_node_info info;
    rp_graph_node(graph, node, &info);
    RP_CHECK_STRING(info.name, name);
    RP_CHECK_STRING(info.block, block);
}

static void test_names_blocks_and_marks_reach_the_graph(void) {
    open_tape();
    const rp_tensor first = rp_tanh(tape, x);
    rp_block(tape, "layer.%d", 3);
    rp_name(tape, "my_%s", "tanh");
    const rp_tensor second = rp_tanh(tape, first);
    const rp_tensor third = rp_linear(tape, second, w, RP_NO_TENSOR, RP_IN_OUT);
    rp_mark_node(tape, second, RP_MARK_KEEP);
    rp_block_end(tape);
    const rp_tensor loss = rp_sum(tape, third);
    RP_CHECK_STRING(rp_tensor_name(tape, w), "w");
    RP_CHECK_STRING(rp_tensor_name(tape, second), "my_tanh");
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_program *program = NULL;
    options.losses = &loss;
    options.loss_count = 1;
    options.name = "named";
    RP_REQUIRE_OK(context, rp_program_create(tape, &options, &program));
    const rp_graph *graph = rp_program_graph(program);
    RP_CHECK_STRING(rp_graph_name(graph), "named");
    check_node(graph, 0, "tanh.0", "");
    check_node(graph, 1, "layer.3.my_tanh", "layer.3");
    check_node(graph, 2, "layer.3.linear.0", "layer.3");
    check_node(graph, 3, "sum.0", "");
    check_node(graph, 4, "sum.0/loss_seed", "");
    check_node(graph, 6, "layer.3.linear.0/linear_backward_weight", "layer.3");
    rp_node_info info;
    rp_graph_node(graph, 1, &info);
    RP_CHECK_EQUAL(info.mark, RP_MARK_KEEP);
    RP_CHECK_EQUAL(rp_graph_node_count(graph), 7); /* x needs no gradient: nothing beyond dW */
    rp_program_destroy(program);
    close_tape();
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static rp_status record_with(rp_context *with, void *user) {
    (void)user;
    rp_tape *made = NULL;
    rp_program *program = NULL;
    rp_status status = rp_tape_create(with, &made);
    if (status != RP_OK)
        return status;
    const rp_tensor in = rp_input(made, "x", RP_F32, RP_SHAPE(2, 3, 8));
    rp_tensor h = in;
    rp_attention_options attention = RP_ATTENTION_OPTIONS;
    attention.heads = 2;
    attention.dropout = 0.1f;
    for (int i = 0; i < 3; i++) {
        rp_block(made, "layer.%d", i);
        const rp_tensor weight = rp_parameter(made, "w", RP_F32, RP_SHAPE(8, 24));
        h = rp_linear(made, h, weight, RP_NO_TENSOR, RP_IN_OUT);
        rp_name(made, "attention");
        h = rp_attention_unfused(made, h, RP_NO_TENSOR, RP_NO_TENSOR, &attention);
        h = rp_add(made, h,
                   rp_reshape(made, rp_reshape(made, in, RP_SHAPE(-1)), RP_SHAPE(2, 3, 8)));
    }
    const rp_tensor parts[] = {h, in, h};
    const rp_tensor loss = rp_sum(made, rp_concat(made, parts, 3, 1));
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.losses = &loss;
    options.loss_count = 1;
    options.outputs = &h;
    options.output_count = 1;
    options.accumulate = true;
    options.optimizer = RP_OPTIMIZER_ADAMW;
    status = rp_program_create(made, &options, &program);
    rp_program_destroy(program);
    rp_tape_destroy(made);
    return status;
}

static void test_recording_without_memory_is_a_status(void) {
    rp_fault_sweep("record", record_with, NULL);
}

/* Whatever is wrong, the message names the op that the caller recorded, not one of its parts. */
static void test_unfused_attention_speaks_of_itself(void) {
    const rp_shape fine = RP_SHAPE(2, 3, 4), other = RP_SHAPE(2, 5, 4), wide = RP_SHAPE(2, 3, 5);
    const rp_shape flat = RP_SHAPE(2, 12), batch = RP_SHAPE(3, 3, 4);
    const rp_shape huge = RP_SHAPE(1 << 20, INT32_MAX, 4);
    const struct {
        rp_shape q, k, v;
        rp_dtype dtype; /* of v */
        int heads, kv_heads;
        float scale, dropout;
        const char *words;
    } rows[] = {
        {flat, fine, fine, RP_F32, 2, 0, 0, 0, "q is"},
        {wide, fine, fine, RP_F32, 2, 0, 0, 0, "q is"},
        {fine, batch, batch, RP_F32, 2, 0, 0, 0, "k is"},
        {fine, fine, other, RP_F32, 2, 0, 0, 0, "v is"},
        {fine, fine, wide, RP_F32, 2, 0, 0, 0, "v is"},
        {fine, fine, fine, RP_I32, 2, 0, 0, 0, "v is"},
        {fine, fine, fine, RP_F32, 0, 0, 0, 0, "0 heads"},
        {fine, fine, fine, RP_F32, 2, 3, 0, 0, "3 key/value heads"},
        {fine, fine, fine, RP_F32, 2, 0, INFINITY, 0, "scale"},
        {fine, fine, fine, RP_F32, 2, 0, 0, 1.0f, "dropout is 1"},
        {huge, huge, huge, RP_F32, 2, 0, 0, 0, "too many"},
    };
    context = rp_test_context(1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tape = NULL;
        RP_REQUIRE_OK(context, rp_tape_create(context, &tape));
        rp_attention_options options = RP_ATTENTION_OPTIONS;
        options.heads = rows[i].heads;
        options.kv_heads = rows[i].kv_heads;
        options.scale = rows[i].scale;
        options.dropout = rows[i].dropout;
        const rp_tensor made = rp_attention_unfused(
            tape, rp_input(tape, "q", RP_F32, rows[i].q), rp_input(tape, "k", RP_F32, rows[i].k),
            rp_input(tape, "v", rows[i].dtype, rows[i].v), &options);
        RP_CHECK(made.id == 0 && rp_tape_status(tape) != RP_OK, "row %zu is refused", i);
        const char *message = rp_context_message(context);
        RP_CHECK(strncmp(message, "attention_unfused: ", 19) == 0 &&
                     strstr(message, rows[i].words) != NULL,
                 "row %zu: %s", i, message);
        rp_tape_destroy(tape);
    }
    rp_context_destroy(context);
}

/* No format that compilers warn of is needed to end a block. */
static void test_a_block_ends(void) {
    context = rp_test_context(1);
    tape = NULL;
    RP_REQUIRE_OK(context, rp_tape_create(context, &tape));
    x = rp_parameter(tape, "x", RP_F32, RP_SHAPE(2));
    rp_block(tape, "layer.%d", 0);
    const rp_tensor y = rp_tanh(tape, x);
    rp_block_end(tape);
    const rp_tensor loss = rp_sum(tape, y);
    rp_program *program = NULL;
    RP_REQUIRE_OK(context, rp_program_create(tape, RP_LOSS(loss), &program));
    rp_node_info first, second;
    rp_graph_node(rp_program_graph(program), 0, &first);
    rp_graph_node(rp_program_graph(program), 1, &second);
    RP_CHECK_STRING(first.block, "layer.0");
    RP_CHECK_STRING(second.block, "");
    rp_context_destroy(context);
}

static void test_marks_reach_from_here_to_there(void) {
    rp_node_info nodes[4];
    context = rp_test_context(1);
    tape = NULL;
    RP_REQUIRE_OK(context, rp_tape_create(context, &tape));
    x = rp_parameter(tape, "x", RP_F32, RP_SHAPE(2));
    const rp_tensor before = rp_tanh(tape, x);
    rp_mark_from_here(tape, RP_MARK_RECOMPUTE);
    const rp_tensor marked = rp_tanh(tape, rp_tanh(tape, before));
    rp_mark_from_here(tape, RP_MARK_AUTO);
    rp_mark_node(tape, marked, RP_MARK_KEEP); /* the later word counts */
    const rp_tensor loss = rp_sum(tape, marked);
    rp_program *program = NULL;
    RP_REQUIRE_OK(context, rp_program_create(tape, RP_LOSS(loss), &program));
    const rp_graph *graph = rp_program_graph(program);
    for (uint32_t n = 0; n < 4; n++)
        rp_graph_node(graph, n, &nodes[n]);
    RP_CHECK_EQUAL(nodes[0].mark, RP_MARK_AUTO);
    RP_CHECK_EQUAL(nodes[1].mark, RP_MARK_RECOMPUTE);
    RP_CHECK_EQUAL(nodes[2].mark, RP_MARK_KEEP);
    RP_CHECK_EQUAL(nodes[3].mark, RP_MARK_AUTO);
    for (uint32_t n = 4; n < rp_graph_node_count(graph); n++) {
        rp_graph_node(graph, n, &nodes[0]);
        RP_CHECK_EQUAL(nodes[0].mark, RP_MARK_AUTO);
    }
    rp_mark_from_here(tape, (rp_mark)7);
    RP_CHECK_STATUS(context, rp_tape_status(tape), RP_INVALID_ARGUMENT);
    RP_CHECK_MESSAGE(context, "rp_mark_from_here: 7 is no mark");
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_marks_reach_from_here_to_there),
    RP_TEST(test_unfused_attention_speaks_of_itself),
    RP_TEST(test_a_block_ends),
    RP_TEST(test_first_failure_sticks),
    RP_TEST(test_tensors_that_are_none_are_refused_by_name),
    RP_TEST(test_leaves_are_checked),
    RP_TEST(test_options_and_lists_are_checked),
    RP_TEST(test_no_tape_at_all),
    RP_TEST(test_custom_ops_are_checked),
    RP_TEST(test_a_custom_op_may_write_over_its_list),
    RP_TEST(test_marks_are_for_nodes),
    RP_TEST(test_reshape_resolves_one_open_dimension),
    RP_TEST(test_what_moves_nothing_is_a_view),
    RP_TEST(test_dimensions_of_concat_are_checked_as_given),
    RP_TEST(test_ids_are_no_numbers),
    RP_TEST(test_losses_are_f32),
    RP_TEST(test_dropout_of_nothing_is_its_input),
    RP_TEST(test_cast_to_the_same_type_is_its_input),
    RP_TEST(test_ME_18_sizes_beyond_63_bits_are_refused),
    RP_TEST(test_names_blocks_and_marks_reach_the_graph),
    RP_TEST(test_recording_without_memory_is_a_status),
};
RP_SUITE(tape, tests)
