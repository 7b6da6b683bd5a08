/* The emulated CUDA runtime: device memory, streams of work, errors. */
#ifndef REPRISE_EMULATOR_RUNTIME_H
#define REPRISE_EMULATOR_RUNTIME_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Remembers an error for cudaGetLastError, and returns it. */
cudaError_t emulator_error(cudaError_t error);

/* Faults are told from here on. */
void emulator_trap_install(void);

/* ---- Memory ---------------------------------------------------------------------------------- */

/* All `bytes` lie within one live block of device memory. */
bool emulator_is_device(const void *address, size_t bytes);
/* Memory of the host that the device can reach: cudaMallocHost, cudaHostRegister. */
bool emulator_is_pinned(const void *address);

/* Around everything that is done for the device: with RP_EMULATOR_GUARD device memory can only be
 * touched in between. They nest. */
void emulator_device_begin(void);
void emulator_device_end(void);

/* What a library takes for itself from the device's memory. */
void emulator_reserve(size_t bytes);
void emulator_release(size_t bytes);

/* The dynamic shared memory that the kernel was allowed by cudaFuncSetAttribute. */
size_t emulator_shared_limit(const void *function);

/* ---- Work ------------------------------------------------------------------------------------ */

/* Something that a stream does in its turn. `data` is copied with the work. */
typedef void (*emulator_work)(const void *data);

/* Gives work to a stream: run at once, or later, or captured. */
cudaError_t emulator_submit(cudaStream_t stream, emulator_work work, const void *data,
                            size_t bytes);

/* Runs what the stream has been given (all streams). */
void emulator_drain(cudaStream_t stream);
void emulator_drain_all(void);
bool emulator_is_idle(cudaStream_t stream);

/* cudaSuccess, or the error of a call that no stream may see while it is being captured; then the
 * capture is invalid. */
cudaError_t emulator_refuse_in_capture(void);
bool emulator_is_capturing(cudaStream_t stream);

#endif
