/* What each op's gradient is made of: which values it reads, and only when the gradient is wanted.
 * The values themselves are checked by the op cases. */
#include <string.h>

#include "ops_case.h"
#include "vjp_record.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

typedef struct row {
    rp_op op;
    rp_op_params params;
    size_t in_count;
    rp_tensor_info in[3];
    uint32_t wanted;
    const char *emitted;
} row;

static void check_row(rp_context *context, const row *r) {
    rp_tensor_info out[RP_OP_MAX_OUTPUTS];
    rp_op_call call = {r->in, r->in_count, out, 0, &r->params};
    vjp_record record;
    char text[VJP_TEXT];
    if (!RP_CHECK_OK(context, rp_op_get(r->op)->infer(context, &call)))
        return;
    vjp_record_make(&record, r->op, &call, r->wanted);
    RP_CHECK(strcmp(vjp_record_text(&record, text), r->emitted) == 0,
             "%s, wanted %u: \"%s\", not \"%s\"", rp_op_get(r->op)->name, r->wanted, text,
             r->emitted);
}

#define NONE                                                                                       \
    {                                                                                              \
        .gelu = { 0 }                                                                              \
    }
#define A OPS_F32(4, 6)
#define V OPS_F32(6)

static const row rows[] = {
    {RP_OP_ADD, NONE, 2, {A, A}, 3, "view(g0)->d0; view(g0)->d1; "},
    {RP_OP_ADD, NONE, 2, {A, V}, 1, "view(g0)->d0; "},
    {RP_OP_ADD, NONE, 2, {A, V}, 2, "sum_leading(g0)->d1; "},
    {RP_OP_ADD, NONE, 2, {A, A}, 0, ""},
    {RP_OP_MUL, NONE, 2, {A, A}, 1, "mul(g0 in1)->d0; "},
    {RP_OP_MUL, NONE, 2, {A, A}, 2, "mul(g0 in0)->d1; "},
    {RP_OP_MUL, NONE, 2, {A, A}, 3, "mul(g0 in1)->d0; mul(g0 in0)->d1; "},
    {RP_OP_MUL, NONE, 2, {A, V}, 2, "mul(g0 in0)->t0; sum_leading(t0)->d1; "},
    {RP_OP_MUL, NONE, 2, {A, V}, 0, ""},
    {RP_OP_SCALE, NONE, 1, {A}, 1, "scale(g0)->d0; "},
    {RP_OP_SCALE, NONE, 1, {A}, 0, ""},
    {RP_OP_GELU, NONE, 1, {A}, 1, "gelu_backward(in0 g0)->d0; "},
    {RP_OP_GELU, NONE, 1, {A}, 0, ""},
    {RP_OP_SILU, NONE, 1, {A}, 1, "silu_backward(in0 g0)->d0; "},
    {RP_OP_TANH, NONE, 1, {A}, 1, "tanh_backward(out0 g0)->d0; "},
    {RP_OP_SIGMOID, NONE, 1, {A}, 1, "sigmoid_backward(out0 g0)->d0; "},
    {RP_OP_RELU, NONE, 1, {A}, 1, "relu_backward(out0 g0)->d0; "},
    {RP_OP_RELU, NONE, 1, {A}, 0, ""},
    {RP_OP_DROPOUT, {.dropout = {0.5f, 1}}, 1, {A}, 1, "dropout(g0)->d0; "},
    {RP_OP_DROPOUT, {.dropout = {0.5f, 1}}, 1, {A}, 0, ""},
    {RP_OP_CAST, {.cast = {RP_BF16}}, 1, {A}, 1, "cast(g0)->d0; "},
    {RP_OP_CAST, {.cast = {RP_BF16}}, 1, {A}, 0, ""},
    {RP_OP_EMBEDDING, NONE, 2, {A, OPS_I32(3)}, 1, "embedding_backward(in1 g0)->d0; "},
    {RP_OP_EMBEDDING, NONE, 2, {A, OPS_I32(3)}, 0, ""},
    {RP_OP_LAYERNORM, NONE, 3, {A, V, V}, 7, "layernorm_backward(in0 out1 in1 g0)->d0 d1 d2; "},
    {RP_OP_LAYERNORM, NONE, 3, {A, V, V}, 1, "layernorm_backward(in0 out1 in1 g0)->d0 - -; "},
    {RP_OP_LAYERNORM, NONE, 3, {A, V, V}, 6, "layernorm_backward(in0 out1 - g0)->- d1 d2; "},
    {RP_OP_LAYERNORM, NONE, 3, {A, V, V}, 2, "layernorm_backward(in0 out1 - g0)->- d1 -; "},
    {RP_OP_LAYERNORM, NONE, 3, {A, V, V}, 4, "sum_leading(g0)->d2; "},
    {RP_OP_LAYERNORM,
     NONE,
     3,
     {A, V, OPS_ABSENT},
     3,
     "layernorm_backward(in0 out1 in1 g0)->d0 d1 -; "},
    {RP_OP_LAYERNORM, NONE, 3, {A, V, V}, 0, ""},
    {RP_OP_SOFTMAX, NONE, 1, {A}, 1, "softmax_backward(out0 g0)->d0; "},
    {RP_OP_SOFTMAX, NONE, 1, {A}, 0, ""},
    {RP_OP_CROSS_ENTROPY,
     NONE,
     2,
     {A, OPS_I32(4)},
     1,
     "cross_entropy_backward(in0 in1 out1 g0)->d0; "},
    {RP_OP_CROSS_ENTROPY, NONE, 2, {A, OPS_I32(4)}, 0, ""},
    {RP_OP_SUM, NONE, 1, {A}, 1, "sum_backward(g0)->d0; "},
    {RP_OP_SUM, NONE, 1, {A}, 0, ""},
    {RP_OP_TRANSPOSE, {.transpose = {0, 1}}, 1, {A}, 1, "transpose(g0)->d0; "},
    {RP_OP_TRANSPOSE, {.transpose = {0, 1}}, 1, {A}, 0, ""},
    {RP_OP_SLICE, {.slice = {1, 2, 3}}, 1, {A}, 1, "slice_backward(g0)->d0; "},
    {RP_OP_SLICE, {.slice = {1, 2, 3}}, 1, {A}, 0, ""},
    {RP_OP_CONCAT, {.concat = {0}}, 2, {A, A}, 3, "view(g0)->d0; view(g0)->d1; "},
    {RP_OP_CONCAT, {.concat = {1}}, 2, {A, A}, 2, "slice(g0)->d1; "},
    {RP_OP_CONCAT, {.concat = {1}}, 2, {A, A}, 0, ""},
    {RP_OP_VIEW, {.view = {0, {1, {24}}}}, 1, {A}, 1, "view(g0)->d0; "},
    {RP_OP_VIEW, {.view = {24, {2, {2, 6}}}}, 1, {A}, 1, "slice_backward(g0)->d0; "},
    {RP_OP_VIEW, {.view = {0, {1, {24}}}}, 1, {A}, 0, ""},
};

static void test_gradients_read_what_they_need_when_it_is_wanted(void) {
    rp_context *context = rp_test_context(1);
    for (size_t i = 0; i < COUNT(rows); i++)
        check_row(context, &rows[i]);
    rp_context_destroy(context);
}

static rp_status no_emit(rp_vjp *vjp, rp_op op, const rp_op_params *params, const uint32_t *in,
                         size_t in_count, rp_vjp_output *out, size_t out_count) {
    (void)vjp, (void)params, (void)in, (void)in_count, (void)out, (void)out_count;
    RP_CHECK(false, "%s was emitted", rp_op_get(op)->name);
    return RP_OK;
}

/* Nothing flows from the statistics or the log-sum-exp alone. */
static void test_no_gradient_from_side_outputs(void) {
    static const row alone[] = {
        {RP_OP_LAYERNORM, NONE, 3, {A, V, V}, 7, NULL},
        {RP_OP_CROSS_ENTROPY, NONE, 2, {A, OPS_I32(4)}, 1, NULL},
    };
    rp_context *context = rp_test_context(1);
    for (size_t i = 0; i < COUNT(alone); i++) {
        const row *r = &alone[i];
        rp_tensor_info out_info[RP_OP_MAX_OUTPUTS];
        rp_op_call call = {r->in, r->in_count, out_info, 0, &r->params};
        const uint32_t in[] = {0, 1, 2}, out[] = {100, 101}, gradient[] = {RP_NONE, 200};
        const bool wanted[] = {true, true, true};
        RP_CHECK_OK(context, rp_op_get(r->op)->infer(context, &call));
        rp_vjp vjp = {&call, in, out, gradient, wanted, context, no_emit};
        RP_CHECK_OK(context, rp_op_get(r->op)->vjp(&vjp));
    }
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_gradients_read_what_they_need_when_it_is_wanted),
    RP_TEST(test_no_gradient_from_side_outputs),
};
RP_SUITE(vjp, tests)
