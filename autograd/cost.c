/* Modelled costs: a roofline with the figures of a plain processor with two cores.
 *
 * What a plan needs is the ratio of costs, and that the same command gives the same plan
 * everywhere; so nothing is measured, and all arithmetic is in integers. A kernel is as slow as
 * the slower of its arithmetic and its memory traffic, behind a fixed time to start. */
#include "cost.h"

/* Per nanosecond, so FLOPs / rate is ns: 150 GFLOP/s in products through a BLAS; 40 in
 * attention, whose exponentials and small tiles do not reach that; 20 elsewhere, where a "FLOP"
 * may be an exponential. 20 GB/s of memory. */
enum { PRODUCT_RATE = 150, ATTENTION_RATE = 40, PLAIN_RATE = 20, BANDWIDTH = 20, START_NS = 500 };

static const uint8_t rates[RP_OP_COUNT] = {
    [RP_OP_LINEAR] = PRODUCT_RATE,
    [RP_OP_LINEAR_BACKWARD_INPUT] = PRODUCT_RATE,
    [RP_OP_LINEAR_BACKWARD_WEIGHT] = PRODUCT_RATE,
    [RP_OP_MATMUL] = PRODUCT_RATE,
    [RP_OP_ATTENTION] = ATTENTION_RATE,
    [RP_OP_ATTENTION_BACKWARD] = ATTENTION_RATE,
    [RP_OP_ATTENTION_SCORES] = ATTENTION_RATE,
    [RP_OP_ATTENTION_SCORES_BACKWARD] = ATTENTION_RATE,
    [RP_OP_ATTENTION_VALUES] = ATTENTION_RATE,
    [RP_OP_ATTENTION_VALUES_BACKWARD] = ATTENTION_RATE,
};

static int64_t divide_up(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

int64_t rp_cost_model(rp_op op, const rp_op_call *call, int64_t accumulated_bytes) {
    if (op == RP_OP_VIEW)
        return 0;
    if (op == RP_OP_CUSTOM)
        return call->params->custom.op->forward_cost_ns;
    if (op == RP_OP_CUSTOM_BACKWARD)
        return call->params->custom.op->backward_cost_ns;
    int64_t bytes = 0;
    if (!rp_checked_add(rp_op_bytes_moved(op, call), accumulated_bytes, &bytes))
        bytes = INT64_MAX;
    const int64_t compute = divide_up(rp_op_flops(op, call), rates[op] ? rates[op] : PLAIN_RATE);
    const int64_t traffic = divide_up(bytes, BANDWIDTH);
    return (compute > traffic ? compute : traffic) + START_NS;
}
