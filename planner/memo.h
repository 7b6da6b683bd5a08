/* What planning has found out about a graph, kept with it until its costs change. */
#ifndef REPRISE_PLANNER_MEMO_H
#define REPRISE_PLANNER_MEMO_H

#include "bound.h"
#include "family.h"

/* What every plan needs and the graph alone decides: its bounds, the family of auto and the minimum
 * of that. It is kept with the graph: a second plan costs a fraction of the first. `milliseconds`
 * is what making family and minimum took, now or then. */
typedef struct rp_memo {
    rp_bound bound;
    bool is_bounded;
    rp_family family;
    size_t minimum; /* the cheapest member with the smallest arena */
    int64_t minimum_bytes;
    double milliseconds;
} rp_memo;

/* An empty one, or NULL. */
rp_memo *rp_memo_create(const rp_graph *graph);
void rp_memo_destroy(const rp_graph *graph);

/* Fills the graph's memo unless it is filled. */
rp_status rp_memo_open(const rp_graph *graph, rp_memo **memo);

/* The graph's bounds, made when they are first asked for. */
rp_status rp_memo_bound(const rp_graph *graph, const rp_bound **bound);

/* Lets the graph forget what is too large to keep. */
void rp_memo_close(const rp_graph *graph);

#endif
