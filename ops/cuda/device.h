/* What every .cu includes first. nvcc compiles it for GPUs, and a C++ compiler for the emulator in
 * tests/emulator, which has its own way to launch kernels and to find shared memory: these two
 * macros are all that differs in a source. A .cu exports extern "C" functions only. */
#ifndef REPRISE_OPS_CUDA_DEVICE_H
#define REPRISE_OPS_CUDA_DEVICE_H

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include "define.h"
#include "queue.h"

#ifdef __CUDACC__
/* A kernel with template arguments is written in parentheses. */
#define RP_CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)                             \
    kernel<<<(grid), (block), (shared_bytes), (stream)>>>(__VA_ARGS__)
/* Dynamic shared memory, as many bytes as the launch said. */
#define RP_CUDA_SHARED(type, name)                                                                 \
    extern __shared__ __align__(16) unsigned char rp_cuda_shared_memory[];                         \
    type *name = reinterpret_cast<type *>(rp_cuda_shared_memory)
#endif

#endif
