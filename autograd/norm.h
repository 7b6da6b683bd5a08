/* The norm of the gradients as an executor and its optimizers use it. */
#ifndef REPRISE_AUTOGRAD_NORM_H
#define REPRISE_AUTOGRAD_NORM_H

#include "executor.h"

/* Makes room for the sums; the arena must be there. */
rp_status rp_executor_make_norm(rp_executor *executor);

/* What the gradients must be multiplied by so that their norm is at most `most`: `*scale` is where
 * kernels read it, NULL for 1 (`most` is 0, or nothing runs). Nobody waits for it. */
rp_status rp_executor_clip(const rp_executor *executor, float most, const float **scale);

/* Whether gradients can be looked at and parameters changed. */
rp_status rp_executor_check_update(const rp_executor *executor, const char *call);

#endif
