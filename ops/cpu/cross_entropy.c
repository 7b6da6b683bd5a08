/* cross_entropy: logits [rows, V], targets [rows] -> loss scalar, lse [rows]. backward: logits,
 * targets, lse, dloss scalar -> dlogits [rows, V], which may lie on logits. Kept: logits and the
 * log-sum-exp of each row; probabilities are e^(logit - lse). */
#include "rows.h"

typedef struct problem {
    rp_source logits;
    const int32_t *targets;
    int64_t rows, width;
    int32_t ignored;
} problem;

static problem problem_of(const rp_launch *launch) {
    const rp_shape shape = launch->call.in[0].shape;
    return (problem){
        .logits = rp_launch_source(launch, 0),
        .targets = launch->in[1],
        .rows = rp_row_count(shape),
        .width = rp_row_length(shape),
        .ignored = launch->call.params->cross_entropy.ignore_index,
    };
}

static bool is_valid(const problem *p, int64_t row) {
    const int32_t target = p->targets[row];
    return target != p->ignored && target >= 0 && target < p->width;
}

/* What the sum over rows is multiplied with. */
static double weight_of(const problem *p, const rp_launch *launch) {
    int64_t valid = 0;
    if (launch->call.params->cross_entropy.reduction == RP_REDUCE_SUM)
        return 1.0;
    for (int64_t r = 0; r < p->rows; r++)
        valid += is_valid(p, r);
    return valid > 0 ? 1.0 / (double)valid : 0.0;
}

/* Elements that are still in the first cache when their exponentials are taken. */
enum { BLOCK = 2048 };

/* In blocks, each relative to the largest element so far. In one of -infinity only, what has been
 * seen has no exponentials: any other number will do for it. */
static double log_sum_exp(rp_source row, int64_t width) {
    float top = -INFINITY, buffer[BLOCK];
    double sum = 0.0;
    for (int64_t begin = 0; begin < width; begin += BLOCK) {
        const int64_t count = width - begin < BLOCK ? width - begin : BLOCK;
        const float *x = rp_read(row, begin, count, buffer);
        const float largest = rp_row_max(x, count);
        if (largest > top) {
            sum *= exp((double)top - (double)largest);
            top = largest;
        }
        sum += (double)rp_row_exp_sum(x, count, top == -INFINITY ? 0.0f : top);
    }
    return (double)top + log(sum);
}

/* The log-sum-exp is left in lse, the loss of the row returned. */
static double forward_row(const problem *p, int64_t row, float *lse) {
    const rp_source x = rp_source_from(p->logits, row * p->width);
    const double log_sum = log_sum_exp(x, p->width);
    if (lse != NULL)
        lse[row] = (float)log_sum;
    return is_valid(p, row) ? log_sum - (double)rp_element(x, p->targets[row]) : 0.0;
}

static bool is_supported(const rp_launch *launch) {
    return rp_is_floating(launch->call.in[0].dtype) && rp_is_floating(launch->call.out[0].dtype);
}

rp_status RP_CPU(cross_entropy)(const rp_launch *launch) {
    const problem p = problem_of(launch);
    float *lse = launch->out[1];
    double *losses = launch->workspace, loss = 0.0;
    if (!is_supported(launch))
        return RP_UNSUPPORTED;
    RP_PARALLEL_FOR(rp_cpu_threads(launch, p.rows * p.width), r, p.rows,
                    { losses[r] = forward_row(&p, r, lse); });
    for (int64_t r = 0; r < p.rows; r++)
        loss += losses[r];
    rp_set_element(rp_launch_target(launch, 0), 0, (float)(loss * weight_of(&p, launch)));
    return RP_OK;
}

/* dlogits = (probability - 1 at the target) g; 0 in a row that does not count, whatever it holds.
 */
static void backward_row(const problem *p, int64_t row, float lse, float g, rp_target dx) {
    const rp_source x = rp_source_from(p->logits, row * p->width);
    const int64_t most = x.bf16 || dx.bf16 ? BLOCK : p->width;
    float read[BLOCK], written[BLOCK];
    if (!is_valid(p, row)) {
        rp_begin_bytes(dx.at, NULL, p->width * (dx.bf16 ? 2 : 4), 1);
        return;
    }
    const int32_t target = p->targets[row];
    const float at_target = (rp_math_exp_negative(rp_element(x, target) - lse) - 1.0f) * g;
    for (int64_t begin = 0; begin < p->width; begin += most) {
        const int64_t count = p->width - begin < most ? p->width - begin : most;
        const float *logits = rp_read(x, begin, count, read);
        float *out = rp_write(dx, begin, written);
#pragma omp simd
        for (int64_t c = 0; c < count; c++)
            out[c] = rp_math_exp_negative(logits[c] - lse) * g;
        rp_written(dx, begin, count, written);
    }
    rp_set_element(dx, target, at_target);
}

rp_status RP_CPU(cross_entropy_backward)(const rp_launch *launch) {
    const problem p = problem_of(launch);
    const rp_target dx = rp_launch_target(launch, 0);
    const float *lse = launch->in[2];
    const float g =
        (float)((double)rp_element(rp_launch_source(launch, 3), 0) * weight_of(&p, launch));
    if (!is_supported(launch))
        return RP_UNSUPPORTED;
    RP_PARALLEL_FOR(rp_cpu_threads(launch, p.rows * p.width), r, p.rows,
                    { backward_row(&p, r, lse[r], g, rp_target_from(dx, r * p.width)); });
    return RP_OK;
}
