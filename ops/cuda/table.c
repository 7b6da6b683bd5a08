/* The kernels by op: one that is missing is a link error. */
#include "table.h"
#include "kernel.h"

static const rp_kernel table[RP_OP_COUNT] = {
#define KERNEL_ROW(id, name) [id] = rp_cuda_##name,
    RP_KERNEL_OP_LIST(KERNEL_ROW)
#undef KERNEL_ROW
};

const rp_kernel *rp_cuda_kernels(void) {
    return table;
}
