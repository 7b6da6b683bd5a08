/* Checkpointing of chains whose stages differ (Beaumont et al., rotor): the persistent schedules,
 * in which what is once kept stays until backward has asked for it. A sweep through a row of states
 * either keeps all that a stage writes, or goes on without a stop to a state that it keeps, from
 * where the rest of the row is gone back through before what was passed by. What that takes in
 * bytes and costs is found for all rows of states, the shorter ones first: for each the best for
 * every number of bytes, so that one pass gives the schedules for all budgets. */
#include "chain.h"
#include "chain_measure.h"
#include "lists.h"
#include "wide.h"

#include <string.h>

enum {
    MOST_STAGES = 112, /* beyond them neighbours are joined */
    EFFORT = 2000000,  /* ways of rows that are compared, about: decides how many a row keeps */
    MIN_WAYS = 24,     /* of a row */
    MOST_WAYS = 4096,
    RUNS_OF_ALL = 200000, /* about, in schedules that are expanded */
    RUNS_PER_NODE = 6,
    MOST_EXPANDED = 128,
    /* Ways that cost more than all nodes so many times, and on small graphs some more, are out of
     * all proportion. */
    MOST_REPEATS = 24,
    REPEATS_BASE = 65536
};

/* A way to go back through a row of states, the first of which is held and not counted. */
typedef struct way {
    int64_t bytes, cost;
    uint32_t stop;        /* the next state that is kept, from the first one on; 0: there is none */
    bool keeps;           /* and all that the stage up to there writes */
    uint32_t right, left; /* the ways from there and before there, by their places */
} way;

/* The ways worth taking: more bytes, less cost. */
typedef struct ways {
    way *list;
    uint32_t count;
    bool is_shared; /* the list is that of an equal row */
} ways;

typedef struct table {
    rp_context *context;
    const rp_chain *chain;
    rp_stage_measure *measures;
    uint32_t states, most;
    int64_t most_cost; /* of a way */
    uint32_t *alike;   /* of each state: how many up to it measure as the one before */
    ways *rows; /* of the states a to b: at a * states + b; of the first sweep: behind all these */
    way *best, *merged; /* room for the ways of a row that is being looked at */
    size_t best_count, best_capacity, merged_capacity;
} table;

static int64_t add(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static ways *find_row(const table *t, uint32_t a, uint32_t b, bool first) {
    return &t->rows[(size_t)(first ? t->states : a) * t->states + (first ? a : b)];
}

/* ---- Collecting the ways of a row ------------------------------------------------------------ */

static rp_status fail_memory(const table *t) {
    return rp_fail_memory(t->context, "the ways through a chain");
}

/* Appends to `merged` unless what stands there last is as good, or it costs too much. */
static void push(table *t, size_t *count, const way *w) {
    way *last = *count > 0 ? &t->merged[*count - 1] : NULL;
    if (w->cost > t->most_cost || (last != NULL && last->cost <= w->cost))
        return;
    if (last != NULL && last->bytes == w->bytes)
        --*count;
    t->merged[(*count)++] = *w;
}

/* Of `count` ways `most` at most: the first, the last, and between them the cheapest for numbers of
 * bytes at equal distances. */
static uint32_t thin(way *list, size_t count, uint32_t most) {
    if (count <= most)
        return (uint32_t)count;
    const int64_t low = list[0].bytes, step = (list[count - 1].bytes - low) / (most - 1) + 1;
    uint32_t kept = 1;
    for (size_t i = 1; i < count; i++)
        if (i + 1 == count || (list[i + 1].bytes - low) / step > (list[i].bytes - low) / step)
            list[kept++] = list[i];
    return kept;
}

/* Takes ways that come in order of rising bytes and falling cost into the best ones. Of equals
 * those that came first stay. Of far more than are kept in the end some go at once. */
static bool merge(table *t, const way *fresh, size_t count) {
    size_t merged = 0, i = 0, k = 0;
    if (!rp_reserve(t->context, &t->merged, &t->merged_capacity, t->best_count + count,
                    sizeof *t->merged))
        return false;
    while (i < t->best_count || k < count) {
        const bool old = k == count || (i < t->best_count && t->best[i].bytes <= fresh[k].bytes);
        push(t, &merged, old ? &t->best[i++] : &fresh[k++]);
    }
    way *const list = t->best;
    const size_t capacity = t->best_capacity;
    t->best = t->merged;
    t->best_capacity = t->merged_capacity;
    t->best_count = merged > 4 * t->most ? thin(t->best, merged, 2 * t->most) : merged;
    t->merged = list;
    t->merged_capacity = capacity;
    return true;
}

/* ---- The ways of one row --------------------------------------------------------------------- */

/* Everything of the next stage is kept; the row from behind it on is a shorter one. */
static bool take_keeping(table *t, uint32_t a, uint32_t b, bool first, way *scratch) {
    const rp_stage_measure *next = &t->measures[a + 1];
    const ways *right = find_row(t, a + 1, b, first);
    const int64_t before = first ? 0 : t->measures[b].gradients;
    const int64_t least = larger(add(before, next->keeping_peak), t->measures[a].backward_peak);
    size_t count = 0;
    for (uint32_t i = 0; i < right->count; i++) {
        const way *r = &right->list[i];
        const way w = {.bytes = larger(least, add(next->inner_bytes + next->state_bytes, r->bytes)),
                       .cost = first ? r->cost : add(next->both_cost, r->cost),
                       .stop = 1,
                       .keeps = true,
                       .right = i};
        if (count > 0 && scratch[count - 1].bytes == w.bytes)
            count--;
        scratch[count++] = w;
    }
    return merge(t, scratch, count);
}

/* State `stop` is kept, and nothing before it. `least` bytes and `cost`: of the sweep to there. */
static bool take_stop(table *t, uint32_t a, uint32_t b, bool first, uint32_t stop, int64_t least,
                      int64_t cost, way *scratch) {
    const ways *right = find_row(t, stop, b, first), *left = find_row(t, a, stop - 1, false);
    const int64_t held = t->measures[stop].state_bytes;
    size_t count = 0;
    for (uint32_t i = 0, k = 0;;) {
        const int64_t bytes =
            larger(least, larger(add(held, right->list[i].bytes), left->list[k].bytes));
        while (i + 1 < right->count && add(held, right->list[i + 1].bytes) <= bytes)
            i++;
        while (k + 1 < left->count && left->list[k + 1].bytes <= bytes)
            k++;
        scratch[count++] = (way){
            bytes, add(cost, add(right->list[i].cost, left->list[k].cost)), stop - a, false, i, k};
        if (i + 1 == right->count && k + 1 == left->count)
            return merge(t, scratch, count);
        if (k + 1 == left->count || (i + 1 < right->count && add(held, right->list[i + 1].bytes) <=
                                                                 left->list[k + 1].bytes))
            i++;
        else
            k++;
    }
}

/* Only the first state is left: what backward asks of the stage behind it is made again. */
static bool take_last(table *t, uint32_t a, bool first) {
    const rp_stage_measure *of = &t->measures[a];
    way w = {.bytes = of->backward_peak};
    if (a < t->chain->count) {
        const rp_stage_measure *next = &t->measures[a + 1];
        w.bytes =
            larger(w.bytes, first ? next->keeping_peak : add(of->gradients, next->inner_peak));
        w.cost = first ? 0 : next->inner_cost;
    }
    return merge(t, &w, 1);
}

/* Whether the row measures as the one that begins and ends a state earlier: identical layers have
 * identical rows. */
static bool is_like_before(const table *t, uint32_t a, uint32_t b) {
    return a > 0 && b < t->chain->count && t->alike[b + 1] - t->alike[a - 1] == b + 2 - a;
}

static void share_row(table *t, uint32_t a, uint32_t b) {
    ways *row = find_row(t, a, b, false);
    *row = *find_row(t, a - 1, b - 1, false);
    row->is_shared = true;
}

static rp_status fill_row(table *t, uint32_t a, uint32_t b, bool first, way *scratch) {
    bool ok = a < b || take_last(t, a, first);
    int64_t most = 0, cost = 0;
    if (ok && a < b)
        ok = take_keeping(t, a, b, first, scratch);
    for (uint32_t stop = a + 1; stop <= b && ok; stop++) {
        const rp_stage_measure *of = &t->measures[stop];
        most = larger(most, stop == a + 1 ? of->held_peak : of->passing_peak);
        cost = first ? 0 : add(cost, of->state_cost);
        ok = take_stop(t, a, b, first, stop, add(first ? 0 : t->measures[b].gradients, most), cost,
                       scratch);
    }
    ways *row = find_row(t, a, b, first);
    if (ok) {
        row->count = thin(t->best, t->best_count, t->most);
        row->list = rp_alloc(t->context, row->count, sizeof *row->list);
        ok = row->list != NULL;
    }
    if (ok)
        memcpy(row->list, t->best, row->count * sizeof *row->list);
    t->best_count = 0;
    return ok ? RP_OK : fail_memory(t);
}

/* The shorter rows first; those of the first sweep, which runs once in any case, at last. */
static rp_status fill(table *t) {
    rp_status status = RP_OK;
    way *scratch = rp_alloc(t->context, 2 * (size_t)t->most, sizeof *scratch);
    if (scratch == NULL)
        return fail_memory(t);
    for (uint32_t length = 1; length < t->states; length++)
        for (uint32_t a = 0; a + length < t->states && status == RP_OK; a++)
            if (is_like_before(t, a, a + length - 1))
                share_row(t, a, a + length - 1);
            else
                status = fill_row(t, a, a + length - 1, false, scratch);
    for (uint32_t a = t->states; a-- > 0 && status == RP_OK;)
        status = fill_row(t, a, t->states - 1, true, scratch);
    rp_free(t->context, scratch);
    return status;
}

/* ---- Schedules ------------------------------------------------------------------------------- */

/* A row of states, the way through it, and the stage of the graph in which that is swept. */
typedef struct part {
    uint32_t a, b, at, way;
    bool first;
} part;

/* The decisions of a way. `parts` has room for every state. */
static rp_status decide(const table *t, const rp_expander *x, uint32_t place, part *parts,
                        rp_drops *drops) {
    rp_status status = rp_drops_reset(x, drops);
    size_t count = 1;
    parts[0] = (part){0, t->states - 1, x->graph->last_forward, place, true};
    while (count > 0 && status == RP_OK) {
        const part p = parts[--count];
        const way *w = &find_row(t, p.a, p.b, p.first)->list[p.way];
        const uint32_t stop = p.a + w->stop;
        if (stop == p.a || p.at == RP_NONE)
            continue;
        if (!w->keeps) {
            status = rp_chain_advance(t->chain, x, p.a, stop, p.at, drops);
            parts[count++] = (part){p.a, stop - 1, t->chain->demand[stop - 1], w->left, false};
        }
        parts[count++] = (part){stop, p.b, p.at, w->right, p.first};
    }
    return status;
}

/* About how many runs the schedule of a way has. */
static int64_t count_runs(const rp_graph *graph, const way *w) {
    const int64_t nodes = (int64_t)graph->node_count, total = graph->total_cost_ns;
    return total > 0 ? add(nodes, (int64_t)((rp_wide)w->cost * nodes / total)) : nodes;
}

/* The cheapest first, and as many as there are runs for if most of them need few. */
static rp_status list_ways(const table *t, const rp_expander *x, rp_drops *drops, rp_sink sink) {
    const ways *row = find_row(t, 0, t->states - 1, true);
    const int64_t nodes = (int64_t)x->graph->node_count;
    const int64_t runs = RUNS_OF_ALL + RUNS_PER_NODE * nodes, usual = runs / (2 * nodes);
    const int64_t most = usual < MOST_EXPANDED ? usual : MOST_EXPANDED;
    const int64_t low = row->list[0].bytes;
    const int64_t step = (row->list[row->count - 1].bytes - low) / most + 1;
    int64_t left = runs, before = -1;
    rp_status status = RP_OK;
    part *parts = rp_alloc(t->context, t->states, sizeof *parts);
    if (parts == NULL)
        status = fail_memory(t);
    for (uint32_t i = row->count; i-- > 0 && status == RP_OK;) {
        const int64_t place = (row->list[i].bytes - low) / step;
        const int64_t needed = count_runs(x->graph, &row->list[i]);
        if (needed > (i == 0 ? runs : left) || (i > 0 && row->count > most && place == before))
            continue;
        before = place;
        left -= needed;
        status = decide(t, x, i, parts, drops);
        if (status == RP_OK)
            status = sink.take(sink.user, drops);
    }
    rp_free(t->context, parts);
    return status;
}

static void clear_table(table *t) {
    const size_t rows = (size_t)t->states * t->states + t->states;
    for (size_t i = 0; t->rows != NULL && i < rows; i++)
        rp_free(t->context, t->rows[i].is_shared ? NULL : t->rows[i].list);
    rp_free(t->context, t->rows);
    rp_free(t->context, t->measures);
    rp_free(t->context, t->alike);
    rp_free(t->context, t->best);
    rp_free(t->context, t->merged);
}

/* How many ways of each row are kept: the fewer, the more rows there are that differ, times the
 * states that each of them may stop at. */
static uint32_t count_ways(const table *t) {
    uint64_t stops = 1;
    for (uint32_t a = 0; a < t->states; a++)
        for (uint32_t b = a; b < t->states; b++)
            stops += is_like_before(t, a, b) ? 0 : b - a;
    const uint64_t most = EFFORT / stops;
    return most < MIN_WAYS ? MIN_WAYS : most > MOST_WAYS ? MOST_WAYS : (uint32_t)most;
}

/* On failure, too, the caller clears. */
static rp_status make_table(const rp_graph *graph, const rp_chain *chain, table *t) {
    const size_t states = (size_t)chain->top + 1;
    *t = (table){.context = graph->context, .chain = chain, .states = (uint32_t)states};
    t->rows = rp_alloc(t->context, states * states + states, sizeof *t->rows);
    t->measures = rp_alloc(t->context, (size_t)chain->count + 1, sizeof *t->measures);
    t->alike = rp_alloc(t->context, (size_t)chain->count + 1, sizeof *t->alike);
    if (t->rows == NULL || t->measures == NULL || t->alike == NULL)
        return fail_memory(t);
    const rp_status status = rp_chain_measure(graph, chain, t->measures);
    if (status != RP_OK)
        return status;
    for (uint32_t k = 1; k <= chain->count; k++)
        t->alike[k] = t->alike[k - 1] +
                      (memcmp(&t->measures[k], &t->measures[k - 1], sizeof t->measures[k]) == 0);
    t->most = count_ways(t);
    const int64_t repeats = MOST_REPEATS + REPEATS_BASE / ((int64_t)graph->node_count + 1);
    if (__builtin_mul_overflow(graph->total_cost_ns, repeats, &t->most_cost))
        t->most_cost = INT64_MAX;
    return fill(t);
}

rp_status rp_chain_dp_list(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                           rp_sink sink) {
    (void)argument;
    rp_chain chain;
    rp_status status = rp_chain_create(expander->graph, "chain-dp", true, MOST_STAGES, &chain);
    if (status != RP_OK)
        return status;
    table t;
    status = make_table(expander->graph, &chain, &t);
    if (status == RP_OK)
        status = list_ways(&t, expander, drops, sink);
    clear_table(&t);
    rp_chain_clear(expander->graph->context, &chain);
    return status;
}

rp_status rp_propose_chain_dp(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    return rp_propose_list(graph, rp_chain_dp_list, argument, set);
}
