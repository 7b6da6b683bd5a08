/* What a person sees while a training runs: on a terminal one line that changes, else one line a
 * step. */
#ifndef EXAMPLES_PROGRESS_H
#define EXAMPLES_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    bool silent, terminal;
    bool has_loss; /* the backend computes */
    int64_t steps, tokens_per_step;
    int64_t begun_ns, shown_ns;
} progress;

void progress_begin(progress *progress, bool silent, bool has_loss, int64_t steps,
                    int64_t tokens_per_step);

/* Step `step` (from 0) is done and took `step_ns`. */
void progress_step(progress *progress, int64_t step, double loss, int64_t step_ns);

/* Ends the line on a terminal. */
void progress_end(progress *progress);

#endif
