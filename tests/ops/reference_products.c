/* References of the products, in double precision. */
#include <math.h>
#include <stdlib.h>

#include "product.h"
#include "random.h"
#include "reference.h"

REFERENCE(reference_linear) {
    const bool transposed = call->params->linear.layout == RP_OUT_IN;
    const int64_t rows = rp_row_count(call->in[0].shape), n_in = rp_row_length(call->in[0].shape);
    const int64_t n_out = rp_row_length(call->out[0].shape);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t o = 0; o < n_out; o++) {
            double sum = call->in_count > 2 && in[2] != NULL ? in[2][o] : 0.0;
            for (int64_t c = 0; c < n_in; c++)
                sum += in[0][i * n_in + c] * in[1][transposed ? o * n_in + c : c * n_out + o];
            out[0][i * n_out + o] = sum;
        }
}

REFERENCE(reference_matmul) {
    const bool ta = call->params->matmul.transpose_a, tb = call->params->matmul.transpose_b;
    const int rank = call->in[0].shape.rank;
    const int64_t m = call->out[0].shape.dims[rank - 2], n = call->out[0].shape.dims[rank - 1];
    const int64_t k = call->in[0].shape.dims[rank - (ta ? 2 : 1)];
    const int64_t batch = m * n > 0 ? rp_shape_count(call->out[0].shape) / (m * n) : 0;
    for (int64_t b = 0; b < batch; b++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                const double *x = in[0] + b * m * k, *y = in[1] + b * k * n;
                double sum = 0.0;
                for (int64_t c = 0; c < k; c++)
                    sum += x[ta ? c * m + i : i * k + c] * y[tb ? j * k + c : c * n + j];
                out[0][(b * m + i) * n + j] = sum;
            }
}

/* What dropout makes of an element in the step that the harness runs: 0 or 1 / (1 - p). */
static double dropout_factor(const rp_op_params *params, int64_t element) {
    static const rp_step_state step = {.seed = 11, .step = 22, .micro_batch = 3};
    const float p = params->attention.dropout;
    uint32_t key[2];
    if (p == 0.0f)
        return 1.0;
    rp_random_key(step.seed, step.step, step.micro_batch, key);
    const rp_philox block = rp_random_block(key, params->attention.stream, (uint64_t)element / 4);
    return block.word[element % 4] >= rp_dropout_threshold(p) ? 1.0 / (1.0 - (double)p) : 0.0;
}

static double dot(const double *a, const double *b, int64_t count) {
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* One row of scores, scaled; how many of them are seen. */
static int64_t score_row(const rp_op_params *params, const rp_attention_layout *l, int64_t b,
                         int64_t h, int64_t i, const double *q, const double *k, double *scores) {
    const double scale = params->attention.scale != 0.0f ? (double)params->attention.scale
                                                         : 1.0 / sqrt((double)l->size);
    const double *qi = q + (b * l->queries + i) * l->q_stride + h * l->size;
    const double *kj = k + b * l->keys * l->kv_stride + l->k_column + h / l->group * l->size;
    for (int64_t j = 0; j < l->keys; j++)
        scores[j] = scale * dot(qi, kj + j * l->kv_stride, l->size);
    const int64_t end = params->attention.causal ? i + l->keys - l->queries + 1 : l->keys;
    return end < 0 ? 0 : end;
}

/* scores [0, end) become probabilities; the log-sum-exp */
static double softmax_row(double *scores, int64_t end) {
    double top = -INFINITY, sum = 0.0;
    for (int64_t j = 0; j < end; j++)
        top = fmax(top, scores[j]);
    for (int64_t j = 0; j < end; j++)
        sum += exp(scores[j] - top);
    for (int64_t j = 0; j < end; j++)
        scores[j] = exp(scores[j] - top) / sum;
    return end > 0 ? top + log(sum) : -INFINITY;
}

REFERENCE(reference_attention) {
    const rp_op_params *params = call->params;
    const bool packed = params->attention.packed;
    const rp_attention_layout l =
        rp_attention_layout_of(params, &call->in[0], packed ? NULL : &call->in[1]);
    const double *q = in[0], *k = packed ? q : in[1], *v = packed ? q : in[2];
    double *p = malloc((size_t)(l.keys + 1) * sizeof *p);
    RP_REQUIRE(p != NULL, "no room");
    for (int64_t row = 0; row < l.batch * l.heads * l.queries; row++) {
        const int64_t i = row % l.queries, h = row / l.queries % l.heads;
        const int64_t b = row / l.queries / l.heads;
        const int64_t end = score_row(params, &l, b, h, i, q, k, p);
        double *o = out[0] + (b * l.queries + i) * l.o_stride + h * l.size;
        out[1][row] = softmax_row(p, end);
        for (int64_t d = 0; d < l.size; d++)
            o[d] = 0.0;
        for (int64_t j = 0; j < end; j++)
            for (int64_t d = 0; d < l.size; d++)
                o[d] += p[j] * dropout_factor(params, row * l.keys + j) *
                        v[(b * l.keys + j) * l.kv_stride + l.v_column + h / l.group * l.size + d];
    }
    free(p);
}

REFERENCE(reference_attention_scores) {
    const rp_op_params *params = call->params;
    const rp_attention_layout l = rp_attention_layout_of_scores(
        params, &call->out[0], rp_attention_size_of_q(params, &call->in[0]));
    for (int64_t row = 0; row < l.batch * l.heads * l.queries; row++)
        score_row(params, &l, row / l.queries / l.heads, row / l.queries % l.heads, row % l.queries,
                  in[0], params->attention.packed ? in[0] : in[1], out[0] + row * l.keys);
}

REFERENCE(reference_attention_values) {
    const rp_op_params *params = call->params;
    const rp_attention_layout l = rp_attention_layout_of_scores(
        params, &call->in[0], rp_attention_size_of_kv(params, &call->in[1]));
    for (int64_t row = 0; row < l.batch * l.heads * l.queries; row++) {
        const int64_t i = row % l.queries, h = row / l.queries % l.heads;
        const int64_t b = row / l.queries / l.heads;
        for (int64_t d = 0; d < l.size; d++) {
            double sum = 0.0;
            for (int64_t j = 0; j < l.keys; j++)
                sum +=
                    in[0][row * l.keys + j] *
                    in[1][(b * l.keys + j) * l.kv_stride + l.v_column + h / l.group * l.size + d];
            out[0][(b * l.queries + i) * l.o_stride + h * l.size + d] = sum;
        }
    }
}
