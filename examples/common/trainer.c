/* From flags to a planned program, and the steps. */
#include "trainer.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "load_plan.h"

enum { VALIDATION_BATCHES = 4 };

bool trainer_fail(const trainer *trainer, rp_status status, const char *what, failure *failure) {
    return fail_library(failure, trainer->context, status, what);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static bool open_data(trainer *t, failure *failure) {
    const train_options *o = t->options;
    int64_t rows = 0;
    if (!data_load(&t->data, o->data.items, o->data.count, o->vocab, o->seq, failure))
        return false;
    if (o->validation > 0.0)
        return data_hold_out(&t->data, o->validation, o->seq, failure);
    if (!__builtin_mul_overflow(o->steps * o->accum, o->batch, &rows))
        data_find_unread_tail(&t->data, rows, o->seq);
    return true;
}

/* Opens --load and takes the number of positions from it. */
static bool open_weights(trainer *t, failure *failure) {
    const train_options *o = t->options;
    t->config = (gpt2_config){
        .layers = o->layers,
        .dim = o->dim,
        .heads = o->heads,
        .ffn = o->ffn,
        .vocab = o->vocab,
        .positions = o->seq,
        .batch = o->batch,
        .seq = o->seq,
        .dropout = o->dropout,
        .dtype = train_options_dtype(o),
        .tied = !o->untie,
        .fused = strcmp(o->attention, "fused") == 0,
        .recompute_core = strcmp(o->recompute, "attention") == 0,
    };
    if (o->load == NULL)
        return true;
    if (!safetensors_open(&t->weights, o->load, failure))
        return false;
    const safetensors_entry *wpe =
        safetensors_find(&t->weights, GPT2_PREFIX "wpe.weight", GPT2_PREFIX);
    if (wpe == NULL || wpe->rank != 2)
        return true; /* the check of all parameters has the words for it */
    t->config.positions = wpe->dims[0];
    return wpe->dims[0] >= o->seq ||
           fail(failure, STATUS_BAD_INPUT,
                "%s: %s has %" PRId64 " positions; at least --seq = %" PRId64 " are needed",
                o->load, wpe->name, wpe->dims[0], o->seq);
}

static void shape_text(char text[128], int rank, const int64_t *dims) {
    size_t length = (size_t)snprintf(text, 128, "[");
    for (int i = 0; i < rank && length < 100; i++) {
        length +=
            (size_t)snprintf(text + length, 128 - length, "%s%" PRId64, i > 0 ? ", " : "", dims[i]);
    }
    snprintf(text + length, 128 - length, "]");
}

/* That the file has every parameter, in the model's shape. */
static bool check_weights(const trainer *t, failure *failure) {
    for (size_t i = 0; t->weights.file != NULL && i < t->model.parameter_count; i++) {
        const gpt2_parameter *p = &t->model.parameters[i];
        const char *name = rp_tensor_name(t->tape, p->tensor);
        const safetensors_entry *entry = safetensors_find(&t->weights, name, GPT2_PREFIX);
        if (entry == NULL)
            return fail(failure, STATUS_BAD_INPUT, "%s: %s is missing", t->options->load, name);
        bool same = entry->rank == p->shape.rank;
        for (int d = 0; d < p->shape.rank && same; d++)
            same = entry->dims[d] == p->shape.dims[d];
        if (!same) {
            char got[128], wanted[128];
            shape_text(got, entry->rank, entry->dims);
            shape_text(wanted, p->shape.rank, p->shape.dims);
            return fail(failure, STATUS_BAD_INPUT, "%s: %s has shape %s, the flags ask for %s",
                        t->options->load, entry->name, got, wanted);
        }
    }
    return true;
}

static bool make_program(trainer *t, failure *failure) {
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.name = "train_gpt";
    options.losses = &t->model.loss;
    options.loss_count = 1;
    options.accumulate = t->options->accum > 1;
    options.optimizer = RP_OPTIMIZER_ADAMW;
    options.seed = (uint64_t)t->options->seed;
    options.backend = t->backend;
    const rp_status status = rp_program_create(t->tape, &options, &t->program);
    if (status != RP_OK)
        return trainer_fail(t, status, NULL, failure);
    t->graph = rp_program_graph(t->program);
    return true;
}

/* Whether the backend is there: a device, if one is asked for, or chosen if there is one. */
static bool open_backend(trainer *t, failure *failure) {
    const bool automatic = strcmp(t->options->backend, "auto") == 0;
    char *name = t->device_name;
    if (automatic &&
        rp_backend_describe(t->context, RP_BACKEND_CUDA, name, sizeof t->device_name) == RP_OK) {
        t->backend = RP_BACKEND_CUDA;
        return true;
    }
    const rp_status status =
        rp_backend_describe(t->context, t->backend, name, sizeof t->device_name);
    if (status == RP_UNSUPPORTED) /* a build without it */
        return fail(failure, STATUS_USAGE, "--backend %s: %s", t->options->backend,
                    rp_context_message(t->context));
    return status == RP_OK || trainer_fail(t, status, "--backend", failure);
}

bool trainer_open(trainer *trainer, const train_options *options, failure *failure) {
    *trainer = (struct trainer){.options = options};
    trainer->backend = train_options_backend(options);
    trainer->computes = trainer->backend != RP_BACKEND_NULL;
    if (!open_data(trainer, failure) || !open_weights(trainer, failure))
        return false;
    rp_context_options context_options = RP_CONTEXT_OPTIONS;
    context_options.threads = (int)options->threads;
    rp_status status = rp_context_create(&context_options, &trainer->context);
    if (status != RP_OK)
        return fail_library(failure, NULL, status, NULL);
    if (!open_backend(trainer, failure))
        return false;
    status = rp_tape_create(trainer->context, &trainer->tape);
    if (status != RP_OK)
        return trainer_fail(trainer, status, NULL, failure);
    return gpt2_record(trainer->tape, trainer->context, &trainer->config, &trainer->model,
                       failure) &&
           check_weights(trainer, failure) && make_program(trainer, failure);
}

/* ---- Planning -------------------------------------------------------------------------------- */

bool trainer_plan(trainer *trainer, failure *failure) {
    const train_options *o = trainer->options;
    int64_t budget = RP_UNLIMITED;
    if (size_is_relative(&o->budget)) {
        const rp_status status = rp_plan_limits(trainer->graph, &trainer->report);
        if (status != RP_OK)
            return trainer_fail(trainer, status, "--budget", failure);
    }
    if (!size_resolve(&o->budget, trainer->report.keep_all_peak_bytes,
                      trainer->report.min_feasible_bytes, &budget))
        return fail(failure, STATUS_USAGE, "--budget: more than 2^63 - 1 bytes");
    rp_plan_options options = RP_PLAN_OPTIONS;
    options.budget_bytes = budget;
    options.strategy = o->strategy;
    if (o->plan != NULL) {
        if (!load_plan(trainer->graph, trainer->context, o->plan, budget, &trainer->plan,
                       &trainer->report, failure))
            return false;
    } else {
        const rp_status status =
            rp_plan_create(trainer->graph, &options, &trainer->plan, &trainer->report);
        if (status != RP_OK) {
            trainer->report.budget_bytes = budget;
            return trainer_fail(trainer, status, NULL, failure);
        }
    }
    return walk_plan(trainer->plan, &trainer->walk, failure);
}

/* ---- Starting -------------------------------------------------------------------------------- */

/* Gives one parameter its initial value; `values` has room for it. */
static bool write_initial(const trainer *t, size_t index, float *values, failure *failure) {
    const gpt2_parameter *p = &t->model.parameters[index];
    const int64_t count = rp_shape_count(p->shape);
    rp_status status;
    if (t->weights.file == NULL && p->deviation > 0.0) {
        status = rp_executor_write_normal(t->executor, p->tensor, p->deviation,
                                          (uint64_t)t->options->seed, (uint32_t)index);
        return status == RP_OK || trainer_fail(t, status, "initial weights", failure);
    }
    if (t->weights.file != NULL) {
        const char *name = rp_tensor_name(t->tape, p->tensor);
        const safetensors_entry *entry = safetensors_find(&t->weights, name, GPT2_PREFIX);
        if (!safetensors_read(&t->weights, entry, 0, count, values, failure))
            return false;
    } else {
        for (int64_t i = 0; i < count; i++)
            values[i] = p->fill;
    }
    status = rp_executor_write_f32(t->executor, p->tensor, values, (size_t)count);
    return status == RP_OK || trainer_fail(t, status, "initial weights", failure);
}

static bool write_weights(trainer *t, failure *failure) {
    int64_t most = 1;
    for (size_t i = 0; i < t->model.parameter_count; i++) {
        const int64_t count = rp_shape_count(t->model.parameters[i].shape);
        most = count > most ? count : most;
    }
    float *values = malloc((size_t)most * sizeof *values);
    if (values == NULL)
        return fail_memory(failure, "the initial weights");
    bool good = true;
    for (size_t i = 0; i < t->model.parameter_count && good; i++)
        good = write_initial(t, i, values, failure);
    free(values);
    return good;
}

bool trainer_start(trainer *trainer, const char *trace, failure *failure) {
    const size_t batch_tokens = (size_t)(trainer->config.batch * trainer->config.seq);
    if (!trace_open(&trainer->trace, trace, trainer->graph, failure))
        return false;
    rp_executor_options options = RP_EXECUTOR_OPTIONS;
    options.backend = trainer->backend;
    /* a GPU's step is recorded; to time its replays, each would be waited for */
    trainer->times_replays = trainer->backend != RP_BACKEND_CUDA || trace != NULL;
    options.time_replays = trainer->times_replays;
    options.record = !trainer->times_replays;
    if (trace != NULL) {
        options.trace = trace_add;
        options.trace_user = &trainer->trace;
    }
    const rp_status status =
        rp_executor_create(trainer->program, trainer->plan, &options, &trainer->executor);
    if (status != RP_OK)
        return trainer_fail(trainer, status, NULL, failure);
    trainer->tokens = calloc(batch_tokens, sizeof *trainer->tokens);
    trainer->targets = calloc(batch_tokens, sizeof *trainer->targets);
    if (trainer->tokens == NULL || trainer->targets == NULL)
        return fail_memory(failure, "a batch");
    return !trainer->computes || write_weights(trainer, failure);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static bool write_batch(trainer *t, rp_executor *executor, failure *failure) {
    const size_t bytes = (size_t)(t->config.batch * t->config.seq) * sizeof(int32_t);
    rp_status status = rp_executor_write(executor, t->model.tokens, t->tokens, bytes);
    if (status == RP_OK)
        status = rp_executor_write(executor, t->model.targets, t->targets, bytes);
    return status == RP_OK || trainer_fail(t, status, NULL, failure);
}

/* Reads the loss of the micro-batch that ran: a sum over positions. */
static bool read_loss(const trainer *t, const rp_executor *executor, double *loss,
                      failure *failure) {
    float sum = 0.0f;
    const rp_status status = rp_executor_read(executor, t->model.loss, &sum, sizeof sum);
    *loss = (double)sum;
    return status == RP_OK || trainer_fail(t, status, NULL, failure);
}

/* Adds the loss of the micro-batch that ran last to the step's. It waits for a device. */
static bool add_loss(const trainer *t, step_record *record, failure *failure) {
    const gpt2_config *c = &t->config;
    double loss = 0.0;
    if (t->computes && !read_loss(t, t->executor, &loss, failure))
        return false;
    record->loss += loss / (double)(t->options->accum * c->batch * c->seq);
    return true;
}

static bool run_micro_batch(trainer *t, int64_t step, int64_t micro, step_record *record,
                            failure *failure) {
    const gpt2_config *c = &t->config;
    if (t->computes) {
        for (int64_t b = 0; b < c->batch; b++) {
            const int64_t row = (step * t->options->accum + micro) * c->batch + b;
            data_copy_window(&t->data, data_window(&t->data, row, c->seq), c->seq, b, t->tokens,
                             t->targets);
        }
        if (!write_batch(t, t->executor, failure))
            return false;
    }
    const rp_status status = rp_executor_run(t->executor);
    if (status != RP_OK)
        return trainer_fail(t, status, NULL, failure);
    rp_executor_get_stats(t->executor, &t->stats);
    record->replay_ns += t->stats.replay_ns;
    return true;
}

static bool run_step(trainer *t, int64_t step, step_record *record, failure *failure) {
    const double targets = (double)(t->options->accum * t->config.batch * t->config.seq);
    rp_adamw_options adamw = RP_ADAMW_OPTIONS;
    adamw.lr = (float)t->options->lr;
    const int64_t begin = clock_now_ns();
    rp_status status = rp_executor_begin_step(t->executor, (uint64_t)step, (float)(1.0 / targets));
    if (status != RP_OK)
        return trainer_fail(t, status, NULL, failure);
    *record = (step_record){0};
    for (int64_t micro = 0; micro < t->options->accum; micro++)
        if ((micro > 0 && !add_loss(t, record, failure)) ||
            !run_micro_batch(t, step, micro, record, failure))
            return false;
    status = rp_adamw_step(t->executor, &adamw);
    if (status != RP_OK)
        return trainer_fail(t, status, NULL, failure);
    if (!add_loss(t, record, failure))
        return false;
    status = rp_executor_finish(t->executor);
    if (status != RP_OK)
        return trainer_fail(t, status, NULL, failure);
    const int64_t end = clock_now_ns();
    record->step_ns = end - begin;
    trace_step(&t->trace, step, begin, end);
    return true;
}

bool trainer_run(trainer *trainer, progress *progress, failure *failure) {
    for (int64_t step = 0; step < trainer->options->steps; step++) {
        if (trainer->step_count == trainer->step_capacity) {
            const size_t capacity = trainer->step_capacity == 0 ? 64 : 2 * trainer->step_capacity;
            step_record *grown = realloc(trainer->steps, capacity * sizeof *grown);
            if (grown == NULL)
                return fail_memory(failure, "the losses");
            trainer->steps = grown;
            trainer->step_capacity = capacity;
        }
        step_record *record = &trainer->steps[trainer->step_count];
        if (!run_step(trainer, step, record, failure))
            return false;
        trainer->step_count++;
        progress_step(progress, step, record->loss, record->step_ns);
    }
    return trace_close(&trainer->trace, failure);
}

/* ---- Validation ------------------------------------------------------------------------------ */

/* A program without gradients on the parameters of the training, in its arena. */
typedef struct validator {
    rp_program *program;
    rp_plan *plan;
    rp_executor *executor;
} validator;

static void validator_close(validator *v) {
    rp_executor_destroy(v->executor);
    rp_plan_destroy(v->plan);
    rp_program_destroy(v->program);
}

/* *fits is false when the arena is too small: a plan without gradients needs less than one with
 * them, as long as that one does not recompute within the forward pass. */
static bool validator_open(validator *v, const trainer *t, bool *fits, failure *failure) {
    rp_program_options program = RP_PROGRAM_OPTIONS;
    program.name = "validation";
    program.losses = &t->model.loss;
    program.loss_count = 1;
    program.forward_only = true;
    program.backend = t->backend;
    rp_plan_options plan = RP_PLAN_OPTIONS;
    rp_executor_options executor = RP_EXECUTOR_OPTIONS;
    executor.evaluate = true;
    executor.backend = t->backend;
    executor.share = t->executor;
    *v = (validator){0};
    *fits = true;
    rp_status status = rp_program_create(t->tape, &program, &v->program);
    if (status == RP_OK) {
        const rp_graph *graph = rp_program_graph(v->program);
        plan.budget_bytes = t->report.peak_bytes - (rp_graph_persistent_bytes(t->graph) -
                                                    rp_graph_persistent_bytes(graph));
        status = rp_plan_create(graph, &plan, &v->plan, NULL);
    }
    if (status == RP_INFEASIBLE) {
        *fits = false;
        return true;
    }
    if (status == RP_OK)
        status = rp_executor_create(v->program, v->plan, &executor, &v->executor);
    return status == RP_OK || trainer_fail(t, status, "validation", failure);
}

/* One micro-batch of the held-out part: rows from window `first` on. */
static bool validate_batch(validator *v, trainer *t, int64_t first, double *loss,
                           failure *failure) {
    const int64_t seq = t->config.seq;
    for (int64_t b = 0; b < t->config.batch; b++) {
        const int64_t window = (first + b) % data_validation_windows(&t->data, seq);
        data_copy_window(&t->data, data_validation_window(&t->data, window, seq), seq, b, t->tokens,
                         t->targets);
    }
    if (!write_batch(t, v->executor, failure))
        return false;
    const rp_status status = rp_executor_run(v->executor);
    return status == RP_OK ? read_loss(t, v->executor, loss, failure)
                           : trainer_fail(t, status, "validation", failure);
}

bool trainer_validate(trainer *trainer, double *loss, failure *failure) {
    const int64_t windows = data_validation_windows(&trainer->data, trainer->config.seq);
    const int64_t batch = trainer->config.batch;
    int64_t batches = windows / batch + (windows % batch != 0);
    validator v;
    double sum = 0.0;
    *loss = NAN;
    if (windows == 0 || !trainer->computes)
        return true;
    batches = batches < VALIDATION_BATCHES ? batches : VALIDATION_BATCHES;
    bool fits = true;
    bool good = validator_open(&v, trainer, &fits, failure);
    for (int64_t i = 0; i < batches && good && fits; i++) {
        double one = 0.0;
        good = validate_batch(&v, trainer, windows * i / batches, &one, failure);
        sum += one;
    }
    validator_close(&v);
    if (good && fits)
        *loss = sum / (double)(batches * batch * trainer->config.seq);
    return good;
}

/* ---- The end --------------------------------------------------------------------------------- */

void trainer_close(trainer *trainer) {
    failure ignored;
    trace_close(&trainer->trace, &ignored);
    rp_executor_destroy(trainer->executor);
    rp_plan_destroy(trainer->plan);
    rp_cost_table_destroy(trainer->costs);
    rp_program_destroy(trainer->program);
    rp_tape_destroy(trainer->tape);
    rp_context_destroy(trainer->context);
    gpt2_free(&trainer->model);
    safetensors_close(&trainer->weights);
    data_free(&trainer->data);
    free(trainer->tokens);
    free(trainer->targets);
    free(trainer->steps);
    *trainer = (struct trainer){0};
}
