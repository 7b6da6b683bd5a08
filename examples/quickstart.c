/* quickstart: one small GPT trained on a text under several budgets. Every row of the table ends
 * with the same loss and the same bits of gradient; only memory and time differ. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/trainer_report.h"

/* Keep-all, and what is left of it. */
static const char *const budgets[] = {"max", "60%", "40%", "30%"};
enum { ROWS = sizeof budgets / sizeof budgets[0] };

typedef struct row {
    int64_t budget, predicted_peak, measured_peak;
    double predicted_share, measured_share; /* of the step that is recompute, in percent */
    double step_ms, loss, validation_loss;
    uint64_t gradient_hash;
} row;

typedef struct session {
    train_options options;
    const char *json_path;
    bool quiet;
    row rows[ROWS];
    json_t *objects; /* a result object a row */
    report_target json;
    output_set outputs;
} session;

static bool parse(int argc, char **argv, session *s, bool *help, failure *failure) {
    /* Activations are most of the memory here: the minimum lies below 30 % of keep-all. */
    s->options = (train_options)TRAIN_OPTIONS;
    s->options.layers = 6;
    s->options.dim = 96;
    s->options.seq = 256;
    s->options.batch = 8;
    s->options.steps = 150;
    s->options.lr = 2e-3;
    s->options.validation = 0.05;
    const option_row rows[] = {
        {"data", OPTION_LIST, &s->options.data, "FILE", "text; repeatable (default: synthetic)"},
        {"steps", OPTION_COUNT, &s->options.steps, "N", "optimizer steps under each budget"},
        {"threads", OPTION_COUNT, &s->options.threads, "N", "of the kernels (default: all cores)"},
        {"json", OPTION_TEXT, &s->json_path, "FILE",
         "write the result objects; - is standard output"},
        {"quiet", OPTION_FLAG, &s->quiet, NULL, "print nothing but errors"},
    };
    const option_table table = {"quickstart", "Trains a small GPT under four budgets and compares.",
                                rows, sizeof rows / sizeof rows[0]};
    if (!options_parse(&table, argc, argv, help, failure))
        return false;
    if (*help) {
        options_print(&table);
        return true;
    }
    return train_options_complete(&s->options, failure);
}

static double share(double part, double whole) {
    return whole > 0.0 ? 100.0 * part / whole : 0.0;
}

static bool fill_row(const trainer *t, const training_summary *summary, row *row,
                     failure *failure) {
    time_summary step, replay;
    const rp_plan_report *r = &t->report;
    if (!trainer_step_times(t, false, &step, failure) ||
        !trainer_step_times(t, true, &replay, failure))
        return false;
    row->budget = r->budget_bytes;
    row->predicted_peak = r->peak_bytes;
    row->measured_peak = t->stats.measured_peak_bytes;
    row->predicted_share =
        share((double)r->recompute_cost_ns, (double)(r->total_cost_ns + r->recompute_cost_ns));
    row->measured_share = share(replay.median_ns, step.median_ns);
    row->step_ms = 1e-6 * step.median_ns;
    row->loss = t->steps[t->step_count - 1].loss;
    row->validation_loss = summary->validation_loss;
    row->gradient_hash = summary->gradient_hash;
    return true;
}

static bool train_row(session *s, size_t index, bool silent, failure *failure) {
    trainer trainer;
    training_summary summary = {0};
    progress progress;
    train_options options = s->options;
    size_parse(budgets[index], &options.budget);
    if (!silent)
        printf("training under a budget of %s of keep-all\n", index == 0 ? "100%" : budgets[index]);
    bool good = trainer_open(&trainer, &options, failure) && trainer_plan(&trainer, failure) &&
                trainer_start(&trainer, NULL, failure);
    if (good) {
        progress_begin(&progress, silent, true, options.steps,
                       options.accum * options.batch * options.seq);
        good = trainer_run(&trainer, &progress, failure);
        progress_end(&progress);
    }
    good = good && training_summarise(&trainer, &summary, failure);
    good = good && fill_row(&trainer, &summary, &s->rows[index], failure);
    if (good && json_array_append_new(s->objects, training_object(&trainer, &summary)) != 0)
        good = fail_memory(failure, "the result objects");
    training_summary_free(&summary);
    trainer_close(&trainer);
    return good;
}

static void print_table(const session *s) {
    printf("\n%-9s %11s %13s %13s %21s %10s %10s %11s  %s\n", "", "budget", "predicted", "measured",
           "recompute, % of step", "step", "last", "validation", "gradients of");
    printf("%-9s %11s %13s %13s %10s %10s %10s %10s %11s  %s\n", "budget", "MiB", "peak, MiB",
           "peak, MiB", "predicted", "measured", "ms", "loss", "loss", "the last step");
    for (size_t i = 0; i < ROWS; i++) {
        const row *r = &s->rows[i];
        printf("%-9s %11.2f %13.2f %13.2f %10.1f %10.1f %10.1f %10.4f %11.4f  %016" PRIx64 "\n",
               i == 0 ? "keep-all" : budgets[i], (double)r->budget / 1048576.0,
               (double)r->predicted_peak / 1048576.0, (double)r->measured_peak / 1048576.0,
               r->predicted_share, r->measured_share, r->step_ms, r->loss, r->validation_loss,
               r->gradient_hash);
    }
}

/* What the table promises. */
static bool check_rows(const session *s, failure *failure) {
    for (size_t i = 0; i < ROWS; i++) {
        const row *r = &s->rows[i], *first = &s->rows[0];
        if (r->measured_peak != r->predicted_peak || r->measured_peak > r->budget)
            return fail(failure, STATUS_OTHER,
                        "budget %s: the peak was %" PRId64 " bytes, predicted were %" PRId64
                        " of %" PRId64,
                        budgets[i], r->measured_peak, r->predicted_peak, r->budget);
        if (r->gradient_hash != first->gradient_hash || r->loss != first->loss)
            return fail(failure, STATUS_OTHER,
                        "budget %s: other gradients or another loss than keep-all", budgets[i]);
    }
    return true;
}

static bool compare(session *s, failure *failure) {
    const bool silent = s->quiet || (s->json_path != NULL && strcmp(s->json_path, "-") == 0);
    s->objects = json_array();
    if (s->objects == NULL)
        return fail_memory(failure, "the result objects");
    if (!report_open(&s->json, s->json_path, &s->outputs, failure))
        return false;
    for (size_t i = 0; i < ROWS; i++)
        if (!train_row(s, i, silent, failure))
            return false;
    if (!silent)
        print_table(s);
    json_t *objects = s->objects;
    s->objects = NULL;
    return report_write(&s->json, objects, failure) && report_flush_stdout(failure) &&
           check_rows(s, failure) && outputs_commit(&s->outputs, NULL, failure);
}

int main(int argc, char **argv) {
    session s = {0};
    failure failure = {STATUS_DONE, ""};
    bool help = false;
    if (parse(argc, argv, &s, &help, &failure)) {
        if (help)
            report_flush_stdout(&failure);
        else
            compare(&s, &failure);
    }
    if (failure.status != STATUS_DONE)
        fprintf(stderr, "quickstart: %s\n", failure.text);
    json_decref(s.objects);
    outputs_clear(&s.outputs);
    return failure.status;
}
