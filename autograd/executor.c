/* The executor: made from a program and a plan, it moves data in and out and runs steps. */
#include "executor.h"

#include "cost.h"
#include "norm.h"

#include "planner/graph.h"
#include <reprise/plan.h>
#include <string.h>

/* ---- Creating -------------------------------------------------------------------------------- */

static rp_status check_share(rp_context *context, const rp_program *program,
                             const rp_executor_options *options) {
    const rp_executor *share = options->share;
    if (share == NULL)
        return RP_OK;
    if (share->program->tape != program->tape)
        return rp_fail(context, RP_INVALID_ARGUMENT,
                       "executor: only programs of one tape can share memory");
    if (share->options.backend != options->backend)
        return rp_fail(context, RP_INVALID_ARGUMENT,
                       "executor: the one whose memory is to be shared has another backend");
    if (options->stream != NULL)
        return rp_fail(context, RP_INVALID_ARGUMENT,
                       "executor: who shares memory shares its stream, too");
    if (share->owner->state == RP_EXECUTOR_FAILED)
        return rp_fail(context, RP_BAD_STATE,
                       "executor: the one whose memory is to be shared has failed");
    return RP_OK;
}

/* What a kernel needs in memory is the backend's own matter, and the graph has it. */
static rp_status check_backend(const rp_program *program, const rp_backend *backend) {
    if (backend->kernels == NULL || backend->workspace == program->backend->workspace)
        return RP_OK;
    return rp_fail(program->context, RP_INVALID_ARGUMENT,
                   "executor: the program was made for the %s backend, not for %s",
                   program->backend->name, backend->name);
}

/* A recording is of whole steps: nobody can look at single kernels while one is made. */
static rp_status check_record(rp_context *context, const rp_executor_options *options) {
    if (!options->record || (options->trace == NULL && !options->time_replays &&
                             !options->check_replays && !options->synchronous))
        return RP_OK;
    return rp_fail(context, RP_INVALID_ARGUMENT,
                   "executor: record goes with none of trace, time_replays, check_replays and "
                   "synchronous");
}

static rp_status check_arguments(const rp_program *program, const rp_plan *plan,
                                 const rp_executor_options *options) {
    rp_context *context = program->context;
    const rp_graph *graph = rp_plan_graph(plan);
    if (graph != program->graph && rp_graph_hash(graph) != rp_graph_hash(program->graph))
        return rp_fail(context, RP_BAD_INPUT,
                       "executor: the plan is of graph %s (%016llx), not of the program's, %s "
                       "(%016llx)",
                       rp_graph_name(graph), (unsigned long long)rp_graph_hash(graph),
                       rp_graph_name(program->graph),
                       (unsigned long long)rp_graph_hash(program->graph));
    const rp_status status = check_record(context, options);
    return status == RP_OK ? check_share(context, program, options) : status;
}

size_t rp_executor_bytes(const rp_executor *executor, uint32_t value) {
    const rp_tensor_info info = rp_code_info(&executor->program->code, value);
    int64_t bytes = 0;
    return rp_code_info_bytes(&info, &bytes) ? (size_t)bytes : 0;
}

static rp_status make_arena(rp_executor *executor) {
    rp_plan_report report;
    rp_plan_get_report(executor->plan, &report);
    if (executor->owner != executor)
        return RP_OK;
    void *arena = NULL;
    const rp_status status = executor->backend->allocate(executor->context, executor->queue,
                                                         (size_t)report.peak_bytes, &arena);
    if (status != RP_OK)
        return status;
    executor->arena = arena;
    executor->arena_bytes = report.peak_bytes;
    return executor->options.poison
               ? executor->backend->fill(executor->queue, arena, 0xFF, (size_t)report.peak_bytes)
               : RP_OK;
}

static rp_status clear_value(rp_executor *executor, uint32_t value) {
    return executor->backend->fill(executor->queue, rp_executor_place_of(executor, value), 0,
                                   rp_executor_bytes(executor, value));
}

/* Sums begin at 0: accumulating gradients, and the optimizer's moments if asked. Masters are
 * written with their parameters. */
static rp_status clear_sums(rp_executor *executor, bool moments) {
    const rp_program *program = executor->program;
    rp_status status = RP_OK;
    for (size_t i = 0; i < program->gradient_count && status == RP_OK; i++) {
        const rp_program_gradient *g = &program->gradients[i];
        if (program->code.values[g->gradient].kind == RP_CODE_GRADIENT)
            status = clear_value(executor, g->gradient);
        for (int k = 0; k < RP_STATE_MASTER && moments && status == RP_OK; k++)
            if (g->state[k] != RP_NONE)
                status = clear_value(executor, g->state[k]);
    }
    return status;
}

/* Has libraries choose what they will do for each node. */
static rp_status prepare_nodes(rp_executor *executor) {
    const rp_program *program = executor->program;
    rp_status status = RP_OK;
    if (executor->backend->prepare == NULL)
        return RP_OK;
    for (uint32_t n = 0; n < program->code.node_count && status == RP_OK; n++) {
        int64_t accumulated = 0;
        uint64_t added = 0;
        const rp_op_call call = rp_program_call(program, n, executor->infos, &accumulated, &added);
        status =
            executor->backend->prepare(executor->queue, (rp_op)program->code.nodes[n].op, &call);
        if (status != RP_OK)
            rp_fail(executor->context, status, "node %u (%s): %s", (unsigned)n,
                    rp_node_name(program->graph, n), rp_executor_words(executor, status));
    }
    return status;
}

static rp_status make_parts(rp_executor *executor) {
    const rp_program *program = executor->program;
    rp_context *context = executor->context;
    executor->offset =
        rp_alloc(context, rp_graph_value_count(program->graph), sizeof *executor->offset);
    executor->forward_offset =
        rp_alloc(context, program->root_count, sizeof *executor->forward_offset);
    rp_status status = RP_OK;
    if (executor->offset == NULL || executor->forward_offset == NULL)
        status = rp_fail_memory(context, "an executor");
    if (status == RP_OK && executor->owner == executor)
        status =
            rp_backend_open(executor->backend, context, executor->options.stream, &executor->queue);
    if (status == RP_OK)
        status = rp_executor_place(executor);
    if (status == RP_OK)
        status = make_arena(executor);
    if (status == RP_OK)
        status = rp_executor_bind(executor);
    if (status == RP_OK)
        status = prepare_nodes(executor);
    if (status == RP_OK)
        status = rp_executor_make_norm(executor);
    if (status == RP_OK)
        status = clear_sums(executor, true);
    executor->step_place = rp_executor_place_of(executor, program->scratch[RP_SCRATCH_STEP]);
    if (executor->step_place == NULL)
        executor->step_place = &executor->step;
    return status;
}

static void destroy_executor(void *executor) {
    rp_executor_destroy(executor);
}

rp_status rp_executor_create(const rp_program *program, const rp_plan *plan,
                             const rp_executor_options *options, rp_executor **executor) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    *executor = NULL;
    if (program == NULL)
        return RP_INVALID_ARGUMENT;
    if (plan == NULL)
        return rp_fail(program->context, RP_INVALID_ARGUMENT, "executor: the plan is NULL");
    if (options != NULL && options->struct_size != sizeof *options)
        return rp_fail(program->context, RP_INVALID_ARGUMENT,
                       "executor: options are of another size: set struct_size");
    const rp_executor_options defaults = RP_EXECUTOR_OPTIONS;
    const rp_executor_options used = options != NULL ? *options : defaults;
    const rp_backend *backend = NULL;
    rp_status status = rp_backend_find(program->context, used.backend, &backend);
    if (status == RP_OK)
        status = check_backend(program, backend);
    if (status == RP_OK)
        status = check_arguments(program, plan, &used);
    if (status != RP_OK)
        return status;
    rp_executor *made = rp_alloc(program->context, 1, sizeof *made);
    if (made == NULL)
        return rp_fail_memory(program->context, "an executor");
    made->context = program->context;
    made->program = program;
    made->plan = plan;
    made->options = used;
    made->backend = backend;
    made->kernels = made->backend->kernels != NULL ? made->backend->kernels() : NULL;
    made->is_observed = used.trace != NULL || used.time_replays || used.check_replays ||
                        used.synchronous || backend->range_begin != NULL;
    made->owner = used.share != NULL ? used.share->owner : made;
    made->queue = made->owner->queue;
    made->step =
        (rp_step_state){.seed = program->seed, .loss_scale = 1.0f, .evaluate = used.evaluate};
    status = make_parts(made);
    if (status != RP_OK) {
        rp_executor_destroy(made);
        return status;
    }
    made->outside_base = rp_process_outside(made->owner->arena, made->owner->arena_bytes);
    made->backend->warm_up(made->context, made->queue, rp_context_threads(made->context));
    rp_own(made->context, &made->owned, made, destroy_executor);
    *executor = made;
    return RP_OK;
}

void rp_executor_destroy(rp_executor *executor) {
    if (executor == NULL)
        return;
    rp_context *context = executor->context;
    rp_disown(context, &executor->owned);
    rp_executor *owner = executor->owner;
    if (owner->pending == executor)
        owner->pending = NULL;
    if (owner->holder == executor)
        owner->holder = NULL;
    if (executor->recording != NULL)
        executor->backend->discard(executor->recording);
    if (executor->arena != NULL)
        executor->backend->release(executor->queue, executor->arena, (size_t)executor->arena_bytes);
    if (owner == executor)
        rp_backend_close(executor->backend, executor->queue);
    rp_free(context, executor->bound);
    rp_free(context, executor->places);
    rp_free(context, executor->offset);
    rp_free(context, executor->forward_offset);
    rp_free(context, executor->infos);
    rp_free(context, executor->norm_block);
    rp_free(context, executor->squares);
    rp_free(context, executor->copies);
    rp_free(context, executor->compared);
    rp_free(context, executor->copy_of);
    rp_free(context, executor);
}

/* ---- States ---------------------------------------------------------------------------------- */

static rp_status check_not_failed(const rp_executor *executor, const char *call) {
    if (executor->state != RP_EXECUTOR_FAILED && executor->owner->state != RP_EXECUTOR_FAILED)
        return RP_OK;
    return rp_fail(executor->context, RP_BAD_STATE,
                   "%s: a run has failed; the executor can only be destroyed", call);
}

rp_status rp_executor_check_idle(const rp_executor *executor, const char *call) {
    const rp_status status = check_not_failed(executor, call);
    if (status != RP_OK || executor->owner->pending == NULL)
        return status;
    return rp_fail(executor->context, RP_BAD_STATE,
                   "%s: a forward has run whose backward is due: inputs and parameters must not "
                   "change in between",
                   call);
}

rp_status rp_executor_check_gradients(const rp_executor *executor, const char *call) {
    if (executor->program->gradient_count == 0)
        return rp_fail(executor->context, RP_BAD_STATE, "%s: the program has no gradients", call);
    if (executor->state != RP_EXECUTOR_DONE)
        return rp_fail(executor->context, RP_BAD_STATE, "%s: no run of this step has ended", call);
    if (!executor->program->accumulate && executor->owner->holder != executor)
        return rp_fail(executor->context, RP_BAD_STATE,
                       "%s: another executor has run in the same memory since", call);
    return RP_OK;
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* Where a value lies now, or NULL: it is not needed by this program, not live, or overwritten. */
void *rp_executor_place_of(const rp_executor *executor, uint32_t value) {
    const rp_program *program = executor->program;
    if (value >= program->code.value_count || program->graph_value[value] == RP_NONE)
        return NULL;
    const uint32_t index = program->graph_value[value];
    const bool persists = program->graph->values[program->graph->values[index].root].persistent;
    int64_t offset = executor->offset[index];
    if (!persists && executor->owner->holder != executor)
        return NULL;
    if (!persists && executor->state != RP_EXECUTOR_DONE) {
        offset = -1;
        for (size_t i = 0; executor->state == RP_EXECUTOR_FORWARD && i < program->root_count; i++)
            if (program->roots[i] == value)
                offset = executor->forward_offset[i];
    }
    return offset < 0 ? NULL
                      : executor->owner->arena + offset + rp_program_joined_offset(program, value);
}

static bool is_tensor(const rp_executor *executor, rp_tensor tensor) {
    return tensor.id != 0 && tensor.id <= executor->program->tensor_count;
}

static rp_status check_copy(const rp_executor *executor, const char *call, uint32_t value,
                            const void *data, size_t bytes) {
    const size_t needed = rp_executor_bytes(executor, value);
    if (data == NULL && needed > 0)
        return rp_fail(executor->context, RP_INVALID_ARGUMENT, "%s: no data", call);
    if (bytes != needed)
        return rp_fail(executor->context, RP_INVALID_ARGUMENT, "%s: %zu bytes, the tensor has %zu",
                       call, bytes, needed);
    return RP_OK;
}

/* A tensor that no node needs has no memory: the same status whether it is read or written. */
static rp_status check_needed(const rp_executor *executor, const char *call, rp_tensor tensor) {
    const rp_program *program = executor->program;
    if (program->graph_value[tensor.id - 1] != RP_NONE)
        return RP_OK;
    return rp_fail(executor->context, RP_INVALID_ARGUMENT,
                   "%s: nothing that the program computes needs %s", call,
                   rp_tensor_name(program->tape, tensor));
}

rp_status rp_executor_find_leaf(rp_executor *executor, const char *call, rp_tensor leaf,
                                void **place) {
    const rp_program *program = executor->program;
    rp_status status = rp_executor_check_idle(executor, call);
    if (status != RP_OK)
        return status;
    if (!is_tensor(executor, leaf) || !rp_code_is_leaf(&program->code.values[leaf.id - 1]))
        return rp_fail(executor->context, RP_INVALID_ARGUMENT,
                       "%s: tensor %u is no parameter or input of the program", call,
                       (unsigned)leaf.id);
    status = check_needed(executor, call, leaf);
    if (status == RP_OK)
        *place = rp_executor_place_of(executor, leaf.id - 1);
    return status;
}

rp_status rp_executor_write(rp_executor *executor, rp_tensor leaf, const void *data, size_t bytes) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    void *place = NULL;
    rp_status status = rp_executor_find_leaf(executor, "rp_executor_write", leaf, &place);
    if (status == RP_OK)
        status = check_copy(executor, "rp_executor_write", leaf.id - 1, data, bytes);
    if (status == RP_OK)
        status = executor->backend->write(executor->queue, place, data, bytes);
    return status == RP_OK ? rp_executor_write_master(executor, leaf.id - 1, data) : status;
}

static rp_status find_value(const rp_executor *executor, const char *call, uint32_t value,
                            const void **place) {
    const rp_status status = check_not_failed(executor, call);
    if (status != RP_OK)
        return status;
    *place = rp_executor_place_of(executor, value);
    if (*place == NULL)
        return rp_fail(executor->context, RP_BAD_STATE,
                       "%s: the value is not in memory: it is no parameter, input, loss or output "
                       "of the program, or no run has ended",
                       call);
    return RP_OK;
}

static rp_status read_value(const rp_executor *executor, const char *call, uint32_t value,
                            const void *place, void *data, size_t bytes) {
    const rp_status status = check_copy(executor, call, value, data, bytes);
    return status == RP_OK ? executor->backend->read(executor->queue, data, place, bytes) : status;
}

rp_status rp_executor_find_tensor(const rp_executor *executor, const char *call, rp_tensor tensor,
                                  const void **place) {
    if (!is_tensor(executor, tensor))
        return rp_fail(executor->context, RP_INVALID_ARGUMENT, "%s: the program has no tensor %u",
                       call, (unsigned)tensor.id);
    const rp_status status = check_needed(executor, call, tensor);
    return status == RP_OK ? find_value(executor, call, tensor.id - 1, place) : status;
}

rp_status rp_executor_read(const rp_executor *executor, rp_tensor tensor, void *data,
                           size_t bytes) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    const char *call = "rp_executor_read";
    const void *place = NULL;
    const rp_status status = rp_executor_find_tensor(executor, call, tensor, &place);
    return status == RP_OK ? read_value(executor, call, tensor.id - 1, place, data, bytes) : status;
}

static const rp_program_gradient *find_gradient(const rp_executor *executor, rp_tensor leaf) {
    return is_tensor(executor, leaf) ? rp_program_find_gradient(executor->program, leaf.id - 1)
                                     : NULL;
}

rp_status rp_executor_find_gradient(const rp_executor *executor, const char *call, rp_tensor leaf,
                                    uint32_t *value, const void **place) {
    const rp_program_gradient *gradient = find_gradient(executor, leaf);
    if (gradient == NULL)
        return rp_fail(executor->context, RP_INVALID_ARGUMENT,
                       "%s: tensor %u gets no gradient in this program", call, (unsigned)leaf.id);
    *value = gradient->gradient;
    return find_value(executor, call, *value, place);
}

rp_status rp_executor_read_gradient(const rp_executor *executor, rp_tensor leaf, void *data,
                                    size_t bytes) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    const char *call = "rp_executor_read_gradient";
    const void *place = NULL;
    uint32_t value = RP_NONE;
    const rp_status status = rp_executor_find_gradient(executor, call, leaf, &value, &place);
    return status == RP_OK ? read_value(executor, call, value, place, data, bytes) : status;
}

const void *rp_executor_data(const rp_executor *executor, rp_tensor tensor) {
    if (executor == NULL || !executor->backend->host_readable || !is_tensor(executor, tensor))
        return NULL;
    return rp_executor_place_of(executor, tensor.id - 1);
}

const void *rp_executor_gradient(const rp_executor *executor, rp_tensor leaf) {
    if (executor == NULL || !executor->backend->host_readable)
        return NULL;
    const rp_program_gradient *gradient = find_gradient(executor, leaf);
    return gradient != NULL ? rp_executor_place_of(executor, gradient->gradient) : NULL;
}

/* ---- Running --------------------------------------------------------------------------------- */

rp_status rp_executor_begin_step(rp_executor *executor, uint64_t step, float loss_scale) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    const rp_status status = check_not_failed(executor, "rp_executor_begin_step");
    if (status != RP_OK)
        return status;
    if (executor->owner->pending == executor)
        executor->owner->pending = NULL;
    executor->state = RP_EXECUTOR_IDLE;
    executor->step.step = step;
    executor->step.loss_scale = loss_scale;
    executor->step.micro_batch = 0;
    return clear_sums(executor, false);
}

static rp_status end_run(rp_executor *executor) {
    executor->owner->pending = NULL;
    executor->state = RP_EXECUTOR_DONE;
    executor->step.micro_batch++;
    return RP_OK;
}

/* From here on the arena is this executor's. */
static rp_status begin_run(rp_executor *executor, const char *call) {
    rp_executor *owner = executor->owner;
    rp_status status = check_not_failed(executor, call);
    if (status == RP_OK && owner->pending != executor)
        status = rp_executor_check_idle(executor, call);
    if (status != RP_OK)
        return status;
    executor->runs = executor->replays = 0;
    executor->replay_ns = 0;
    owner->holder = executor;
    return rp_executor_write_step(executor);
}

rp_status rp_executor_forward(rp_executor *executor) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    rp_executor *owner = executor->owner;
    rp_status status = begin_run(executor, "rp_executor_forward");
    if (status == RP_OK)
        status = rp_executor_run_actions(executor, 0, executor->backward_begin);
    if (status != RP_OK)
        return status;
    if (executor->program->forward_only)
        return end_run(executor);
    owner->pending = executor;
    executor->state = RP_EXECUTOR_FORWARD;
    return RP_OK;
}

rp_status rp_executor_backward(rp_executor *executor) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    rp_status status = check_not_failed(executor, "rp_executor_backward");
    if (status != RP_OK)
        return status;
    if (executor->state != RP_EXECUTOR_FORWARD)
        return rp_fail(executor->context, RP_BAD_STATE,
                       "rp_executor_backward: no forward has run that it could follow: what it "
                       "reads is gone after one backward");
    status = rp_executor_run_actions(executor, executor->backward_begin, executor->bound_count);
    return status == RP_OK ? end_run(executor) : status;
}

static rp_status run_recorded(rp_executor *executor) {
    rp_status status = begin_run(executor, "rp_executor_run");
    if (status == RP_OK)
        status = rp_executor_run_recorded(executor);
    return status == RP_OK ? end_run(executor) : status;
}

rp_status rp_executor_run(rp_executor *executor) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    if (executor->options.record && executor->is_warm && executor->backend->replay != NULL)
        return run_recorded(executor);
    executor->is_warm = true;
    const rp_status status = rp_executor_forward(executor);
    if (status != RP_OK || executor->program->forward_only)
        return status;
    return rp_executor_backward(executor);
}

rp_status rp_executor_finish(rp_executor *executor) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    rp_status status = check_not_failed(executor, "rp_executor_finish");
    if (status != RP_OK)
        return status;
    status = rp_backend_finish(executor->backend, executor->queue);
    if (status == RP_OK)
        return RP_OK;
    executor->state = RP_EXECUTOR_FAILED;
    return rp_fail(executor->context, status, "rp_executor_finish: %s",
                   rp_executor_words(executor, status));
}

static int64_t outside_bytes(const rp_executor *executor) {
    const rp_executor *owner = executor->owner;
    if (executor->backend->outside != NULL)
        return executor->backend->outside(executor->queue);
    const int64_t outside = rp_process_outside(owner->arena, owner->arena_bytes);
    return executor->outside_base >= 0 ? outside - executor->outside_base : 0;
}

void rp_executor_get_stats(const rp_executor *executor, rp_executor_stats *stats) {
    if (stats == NULL)
        return;
    *stats = (rp_executor_stats){0};
    if (executor == NULL)
        return;
    stats->measured_peak_bytes =
        executor->peak > executor->persistent_end ? executor->peak : executor->persistent_end;
    stats->arena_bytes = executor->arena_bytes;
    stats->runs = executor->runs;
    stats->replays = executor->replays;
    stats->replay_ns = executor->replay_ns;
    const int64_t outside = outside_bytes(executor);
    stats->outside_bytes = outside > 0 ? outside : 0;
}
