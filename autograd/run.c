/* The loop: walks bound actions and calls kernels. */
#include <stdio.h>
#include <string.h>

#include "executor.h"
#include "planner/graph.h"

static rp_status call_kernel(rp_executor *executor, const rp_bound *bound) {
    const rp_code *code = &executor->program->code;
    const rp_code_node *node = &code->nodes[bound->node];
    const size_t in_count = node->in_count, out_count = node->out_count;
    void *const *places = executor->places + bound->slots;
    rp_code_infos(code, rp_code_inputs(code, node), in_count + out_count, executor->infos);
    const rp_launch launch = {
        .call = {executor->infos, in_count, executor->infos + in_count, out_count,
                 &code->params[node->params]},
        .in = (const void *const *)places,
        .out = places + in_count,
        .accumulate = node->accumulates ? (const void *const *)places + in_count + out_count : NULL,
        .workspace = bound->place,
        .step = executor->step_place,
        .queue = executor->queue,
        .threads = rp_context_threads(executor->context),
        .is_replay = (bound->flags & RP_BOUND_REPLAY) != 0,
    };
    return executor->kernels[node->op](&launch);
}

/* ---- Replays that are checked ---------------------------------------------------------------- */

static const char *node_name(const rp_executor *executor, uint32_t node) {
    return rp_node_name(executor->program->graph, node);
}

/* Which element of an output differs, by its bits: NaN equals itself, 0 is not -0. */
static rp_status report_change(const rp_executor *executor, uint32_t node, uint32_t output,
                               const uint8_t *now, const uint8_t *before, size_t bytes) {
    const rp_code *code = &executor->program->code;
    const uint32_t value = rp_code_outputs(code, &code->nodes[node])[output];
    const size_t element = rp_dtype_bytes((rp_dtype)code->values[value].dtype);
    size_t at = 0;
    while (at < bytes && now[at] == before[at])
        at++;
    return rp_fail(executor->context, RP_VALUE_CHANGED,
                   "node %u (%s): a replay of output %u differs from the first run, first in "
                   "element %zu",
                   (unsigned)node, node_name(executor, node), (unsigned)output, at / element);
}

/* What a kernel has written, for the host to look at. */
static rp_status bring(rp_executor *executor, const void *place, size_t bytes,
                       const uint8_t **brought) {
    *brought = executor->compared != NULL ? executor->compared : place;
    if (executor->compared == NULL)
        return RP_OK;
    return executor->backend->read(executor->queue, executor->compared, place, bytes);
}

static rp_status check_replay(rp_executor *executor, const rp_bound *bound) {
    const rp_code *code = &executor->program->code;
    const rp_code_node *node = &code->nodes[bound->node];
    const uint32_t *out = rp_code_outputs(code, node);
    void *const *places = executor->places + bound->slots + node->in_count;
    uint8_t *copy = executor->copies + executor->copy_of[bound->node];
    rp_status status = RP_OK;
    for (uint32_t k = 0; k < node->out_count && status == RP_OK; k++) {
        if (out[k] == RP_NONE)
            continue;
        const size_t bytes = rp_executor_bytes(executor, out[k]);
        const uint8_t *now = NULL;
        if (bytes > 0 && (bound->flags & RP_BOUND_SAVE) != 0) {
            status = executor->backend->read(executor->queue, copy, places[k], bytes);
        } else if (bytes > 0) {
            status = bring(executor, places[k], bytes, &now);
            if (status == RP_OK && memcmp(copy, now, bytes) != 0)
                return report_change(executor, bound->node, k, now, copy, bytes);
        }
        copy += bytes;
    }
    return status;
}

/* ---- The loop -------------------------------------------------------------------------------- */

const char *rp_executor_words(const rp_executor *executor, rp_status status) {
    const rp_backend *backend = executor->backend;
    const bool asked =
        backend->words != NULL &&
        (status == RP_DEVICE_ERROR || status == RP_OUT_OF_MEMORY || status == RP_UNSUPPORTED);
    const char *words = asked ? backend->words(executor->queue) : NULL;
    return words != NULL ? words : rp_status_text(status);
}

/* A kernel has no words of its own; whatever status it gives gets the node's name. What a device
 * says behind a launch may also be about a kernel that was still running. */
static rp_status run_kernel(rp_executor *executor, const rp_bound *bound) {
    const rp_status status = executor->kernels != NULL ? call_kernel(executor, bound) : RP_OK;
    if (status == RP_OK)
        return RP_OK;
    const bool late =
        status == RP_DEVICE_ERROR && executor->queue != NULL && !executor->options.synchronous;
    return rp_fail(executor->context, status, "node %u (%s)%s: %s", (unsigned)bound->node,
                   node_name(executor, bound->node), late ? " or one before it" : "",
                   rp_executor_words(executor, status));
}

/* The same, and waits for it. */
static rp_status run_and_finish(rp_executor *executor, const rp_bound *bound) {
    rp_status status = run_kernel(executor, bound);
    if (status != RP_OK)
        return status;
    status = rp_backend_finish(executor->backend, executor->queue);
    if (status == RP_OK)
        return RP_OK;
    return rp_fail(executor->context, status, "node %u (%s): %s", (unsigned)bound->node,
                   node_name(executor, bound->node), rp_executor_words(executor, status));
}

/* ---- Ranges for profilers -------------------------------------------------------------------- */

static void end_range(rp_executor *executor) {
    if (executor->range != 0)
        executor->backend->range_end(executor->queue);
    executor->range = 0;
}

/* A range is what follows each other in one block and phase. */
static void follow_range(rp_executor *executor, const rp_bound *bound) {
    enum { NAME_BYTES = 128 };
    const rp_program *program = executor->program;
    const rp_code_node *node = &program->code.nodes[bound->node];
    const uint64_t replay = bound->flags & RP_BOUND_REPLAY, backward = node->backward;
    const uint64_t range = (uint64_t)node->block << 3 | replay << 2 | backward << 1 | 1;
    if (executor->backend->range_begin == NULL || range == executor->range)
        return;
    end_range(executor);
    char name[NAME_BYTES];
    const char *block = rp_tape_string(program->tape, node->block);
    snprintf(name, sizeof name, "%.100s%s%s", block, block[0] != 0 ? " " : "",
             replay     ? "recompute"
             : backward ? "backward"
                        : "forward");
    executor->backend->range_begin(executor->queue, name);
    executor->range = range;
}

/* ---- Actions --------------------------------------------------------------------------------- */

static rp_status call_observed(rp_executor *executor, const rp_bound *bound) {
    const bool replay = (bound->flags & RP_BOUND_REPLAY) != 0;
    const bool timed =
        executor->options.trace != NULL || (replay && executor->options.time_replays);
    const bool waits = timed || executor->options.synchronous;
    follow_range(executor, bound);
    rp_status status = timed ? rp_backend_finish(executor->backend, executor->queue) : RP_OK;
    const int64_t begin = timed ? rp_monotonic_ns() : 0;
    if (status == RP_OK)
        status = waits ? run_and_finish(executor, bound) : run_kernel(executor, bound);
    const int64_t end = timed ? rp_monotonic_ns() : 0;
    if (replay)
        executor->replay_ns += end - begin;
    if (executor->options.trace != NULL) {
        const bool backward = executor->program->code.nodes[bound->node].backward;
        const rp_trace_event event = {bound->node, replay, backward ? RP_BACKWARD : RP_FORWARD,
                                      begin, end};
        executor->options.trace(executor->options.trace_user, &event);
    }
    if (status == RP_OK && executor->copies != NULL && executor->kernels != NULL &&
        (bound->flags & (RP_BOUND_SAVE | RP_BOUND_COMPARE)) != 0)
        status = check_replay(executor, bound);
    return status;
}

static rp_status call_bound(rp_executor *executor, const rp_bound *bound) {
    if (executor->is_observed)
        return call_observed(executor, bound);
    return run_kernel(executor, bound);
}

static rp_status run_action(rp_executor *executor, const rp_bound *bound) {
    if (bound->node == RP_NONE)
        return executor->backend->fill(executor->queue, bound->place, 0xFF, (size_t)bound->end);
    executor->peak = bound->end > executor->peak ? bound->end : executor->peak;
    executor->runs++;
    executor->replays += bound->flags & RP_BOUND_REPLAY;
    return call_bound(executor, bound);
}

rp_status rp_executor_run_actions(rp_executor *executor, size_t begin, size_t end) {
    const rp_backend *backend = executor->backend;
    const int previous = backend->enter(rp_context_threads(executor->context));
    rp_status status = RP_OK;
    for (size_t i = begin; i < end && status == RP_OK; i++)
        status = run_action(executor, &executor->bound[i]);
    if (status != RP_OK)
        executor->state = RP_EXECUTOR_FAILED;
    end_range(executor);
    backend->leave(previous);
    return status;
}

/* ---- On a device ----------------------------------------------------------------------------- */

static rp_status failed(rp_executor *executor, const char *what, rp_status status) {
    executor->state = RP_EXECUTOR_FAILED;
    return rp_fail(executor->context, status, "%s: %s", what, rp_executor_words(executor, status));
}

rp_status rp_executor_write_step(rp_executor *executor) {
    if (executor->step_place == &executor->step)
        return RP_OK;
    const rp_status status =
        executor->backend->write_step(executor->queue, executor->step_place, &executor->step);
    return status == RP_OK ? RP_OK : failed(executor, "the step's numbers", status);
}

/* What a run gives to the queue, as one thing. Whatever happens the recording is ended: a queue
 * that records runs nothing. */
static rp_status record(rp_executor *executor) {
    const rp_backend *backend = executor->backend;
    rp_status status = backend->record_begin(executor->queue);
    if (status != RP_OK)
        return failed(executor, "recording", status);
    status = rp_executor_run_actions(executor, 0, executor->bound_count);
    const rp_status ended = backend->record_end(executor->queue, &executor->recording);
    if (status == RP_OK && ended != RP_OK)
        status = failed(executor, "recording", ended);
    executor->recorded_runs = executor->runs;
    executor->recorded_replays = executor->replays;
    return status;
}

rp_status rp_executor_run_recorded(rp_executor *executor) {
    rp_status status = executor->recording == NULL ? record(executor) : RP_OK;
    if (status != RP_OK)
        return status;
    executor->runs = executor->recorded_runs;
    executor->replays = executor->recorded_replays;
    status = executor->backend->replay(executor->queue, executor->recording);
    return status == RP_OK ? RP_OK : failed(executor, "replaying a recording", status);
}
