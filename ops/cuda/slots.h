/* The slots of a launch. */
#ifndef REPRISE_OPS_CUDA_SLOTS_H
#define REPRISE_OPS_CUDA_SLOTS_H

#include "define.h"
#include "queue.h"

/* NULL: absent. */
static inline const void *rp_cuda_input(const rp_launch *launch, size_t slot) {
    return slot < launch->call.in_count ? launch->in[slot] : NULL;
}

static inline void *rp_cuda_output(const rp_launch *launch, size_t slot) {
    return slot < launch->call.out_count ? launch->out[slot] : NULL;
}

/* What is added to an output, or NULL. */
static inline const void *rp_cuda_added(const rp_launch *launch, size_t slot) {
    return launch->accumulate != NULL && slot < launch->call.out_count ? launch->accumulate[slot]
                                                                       : NULL;
}

/* NULL counts as aligned. */
static inline bool rp_cuda_aligned16(const void *address) {
    return ((uintptr_t)address & 15u) == 0;
}

#endif
