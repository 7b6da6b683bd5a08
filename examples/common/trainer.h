/* A training from flags to figures: model, plan, executor, steps. The calls stand in the order in
 * which they are made; after a failure only trainer_close may follow, except that a trainer whose
 * plan was infeasible still has its limits. */
#ifndef EXAMPLES_TRAINER_H
#define EXAMPLES_TRAINER_H

#include "data.h"
#include "gpt2.h"
#include "progress.h"
#include "safetensors.h"
#include "trace.h"
#include "train_options.h"
#include "walk.h"

/* One step of the training. */
typedef struct step_record {
    double loss;
    int64_t step_ns, replay_ns;
} step_record;

typedef struct trainer {
    const train_options *options;
    rp_backend_kind backend;
    bool computes;         /* the backend has memory and kernels: not null */
    char device_name[256]; /* of what it runs on */

    data data;
    safetensors weights; /* --load; without a file if there is none */
    rp_context *context;
    rp_tape *tape;
    gpt2_config config;
    gpt2 model;
    rp_program *program;
    const rp_graph *graph;
    rp_cost_table *costs; /* NULL: the model's own */

    rp_plan *plan;
    rp_plan_report report; /* as far as it is known, also of an infeasible budget */
    walk_report walk;

    rp_executor *executor;
    trace trace;
    int32_t *tokens, *targets; /* one micro-batch */
    bool times_replays;
    step_record *steps;
    size_t step_count, step_capacity;
    rp_executor_stats stats; /* of the last step */
} trainer;

/* Reads the data and the header of --load, records and differentiates the model. */
bool trainer_open(trainer *trainer, const train_options *options, failure *failure);

/* The costs of --costs, or measured ones: `known` is a file of those, which is read if it is there,
 * `written` gets them and what was missing. NULL for both: none. */
bool trainer_set_costs(trainer *trainer, const char *known, const char *written, failure *failure);

/* Writes this machine as a description of a device. */
bool trainer_measure_device(const trainer *trainer, const char *path, failure *failure);

/* Makes or reads the plan. STATUS_INFEASIBLE: trainer->report has the limits. */
bool trainer_plan(trainer *trainer, failure *failure);

/* Makes the executor and gives the parameters their initial values. `trace` may be NULL. */
bool trainer_start(trainer *trainer, const char *trace, failure *failure);

/* All steps. The gradients of the last one stay readable. */
bool trainer_run(trainer *trainer, progress *progress, failure *failure);

/* The mean loss of the held-out tokens, NaN when there are none or no plan for it fits the arena;
 * at most 4 micro-batches, spread evenly. The gradients are gone afterwards. */
bool trainer_validate(trainer *trainer, double *loss, failure *failure);

/* A bit for bit hash of all gradients, or of all parameters (in bf16 of their masters), in
 * parameter order; 0 on the null backend. `norms`: Euclidean norms of the gradients, by parameter
 * of the program. */
bool trainer_hash_gradients(const trainer *trainer, double *norms, uint64_t *hash,
                            failure *failure);
bool trainer_hash_parameters(const trainer *trainer, uint64_t *hash, failure *failure);

/* Writes parameters, in bf16 their masters, as f32, or gradients in the type of the parameters;
 * `option` is for the message. */
bool trainer_save_parameters(const trainer *trainer, const char *path, const char *option,
                             failure *failure);
bool trainer_save_gradients(const trainer *trainer, const char *path, const char *option,
                            failure *failure);

/* Whatever was made. */
void trainer_close(trainer *trainer);

/* What the library says about `status`, in this trainer's context. */
bool trainer_fail(const trainer *trainer, rp_status status, const char *what, failure *failure);

/* The name of a node of the graph, "" for none. */
const char *trainer_node_name(const trainer *trainer, uint32_t node);

/* Elements of all parameters. */
int64_t trainer_parameter_elements(const trainer *trainer);

/* The first two steps, fewer when there are not three, do not count in the times. */
size_t trainer_warmup_steps(const trainer *trainer);

/* Median, least and greatest of a step's time, or median of the time in replays, in ns; 0 without
 * steps. */
typedef struct time_summary {
    double median_ns;
    int64_t least_ns, greatest_ns;
} time_summary;
bool trainer_step_times(const trainer *trainer, bool of_replays, time_summary *summary,
                        failure *failure);

#endif
