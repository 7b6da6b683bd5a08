/* Which ops have something to prepare. */
#include "prepare.h"
#include "product_prepare.h"
#ifdef RP_CUDA_CUDNN
#include "attention_cudnn.h"
#endif

static rp_status (*const prepares[RP_OP_COUNT])(rp_queue *queue, const rp_op_call *call) = {
    [RP_OP_LINEAR] = rp_cuda_prepare_linear,
    [RP_OP_LINEAR_BACKWARD_INPUT] = rp_cuda_prepare_linear_backward_input,
    [RP_OP_LINEAR_BACKWARD_WEIGHT] = rp_cuda_prepare_linear_backward_weight,
    [RP_OP_MATMUL] = rp_cuda_prepare_matmul,
#ifdef RP_CUDA_CUDNN
    [RP_OP_ATTENTION] = rp_cuda_prepare_attention,
    [RP_OP_ATTENTION_BACKWARD] = rp_cuda_prepare_attention_backward,
#endif
};

rp_status rp_cuda_prepare(rp_queue *queue, rp_op op, const rp_op_call *call) {
    return prepares[op] != NULL ? prepares[op](queue, call) : RP_OK;
}

void rp_cuda_unprepare(rp_queue *queue) {
    rp_cuda_products_unprepare(queue);
#ifdef RP_CUDA_CUDNN
    rp_cuda_attention_unprepare(queue);
#endif
}
