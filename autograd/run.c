/* The loop: walks bound actions and calls kernels. */
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
        .step = &executor->step,
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
        if (bytes > 0 && (bound->flags & RP_BOUND_SAVE) != 0)
            status = executor->backend->read(executor->queue, copy, places[k], bytes);
        else if (bytes > 0 && memcmp(copy, places[k], bytes) != 0)
            return report_change(executor, bound->node, k, places[k], copy, bytes);
        copy += bytes;
    }
    return status;
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* A kernel has no words of its own; whatever status it gives gets the node's name. */
static rp_status run_kernel(rp_executor *executor, const rp_bound *bound) {
    const rp_status status = executor->kernels != NULL ? call_kernel(executor, bound) : RP_OK;
    if (status == RP_OK)
        return RP_OK;
    return rp_fail(executor->context, status, "node %u (%s): %s", (unsigned)bound->node,
                   node_name(executor, bound->node), rp_status_text(status));
}

static rp_status call_observed(rp_executor *executor, const rp_bound *bound) {
    const bool replay = (bound->flags & RP_BOUND_REPLAY) != 0;
    const bool timed =
        executor->options.trace != NULL || (replay && executor->options.time_replays);
    const int64_t begin = timed ? rp_monotonic_ns() : 0;
    rp_status status = run_kernel(executor, bound);
    const int64_t end = timed ? rp_monotonic_ns() : 0;
    if (replay)
        executor->replay_ns += end - begin;
    if (executor->options.trace != NULL) {
        const bool backward = executor->program->code.nodes[bound->node].backward;
        const rp_trace_event event = {bound->node, replay, backward ? RP_BACKWARD : RP_FORWARD,
                                      begin, end};
        executor->options.trace(executor->options.trace_user, &event);
    }
    if (status == RP_OK && executor->copies != NULL && executor->backend->host_readable &&
        (bound->flags & (RP_BOUND_SAVE | RP_BOUND_COMPARE)) != 0)
        status = check_replay(executor, bound);
    return status;
}

static rp_status call_bound(rp_executor *executor, const rp_bound *bound) {
    if (executor->is_observed)
        return call_observed(executor, bound);
    return run_kernel(executor, bound);
}

rp_status rp_executor_run_actions(rp_executor *executor, size_t begin, size_t end) {
    const rp_backend *backend = executor->backend;
    const int previous = backend->enter(rp_context_threads(executor->context));
    rp_status status = RP_OK;
    for (size_t i = begin; i < end && status == RP_OK; i++) {
        const rp_bound *bound = &executor->bound[i];
        if (bound->node == RP_NONE) {
            status = backend->fill(executor->queue, bound->place, 0xFF, (size_t)bound->end);
            continue;
        }
        executor->peak = bound->end > executor->peak ? bound->end : executor->peak;
        executor->runs++;
        executor->replays += bound->flags & RP_BOUND_REPLAY;
        status = call_bound(executor, bound);
        if (status != RP_OK)
            executor->state = RP_EXECUTOR_FAILED;
    }
    backend->leave(previous);
    return status;
}
