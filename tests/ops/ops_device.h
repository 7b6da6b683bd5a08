/* Where the kernels of the cases run: on the CPU, in the tests' own memory, or on a backend with
 * memory of its own, where each call gets copies of its tensors there, with sentinels around them.
 */
#ifndef REPRISE_TESTS_OPS_DEVICE_H
#define REPRISE_TESTS_OPS_DEVICE_H

#include "backend.h"

/* From here on this backend (NULL: the CPU); the queue stays the caller's. */
void ops_device_use(const rp_backend *backend, rp_queue *queue);
const rp_backend *ops_device(void);

/* The device has libraries with kernels of their own, which they choose by how tensors are aligned,
 * too: there the bits of what they compute may vary with it. */
void ops_device_use_libraries(void);
bool ops_device_has_libraries(void);

/* One run of a kernel on addresses of the host: its results are there when it returns. On a device
 * scratch is taken as the backend asks for it, and launch->workspace and threads say nothing. */
rp_status ops_call(const rp_kernel *kernels, rp_op op, const rp_launch *launch);

#endif
