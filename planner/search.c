/* Descent and refill on exact expansions, guided by the survey's estimates. */
#include "search.h"
#include "wide.h"

#include <stdlib.h>
#include <string.h>

enum {
    BEST_TRIED = 4,    /* moves whose exact effect is compared before one is taken */
    MOST_TRIED = 48,   /* moves tried before a descent is given up */
    KINDS_SHALLOW = 2, /* without the transient ones */
};

/* A move by its estimate. */
typedef struct rp_ranked {
    uint32_t item; /* a wait or a run */
    int kind;
    int64_t cost, bytes;
} ranked;

/* A move kept while the expander is used for others. */
typedef struct rp_trial {
    rp_move move;
    int64_t cost, bytes; /* estimated; then exact */
} trial;

/* ---- Making and clearing -------------------------------------------------------------------- */

rp_status rp_search_create(const rp_graph *graph, rp_candidates *set, int64_t effort,
                           rp_search *search) {
    *search = (rp_search){.graph = graph, .set = set, .effort = effort};
    rp_status status = rp_expander_create(graph, &search->x);
    if (status != RP_OK)
        return status;
    status = rp_survey_create(&search->x, &search->survey);
    search->trials = rp_alloc(graph->context, MOST_TRIED, sizeof *search->trials);
    if (status == RP_OK && search->trials == NULL)
        status = rp_fail_memory(graph->context, "the search for schedules");
    if (status != RP_OK)
        rp_search_clear(search);
    return status;
}

void rp_search_clear(rp_search *search) {
    if (search->graph == NULL)
        return;
    rp_context *const context = search->graph->context;
    for (size_t i = 0; search->trials != NULL && i < MOST_TRIED; i++)
        rp_move_clear(context, &search->trials[i].move);
    rp_free(context, search->trials);
    rp_free(context, search->ranked);
    rp_free(context, search->undo);
    rp_schedule_clear(context, &search->schedule);
    rp_survey_clear(&search->survey);
    rp_expander_clear(&search->x);
    *search = (rp_search){0};
}

rp_status rp_search_expand(rp_search *s, const rp_drops *drops, rp_limits limits, bool *within) {
    const rp_expander *x = &s->x;
    rp_status status = rp_expander_run(&s->x, drops, limits, within);
    s->effort -= (int64_t)x->run_count;
    if (status != RP_OK || !*within ||
        !rp_candidates_wants(s->set,
                             (rp_candidate){x->peak, x->cost, x->run_count - s->graph->node_count}))
        return status;
    s->effort -= 8 * (int64_t)x->run_count; /* to build and to verify */
    status = rp_expander_build(x, &s->schedule);
    return status == RP_OK ? rp_candidates_offer(s->set, &s->schedule) : status;
}

/* ---- Moves ---------------------------------------------------------------------------------- */

static rp_status note_undo(rp_search *s, rp_drop drop) {
    if (!rp_reserve(s->graph->context, &s->undo, &s->undo_capacity, s->undo_count + 1,
                    sizeof *s->undo))
        return rp_fail_memory(s->graph->context, "a move of the search");
    s->undo[s->undo_count++] = drop;
    return RP_OK;
}

/* Adds the move's decisions, or removes them, and notes what changed. */
static rp_status apply(rp_search *s, rp_drops *drops, const rp_move *move, bool add) {
    rp_status status = RP_OK;
    s->undo_count = 0;
    for (size_t i = 0; i < move->count && status == RP_OK; i++) {
        const rp_drop d = move->drops[i];
        if (add && !rp_drops_contain(drops, d.value, d.stage)) {
            status = rp_drops_add(&s->x, drops, d.value, d.stage);
            if (status == RP_OK)
                status = note_undo(s, d);
        } else if (!add && rp_drops_remove(&s->x, drops, d.value, d.stage)) {
            status = note_undo(s, d);
        }
    }
    return status;
}

static rp_status take_back(rp_search *s, rp_drops *drops, bool added) {
    rp_status status = RP_OK;
    for (size_t i = s->undo_count; i-- > 0 && status == RP_OK;) {
        if (added)
            rp_drops_remove(&s->x, drops, s->undo[i].value, s->undo[i].stage);
        else
            status = rp_drops_add(&s->x, drops, s->undo[i].value, s->undo[i].stage);
    }
    s->undo_count = 0;
    return status;
}

static rp_status rank(rp_search *s, size_t *count, ranked move) {
    if (!rp_reserve(s->graph->context, &s->ranked, &s->ranked_capacity, *count + 1,
                    sizeof *s->ranked))
        return rp_fail_memory(s->graph->context, "a move of the search");
    s->ranked[(*count)++] = move;
    return RP_OK;
}

/* Cost per byte, cheapest first; what costs nothing, by bytes. */
static int compare_drops(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    const int64_t cost_a = a->cost > 0 ? a->cost : 0, cost_b = b->cost > 0 ? b->cost : 0;
    const int order = rp_ratio_compare(cost_a, a->bytes, cost_b, b->bytes);
    if (order != 0)
        return order;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->item != b->item ? (a->item < b->item ? -1 : 1) : a->kind - b->kind;
}

/* Gain per byte, highest first; what takes no bytes comes before all. */
static int compare_holds(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    const bool free_a = a->bytes <= 0, free_b = b->bytes <= 0;
    if (free_a != free_b)
        return free_a ? -1 : 1;
    const int order = free_a ? (a->cost > b->cost ? -1 : a->cost < b->cost)
                             : rp_ratio_compare(b->cost, b->bytes, a->cost, a->bytes);
    return order != 0 ? order : a->item < b->item ? -1 : a->item > b->item;
}

/* ---- Descent -------------------------------------------------------------------------------- */

static rp_status rank_drops(rp_search *s, size_t *count) {
    rp_move *scratch = &s->trials[0].move;
    *count = 0;
    for (size_t w = 0; w < s->survey.wait_count; w++)
        for (int kind = 0; kind < RP_DROP_KINDS; kind++) {
            bool fits = false;
            rp_status status = rp_survey_drop(&s->survey, w, kind, scratch, &fits);
            if (status == RP_OK && fits)
                status = rank(s, count, (ranked){(uint32_t)w, kind, scratch->cost, scratch->bytes});
            if (status != RP_OK)
                return status;
        }
    if (*count > 0)
        qsort(s->ranked, *count, sizeof *s->ranked, compare_drops);
    return RP_OK;
}

/* The decisions of the best moves, before the expander is used for anything else. */
static rp_status keep_moves(rp_search *s, size_t count) {
    for (size_t i = 0; i < count; i++) {
        bool fits = false;
        const rp_status status = rp_survey_drop(&s->survey, s->ranked[i].item, s->ranked[i].kind,
                                                &s->trials[i].move, &fits);
        if (status != RP_OK)
            return status;
        s->trials[i].cost = s->ranked[i].cost > 0 ? s->ranked[i].cost : 0;
        s->trials[i].bytes = s->ranked[i].bytes;
    }
    return RP_OK;
}

/* Tries the kept moves in order; `*best` is the one that costs the least for the excess it takes
 * away without raising the peak, or `count`. */
static rp_status try_moves(rp_search *s, rp_drops *drops, int64_t target, size_t count,
                           size_t *best) {
    const int64_t peak = s->x.peak, cost = s->x.cost, excess = s->x.excess;
    *best = count;
    for (size_t i = 0, good = 0; i < count && good < BEST_TRIED && s->effort > 0; i++) {
        trial *t = &s->trials[i];
        if (*best < count &&
            rp_ratio_compare(s->trials[*best].cost, s->trials[*best].bytes, t->cost, t->bytes) <= 0)
            break; /* the best exact figure beats every estimate that is left */
        bool within = false;
        rp_status status = apply(s, drops, &t->move, true);
        if (status == RP_OK && s->undo_count > 0)
            status = rp_search_expand(s, drops, (rp_limits){peak, INT64_MAX, target}, &within);
        if (status == RP_OK)
            status = take_back(s, drops, true);
        if (status != RP_OK)
            return status;
        if (!within || s->x.excess >= excess)
            continue;
        good++;
        t->cost = s->x.cost > cost ? s->x.cost - cost : 0;
        t->bytes = excess - s->x.excess;
        if (*best == count ||
            rp_ratio_compare(t->cost, t->bytes, s->trials[*best].cost, s->trials[*best].bytes) < 0)
            *best = i;
    }
    return RP_OK;
}

rp_status rp_search_descend(rp_search *s, rp_drops *drops, int64_t target, bool *reached) {
    bool within = false;
    *reached = false;
    rp_status status =
        rp_search_expand(s, drops, (rp_limits){INT64_MAX, INT64_MAX, target}, &within);
    while (status == RP_OK && within && s->effort > 0) {
        if (s->x.peak <= target) {
            *reached = true;
            break;
        }
        size_t count = 0, best = 0;
        status = rp_survey_read(&s->survey, drops, target);
        if (status == RP_OK)
            status = rp_survey_list_waits(&s->survey, s->x.peak_run);
        if (status == RP_OK)
            status = rank_drops(s, &count);
        count = count < MOST_TRIED ? count : MOST_TRIED;
        s->effort -= 4 * (int64_t)s->x.run_count;
        if (status == RP_OK)
            status = keep_moves(s, count);
        if (status == RP_OK)
            status = try_moves(s, drops, target, count, &best);
        if (status != RP_OK || best == count)
            break;
        status = apply(s, drops, &s->trials[best].move, true);
        if (status == RP_OK)
            status = rp_search_expand(s, drops, (rp_limits){INT64_MAX, INT64_MAX, target}, &within);
    }
    return status;
}

/* ---- Refill --------------------------------------------------------------------------------- */

/* Every replay as a candidate for holding. */
static rp_status rank_holds(rp_search *s, size_t *count) {
    rp_move *scratch = &s->trials[0].move;
    *count = 0;
    for (uint32_t run = 0; run < s->x.run_count; run++) {
        bool fits = false;
        if (s->x.run_node[run] == s->x.run_stage[run])
            continue;
        rp_status status = rp_survey_hold(&s->survey, run, scratch, &fits);
        if (status == RP_OK && fits && scratch->cost > 0)
            status = rank(s, count, (ranked){run, 0, scratch->cost, scratch->bytes});
        if (status != RP_OK)
            return status;
    }
    if (*count > 0)
        qsort(s->ranked, *count, sizeof *s->ranked, compare_holds);
    return RP_OK;
}

/* Tries the first holds that seem to fit; takes the first that does. */
static rp_status take_hold(rp_search *s, rp_drops *drops, int64_t target, size_t count,
                           bool *taken) {
    const int64_t room = target - s->x.peak, cost = s->x.cost;
    size_t kept = 0;
    *taken = false;
    for (size_t i = 0; i < count && kept < MOST_TRIED; i++) {
        bool fits = false;
        if (s->ranked[i].bytes > room)
            continue;
        const rp_status status =
            rp_survey_hold(&s->survey, s->ranked[i].item, &s->trials[kept].move, &fits);
        if (status != RP_OK)
            return status;
        kept++;
    }
    for (size_t i = 0; i < kept && s->effort > 0; i++) {
        bool within = false;
        rp_status status = apply(s, drops, &s->trials[i].move, false);
        if (status == RP_OK && s->undo_count > 0)
            status = rp_search_expand(s, drops, (rp_limits){target, cost - 1, INT64_MAX}, &within);
        if (status != RP_OK)
            return status;
        if (within) {
            *taken = true;
            return RP_OK;
        }
        status = take_back(s, drops, false);
        if (status != RP_OK)
            return status;
    }
    return RP_OK;
}

rp_status rp_search_refill(rp_search *s, rp_drops *drops, int64_t target) {
    bool within = false, taken = true;
    rp_status status =
        rp_search_expand(s, drops, (rp_limits){target, INT64_MAX, INT64_MAX}, &within);
    while (status == RP_OK && within && taken && s->effort > 0) {
        size_t count = 0;
        status = rp_survey_read(&s->survey, drops, target);
        s->effort -= 2 * (int64_t)s->x.run_count;
        if (status == RP_OK)
            status = rank_holds(s, &count);
        if (status == RP_OK)
            status = take_hold(s, drops, target, count, &taken);
    }
    return status;
}
