/* Which items to take for every capacity at once. */
#ifndef REPRISE_PLANNER_KNAPSACK_H
#define REPRISE_PLANNER_KNAPSACK_H

#include <reprise/extend.h>

typedef struct rp_item {
    int64_t bytes, gain; /* both at least 0 */
    uint32_t name;       /* the caller's; of equal items those with smaller ones are taken first */
} rp_item;

typedef struct rp_knapsack {
    rp_item *items; /* a copy, equal ones side by side */
    size_t item_count;
    struct rp_knapsack_pack {
        size_t first, count; /* items taken together */
    } * packs;
    size_t pack_count, pack_capacity;
    struct rp_knapsack_point {
        int64_t bytes, gain;
        uint32_t parent, pack; /* RP_KNAPSACK_NONE: nothing taken */
    } * points;
    size_t point_count, point_capacity;
    size_t front; /* the points from here on: rising bytes and gain, the best of all subsets */
} rp_knapsack;

#define RP_KNAPSACK_NONE UINT32_MAX

/* All subsets up to `capacity` bytes, thinned evenly where there are too many to keep. Dynamic
 * programming over undominated (bytes, gain); exact as long as nothing had to be thinned. */
rp_status rp_knapsack_create(rp_context *context, const rp_item *items, size_t count,
                             int64_t capacity, rp_knapsack *knapsack);
void rp_knapsack_clear(rp_context *context, rp_knapsack *knapsack);

/* The names of the best subset within `capacity`; `names` has room for all. Returns how many. */
size_t rp_knapsack_take(const rp_knapsack *knapsack, int64_t capacity, uint32_t *names);

#endif
