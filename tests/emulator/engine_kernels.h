/* The launches of engine_kernels.cu. */
#ifndef REPRISE_EMULATOR_ENGINE_KERNELS_H
#define REPRISE_EMULATOR_ENGINE_KERNELS_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

enum { WARP_RESULTS = 14 };

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t engine_sum(const float *x, float *out, int count, cudaStream_t stream);
cudaError_t engine_sum_bf16(const uint16_t *x, float *out, int count, cudaStream_t stream);
cudaError_t engine_reverse(float *data, int rows, cudaStream_t stream);
cudaError_t engine_warp(unsigned *out, cudaStream_t stream);
cudaError_t engine_last_block(const float *x, float *parts, unsigned *count, float *out, int blocks,
                              cudaStream_t stream);
cudaError_t engine_count(int *out, int least, int threads, size_t shared_bytes,
                         cudaStream_t stream);
cudaError_t engine_allow(int shared_bytes);
cudaError_t engine_add(float *x, float amount, int64_t count, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif
