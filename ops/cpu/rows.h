/* The largest element and the sum of exponentials of a row: what softmax and cross entropy share.
 */
#ifndef REPRISE_OPS_CPU_ROWS_H
#define REPRISE_OPS_CPU_ROWS_H

#include <math.h>

#include "loops.h"
#include "vector_math.h"

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

/* The sum of e^(x - top). */
static inline float rp_row_exp_sum(const float *x, int64_t width, float top) {
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < width; c++)
        sum += rp_math_exp_negative(x[c] - top);
    return sum;
}

#endif
