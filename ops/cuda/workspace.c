/* Scratch of the kernels, by op: what depends on shapes and types alone, so that a plan can be made
 * without a device. A formula stands in the header that its kernel includes, too. */
#include "attention_sizes.h"
#include "product_sizes.h"
#include "reduction_sizes.h"
#include "table.h"

typedef int64_t (*workspace_of)(const rp_op_call *call);

/* An op that is not listed takes none. */
static const workspace_of workspaces[RP_OP_COUNT] = {
    [RP_OP_ATTENTION] = rp_cuda_attention_scratch,
    [RP_OP_ATTENTION_BACKWARD] = rp_cuda_attention_backward_scratch,
    [RP_OP_CROSS_ENTROPY] = rp_cuda_cross_entropy_scratch,
    [RP_OP_CROSS_ENTROPY_BACKWARD] = rp_cuda_cross_entropy_backward_scratch,
    [RP_OP_EMBEDDING_BACKWARD] = rp_cuda_embedding_backward_scratch,
    [RP_OP_LAYERNORM_BACKWARD] = rp_cuda_layernorm_backward_scratch,
    [RP_OP_LINEAR] = rp_cuda_linear_scratch,
    [RP_OP_LINEAR_BACKWARD_INPUT] = rp_cuda_linear_backward_input_scratch,
    [RP_OP_LINEAR_BACKWARD_WEIGHT] = rp_cuda_linear_backward_weight_scratch,
    [RP_OP_MATMUL] = rp_cuda_matmul_scratch,
    [RP_OP_SUM] = rp_cuda_sum_scratch,
    [RP_OP_SUM_LEADING] = rp_cuda_sum_leading_scratch,
    [RP_OP_SUM_SQUARES] = rp_cuda_sum_scratch,
};

int64_t rp_cuda_workspace(rp_op op, const rp_op_call *call) {
    return workspaces[op] != NULL ? workspaces[op](call) : 0;
}
