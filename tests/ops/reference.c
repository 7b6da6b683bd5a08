/* Plain references of the forward runs in double precision. */
#include "reference.h"

#include <math.h>
#include <stdbool.h>

static const double PI = 3.14159265358979323846;

/* ---- Elementwise ----------------------------------------------------------------------------- */

REFERENCE(reference_add) {
    const int64_t n = ops_count(&call->in[1]);
    for (int64_t i = 0, count = ops_count(&call->out[0]); i < count; i++)
        out[0][i] = in[0][i] + in[1][i % n];
}

REFERENCE(reference_mul) {
    const int64_t n = ops_count(&call->in[1]);
    for (int64_t i = 0, count = ops_count(&call->out[0]); i < count; i++)
        out[0][i] = in[0][i] * in[1][i % n];
}

REFERENCE(reference_scale) {
    for (int64_t i = 0, count = ops_count(&call->out[0]); i < count; i++)
        out[0][i] = (double)call->params->scale.factor * in[0][i];
}

static double gelu_tanh(double x) {
    return x / 2.0 * (1.0 + tanh(sqrt(2.0 / PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_erf(double x) {
    return x / 2.0 * erfc(-x / sqrt(2.0));
}

static double sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

static double silu(double x) {
    return x * sigmoid(x);
}

static double relu(double x) {
    return x > 0.0 ? x : 0.0;
}

static void map(const rp_op_call *call, const double *x, double *y, double (*function)(double)) {
    for (int64_t i = 0, count = ops_count(&call->out[0]); i < count; i++)
        y[i] = function(x[i]);
}

REFERENCE(reference_gelu) {
    map(call, in[0], out[0], call->params->gelu.form == RP_GELU_ERF ? gelu_erf : gelu_tanh);
}

REFERENCE(reference_tanh) {
    map(call, in[0], out[0], tanh);
}

REFERENCE(reference_sigmoid) {
    map(call, in[0], out[0], sigmoid);
}

REFERENCE(reference_relu) {
    map(call, in[0], out[0], relu);
}

REFERENCE(reference_silu) {
    map(call, in[0], out[0], silu);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

REFERENCE(reference_embedding) {
    const int64_t rows = call->in[0].shape.dims[0], width = call->in[0].shape.dims[1];
    for (int64_t i = 0, count = ops_count(&call->in[1]); i < count; i++)
        for (int64_t c = 0; c < width; c++) {
            const int64_t id = (int64_t)in[1][i];
            out[0][i * width + c] = id >= 0 && id < rows ? in[0][id * width + c] : NAN;
        }
}

REFERENCE(reference_layernorm) {
    const int64_t rows = rp_row_count(call->in[0].shape), width = rp_row_length(call->in[0].shape);
    for (int64_t r = 0; r < rows; r++) {
        const double *x = in[0] + r * width;
        double mean = 0.0, variance = 0.0;
        for (int64_t c = 0; c < width; c++)
            mean += x[c] / (double)width;
        for (int64_t c = 0; c < width; c++)
            variance += (x[c] - mean) * (x[c] - mean) / (double)width;
        const double scale = 1.0 / sqrt(variance + (double)call->params->layernorm.eps);
        for (int64_t c = 0; c < width; c++)
            out[0][r * width + c] =
                (x[c] - mean) * scale * in[1][c] + (in[2] != NULL ? in[2][c] : 0.0);
        out[1][2 * r] = mean;
        out[1][2 * r + 1] = scale;
    }
}

/* Row r of x [..., T, T'] sees columns up to r mod T + T' - T. */
static int64_t visible(const rp_op_call *call, int64_t row) {
    const rp_shape shape = call->in[0].shape;
    const int64_t width = rp_row_length(shape);
    if (!call->params->softmax.causal)
        return width;
    const int64_t height = shape.dims[shape.rank - 2];
    const int64_t end = row % height + width - height + 1;
    return end < 0 ? 0 : end;
}

REFERENCE(reference_softmax) {
    const int64_t rows = rp_row_count(call->in[0].shape), width = rp_row_length(call->in[0].shape);
    for (int64_t r = 0; r < rows; r++) {
        const double *x = in[0] + r * width;
        const int64_t end = visible(call, r);
        double top = -INFINITY, sum = 0.0;
        for (int64_t c = 0; c < end; c++)
            top = isnan(x[c]) || x[c] > top ? x[c] : top;
        for (int64_t c = 0; c < end; c++)
            sum += exp(x[c] - top);
        for (int64_t c = 0; c < width; c++)
            out[0][r * width + c] = c >= end || top == -INFINITY ? 0.0 : exp(x[c] - top) / sum;
    }
}

REFERENCE(reference_cross_entropy) {
    const int64_t rows = rp_row_count(call->in[0].shape), width = rp_row_length(call->in[0].shape);
    double loss = 0.0;
    int64_t valid = 0;
    for (int64_t r = 0; r < rows; r++) {
        const double *x = in[0] + r * width;
        const int64_t target = (int64_t)in[1][r];
        double top = -INFINITY, sum = 0.0;
        for (int64_t c = 0; c < width; c++)
            top = x[c] > top ? x[c] : top;
        for (int64_t c = 0; c < width; c++)
            sum += exp(x[c] - top);
        out[1][r] = top + log(sum);
        if (target == call->params->cross_entropy.ignore_index || target < 0 || target >= width)
            continue;
        loss += out[1][r] - x[target];
        valid++;
    }
    const bool mean = call->params->cross_entropy.reduction == RP_REDUCE_MEAN;
    out[0][0] = mean && valid > 0 ? loss / (double)valid : loss;
}

REFERENCE(reference_sum) {
    double sum = 0.0;
    for (int64_t i = 0, count = ops_count(&call->in[0]); i < count; i++)
        sum += in[0][i];
    out[0][0] = sum * (double)call->params->sum.factor;
}

/* ---- Shape ----------------------------------------------------------------------------------- */

/* The place of an element of `shape` from its index in each dimension, and back. */
static int64_t place(rp_shape shape, const int64_t *index) {
    int64_t at = 0;
    for (int d = 0; d < shape.rank; d++)
        at = at * shape.dims[d] + index[d];
    return at;
}

static void unplace(rp_shape shape, int64_t at, int64_t *index) {
    for (int d = shape.rank - 1; d >= 0; d--) {
        index[d] = at % shape.dims[d];
        at /= shape.dims[d];
    }
}

static int axis_of(rp_shape shape, int dimension) {
    return dimension < 0 ? dimension + shape.rank : dimension;
}

REFERENCE(reference_transpose) {
    const rp_shape shape = call->in[0].shape;
    const int a = axis_of(shape, call->params->transpose.first);
    const int b = axis_of(shape, call->params->transpose.second);
    for (int64_t i = 0, count = ops_count(&call->out[0]); i < count; i++) {
        int64_t index[RP_MAX_RANK];
        unplace(call->out[0].shape, i, index);
        const int64_t other = index[a];
        index[a] = index[b];
        index[b] = other;
        out[0][i] = in[0][place(shape, index)];
    }
}

REFERENCE(reference_slice) {
    const rp_shape shape = call->in[0].shape;
    const int axis = axis_of(shape, call->params->slice.dimension);
    for (int64_t i = 0, count = ops_count(&call->out[0]); i < count; i++) {
        int64_t index[RP_MAX_RANK];
        unplace(call->out[0].shape, i, index);
        index[axis] += call->params->slice.start;
        out[0][i] = in[0][place(shape, index)];
    }
}

REFERENCE(reference_concat) {
    const int axis = axis_of(call->in[0].shape, call->params->concat.dimension);
    for (int64_t i = 0, count = ops_count(&call->out[0]); i < count; i++) {
        int64_t index[RP_MAX_RANK];
        size_t from = 0;
        unplace(call->out[0].shape, i, index);
        for (; index[axis] >= call->in[from].shape.dims[axis]; from++)
            index[axis] -= call->in[from].shape.dims[axis];
        out[0][i] = in[from][place(call->in[from].shape, index)];
    }
}
