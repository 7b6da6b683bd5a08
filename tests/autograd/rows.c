/* Ops on the rows of a matrix. */
#include "rows.h"

#include <math.h>

/* One row: its elements, the scalar that belongs to it, what comes out. */
typedef struct row {
    const float *x, *out, *grad_out;
    float s;
    float *grad_x, *grad_s; /* NULL: not wanted */
    int64_t count;
} row;

typedef struct row_def {
    const char *name;
    bool takes_scalar, gives_scalar;
    void (*forward)(const row *r, float *out);
    void (*backward)(const row *r);
} row_def;

static void fill(const row *r, float value) {
    for (int64_t i = 0; i < r->count; i++)
        r->grad_x[i] = value;
}

static void mean_forward(const row *r, float *out) {
    double sum = 0.0;
    for (int64_t i = 0; i < r->count; i++)
        sum += (double)r->x[i];
    *out = (float)(sum / (double)r->count);
}

static void mean_backward(const row *r) {
    fill(r, r->grad_out[0] / (float)r->count);
}

static void sum_forward(const row *r, float *out) {
    double sum = 0.0;
    for (int64_t i = 0; i < r->count; i++)
        sum += (double)r->x[i];
    *out = (float)sum;
}

static void sum_backward(const row *r) {
    fill(r, r->grad_out[0]);
}

static void max_forward(const row *r, float *out) {
    *out = r->x[0];
    for (int64_t i = 1; i < r->count; i++)
        *out = fmaxf(*out, r->x[i]);
}

static void max_backward(const row *r) {
    fill(r, 0.0f);
    for (int64_t i = 0; i < r->count; i++)
        if (r->x[i] == r->out[0]) {
            r->grad_x[i] = r->grad_out[0];
            return;
        }
}

static void squares_forward(const row *r, float *out) {
    double sum = 0.0;
    for (int64_t i = 0; i < r->count; i++)
        sum += (double)r->x[i] * (double)r->x[i];
    *out = (float)(sum / (double)r->count);
}

static void squares_backward(const row *r) {
    for (int64_t i = 0; i < r->count; i++)
        r->grad_x[i] = 2.0f * r->x[i] * r->grad_out[0] / (float)r->count;
}

/* out = x a(s) + b(s): all three ops with a scalar are of this form. */
static void affine_backward(const row *r, float factor, double factor_by_s, double offset_by_s) {
    double sum = 0.0;
    for (int64_t i = 0; i < r->count; i++) {
        sum += (double)r->grad_out[i] * ((double)r->x[i] * factor_by_s + offset_by_s);
        if (r->grad_x != NULL)
            r->grad_x[i] = factor * r->grad_out[i];
    }
    if (r->grad_s != NULL)
        *r->grad_s = (float)sum;
}

static void subtract_forward(const row *r, float *out) {
    for (int64_t i = 0; i < r->count; i++)
        out[i] = r->x[i] - r->s;
}

static void subtract_backward(const row *r) {
    affine_backward(r, 1.0f, 0.0, -1.0);
}

static void divide_forward(const row *r, float *out) {
    for (int64_t i = 0; i < r->count; i++)
        out[i] = r->x[i] / r->s;
}

static void divide_backward(const row *r) {
    affine_backward(r, 1.0f / r->s, -1.0 / ((double)r->s * (double)r->s), 0.0);
}

static void normalise_forward(const row *r, float *out) {
    const float factor = 1.0f / sqrtf(r->s + 1e-5f);
    for (int64_t i = 0; i < r->count; i++)
        out[i] = r->x[i] * factor;
}

static void normalise_backward(const row *r) {
    const double inner = (double)r->s + 1e-5;
    affine_backward(r, 1.0f / sqrtf(r->s + 1e-5f), -0.5 / (inner * sqrt(inner)), 0.0);
}

static void exp_forward(const row *r, float *out) {
    for (int64_t i = 0; i < r->count; i++)
        out[i] = expf(r->x[i]);
}

static void exp_backward(const row *r) {
    for (int64_t i = 0; i < r->count; i++)
        r->grad_x[i] = r->out[i] * r->grad_out[i];
}

static const row_def defs[] = {
    [ROW_MEAN] = {"row_mean", false, true, mean_forward, mean_backward},
    [ROW_SUM] = {"row_sum", false, true, sum_forward, sum_backward},
    [ROW_MAX] = {"row_max", false, true, max_forward, max_backward},
    [ROW_SQUARES] = {"row_squares", false, true, squares_forward, squares_backward},
    [ROW_SUBTRACT] = {"row_subtract", true, false, subtract_forward, subtract_backward},
    [ROW_DIVIDE] = {"row_divide", true, false, divide_forward, divide_backward},
    [ROW_NORMALISE] = {"row_normalise", true, false, normalise_forward, normalise_backward},
    [ROW_EXP] = {"row_exp", false, false, exp_forward, exp_backward},
};

static const float *at(const void *block, int64_t element) {
    return block != NULL ? (const float *)block + element : NULL;
}

static float *place(void *block, int64_t element) {
    return block != NULL ? (float *)block + element : NULL;
}

static rp_status run_rows(const rp_custom_call *call, bool backward) {
    const row_def *def = call->user;
    const rp_shape shape = call->in_info[0].shape;
    const int64_t count = shape.dims[1], width = def->gives_scalar ? 1 : count;
    for (int64_t i = 0; i < shape.dims[0]; i++) {
        row r = {.x = at(call->in[0], i * count), .count = count};
        r.s = def->takes_scalar ? *at(call->in[1], i) : 0.0f;
        if (!backward) {
            def->forward(&r, place(call->out[0], i * width));
            continue;
        }
        r.out = at(call->out[0], i * width);
        r.grad_out = at(call->grad_out[0], i * width);
        r.grad_x = place(call->grad_in[0], i * count);
        r.grad_s = def->takes_scalar ? place(call->grad_in[1], i) : NULL;
        def->backward(&r);
    }
    return RP_OK;
}

static rp_status forward(const rp_custom_call *call) {
    return run_rows(call, false);
}

static rp_status backward(const rp_custom_call *call) {
    return run_rows(call, true);
}

rp_tensor row_op(bench *b, row_kind kind, rp_tensor x, rp_tensor s) {
    const row_def *def = &defs[kind];
    rp_custom_op op = RP_CUSTOM_OP;
    op.name = def->name;
    op.forward = forward;
    op.backward = backward;
    op.user = (void *)(uintptr_t)def;
    op.backward_reads_outputs = kind == ROW_MAX || kind == ROW_EXP;
    const rp_tensor in[] = {x, s};
    rp_tensor_info info = rp_tensor_get_info(b->tape, x);
    if (def->gives_scalar)
        info.shape = RP_SHAPE(info.shape.dims[0], 1);
    rp_tensor out = RP_NO_TENSOR;
    RP_REQUIRE_OK(b->context,
                  rp_custom(b->tape, &op, in, def->takes_scalar ? 2 : 1, &info, 1, &out));
    return out;
}
