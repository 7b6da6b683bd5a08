/* The norm of all gradients of parameters, and clipping by it. The sums lie where the kernels can
 * reach them: on a device in the arena, so that the host need not wait for a number that goes from
 * kernel to kernel; else in the executor. */
#include "norm.h"

#include <math.h>

#include "ops/define.h"

enum { ALIGNMENT = 64 }; /* as everything in the arena of a CPU */

rp_status rp_executor_make_norm(rp_executor *executor) {
    const rp_program *program = executor->program;
    rp_context *context = executor->context;
    if (executor->kernels == NULL || program->parameter_count == 0)
        return RP_OK;
    executor->norm_parts = rp_program_norm_parts(program, executor->backend);
    executor->norm = rp_executor_place_of(executor, program->scratch[RP_SCRATCH_NORM]);
    executor->squares = rp_alloc(context, program->parameter_count, sizeof *executor->squares);
    if (executor->squares == NULL)
        return rp_fail_memory(context, "an executor");
    if (executor->norm != NULL)
        return RP_OK;
    executor->norm_block = rp_alloc(context, (size_t)executor->norm_parts.bytes + ALIGNMENT, 1);
    if (executor->norm_block == NULL)
        return rp_fail_memory(context, "an executor");
    const size_t off = (uintptr_t)executor->norm_block % ALIGNMENT;
    executor->norm = executor->norm_block + (ALIGNMENT - off) % ALIGNMENT;
    return RP_OK;
}

/* A kernel with one input and one output, both in the norm's memory or gradients. */
static rp_status call_kernel(const rp_executor *executor, rp_op op, const rp_op_params *params,
                             const rp_tensor_info *in_info, const void *in,
                             rp_tensor_info *out_info, void *out) {
    const rp_launch launch = {
        .call = {in_info, 1, out_info, 1, params},
        .in = &in,
        .out = &out,
        .workspace = executor->norm + executor->norm_parts.workspace,
        .step = executor->step_place,
        .queue = executor->queue,
        .threads = rp_context_threads(executor->context),
    };
    return executor->kernels[op](&launch);
}

/* One double a parameter. */
static rp_status sum_squares(const rp_executor *executor) {
    const rp_program *program = executor->program;
    const rp_op_params params = {0};
    rp_status status = RP_OK;
    for (size_t i = 0; i < program->parameter_count && status == RP_OK; i++) {
        const uint32_t gradient = program->gradients[program->parameters[i]].gradient;
        const rp_tensor_info in = rp_code_info(&program->code, gradient);
        rp_tensor_info out = {RP_F32, RP_SHAPE(2)}; /* stands for one double */
        status = call_kernel(executor, RP_OP_SUM_SQUARES, &params, &in,
                             rp_executor_place_of(executor, gradient), &out,
                             executor->norm + i * sizeof(double));
    }
    return status;
}

rp_status rp_executor_clip(const rp_executor *executor, float most, const float **scale) {
    *scale = NULL;
    if (most <= 0.0f || executor->norm == NULL)
        return RP_OK;
    const int64_t doubles = (int64_t)executor->program->parameter_count;
    const rp_tensor_info in = {RP_F32, RP_SHAPE(2 * doubles)};
    rp_tensor_info out = {RP_F32, RP_SCALAR};
    rp_op_params params = {0};
    params.clip_scale.most = most;
    void *place = executor->norm + executor->norm_parts.scale;
    rp_status status = sum_squares(executor);
    if (status == RP_OK)
        status = call_kernel(executor, RP_OP_CLIP_SCALE, &params, &in, executor->norm, &out, place);
    *scale = place;
    return status;
}

static rp_status read_norm(const rp_executor *executor, double *norm) {
    const size_t count = executor->program->parameter_count;
    const int previous = executor->backend->enter(rp_context_threads(executor->context));
    rp_status status = sum_squares(executor);
    executor->backend->leave(previous);
    if (status == RP_OK)
        status = executor->backend->read(executor->queue, executor->squares, executor->norm,
                                         count * sizeof *executor->squares);
    double total = 0.0;
    for (size_t i = 0; i < count && status == RP_OK; i++)
        total += executor->squares[i];
    *norm = sqrt(total);
    return status;
}

rp_status rp_gradient_norm(const rp_executor *executor, double *norm) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    const char *call = "rp_gradient_norm";
    if (norm == NULL)
        return rp_fail(executor->context, RP_INVALID_ARGUMENT, "%s: nowhere to put the norm", call);
    *norm = 0.0;
    rp_status status = rp_executor_check_update(executor, call);
    if (status != RP_OK || executor->norm == NULL)
        return status;
    status = read_norm(executor, norm);
    return status == RP_OK ? RP_OK
                           : rp_fail(executor->context, status, "%s: %s", call,
                                     rp_executor_words(executor, status));
}
