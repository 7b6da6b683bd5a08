/* What products leave to kernels of our own: biases and their gradients (bias.cu). */
#ifndef REPRISE_OPS_CUDA_BIAS_H
#define REPRISE_OPS_CUDA_BIAS_H

#include "op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Every row of y [rows, columns] becomes bias [columns], both of `dtype`. */
rp_status rp_cuda_bias_rows(const rp_launch *launch, rp_dtype dtype, void *y, const void *bias,
                            int64_t rows, int64_t columns);

/* dbias [columns] = added (or nothing) + the sum over the rows of dy [rows, columns]. Scratch:
 * rp_cuda_cut_bias(rows).count rows of sums. */
rp_status rp_cuda_bias_gradient(const rp_launch *launch, rp_dtype in, rp_dtype out, const void *dy,
                                const void *added, void *dbias, int64_t rows, int64_t columns);

#ifdef __cplusplus
}
#endif

#endif
