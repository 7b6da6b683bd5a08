/* train_gpt: trains a GPT within a budget in bytes, with the same bits of gradient under every
 * plan. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/trainer_report.h"

typedef struct arguments {
    train_options train;
    const char *save_plan, *save_graph, *save_init, *save, *dump_grads, *trace, *json;
    const char *measure_costs, *measure_device;
    bool quiet;
} arguments;

/* Temporary names of the output files; NULL where none was asked for. */
typedef struct files {
    const char *save_plan, *save_graph, *save_init, *save, *dump_grads, *trace;
    const char *measure_costs, *measure_device;
    report_target json;
    output_set set;
} files;

static bool parse(int argc, char **argv, arguments *a, bool *help, failure *failure) {
    const option_row rows[] = {
        TRAIN_OPTION_ROWS(&a->train),
        {"save-plan", OPTION_TEXT, &a->save_plan, "PLAN.json", "write the plan"},
        {"save-graph", OPTION_TEXT, &a->save_graph, "GRAPH.json",
         "write the graph of one micro-batch"},
        {"save-init", OPTION_TEXT, &a->save_init, "FILE.safetensors",
         "write the weights before the first step"},
        {"save", OPTION_TEXT, &a->save, "FILE.safetensors",
         "write the weights after the last step"},
        {"dump-grads", OPTION_TEXT, &a->dump_grads, "FILE.safetensors",
         "write the gradients of the last step"},
        {"trace", OPTION_TEXT, &a->trace, "FILE.json",
         "write a timeline for chrome://tracing or Perfetto"},
        {"measure-costs", OPTION_TEXT, &a->measure_costs, "COSTS.json",
         "measure the nodes that this file lacks, write it, and plan by it"},
        {"measure-device", OPTION_TEXT, &a->measure_device, "DEVICE.json",
         "measure this machine and write its description"},
        {"json", OPTION_TEXT, &a->json, "FILE", "write the result object; - is standard output"},
        {"quiet", OPTION_FLAG, &a->quiet, NULL, "print nothing but errors"},
    };
    const option_table table = {"train_gpt", "Trains a GPT-2 within a budget of memory.", rows,
                                sizeof rows / sizeof rows[0]};
    if (!options_parse(&table, argc, argv, help, failure))
        return false;
    if (*help) {
        options_print(&table);
        return true;
    }
    if (!train_options_complete(&a->train, failure))
        return false;
    if (a->measure_costs != NULL && strcmp(a->train.costs, "model") != 0) {
        return fail(failure, STATUS_USAGE,
                    "--measure-costs: the plan cannot go by --costs %s as well", a->train.costs);
    }
    const bool computes = train_options_backend(&a->train) != RP_BACKEND_NULL;
    if (!computes && (a->measure_costs != NULL || a->measure_device != NULL)) {
        return fail(failure, STATUS_USAGE, "%s: the null backend runs nothing to measure",
                    a->measure_costs != NULL ? "--measure-costs" : "--measure-device");
    }
    const char *data_file = a->save_init != NULL ? "--save-init"
                            : a->save != NULL    ? "--save"
                                                 : "--dump-grads";
    return computes || (a->save_init == NULL && a->save == NULL && a->dump_grads == NULL) ||
           fail(failure, STATUS_USAGE, "%s: the null backend has no data to write", data_file);
}

/* That every output can be written is known before anything is computed. */
static bool open_files(const arguments *a, files *f, failure *failure) {
    const struct {
        const char *option, *path, **temporary;
    } rows[] = {
        {"--save-plan", a->save_plan, &f->save_plan},
        {"--save-graph", a->save_graph, &f->save_graph},
        {"--save-init", a->save_init, &f->save_init},
        {"--save", a->save, &f->save},
        {"--dump-grads", a->dump_grads, &f->dump_grads},
        {"--trace", a->trace, &f->trace},
        {"--measure-costs", a->measure_costs, &f->measure_costs},
        {"--measure-device", a->measure_device, &f->measure_device},
    };
    /* Not --load: a training that goes on may save where it began. */
    for (size_t i = 0; i < a->train.data.count; i++)
        outputs_spare(&f->set, "--data", a->train.data.items[i]);
    if (a->train.plan != NULL)
        outputs_spare(&f->set, "--plan", a->train.plan);
    if (strcmp(a->train.costs, "model") != 0)
        outputs_spare(&f->set, "--costs", a->train.costs);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].path != NULL) {
            *rows[i].temporary = outputs_add(&f->set, rows[i].option, rows[i].path, failure);
            if (*rows[i].temporary == NULL)
                return false;
        }
    }
    return report_open(&f->json, a->json, &f->set, failure);
}

static bool save_graph_and_plan(const trainer *t, const files *f, failure *failure) {
    rp_status status = f->save_graph != NULL ? rp_graph_save(t->graph, f->save_graph) : RP_OK;
    const char *option = "--save-graph";
    if (status == RP_OK && f->save_plan != NULL) {
        option = "--save-plan";
        status = rp_plan_save(t->plan, f->save_plan);
    }
    if (status == RP_IO_ERROR)
        return fail(failure, STATUS_OTHER, "%s: %s", option, rp_context_message(t->context));
    return status == RP_OK || trainer_fail(t, status, option, failure);
}

/* After STATUS_INFEASIBLE: the result object with the limits, which is the one file that such an
 * end leaves. */
static void tell_limits(const trainer *t, files *f, failure *failure) {
    struct failure second;
    if (!report_write(&f->json, training_object(t, NULL), &second) ||
        !outputs_commit(&f->set, "--json", &second))
        *failure = second;
}

static double mib(int64_t bytes) {
    return (double)bytes / 1048576.0;
}

static void print_plan(const trainer *t) {
    const rp_plan_report *r = &t->report;
    printf("%" PRId64 " parameters, keep-all %.2f MiB, minimum %.2f MiB\n",
           trainer_parameter_elements(t), mib(r->keep_all_peak_bytes), mib(r->min_feasible_bytes));
    if (r->budget_bytes != RP_UNLIMITED)
        printf("budget %.2f MiB, ", mib(r->budget_bytes));
    printf("plan %s: peak %.2f MiB, %" PRIu64
           " nodes run again, %.2f %% of the cost of all nodes\n",
           rp_plan_strategy(t->plan), mib(r->peak_bytes), r->recompute_nodes,
           r->total_cost_ns > 0 ? 100.0 * (double)r->recompute_cost_ns / (double)r->total_cost_ns
                                : 0.0);
    fflush(stdout);
}

static bool print_result(const trainer *t, const training_summary *summary, failure *failure) {
    time_summary step, replay;
    if (!trainer_step_times(t, false, &step, failure) ||
        !trainer_step_times(t, true, &replay, failure))
        return false;
    printf("%.1f ms a step, %.1f ms of it in replays; peak %.2f MiB measured, %.2f MiB predicted\n",
           1e-6 * step.median_ns, 1e-6 * replay.median_ns, mib(t->stats.measured_peak_bytes),
           mib(t->report.peak_bytes));
    if (t->computes) {
        printf("gradients %016" PRIx64 ", parameters %016" PRIx64 "\n", summary->gradient_hash,
               summary->parameter_hash);
    }
    if (!isnan(summary->validation_loss))
        printf("validation loss %.6f\n", summary->validation_loss);
    return true;
}

/* The weights and gradients that were asked for, then what the validation overwrites, then the
 * validation. */
static bool finish(trainer *t, const files *f, training_summary *summary, failure *failure) {
    if (f->save != NULL && !trainer_save_parameters(t, f->save, "--save", failure))
        return false;
    if (f->dump_grads != NULL && !trainer_save_gradients(t, f->dump_grads, "--dump-grads", failure))
        return false;
    return training_summarise(t, summary, failure);
}

static bool train(const arguments *a, trainer *t, files *f, failure *failure) {
    const bool silent = a->quiet || (f->json.path != NULL && f->json.temporary == NULL);
    progress progress;
    training_summary summary = {0};
    if (!trainer_open(t, &a->train, failure) ||
        !trainer_set_costs(t, a->measure_costs, f->measure_costs, failure) ||
        !trainer_measure_device(t, f->measure_device, failure))
        return false;
    if (!trainer_plan(t, failure)) {
        if (failure->status == STATUS_INFEASIBLE)
            tell_limits(t, f, failure);
        return false;
    }
    if (!save_graph_and_plan(t, f, failure))
        return false;
    if (!silent)
        print_plan(t);
    if (!trainer_start(t, f->trace, failure) ||
        (f->save_init != NULL && !trainer_save_parameters(t, f->save_init, "--save-init", failure)))
        return false;
    progress_begin(&progress, silent, t->computes, a->train.steps,
                   a->train.accum * a->train.batch * a->train.seq);
    const bool trained = trainer_run(t, &progress, failure);
    progress_end(&progress);
    bool good = trained && finish(t, f, &summary, failure);
    good = good && (silent || print_result(t, &summary, failure));
    good = good && report_write(&f->json, training_object(t, &summary), failure);
    training_summary_free(&summary);
    return good && report_flush_stdout(failure) && outputs_commit(&f->set, NULL, failure);
}

int main(int argc, char **argv) {
    arguments arguments = {.train = TRAIN_OPTIONS};
    files files = {0};
    trainer trainer = {0};
    failure failure = {STATUS_DONE, ""};
    bool help = false;
    if (parse(argc, argv, &arguments, &help, &failure)) {
        if (help)
            report_flush_stdout(&failure);
        else if (open_files(&arguments, &files, &failure))
            train(&arguments, &trainer, &files, &failure);
    }
    if (failure.status != STATUS_DONE)
        fprintf(stderr, "train_gpt: %s\n", failure.text);
    trainer_close(&trainer);
    outputs_clear(&files.set);
    return failure.status;
}
