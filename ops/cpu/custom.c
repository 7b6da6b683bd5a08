/* The caller's ops: hands the slots of ops/custom.c to the callbacks. Kept: what the op says it
 * reads. */
#include "loops.h"

rp_status RP_CPU(custom)(const rp_launch *launch) {
    const rp_custom_op *op = launch->call.params->custom.op;
    const rp_custom_call call = {
        .in_info = launch->call.in,
        .out_info = launch->call.out,
        .in = launch->in,
        .out = launch->out,
        .in_count = launch->call.in_count,
        .out_count = launch->call.out_count,
        .is_replay = launch->is_replay,
        .user = op->user,
    };
    return op->forward(&call);
}

/* Inputs or outputs that backward does not read have no data; their types and shapes are then those
 * of their gradients, as far as these are there. */
rp_status RP_CPU(custom_backward)(const rp_launch *launch) {
    const rp_custom_params *params = &launch->call.params->custom;
    const rp_custom_op *op = params->op;
    const size_t ins = params->forward_in_count, outs = params->forward_out_count;
    const rp_tensor_info *slots = launch->call.in;
    const rp_custom_call call = {
        .in_info = op->backward_reads_inputs ? slots : launch->call.out,
        .out_info = slots + ins + (op->backward_reads_outputs ? 0 : outs),
        .in = launch->in,
        .out = (void *const *)(launch->in + ins), /* backward only reads them */
        .grad_out = launch->in + ins + outs,
        .grad_in = launch->out,
        .in_count = ins,
        .out_count = outs,
        .is_replay = launch->is_replay,
        .user = op->user,
    };
    return op->backward(&call);
}
