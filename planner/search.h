/* Search among decisions: from any set of drops down to a smaller peak, and back up to fewer
 * replays. Everything that is expanded on the way is offered to the family. */
#ifndef REPRISE_PLANNER_SEARCH_H
#define REPRISE_PLANNER_SEARCH_H

#include "strategy.h"
#include "survey.h"

typedef struct rp_search {
    const rp_graph *graph;
    rp_candidates *set;
    rp_expander x;
    rp_survey survey;
    int64_t effort; /* runs that may still be expanded; counted, never timed */

    struct rp_ranked *ranked; /* moves by their estimates */
    size_t ranked_capacity;
    struct rp_trial *trials;
    rp_drop *undo; /* what the move being tried has added or removed */
    size_t undo_count, undo_capacity;
    rp_schedule schedule;
} rp_search;

rp_status rp_search_create(const rp_graph *graph, rp_candidates *set, int64_t effort,
                           rp_search *search);
void rp_search_clear(rp_search *search);

/* Expands the decisions and offers them. `*within`: the expander holds a result within the
 * limits. */
rp_status rp_search_expand(rp_search *search, const rp_drops *drops, rp_limits limits,
                           bool *within);

/* Adds drops until the peak is at most `target`: the cheapest first for what they take off the
 * runs above it. `*reached`: it is; if not, the drops are those of the lowest excess found. */
rp_status rp_search_descend(rp_search *search, rp_drops *drops, int64_t target, bool *reached);

/* Removes drops that the room up to `target` makes needless, what saves most per byte first. */
rp_status rp_search_refill(rp_search *search, rp_drops *drops, int64_t target);

/* From decisions up: for peaks of `target` = their own peak, and then every `step` up to `top`, the
 * best holds that fit, offered each. The decisions stay as they are. */
rp_status rp_search_climb(rp_search *search, const rp_drops *drops, int64_t step, int64_t top);

#endif
