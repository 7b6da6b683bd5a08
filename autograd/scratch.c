/* What a device keeps beside tensors. Where the host shares the memory of tensors, the step's
 * numbers and the sums of a norm lie in the executor; a device has them in its arena, as persistent
 * values of the graph. */
#include "ops/define.h"
#include "program.h"

static int64_t round_up(int64_t bytes, int64_t alignment) {
    return bytes > INT64_MAX - alignment ? INT64_MAX
                                         : (bytes + alignment - 1) / alignment * alignment;
}

/* What the kernels of the norm take at most. */
static int64_t norm_workspace(const rp_program *program, const rp_backend *backend) {
    const rp_op_params params = {0};
    int64_t most = 0;
    for (size_t i = 0; i < program->parameter_count; i++) {
        const rp_program_gradient *g = &program->gradients[program->parameters[i]];
        const rp_tensor_info in = rp_code_info(&program->code, g->gradient);
        rp_tensor_info out = {RP_F32, RP_SHAPE(2)}; /* stands for one double */
        const rp_op_call call = {&in, 1, &out, 1, &params};
        const int64_t bytes = backend->workspace(RP_OP_SUM_SQUARES, &call);
        most = bytes > most ? bytes : most;
    }
    return most;
}

rp_norm_parts rp_program_norm_parts(const rp_program *program, const rp_backend *backend) {
    const int64_t squares = (int64_t)program->parameter_count * (int64_t)sizeof(double);
    const int64_t scale = round_up(squares, backend->alignment);
    const int64_t workspace = scale + backend->alignment;
    return (rp_norm_parts){scale, workspace,
                           rp_saturated_add(workspace, norm_workspace(program, backend))};
}

static rp_status add_value(rp_program *program, int64_t bytes, uint32_t *value) {
    const int64_t words = bytes / 4 + (bytes % 4 != 0);
    const rp_tensor_info info = {RP_I32, RP_SHAPE(words)};
    if (rp_code_add_value(program->context, &program->code, &info, RP_CODE_SCRATCH, value))
        return RP_OK;
    return rp_fail_memory(program->context, "a program");
}

rp_status rp_program_add_scratch(rp_program *program) {
    const rp_backend *backend = program->backend;
    rp_status status = RP_OK;
    for (int k = 0; k < RP_SCRATCH_COUNT; k++)
        program->scratch[k] = RP_NONE;
    if (backend->step_bytes > 0)
        status = add_value(program, backend->step_bytes, &program->scratch[RP_SCRATCH_STEP]);
    if (status == RP_OK && backend->step_bytes > 0 && program->parameter_count > 0)
        status = add_value(program, rp_program_norm_parts(program, backend).bytes,
                           &program->scratch[RP_SCRATCH_NORM]);
    return status;
}
