/* Atomics and fences of emulator.h. They are atomics of the host, which ThreadSanitizer knows;
 * acquire and release, so that what a kernel orders by an atomic and a fence is in order for it. A
 * missing fence is not seen. */
#ifndef REPRISE_EMULATOR_ATOMIC_H
#define REPRISE_EMULATOR_ATOMIC_H

template <size_t bytes> struct emulator_word;
template <> struct emulator_word<2> { typedef uint16_t type; };
template <> struct emulator_word<4> { typedef uint32_t type; };
template <> struct emulator_word<8> { typedef uint64_t type; };

/* *address = change(*address), and what it was. */
template <typename T, typename F> EMULATOR_INTRINSIC T emulator_change(T *address, F change) {
    typedef typename emulator_word<sizeof(T)>::type word;
    word *place = reinterpret_cast<word *>(address);
    word before = __atomic_load_n(place, __ATOMIC_ACQUIRE), after;
    T old;
    do {
        memcpy(static_cast<void *>(&old), &before, sizeof old);
        const T changed = change(old);
        memcpy(&after, &changed, sizeof after);
    } while (!__atomic_compare_exchange_n(place, &before, after, false, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
    return old;
}

#define EMULATOR_ATOMIC(name, type, changed)                                                       \
    EMULATOR_INTRINSIC type name(type *address, type value) {                                      \
        return emulator_change(address, [=](type old) -> type {                                    \
            (void)old;                                                                             \
            return changed;                                                                        \
        });                                                                                        \
    }
#define EMULATOR_ATOMIC_INTEGER(type)                                                              \
    EMULATOR_ATOMIC(atomicAdd, type, old + value)                                                  \
    EMULATOR_ATOMIC(atomicMin, type, value < old ? value : old)                                    \
    EMULATOR_ATOMIC(atomicMax, type, value > old ? value : old)                                    \
    EMULATOR_ATOMIC(atomicAnd, type, old &value)                                                   \
    EMULATOR_ATOMIC(atomicOr, type, old | value)                                                   \
    EMULATOR_ATOMIC(atomicXor, type, old ^ value)                                                  \
    EMULATOR_ATOMIC(atomicExch, type, value)                                                       \
    EMULATOR_INTRINSIC type atomicCAS(type *address, type compare, type value) {                   \
        return emulator_change(address, [=](type old) { return old == compare ? value : old; });   \
    }
EMULATOR_ATOMIC_INTEGER(int)
EMULATOR_ATOMIC_INTEGER(unsigned)
EMULATOR_ATOMIC_INTEGER(unsigned long long)
EMULATOR_ATOMIC(atomicSub, int, old - value)
EMULATOR_ATOMIC(atomicSub, unsigned, old - value)
EMULATOR_ATOMIC(atomicInc, unsigned, old >= value ? 0u : old + 1u)
EMULATOR_ATOMIC(atomicDec, unsigned, old == 0u || old > value ? value : old - 1u)
EMULATOR_ATOMIC(atomicAdd, float, old + value)
EMULATOR_ATOMIC(atomicExch, float, value)
EMULATOR_ATOMIC(atomicAdd, double, old + value)
EMULATOR_ATOMIC(atomicAdd, __nv_bfloat16, __hadd(old, value))
#undef EMULATOR_ATOMIC_INTEGER
#undef EMULATOR_ATOMIC

EMULATOR_INTRINSIC void __threadfence() {}
EMULATOR_INTRINSIC void __threadfence_block() {}
EMULATOR_INTRINSIC void __threadfence_system() {}

#endif
