/* The figures of a training as JSON. All bytes are exact integers. */
#include "trainer_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool training_summarise(trainer *trainer, training_summary *summary, failure *failure) {
    const size_t count = rp_program_parameter_count(trainer->program);
    *summary = (training_summary){.validation_loss = NAN};
    summary->gradient_norms = calloc(count + 1, sizeof *summary->gradient_norms);
    if (summary->gradient_norms == NULL)
        return fail_memory(failure, "the norms of the gradients");
    if (!trainer_hash_gradients(trainer, summary->gradient_norms, &summary->gradient_hash,
                                failure) ||
        !trainer_hash_parameters(trainer, &summary->parameter_hash, failure) ||
        !trainer_validate(trainer, &summary->validation_loss, failure)) {
        training_summary_free(summary);
        return false;
    }
    return true;
}

void training_summary_free(training_summary *summary) {
    free(summary->gradient_norms);
    summary->gradient_norms = NULL;
}

static const char *backend_name(const trainer *t) {
    static const char *const names[] = {
        [RP_BACKEND_CPU] = "cpu",
        [RP_BACKEND_NULL] = "null",
        [RP_BACKEND_CUDA] = "cuda",
    };
    return names[t->backend];
}

static json_t *device_object(const trainer *t) {
    return json_pack("{s:s, s:o, s:i}", "backend", backend_name(t), "name",
                     report_text(t->device_name), "threads", rp_context_threads(t->context));
}

/* a + b, at most INT64_MAX. */
static int64_t add(int64_t a, int64_t b) {
    int64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t multiply(int64_t a, int64_t b) {
    int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* Floating point operations of the runs beyond the first in one micro-batch. */
static int64_t replay_flops(const trainer *t) {
    size_t count = 0;
    int64_t all = 0, first = 0;
    const rp_step *steps = t->plan != NULL ? rp_plan_steps(t->plan, &count) : NULL;
    for (size_t i = 0; i < count; i++)
        if (steps[i].kind == RP_STEP_RUN)
            all = add(all, rp_program_node_flops(t->program, steps[i].index));
    rp_program_flops(t->program, &first, NULL);
    return all > first ? all - first : 0; /* 0 without a plan, too */
}

static json_t *model_object(const trainer *t) {
    const int64_t accum = t->options->accum, flops = gpt2_flops(&t->config);
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s}", "arch", t->options->arch, "dtype",
                     t->options->dtype, "params", (json_int_t)trainer_parameter_elements(t),
                     "tokens_per_step",
                     (json_int_t)multiply(accum, multiply(t->config.batch, t->config.seq)),
                     "model_flops", (json_int_t)multiply(accum, flops), "hardware_flops",
                     (json_int_t)multiply(accum, add(flops, replay_flops(t))), "attention",
                     t->options->attention);
}

static json_t *memory_object(const trainer *t) {
    const rp_plan_report *r = &t->report;
    const bool feasible = t->plan != NULL;
    rp_memory_report memory;
    rp_program_memory(t->program, &memory);
    return json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}",
        "budget_bytes", (json_int_t)r->budget_bytes, "keep_all_peak_bytes",
        (json_int_t)r->keep_all_peak_bytes, "min_feasible_bytes", (json_int_t)r->min_feasible_bytes,
        "strategy_min_bytes", (json_int_t)r->strategy_min_bytes, "predicted_peak_bytes",
        (json_int_t)(feasible ? r->peak_bytes : 0), "measured_peak_bytes",
        (json_int_t)t->stats.measured_peak_bytes, "arena_bytes", (json_int_t)t->stats.arena_bytes,
        "parameters_bytes", (json_int_t)memory.parameters_bytes, "gradients_bytes",
        (json_int_t)memory.gradients_bytes, "optimizer_bytes", (json_int_t)memory.optimizer_bytes,
        "inputs_bytes", (json_int_t)memory.inputs_bytes, "activations_peak_bytes",
        (json_int_t)(feasible ? add(t->walk.transient_peak_bytes, memory.inputs_bytes) : 0),
        "kept_bytes", (json_int_t)(feasible ? t->walk.kept_bytes : 0), "workspace_bytes",
        (json_int_t)memory.workspace_bytes, "outside_bytes", (json_int_t)t->stats.outside_bytes);
}

static json_t *plan_object(const trainer *t) {
    const rp_plan_report *r = &t->report;
    const bool feasible = t->plan != NULL;
    const int64_t once = rp_graph_total_cost_ns(t->graph),
                  again = feasible ? r->recompute_cost_ns : 0;
    const char *asked = t->options->strategy != NULL ? t->options->strategy : "auto";
    const char *device = t->costs != NULL ? rp_cost_table_name(t->costs) : "model";
    return json_pack("{s:o, s:b, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:b}", "strategy",
                     report_text(feasible ? rp_plan_strategy(t->plan) : asked), "feasible",
                     feasible, "recompute_nodes", (json_int_t)(feasible ? r->recompute_nodes : 0),
                     "predicted_recompute_ns", (json_int_t)again, "predicted_step_ns",
                     (json_int_t)(feasible ? multiply(t->options->accum, add(once, again)) : 0),
                     "total_cost_ns", (json_int_t)once, "plan_ms", report_real(r->plan_ms),
                     "peak_node", report_text(trainer_node_name(t, r->peak_node)), "plan_hash",
                     report_hash(feasible ? r->plan_hash : 0), "costs", report_text(device),
                     "costs_measured", rp_cost_table_is_measured(t->costs));
}

static json_t *time_object(const trainer *t) {
    time_summary step, replay;
    failure ignored;
    const double tokens =
        (double)t->options->accum * (double)t->config.batch * (double)t->config.seq;
    if (!trainer_step_times(t, false, &step, &ignored) ||
        !trainer_step_times(t, true, &replay, &ignored))
        return NULL;
    json_t *replays = t->times_replays ? report_real(1e-6 * replay.median_ns) : json_null();
    return json_pack("{s:f, s:f, s:f, s:o, s:f, s:I}", "step_ms_median", 1e-6 * step.median_ns,
                     "step_ms_min", 1e-6 * (double)step.least_ns, "step_ms_max",
                     1e-6 * (double)step.greatest_ns, "recompute_ms_median", replays,
                     "tokens_per_s", step.median_ns > 0.0 ? 1e9 * tokens / step.median_ns : 0.0,
                     "warmup_steps", (json_int_t)trainer_warmup_steps(t));
}

static json_t *losses_array(const trainer *t) {
    json_t *list = json_array();
    for (size_t i = 0; t->computes && i < t->step_count; i++)
        json_array_append_new(list, report_real(t->steps[i].loss));
    return list;
}

static json_t *norms_object(const trainer *t, const training_summary *summary) {
    json_t *object = json_object();
    for (size_t i = 0; summary != NULL && i < rp_program_parameter_count(t->program); i++) {
        json_object_set_new(object, rp_tensor_name(t->tape, rp_program_parameter(t->program, i)),
                            report_real(summary->gradient_norms[i]));
    }
    return object;
}

json_t *training_object(const trainer *trainer, const training_summary *summary) {
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "program",
                     "train_gpt", "version", RP_VERSION, "device", device_object(trainer), "model",
                     model_object(trainer), "memory", memory_object(trainer), "plan",
                     plan_object(trainer), "time", time_object(trainer), "losses",
                     losses_array(trainer), "validation_loss",
                     report_real(summary != NULL ? summary->validation_loss : NAN), "grad_norms",
                     norms_object(trainer, summary), "grad_hash",
                     report_hash(summary != NULL ? summary->gradient_hash : 0), "param_hash",
                     report_hash(summary != NULL ? summary->parameter_hash : 0));
}
