/* Descent and refill on exact expansions, guided by the survey's estimates. */
#include "search.h"
#include "wide.h"

#include <stdlib.h>
#include <string.h>

enum {
    BEST_TRIED = 4,    /* moves whose exact effect is compared before one is taken */
    MOST_MISSED = 2,   /* moves in a row that are no good before the next survey */
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
    search->prices = rp_alloc(graph->context, MOST_TRIED, sizeof *search->prices);
    if (status == RP_OK && (search->trials == NULL || search->prices == NULL))
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
    rp_free(context, search->prices);
    rp_free(context, search->undo);
    rp_shelf_clear(&search->shelf);
    rp_survey_clear(&search->survey);
    rp_expander_clear(&search->x);
    *search = (rp_search){0};
}

rp_status rp_search_expand(rp_search *s, const rp_drops *drops, rp_limits limits, bool *within) {
    rp_expander *const x = &s->x;
    rp_status status = rp_expander_run(x, drops, limits, within);
    s->effort -= (int64_t)x->run_count;
    if (status == RP_OK && *within)
        status = rp_shelf_offer(&s->shelf, x, drops);
    if (status != RP_OK || !*within ||
        !rp_candidates_wants(s->set,
                             (rp_candidate){x->peak, x->cost, x->run_count - s->graph->node_count}))
        return status;
    s->effort -= 8 * (int64_t)x->run_count; /* to build and to verify */
    return rp_candidates_offer_expansion(s->set, x);
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

/* splitmix64: the same numbers everywhere. */
static uint32_t next_random(rp_search *s, uint32_t limit) {
    uint64_t z = s->random += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)(((z ^ (z >> 31)) >> 32) * limit >> 32);
}

static int64_t blur(rp_search *s, int64_t cost) {
    if (s->noise == 0 || cost <= 0)
        return cost;
    const int64_t part = cost / 128 * (int64_t)(s->noise * 128 / 100);
    return cost - part + part / 64 * (int64_t)next_random(s, 128);
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

/* Keeps the MOST_TRIED lowest prices, ascending: dearer moves are not tried. */
static void note_price(rp_search *s, const ranked *move) {
    const rp_price price = {move->cost > 0 ? move->cost : 0, move->bytes};
    size_t i = s->price_count;
    if (i < MOST_TRIED)
        s->price_count++;
    else if (rp_ratio_compare(price.cost, price.bytes, s->prices[i - 1].cost,
                              s->prices[i - 1].bytes) >= 0)
        return;
    else
        i--;
    for (; i > 0 && rp_ratio_compare(price.cost, price.bytes, s->prices[i - 1].cost,
                                     s->prices[i - 1].bytes) < 0;
         i--)
        s->prices[i] = s->prices[i - 1];
    s->prices[i] = price;
}

/* The kinds of drop of one wait. Most differ in nothing from a simpler kind, and are left out. */
static rp_status rank_kinds(rp_search *s, size_t wait, size_t *count) {
    rp_move *move = &s->trials[0].move;
    int matters[RP_DROP_KINDS] = {0};
    for (int kind = 0; kind < RP_DROP_KINDS; kind++) {
        const rp_price *most = s->price_count == MOST_TRIED ? &s->prices[MOST_TRIED - 1] : NULL;
        bool fits = false, differs = true;
        for (int part = 1; part < RP_DROP_KINDS; part *= 2)
            differs = differs && (!(kind & part) || (matters[kind ^ part] & part));
        if (!differs) {
            for (int part = 1; part < RP_DROP_KINDS; part *= 2)
                matters[kind] |= kind & part ? matters[kind ^ part] : 0;
            continue;
        }
        rp_status status = rp_survey_drop(&s->survey, wait, kind, most, move, &fits);
        matters[kind] = move->matters;
        if (status == RP_OK && fits)
            status =
                rank(s, count, (ranked){(uint32_t)wait, kind, blur(s, move->cost), move->bytes});
        if (status == RP_OK && fits)
            note_price(s, &s->ranked[*count - 1]);
        if (status != RP_OK)
            return status;
    }
    return RP_OK;
}

static rp_status rank_drops(rp_search *s, size_t *count) {
    *count = s->price_count = 0;
    for (size_t w = 0; w < s->survey.wait_count; w++) {
        const rp_status status = rank_kinds(s, w, count);
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
                                                NULL, &s->trials[i].move, &fits);
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

/* Takes the best move, and of those ranked behind it the ones that turn out nearly as good: many
 * layers need the same. */
static rp_status take_moves(rp_search *s, rp_drops *drops, int64_t target, size_t best,
                            size_t count, bool *within) {
    const trial *first = &s->trials[best];
    int64_t peak = s->x.peak, cost = 0, excess = 0;
    bool current = false; /* the expander shows the decisions */
    rp_status status = apply(s, drops, &first->move, true);
    for (size_t i = best, missed = 0; status == RP_OK && missed < MOST_MISSED && s->effort > 0;) {
        status = rp_search_expand(s, drops, (rp_limits){peak, INT64_MAX, target}, within);
        if (status != RP_OK)
            break;
        const int64_t more = s->x.cost > cost ? s->x.cost - cost : 0, less = excess - s->x.excess;
        current =
            *within && (i == best || (less > 0 && rp_ratio_compare(more, less, first->cost / 4 * 5,
                                                                   first->bytes) <= 0));
        if (current) {
            peak = s->x.peak;
            cost = s->x.cost;
            excess = s->x.excess;
            missed = 0;
        } else {
            status = take_back(s, drops, true);
            missed++;
        }
        if (++i >= count || peak <= target || i - best == s->most_taken)
            break;
        if (status == RP_OK)
            status = apply(s, drops, &s->trials[i].move, true);
        if (s->undo_count == 0)
            missed = MOST_MISSED;
    }
    if (status == RP_OK && !current)
        status = rp_search_expand(s, drops, (rp_limits){INT64_MAX, INT64_MAX, target}, within);
    return status;
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
        s->effort -= 3 * (int64_t)s->x.run_count + 8 * (int64_t)s->survey.wait_count;
        if (status == RP_OK)
            status = keep_moves(s, count);
        if (status == RP_OK)
            status = try_moves(s, drops, target, count, &best);
        if (status != RP_OK || best == count)
            break;
        status = take_moves(s, drops, target, best, count, &within);
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

/* Tries the holds that seem to fit, in their order, and takes those that do. */
static rp_status take_holds(rp_search *s, rp_drops *drops, int64_t target, size_t count,
                            size_t patience, bool *taken) {
    int64_t cost = s->x.cost, room = target - s->x.peak;
    size_t kept = 0;
    *taken = false;
    for (size_t i = 0; i < count && kept < patience; i++) {
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
        if (s->trials[i].move.bytes > room)
            continue;
        rp_status status = apply(s, drops, &s->trials[i].move, false);
        if (status == RP_OK && s->undo_count > 0)
            status = rp_search_expand(s, drops, (rp_limits){target, cost - 1, INT64_MAX}, &within);
        if (status == RP_OK && !within)
            status = take_back(s, drops, false);
        if (status != RP_OK)
            return status;
        if (within) {
            *taken = true;
            cost = s->x.cost;
            room = target - s->x.peak;
        }
    }
    return RP_OK;
}

rp_status rp_search_refill(rp_search *s, rp_drops *drops, int64_t target, size_t patience) {
    patience = patience < MOST_TRIED ? patience : MOST_TRIED;
    bool within = false, taken = true;
    rp_status status = RP_OK;
    while (status == RP_OK && taken && s->effort > 0) {
        size_t count = 0;
        status = rp_search_expand(s, drops, (rp_limits){target, INT64_MAX, INT64_MAX}, &within);
        if (status != RP_OK || !within)
            break;
        status = rp_survey_read(&s->survey, drops, target);
        s->effort -= 2 * (int64_t)s->x.run_count;
        if (status == RP_OK)
            status = rank_holds(s, &count);
        if (status == RP_OK)
            status = take_holds(s, drops, target, count, patience, &taken);
    }
    return status;
}

/* ---- Disturbance ---------------------------------------------------------------------------- */

/* Saves the replays among a few runs in a row. */
static rp_status save_some(rp_search *s, rp_drops *drops) {
    const uint32_t runs = (uint32_t)s->x.run_count;
    const uint32_t again = runs - (uint32_t)s->graph->node_count;
    if (again == 0)
        return RP_OK;
    uint32_t skip = next_random(s, again), length = 1u << next_random(s, 5);
    rp_status status = RP_OK;
    for (uint32_t run = 0; run < runs && length > 0 && status == RP_OK; run++) {
        bool fits = false;
        if (s->x.run_node[run] == s->x.run_stage[run])
            continue;
        if (skip > 0) {
            skip--;
            continue;
        }
        length--;
        status = rp_survey_hold(&s->survey, run, &s->trials[0].move, &fits);
        if (status == RP_OK && fits)
            status = apply(s, drops, &s->trials[0].move, false);
    }
    return status;
}

static rp_status drop_some(rp_search *s, rp_drops *drops) {
    bool fits = false;
    rp_status status = rp_survey_list_waits(&s->survey, s->x.peak_run);
    if (status != RP_OK || s->survey.wait_count == 0)
        return status;
    const uint32_t wait = next_random(s, (uint32_t)s->survey.wait_count);
    const int kind = (int)next_random(s, RP_DROP_KINDS);
    status = rp_survey_drop(&s->survey, wait, kind, NULL, &s->trials[0].move, &fits);
    return status == RP_OK ? apply(s, drops, &s->trials[0].move, true) : status;
}

rp_status rp_search_disturb(rp_search *s, rp_drops *drops) {
    bool within = false;
    rp_status status = rp_search_expand(s, drops, RP_NO_LIMITS, &within);
    if (status == RP_OK && within)
        status = rp_survey_read(&s->survey, drops, INT64_MAX);
    if (status != RP_OK || !within)
        return status;
    s->effort -= (int64_t)s->x.run_count;
    return next_random(s, 3) > 0 ? save_some(s, drops) : drop_some(s, drops);
}
