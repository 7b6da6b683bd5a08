/* gelu, tanh, sigmoid, relu, silu: x [n] -> y [n]; backward: (x or y) [n], dy [n] -> dx [n].
 * Kept: x for gelu and silu, whose derivative is no function of y; y for the others. */
#include "elementwise.h"
#include "exponential.h"

#include "cpu/vector_math.h"

namespace {

/* 1 / (1 + e^-z); 0 where the exponential overflows. */
template <typename T> __device__ __forceinline__ float logistic(float z) {
    return rp_cuda_math<T>::divide(1.0f, 1.0f + rp_cuda_math<T>::exp(-z));
}

/* gelu by tanh is x logistic(2 g(x)) with g(x) = sqrt(2/pi) (x + 0.044715 x^3); C1 and C3 are the
 * coefficients of 2 g. */
constexpr float C1 = 1.5957691216f, C3 = 0.0713548162726f;

template <typename T> struct gelu_tanh {
    __device__ __forceinline__ float operator()(float x) const {
        const float e = rp_cuda_math<T>::exp(-x * fmaf(C3, x * x, C1));
        return rp_cuda_math<T>::divide(x, 1.0f + e);
    }
};

/* Beyond 100 the second term is 0, and must not become 0 times infinity. */
template <typename T> struct gelu_tanh_gradient {
    __device__ __forceinline__ float operator()(float x, float dy) const {
        const float square = x * x > 1e4f ? 1e4f : x * x;
        const float s = logistic<T>(x * fmaf(C3, square, C1));
        return dy * fmaf(x * s * (1.0f - s), fmaf(3.0f * C3, square, C1), s);
    }
};

/* x - x tail for positive x, -|x| tail for negative ones. */
template <typename T> struct gelu_erf {
    __device__ __forceinline__ float operator()(float x) const {
        const float a = rp_math_normal_cut(x);
        return (x < 0.0f ? 0.0f : x) - a * rp_math_normal_at(a).tail;
    }
};

template <typename T> struct gelu_erf_gradient {
    __device__ __forceinline__ float operator()(float x, float dy) const {
        const rp_math_normal normal = rp_math_normal_at(rp_math_normal_cut(x));
        return dy * ((x < 0.0f ? normal.tail : 1.0f - normal.tail) + x * normal.density);
    }
};

template <typename T> struct silu {
    __device__ __forceinline__ float operator()(float x) const {
        return rp_cuda_math<T>::divide(x, 1.0f + rp_cuda_math<T>::exp(-x));
    }
};

template <typename T> struct silu_gradient {
    __device__ __forceinline__ float operator()(float x, float dy) const {
        const float s = logistic<T>(x);
        return dy * (s + x * s * (1.0f - s));
    }
};

template <typename T> struct hyperbolic {
    __device__ __forceinline__ float operator()(float x) const { return tanhf(x); }
};

template <typename T> struct hyperbolic_gradient {
    __device__ __forceinline__ float operator()(float y, float dy) const {
        return dy * (1.0f - y * y);
    }
};

/* From e^-|x|, which does not overflow. */
template <typename T> struct sigmoid {
    __device__ __forceinline__ float operator()(float x) const {
        const float e = rp_cuda_math<T>::exp(-fabsf(x));
        return rp_cuda_math<T>::divide(x < 0.0f ? e : 1.0f, 1.0f + e);
    }
};

template <typename T> struct sigmoid_gradient {
    __device__ __forceinline__ float operator()(float y, float dy) const {
        return dy * (y * (1.0f - y));
    }
};

template <typename T> struct relu {
    __device__ __forceinline__ float operator()(float x) const { return x < 0.0f ? 0.0f : x; }
};

/* A dead unit gives 0 whatever arrives, NaN too. */
template <typename T> struct relu_gradient {
    __device__ __forceinline__ float operator()(float y, float dy) const {
        return y <= 0.0f ? 0.0f : dy;
    }
};

/* Functions of either storage of their inputs. */
template <template <typename> class F> struct forward_of {
    template <typename In, typename Out> static rp_status run(const rp_launch *launch) {
        return rp_cuda_run_unary<In, Out>(launch, F<In>());
    }
};

template <template <typename> class F> struct backward_of {
    template <typename In, typename Out> static rp_status run(const rp_launch *launch) {
        return rp_cuda_run_binary<In, Out>(launch, F<In>());
    }
};

template <template <typename> class F> rp_status forward(const rp_launch *launch) {
    return RP_CUDA_STORAGE(launch->call.in[0].dtype, launch->call.out[0].dtype,
                           forward_of<F>::template run, launch);
}

template <template <typename> class F> rp_status backward(const rp_launch *launch) {
    if (launch->call.in[0].dtype != launch->call.in[1].dtype)
        return RP_UNSUPPORTED;
    return RP_CUDA_STORAGE(launch->call.in[0].dtype, launch->call.out[0].dtype,
                           backward_of<F>::template run, launch);
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
