/* The backends there are. */
#include "backend.h"

static const rp_backend *const backends[] = {
    [RP_BACKEND_CPU] = &rp_backend_cpu,
    [RP_BACKEND_NULL] = &rp_backend_null,
};

const rp_backend *rp_backend_get(rp_backend_kind kind) {
    return (size_t)kind < sizeof backends / sizeof backends[0] ? backends[kind] : NULL;
}
