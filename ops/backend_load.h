/* A backend in a library of its own. Both sides are built from one source: what they hand to each
 * other has no other description than this tree's headers, so they compare those first. */
#ifndef REPRISE_OPS_BACKEND_LOAD_H
#define REPRISE_OPS_BACKEND_LOAD_H

#include <string.h>

#include "backend.h"

/* What must be equal for the two to understand each other. */
typedef struct rp_backend_interface {
    const char *version, *ops; /* ops: the names, in order */
    size_t backend_bytes, launch_bytes, params_bytes, step_bytes;
} rp_backend_interface;

static inline rp_backend_interface rp_backend_own_interface(void) {
#define RP_OP_WORD(id, name) #name " "
    const rp_backend_interface own = {RP_VERSION,           RP_OP_LIST(RP_OP_WORD),
                                      sizeof(rp_backend),   sizeof(rp_launch),
                                      sizeof(rp_op_params), sizeof(rp_step_state)};
#undef RP_OP_WORD
    return own;
}

static inline bool rp_backend_same_interface(const rp_backend_interface *wanted) {
    const rp_backend_interface own = rp_backend_own_interface();
    return strcmp(wanted->version, own.version) == 0 && strcmp(wanted->ops, own.ops) == 0 &&
           wanted->backend_bytes == own.backend_bytes && wanted->launch_bytes == own.launch_bytes &&
           wanted->params_bytes == own.params_bytes && wanted->step_bytes == own.step_bytes;
}

/* The library's one symbol. NULL: it is of another build. */
typedef const rp_backend *(*rp_backend_entry)(const rp_backend_interface *wanted);

/* Looks for the library: the file that the environment's variable names, if it is set; else beside
 * the object that holds this code; else as the loader does. It stays loaded. RP_UNSUPPORTED: it was
 * not found or does not fit. */
rp_status rp_backend_load(rp_context *context, const char *library, const char *variable,
                          const char *entry, const rp_backend **backend);

#endif
