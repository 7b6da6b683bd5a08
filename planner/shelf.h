/* The best decisions found so far, by the peak they need: one place for every step between the
 * smallest thinkable peak and that of keep-all. What the search goes on from. */
#ifndef REPRISE_PLANNER_SHELF_H
#define REPRISE_PLANNER_SHELF_H

#include "expand.h"

typedef struct rp_shelf {
    rp_context *context;
    int64_t low, step, high; /* place i is for peaks up to low + i * step, the last up to high */
    struct rp_shelf_place {
        int64_t peak, cost; /* cost INT64_MAX: empty */
        uint64_t runs;
        rp_drop *drops;
        size_t count, capacity;
    } * places;
    size_t count;
    uint64_t changes; /* how often a place got something better */
} rp_shelf;

/* `places` steps, or fewer where they would be shorter than a byte. What needs more than `high` has
 * no place. */
rp_status rp_shelf_create(rp_context *context, int64_t low, int64_t high, size_t places,
                          rp_shelf *shelf);
void rp_shelf_clear(rp_shelf *shelf);

static inline int64_t rp_shelf_target(const rp_shelf *shelf, size_t place) {
    return place + 1 < shelf->count ? shelf->low + (int64_t)place * shelf->step : shelf->high;
}

/* The first place whose target is at least `peak`, or the last one. */
size_t rp_shelf_find(const rp_shelf *shelf, int64_t peak);

/* Puts the decisions of the expansion just made where they belong if nothing there is as good. */
rp_status rp_shelf_offer(rp_shelf *shelf, const rp_expander *expander, const rp_drops *drops);

/* The cheapest place up to `place`; the count if all are empty. */
size_t rp_shelf_best(const rp_shelf *shelf, size_t place);

/* Its decisions. */
rp_status rp_shelf_load(const rp_shelf *shelf, size_t place, const rp_expander *expander,
                        rp_drops *drops);

#endif
