/* The one symbol of the library. */
#include "backend.h"
#include "backend_load.h"
#include "table.h"

extern const rp_backend rp_backend_cuda;

__attribute__((visibility("default"))) const rp_backend *
rp_cuda_backend(const rp_backend_interface *wanted) {
    return rp_backend_same_interface(wanted) ? &rp_backend_cuda : NULL;
}
