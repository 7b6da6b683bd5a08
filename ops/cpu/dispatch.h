/* The instruction sets that CPU kernels are compiled for, and which of them this processor has. */
#ifndef REPRISE_OPS_CPU_DISPATCH_H
#define REPRISE_OPS_CPU_DISPATCH_H

#include "op.h"

typedef struct rp_cpu_set {
    const char *name;
    const rp_kernel *kernels; /* by op */
    bool (*is_available)(void);
} rp_cpu_set;

/* All sets of this build, the best first; the last one runs everywhere. */
const rp_cpu_set *rp_cpu_sets(size_t *count);

/* The best set that this processor has. */
const rp_cpu_set *rp_cpu_best_set(void);

/* The kernels of the best set that this processor has. */
const rp_kernel *rp_cpu_kernels(void);

#endif
