/* Intrinsics of emulator.h that concern one thread: loads and stores with hints, fast maths, bits
 * and conversions. Fast maths is as exact as the C library's here: compare with tolerances. */
#ifndef REPRISE_EMULATOR_MATH_H
#define REPRISE_EMULATOR_MATH_H

/* The bits of one type as another. */
template <typename T, typename F> EMULATOR_INTRINSIC T emulator_value(F from) {
    static_assert(sizeof(T) == sizeof(F), "as many bits");
    T value;
    memcpy(&value, &from, sizeof value);
    return value;
}

#define EMULATOR_LOAD(name)                                                                        \
    template <typename T> EMULATOR_INTRINSIC T name(const T *address) {                            \
        return *address;                                                                           \
    }
EMULATOR_LOAD(__ldg)
EMULATOR_LOAD(__ldca)
EMULATOR_LOAD(__ldcg)
EMULATOR_LOAD(__ldcs)
EMULATOR_LOAD(__ldcv)
EMULATOR_LOAD(__ldlu)
#undef EMULATOR_LOAD

#define EMULATOR_STORE(name)                                                                       \
    template <typename T> EMULATOR_INTRINSIC void name(T *address, T value) {                      \
        *address = value;                                                                          \
    }
EMULATOR_STORE(__stcg)
EMULATOR_STORE(__stcs)
EMULATOR_STORE(__stwb)
EMULATOR_STORE(__stwt)
#undef EMULATOR_STORE

#define __trap() emulator_fail("%s:%d: __trap()", __FILE__, __LINE__)

/* The smaller and the larger of two numbers; NaN loses, as in fminf. */
template <typename A, typename B>
EMULATOR_INTRINSIC typename std::common_type<A, B>::type min(A a, B b) {
    typedef typename std::common_type<A, B>::type type;
    if constexpr (std::is_floating_point<type>::value)
        return std::fmin((type)a, (type)b);
    else
        return (type)b < (type)a ? (type)b : (type)a;
}

template <typename A, typename B>
EMULATOR_INTRINSIC typename std::common_type<A, B>::type max(A a, B b) {
    typedef typename std::common_type<A, B>::type type;
    if constexpr (std::is_floating_point<type>::value)
        return std::fmax((type)a, (type)b);
    else
        return (type)a < (type)b ? (type)b : (type)a;
}

/* The C library declares some of these names for itself. */
#define __expf(x) expf(x)
#define __exp10f(x) powf(10.0f, (x))
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __log10f(x) log10f(x)
#define __powf(x, y) powf((x), (y))
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanhf(x) tanhf(x)

#define EMULATOR_UNARY(name, type, from, result)                                                   \
    EMULATOR_INTRINSIC type name(from x) {                                                         \
        return (type)(result);                                                                     \
    }
#define EMULATOR_BINARY(name, type, from, result)                                                  \
    EMULATOR_INTRINSIC type name(from x, from y) {                                                 \
        return (type)(result);                                                                     \
    }
EMULATOR_UNARY(rsqrtf, float, float, 1.0 / std::sqrt((double)x))
EMULATOR_UNARY(rsqrt, double, double, 1.0 / std::sqrt(x))
EMULATOR_UNARY(__frcp_rn, float, float, 1.0f / x)
EMULATOR_UNARY(__fsqrt_rn, float, float, std::sqrt(x))
EMULATOR_UNARY(__frsqrt_rn, float, float, 1.0 / std::sqrt((double)x))
EMULATOR_UNARY(__saturatef, float, float, !(x > 0.0f) ? 0.0f : x > 1.0f ? 1.0f : x)
EMULATOR_BINARY(__fdividef, float, float, x / y)
EMULATOR_BINARY(__fdiv_rn, float, float, x / y)
EMULATOR_BINARY(__fadd_rn, float, float, x + y)
EMULATOR_BINARY(__fsub_rn, float, float, x - y)
EMULATOR_BINARY(__fmul_rn, float, float, x *y)
EMULATOR_BINARY(__dadd_rn, double, double, x + y)
EMULATOR_BINARY(__dmul_rn, double, double, x *y)
EMULATOR_INTRINSIC float __fmaf_rn(float x, float y, float z) {
    return fmaf(x, y, z);
}
EMULATOR_INTRINSIC double __fma_rn(double x, double y, double z) {
    return fma(x, y, z);
}

/* Bits */
__extension__ typedef unsigned __int128 emulator_wide;
EMULATOR_UNARY(__popc, int, unsigned, __builtin_popcount(x))
EMULATOR_UNARY(__popcll, int, unsigned long long, __builtin_popcountll(x))
EMULATOR_UNARY(__ffs, int, int, __builtin_ffs(x))
EMULATOR_UNARY(__ffsll, int, long long, __builtin_ffsll(x))
EMULATOR_UNARY(__clz, int, int, x != 0 ? __builtin_clz((unsigned)x) : 32)
EMULATOR_UNARY(__clzll, int, long long, x != 0 ? __builtin_clzll((unsigned long long)x) : 64)
EMULATOR_BINARY(__umulhi, unsigned, unsigned, (uint64_t)x *y >> 32)
EMULATOR_BINARY(__mulhi, int, int, (int64_t)x *y >> 32)
EMULATOR_BINARY(__umul64hi, unsigned long long, unsigned long long, (emulator_wide)x *y >> 64)
EMULATOR_INTRINSIC unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (int i = 0; i < 32; i++)
        reversed |= (x >> i & 1u) << (31 - i);
    return reversed;
}
EMULATOR_INTRINSIC unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) << (shift & 31) >> 32);
}
EMULATOR_INTRINSIC unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return (unsigned)(((uint64_t)high << 32 | low) >> (shift & 31));
}
EMULATOR_INTRINSIC unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const uint64_t bytes = (uint64_t)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++)
        result |= (unsigned)(bytes >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i;
    return result;
}

/* Conversions */
EMULATOR_UNARY(__float_as_int, int, float, emulator_value<int>(x))
EMULATOR_UNARY(__float_as_uint, unsigned, float, emulator_value<unsigned>(x))
EMULATOR_UNARY(__int_as_float, float, int, emulator_value<float>(x))
EMULATOR_UNARY(__uint_as_float, float, unsigned, emulator_value<float>(x))
EMULATOR_UNARY(__double_as_longlong, long long, double, emulator_value<long long>(x))
EMULATOR_UNARY(__longlong_as_double, double, long long, emulator_value<double>(x))
EMULATOR_UNARY(__int2float_rn, float, int, x)
EMULATOR_UNARY(__uint2float_rn, float, unsigned, x)
EMULATOR_UNARY(__ll2float_rn, float, long long, x)
EMULATOR_UNARY(__double2float_rn, float, double, x)
EMULATOR_UNARY(__float2int_rn, int, float, std::nearbyint(x))
EMULATOR_UNARY(__float2int_rz, int, float, x)
EMULATOR_UNARY(__float2int_rd, int, float, std::floor(x))
EMULATOR_UNARY(__float2int_ru, int, float, std::ceil(x))
EMULATOR_UNARY(__float2ll_rn, long long, float, std::nearbyint(x))
#undef EMULATOR_UNARY
#undef EMULATOR_BINARY

#endif
