/* A plan run without memory and without kernels, from the public description alone: every run binds
 * its node's inputs, outputs and workspace to their places, and the walk notes how far the places
 * reach. */
#ifndef EXAMPLES_WALK_H
#define EXAMPLES_WALK_H

#include "failure.h"

typedef struct walk_report {
    int64_t measured_peak_bytes;  /* persistent storage plus the highest end of any place bound to a
                                     run */
    int64_t transient_peak_bytes; /* most bytes live at one moment of what is neither persistent nor
                                     a gradient: an output that a backward node writes */
    int64_t kept_bytes; /* of those, what is live when the first backward node begins to run */
    uint64_t runs, replays;
} walk_report;

bool walk_plan(const rp_plan *plan, walk_report *report, failure *failure);

#endif
