/* Changes of a list of runs, and which of them stay. */
#include "anneal.h"

#include <string.h>

#include "runs.h"
#include "wide.h"

enum {
    MOST_INSERTED = 64, /* replays that one change puts in */
    TRIES = 24,         /* to find something that waits at a run */
    TARGETS = 24,       /* budgets */
    ROUNDS = 2,         /* visits of each */
    WINDOW = 64,        /* changes from one look at the price to the next */
    PRICE_BITS = 24,    /* fraction of the price */
    CHANGE_EFFORT = 20, /* of a change, whatever comes of it */
    CLOSE_ENOUGH = 1000 /* a gap of less than a thousandth of the total cost is left alone */
};

typedef struct anneal {
    rp_runs runs;
    rp_candidates *set;
    const rp_bound *bound;
    uint64_t random;
    uint64_t price; /* of a byte over the budget, in cost */
    rp_schedule schedule;
} anneal;

/* Steele, Lea & Flood 2014 (splitmix64). Below the limit. */
static uint32_t draw(anneal *a, uint32_t limit) {
    uint64_t z = a->random += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return (uint32_t)(((z ^ (z >> 31)) >> 32) * limit >> 32);
}

/* About -ln of a number between 0 and 1, times 2^16: log2 is taken to be straight between powers of
 * two, so that no library has a say in a plan. */
static uint32_t draw_exponential(anneal *a) {
    const uint32_t bits = draw(a, UINT32_MAX) | 1;
    const int zeros = __builtin_clz(bits);
    const uint32_t fraction = (uint32_t)(((uint64_t)bits << (zeros + 1) & UINT32_MAX) >> 16);
    return (uint32_t)(((((uint64_t)zeros + 1) << 16) - fraction) * 45426 >> 16); /* ln 2 */
}

/* ---- What can be changed --------------------------------------------------------------------- */

/* The next position behind this one that reads the value; the capacity if there is none. */
static uint32_t find_next_use(rp_runs *r, uint32_t value, uint32_t position) {
    const uint32_t *readers = rp_value_readers(r->graph, value);
    r->marks++;
    for (size_t i = 0; i < r->graph->values[value].readers.count; i++)
        r->mark[readers[i]] = r->marks;
    do
        position++;
    while (position < r->capacity && r->mark[rp_runs_node(r, position)] != r->marks);
    return position;
}

/* The last use, in its life before the position, of what the node's writer made then; RP_NONE: it
 * was not made before. */
static uint32_t find_last_use(const rp_runs *r, uint32_t value, uint32_t position) {
    uint32_t at = r->latest[r->graph->values[value].writer];
    while (at != RP_NONE && at >= position)
        at = r->earlier[at];
    if (at == RP_NONE)
        return RP_NONE;
    uint32_t life = r->life_of[at];
    while (r->lives[life].value != value)
        life++;
    return r->lives[life].last;
}

static bool reads(const rp_runs *r, uint32_t n, uint32_t value) {
    for (uint32_t i = r->x->input_begin[n]; i < r->x->input_begin[n + 1]; i++)
        if (r->x->inputs[i] == value)
            return true;
    return false;
}

static void sort(uint32_t *nodes, uint32_t count) { /* there are few */
    for (uint32_t i = 1; i < count; i++) {
        const uint32_t node = nodes[i];
        uint32_t k = i;
        for (; k > 0 && nodes[k - 1] > node; k--)
            nodes[k] = nodes[k - 1];
        nodes[k] = node;
    }
}

/* Nodes to run again just before the position, ascending: n, and of the writers of what has ended
 * before so many percent, at random: the others' values live longer instead. */
static uint32_t list_closure(anneal *a, uint32_t n, uint32_t position, uint32_t percent,
                             uint32_t *nodes) {
    rp_runs *r = &a->runs;
    uint32_t count = 0;
    nodes[count++] = n;
    r->mark[n] = ++r->marks;
    for (uint32_t k = 0; k < count; k++)
        for (uint32_t i = r->x->input_begin[nodes[k]]; i < r->x->input_begin[nodes[k] + 1]; i++) {
            const uint32_t v = r->x->inputs[i], writer = r->graph->values[v].writer;
            if (r->mark[writer] == r->marks || !r->again[writer] || count == MOST_INSERTED)
                continue;
            const uint32_t last = find_last_use(r, v, position);
            if (last == RP_NONE || last >= position || draw(a, 100) >= percent)
                continue;
            r->mark[writer] = r->marks;
            nodes[count++] = writer;
        }
    sort(nodes, count);
    return count;
}

/* ---- Changes of the draft, which is the list before; false: there is nothing to do ----------- */

static bool insert(rp_runs *r, uint32_t position, const uint32_t *nodes, uint32_t count) {
    const uint32_t place = position - r->begin;
    if (r->draft_count + count > r->capacity)
        return false;
    memmove(r->draft + place + count, r->draft + place,
            (r->draft_count - place) * sizeof *r->draft);
    for (uint32_t i = 0; i < count; i++)
        r->draft[place + i] = nodes[i] | RP_AGAIN;
    r->draft_count += count;
    return true;
}

static void leave_out(rp_runs *r, uint32_t place) {
    memmove(r->draft + place, r->draft + place + 1,
            (r->draft_count - place - 1) * sizeof *r->draft);
    r->draft_count--;
}

/* Something that waits while a run needs too much, or now and then any run, is made again for its
 * next use, or some time before. */
static bool drop_something(anneal *a) {
    rp_runs *r = &a->runs;
    static const uint32_t percents[] = {0, 50, 90, 100};
    uint32_t nodes[MOST_INSERTED];
    const bool any = r->hot_count == 0 || draw(a, 4) == 0;
    const uint32_t at =
        any ? r->begin + draw(a, r->capacity - r->begin) : r->hot[draw(a, r->hot_count)];
    const uint32_t first = r->life_of[at]; /* it and all behind it begin here or before */
    for (int i = 0; i < TRIES && first < r->life_count; i++) {
        const rp_life *life = &r->lives[first + draw(a, r->life_count - first)];
        const uint32_t writer = r->graph->values[life->value].writer;
        if (life->last <= at || life->begin >= at || !r->again[writer] ||
            reads(r, rp_runs_node(r, at), life->value))
            continue;
        uint32_t use = find_next_use(r, life->value, at);
        if (use > life->last) /* it stays to the end */
            use = life->last;
        if (draw(a, 4) == 0)
            use = at + 1 + draw(a, use - at);
        return insert(r, use, nodes, list_closure(a, writer, use, percents[draw(a, 4)], nodes));
    }
    return false;
}

/* A few replays in a row are left out. */
static bool save_something(anneal *a) {
    rp_runs *r = &a->runs;
    if (r->replay_count == 0)
        return false;
    const uint32_t first = draw(a, r->replay_count), roll = draw(a, 8);
    const uint32_t most = roll < 5 ? 1 : 1u << (roll - 4);
    for (uint32_t i = first; i < first + most && i < r->replay_count; i++)
        leave_out(r, r->replays[i] - r->begin); /* descending: the next ones have not moved */
    return true;
}

/* A replay takes place earlier, but not before another run of its node, or later. */
static bool shift_something(anneal *a) {
    rp_runs *r = &a->runs;
    if (r->replay_count == 0)
        return false;
    const uint32_t at = r->replays[draw(a, r->replay_count)], run = r->list[at];
    const uint32_t place = at - r->begin, step = 1 + draw(a, 1u << (1 + draw(a, 6)));
    uint32_t to = place;
    if (draw(a, 2) == 0) {
        while (to > 0 && place - to < step && ((r->draft[to - 1] ^ run) & ~RP_AGAIN) != 0)
            to--;
        memmove(r->draft + to + 1, r->draft + to, (place - to) * sizeof *r->draft);
    } else {
        to = place + step < r->draft_count ? place + step : r->draft_count - 1;
        memmove(r->draft + place, r->draft + place + 1, (to - place) * sizeof *r->draft);
    }
    r->draft[to] = run;
    return to != place;
}

/* One replay less, and something else is dropped. */
static bool exchange(anneal *a) {
    rp_runs *r = &a->runs;
    if (r->replay_count == 0)
        return false;
    const uint32_t at = r->replays[draw(a, r->replay_count)];
    if (!drop_something(a))
        return false;
    uint32_t place = at - r->begin; /* or behind, if what is new stands before */
    while (place < r->draft_count && r->draft[place] != r->list[at])
        place++;
    if (place == r->draft_count)
        return false;
    leave_out(r, place);
    return true;
}

/* In sixteenths. */
static const struct {
    bool (*change)(anneal *a);
    uint32_t below;
} changes[] = {{drop_something, 6}, {save_something, 10}, {shift_something, 13}, {exchange, 16}};

static bool change_something(anneal *a) {
    const uint32_t roll = draw(a, 16);
    size_t kind = 0;
    rp_runs_copy(&a->runs);
    while (roll >= changes[kind].below)
        kind++;
    return changes[kind].change(a);
}

/* ---- Annealing ------------------------------------------------------------------------------- */

static rp_status offer(anneal *a) {
    const rp_runs *r = &a->runs;
    const rp_candidate found = {r->peak, r->cost, r->replay_count};
    if (!rp_candidates_wants(a->set, found))
        return RP_OK;
    if (!rp_runs_build(&a->runs, &a->schedule))
        return rp_fail_memory(r->graph->context, "a schedule");
    return rp_candidates_offer(a->set, &a->schedule);
}

static rp_wide energy(const anneal *a, int64_t cost, int64_t over) {
    return cost + ((rp_wide)over * a->price >> PRICE_BITS);
}

/* Too many schedules of the last window were too large, or hardly any: bytes cost more, or less. */
static void adjust_price(anneal *a, uint32_t within) {
    if (within == 0)
        a->price += a->price / 8 + 1;
    else if (within > WINDOW / 4 * 3 && a->price > 16)
        a->price -= a->price / 8;
}

/* For one budget, from one member on. `heat`: what a change may cost at first, on average. */
static rp_status anneal_at(anneal *a, int64_t budget, size_t member, int64_t effort, int64_t heat) {
    rp_runs *r = &a->runs;
    rp_status status = rp_candidates_build(a->set, member, &a->schedule);
    if (status != RP_OK || !rp_runs_load(r, &a->schedule))
        return status;
    r->level = budget;
    r->effort = effort;
    rp_runs_take(r);
    uint32_t within = 0, tried = 0;
    while (status == RP_OK && r->effort > 0) {
        const int64_t left = (int64_t)((rp_wide)r->effort * 1024 / effort);
        const int64_t warm = (int64_t)((rp_wide)heat * left * left >> 20);
        within += r->over == 0;
        if (++tried == WINDOW) {
            adjust_price(a, within);
            tried = within = 0;
        }
        r->effort -= CHANGE_EFFORT;
        if (!change_something(a))
            continue;
        const rp_reading next = rp_runs_measure(r);
        const rp_wide more = energy(a, next.cost, next.over) - energy(a, r->cost, r->over);
        if (more > 0 && more > (rp_wide)warm * draw_exponential(a) >> 16)
            continue;
        rp_runs_take(r);
        status = offer(a);
    }
    return status;
}

/* The cheapest member within the budget, or the smallest one. */
static size_t find_member(const rp_candidates *set, int64_t budget) {
    size_t member = 0;
    while (member + 1 < rp_candidates_count(set) &&
           rp_candidates_get(set, member).live_peak_bytes > budget)
        member++;
    return member;
}

/* Closer together towards the bottom, where costs rise fastest. */
static int64_t find_target(int64_t bottom, int64_t high, int64_t i) {
    return bottom + (int64_t)((rp_wide)(high - bottom) * i * i / (TARGETS * TARGETS));
}

static rp_status visit(anneal *a, int64_t effort) {
    const rp_graph *graph = a->runs.graph;
    const int64_t heat = graph->total_cost_ns / (int64_t)graph->node_count;
    const int64_t high = rp_candidates_get(a->set, 0).live_peak_bytes;
    rp_status status = RP_OK;
    for (int i = 0; i < ROUNDS * TARGETS && status == RP_OK; i++) {
        const size_t last = rp_candidates_count(a->set) - 1;
        const int64_t low = rp_candidates_get(a->set, last).live_peak_bytes;
        const int64_t bottom = low - (low - a->bound->floor_bytes) / 8;
        const int64_t budget = find_target(bottom, high, i % TARGETS);
        const size_t member = find_member(a->set, budget);
        const rp_candidate c = rp_candidates_get(a->set, member);
        const int64_t gap = c.recompute_cost_ns - rp_bound_cost(a->bound, budget);
        if (c.live_peak_bytes <= budget && gap <= graph->total_cost_ns / CLOSE_ENOUGH)
            continue;
        status = anneal_at(a, budget, member, effort / (ROUNDS * TARGETS), heat);
    }
    return status;
}

rp_status rp_anneal(const rp_expander *expander, const rp_bound *bound, int64_t effort,
                    uint64_t random, rp_candidates *set) {
    const rp_graph *graph = expander->graph;
    if (!rp_runs_apply(expander) || rp_candidates_count(set) == 0 || graph->node_count == 0)
        return RP_OK;
    anneal a = {.set = set, .bound = bound, .random = random};
    const int64_t most = rp_candidates_get(set, 0).live_peak_bytes;
    a.price =
        (uint64_t)(((rp_wide)graph->total_cost_ns << PRICE_BITS) / ((rp_wide)most + 1)) / 4 + 16;
    rp_status status = RP_OK;
    if (rp_runs_create(expander, &a.runs))
        status = visit(&a, effort);
    else
        status = rp_fail_memory(graph->context, "the annealing of schedules");
    rp_runs_clear(&a.runs);
    rp_schedule_clear(graph->context, &a.schedule);
    return status;
}
