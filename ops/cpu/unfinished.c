/* Stands in for kernels that have not been written yet, so that everything links. Last in the list
 * of sources. Goes away with the last missing kernel. */
#include "kernel.h"

#define WEAK_KERNEL(id, name)                                                                      \
    __attribute__((weak)) rp_status RP_CPU(name)(const rp_launch *launch) {                        \
        (void)launch;                                                                              \
        return RP_UNSUPPORTED;                                                                     \
    }
RP_KERNEL_OP_LIST(WEAK_KERNEL)
