/* exp, tanh, sigmoid and the normal distribution in single precision, as straight-line code that
 * loops vectorise: no branch, no table, no call. The polynomials are minimax fits made for this
 * file (Lawson's iteration on the relative error, coefficients rounded to float one by one). NaN
 * gives NaN, infinities their limits.
 *
 * Largest errors against double precision, in units in the last place of the result, over the whole
 * line (a unit of a subnormal result is the smallest subnormal); tests/ops/test_math.c checks them:
 *   rp_math_exp 1.1, rp_math_tanh 2.6, rp_math_sigmoid 2.4, rp_math_cdf 4.7
 * / */
#ifndef REPRISE_OPS_CPU_VECTOR_MATH_H
#define REPRISE_OPS_CPU_VECTOR_MATH_H

#include <stdint.h>
#include <string.h>

static inline int32_t rp_math_bits(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float rp_math_float(int32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline float rp_math_abs(float x) {
    return rp_math_float(rp_math_bits(x) & 0x7fffffff);
}

static inline float rp_math_copysign(float x, float sign) {
    return rp_math_float(rp_math_bits(x) | (rp_math_bits(sign) & INT32_MIN));
}

/* 2^n, n in [-126, 127]; anything for an n that comes of NaN. */
static inline float rp_math_power_of_two(int32_t n) {
    return rp_math_float((int32_t)((uint32_t)(n + 127) << 23));
}

/* x = n ln 2 + r with |r| <= ln 2 / 2: adding 1.5 2^23 rounds to an integer and leaves it in the
 * low bits. ln 2 in two parts, the first with zeros at its end: n times it is exact. */
typedef struct rp_math_reduced {
    int32_t n;
    float r;
} rp_math_reduced;

static inline rp_math_reduced rp_math_reduce(float x) {
    const float shifter = 12582912.0f;
    const float shifted = x * 1.44269504f + shifter;
    const float n = shifted - shifter;
    return (rp_math_reduced){rp_math_bits(shifted) - rp_math_bits(shifter),
                             (x - n * 0.693145752f) - n * 1.42860677e-6f};
}

/* e^r - 1 for |r| <= ln 2 / 2; relative error of the fit 1.4e-8. */
static inline float rp_math_expm1_small(float r) {
    float q = 0.00138706947f;
    q = q * r + 0.00836627185f;
    q = q * r + 0.0416674353f;
    q = q * r + 0.166665465f;
    q = q * r + 0.49999997f;
    return r + r * r * q;
}

/* e^(x + low), |low| small. Scaled in two steps so that subnormal results come out too. */
static inline float rp_math_exp_sum(float x, float low) {
    x = x > 89.0f ? 89.0f : x;
    x = x < -104.0f ? -104.0f : x;
    const rp_math_reduced a = rp_math_reduce(x);
    const int32_t half = a.n >> 1;
    const float y = 1.0f + rp_math_expm1_small(a.r + low);
    return y * rp_math_power_of_two(half) * rp_math_power_of_two(a.n - half);
}

static inline float rp_math_exp(float x) {
    return rp_math_exp_sum(x, 0.0f);
}

/* From e^(2|x|) - 1, which is accurate near 0: tanh = that / (that + 2). */
static inline float rp_math_tanh(float x) {
    float a = rp_math_abs(x);
    a = a > 9.1f ? 9.1f : a;
    const rp_math_reduced t = rp_math_reduce(a + a);
    const float s = rp_math_power_of_two(t.n);
    const float m = s * rp_math_expm1_small(t.r) + (s - 1.0f);
    return rp_math_copysign(m / (m + 2.0f), x);
}

/* From e^-|x|, which does not overflow. */
static inline float rp_math_sigmoid(float x) {
    const float e = rp_math_exp(-rp_math_abs(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* The normal distribution at x: cdf(x) = (1 + erf(x / sqrt 2)) / 2, and gauss = e^(-x^2 / 2). */
typedef struct rp_math_normal {
    float cdf, gauss;
} rp_math_normal;

/* (cdf(x) - 1/2) / x for |x| <= 1.25, from x^2 (used up to 1); relative error of the fit 4.7e-8. */
static inline float rp_math_cdf_center(float square) {
    float p = -5.93775985e-06f;
    p = p * square + 0.000107666514f;
    p = p * square + -0.0011792744f;
    p = p * square + 0.00996977184f;
    p = p * square + -0.0664897263f;
    p = p * square + 0.398942262f;
    return p;
}

/* With z = |x| / sqrt 2: (1 + 2 z) e^(z^2) erfc(z) as a polynomial in u = (z - 2) / (z + 2) (after
 * Shepherd and Laframboise 1981); relative error of the fit 1.8e-8 for z <= 10.5, beyond which
 * erfc(z) is 0 in single precision. x^2 in two parts, the first exact, so that far out e^(-x^2 / 2)
 * keeps its accuracy. */
static inline rp_math_normal rp_math_normal_at(float x) {
    float a = rp_math_abs(x);
    a = a > 14.5f ? 14.5f : a;
    const float z = a * 0.707106781f;
    const float denominator = 1.0f / ((z + 2.0f) * (1.0f + 2.0f * z));
    const float u = (z - 2.0f) * (1.0f + 2.0f * z) * denominator;
    float p = -0.000400272955f;
    p = p * u + -0.00123059051f;
    p = p * u + 0.00131345529f;
    p = p * u + 0.00863433629f;
    p = p * u + -0.00805911794f;
    p = p * u + -0.0542060249f;
    p = p * u + 0.164054915f;
    p = p * u + -0.166031063f;
    p = p * u + -0.0927639306f;
    p = p * u + 1.27697837f;
    const float high = rp_math_float(rp_math_bits(a) & ~0xfff);
    const float gauss = rp_math_exp_sum(-0.5f * high * high, -0.5f * (a - high) * (a + high));
    const float tail = 0.5f * gauss * p * (z + 2.0f) * denominator;
    const float far = x < 0.0f ? tail : 1.0f - tail;
    return (rp_math_normal){a < 1.0f ? 0.5f + x * rp_math_cdf_center(x * x) : far, gauss};
}

static inline float rp_math_cdf(float x) {
    return rp_math_normal_at(x).cdf;
}

#endif
