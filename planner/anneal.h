/* Annealing (Kirkpatrick et al. 1983) of schedules as lists of runs: small changes stay if they
 * save, and now and then if they do not, less and less. Finds what drops and their expansion do not
 * know: replays long before their readers, while their inputs are still there; and it goes through
 * schedules that are too large, at a price. For small graphs: a change costs a look at part of the
 * list. */
#ifndef REPRISE_PLANNER_ANNEAL_H
#define REPRISE_PLANNER_ANNEAL_H

#include "bound.h"
#include "expand.h"
#include "strategy.h"

/* Begins with the members of the family, for budgets from its lowest peak, or a little below, to
 * its highest, and offers what it finds. `effort`: runs that may be looked at. `random` decides
 * what is tried. Nothing happens where lists of runs do not tell all (runs.h). */
rp_status rp_anneal(const rp_expander *expander, const rp_bound *bound, int64_t effort,
                    uint64_t random, rp_candidates *set);

#endif
