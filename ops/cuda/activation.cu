/* gelu, tanh, sigmoid, relu, silu: x [n] -> y [n]; backward: (x or y) [n], dy [n] -> dx [n].
 * Kept: x for gelu and silu, whose derivative is no function of y; y for the others. */
#include "elementwise.h"

#include "cpu/vector_math.h"

namespace {

/* 1 / (1 + e^-z); 0 where the exponential overflows. */
__device__ __forceinline__ float logistic(float z) {
    return __fdividef(1.0f, 1.0f + expf(-z));
}

/* gelu by tanh is x logistic(2 g(x)) with g(x) = sqrt(2/pi) (x + 0.044715 x^3); C1 and C3 are the
 * coefficients of 2 g. */
constexpr float C1 = 1.5957691216f, C3 = 0.0713548162726f;

struct gelu_tanh {
    __device__ __forceinline__ float operator()(float x) const {
        return __fdividef(x, 1.0f + expf(-x * (C1 + C3 * x * x)));
    }
};

/* Beyond 100 the second term is 0, and must not become 0 times infinity. */
struct gelu_tanh_gradient {
    __device__ __forceinline__ float operator()(float x, float dy) const {
        const float square = x * x > 1e4f ? 1e4f : x * x;
        const float s = logistic(x * (C1 + C3 * square));
        return dy * (s + x * s * (1.0f - s) * (C1 + 3.0f * C3 * square));
    }
};

/* x - x tail for positive x, -|x| tail for negative ones. */
struct gelu_erf {
    __device__ __forceinline__ float operator()(float x) const {
        const float a = rp_math_normal_cut(x);
        return (x < 0.0f ? 0.0f : x) - a * rp_math_normal_at(a).tail;
    }
};

struct gelu_erf_gradient {
    __device__ __forceinline__ float operator()(float x, float dy) const {
        const rp_math_normal normal = rp_math_normal_at(rp_math_normal_cut(x));
        return dy * ((x < 0.0f ? normal.tail : 1.0f - normal.tail) + x * normal.density);
    }
};

struct silu {
    __device__ __forceinline__ float operator()(float x) const {
        return __fdividef(x, 1.0f + expf(-x));
    }
};

struct silu_gradient {
    __device__ __forceinline__ float operator()(float x, float dy) const {
        const float s = logistic(x);
        return dy * (s + x * s * (1.0f - s));
    }
};

struct hyperbolic {
    __device__ __forceinline__ float operator()(float x) const { return tanhf(x); }
};

struct hyperbolic_gradient {
    __device__ __forceinline__ float operator()(float y, float dy) const {
        return dy * (1.0f - y * y);
    }
};

/* From e^-|x|, which does not overflow. */
struct sigmoid {
    __device__ __forceinline__ float operator()(float x) const {
        const float e = expf(-fabsf(x));
        return __fdividef(x < 0.0f ? e : 1.0f, 1.0f + e);
    }
};

struct sigmoid_gradient {
    __device__ __forceinline__ float operator()(float y, float dy) const {
        return dy * (y * (1.0f - y));
    }
};

struct relu {
    __device__ __forceinline__ float operator()(float x) const { return x < 0.0f ? 0.0f : x; }
};

/* A dead unit gives 0 whatever arrives, NaN too. */
struct relu_gradient {
    __device__ __forceinline__ float operator()(float y, float dy) const {
        return y <= 0.0f ? 0.0f : dy;
    }
};

template <typename F> rp_status forward(const rp_launch *launch) {
    return RP_CUDA_STORAGE(launch->call.in[0].dtype, launch->call.out[0].dtype, rp_cuda_run_unary,
                           launch, F());
}

template <typename F> rp_status backward(const rp_launch *launch) {
    if (launch->call.in[0].dtype != launch->call.in[1].dtype)
        return RP_UNSUPPORTED;
    return RP_CUDA_STORAGE(launch->call.in[0].dtype, launch->call.out[0].dtype, rp_cuda_run_binary,
                           launch, F());
}

bool is_erf(const rp_launch *launch) {
    return launch->call.params->gelu.form == RP_GELU_ERF;
}

} // namespace

extern "C" rp_status rp_cuda_gelu(const rp_launch *launch) {
    return is_erf(launch) ? forward<gelu_erf>(launch) : forward<gelu_tanh>(launch);
}

extern "C" rp_status rp_cuda_gelu_backward(const rp_launch *launch) {
    return is_erf(launch) ? backward<gelu_erf_gradient>(launch)
                          : backward<gelu_tanh_gradient>(launch);
}

#define ACTIVATION(name, function, gradient)                                                       \
    extern "C" rp_status rp_cuda_##name(const rp_launch *launch) {                                 \
        return forward<function>(launch);                                                          \
    }                                                                                              \
    extern "C" rp_status rp_cuda_##name##_backward(const rp_launch *launch) {                      \
        return backward<gradient>(launch);                                                         \
    }
ACTIVATION(tanh, hyperbolic, hyperbolic_gradient)
ACTIVATION(sigmoid, sigmoid, sigmoid_gradient)
ACTIVATION(relu, relu, relu_gradient)
ACTIVATION(silu, silu, silu_gradient)
