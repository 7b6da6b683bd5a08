/* CPU kernels are compiled once for each instruction set from the same source (CMakeLists.txt:
 * baseline, AVX2 + FMA, AVX-512); RP_CPU(add) is the kernel's name in the set being compiled.
 * rp_cpu_kernels() chooses at run time.
 *
 * Rules: portable C with simd pragmas; threads from launch->threads; work is cut into pieces by
 * shape, never by the number of threads, and partial sums are added in the order of the pieces, so
 * that the bits do not depend on it. */
#ifndef REPRISE_OPS_CPU_KERNEL_H
#define REPRISE_OPS_CPU_KERNEL_H

#include "op.h"

#ifndef RP_CPU_SET
#define RP_CPU_SET baseline
#endif
#define RP_CPU_JOIN2(name, set) rp_cpu_##name##_##set
#define RP_CPU_JOIN(name, set) RP_CPU_JOIN2(name, set)
#define RP_CPU(name) RP_CPU_JOIN(name, RP_CPU_SET)

#define RP_CPU_PROTOTYPE(id, name) rp_status RP_CPU(name)(const rp_launch *launch);
RP_KERNEL_OP_LIST(RP_CPU_PROTOTYPE)
#undef RP_CPU_PROTOTYPE

/* The table of the set being compiled. */
extern const rp_kernel RP_CPU(table)[RP_OP_COUNT];

/* The body for i of [0, count), shared by `threads` threads; UNEVEN: some take much longer than
 * others. One thread runs the loop as it stands: for a parallel region of one thread, too, OpenMP
 * makes a team in memory from the heap (gcc's and clang's runtime both do), and a step asks for
 * none. */
#define RP_PARALLEL_PRAGMA(clauses) _Pragma(#clauses)
#define RP_PARALLEL_SHARED(threads, scheduled, i, count, ...)                                      \
    do {                                                                                           \
        const int rp_team = (threads);                                                             \
        if (rp_team <= 1) {                                                                        \
            for (int64_t i = 0; i < (count); i++)                                                  \
                __VA_ARGS__                                                                        \
        } else {                                                                                   \
            RP_PARALLEL_PRAGMA(omp parallel for schedule(scheduled) num_threads(rp_team))          \
            for (int64_t i = 0; i < (count); i++)                                                  \
                __VA_ARGS__                                                                        \
        }                                                                                          \
    } while (0)
#define RP_PARALLEL_FOR(threads, i, count, ...)                                                    \
    RP_PARALLEL_SHARED(threads, static, i, count, __VA_ARGS__)
#define RP_PARALLEL_FOR_UNEVEN(threads, i, count, ...)                                             \
    RP_PARALLEL_SHARED(threads, dynamic, i, count, __VA_ARGS__)

/* Elements below which a loop is not worth a second thread. */
#define RP_CPU_SERIAL 16384

#endif
