/* The climb: from a schedule with little held to ones with more, all amounts of room at once. At
 * one moment the replays that could be saved are items with a size and a gain; identical layers
 * make many equal ones, and what is left is a small knapsack. */
#include "knapsack.h"
#include "search.h"

enum { MOST_CORRECTED = 3 }; /* how often a choice that turns out too large is made smaller */

/* The replays of a schedule that could be saved, and what would have to be held for each. */
typedef struct offer {
    rp_item *items;
    size_t count, capacity;
    size_t *begin; /* of each item: its decisions in `drops`; one more at the end */
    size_t begin_capacity;
    rp_drop *drops;
    size_t drop_count, drop_capacity;
    uint32_t *names;
} offer;

static void clear_offer(rp_context *context, offer *o) {
    rp_free(context, o->items);
    rp_free(context, o->begin);
    rp_free(context, o->drops);
    rp_free(context, o->names);
}

static bool add_item(rp_context *context, offer *o, const rp_move *move) {
    if (o->count >= RP_NONE ||
        !rp_reserve(context, &o->items, &o->capacity, o->count + 1, sizeof *o->items) ||
        !rp_reserve(context, &o->begin, &o->begin_capacity, o->count + 2, sizeof *o->begin) ||
        !rp_reserve(context, &o->drops, &o->drop_capacity, o->drop_count + move->count,
                    sizeof *o->drops))
        return false;
    o->items[o->count] =
        (rp_item){move->bytes > 0 ? move->bytes : 0, move->cost, (uint32_t)o->count};
    o->begin[o->count++] = o->drop_count;
    for (size_t i = 0; i < move->count; i++)
        o->drops[o->drop_count++] = move->drops[i];
    o->begin[o->count] = o->drop_count;
    return true;
}

static rp_status list_items(rp_search *s, const rp_drops *drops, offer *o) {
    rp_context *const context = s->graph->context;
    rp_move move = {0};
    rp_status status = rp_survey_read(&s->survey, drops, INT64_MAX);
    s->effort -= 4 * (int64_t)s->x.run_count;
    for (uint32_t run = 0; run < s->x.run_count && status == RP_OK; run++) {
        bool fits = false;
        if (s->x.run_node[run] == s->x.run_stage[run])
            continue;
        status = rp_survey_hold(&s->survey, run, &move, &fits);
        if (status == RP_OK && fits && move.cost > 0 && !add_item(context, o, &move))
            status = rp_fail_memory(context, "the replays that could be saved");
    }
    rp_move_clear(context, &move);
    if (status != RP_OK)
        return status;
    o->names = rp_alloc(context, o->count, sizeof *o->names);
    return o->names == NULL ? rp_fail_memory(context, "the replays that could be saved") : RP_OK;
}

/* The best choice for this room, made smaller as long as the exact peak is above the target. */
static rp_status fill(rp_search *s, const rp_drops *from, const offer *o, const rp_knapsack *k,
                      int64_t room, int64_t target, rp_drops *drops) {
    rp_status status = RP_OK;
    for (int i = 0; i <= MOST_CORRECTED && room > 0 && status == RP_OK; i++) {
        bool within = false;
        const size_t count = rp_knapsack_take(k, room, o->names);
        status = rp_drops_copy(&s->x, from, drops);
        for (size_t c = 0; c < count && status == RP_OK; c++)
            for (size_t d = o->begin[o->names[c]]; d < o->begin[o->names[c] + 1]; d++)
                rp_drops_remove(&s->x, drops, o->drops[d].value, o->drops[d].stage);
        if (status == RP_OK)
            status = rp_search_expand(s, drops, RP_NO_LIMITS, &within);
        if (status != RP_OK || !within || s->x.peak <= target)
            break;
        room -= s->x.peak - target;
    }
    return status;
}

rp_status rp_search_climb(rp_search *s, const rp_drops *from, size_t top, size_t patience) {
    rp_context *const context = s->graph->context;
    offer o = {0};
    rp_knapsack k = {0};
    rp_drops drops = {0};
    bool within = false;
    rp_status status = rp_search_expand(s, from, RP_NO_LIMITS, &within);
    const int64_t peak = s->x.peak, room = rp_shelf_target(&s->shelf, top) - peak;
    if (status == RP_OK && within && room > 0)
        status = list_items(s, from, &o);
    if (status == RP_OK && o.count > 0) {
        status = rp_knapsack_create(context, o.items, o.count, room, &k);
        if (status == RP_OK)
            status = rp_drops_create(&s->x, &drops);
        for (size_t place = rp_shelf_find(&s->shelf, peak);
             place <= top && status == RP_OK && s->effort > 0; place++) {
            const int64_t target = rp_shelf_target(&s->shelf, place);
            status = fill(s, from, &o, &k, target - peak, target, &drops);
            if (status == RP_OK)
                status = rp_search_refill(s, &drops, target, patience);
        }
    }
    rp_drops_clear(context, &drops);
    rp_knapsack_clear(context, &k);
    clear_offer(context, &o);
    return status;
}
