/* What can be read off an expansion without expanding again: who uses what when, and what it would
 * bring to drop one more value or to hold one more. The figures are estimates for choosing among
 * moves; the expansion has the last word. */
#ifndef REPRISE_PLANNER_SURVEY_H
#define REPRISE_PLANNER_SURVEY_H

#include "expand.h"

typedef struct rp_survey {
    rp_expander *x;
    const rp_drops *drops;
    int64_t level;

    uint32_t *use_begin, *uses; /* of each made instance: the runs that read it, ascending */
    uint32_t *earlier,
        *newest;   /* the instance of the same value before each; the last of a value */
    uint32_t *hot; /* runs above the level, ascending */
    size_t hot_count;
    int64_t *hot_over; /* bytes above the level, summed over the hot runs before each */

    uint32_t at; /* the run whose waits are listed */
    rp_wait *waits;
    size_t wait_count;
    uint32_t *others; /* of each storage: values that are live at `at` without waiting */

    /* of the move being looked at */
    uint32_t mark, *node_mark, *run_mark; /* the move that came by last */
    uint32_t *list;                       /* its nodes or runs */
    size_t list_count;

    size_t use_capacity, begin_capacity, earlier_capacity, hot_capacity, over_capacity;
    size_t other_capacity;
    size_t run_mark_capacity, list_capacity;
} rp_survey;

rp_status rp_survey_create(rp_expander *expander, rp_survey *survey);
void rp_survey_clear(rp_survey *survey);

/* Reads the last expansion, which was of these decisions; hot is what lies above `level`. */
rp_status rp_survey_read(rp_survey *survey, const rp_drops *drops, int64_t level);

/* Lists who waits at a run. */
rp_status rp_survey_list_waits(rp_survey *survey, uint32_t at);

/* A change of the decisions and what it is expected to bring. */
typedef struct rp_move {
    rp_drop *drops; /* to be added, or, for a hold, to be removed */
    size_t count, capacity;
    int64_t cost;  /* more recompute; of a hold: less */
    int64_t bytes; /* less above the level, summed over the hot runs; of a hold: more at the peak */
    int64_t limit; /* a drop that costs more is given up */
    int matters;   /* of a drop: parts of its kind that would have made, or made, a difference */
} rp_move;

void rp_move_clear(rp_context *context, rp_move *move);

/* How a drop treats what its replay touches. */
typedef enum rp_drop_kind {
    RP_DROP_EXTEND = 0,    /* inputs that had ended are carried on */
    RP_DROP_CLOSURE = 1,   /* they are run again too, unless they are small beside the value */
    RP_DROP_TRANSIENT = 2, /* a flag: what the replay makes beside the value ends at once */
    RP_DROP_KINDS = 4
} rp_drop_kind;

/* A price, to compare moves with: cost for bytes, of which there are more than 0. */
typedef struct rp_price {
    int64_t cost, bytes;
} rp_price;

/* The value of a wait is dropped there, and with it all others on its storage. `*fits`: it can be,
 * and something is won. It is given up, and does not fit, where it is bound to be several times as
 * dear as `most`, which may be NULL: what a drop makes run again can be most of the graph. */
rp_status rp_survey_drop(rp_survey *survey, size_t wait, int kind, const rp_price *most,
                         rp_move *move, bool *fits);

/* A run that is not a first run is saved, by holding what it makes from the last use before on.
 * `*fits`: nothing fixed by a mark stands against it. */
rp_status rp_survey_hold(rp_survey *survey, uint32_t run, rp_move *move, bool *fits);

#endif
