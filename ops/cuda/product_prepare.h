/* What prepare.c calls, by op, and what it gives back. */
#ifndef REPRISE_OPS_CUDA_PRODUCT_PREPARE_H
#define REPRISE_OPS_CUDA_PRODUCT_PREPARE_H

#include "queue.h"

/* products.c */
rp_status rp_cuda_prepare_linear(rp_queue *queue, const rp_op_call *call);
rp_status rp_cuda_prepare_linear_backward_input(rp_queue *queue, const rp_op_call *call);
rp_status rp_cuda_prepare_linear_backward_weight(rp_queue *queue, const rp_op_call *call);
rp_status rp_cuda_prepare_matmul(rp_queue *queue, const rp_op_call *call);
void rp_cuda_products_unprepare(rp_queue *queue);

#endif
