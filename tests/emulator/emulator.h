/* Included before the first line of a .cu that a C++ compiler builds for the host:
 *
 *   g++ -std=c++17 -isystem $CUDA_HOME/include -include tests/emulator/emulator.h -x c++ file.cu
 *
 * The toolkit's own headers give types, vector types, bf16 and the prototypes of the runtime; this
 * one gives what only nvcc knows: built-in variables, shared memory, barriers, launches.
 * emulator_warp.h, emulator_atomic.h and emulator_math.h hold the intrinsics. */
#ifndef REPRISE_EMULATOR_H
#define REPRISE_EMULATOR_H

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>

#include "engine.h"

/* A kernel's static shared memory is static memory in a section of its own, which the engine fills
 * with NaN before each block. A kernel must be static, or in a namespace without a name: gcc lets
 * no section hold variables of functions that other files may have too. */
#undef __shared__
#ifdef RP_EMULATOR_ASAN /* puts red zones around static memory, but not in sections of their own */
#define __shared__ static
#else
#define __shared__ static __attribute__((section("emulator_shared")))
#endif
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__
#ifndef __clang__
#define __builtin_assume(condition) ((void)0)
#endif

#define threadIdx (emulator_now.thread)
#define blockIdx (emulator_now.block)
#define blockDim (emulator_now.block_size)
#define gridDim (emulator_now.grid_size)
static constexpr int warpSize = 32;

/* An intrinsic, and a last parameter of it that tells where it was called. */
#define EMULATOR_INTRINSIC [[maybe_unused]] static inline __attribute__((always_inline))
#define EMULATOR_PLACE emulator_place place = {__builtin_FILE(), __builtin_LINE()}

EMULATOR_INTRINSIC void __syncthreads(EMULATOR_PLACE) {
    emulator_barrier(0, place);
}

EMULATOR_INTRINSIC int __syncthreads_count(int predicate, EMULATOR_PLACE) {
    return emulator_barrier(predicate, place);
}

EMULATOR_INTRINSIC int __syncthreads_or(int predicate, EMULATOR_PLACE) {
    return emulator_barrier(predicate, place) != 0;
}

EMULATOR_INTRINSIC int __syncthreads_and(int predicate, EMULATOR_PLACE) {
    return emulator_barrier(!predicate, place) == 0;
}

#include "emulator_atomic.h"
#include "emulator_math.h"
#include "emulator_warp.h"

/* ---- Launching ------------------------------------------------------------------------------- */

/* A dimension from any integer: one that a launch would cut off has no blocks, and fails. */
template <typename T> static inline dim3 emulator_dimensions(T value) {
    if constexpr (std::is_integral<T>::value)
        return dim3(value >= 0 && (uint64_t)value <= UINT32_MAX ? (unsigned)value : 0);
    else
        return dim3(value);
}

/* Arguments become the types of the parameters first, as <<<>>> does it. */
template <typename... P> struct emulator_kernel {
    void (*kernel)(P...);

    struct packed {
        void (*kernel)(P...);
        std::tuple<typename std::decay<P>::type...> arguments;
    };

    static void run(const void *data) {
        const packed *p = static_cast<const packed *>(data);
        std::apply(p->kernel, p->arguments);
    }

    template <typename T>
    static void check(const emulator_launch *launch, int argument, const T &value) {
        if constexpr (std::is_pointer<T>::value)
            emulator_check_pointer(launch, argument, (const void *)value);
        else
            (void)launch, (void)argument, (void)value;
    }

    void launch(const char *name, emulator_place place, dim3 grid, dim3 block, size_t shared_bytes,
                cudaStream_t stream, P... arguments) const {
        static_assert((std::is_trivially_copyable<P>::value && ...),
                      "arguments of kernels are copied as bytes");
        const emulator_launch launch = {name, place, (const void *)kernel, run,
                                        grid, block, shared_bytes,         stream};
        int argument = 0;
        (check(&launch, argument++, arguments), ...);
        (void)argument;
        const packed p = {kernel, {arguments...}};
        emulator_launch_kernel(&launch, &p, sizeof p);
    }
};

template <typename... P> static inline emulator_kernel<P...> emulator_kernel_of(void (*k)(P...)) {
    return {k};
}

#define RP_CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                             \
    emulator_kernel_of(kernel).launch(#kernel, emulator_place{__FILE__, __LINE__},                 \
                                      emulator_dimensions(grid), emulator_dimensions(block),       \
                                      (shared_bytes), (stream), __VA_ARGS__)

#define RP_CUDA_SHARED(type, name) type *name = static_cast<type *>(emulator_dynamic_shared())

#endif
