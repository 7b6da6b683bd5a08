/* The caller's ops: what forward and backward are handed, by vjp and kernels. */
#include <string.h>

#include "ops_case.h"
#include "ops_device.h"
#include "vjp_record.h"

/* y0 = 2 a + b, y1 = a; b may be absent. The callbacks note what they saw. */
typedef struct seen {
    int forwards, backwards;
    bool is_replay, has_in[2], has_out[2], has_grad_out[2], has_grad_in[2];
    rp_tensor_info in_info[2], out_info[2];
} seen;

static rp_status forward(const rp_custom_call *call) {
    seen *s = call->user;
    const float *a = call->in[0], *b = call->in[1];
    float *y0 = call->out[0], *y1 = call->out[1];
    if (call->in_count != 2 || call->out_count != 2 || call->grad_out || call->grad_in)
        return RP_INTERNAL_ERROR;
    for (int64_t i = 0; i < rp_shape_count(call->in_info[0].shape); i++) {
        y0[i] = 2.0f * a[i] + (b ? b[i] : 0.0f);
        y1[i] = a[i];
    }
    s->forwards++;
    s->is_replay = call->is_replay;
    return RP_OK;
}

static rp_status backward(const rp_custom_call *call) {
    seen *s = call->user;
    const float *g0 = call->grad_out[0], *g1 = call->grad_out[1];
    float *da = call->grad_in[0], *db = call->grad_in[1];
    for (size_t i = 0; i < 2; i++) {
        s->has_in[i] = call->in[i] != NULL;
        s->has_out[i] = call->out[i] != NULL;
        s->has_grad_out[i] = call->grad_out[i] != NULL;
        s->has_grad_in[i] = call->grad_in[i] != NULL;
        s->in_info[i] = call->in_info[i];
        s->out_info[i] = call->out_info[i];
    }
    for (int64_t i = 0; i < 3; i++) {
        if (da != NULL)
            da[i] = (g0 ? 2.0f * g0[i] : 0.0f) + (g1 ? g1[i] : 0.0f);
        if (db != NULL)
            db[i] = g0 ? g0[i] : 0.0f;
    }
    s->backwards++;
    return RP_OK;
}

static rp_status broken(const rp_custom_call *call) {
    (void)call;
    return RP_DEVICE_ERROR;
}

static rp_custom_op op_make(seen *s, bool reads_inputs, bool reads_outputs) {
    rp_custom_op op = RP_CUSTOM_OP;
    op.name = "twice";
    op.forward = forward;
    op.backward = backward;
    op.user = s;
    op.backward_reads_inputs = reads_inputs;
    op.backward_reads_outputs = reads_outputs;
    return op;
}

static const rp_step_state step = {0, 0, 0, 1.0f, false};
static const rp_tensor_info vector = OPS_F32(3), absent = OPS_ABSENT;

static void run_forward(const rp_kernel *kernels, const char *set, void *user) {
    seen s = {0};
    const rp_custom_op op = op_make(&s, true, true);
    const rp_op_params params = {.custom = {&op, 2, 2}};
    const float a[3] = {1, 2, 3}, b[3] = {10, 20, 30};
    float y0[3], y1[3];
    rp_tensor_info out[] = {vector, vector};
    rp_launch launch = {.call = {(rp_tensor_info[]){vector, vector}, 2, out, 2, &params},
                        .in = (const void *[]){a, b},
                        .out = (void *[]){y0, y1},
                        .step = &step,
                        .threads = 1,
                        .is_replay = true};
    (void)user;
    RP_CHECK_OK(NULL, ops_call(kernels, RP_OP_CUSTOM, &launch));
    RP_CHECK(s.forwards == 1 && s.is_replay && y0[2] == 36.0f && y1[2] == 3.0f, "%s: y0 %g, y1 %g",
             set, (double)y0[2], (double)y1[2]);
    launch.in = (const void *[]){a, NULL};
    launch.is_replay = false;
    RP_CHECK_OK(NULL, ops_call(kernels, RP_OP_CUSTOM, &launch));
    RP_CHECK(s.forwards == 2 && !s.is_replay && y0[2] == 6.0f, "%s: without b: %g", set,
             (double)y0[2]);
}

static void test_custom_forward_sees_inputs_outputs_and_replay(void) {
    ops_for_each_set(run_forward, NULL);
}

/* Slots: 2 inputs, 2 outputs, 2 gradients; what is not read is absent. */
static void run_backward(const rp_kernel *kernels, const char *set, void *user) {
    const float x[3] = {0}, g0[3] = {1, 2, 3}, g1[3] = {10, 20, 30};
    (void)user;
    for (int reads = 0; reads < 4; reads++) {
        const bool ins = reads & 1, outs = reads & 2;
        seen s = {0};
        const rp_custom_op op = op_make(&s, ins, outs);
        const rp_op_params params = {.custom = {&op, 2, 2}};
        const void *const in[] = {
            ins ? x : NULL,        ins ? x : NULL, outs ? x : NULL, outs ? x : NULL, g0,
            reads == 3 ? g1 : NULL};
        const rp_tensor_info infos[] = {ins ? vector : absent,
                                        ins ? vector : absent,
                                        outs ? vector : absent,
                                        outs ? vector : absent,
                                        vector,
                                        reads == 3 ? vector : absent};
        rp_tensor_info out[] = {vector, absent};
        float da[3];
        RP_CHECK_OK(NULL, ops_run(kernels, RP_OP_CUSTOM_BACKWARD,
                                  &(rp_op_call){infos, 6, out, 2, &params}, in,
                                  (void *[]){da, NULL}, &step, 1));
        RP_CHECK(da[1] == (reads == 3 ? 24.0f : 4.0f), "%s, reads %d: %g", set, reads,
                 (double)da[1]);
        RP_CHECK(s.has_in[0] == ins && s.has_out[1] == outs && s.has_grad_out[0] &&
                     s.has_grad_out[1] == (reads == 3) && s.has_grad_in[0] && !s.has_grad_in[1],
                 "%s, reads %d: slots", set, reads);
        RP_CHECK(rp_shape_equal(s.in_info[0].shape, vector.shape) &&
                     rp_shape_equal(s.out_info[0].shape, vector.shape),
                 "%s, reads %d: shapes", set, reads);
    }
}

static void test_custom_backward_sees_what_it_reads(void) {
    ops_for_each_set(run_backward, NULL);
}

static void run_broken(const rp_kernel *kernels, const char *set, void *user) {
    rp_custom_op op = RP_CUSTOM_OP;
    const rp_op_params params = {.custom = {&op, 0, 1}};
    rp_tensor_info out = vector;
    float y[3];
    (void)set;
    (void)user;
    op.forward = op.backward = broken;
    const rp_op_call call = {&vector, 0, &out, 1, &params};
    RP_CHECK_EQUAL(ops_run(kernels, RP_OP_CUSTOM, &call, NULL, (void *[]){y}, &step, 1),
                   RP_DEVICE_ERROR);
}

static void test_custom_status_of_the_callback_comes_back(void) {
    ops_for_each_set(run_broken, NULL);
}

static void check_vjp(bool reads_inputs, bool reads_outputs, uint32_t wanted, const char *emitted) {
    seen s = {0};
    const rp_custom_op op = op_make(&s, reads_inputs, reads_outputs);
    const rp_op_params params = {.custom = {&op, 2, 2}};
    const rp_tensor_info in[] = {vector, vector};
    rp_tensor_info out[] = {vector, vector};
    const rp_op_call call = {in, 2, out, 2, &params};
    vjp_record record;
    char text[VJP_TEXT];
    vjp_record_make(&record, RP_OP_CUSTOM, &call, wanted);
    RP_CHECK_STRING(vjp_record_text(&record, text), emitted);
}

static void test_custom_gradient_names_what_backward_reads(void) {
    check_vjp(true, true, 3, "custom_backward(in0 in1 out0 out1 g0 -)->d0 d1; ");
    check_vjp(true, false, 1, "custom_backward(in0 in1 - - g0 -)->d0 -; ");
    check_vjp(false, true, 2, "custom_backward(- - out0 out1 g0 -)->- d1; ");
    check_vjp(false, false, 3, "custom_backward(- - - - g0 -)->d0 d1; ");
    check_vjp(true, true, 0, "");
}

static void test_BW_09_custom_op_without_backward_is_a_status(void) {
    rp_context *context = rp_test_context(1);
    seen s = {0};
    rp_custom_op op = op_make(&s, true, true);
    op.backward = NULL;
    const rp_op_params params = {.custom = {&op, 1, 1}};
    rp_tensor_info out = vector;
    const rp_op_call call = {&vector, 1, &out, 1, &params};
    const uint32_t values[] = {0, 1, 2};
    bool wanted = true;
    rp_vjp vjp = {.call = &call,
                  .in = &values[0],
                  .out = &values[1],
                  .gradient = &values[2],
                  .wanted = &wanted,
                  .context = context};
    RP_CHECK_STATUS(context, rp_op_get(RP_OP_CUSTOM)->vjp(&vjp), RP_UNSUPPORTED);
    RP_CHECK_MESSAGE(context, "twice");
    wanted = false;
    RP_CHECK_OK(context, rp_op_get(RP_OP_CUSTOM)->vjp(&vjp));
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_custom_forward_sees_inputs_outputs_and_replay),
    RP_TEST(test_custom_backward_sees_what_it_reads),
    RP_TEST(test_custom_status_of_the_callback_comes_back),
    RP_TEST(test_custom_gradient_names_what_backward_reads),
    RP_TEST(test_BW_09_custom_op_without_backward_is_a_status),
};
RP_SUITE(custom, tests)
