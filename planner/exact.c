/* Best-first search over states: the moves, and the way back from the goal. */
#include "exact.h"

#include <string.h>

#include "exact_graph.h"
#include "states.h"

enum {
    PENDING = 0x80,  /* of a slot of a state: live since the turn began, and must not stay */
    MOST_PLACES = 6, /* storages that one node may give up to outputs, each tried both ways */
    STORAGES = 2 * RP_EXACT_MOST_VALUES + 2
};

/* A run that is being tried from a state. Storages are numbered from 1: those of the state by their
 * first slots, what begins in the run behind them. */
typedef struct trial {
    uint32_t node, stage;                    /* the stage behind the run */
    uint8_t on[RP_EXACT_MOST_VALUES];        /* of each slot: its storage when the node has run */
    bool pending[RP_EXACT_MOST_VALUES];      /* of each slot */
    int64_t bytes[STORAGES];                 /* of each storage */
    bool touched[STORAGES], begun[STORAGES]; /* by the node: then it stays; in this run */
    uint32_t inputs[STORAGES];               /* of each storage: inputs of the node on it */
    uint8_t places[MOST_PLACES];             /* storages that hints speak of and that need not go */
    uint32_t place_count;
    int64_t live; /* while the node runs, nothing given up */
} trial;

typedef struct exact {
    rp_exact_graph g;
    rp_states states;
    int64_t budget, limit, *effort;
    rp_state *draft; /* of the state that a move leads to */
    uint32_t *asked; /* of each node: the last closure that ran it again */
    uint32_t closure, *list;
    trial t;
    uint8_t
        items[RP_EXACT_MOST_VALUES]; /* storages that may be dropped to make room, largest first */
    uint8_t chosen[RP_EXACT_MOST_VALUES]; /* places in `items` */
    uint32_t item_count;
} exact;

static rp_status fail_memory(const exact *e) {
    return rp_fail_memory(e->g.graph->context, "an exact search");
}

/* ---- What must still come -------------------------------------------------------------------- */

static bool ask(exact *e, uint32_t node, uint32_t *count) {
    if (e->asked[node] != e->closure) {
        e->asked[node] = e->closure;
        e->list[(*count)++] = node;
    }
    return rp_exact_may_rerun(&e->g, node, e->draft->stage);
}

/* Completes the draft: every value that a first run needs and that is not live is made again, and
 * so are the inputs of that. False: that cannot be, or costs too much. */
static bool estimate(exact *e) {
    const rp_graph *graph = e->g.graph;
    const rp_state *d = e->draft;
    uint32_t count = 0;
    int64_t least = d->cost;
    e->closure++;
    for (uint32_t s = 0; s < e->g.slots; s++) {
        const rp_value *value = &graph->values[e->g.value_of[s]];
        const bool needed = value->is_output || value->readers.count > 0;
        if (needed && value->writer < d->stage && e->g.last_need[s] >= d->stage &&
            (d->live[s] == 0 || (d->live[s] & PENDING) != 0) && !ask(e, value->writer, &count))
            return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t n = e->list[i];
        if (__builtin_add_overflow(least, graph->nodes[n].cost_ns, &least))
            return false;
        for (size_t k = 0; k < graph->nodes[n].inputs.count; k++) {
            const uint32_t v = rp_node_inputs(graph, n)[k], s = e->g.slot_of[v];
            if (s != RP_NONE && d->live[s] == 0 && !ask(e, graph->values[v].writer, &count))
                return false;
        }
    }
    e->draft->least = least;
    return least < e->limit;
}

/* Offers the draft, whose slots hold any numbers of storages, in the one form that its state has:
 * useless values are gone, and storages have the numbers of their first slots. */
static rp_status offer(exact *e) {
    uint8_t first[STORAGES] = {0};
    rp_state *d = e->draft;
    for (uint32_t s = 0; s < e->g.slots; s++) {
        const uint8_t storage = d->live[s] & ~PENDING, pending = d->live[s] & PENDING;
        if (storage == 0 || !rp_exact_is_useful(&e->g, d->stage, s)) {
            d->live[s] = 0;
            continue;
        }
        if (first[storage] == 0)
            first[storage] = (uint8_t)(s + 1);
        d->live[s] = first[storage] | pending;
    }
    --*e->effort;
    return !estimate(e) || rp_states_offer(&e->states, d) ? RP_OK : fail_memory(e);
}

/* ---- Running a node -------------------------------------------------------------------------- */

/* Whether the node may run next in this state, and is worth it. */
static bool may_run(const exact *e, const rp_state *state, uint32_t n) {
    const rp_graph *graph = e->g.graph;
    bool missing = n == state->stage;
    if (n != state->stage && !rp_exact_may_rerun(&e->g, n, state->stage))
        return false;
    for (size_t i = 0; i < graph->nodes[n].inputs.count; i++) {
        const uint32_t s = e->g.slot_of[rp_node_inputs(graph, n)[i]];
        if (s != RP_NONE && state->live[s] == 0)
            return false;
    }
    for (size_t o = 0; o < graph->nodes[n].outputs.count && !missing; o++) {
        const uint32_t s = e->g.slot_of[rp_node_outputs(graph, n)[o]];
        missing = s != RP_NONE && state->live[s] == 0 && rp_exact_is_useful(&e->g, state->stage, s);
    }
    for (uint32_t s = 0; n == graph->first_backward && n == state->stage && s < e->g.slots; s++)
        if ((state->live[s] & PENDING) != 0)
            return false;
    return missing;
}

/* The storage that a view joins: that of its base if it is live, else of the first value of the
 * group that the node sees. 0: it has one of its own, being a view of something persistent. */
static uint8_t find_base(const exact *e, uint32_t view) {
    const rp_graph *graph = e->g.graph;
    const rp_value *values = graph->values;
    const rp_node *node = &graph->nodes[e->t.node];
    const uint32_t base = e->g.slot_of[values[view].alias_of];
    if (values[values[view].root].persistent)
        return 0;
    if (e->t.on[base] != 0)
        return e->t.on[base];
    const rp_range lists[] = {node->inputs, node->outputs};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k].count; i++) {
            const uint32_t v = graph->edges[lists[k].begin + i];
            if (values[v].root == values[view].root && v != view && e->t.on[e->g.slot_of[v]] != 0)
                return e->t.on[e->g.slot_of[v]];
        }
    return 0;
}

/* An output begins or, if it is live, stays where it is. */
static void materialise(exact *e, uint32_t value, uint32_t *next) {
    trial *t = &e->t;
    const uint32_t s = e->g.slot_of[value];
    if (t->on[s] == 0) {
        if (e->g.graph->values[value].alias_of != RP_NONE)
            t->on[s] = find_base(e, value);
        if (t->on[s] == 0) {
            t->on[s] = (uint8_t)(*next)++;
            t->bytes[t->on[s]] = rp_exact_bytes(&e->g, s);
            t->begun[t->on[s]] = true;
            t->inputs[t->on[s]] = 0;
            t->live += t->bytes[t->on[s]];
        }
    }
    t->touched[t->on[s]] = true;
}

/* Fills the trial: everything but what is given up or dropped. */
static void begin_trial(exact *e, const rp_state *state, uint32_t n) {
    const rp_graph *graph = e->g.graph;
    trial *t = &e->t;
    uint32_t next = e->g.slots + 1;
    t->node = n;
    t->stage = state->stage + (n == state->stage);
    t->live = graph->persistent_bytes + graph->nodes[n].workspace;
    for (uint32_t s = 0; s < e->g.slots; s++) {
        t->on[s] = state->live[s] & ~PENDING;
        t->pending[s] = (state->live[s] & PENDING) != 0;
        t->touched[s + 1] = t->begun[s + 1] = false;
        t->inputs[s + 1] = 0;
        t->bytes[s + 1] = t->on[s] == s + 1 ? rp_exact_bytes(&e->g, s) : 0;
        t->live += t->bytes[s + 1];
    }
    for (size_t i = 0; i < graph->nodes[n].inputs.count; i++) {
        const uint32_t s = e->g.slot_of[rp_node_inputs(graph, n)[i]];
        if (s == RP_NONE)
            continue;
        t->touched[t->on[s]] = true;
        t->inputs[t->on[s]]++;
    }
    for (int views = 0; views <= 1; views++)
        for (size_t o = 0; o < graph->nodes[n].outputs.count; o++) {
            const uint32_t v = rp_node_outputs(graph, n)[o];
            if (e->g.slot_of[v] != RP_NONE &&
                (graph->values[v].alias_of != RP_NONE) == (views == 1))
                materialise(e, v, &next);
        }
}

/* Whether nothing on the storage is read behind the run. */
static bool is_used_up(const exact *e, uint8_t storage) {
    for (uint32_t s = 0; s < e->g.slots; s++)
        if (e->t.on[s] == storage && rp_exact_is_useful(&e->g, e->t.stage, s))
            return false;
    return true;
}

/* The storages that hints speak of and that are still needed: giving them up is a decision. */
static void find_places(exact *e) {
    const rp_graph *graph = e->g.graph;
    trial *t = &e->t;
    t->place_count = 0;
    for (size_t i = 0; i < graph->nodes[t->node].inplace.count; i++) {
        const uint32_t s = e->g.slot_of[rp_node_inplace(graph, t->node)[i].input];
        if (s == RP_NONE || t->place_count == MOST_PLACES || t->inputs[t->on[s]] != 1 ||
            is_used_up(e, t->on[s]))
            continue;
        bool known = false;
        for (uint32_t p = 0; p < t->place_count; p++)
            known = known || t->places[p] == t->on[s];
        if (!known)
            t->places[t->place_count++] = t->on[s];
    }
}

static bool is_given_up(const exact *e, uint8_t storage, uint32_t given) {
    for (uint32_t p = 0; p < e->t.place_count; p++)
        if (e->t.places[p] == storage)
            return (given >> p & 1) != 0;
    return is_used_up(e, storage);
}

/* Bytes of outputs that begin in the place of an input's storage. */
static int64_t take_over(const exact *e, uint32_t given) {
    const rp_graph *graph = e->g.graph;
    const trial *t = &e->t;
    bool used[STORAGES] = {false};
    int64_t saved = 0;
    for (size_t i = 0; i < graph->nodes[t->node].inplace.count; i++) {
        const rp_inplace_pair pair = rp_node_inplace(graph, t->node)[i];
        const uint32_t o = e->g.slot_of[pair.output], s = e->g.slot_of[pair.input];
        if (o == RP_NONE || s == RP_NONE || graph->values[pair.output].alias_of != RP_NONE ||
            graph->values[graph->values[pair.input].root].persistent)
            continue;
        const uint8_t new = t->on[o], old = t->on[s];
        if (!t->begun[new] || used[new] || used[old] || t->inputs[old] != 1 ||
            t->bytes[new] > t->bytes[old] || !is_given_up(e, old, given))
            continue;
        used[new] = used[old] = true;
        saved += t->bytes[new];
    }
    return saved;
}

/* The state behind the run, without the chosen storages and those given up. */
static rp_status arrive(exact *e, const rp_state *state, uint32_t given, uint32_t chosen) {
    const rp_graph *graph = e->g.graph;
    const trial *t = &e->t;
    rp_state *d = e->draft;
    bool gone[STORAGES] = {false};
    for (uint32_t i = 0; i < chosen; i++)
        gone[e->items[e->chosen[i]]] = true;
    for (uint32_t p = 0; p < t->place_count; p++)
        gone[t->places[p]] = (given >> p & 1) != 0;
    d->before = state;
    d->node = t->node;
    d->stage = t->stage;
    d->cost = state->cost;
    d->runs = state->runs;
    if (t->node != state->stage) {
        d->runs++;
        if (__builtin_add_overflow(d->cost, graph->nodes[t->node].cost_ns, &d->cost))
            return RP_OK;
    }
    const bool turns = e->g.turn == t->node && t->node == state->stage;
    for (uint32_t s = 0; s < e->g.slots; s++) {
        const bool pending = t->pending[s] || (turns && e->g.marked[s]);
        d->live[s] = gone[t->on[s]] || t->on[s] == 0 ? 0 : t->on[s] | (pending ? PENDING : 0);
    }
    return offer(e);
}

/* What may be dropped before the run, the largest first. */
static void list_items(exact *e) {
    const trial *t = &e->t;
    e->item_count = 0;
    for (uint32_t storage = 1; storage <= e->g.slots; storage++) {
        if (t->on[storage - 1] != storage || t->touched[storage] || t->bytes[storage] == 0)
            continue;
        uint32_t i = e->item_count++;
        for (; i > 0 && t->bytes[e->items[i - 1]] < t->bytes[storage]; i--)
            e->items[i] = e->items[i - 1];
        e->items[i] = (uint8_t)storage;
    }
}

/* Every set of items that frees `need` bytes and would not without any one of them: since the items
 * come largest first, the last one is the one to ask. A set that all smaller items cannot complete
 * is left at once, so that the effort is that of the sets that are found. */
static rp_status drop_and_arrive(exact *e, const rp_state *state, uint32_t given, int64_t need) {
    const int64_t *bytes = e->t.bytes;
    int64_t behind[RP_EXACT_MOST_VALUES + 1] = {0}; /* of each item and all that are smaller */
    uint32_t count = 0, next = 0;
    int64_t freed = 0;
    rp_status status = RP_OK;
    for (uint32_t i = e->item_count; i-- > 0;)
        behind[i] = behind[i + 1] + bytes[e->items[i]];
    while (status == RP_OK && *e->effort > 0) {
        if (next < e->item_count && freed + behind[next] >= need) {
            e->chosen[count++] = (uint8_t)next;
            freed += bytes[e->items[next++]];
            if (freed < need)
                continue;
            status = arrive(e, state, given, count);
        } else if (count > 0) { /* another one instead of the last */
            freed -= bytes[e->items[e->chosen[--count]]];
            next = e->chosen[count] + 1U;
            continue;
        } else {
            break;
        }
        freed -= bytes[e->items[e->chosen[--count]]];
    }
    return status;
}

static rp_status run_node(exact *e, const rp_state *state, uint32_t n) {
    rp_status status = RP_OK;
    begin_trial(e, state, n);
    find_places(e);
    list_items(e);
    for (uint32_t given = 0; given < 1U << e->t.place_count && status == RP_OK; given++) {
        const int64_t now = e->t.live - take_over(e, given);
        status = now <= e->budget ? arrive(e, state, given, 0)
                                  : drop_and_arrive(e, state, given, now - e->budget);
    }
    return status;
}

/* Whether another value of the slot's group lies on another storage, so that a view may want to be
 * made again there; or on the same one, and outputs may take the group's place: two storages have
 * two places. */
static bool has_company(const exact *e, const rp_state *state, uint32_t slot) {
    const rp_value *values = e->g.graph->values;
    const uint32_t root = values[e->g.value_of[slot]].root;
    for (uint32_t s = 0; s < e->g.slots && !values[root].persistent; s++)
        if (s != slot && state->live[s] != 0 && values[e->g.value_of[s]].root == root &&
            (e->g.hinted[slot] || ((state->live[s] ^ state->live[slot]) & ~PENDING) != 0))
            return true;
    return false;
}

/* Whether the slot's writer could run again for another output: if this one goes before, it begins
 * again, and may then take over the place of an input. */
static bool is_renewable(const exact *e, const rp_state *state, uint32_t slot) {
    const rp_graph *graph = e->g.graph;
    const uint32_t value = e->g.value_of[slot], writer = graph->values[value].writer;
    for (size_t i = 0; i < graph->nodes[writer].inplace.count; i++)
        if (rp_node_inplace(graph, writer)[i].output == value)
            return writer != state->stage && may_run(e, state, writer);
    return false;
}

/* Drops that no run needs for room: what is marked recompute goes before backward begins, and
 * others go to be made again on another storage. */
static rp_status drop_alone(exact *e, const rp_state *state) {
    rp_status status = RP_OK;
    for (uint32_t s = 0; s < e->g.slots && status == RP_OK; s++) {
        if (state->live[s] == 0 || ((state->live[s] & PENDING) == 0 && !has_company(e, state, s) &&
                                    !is_renewable(e, state, s)))
            continue;
        memcpy(e->draft->live, state->live, e->g.slots);
        e->draft->live[s] = 0;
        e->draft->before = state;
        e->draft->node = RP_NONE;
        e->draft->stage = state->stage;
        e->draft->cost = state->cost;
        e->draft->runs = state->runs;
        status = offer(e);
    }
    return status;
}

/* ---- The search ------------------------------------------------------------------------------ */

static bool is_goal(const exact *e, const rp_state *state) {
    const rp_graph *graph = e->g.graph;
    if (state->stage < graph->node_count)
        return false;
    for (size_t i = 0; i < graph->output_count; i++) {
        const uint32_t s = e->g.slot_of[graph->outputs[i]];
        if (s != RP_NONE && state->live[s] == 0)
            return false;
    }
    return true;
}

static rp_status look_at(exact *e, const rp_state *state) {
    rp_status status = drop_alone(e, state);
    for (uint32_t n = 0; n <= state->stage && n < e->g.graph->node_count && status == RP_OK; n++)
        if (may_run(e, state, n))
            status = run_node(e, state, n);
    return status;
}

/* Steps from `from` to `to`, its successor. What goes and is no input of the node goes before it
 * runs, everything else right behind it. */
static bool append_move(const exact *e, const rp_state *from, const rp_state *to,
                        rp_schedule *schedule) {
    const rp_graph *graph = e->g.graph;
    rp_context *const context = graph->context;
    bool stays[RP_EXACT_MOST_VALUES] = {false}, ok = true;
    for (size_t i = 0; to->node != RP_NONE && i < graph->nodes[to->node].inputs.count; i++) {
        const uint32_t s = e->g.slot_of[rp_node_inputs(graph, to->node)[i]];
        if (s != RP_NONE)
            stays[s] = true;
    }
    for (size_t o = 0; to->node != RP_NONE && o < graph->nodes[to->node].outputs.count; o++) {
        const uint32_t s = e->g.slot_of[rp_node_outputs(graph, to->node)[o]];
        if (s != RP_NONE)
            stays[s] = true;
    }
    for (uint32_t s = 0; s < e->g.slots && ok; s++)
        if (from->live[s] != 0 && to->live[s] == 0 && !stays[s])
            ok = rp_schedule_append(context, schedule, RP_STEP_DROP, e->g.value_of[s]);
    if (ok && to->node != RP_NONE)
        ok = rp_schedule_append(context, schedule, RP_STEP_RUN, to->node);
    for (uint32_t s = 0; s < e->g.slots && ok; s++)
        if (stays[s] && to->live[s] == 0)
            ok = rp_schedule_append(context, schedule, RP_STEP_DROP, e->g.value_of[s]);
    return ok;
}

static rp_status build(const exact *e, const rp_state *goal, rp_schedule *schedule) {
    rp_context *const context = e->g.graph->context;
    size_t count = 0;
    for (const rp_state *s = goal; s->before != NULL; s = s->before)
        count++;
    const rp_state **way = rp_alloc(context, count + 1, sizeof *way);
    bool ok = way != NULL;
    for (const rp_state *s = goal; ok && s != NULL; s = s->before)
        way[s->before == NULL ? 0 : count--] = s;
    for (size_t i = 0; ok && way[i] != goal; i++)
        ok = append_move(e, way[i], way[i + 1], schedule);
    rp_free(context, way);
    return ok ? RP_OK : fail_memory(e);
}

static rp_status search(exact *e, rp_exact_result *result, rp_schedule *schedule) {
    rp_status status = offer(e); /* the draft is the beginning */
    *result = (rp_exact_result){RP_EXACT_NONE, e->limit};
    for (;;) {
        const rp_state *state = status == RP_OK ? rp_states_take(&e->states) : NULL;
        if (state == NULL)
            return status;
        if (is_goal(e, state)) {
            *result = (rp_exact_result){RP_EXACT_FOUND, state->cost};
            return build(e, state, schedule);
        }
        if (*e->effort <= 0) {
            *result = (rp_exact_result){RP_EXACT_STOPPED, state->least};
            return RP_OK;
        }
        status = look_at(e, state);
        if (*e->effort <= 0 && status == RP_OK) { /* perhaps not everything that follows it */
            *result = (rp_exact_result){RP_EXACT_STOPPED, state->least};
            return RP_OK;
        }
    }
}

rp_status rp_exact_solve(const rp_graph *graph, int64_t budget_bytes, int64_t limit_ns,
                         int64_t *effort, rp_exact_result *result, rp_schedule *schedule) {
    rp_context *const context = graph->context;
    exact *e = rp_alloc(context, 1, sizeof *e);
    rp_status status = e == NULL ? rp_fail_memory(context, "an exact search") : RP_OK;
    if (status == RP_OK)
        status = rp_exact_graph_create(graph, &e->g);
    if (status != RP_OK)
        goto fail;
    e->budget = budget_bytes;
    e->limit = limit_ns;
    e->effort = effort;
    rp_states_create(context, e->g.slots, &e->states);
    e->draft = rp_states_draft(&e->states);
    e->asked = rp_alloc(context, graph->node_count, sizeof *e->asked);
    e->list = rp_alloc(context, graph->node_count, sizeof *e->list);
    status = e->draft && e->asked && e->list ? search(e, result, schedule) : fail_memory(e);
fail:
    if (e != NULL) {
        rp_free(context, e->draft);
        rp_free(context, e->asked);
        rp_free(context, e->list);
        rp_states_clear(&e->states);
        rp_exact_graph_clear(&e->g);
    }
    rp_free(context, e);
    return status;
}

/* ---- A whole family -------------------------------------------------------------------------- */

/* The cheapest member within the budget, the one with the smallest peak of those that cost the
 * same; the count if there is none. */
static size_t find_cheapest(const rp_candidates *set, int64_t budget) {
    const size_t count = rp_candidates_count(set);
    size_t best = 0;
    while (best < count && rp_candidates_get(set, best).live_peak_bytes > budget)
        best++;
    while (best + 1 < count && rp_candidates_get(set, best + 1).recompute_cost_ns ==
                                   rp_candidates_get(set, best).recompute_cost_ns)
        best++;
    return best;
}

rp_status rp_exact_improve(const rp_graph *graph, int64_t bottom, int64_t most, int64_t effort,
                           rp_candidates *set) {
    rp_status status = RP_OK;
    int64_t budget = INT64_MAX;
    if (rp_exact_graph_count(graph) > RP_EXACT_MOST_VALUES)
        return RP_OK;
    while (status == RP_OK && effort > 0 && budget >= bottom) {
        const size_t known = find_cheapest(set, budget);
        const bool exists = known < rp_candidates_count(set);
        const int64_t limit = exists ? rp_candidates_get(set, known).recompute_cost_ns : INT64_MAX;
        int64_t left = effort < most ? effort : most;
        rp_exact_result result = {RP_EXACT_STOPPED, 0};
        rp_schedule schedule = {.steps = NULL};
        effort -= left;
        status = rp_exact_solve(graph, budget, limit, &left, &result, &schedule);
        effort += left;
        if (status == RP_OK && result.outcome == RP_EXACT_FOUND)
            status = rp_candidates_offer(set, &schedule);
        if (status == RP_OK)
            status = rp_candidates_prove(set, budget, result.least);
        rp_schedule_clear(graph->context, &schedule);
        const size_t best = find_cheapest(set, budget);
        if (best == rp_candidates_count(set))
            break; /* nothing is feasible, or nothing is known */
        budget = rp_candidates_get(set, best).live_peak_bytes - 1;
    }
    return status;
}
