/* The op-level family: minimum cuts at the moment of the keep-all peak give the choices that are
 * right at that moment; between them the search climbs and descends, and below the last of them it
 * goes down as far as it can. */
#include "frontier.h"
#include "moment.h"
#include "search.h"

enum { STEPS = 100, MOST_CHOICES = 64, MOST_NODES = 20000 };

typedef struct frontier {
    rp_search search;
    rp_drops drops, refilled;
    int64_t peak, step; /* of keep-all; between targets */
    uint32_t stage;
    rp_hull hull;
    int64_t *peaks; /* of the hull's choices */
} frontier;

static rp_status load_choice(frontier *f, size_t i, bool *within) {
    const rp_choice *choice = &f->hull.choices[i];
    rp_status status = rp_drops_reset(&f->search.x, &f->drops);
    for (size_t v = 0; v < choice->count && status == RP_OK; v++)
        status = rp_drops_add(&f->search.x, &f->drops, choice->values[v], f->stage - 1);
    return status == RP_OK ? rp_search_expand(&f->search, &f->drops, RP_NO_LIMITS, within) : status;
}

/* From the loaded choice down to `bottom`, refilled at every target. */
static rp_status go_down(frontier *f, int64_t from, int64_t bottom) {
    rp_status status = RP_OK;
    bool reached = true;
    for (int64_t target = (from - 1) / f->step * f->step;
         target > bottom && reached && status == RP_OK; target -= f->step) {
        status = rp_search_descend(&f->search, &f->drops, target, &reached);
        if (status == RP_OK && reached)
            status = rp_drops_copy(&f->search.x, &f->drops, &f->refilled);
        if (status == RP_OK && reached)
            status = rp_search_refill(&f->search, &f->refilled, target);
    }
    return status;
}

static rp_status explore(frontier *f) {
    rp_status status = RP_OK;
    for (size_t i = 0; i < f->hull.count && status == RP_OK; i++) {
        bool within = false;
        status = load_choice(f, i, &within);
        f->peaks[i] = within ? f->search.x.peak : INT64_MAX;
    }
    for (size_t i = 0; i < f->hull.count && status == RP_OK; i++) {
        bool within = false, last = true;
        if (f->peaks[i] > f->peak)
            continue;
        status = load_choice(f, i, &within);
        if (status == RP_OK)
            status =
                rp_search_climb(&f->search, &f->drops, f->step, i > 0 ? f->peaks[i - 1] : f->peak);
        for (size_t k = i + 1; k < f->hull.count; k++)
            last = last && f->peaks[k] >= f->peaks[i];
        const int64_t bottom = last || f->peaks[i + 1] >= f->peaks[i] ? 0 : f->peaks[i + 1];
        if (status == RP_OK)
            status = go_down(f, f->peaks[i], bottom);
    }
    return status;
}

int64_t rp_frontier_effort(const rp_graph *graph) {
    return 3000000 + 12000 * (int64_t)(graph->node_count < 8000 ? graph->node_count : 8000);
}

rp_status rp_frontier_propose(const rp_graph *graph, int64_t effort, rp_candidates *set) {
    rp_context *const context = graph->context;
    frontier f = {0};
    bool within = false;
    if (graph->node_count > MOST_NODES)
        return RP_OK;
    rp_status status = rp_search_create(graph, set, effort, &f.search);
    if (status != RP_OK)
        return status;
    status = rp_drops_create(&f.search.x, &f.drops);
    if (status == RP_OK)
        status = rp_drops_create(&f.search.x, &f.refilled);
    if (status == RP_OK)
        status = rp_search_expand(&f.search, &f.drops, RP_NO_LIMITS, &within);
    if (status == RP_OK && within && f.search.x.run_count > 0) {
        f.peak = f.search.x.peak;
        f.step = f.peak / STEPS > 0 ? f.peak / STEPS : 1;
        f.stage = f.search.x.run_stage[f.search.x.peak_run];
        if (f.stage > 0 && f.stage < graph->node_count)
            status = rp_hull_create(&f.search.x, f.stage, MOST_CHOICES, &f.hull);
        f.peaks = rp_alloc(context, f.hull.count, sizeof *f.peaks);
        if (status == RP_OK)
            status =
                f.peaks == NULL ? rp_fail_memory(context, "the search for schedules") : explore(&f);
    }
    rp_free(context, f.peaks);
    rp_hull_clear(context, &f.hull);
    rp_drops_clear(context, &f.drops);
    rp_drops_clear(context, &f.refilled);
    rp_search_clear(&f.search);
    return status;
}
