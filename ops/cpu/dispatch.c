/* Chooses the instruction set at run time. Asked anew each time: no state, and it costs
 * nanoseconds. */
#include "dispatch.h"

extern const rp_kernel rp_cpu_table_baseline[RP_OP_COUNT];

static bool always(void) {
    return true;
}

#ifdef __x86_64__
extern const rp_kernel rp_cpu_table_avx2[RP_OP_COUNT], rp_cpu_table_avx512[RP_OP_COUNT];

static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512cd");
}
#endif

static const rp_cpu_set sets[] = {
#ifdef __x86_64__
    {"avx512", rp_cpu_table_avx512, has_avx512},
    {"avx2", rp_cpu_table_avx2, has_avx2},
#endif
    {"baseline", rp_cpu_table_baseline, always},
};

const rp_cpu_set *rp_cpu_sets(size_t *count) {
    *count = sizeof sets / sizeof sets[0];
    return sets;
}

const rp_cpu_set *rp_cpu_best_set(void) {
    const rp_cpu_set *set = sets;
    while (!set->is_available())
        set++;
    return set;
}

const rp_kernel *rp_cpu_kernels(void) {
    return rp_cpu_best_set()->kernels;
}
