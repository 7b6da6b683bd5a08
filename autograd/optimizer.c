/* Optimizers: between steps, one kernel a parameter, in the order in which they were recorded. */
#include <math.h>
#include <string.h>

#include "norm.h"

/* The slots of adamw: the parameter, its gradient, the moments, the master, the scale; or of sgd,
 * without the moments. */
enum { ADAMW_IN = 6, ADAMW_OUT = 4, SGD_IN = 4, SGD_OUT = 2 };

typedef struct update {
    const rp_program_gradient *gradient;
    rp_tensor_info infos[ADAMW_IN];
    void *places[ADAMW_IN];
} update;

static update update_of(const rp_executor *executor, size_t i, rp_op op) {
    const rp_program *program = executor->program;
    const rp_program_gradient *g = &program->gradients[program->parameters[i]];
    const uint32_t moments[] = {g->state[RP_STATE_MOMENT1], g->state[RP_STATE_MOMENT2]};
    const uint32_t master = g->state[RP_STATE_MASTER];
    const uint32_t adamw[] = {g->leaf, g->gradient, moments[0], moments[1], master};
    const uint32_t sgd[] = {g->leaf, g->gradient, master};
    const uint32_t *values = op == RP_OP_ADAMW ? adamw : sgd;
    update u = {.gradient = g};
    for (size_t k = 0; k < (op == RP_OP_ADAMW ? 5u : 3u); k++) {
        if (values[k] == RP_NONE)
            continue;
        u.infos[k] = rp_code_info(&program->code, values[k]);
        u.places[k] = rp_executor_place_of(executor, values[k]);
    }
    return u;
}

static rp_status call_update(const rp_executor *executor, rp_op op, const rp_op_params *params,
                             update *u) {
    const bool is_adamw = op == RP_OP_ADAMW;
    /* p (, m, v), master: what is written is what was read, but for the gradient */
    void *const out[ADAMW_OUT] = {u->places[0], u->places[2], u->places[3], u->places[4]};
    rp_tensor_info out_infos[ADAMW_OUT] = {u->infos[0], u->infos[2], u->infos[3], u->infos[4]};
    const rp_launch launch = {
        .call = {u->infos, is_adamw ? ADAMW_IN : SGD_IN, out_infos, is_adamw ? ADAMW_OUT : SGD_OUT,
                 params},
        .in = (const void *const *)u->places,
        .out = out,
        .step = executor->step_place,
        .queue = executor->queue,
        .threads = rp_context_threads(executor->context),
    };
    return executor->kernels[op](&launch);
}

rp_status rp_executor_check_update(const rp_executor *executor, const char *call) {
    const rp_status status = rp_executor_check_idle(executor, call);
    return status == RP_OK ? rp_executor_check_gradients(executor, call) : status;
}

static rp_status failed(rp_executor *executor, const char *call, rp_status status) {
    executor->state = RP_EXECUTOR_FAILED;
    return rp_fail(executor->context, status, "%s: %s", call, rp_executor_words(executor, status));
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Calls the kernel for every parameter; weight decay is for those of two dimensions or more. The
 * gradients are scaled so that their norm is at most `most`, if it is not 0. */
static rp_status update_all(rp_executor *executor, const char *call, rp_op op,
                            const rp_op_params *params, float decay, float most) {
    const size_t scale_slot = op == RP_OP_ADAMW ? ADAMW_IN - 1 : SGD_IN - 1;
    const float *scale = NULL;
    if (executor->kernels == NULL)
        return RP_OK;
    const int previous = executor->backend->enter(rp_context_threads(executor->context));
    rp_status status = rp_executor_clip(executor, most, &scale);
    for (size_t i = 0; i < executor->program->parameter_count && status == RP_OK; i++) {
        update u = update_of(executor, i, op);
        rp_op_params own = *params;
        if (scale != NULL)
            u.infos[scale_slot] = (rp_tensor_info){RP_F32, RP_SCALAR};
        u.places[scale_slot] = (void *)scale;
        if (op == RP_OP_ADAMW)
            own.adamw.weight_decay = u.infos[0].shape.rank >= 2 ? decay : 0.0f;
        status = call_update(executor, op, &own, &u);
    }
    executor->backend->leave(previous);
    return status == RP_OK ? RP_OK : failed(executor, call, status);
}

static bool is_valid_adamw(const rp_adamw_options *o) {
    return o->beta1 >= 0.0f && o->beta1 < 1.0f && o->beta2 >= 0.0f && o->beta2 < 1.0f &&
           o->eps >= 0.0f && o->max_grad_norm >= 0.0f;
}

rp_status rp_adamw_step(rp_executor *executor, const rp_adamw_options *options) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    const rp_adamw_options defaults = RP_ADAMW_OPTIONS;
    const rp_adamw_options *o = options != NULL ? options : &defaults;
    if (o->struct_size != sizeof *o || !is_valid_adamw(o))
        return rp_fail(executor->context, RP_INVALID_ARGUMENT,
                       "rp_adamw_step: betas in [0, 1), eps and max_grad_norm of at least 0, and "
                       "struct_size are needed");
    rp_status status = rp_executor_check_update(executor, "rp_adamw_step");
    if (status != RP_OK)
        return status;
    if (executor->program->optimizer != RP_OPTIMIZER_ADAMW)
        return rp_fail(executor->context, RP_BAD_STATE,
                       "rp_adamw_step: the program was made without RP_OPTIMIZER_ADAMW");
    rp_op_params params;
    memset(&params, 0, sizeof params);
    const double t = (double)++executor->updates;
    params.adamw.lr = o->lr;
    params.adamw.beta1 = o->beta1;
    params.adamw.beta2 = o->beta2;
    params.adamw.eps = o->eps;
    params.adamw.correction1 = (float)(1.0 - pow((double)o->beta1, t));
    params.adamw.correction2 = (float)(1.0 - pow((double)o->beta2, t));
    return update_all(executor, "rp_adamw_step", RP_OP_ADAMW, &params, o->weight_decay,
                      o->max_grad_norm);
}

/* Updates of a bf16 parameter without a master would mostly be lost. */
static rp_status check_masters(const rp_executor *executor, const char *call) {
    const rp_program *program = executor->program;
    for (size_t i = 0; i < program->parameter_count; i++) {
        const rp_program_gradient *g = &program->gradients[program->parameters[i]];
        if (program->code.values[g->leaf].dtype != RP_BF16 || g->state[RP_STATE_MASTER] != RP_NONE)
            continue;
        return rp_fail(executor->context, RP_BAD_STATE,
                       "%s: %s is bf16, and the program was made without RP_OPTIMIZER_SGD", call,
                       rp_tensor_name(program->tape, (rp_tensor){g->leaf + 1}));
    }
    return RP_OK;
}

rp_status rp_sgd_step(rp_executor *executor, float lr, float weight_decay, float max_grad_norm) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    if (!(max_grad_norm >= 0.0f))
        return rp_fail(executor->context, RP_INVALID_ARGUMENT,
                       "rp_sgd_step: max_grad_norm is %g, at least 0 is needed",
                       (double)max_grad_norm);
    rp_status status = rp_executor_check_update(executor, "rp_sgd_step");
    if (status == RP_OK)
        status = check_masters(executor, "rp_sgd_step");
    if (status != RP_OK)
        return status;
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.sgd.lr = lr;
    params.sgd.weight_decay = weight_decay;
    return update_all(executor, "rp_sgd_step", RP_OP_SGD, &params, weight_decay, max_grad_norm);
}
