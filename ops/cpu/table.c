/* The kernels of the instruction set being compiled. */
#include "kernel.h"

const rp_kernel RP_CPU(table)[RP_OP_COUNT] = {
#define KERNEL_ROW(id, name) [id] = RP_CPU(name),
    RP_KERNEL_OP_LIST(KERNEL_ROW)
#undef KERNEL_ROW
};
