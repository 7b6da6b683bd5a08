/* Updates of parameters, run between steps: no shapes to infer, no gradients.
 *   adamw        (p, g, m, v, master or absent, scale or absent) -> p, m, v, master or absent
 *   sgd          (p, g, master or absent, scale or absent) -> p, master or absent
 *   sum_squares  (g) -> one double, the sum of the squares of all elements; its slot has no dtype
 *     for it and is declared as f32 [2], aligned to 8 bytes
 *   clip_scale   (squares: f32 [2 n] that stands for n doubles) -> a scalar: min(1, most / the root
 *     of their sum), 1 if that is not a number
 * adamw and sgd work in place. p and g are f32 or bf16, everything else is f32. A master, where
 * there is one, is what is updated, and p becomes the master rounded to nearest even. The gradient
 * is g times scale. */
#include "define.h"

static int64_t adamw_flops(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->in[0]), 16);
}

static int64_t two_an_input(const rp_op_call *call) {
    return rp_saturated_multiply(rp_info_count(&call->in[0]), 2);
}

/* What of p is read where there is a master: nothing. */
static int64_t update_bytes(const rp_op_call *call, size_t master) {
    int64_t bytes = 0;
    const bool has_master = master < call->in_count && call->in[master].dtype != RP_NO_DTYPE;
    for (size_t i = has_master; i < call->in_count; i++)
        bytes = rp_saturated_add(bytes, rp_info_bytes(&call->in[i]));
    for (size_t k = 0; k < call->out_count; k++)
        bytes = rp_saturated_add(bytes, rp_info_bytes(&call->out[k]));
    return bytes;
}

static int64_t adamw_bytes(const rp_op_call *call) {
    return update_bytes(call, 4);
}

static int64_t sgd_bytes(const rp_op_call *call) {
    return update_bytes(call, 2);
}

const rp_op_def rp_op_def_adamw = {
    .name = "adamw",
    .flops = adamw_flops,
    .bytes_moved = adamw_bytes,
    .inplace_count = 4,
    .inplace = {{0, 0}, {1, 2}, {2, 3}, {3, 4}},
};

const rp_op_def rp_op_def_sgd = {
    .name = "sgd",
    .flops = two_an_input,
    .bytes_moved = sgd_bytes,
    .inplace_count = 2,
    .inplace = {{0, 0}, {1, 2}},
};

static int64_t sum_squares_workspace(const rp_op_call *call) {
    return rp_cut_sum(rp_info_count(&call->in[0])).count * (int64_t)sizeof(double);
}

const rp_op_def rp_op_def_sum_squares = {
    .name = "sum_squares",
    .flops = two_an_input,
    .workspace = sum_squares_workspace,
};

const rp_op_def rp_op_def_clip_scale = {.name = "clip_scale", .flops = two_an_input};
