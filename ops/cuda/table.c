/* The kernels by op. An op whose kernel is not linked in is not supported. */
#include "table.h"
#include "kernel.h"

#define KERNEL_ABSENT(id, name)                                                                    \
    __attribute__((weak)) rp_status rp_cuda_##name(const rp_launch *launch) {                      \
        (void)launch;                                                                              \
        return RP_UNSUPPORTED;                                                                     \
    }
RP_KERNEL_OP_LIST(KERNEL_ABSENT)
#undef KERNEL_ABSENT

static const rp_kernel table[RP_OP_COUNT] = {
#define KERNEL_ROW(id, name) [id] = rp_cuda_##name,
    RP_KERNEL_OP_LIST(KERNEL_ROW)
#undef KERNEL_ROW
};

const rp_kernel *rp_cuda_kernels(void) {
    return table;
}
