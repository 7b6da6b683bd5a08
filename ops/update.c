/* Updates of parameters, run between steps: no shapes to infer, no gradients.
 *   adamw        (p, g, m, v) -> p, m, v    in place
 *   sgd          (p, g) -> p                in place
 *   sum_squares  (g) -> one double, the sum of the squares of all elements; its slot has no dtype
 *     for it and is declared
 *                as f32 [2], aligned to 8 bytes */
#include "define.h"

static int64_t adamw_flops(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->in[0]), 16);
}

static int64_t two_an_input(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->in[0]), 2);
}

const rp_op_def rp_op_def_adamw = {
    .name = "adamw",
    .flops = adamw_flops,
    .inplace_count = 3,
    .inplace = {{0, 0}, {1, 2}, {2, 3}},
};

const rp_op_def rp_op_def_sgd = {
    .name = "sgd",
    .flops = two_an_input,
    .inplace_count = 1,
    .inplace = {{0, 0}},
};

static int64_t sum_squares_workspace(const rp_op_call *call) {
    return rp_cut_sum(rp_info_count(&call->in[0])).count * (int64_t)sizeof(double);
}

const rp_op_def rp_op_def_sum_squares = {
    .name = "sum_squares",
    .flops = two_an_input,
    .workspace = sum_squares_workspace,
};
