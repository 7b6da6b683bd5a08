/* The result object of a training: `train_gpt --json`. */
#ifndef EXAMPLES_TRAINER_REPORT_H
#define EXAMPLES_TRAINER_REPORT_H

#include "report.h"
#include "trainer.h"

/* What is gone when validation has run, and its result. */
typedef struct training_summary {
    double validation_loss; /* NaN: none */
    uint64_t gradient_hash, parameter_hash;
    double *gradient_norms; /* by parameter of the program */
} training_summary;

/* Hashes and norms, then the validation. False leaves nothing to free. */
bool training_summarise(trainer *trainer, training_summary *summary, failure *failure);
void training_summary_free(training_summary *summary);

/* A new reference, NULL when memory is short. `summary` NULL: the budget was infeasible, nothing
 * has run. */
json_t *training_object(const trainer *trainer, const training_summary *summary);

#endif
