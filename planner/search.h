/* Search among decisions: from any set of drops down to a smaller peak, and back up to fewer
 * replays. Everything that is expanded on the way is offered to the family. */
#ifndef REPRISE_PLANNER_SEARCH_H
#define REPRISE_PLANNER_SEARCH_H

#include "shelf.h"
#include "strategy.h"
#include "survey.h"

typedef struct rp_search {
    const rp_graph *graph;
    rp_candidates *set;
    rp_expander x;
    rp_survey survey;
    rp_shelf shelf; /* empty until somebody creates it */
    int64_t effort; /* runs that may still be expanded; counted, never timed */
    uint64_t random;
    size_t most_taken; /* moves between one survey and the next; 0: no limit */
    uint32_t noise;    /* estimates of drops are off by up to this many percent, at random */

    struct rp_ranked *ranked; /* moves by their estimates */
    size_t ranked_capacity;
    struct rp_trial *trials;
    rp_price *prices; /* the lowest of what is ranked, ascending */
    size_t price_count;
    rp_drop *undo; /* what the move being tried has added or removed */
    size_t undo_count, undo_capacity;
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

/* Removes drops that the room up to `target` makes needless, what saves most per byte first.
 * `patience`: how many holds may fail in a row. */
rp_status rp_search_refill(rp_search *search, rp_drops *drops, int64_t target, size_t patience);

/* A step away from a good schedule, to find a better one from there: a few replays in a row are
 * saved although there is no room, or something that waits at the peak is dropped although there
 * is. */
rp_status rp_search_disturb(rp_search *search, rp_drops *drops);

/* From decisions up: for every place of the shelf above their own peak up to `top`, the best holds
 * that fit. The decisions stay as they are. */
rp_status rp_search_climb(rp_search *search, const rp_drops *drops, size_t top, size_t patience);

#endif
