/* gelu, tanh, sigmoid, relu, silu: x [n] -> y [n]; backward: (x or y) [n], dy [n] -> dx [n].
 * Kept: x for gelu and silu, whose derivative is no function of y; y for the others. */
#include "loops.h"
#include "vector_math.h"

/* gelu by tanh is x / (1 + e^(-2 g(x))) with g(x) = sqrt(2/pi) (x + 0.044715 x^3); C1 and C3 are
 * the coefficients of 2 g. Where the exponential overflows, the quotient is 0. */
#define C1 1.5957691216f
#define C3 0.0713548162726f

static inline float gelu_tanh(float x) {
    return x / (1.0f + rp_math_exp(-x * (C1 + C3 * x * x)));
}

/* Beyond 100 the second term is 0, and must not become 0 times infinity. */
static inline float gelu_tanh_slope(float x) {
    const float square = x * x > 1e4f ? 1e4f : x * x;
    const float s = 1.0f / (1.0f + rp_math_exp(-x * (C1 + C3 * square)));
    return s + x * s * (1.0f - s) * (C1 + 3.0f * C3 * square);
}

/* x - x tail for positive x, -|x| tail for negative ones. */
static inline float gelu_erf(float x) {
    const float a = rp_math_normal_cut(x);
    return (x < 0.0f ? 0.0f : x) - a * rp_math_normal_at(a).tail;
}

static inline float gelu_erf_slope(float x) {
    const rp_math_normal normal = rp_math_normal_at(rp_math_normal_cut(x));
    return (x < 0.0f ? normal.tail : 1.0f - normal.tail) + x * normal.density;
}

static inline float silu(float x) {
    return x / (1.0f + rp_math_exp(-x));
}

static inline float silu_slope(float x) {
    const float s = 1.0f / (1.0f + rp_math_exp(-x));
    return s + x * s * (1.0f - s);
}

static inline float relu(float x) {
    return x < 0.0f ? 0.0f : x;
}

/* A dead unit gives 0 whatever arrives, NaN too. */
static inline float relu_gradient(float y, float dy) {
    return y <= 0.0f ? 0.0f : dy;
}

static inline float gelu_tanh_gradient(float x, float dy) {
    return dy * gelu_tanh_slope(x);
}

static inline float gelu_erf_gradient(float x, float dy) {
    return dy * gelu_erf_slope(x);
}

static inline float silu_gradient(float x, float dy) {
    return dy * silu_slope(x);
}

static inline float tanh_gradient(float y, float dy) {
    return dy * (1.0f - y * y);
}

static inline float sigmoid_gradient(float y, float dy) {
    return dy * (y * (1.0f - y));
}

#define FORWARD_SPAN(name, function)                                                               \
    static void name##_span(const rp_span *span) {                                                 \
        const float *x = span->in[0];                                                              \
        float *y = span->out[0];                                                                   \
        _Pragma("omp simd") for (int64_t i = 0; i < span->count; i++) y[i] = function(x[i]);       \
    }
#define BACKWARD_SPAN(name, gradient)                                                              \
    static void name##_backward_span(const rp_span *span) {                                        \
        const float *kept = span->in[0], *dy = span->in[1];                                        \
        RP_LOOP(span->out[0], span->sum, 0, span->count, gradient(kept[i], dy[i]));                \
    }
#define SPANS(name, function, gradient) FORWARD_SPAN(name, function) BACKWARD_SPAN(name, gradient)

SPANS(gelu_tanh, gelu_tanh, gelu_tanh_gradient)
SPANS(gelu_erf, gelu_erf, gelu_erf_gradient)
SPANS(tanh, rp_math_tanh, tanh_gradient)
SPANS(sigmoid, rp_math_sigmoid, sigmoid_gradient)
SPANS(relu, relu, relu_gradient)
SPANS(silu, silu, silu_gradient)

static bool is_erf(const rp_launch *launch) {
    return launch->call.params->gelu.form == RP_GELU_ERF;
}

rp_status RP_CPU(gelu)(const rp_launch *launch) {
    return RP_CPU(for_spans)(launch, is_erf(launch) ? gelu_erf_span : gelu_tanh_span);
}

rp_status RP_CPU(gelu_backward)(const rp_launch *launch) {
    return RP_CPU(for_spans)(launch,
                             is_erf(launch) ? gelu_erf_backward_span : gelu_tanh_backward_span);
}

#define KERNELS(name)                                                                              \
    rp_status RP_CPU(name)(const rp_launch *launch) {                                              \
        return RP_CPU(for_spans)(launch, name##_span);                                             \
    }                                                                                              \
    rp_status RP_CPU(name##_backward)(const rp_launch *launch) {                                   \
        return RP_CPU(for_spans)(launch, name##_backward_span);                                    \
    }
KERNELS(tanh)
KERNELS(sigmoid)
KERNELS(relu)
KERNELS(silu)
