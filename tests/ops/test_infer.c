/* What recording refuses, and that the words name the op, what it got and what it wanted. */
#include <string.h>

#include "ops_case.h"

#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

typedef struct refusal {
    rp_op op;
    rp_op_params params;
    size_t in_count;
    rp_tensor_info in[3];
    rp_status status;
    const char *words[3]; /* all must be in the message */
} refusal;

#define NONE                                                                                       \
    {                                                                                              \
        .gelu = { 0 }                                                                              \
    }
#define HUGE_F32                                                                                   \
    {                                                                                              \
        RP_F32, {                                                                                  \
            3, {                                                                                   \
                INT64_C(1) << 31, INT64_C(1) << 30, 1                                              \
            }                                                                                      \
        }                                                                                          \
    }

static const refusal refusals[] = {
    {RP_OP_ADD, NONE, 1, {OPS_F32(4)}, RP_INVALID_ARGUMENT, {"add", "1 inputs", "2"}},
    {RP_OP_ADD,
     NONE,
     2,
     {OPS_F32(2, 3), OPS_F32(2)},
     RP_BAD_SHAPE,
     {"add", "f32 [2, 3]", "f32 [2]"}},
    {RP_OP_ADD,
     NONE,
     2,
     {OPS_F32(3), OPS_F32(2, 3)},
     RP_BAD_SHAPE,
     {"add", "f32 [3]", "f32 [2, 3]"}},
    {RP_OP_ADD, NONE, 2, {OPS_F32(3), OPS_I32(3)}, RP_BAD_DTYPE, {"add", "b is i32 [3]", "f32"}},
    {RP_OP_ADD,
     NONE,
     2,
     {OPS_F32(2, 4), OPS_BF16(4)},
     RP_BAD_DTYPE,
     {"add", "b is bf16 [4]", "f32: one type is needed"}},
    {RP_OP_MUL,
     NONE,
     2,
     {OPS_BF16(4), OPS_F32(4)},
     RP_BAD_DTYPE,
     {"mul", "b is f32 [4]", "bf16: one type is needed"}},
    {RP_OP_MUL, NONE, 2, {OPS_F32(3), OPS_ABSENT}, RP_INVALID_ARGUMENT, {"mul", "b is absent"}},
    {RP_OP_MUL, NONE, 2, {OPS_F32(3, 4), OPS_F32(3, 1)}, RP_BAD_SHAPE, {"mul", "f32 [3, 1]"}},
    {RP_OP_SCALE, NONE, 1, {OPS_I32(3)}, RP_BAD_DTYPE, {"scale", "i32 [3]", "f32"}},
    {RP_OP_GELU, NONE, 1, {OPS_I32(3)}, RP_BAD_DTYPE, {"gelu", "i32 [3]", "f32"}},
    {RP_OP_GELU,
     {.gelu = {(rp_gelu_form)7}},
     1,
     {OPS_F32(3)},
     RP_INVALID_ARGUMENT,
     {"gelu", "7 is no form"}},
    {RP_OP_TANH, NONE, 1, {OPS_ABSENT}, RP_INVALID_ARGUMENT, {"tanh", "absent"}},
    {RP_OP_SIGMOID, NONE, 1, {OPS_I32(4)}, RP_BAD_DTYPE, {"sigmoid", "i32 [4]", "f32 or bf16"}},
    {RP_OP_CAST, {.cast = {RP_BF16}}, 1, {OPS_I32(4)}, RP_BAD_DTYPE, {"cast", "x is i32 [4]"}},
    {RP_OP_CAST, {.cast = {RP_I32}}, 1, {OPS_F32(4)}, RP_BAD_DTYPE, {"cast", "to i32", "bf16"}},
    {RP_OP_RELU, NONE, 1, {OPS_I32(1)}, RP_BAD_DTYPE, {"relu"}},
    {RP_OP_SILU, NONE, 1, {OPS_I32(1)}, RP_BAD_DTYPE, {"silu"}},
    {RP_OP_DROPOUT,
     {.dropout = {1.0f, 0}},
     1,
     {OPS_F32(4)},
     RP_INVALID_ARGUMENT,
     {"dropout", "p is 1", "0 <= p < 1"}},
    {RP_OP_DROPOUT, {.dropout = {-0.5f, 0}}, 1, {OPS_F32(4)}, RP_INVALID_ARGUMENT, {"-0.5"}},
    {RP_OP_DROPOUT,
     {.dropout = {(float)(0.0 / 0.0), 0}},
     1,
     {OPS_F32(4)},
     RP_INVALID_ARGUMENT,
     {"nan"}},
    {RP_OP_EMBEDDING,
     NONE,
     2,
     {OPS_F32(4), OPS_I32(2)},
     RP_BAD_SHAPE,
     {"embedding", "table is f32 [4]", "[rows, width]"}},
    {RP_OP_EMBEDDING,
     NONE,
     2,
     {OPS_F32(4, 2), OPS_F32(2)},
     RP_BAD_DTYPE,
     {"embedding", "ids is f32 [2]", "i32"}},
    {RP_OP_EMBEDDING,
     NONE,
     2,
     {OPS_F32(4, 2), OPS_I32(1, 1, 1, 1, 1, 1)},
     RP_BAD_SHAPE,
     {"embedding", "ids", "5"}},
    {RP_OP_EMBEDDING,
     NONE,
     2,
     {OPS_F32(1, INT64_C(1) << 40), OPS_I32(INT64_C(1) << 30)},
     RP_BAD_SHAPE,
     {"embedding", "63 bits"}},
    {RP_OP_LAYERNORM,
     NONE,
     3,
     {OPS_F32(2, 3), OPS_F32(2), OPS_ABSENT},
     RP_BAD_SHAPE,
     {"layernorm", "weight is f32 [2]", "[3]"}},
    {RP_OP_LAYERNORM,
     NONE,
     3,
     {OPS_F32(2, 3), OPS_F32(3), OPS_F32(1, 3)},
     RP_BAD_SHAPE,
     {"layernorm", "bias is f32 [1, 3]", "[3]"}},
    {RP_OP_LAYERNORM,
     NONE,
     3,
     {OPS_BF16(2, 3), OPS_BF16(3), OPS_F32(3)},
     RP_BAD_DTYPE,
     {"layernorm", "bias is f32 [3]", "bf16: one type"}},
    {RP_OP_LINEAR,
     NONE,
     3,
     {OPS_BF16(2, 3), OPS_F32(3, 5), OPS_ABSENT},
     RP_BAD_DTYPE,
     {"linear", "weight is f32 [3, 5]", "bf16: one type"}},
    {RP_OP_MATMUL,
     NONE,
     2,
     {OPS_F32(2, 3), OPS_BF16(3, 5)},
     RP_BAD_DTYPE,
     {"matmul", "b is bf16 [3, 5]", "f32: one type"}},
    {RP_OP_ATTENTION,
     {.attention = {.heads = 2}},
     3,
     {OPS_BF16(1, 5, 4), OPS_BF16(1, 5, 4), OPS_F32(1, 5, 4)},
     RP_BAD_DTYPE,
     {"attention", "v is f32 [1, 5, 4]", "bf16: one type"}},
    {RP_OP_LAYERNORM,
     NONE,
     3,
     {OPS_F32(2, 3), OPS_ABSENT, OPS_ABSENT},
     RP_INVALID_ARGUMENT,
     {"layernorm", "weight is absent"}},
    {RP_OP_LAYERNORM,
     NONE,
     3,
     {OPS_F32_SCALAR, OPS_F32(1), OPS_ABSENT},
     RP_BAD_SHAPE,
     {"layernorm", "x is f32 []", "1 or more"}},
    {RP_OP_LAYERNORM,
     {.layernorm = {-1.0f}},
     3,
     {OPS_F32(2), OPS_F32(2), OPS_ABSENT},
     RP_INVALID_ARGUMENT,
     {"layernorm", "eps is -1"}},
    {RP_OP_LAYERNORM,
     NONE,
     3,
     {{RP_F32, {2, {INT64_C(1) << 61, 1}}}, OPS_F32(1), OPS_ABSENT},
     RP_BAD_SHAPE,
     {"layernorm", "63 bits"}},
    {RP_OP_SOFTMAX,
     {.softmax = {true}},
     1,
     {OPS_F32(4)},
     RP_BAD_SHAPE,
     {"softmax", "f32 [4]", "2 or more"}},
    {RP_OP_SOFTMAX, NONE, 1, {OPS_F32_SCALAR}, RP_BAD_SHAPE, {"softmax", "1 or more"}},
    {RP_OP_CROSS_ENTROPY,
     NONE,
     2,
     {OPS_F32(2, 3), OPS_I32(3)},
     RP_BAD_SHAPE,
     {"cross_entropy", "logits is f32 [2, 3]", "targets is i32 [3]"}},
    {RP_OP_CROSS_ENTROPY,
     NONE,
     2,
     {OPS_F32(2, 3), OPS_F32(2)},
     RP_BAD_DTYPE,
     {"cross_entropy", "targets is f32 [2]", "i32"}},
    {RP_OP_CROSS_ENTROPY,
     {.cross_entropy = {0, (rp_reduction)7}},
     2,
     {OPS_F32(3), OPS_I32_SCALAR},
     RP_INVALID_ARGUMENT,
     {"cross_entropy", "7"}},
    {RP_OP_SUM, NONE, 1, {OPS_I32(3)}, RP_BAD_DTYPE, {"sum", "i32 [3]", "f32"}},
    {RP_OP_TRANSPOSE,
     {.transpose = {0, 2}},
     1,
     {OPS_F32(2, 3)},
     RP_INVALID_ARGUMENT,
     {"transpose", "f32 [2, 3]", "dimension 2"}},
    {RP_OP_TRANSPOSE,
     {.transpose = {-3, 0}},
     1,
     {OPS_F32(2, 3)},
     RP_INVALID_ARGUMENT,
     {"dimension -3"}},
    {RP_OP_SLICE,
     {.slice = {1, 2, 2}},
     1,
     {OPS_F32(2, 3)},
     RP_INVALID_ARGUMENT,
     {"slice", "2 elements from 2", "f32 [2, 3]"}},
    {RP_OP_SLICE, {.slice = {1, -1, 2}}, 1, {OPS_F32(2, 3)}, RP_INVALID_ARGUMENT, {"slice"}},
    {RP_OP_SLICE, {.slice = {1, 1, INT64_MAX}}, 1, {OPS_F32(2, 3)}, RP_INVALID_ARGUMENT, {"slice"}},
    {RP_OP_SLICE, {.slice = {2, 0, 1}}, 1, {OPS_F32(2, 3)}, RP_INVALID_ARGUMENT, {"dimension 2"}},
    {RP_OP_CONCAT, {.concat = {0}}, 0, {OPS_ABSENT}, RP_INVALID_ARGUMENT, {"concat", "1 or more"}},
    {RP_OP_CONCAT,
     {.concat = {0}},
     2,
     {OPS_F32(2, 3), OPS_F32(2, 4)},
     RP_BAD_SHAPE,
     {"concat", "f32 [2, 3]", "f32 [2, 4]"}},
    {RP_OP_CONCAT,
     {.concat = {0}},
     2,
     {OPS_F32(2), OPS_I32(2)},
     RP_BAD_DTYPE,
     {"concat", "f32 [2]", "i32 [2]"}},
    {RP_OP_CONCAT,
     {.concat = {0}},
     2,
     {OPS_F32(2, 3), OPS_F32(3)},
     RP_BAD_SHAPE,
     {"input 1 is f32 [3]"}},
    {RP_OP_CONCAT, {.concat = {0}}, 2, {HUGE_F32, HUGE_F32}, RP_BAD_SHAPE, {"concat", "63 bits"}},
    {RP_OP_VIEW,
     {.view = {0, {1, {7}}}},
     1,
     {OPS_F32(2, 3)},
     RP_BAD_SHAPE,
     {"view", "f32 [7]", "f32 [2, 3]"}},
    {RP_OP_VIEW, {.view = {8, {1, {5}}}}, 1, {OPS_F32(2, 3)}, RP_BAD_SHAPE, {"view", "byte 8"}},
    {RP_OP_VIEW, {.view = {2, {1, {1}}}}, 1, {OPS_F32(2, 3)}, RP_BAD_SHAPE, {"view", "byte 2"}},
    {RP_OP_VIEW, {.view = {-4, {1, {1}}}}, 1, {OPS_F32(2, 3)}, RP_BAD_SHAPE, {"view", "byte -4"}},
    {RP_OP_VIEW, {.view = {0, {1, {-1}}}}, 1, {OPS_F32(2, 3)}, RP_BAD_SHAPE, {"view"}},
    {RP_OP_VIEW, NONE, 1, {OPS_ABSENT}, RP_INVALID_ARGUMENT, {"view", "absent"}},
};

static void test_what_does_not_fit_is_refused_in_words(void) {
    rp_context *context = rp_test_context(1);
    for (size_t i = 0; i < COUNT(refusals); i++) {
        const refusal *r = &refusals[i];
        rp_tensor_info out[RP_OP_MAX_OUTPUTS];
        rp_op_call call = {r->in, r->in_count, out, 0, &r->params};
        const rp_status status = rp_op_get(r->op)->infer(context, &call);
        RP_CHECK(status == r->status, "row %zu, %s: %s, not %s", i, rp_op_get(r->op)->name,
                 rp_status_name(status), rp_status_name(r->status));
        for (size_t w = 0; w < COUNT(r->words) && r->words[w] != NULL; w++)
            RP_CHECK(strstr(rp_context_message(context), r->words[w]) != NULL,
                     "row %zu: \"%s\" is not in \"%s\"", i, r->words[w],
                     rp_context_message(context));
    }
    rp_context_destroy(context);
}

typedef struct outcome {
    rp_op op;
    rp_op_params params;
    size_t in_count;
    rp_tensor_info in[3];
    size_t out_count;
    rp_tensor_info out[2];
} outcome;

static const outcome outcomes[] = {
    {RP_OP_ADD, NONE, 2, {OPS_F32(2, 3), OPS_F32(3)}, 1, {OPS_F32(2, 3)}},
    {RP_OP_ADD, NONE, 2, {OPS_F32(2, 3), OPS_F32_SCALAR}, 1, {OPS_F32(2, 3)}},
    {RP_OP_EMBEDDING, NONE, 2, {OPS_F32(9, 5), OPS_I32(2, 3)}, 1, {OPS_F32(2, 3, 5)}},
    {RP_OP_LAYERNORM,
     NONE,
     3,
     {OPS_F32(2, 3, 4), OPS_F32(4), OPS_ABSENT},
     2,
     {OPS_F32(2, 3, 4), OPS_F32(6, 2)}},
    {RP_OP_SOFTMAX, NONE, 1, {OPS_F32(2, 3)}, 1, {OPS_F32(2, 3)}},
    {RP_OP_MUL, NONE, 2, {OPS_BF16(2, 3), OPS_BF16(3)}, 1, {OPS_BF16(2, 3)}},
    {RP_OP_CAST, {.cast = {RP_BF16}}, 1, {OPS_F32(2, 3)}, 1, {OPS_BF16(2, 3)}},
    {RP_OP_CAST, {.cast = {RP_F32}}, 1, {OPS_BF16(2, 3)}, 1, {OPS_F32(2, 3)}},
    {RP_OP_CAST, {.cast = {RP_F32}}, 1, {OPS_F32(2)}, 1, {OPS_F32(2)}},
    {RP_OP_EMBEDDING, NONE, 2, {OPS_BF16(9, 5), OPS_I32(2)}, 1, {OPS_BF16(2, 5)}},
    {RP_OP_LAYERNORM,
     NONE,
     3,
     {OPS_BF16(2, 4), OPS_BF16(4), OPS_BF16(4)},
     2,
     {OPS_BF16(2, 4), OPS_F32(2, 2)}},
    {RP_OP_CROSS_ENTROPY, NONE, 2, {OPS_BF16(6, 9), OPS_I32(6)}, 2, {OPS_F32_SCALAR, OPS_F32(6)}},
    {RP_OP_SUM, NONE, 1, {OPS_BF16(2, 3)}, 1, {OPS_F32_SCALAR}},
    {RP_OP_LINEAR, NONE, 3, {OPS_BF16(2, 3), OPS_BF16(3, 5), OPS_BF16(5)}, 1, {OPS_BF16(2, 5)}},
    {RP_OP_MATMUL, NONE, 2, {OPS_BF16(2, 3), OPS_BF16(3, 5)}, 1, {OPS_BF16(2, 5)}},
    {RP_OP_ATTENTION,
     {.attention = {.heads = 2}},
     3,
     {OPS_BF16(1, 5, 4), OPS_BF16(1, 7, 4), OPS_BF16(1, 7, 4)},
     2,
     {OPS_BF16(1, 5, 4), OPS_F32(1, 2, 5)}},
    {RP_OP_ATTENTION_SCORES,
     {.attention = {.heads = 2}},
     2,
     {OPS_BF16(1, 5, 4), OPS_BF16(1, 7, 4)},
     1,
     {OPS_BF16(1, 2, 5, 7)}},
    {RP_OP_ATTENTION_VALUES,
     {.attention = {.heads = 2}},
     2,
     {OPS_BF16(1, 2, 5, 7), OPS_BF16(1, 7, 4)},
     1,
     {OPS_BF16(1, 5, 4)}},
    {RP_OP_VIEW, {.view = {6, {1, {3}}}}, 1, {OPS_BF16(2, 3)}, 1, {OPS_BF16(3)}},
    {RP_OP_CROSS_ENTROPY,
     NONE,
     2,
     {OPS_F32(2, 3, 9), OPS_I32(2, 3)},
     2,
     {OPS_F32_SCALAR, OPS_F32(6)}},
    {RP_OP_CROSS_ENTROPY, NONE, 2, {OPS_F32(9), OPS_I32_SCALAR}, 2, {OPS_F32_SCALAR, OPS_F32(1)}},
    {RP_OP_SUM, NONE, 1, {OPS_F32(2, 3)}, 1, {OPS_F32_SCALAR}},
    {RP_OP_TRANSPOSE, {.transpose = {0, -1}}, 1, {OPS_I32(2, 3, 4)}, 1, {OPS_I32(4, 3, 2)}},
    {RP_OP_SLICE, {.slice = {-1, 1, 2}}, 1, {OPS_F32(2, 3)}, 1, {OPS_F32(2, 2)}},
    {RP_OP_SLICE, {.slice = {0, 2, 0}}, 1, {OPS_F32(2, 3)}, 1, {OPS_F32(0, 3)}},
    {RP_OP_CONCAT, {.concat = {1}}, 2, {OPS_F32(2, 3), OPS_F32(2, 1)}, 1, {OPS_F32(2, 4)}},
    {RP_OP_VIEW, {.view = {12, {1, {3}}}}, 1, {OPS_F32(2, 3)}, 1, {OPS_F32(3)}},
};

static void test_outputs_of_what_fits(void) {
    rp_context *context = rp_test_context(1);
    for (size_t i = 0; i < COUNT(outcomes); i++) {
        const outcome *o = &outcomes[i];
        rp_tensor_info out[RP_OP_MAX_OUTPUTS];
        rp_op_call call = {o->in, o->in_count, out, 0, &o->params};
        char got[RP_SHAPE_TEXT], want[RP_SHAPE_TEXT];
        if (!RP_CHECK_OK(context, rp_op_get(o->op)->infer(context, &call)))
            continue;
        RP_CHECK_EQUAL(call.out_count, o->out_count);
        for (size_t k = 0; k < o->out_count; k++)
            RP_CHECK_STRING(rp_tensor_text(&out[k], got), rp_tensor_text(&o->out[k], want));
    }
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_what_does_not_fit_is_refused_in_words),
    RP_TEST(test_outputs_of_what_fits),
};
RP_SUITE(infer, tests)
