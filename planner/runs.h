/* Schedules as lists of runs: a list has every node once for its first run and again for each
 * replay, which may stand anywhere behind it. Whatever is put in, left out or moved, a list is a
 * valid schedule, because everything is dropped behind its last use before it is made again; so a
 * small change needs no repair, only figures.
 *
 * For graphs without views and without nodes that may run again only up to some stage: a list does
 * not tell what these need. */
#ifndef REPRISE_PLANNER_RUNS_H
#define REPRISE_PLANNER_RUNS_H

#include "expand.h"

/* Of a run in a list: it is a replay. */
#define RP_AGAIN (1u << 31)

/* From the run that makes a value to its last use. */
typedef struct rp_life {
    uint32_t value, begin, last; /* positions */
} rp_life;

/* Sums while a list is read from its end; what they are at the begin are its figures. */
typedef struct rp_reading {
    int64_t live;         /* bytes between two runs */
    int64_t over;         /* bytes above the level, summed over all runs */
    int64_t cost;         /* of replays */
    uint32_t differences; /* values that are pending in one of two lists only */
} rp_reading;

/* The list lies at the end of its buffer, because it is read from there: its positions go from
 * `begin` to `capacity` - 1. The draft of another one lies at the begin of its own. */
typedef struct rp_runs {
    const rp_expander *x;
    const rp_graph *graph;
    uint32_t capacity;
    int64_t level;  /* set by the caller: bytes beyond which a run is too large */
    int64_t effort; /* counted down by every run that is read */
    bool *again;    /* of each node: it may run again */

    uint32_t *list, begin;
    int64_t peak, over, cost;
    rp_life *lives; /* descending begin */
    uint32_t life_count;
    uint32_t *life_of;        /* of each position: the first of the lives that begin there */
    uint32_t *hot, hot_count; /* positions above the level, descending */
    uint32_t *replays;        /* positions, descending */
    uint32_t replay_count;
    uint32_t *latest, *earlier; /* of each node its last position, of each position the one before
                                   of the same node; or RP_NONE */

    uint32_t *draft, draft_count;

    /* while something is read */
    uint8_t *pending;      /* of each value: who uses it behind, before it is made again */
    uint32_t *end;         /* of each value: its last use */
    uint32_t *first;       /* of each node: the position that was read last */
    int64_t during;        /* bytes that are live while the run just read runs */
    rp_reading *read;      /* of each position of the list, once it has been read */
    uint8_t *snaps;        /* `pending` at some positions */
    uint32_t *mark, marks; /* of each node: for whoever needs a set */
} rp_runs;

/* False when memory is short; it is then to be cleared all the same. */
bool rp_runs_create(const rp_expander *expander, rp_runs *runs);
void rp_runs_clear(rp_runs *runs);

/* Whether lists tell all that the expander's graph asks for. */
bool rp_runs_apply(const rp_expander *expander);

/* The draft becomes what the schedule runs; false if that is too long. */
bool rp_runs_load(rp_runs *runs, const rp_schedule *schedule);

/* The draft becomes a copy of the list. */
void rp_runs_copy(rp_runs *runs);

/* Cost and bytes over the level of the draft. Reads what differs from the list, and as far beyond
 * as the difference can be felt. */
rp_reading rp_runs_measure(rp_runs *runs);

/* The list becomes the draft, without replays that nobody needs; with its figures. */
void rp_runs_take(rp_runs *runs);

/* False when memory is short. */
bool rp_runs_build(rp_runs *runs, rp_schedule *schedule);

static inline uint32_t rp_runs_node(const rp_runs *runs, uint32_t position) {
    return runs->list[position] & ~RP_AGAIN;
}

#endif
