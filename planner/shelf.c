/* The best decisions found so far. */
#include "shelf.h"

rp_status rp_shelf_create(rp_context *context, int64_t low, int64_t high, size_t places,
                          rp_shelf *shelf) {
    if ((int64_t)places > high - low)
        places = high > low ? (size_t)(high - low) : 1;
    const int64_t step = (high - low) / (int64_t)places;
    *shelf = (rp_shelf){.context = context,
                        .low = low,
                        .high = high,
                        .step = step > 0 ? step : 1,
                        .places = rp_alloc(context, places + 1, sizeof *shelf->places),
                        .count = places + 1};
    if (shelf->places == NULL)
        return rp_fail_memory(context, "the schedules found so far");
    for (size_t i = 0; i < shelf->count; i++)
        shelf->places[i].cost = INT64_MAX;
    return RP_OK;
}

void rp_shelf_clear(rp_shelf *shelf) {
    if (shelf->places == NULL)
        return;
    for (size_t i = 0; i < shelf->count; i++)
        rp_free(shelf->context, shelf->places[i].drops);
    rp_free(shelf->context, shelf->places);
    *shelf = (rp_shelf){0};
}

size_t rp_shelf_find(const rp_shelf *shelf, int64_t peak) {
    if (peak <= shelf->low)
        return 0;
    const int64_t place = (peak - shelf->low - 1) / shelf->step + 1;
    return place < (int64_t)shelf->count ? (size_t)place : shelf->count - 1;
}

static bool is_better(const rp_expander *x, const struct rp_shelf_place *place) {
    if (x->cost != place->cost)
        return x->cost < place->cost;
    return x->run_count != place->runs ? x->run_count < place->runs : x->peak < place->peak;
}

rp_status rp_shelf_offer(rp_shelf *shelf, const rp_expander *x, const rp_drops *drops) {
    if (shelf->places == NULL || x->peak > shelf->high)
        return RP_OK;
    struct rp_shelf_place *place = &shelf->places[rp_shelf_find(shelf, x->peak)];
    if (!is_better(x, place))
        return RP_OK;
    if (!rp_reserve(shelf->context, &place->drops, &place->capacity, drops->size,
                    sizeof *place->drops))
        return rp_fail_memory(shelf->context, "the schedules found so far");
    shelf->changes++;
    place->count = 0;
    for (uint32_t v = 0; v < x->graph->value_count && place->count < drops->size; v++)
        for (uint32_t e = drops->head[v]; e != RP_NONE; e = drops->entries[e].next)
            place->drops[place->count++] = (rp_drop){v, drops->entries[e].stage};
    place->peak = x->peak;
    place->cost = x->cost;
    place->runs = x->run_count;
    return RP_OK;
}

size_t rp_shelf_best(const rp_shelf *shelf, size_t place) {
    size_t best = shelf->count;
    for (size_t i = 0; i <= place && i < shelf->count; i++)
        if (shelf->places[i].cost < INT64_MAX &&
            (best == shelf->count || shelf->places[i].cost < shelf->places[best].cost))
            best = i;
    return best;
}

rp_status rp_shelf_load(const rp_shelf *shelf, size_t place, const rp_expander *expander,
                        rp_drops *drops) {
    rp_status status = rp_drops_reset(expander, drops);
    const struct rp_shelf_place *from = &shelf->places[place];
    for (size_t i = 0; i < from->count && status == RP_OK; i++)
        status = rp_drops_add(expander, drops, from->drops[i].value, from->drops[i].stage);
    return status;
}
