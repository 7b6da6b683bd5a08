/* Rows: in which blocks they are read, the largest element and the sum of exponentials, which
 * softmax and cross entropy share. */
#ifndef REPRISE_OPS_CPU_ROWS_H
#define REPRISE_OPS_CPU_ROWS_H

#include <math.h>

#include "loops.h"
#include "vector_math.h"

/* Elements of a row that are converted at once. A row of f32 is one block. */
enum { RP_CPU_ROW = 4096 };

static inline int64_t rp_row_block(const rp_launch *launch, int64_t width) {
    return rp_launch_has_bf16(launch) && width > RP_CPU_ROW ? RP_CPU_ROW : width;
}

/* Of a float's bits an integer that is ordered as the float is, and back: loops that take a maximum
 * of integers vectorise, while those of floats must not because of NaN. */
static inline int32_t rp_ordered(float x) {
    const int32_t bits = rp_math_bits(x);
    return bits ^ (bits >> 31 & INT32_MAX);
}

static inline float rp_unordered(int32_t key) {
    return rp_math_float(key ^ (key >> 31 & INT32_MAX));
}

/* The largest element; -infinity of none. A positive NaN counts as the largest, a negative one as
 * the smallest: either way the sum of exponentials below is NaN. */
static inline float rp_row_max(const float *x, int64_t width) {
    int32_t top = rp_ordered(-INFINITY);
#pragma omp simd reduction(max : top)
    for (int64_t c = 0; c < width; c++) {
        const int32_t key = rp_ordered(x[c]);
        top = key > top ? key : top;
    }
    return rp_unordered(top);
}

/* The larger of two, as above. */
static inline float rp_row_max_of(float a, float b) {
    return rp_ordered(b) > rp_ordered(a) ? b : a;
}

/* The sum of e^(x - top). */
static inline float rp_row_exp_sum(const float *x, int64_t width, float top) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < width; c++)
        sum += rp_math_exp_negative(x[c] - top);
    return sum;
}

#endif
