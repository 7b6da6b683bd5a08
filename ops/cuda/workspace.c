/* Scratch of the kernels, by op: what depends on shapes and types alone, so that a plan can be made
 * without a device. A formula stands in the header that its kernel includes, too. */
#include "table.h"

typedef int64_t (*workspace_of)(const rp_op_call *call);

/* An op that is not listed takes none. */
static const workspace_of workspaces[RP_OP_COUNT] = {0};

int64_t rp_cuda_workspace(rp_op op, const rp_op_call *call) {
    return workspaces[op] != NULL ? workspaces[op](call) : 0;
}
