/* Attention by cuDNN: attention_cudnn.c, only where cuDNN was found when this was built. */
#ifndef REPRISE_OPS_CUDA_ATTENTION_CUDNN_H
#define REPRISE_OPS_CUDA_ATTENTION_CUDNN_H

#include "queue.h"

/* *served: whether it ran; if not, our own kernel has to. */
rp_status rp_cuda_attention_cudnn(const rp_launch *launch, bool *served);
rp_status rp_cuda_attention_backward_cudnn(const rp_launch *launch, bool *served);

rp_status rp_cuda_prepare_attention(rp_queue *queue, const rp_op_call *call);
rp_status rp_cuda_prepare_attention_backward(rp_queue *queue, const rp_op_call *call);
void rp_cuda_attention_unprepare(rp_queue *queue);

#endif
