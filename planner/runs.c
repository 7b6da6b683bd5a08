/* Lists of runs are read from their ends: between two runs a value is pending if a run behind uses
 * it before it is made again, and the bytes that are live there are those of what is pending. Where
 * a draft and the list have the same things pending, and the same runs before, they stay equal: the
 * rest of the figures is known. */
#include "runs.h"

#include <string.h>

/* Pending in the draft, in the list. */
enum { NEW = 1, OLD = 2, BOTH = NEW | OLD };

/* Runs a node on average; positions from one snapshot to the next. */
enum { MOST_RUNS = 4, SPARE_RUNS = 64, SNAP = 16 };

/* ---- Making ---------------------------------------------------------------------------------- */

bool rp_runs_apply(const rp_expander *x) {
    if (x->has_views || x->forced_count > 0)
        return false;
    for (size_t v = 0; v < x->graph->value_count; v++)
        if (x->hold[v] != RP_NONE)
            return false;
    return true;
}

/* Lives of the longest list: first runs make every value, replays what their nodes write. */
static size_t count_lives(const rp_runs *r) {
    size_t most = 1;
    for (size_t n = 0; n < r->graph->node_count; n++) {
        const size_t outputs = r->x->output_begin[n + 1] - r->x->output_begin[n];
        most = r->again[n] && outputs > most ? outputs : most;
    }
    return r->graph->value_count + r->capacity * most;
}

bool rp_runs_create(const rp_expander *x, rp_runs *runs) {
    const rp_graph *graph = x->graph;
    rp_context *const context = graph->context;
    const size_t nodes = graph->node_count, values = graph->value_count;
    const size_t capacity = nodes * MOST_RUNS + SPARE_RUNS;
    *runs = (rp_runs){.x = x, .graph = graph, .capacity = (uint32_t)capacity};
    rp_runs *const r = runs;
    r->again = rp_alloc(context, nodes, sizeof *r->again);
    r->list = rp_alloc(context, capacity, sizeof *r->list);
    r->draft = rp_alloc(context, capacity, sizeof *r->draft);
    r->life_of = rp_alloc(context, capacity, sizeof *r->life_of);
    r->hot = rp_alloc(context, capacity, sizeof *r->hot);
    r->replays = rp_alloc(context, capacity, sizeof *r->replays);
    r->latest = rp_alloc(context, nodes, sizeof *r->latest);
    r->earlier = rp_alloc(context, capacity, sizeof *r->earlier);
    r->pending = rp_alloc(context, values, sizeof *r->pending);
    r->end = rp_alloc(context, values, sizeof *r->end);
    r->first = rp_alloc(context, nodes, sizeof *r->first);
    r->read = rp_alloc(context, capacity, sizeof *r->read);
    r->snaps = rp_alloc(context, (capacity / SNAP + 1) * values, sizeof *r->snaps);
    r->mark = rp_alloc(context, nodes, sizeof *r->mark);
    if (r->again == NULL || r->list == NULL || r->draft == NULL || r->life_of == NULL ||
        r->hot == NULL || r->replays == NULL || r->latest == NULL || r->earlier == NULL ||
        r->pending == NULL || r->end == NULL || r->first == NULL || r->read == NULL ||
        r->snaps == NULL || r->mark == NULL)
        return false;
    for (uint32_t n = 0; n < nodes; n++) {
        r->again[n] = x->output_begin[n] < x->output_begin[n + 1];
        for (uint32_t o = x->output_begin[n]; o < x->output_begin[n + 1]; o++)
            r->again[n] = r->again[n] && !x->fixed[x->outputs[o]];
    }
    r->lives = rp_alloc(context, count_lives(r), sizeof *r->lives);
    return r->lives != NULL;
}

void rp_runs_clear(rp_runs *r) {
    rp_context *const context = r->graph->context;
    rp_free(context, r->again);
    rp_free(context, r->list);
    rp_free(context, r->draft);
    rp_free(context, r->life_of);
    rp_free(context, r->hot);
    rp_free(context, r->replays);
    rp_free(context, r->latest);
    rp_free(context, r->earlier);
    rp_free(context, r->pending);
    rp_free(context, r->end);
    rp_free(context, r->first);
    rp_free(context, r->read);
    rp_free(context, r->snaps);
    rp_free(context, r->mark);
    rp_free(context, r->lives);
}

bool rp_runs_load(rp_runs *r, const rp_schedule *schedule) {
    r->draft_count = 0;
    r->marks++;
    for (size_t i = 0; i < schedule->count; i++) {
        const rp_step s = schedule->steps[i];
        if (s.kind != RP_STEP_RUN)
            continue;
        if (r->draft_count == r->capacity)
            return false;
        r->draft[r->draft_count++] = s.index | (r->mark[s.index] == r->marks ? RP_AGAIN : 0);
        r->mark[s.index] = r->marks;
    }
    return true;
}

void rp_runs_copy(rp_runs *r) {
    r->draft_count = r->capacity - r->begin;
    memcpy(r->draft, r->list + r->begin, r->draft_count * sizeof *r->draft);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Bytes of outputs in the place of inputs that end here; before the inputs are noted as used. Of
 * the first 64 pairs: more bytes than there are do no harm. */
static int64_t find_saved(const rp_runs *r, uint32_t n) {
    const rp_expander *x = r->x;
    const rp_inplace_pair *pairs = x->pairs + x->pair_begin[n];
    const uint32_t count = x->pair_begin[n + 1] - x->pair_begin[n];
    uint64_t applied = 0;
    int64_t saved = 0;
    for (size_t i = 0; i < count && i < 64; i++) {
        bool taken = (r->pending[pairs[i].input] & NEW) != 0;
        for (size_t j = 0; j < i; j++)
            taken = taken || ((applied >> j & 1) != 0 && (pairs[j].input == pairs[i].input ||
                                                          pairs[j].output == pairs[i].output));
        applied |= (uint64_t)!taken << i;
        saved += taken ? 0 : x->size[pairs[i].output];
    }
    return saved;
}

static bool is_needed(const rp_runs *r, uint32_t n) {
    for (uint32_t o = r->x->output_begin[n]; o < r->x->output_begin[n + 1]; o++)
        if ((r->pending[r->x->outputs[o]] & NEW) != 0)
            return true;
    return false;
}

/* What a run adds to the bytes over the level. */
static inline void weigh(rp_runs *r, uint32_t n, int64_t during, rp_reading *at) {
    r->during = during + r->x->workspace[n];
    at->over += r->during > r->level ? r->during - r->level : 0;
}

/* Whether the two lists differ in a value with these bits. */
static inline uint32_t is_difference(uint32_t bits) {
    return (bits ^ bits >> 1) & 1;
}

/* A run of the lists that `who` names: the draft, the list, or both. What loops read stands in
 * locals: a store of bytes could change anything else. */
static inline void read_run(rp_runs *r, uint32_t n, uint8_t who, rp_reading *at) {
    const rp_expander *const x = r->x;
    const int64_t *const size = x->size;
    uint8_t *const pending = r->pending;
    const uint32_t *value = x->outputs + x->output_begin[n];
    const uint32_t *end = x->outputs + x->output_begin[n + 1];
    int64_t live = at->live, during = live;
    uint32_t differences = at->differences;
    for (; value < end; value++) {
        const uint32_t old = pending[*value], now = old & (uint32_t)~who;
        if ((who & NEW) != 0) {
            if ((old & NEW) != 0)
                live -= size[*value];
            else
                during += size[*value];
        }
        if (now != old) {
            differences += is_difference(now) - is_difference(old);
            pending[*value] = (uint8_t)now;
        }
    }
    if ((who & NEW) != 0 && x->pair_begin[n] < x->pair_begin[n + 1])
        during -= find_saved(r, n);
    value = x->inputs + x->input_begin[n];
    end = x->inputs + x->input_begin[n + 1];
    for (; value < end; value++) {
        const uint32_t old = pending[*value], now = old | who;
        if (now == old)
            continue;
        if ((who & NEW) != 0 && (old & NEW) == 0) {
            live += size[*value];
            during += size[*value];
        }
        differences += is_difference(now) - is_difference(old);
        pending[*value] = (uint8_t)now;
    }
    at->live = live;
    at->differences = differences;
    if ((who & NEW) != 0)
        weigh(r, n, during, at);
}

/* A run of the draft, and of the list too if `who` is both; a replay that nobody needs is left
 * out of the draft. */
static inline void read_draft(rp_runs *r, uint32_t run, uint8_t who, rp_reading *at) {
    const uint32_t n = run & ~RP_AGAIN;
    if ((run & RP_AGAIN) != 0 && !is_needed(r, n)) {
        if ((who & OLD) != 0)
            read_run(r, n, OLD, at);
        return;
    }
    if ((run & RP_AGAIN) != 0)
        at->cost += r->x->node_cost[n];
    read_run(r, n, who, at);
}

/* Behind the last run: what must stay is pending. */
static rp_reading begin_reading(rp_runs *r) {
    const rp_expander *x = r->x;
    const size_t nodes = r->graph->node_count;
    rp_reading at = {.live = r->graph->persistent_bytes};
    memset(r->pending, 0, r->graph->value_count);
    for (uint32_t i = x->input_begin[nodes]; i < x->input_begin[nodes + 1]; i++) {
        at.live += r->pending[x->inputs[i]] == 0 ? r->graph->values[x->inputs[i]].bytes : 0;
        r->pending[x->inputs[i]] = BOTH;
    }
    return at;
}

rp_reading rp_runs_measure(rp_runs *r) {
    const uint32_t count = r->draft_count, old_count = r->capacity - r->begin;
    const uint32_t *old = r->list + r->begin, least = count < old_count ? count : old_count;
    uint32_t head = 0, tail = 0; /* runs that are equal at both ends */
    while (head < least && r->draft[head] == old[head])
        head++;
    while (tail < least - head && r->draft[count - 1 - tail] == old[old_count - 1 - tail])
        tail++;
    /* the nearest position behind the difference of which all is known */
    uint32_t from = (r->capacity - tail + SNAP - 1) / SNAP * SNAP;
    rp_reading at;
    if (from >= r->capacity) {
        from = r->capacity;
        at = begin_reading(r);
    } else {
        memcpy(r->pending, r->snaps + (size_t)(from / SNAP) * r->graph->value_count,
               r->graph->value_count);
        at = r->read[from];
    }
    uint32_t i = count - (r->capacity - from);
    const uint32_t begun = i;
    while (i > count - tail)
        read_draft(r, r->draft[--i], BOTH, &at);
    while (i > head)
        read_draft(r, r->draft[--i], NEW, &at);
    for (uint32_t p = old_count - tail; p-- > head;)
        read_run(r, old[p] & ~RP_AGAIN, OLD, &at);
    while (i > 0 && at.differences > 0)
        read_draft(r, r->draft[--i], BOTH, &at);
    if (i > 0) {
        at.cost += r->cost - r->read[r->begin + i].cost;
        at.over += r->over - r->read[r->begin + i].over;
    }
    r->effort -= begun - i;
    return at;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

/* Notes what there is to know of the run at a position, before it is read. */
static void note_run(rp_runs *r, uint32_t at, uint32_t n) {
    const rp_expander *x = r->x;
    r->life_of[at] = r->life_count;
    for (uint32_t o = x->output_begin[n]; o < x->output_begin[n + 1]; o++) {
        const uint32_t v = x->outputs[o];
        r->lives[r->life_count++] = (rp_life){v, at, r->pending[v] != 0 ? r->end[v] : at};
    }
    for (uint32_t i = x->input_begin[n]; i < x->input_begin[n + 1]; i++)
        if (r->pending[x->inputs[i]] == 0)
            r->end[x->inputs[i]] = at;
    if (r->latest[n] == RP_NONE)
        r->latest[n] = at;
    else
        r->earlier[r->first[n]] = at;
    r->first[n] = at;
    r->earlier[at] = RP_NONE;
}

void rp_runs_take(rp_runs *r) {
    const rp_expander *x = r->x;
    const rp_graph *graph = r->graph;
    rp_reading now = begin_reading(r);
    uint32_t at = r->capacity;
    r->life_count = r->replay_count = r->hot_count = 0;
    r->peak = now.live;
    for (size_t n = 0; n < graph->node_count; n++)
        r->latest[n] = RP_NONE;
    for (uint32_t i = x->input_begin[graph->node_count]; i < x->input_begin[graph->node_count + 1];
         i++)
        r->end[x->inputs[i]] = r->capacity - 1;
    for (uint32_t d = r->draft_count; d-- > 0;) {
        const uint32_t run = r->draft[d], n = run & ~RP_AGAIN;
        if ((run & RP_AGAIN) != 0 && !is_needed(r, n))
            continue;
        r->list[--at] = run;
        if ((run & RP_AGAIN) != 0)
            r->replays[r->replay_count++] = at;
        note_run(r, at, n);
        read_draft(r, run, BOTH, &now);
        if (r->during > r->level)
            r->hot[r->hot_count++] = at;
        r->peak = r->during > r->peak ? r->during : r->peak;
        r->read[at] = now;
        if (at % SNAP == 0)
            memcpy(r->snaps + (size_t)(at / SNAP) * graph->value_count, r->pending,
                   graph->value_count);
    }
    r->begin = at;
    r->cost = now.cost;
    r->over = now.over;
    r->effort -= r->draft_count;
}

/* In reverse: a value is dropped behind the use that is met first. */
bool rp_runs_build(rp_runs *r, rp_schedule *schedule) {
    const rp_expander *x = r->x;
    rp_context *const context = r->graph->context;
    bool good = true;
    schedule->count = 0;
    begin_reading(r);
    for (uint32_t p = r->capacity; good && p-- > r->begin;) {
        const uint32_t n = rp_runs_node(r, p);
        for (uint32_t o = x->output_begin[n]; good && o < x->output_begin[n + 1]; o++) {
            if (r->pending[x->outputs[o]] == 0)
                good = rp_schedule_append(context, schedule, RP_STEP_DROP, x->outputs[o]);
            r->pending[x->outputs[o]] = 0;
        }
        for (uint32_t i = x->input_begin[n]; good && i < x->input_begin[n + 1]; i++) {
            if (r->pending[x->inputs[i]] == 0)
                good = rp_schedule_append(context, schedule, RP_STEP_DROP, x->inputs[i]);
            r->pending[x->inputs[i]] = BOTH;
        }
        good = good && rp_schedule_append(context, schedule, RP_STEP_RUN, n);
    }
    for (size_t i = 0, j = schedule->count; i + 1 < j; i++) {
        const rp_step step = schedule->steps[i];
        schedule->steps[i] = schedule->steps[--j];
        schedule->steps[j] = step;
    }
    return good;
}
