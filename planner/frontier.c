/* The search over all budgets at once: minimum cuts at the moment of the keep-all peak give the
 * choices that are right at that moment; between them the search climbs, and from every place of
 * the shelf it goes down and up to the next ones, again and again as long as there is effort. */
#include "frontier.h"
#include "memo.h"
#include "moment.h"

enum {
    PLACES = 128,         /* of the shelf, on graphs of usual size */
    MIN_PLACES = 8,       /* on the largest */
    MOST_CHOICES = 64,    /* of a hull */
    MOST_NODES = 300000,  /* on more than that the rules have to do */
    RUNS_PER_PLACE = 110, /* effort for one place, in runs of every node */
    STRIDES = 24,         /* from the top to the bottom of the shelf */
    MOST_MISSED = 8,      /* attempts to get below the lowest place */
    QUIET_ROUNDS = 4,     /* over all places without an improvement before the search ends */
    SMALL_NODES = 400,    /* of graphs that are worth more than half a second, */
    FAR = 200,            /* if the bound is further away than this part of all costs: */
    FAR_EFFORT = 4,       /* as many times the effort */
    CLOSE_ENOUGH = 1000,  /* parts of all costs between a bound and what is worth improving */
    NOISE = 40,           /* percent, of the estimates while improving */
    TINY_NODES = 128,     /* of graphs that descend in short steps only */
    FEW_TAKEN = 3         /* moves by one survey, every second time: others do well without limit */
};

/* The effort for each node up to so many: small graphs are worth half a second, and beyond that it
 * grows where there is something to find and the time allows it. */
static const struct {
    size_t up_to;
    int64_t per_node;
} efforts[] = {{333, 90000}, {2000, 0}, {4000, 14000}, {10000, 0}, {SIZE_MAX, 2500}};

int64_t rp_frontier_effort(const rp_graph *graph) {
    int64_t effort = 0;
    size_t from = 0;
    for (size_t i = 0; from < graph->node_count; from = efforts[i++].up_to) {
        const size_t to =
            graph->node_count < efforts[i].up_to ? graph->node_count : efforts[i].up_to;
        effort += efforts[i].per_node * (int64_t)(to - from);
    }
    return effort;
}

typedef struct frontier {
    rp_search *search;
    rp_drops drops, refilled;
    uint32_t stage;    /* of the keep-all peak */
    rp_hull hull;      /* at that moment */
    int64_t *peaks;    /* of its choices */
    size_t patience;   /* of refills */
    size_t most_taken; /* moves by one survey */
    size_t stride;     /* places from target to target while going down: short steps choose badly */
} frontier;

rp_status rp_frontier_begin(rp_search *s) {
    rp_drops drops = {0};
    bool within = false;
    const rp_bound *bound = NULL;
    rp_status status = rp_memo_bound(s->graph, &bound);
    if (status == RP_OK)
        status = rp_drops_create(&s->x, &drops);
    if (status == RP_OK)
        status = rp_search_expand(s, &drops, RP_NO_LIMITS, &within);
    if (status == RP_OK && within) {
        const int64_t runs = RUNS_PER_PLACE * ((int64_t)s->graph->node_count + 1);
        const int64_t affordable = s->effort / runs;
        const size_t places = affordable > PLACES       ? PLACES
                              : affordable > MIN_PLACES ? (size_t)affordable
                                                        : MIN_PLACES;
        status =
            rp_shelf_create(s->graph->context, bound->floor_bytes, s->x.peak, places, &s->shelf);
    }
    if (status == RP_OK && within)
        status = rp_shelf_offer(&s->shelf, &s->x, &drops);
    rp_drops_clear(s->graph->context, &drops);
    return status;
}

/* ---- Cuts ----------------------------------------------------------------------------------- */

static rp_status load_choice(frontier *f, size_t i, bool *within) {
    rp_search *s = f->search;
    const rp_choice *choice = &f->hull.choices[i];
    rp_status status = rp_drops_reset(&s->x, &f->drops);
    for (size_t v = 0; v < choice->count && status == RP_OK; v++)
        status = rp_drops_add(&s->x, &f->drops, choice->values[v], f->stage - 1);
    return status == RP_OK ? rp_search_expand(s, &f->drops, RP_NO_LIMITS, within) : status;
}

/* From every choice up to where the one before it stands. Choices whose replays pile up to more
 * than that are marked by a peak of INT64_MAX. */
static rp_status climb_from_cuts(frontier *f) {
    rp_search *s = f->search;
    int64_t *const peaks = f->peaks;
    size_t top = s->shelf.count - 1;
    rp_status status = RP_OK;
    for (size_t i = 0; i < f->hull.count && status == RP_OK && s->effort > 0; i++) {
        bool within = false;
        status = load_choice(f, i, &within);
        if (status != RP_OK || !within)
            continue;
        const size_t place = rp_shelf_find(&s->shelf, s->x.peak);
        if (place >= top && i > 0)
            continue;
        peaks[i] = s->x.peak;
        status = rp_search_climb(s, &f->drops, top, f->patience);
        top = place;
    }
    return status;
}

/* From choice i down to the target of place `bottom`, and refilled at every place on the way. */
static rp_status descend_from_cut(frontier *f, size_t i, size_t bottom) {
    rp_search *s = f->search;
    bool reached = false;
    rp_status status = load_choice(f, i, &reached);
    for (size_t place = rp_shelf_find(&s->shelf, f->peaks[i]);
         place > bottom && reached && status == RP_OK && s->effort > 0;) {
        place = place > bottom + f->stride ? place - f->stride : bottom;
        const int64_t target = rp_shelf_target(&s->shelf, place);
        status = rp_search_descend(s, &f->drops, target, &reached);
        if (status == RP_OK && reached)
            status = rp_drops_copy(&s->x, &f->drops, &f->refilled);
        if (status == RP_OK && reached)
            status = rp_search_refill(s, &f->refilled, target, f->patience);
    }
    return status;
}

/* The next choice behind i that stands below it; the count if there is none. */
static size_t find_next_cut(const frontier *f, size_t i) {
    size_t next = i + 1;
    while (next < f->hull.count && f->peaks[next] == INT64_MAX)
        next++;
    return next;
}

/* From the last choice as far down as it goes. */
static rp_status descend_from_last_cut(frontier *f) {
    for (size_t i = f->hull.count; i-- > 0;)
        if (f->peaks[i] < INT64_MAX)
            return descend_from_cut(f, i, 0);
    return RP_OK;
}

/* From every other choice down to where the next one stands. */
static rp_status descend_from_cuts(frontier *f) {
    rp_search *s = f->search;
    rp_status status = RP_OK;
    for (size_t i = 0; i < f->hull.count && status == RP_OK && s->effort > 0; i++) {
        const size_t next = find_next_cut(f, i);
        if (f->peaks[i] < INT64_MAX && next < f->hull.count)
            status = descend_from_cut(f, i, rp_shelf_find(&s->shelf, f->peaks[next]));
    }
    return status;
}

/* ---- From place to place -------------------------------------------------------------------- */

/* From the best at or below `from` to the target of `place`, and refilled there. */
static rp_status go_to(frontier *f, size_t from, size_t place, bool *reached) {
    rp_search *s = f->search;
    const int64_t target = rp_shelf_target(&s->shelf, place);
    const size_t best = rp_shelf_best(&s->shelf, from);
    *reached = false;
    if (best == s->shelf.count)
        return RP_OK;
    rp_status status = rp_shelf_load(&s->shelf, best, &s->x, &f->drops);
    if (status == RP_OK)
        status = rp_search_descend(s, &f->drops, target, reached);
    if (status == RP_OK && *reached)
        status = rp_search_refill(s, &f->drops, target, f->patience);
    return status;
}

/* The lowest place that is not empty. */
static size_t find_lowest(const rp_shelf *shelf) {
    size_t place = 0;
    while (place + 1 < shelf->count && shelf->places[place].cost == INT64_MAX)
        place++;
    return place;
}

/* Below all that is known, in shorter steps where long ones do not get there, and at last by ways
 * that look a little worse. */
static rp_status extend_down(frontier *f) {
    rp_search *s = f->search;
    rp_status status = RP_OK;
    size_t stride = f->stride;
    int missed = 0;
    while (missed < MOST_MISSED && status == RP_OK && s->effort > 0) {
        const size_t lowest = find_lowest(&s->shelf);
        const int64_t peak = s->shelf.places[lowest].peak;
        bool reached = false;
        if (lowest == 0)
            break;
        s->noise = missed > 0 ? NOISE : 0;
        status = go_to(f, lowest, lowest > stride ? lowest - stride : 0, &reached);
        if (find_lowest(&s->shelf) < lowest || s->shelf.places[lowest].peak < peak)
            continue;
        missed += stride == 1;
        stride = stride > 1 ? stride / 2 : 1;
    }
    s->noise = 0;
    return status;
}

/* From every place below the lowest choice of the hull up to that one. */
static rp_status climb_from_places(frontier *f) {
    rp_search *s = f->search;
    size_t top = s->shelf.count - 1;
    for (size_t i = 0; i < f->hull.count; i++)
        if (f->peaks[i] < INT64_MAX && rp_shelf_find(&s->shelf, f->peaks[i]) < top)
            top = rp_shelf_find(&s->shelf, f->peaks[i]);
    rp_status status = RP_OK;
    for (size_t place = top; place-- > 0 && status == RP_OK && s->effort > 0;) {
        if (s->shelf.places[place].cost == INT64_MAX)
            continue;
        status = rp_shelf_load(&s->shelf, place, &s->x, &f->drops);
        if (status == RP_OK)
            status = rp_search_climb(s, &f->drops, top, f->patience);
    }
    return status;
}

/* Every place from the one above it. */
static rp_status sweep_down(frontier *f) {
    rp_search *s = f->search;
    rp_status status = RP_OK;
    bool reached = true;
    for (size_t place = s->shelf.count - 1, next = 0; place > 0 && status == RP_OK && s->effort > 0;
         place = next) {
        next = place > f->stride ? place - f->stride : 0;
        status = go_to(f, place, next, &reached);
    }
    return status;
}

/* Every place from the best below it. */
static rp_status sweep_up(frontier *f) {
    rp_search *s = f->search;
    rp_status status = RP_OK;
    for (size_t place = 1; place < s->shelf.count && status == RP_OK && s->effort > 0; place++) {
        const size_t best = rp_shelf_best(&s->shelf, place);
        if (best == s->shelf.count)
            continue;
        status = rp_shelf_load(&s->shelf, best, &s->x, &f->drops);
        if (status == RP_OK)
            status = rp_search_refill(s, &f->drops, rp_shelf_target(&s->shelf, place), f->patience);
    }
    return status;
}

/* A stride that comes by every one of `count` places, far apart one after another. */
static size_t find_stride(size_t count) {
    for (size_t stride = count * 5 / 8 + 1;; stride++) {
        size_t a = stride, b = count;
        while (b > 0) {
            const size_t rest = a % b;
            a = b;
            b = rest;
        }
        if (a == 1)
            return stride;
    }
}

/* Whether the bound is far away at a quarter of the places: there may be much to find. */
static bool is_far(const frontier *f, const rp_bound *bound) {
    const rp_shelf *shelf = &f->search->shelf;
    const int64_t gap = f->search->graph->total_cost_ns / FAR;
    size_t far = 0, known = 0;
    for (size_t place = 0; place < shelf->count; place++) {
        const size_t best = rp_shelf_best(shelf, place);
        if (best == shelf->count)
            continue;
        known++;
        far += shelf->places[best].cost - rp_bound_cost(bound, rp_shelf_target(shelf, place)) > gap;
    }
    return far > known / 4;
}

/* Away from what stands at a place and back to its target by another way, place after place, until
 * nothing has come of it for a long time. */
static rp_status improve(frontier *f) {
    rp_search *s = f->search;
    const rp_bound *bound = NULL;
    rp_status status = rp_memo_bound(s->graph, &bound);
    const int64_t gap = s->graph->total_cost_ns / CLOSE_ENOUGH;
    const size_t stride = find_stride(s->shelf.count);
    size_t place = 0, quiet = 0, round = 0;
    uint64_t changes = s->shelf.changes;
    s->noise = NOISE;
    if (status == RP_OK && s->graph->node_count <= SMALL_NODES && is_far(f, bound))
        s->effort *= FAR_EFFORT;
    while (status == RP_OK && s->effort > 0 && quiet < QUIET_ROUNDS * s->shelf.count) {
        place = (place + stride) % s->shelf.count;
        quiet = changes == s->shelf.changes ? quiet + 1 : 0;
        changes = s->shelf.changes;
        const int64_t target = rp_shelf_target(&s->shelf, place);
        const size_t best = rp_shelf_best(&s->shelf, place);
        bool reached = false;
        s->effort--;
        s->most_taken = round++ % 2 == 0 ? f->most_taken : FEW_TAKEN;
        if (best == s->shelf.count ||
            s->shelf.places[best].cost - rp_bound_cost(bound, target) <= gap)
            continue;
        status = rp_shelf_load(&s->shelf, best, &s->x, &f->drops);
        if (status == RP_OK)
            status = rp_search_disturb(s, &f->drops);
        if (status == RP_OK)
            status = rp_search_descend(s, &f->drops, target, &reached);
        if (status == RP_OK && reached)
            status = rp_search_refill(s, &f->drops, target, f->patience);
    }
    s->noise = 0;
    s->most_taken = f->most_taken;
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------ */

/* In this order; the share of the effort that is left then, in percent. */
static const struct {
    rp_status (*run)(frontier *f);
    int share;
} phases[] = {
    {climb_from_cuts, 40}, {descend_from_last_cut, 25}, {extend_down, 25}, {climb_from_places, 20},
    {sweep_up, 20},        {descend_from_cuts, 30},     {sweep_down, 30},  {improve, 100},
};

static rp_status explore(frontier *f) {
    rp_search *s = f->search;
    rp_status status = RP_OK;
    if (f->stage > 0 && f->stage < s->graph->node_count)
        status = rp_hull_create(&s->x, f->stage, MOST_CHOICES, &f->hull);
    f->peaks = rp_alloc(s->graph->context, f->hull.count, sizeof *f->peaks);
    if (status == RP_OK && f->peaks == NULL)
        status = rp_fail_memory(s->graph->context, "the search for schedules");
    for (size_t i = 0; i < f->hull.count && f->peaks != NULL; i++)
        f->peaks[i] = INT64_MAX;
    for (size_t i = 0; i < sizeof phases / sizeof phases[0] && status == RP_OK; i++) {
        const int64_t share = s->effort / 100 * phases[i].share, rest = s->effort - share;
        s->effort = share;
        if (share > 0)
            status = phases[i].run(f);
        s->effort += rest;
    }
    return status;
}

rp_status rp_frontier_explore(rp_search *search) {
    rp_context *const context = search->graph->context;
    if (search->graph->node_count > MOST_NODES)
        return RP_OK;
    frontier f = {.search = search, .patience = 24, .stride = search->shelf.count / STRIDES + 1};
    bool within = false;
    search->most_taken = f.most_taken = search->graph->node_count <= TINY_NODES ? FEW_TAKEN : 0;
    rp_status status = rp_drops_create(&search->x, &f.drops);
    if (status == RP_OK)
        status = rp_drops_create(&search->x, &f.refilled);
    if (status == RP_OK)
        status = rp_search_expand(search, &f.drops, RP_NO_LIMITS, &within);
    if (status == RP_OK && within && search->x.run_count > 0) {
        f.stage = search->x.run_stage[search->x.peak_run];
        status = explore(&f);
    }
    rp_free(context, f.peaks);
    rp_hull_clear(context, &f.hull);
    rp_drops_clear(context, &f.drops);
    rp_drops_clear(context, &f.refilled);
    return status;
}
