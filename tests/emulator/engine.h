/* What kernels and their launches call of the emulator's engine. The engine is C; emulator.h puts
 * CUDA's names over this. A kernel runs on one thread of the process: its CUDA threads are fibers
 * that take turns at barriers and warp intrinsics. */
#ifndef REPRISE_EMULATOR_ENGINE_H
#define REPRISE_EMULATOR_ENGINE_H

#include <cuda_runtime_api.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The built-in variables of the CUDA thread that is running. */
typedef struct emulator_position {
    uint3 thread, block;
    dim3 block_size, grid_size;
} emulator_position;

extern emulator_position emulator_now;

/* Where in a source a call stands: what is reported. */
typedef struct emulator_place {
    const char *file;
    int line;
} emulator_place;

/* Number of threads of the block that came with a predicate that is not 0. */
int emulator_barrier(int predicate, emulator_place place);

typedef enum emulator_warp_operation {
    EMULATOR_SYNCHRONIZE,
    EMULATOR_SHUFFLE, /* the value of lane `source` */
    EMULATOR_BALLOT,  /* bit i: the value of lane i is not 0 */
    EMULATOR_MATCH,   /* bit i: the value of lane i is mine */
    EMULATOR_ADD,
    EMULATOR_AND,
    EMULATOR_OR,
    EMULATOR_XOR,
    EMULATOR_MINIMUM, /* of signed 64 bits */
    EMULATOR_MAXIMUM,
    EMULATOR_TOGETHER /* emulator_together */
} emulator_warp_operation;

/* All lanes of the mask meet here, each with a value; what the operation makes of them. */
uint64_t emulator_warp(uint32_t mask, emulator_warp_operation operation, uint64_t value, int source,
                       emulator_place place);

/* All lanes of the mask meet here; the last one runs `work` once on the data of all (NULL for lanes
 * that the mask leaves out). For twins of inline PTX such as mma.sync. */
void emulator_together(uint32_t mask, void *data, void (*work)(void *const lanes[32]),
                       emulator_place place);

int emulator_lane(void);
void *emulator_dynamic_shared(void);

typedef struct emulator_launch {
    const char *kernel; /* as the source writes it */
    emulator_place place;
    const void *function;
    void (*run)(const void *arguments); /* one thread */
    dim3 grid, block;
    size_t shared_bytes;
    cudaStream_t stream;
} emulator_launch;

/* Copies the arguments, as a launch does. What is wrong is told by cudaGetLastError. */
void emulator_launch_kernel(const emulator_launch *launch, const void *arguments, size_t bytes);

/* A pointer that a kernel gets points to memory that a device can reach, or is NULL. */
void emulator_check_pointer(const emulator_launch *launch, int argument, const void *pointer);

/* A message, and the process ends: the bug that a device would not have told. */
#ifdef __GNUC__
__attribute__((noreturn, format(printf, 1, 2)))
#endif
void emulator_fail(const char *format, ...);

#ifdef __cplusplus
}
#endif

#endif
