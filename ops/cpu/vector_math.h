/* exp, tanh, sigmoid and the normal distribution in single precision, as straight-line code that
 * loops vectorise: no branch, no table, no call. The polynomials and the quotient are minimax fits
 * made for this file (Lawson's iteration on the relative error, coefficients rounded to float).
 * NaN gives NaN.
 *
 * Largest errors against double precision, in units in the last place of the result, over the whole
 * line (results below 2^-126 may be 0); tests/ops/test_math.c checks them:
 *   rp_math_exp 1.1, rp_math_tanh 2.6, rp_math_sigmoid 2.5, tail of rp_math_normal 3 + x^2 / 2
 */
#ifndef REPRISE_OPS_CPU_VECTOR_MATH_H
#define REPRISE_OPS_CPU_VECTOR_MATH_H

#include <stdint.h>
#include <string.h>

/* Kernels of CUDA compute the normal distribution by the same functions. */
#ifdef __CUDACC__
#define RP_MATH_INLINE static inline __host__ __device__
#else
#define RP_MATH_INLINE static inline
#endif

RP_MATH_INLINE int32_t rp_math_bits(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

RP_MATH_INLINE float rp_math_float(int32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

RP_MATH_INLINE float rp_math_abs(float x) {
    return rp_math_float(rp_math_bits(x) & 0x7fffffff);
}

RP_MATH_INLINE float rp_math_copysign(float x, float sign) {
    return rp_math_float(rp_math_bits(x) | (rp_math_bits(sign) & INT32_MIN));
}

/* Adding this, 1.5 2^23 + 127, rounds to an integer n, and leaves n + 127 in the low bits: n as the
 * exponent of a float has it. */
#define RP_MATH_SHIFTER 12583039.0f

/* 2^n of RP_MATH_SHIFTER + n for n in [-126, 127]; 0 for -127, infinity for 128. */
RP_MATH_INLINE float rp_math_power_of_two(float shifted) {
    return rp_math_float((int32_t)((uint32_t)rp_math_bits(shifted) << 23));
}

/* e^x = power e^r, |r| <= ln 2 / 2, power = 2^n. ln 2 in two parts, the first with zeros at its
 * end: n times it is exact. */
typedef struct rp_math_reduced {
    float power, r;
} rp_math_reduced;

RP_MATH_INLINE rp_math_reduced rp_math_reduce(float x) {
    const float shifted = x * 1.44269504f + RP_MATH_SHIFTER;
    const float n = shifted - RP_MATH_SHIFTER;
    const rp_math_reduced reduced = {rp_math_power_of_two(shifted),
                                     (x - n * 0.693145752f) - n * 1.42860677e-6f};
    return reduced;
}

/* e^r - 1 for |r| <= ln 2 / 2; relative error of the fit 1.4e-8. */
RP_MATH_INLINE float rp_math_expm1_small(float r) {
    float q = 0.00138706947f;
    q = q * r + 0.00836627185f;
    q = q * r + 0.0416674353f;
    q = q * r + 0.166665465f;
    q = q * r + 0.49999997f;
    return r + r * r * q;
}

/* For x in [-88.3, 88.3]; below -87.7 already 0, for one multiplication less. */
RP_MATH_INLINE float rp_math_exp_inside(float x) {
    const rp_math_reduced a = rp_math_reduce(x);
    return (1.0f + rp_math_expm1_small(a.r)) * a.power;
}

/* For x <= 0. */
RP_MATH_INLINE float rp_math_exp_negative(float x) {
    return rp_math_exp_inside(x < -88.0f ? -88.0f : x);
}

/* For all x; infinity above 88.3, a little early. */
RP_MATH_INLINE float rp_math_exp(float x) {
    return rp_math_exp_negative(x > 88.8f ? 88.8f : x);
}

/* From e^(2|x|) - 1, which is accurate near 0: tanh = that / (that + 2). */
RP_MATH_INLINE float rp_math_tanh(float x) {
    float a = rp_math_abs(x);
    a = a > 9.1f ? 9.1f : a;
    const rp_math_reduced t = rp_math_reduce(a + a);
    const float m = t.power * rp_math_expm1_small(t.r) + (t.power - 1.0f);
    return rp_math_copysign(m / (m + 2.0f), x);
}

/* From e^-|x|, which does not overflow. */
RP_MATH_INLINE float rp_math_sigmoid(float x) {
    const float e = rp_math_exp_negative(-rp_math_abs(x));
    return (x < 0.0f ? e : 1.0f) / (1.0f + e);
}

/* The normal distribution at x: density = e^(-x^2 / 2) / sqrt(2 pi), tail = (1 - erf(|x| / sqrt 2))
 * / 2, the probability of what is further out than |x| on one side. */
typedef struct rp_math_normal {
    float density, tail;
} rp_math_normal;

/* The same as |x|, but at most 13.27, where density and tail are 0. A minimum of integers:
 * compilers make better code of it. NaN gives 13.27, so x itself must enter the result elsewhere.
 */
RP_MATH_INLINE float rp_math_normal_cut(float x) {
    const int32_t bits = rp_math_bits(x) & INT32_MAX, most = rp_math_bits(13.27f);
    return rp_math_float(bits < most ? bits : most);
}

/* square - 2 n ln 2, rounded less than square was. Where n ln 2 is not rounded before it is
 * subtracted, one part of ln 2 will do. */
RP_MATH_INLINE float rp_math_normal_rest(float square, float n) {
#if defined(__CUDA_ARCH__) /* which fuses nothing that is not written so: ops/cuda/CMakeLists.txt */
    return fmaf(n, -1.38629436f, square);
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    return square - n * 1.38629436f;
#else
    return (square - n * 1.3862915f) - n * 2.85721364e-6f;
#endif
}

/* `a` is rp_math_normal_cut(x). density = 2^-n e^(-r / 2) / sqrt(2 pi); relative error of the fit
 * 1.3e-8. tail / density is a quotient of polynomials, all coefficients positive: nothing cancels.
 * That of the fit is 9e-9 (1 + a^2 / 16). Both begin with 1: an addition each for a multiplication,
 * of which there are enough to keep a processor busy. */
RP_MATH_INLINE rp_math_normal rp_math_normal_at(float a) {
    const float square = a * a, shifted = RP_MATH_SHIFTER - square * 0.721347511f;
    const float r = rp_math_normal_rest(square, RP_MATH_SHIFTER - shifted);
    float e = 8.62512843e-06f;
    e = e * r - 0.000104408893f;
    e = e * r + 0.00103895122f;
    e = e * r - 0.00831117388f;
    e = e * r + 0.0498677827f;
    e = e * r - 0.199471161f;
    e = e * r + 0.398942292f;
    float p = a + 9.70758438f;
    p = p * a + 43.1600838f;
    p = p * a + 101.9478f;
    p = p * a + 114.201134f;
    float q = a + 9.70777702f;
    q = q * a + 44.1524315f;
    q = q * a + 111.787003f;
    q = q * a + 154.045319f;
    q = q * a + 91.1193237f;
    const float density = e * rp_math_power_of_two(shifted);
    const rp_math_normal normal = {density, density * p / q};
    return normal;
}

#endif
