/* The expansion: which nodes run in which order, when each value ends, and what is live. */
#include "expand.h"

#include <string.h>

/* Schedules longer than this many runs a node are given up: nothing useful comes of them. */
enum { MAX_RUNS_PER_NODE = 24, MAX_RUNS_BASE = 65536 };

/* ---- First pass: who runs when --------------------------------------------------------------- */

/* Whether the value, last used in its `stage`, is still carried when stage t begins. */
static inline bool is_carried(const rp_expander *x, const rp_drops *drops, uint32_t value,
                              uint32_t t) {
    uint32_t e = drops->head[value];
    if (e == RP_NONE)
        return true;
    const uint32_t since = x->use[value].stage;
    if (since == t)
        return true;
    for (; e != RP_NONE; e = drops->entries[e].next)
        if (drops->entries[e].stage >= since && drops->entries[e].stage < t)
            return false;
    return true;
}

static bool reserve_runs(rp_expander *x, size_t outputs) {
    rp_context *const context = x->graph->context;
    return rp_reserve(context, &x->run_node, &x->run_capacity, x->run_count + 1,
                      sizeof *x->run_node) &&
           rp_reserve(context, &x->run_stage, &x->stage_capacity, x->run_count + 1,
                      sizeof *x->run_stage) &&
           rp_reserve(context, &x->instances, &x->instance_capacity, x->instance_count + outputs,
                      sizeof *x->instances);
}

static bool spare(rp_expander *x, uint32_t run, uint32_t value) {
    if (!rp_reserve(x->graph->context, &x->spared, &x->spared_capacity, x->spared_count + 1,
                    sizeof *x->spared))
        return false;
    x->spared[x->spared_count++] = (rp_spared){run, value, x->use[value].instance};
    return true;
}

/* Notes who meets in this run. */
static bool note_meetings(rp_expander *x, uint32_t n, uint32_t run) {
    const uint32_t begin = x->pair_begin[n], end = x->pair_begin[n + 1];
    if (x->meeting_count + (end - begin) > x->meeting_capacity &&
        !rp_reserve(x->graph->context, &x->meetings, &x->meeting_capacity,
                    x->meeting_count + (end - begin), sizeof *x->meetings))
        return false;
    for (uint32_t p = begin; p < end; p++) {
        const uint32_t input = x->use[x->pairs[p].input].instance;
        const uint32_t output = x->use[x->pairs[p].output].instance;
        x->meetings[x->meeting_count++] = (rp_meeting){run, p, input, output, false};
    }
    return true;
}

/* Node n runs in stage t. An output that is still carried stays where it is: whether it really is
 * live shows only when somebody uses it. */
static inline bool run_node(rp_expander *x, const rp_drops *drops, uint32_t n, uint32_t t) {
    const uint32_t begin = x->output_begin[n], end = x->output_begin[n + 1];
    if ((x->run_count >= x->run_capacity || x->run_count >= x->stage_capacity ||
         x->instance_count + (end - begin) > x->instance_capacity) &&
        !reserve_runs(x, end - begin))
        return false;
    const uint32_t run = (uint32_t)x->run_count++;
    x->run_node[run] = n;
    x->run_stage[run] = t;
    for (uint32_t i = x->input_begin[n]; i < x->input_begin[n + 1]; i++) {
        rp_use *const use = &x->use[x->inputs[i]];
        use->run = run;
        use->stage = t;
    }
    for (uint32_t o = begin; o < end; o++) {
        const uint32_t value = x->outputs[o];
        if (n != t) {
            if (is_carried(x, drops, value, t)) {
                if (!spare(x, run, value))
                    return false;
                continue;
            }
            x->instances[x->use[value].instance].last = x->use[value].run;
        }
        x->use[value] = (rp_use){run, t, (uint32_t)x->instance_count};
        x->instances[x->instance_count++] = (rp_instance){value, run, run, RP_NONE};
    }
    return x->pair_begin[n] == x->pair_begin[n + 1] || note_meetings(x, n, run);
}

/* How a pass ended. */
typedef enum outcome { COMPLETE, BEYOND, NO_MEMORY } outcome;

/* Runs again what the list of stage t lacks from its input `first` on, depth first, each just
 * before its reader. */
static outcome run_missing(rp_expander *x, const rp_drops *drops, uint32_t t, uint32_t first,
                           int64_t max_cost, size_t max_runs) {
    size_t depth = 1;
    x->stack[0] = t;
    x->cursor[0] = first;
    for (;;) {
        const uint32_t n = x->stack[depth - 1];
        uint32_t i = x->cursor[depth - 1];
        while (i < x->input_begin[n + 1] && is_carried(x, drops, x->inputs[i], t))
            i++;
        if (i < x->input_begin[n + 1]) {
            const uint32_t writer = x->writer[x->inputs[i]];
            x->cursor[depth - 1] = i + 1;
            x->stack[depth] = writer;
            x->cursor[depth++] = x->input_begin[writer];
            continue;
        }
        if (--depth == 0)
            return COMPLETE;
        if (__builtin_add_overflow(x->cost, x->node_cost[n], &x->cost) || x->cost > max_cost ||
            x->run_count >= max_runs)
            return BEYOND;
        if (!run_node(x, drops, n, t))
            return NO_MEMORY;
    }
}

/* The instances that are current at the end: they end with the last use of their value. */
static void end_current(rp_expander *x) {
    const uint32_t nodes = (uint32_t)x->graph->node_count;
    for (uint32_t o = 0; o < x->output_begin[nodes]; o++) {
        const rp_use use = x->use[x->outputs[o]];
        x->instances[use.instance].last = use.run;
    }
    for (uint32_t i = x->input_begin[nodes]; i < x->input_begin[nodes + 1]; i++)
        x->instances[x->use[x->inputs[i]].instance].last = RP_NONE;
}

/* Goes on from the last prefix that comes before the first replay: the stage that begins there. */
static uint32_t load_prefix(rp_expander *x, uint32_t plain) {
    const uint32_t known = plain < x->intact ? plain : x->intact;
    size_t i = x->prefix_count;
    while (i > 0 && x->prefixes[i - 1].stage > known)
        i--;
    const rp_prefix *from = i > 0 ? &x->prefixes[i - 1] : NULL;
    x->run_count = from != NULL ? from->stage : 0;
    x->instance_count = from != NULL ? from->instances : 0;
    x->meeting_count = from != NULL ? from->meetings : 0;
    x->spared_count = 0;
    x->cost = 0;
    x->intact = plain;
    if (from != NULL)
        memcpy(x->use, from->uses, x->graph->value_count * sizeof *x->use);
    return (uint32_t)x->run_count;
}

/* The stage of the next prefix to be kept: backward, where replays are, in equal parts. */
static uint32_t find_next_prefix(const rp_expander *x) {
    const uint32_t nodes = (uint32_t)x->graph->node_count, first = x->graph->first_backward;
    const uint32_t begin = first != RP_NONE ? first : 0;
    if (x->prefix_count == RP_PREFIXES)
        return RP_NONE;
    return begin + (uint32_t)((uint64_t)(nodes - begin) * x->prefix_count / RP_PREFIXES);
}

static bool keep_prefix(rp_expander *x, uint32_t t) {
    const size_t values = x->graph->value_count;
    rp_use *const uses = rp_alloc(x->graph->context, values, sizeof *uses);
    if (uses == NULL)
        return false;
    memcpy(uses, x->use, values * sizeof *uses);
    x->prefixes[x->prefix_count++] = (rp_prefix){t, x->instance_count, x->meeting_count, uses};
    return true;
}

static outcome find_runs(rp_expander *x, const rp_drops *drops, int64_t max_cost) {
    const uint32_t nodes = (uint32_t)x->graph->node_count;
    const size_t max_runs = (size_t)nodes * MAX_RUNS_PER_NODE + MAX_RUNS_BASE;
    uint32_t next_prefix = find_next_prefix(x);
    for (uint32_t t = load_prefix(x, drops->plain); t <= nodes; t++) {
        for (; t == next_prefix && t <= drops->plain; next_prefix = find_next_prefix(x))
            if (!keep_prefix(x, t))
                return NO_MEMORY;
        uint32_t i = x->input_begin[t];
        while (i < x->input_begin[t + 1] && is_carried(x, drops, x->inputs[i], t))
            i++;
        if (i < x->input_begin[t + 1]) {
            const outcome end = run_missing(x, drops, t, i, max_cost, max_runs);
            if (end != COMPLETE)
                return end;
        }
        if (t < nodes && !run_node(x, drops, t, t))
            return NO_MEMORY;
    }
    end_current(x);
    x->made_count = x->instance_count;
    return COMPLETE;
}

/* ---- Second pass: what is live --------------------------------------------------------------- */

/* The figures before the first run. */
static int64_t begin_figures(rp_expander *x) {
    x->peak = x->graph->persistent_bytes;
    x->peak_run = 0;
    x->excess = 0;
    return x->peak;
}

/* So many bytes are live while the run runs. */
static inline void note_live(rp_expander *x, uint32_t run, int64_t bytes, int64_t level) {
    x->run_live[run] = bytes;
    if (bytes > level && __builtin_add_overflow(x->excess, bytes - level, &x->excess))
        x->excess = INT64_MAX;
    if (bytes > x->peak) {
        x->peak = bytes;
        x->peak_run = run;
    }
}

/* ---- Second pass, without views -------------------------------------------------------------- */

/* Bytes more from run `begin` up to run `end`, which is excluded. */
static inline void add_bytes(rp_expander *x, uint32_t begin, uint32_t end, int64_t bytes) {
    x->run_live[begin] += bytes;
    x->run_live[end] -= bytes;
}

/* Spared outputs that nobody uses any more begin and end with the run. */
static bool make_unused(rp_expander *x) {
    for (size_t s = 0; s < x->spared_count; s++) {
        const rp_spared *spared = &x->spared[s];
        if (x->instances[spared->instance].last >= spared->run)
            continue;
        if (!rp_reserve(x->graph->context, &x->instances, &x->instance_capacity,
                        x->instance_count + 1, sizeof *x->instances))
            return false;
        x->instances[x->instance_count++] =
            (rp_instance){spared->value, spared->run, spared->run, RP_NONE};
        add_bytes(x, spared->run, spared->run + 1, x->size[spared->value]);
    }
    return true;
}

/* Whether meeting m applies: the input ends with the run, the output begins with it, and neither
 * has met another one. */
static bool is_taken_over(const rp_expander *x, size_t m) {
    const rp_meeting *now = &x->meetings[m];
    const rp_instance *output = &x->instances[now->output];
    if (x->instances[now->input].last != now->run ||
        (output->begin != now->run && output->last >= now->run))
        return false;
    for (size_t i = m; i-- > 0 && x->meetings[i].run == now->run;)
        if (x->meetings[i].applies &&
            (x->meetings[i].input == now->input || x->meetings[i].output == now->output))
            return false;
    return true;
}

/* Bytes of outputs that sit in a dying input's place count once. */
static void take_over(rp_expander *x) {
    for (size_t m = 0; m < x->meeting_count; m++) {
        rp_meeting *meeting = &x->meetings[m];
        meeting->applies = is_taken_over(x, m);
        if (meeting->applies)
            add_bytes(x, meeting->run, meeting->run + 1, -x->size[x->pairs[meeting->pair].output]);
    }
}

/* What is live in each run, from what begins and ends in it: no sum can exceed 2^63 - 1, because
 * the graph's own does not. The same outcomes as below. */
static outcome sum_up(rp_expander *x, int64_t max_peak, int64_t level) {
    if (!rp_reserve(x->graph->context, &x->run_live, &x->live_capacity, x->run_count + 1,
                    sizeof *x->run_live))
        return NO_MEMORY;
    memset(x->run_live, 0, (x->run_count + 1) * sizeof *x->run_live);
    for (size_t i = 0; i < x->made_count; i++) {
        const rp_instance *made = &x->instances[i];
        add_bytes(x, made->begin, made->last == RP_NONE ? (uint32_t)x->run_count : made->last + 1,
                  x->size[made->value]);
    }
    if (!make_unused(x))
        return NO_MEMORY;
    take_over(x);
    int64_t live = begin_figures(x);
    for (uint32_t run = 0; run < x->run_count; run++) {
        live += x->run_live[run];
        const int64_t now = live + x->workspace[x->run_node[run]];
        if (now > max_peak)
            return BEYOND;
        note_live(x, run, now, level);
    }
    return COMPLETE;
}

/* ---- Second pass, with views ----------------------------------------------------------------- */

static bool reserve_instances(rp_expander *x) {
    rp_context *const context = x->graph->context;
    const size_t before = x->storage_capacity;
    if (x->instance_count < before)
        return true;
    if (!rp_reserve(context, &x->storage, &x->storage_capacity, x->instance_count + 1,
                    sizeof *x->storage))
        return false;
    const size_t count = x->storage_capacity;
    uint32_t *live_on = rp_resize(context, x->live_on, count, sizeof *live_on);
    if (live_on != NULL)
        x->live_on = live_on;
    uint32_t *taken = rp_resize(context, x->taken, count, sizeof *taken);
    if (taken != NULL)
        x->taken = taken;
    int64_t *bytes = rp_resize(context, x->bytes, count, sizeof *bytes);
    if (bytes != NULL)
        x->bytes = bytes;
    if (live_on != NULL && taken != NULL && bytes != NULL)
        return true;
    x->storage_capacity = before;
    return false;
}

/* Lists the instances that end with each run. */
static void link_ends(rp_expander *x) {
    for (size_t run = 0; run < x->run_count; run++)
        x->run_end[run] = RP_NONE;
    for (size_t i = x->made_count; i-- > 0;) {
        rp_instance *instance = &x->instances[i];
        if (instance->last == RP_NONE)
            continue;
        instance->next = x->run_end[instance->last];
        x->run_end[instance->last] = (uint32_t)i;
    }
}

/* The storage that view `value` joins when node n writes it: that of its base if it is live, else
 * of another value of the group that the node sees. */
static uint32_t find_storage(const rp_expander *x, uint32_t n, uint32_t value) {
    const rp_value *values = x->graph->values;
    const uint32_t base = values[value].alias_of;
    if (!values[base].persistent && x->at[base] != RP_NONE)
        return x->storage[x->at[base]];
    for (uint32_t i = x->input_begin[n]; i < x->input_begin[n + 1]; i++)
        if (values[x->inputs[i]].root == values[value].root)
            return x->storage[x->at[x->inputs[i]]];
    for (uint32_t o = x->output_begin[n]; o < x->output_begin[n + 1]; o++) {
        const uint32_t other = x->outputs[o];
        if (other != value && values[other].root == values[value].root && x->at[other] != RP_NONE)
            return x->storage[x->at[other]];
    }
    return RP_NONE; /* only for views of something persistent */
}

/* An output of node n begins: with an instance that the first pass made, the next in line, or with
 * one that ends at once. */
static outcome begin_instance(rp_expander *x, uint32_t n, uint32_t run, uint32_t value,
                              size_t *next_made, int64_t *live) {
    const rp_value *v = &x->graph->values[value];
    uint32_t id = (uint32_t)*next_made;
    if (*next_made < x->made_count && x->instances[id].begin == run &&
        x->instances[id].value == value) {
        (*next_made)++;
    } else {
        if (!rp_reserve(x->graph->context, &x->instances, &x->instance_capacity,
                        x->instance_count + 1, sizeof *x->instances) ||
            !reserve_instances(x))
            return NO_MEMORY;
        id = (uint32_t)x->instance_count++;
        x->instances[id] = (rp_instance){value, run, run, x->run_end[run]};
        x->run_end[run] = id;
    }
    x->at[value] = id;
    x->storage[id] = id;
    x->bytes[id] = v->bytes;
    x->live_on[id] = 0;
    x->taken[id] = RP_NONE;
    if (v->alias_of != RP_NONE) {
        const uint32_t joined = find_storage(x, n, value);
        x->storage[id] = joined == RP_NONE ? id : joined;
        x->bytes[id] = 0;
    }
    x->live_on[x->storage[id]]++;
    return __builtin_add_overflow(*live, x->bytes[id], live) ? BEYOND : COMPLETE;
}

/* Whether everything on the storage of input `value` ends with this run and the node reads nothing
 * else on it. */
static bool is_given_up(const rp_expander *x, uint32_t n, uint32_t run, uint32_t value) {
    const uint32_t storage = x->storage[x->at[value]];
    for (uint32_t i = x->input_begin[n]; i < x->input_begin[n + 1]; i++)
        if (x->inputs[i] != value && x->storage[x->at[x->inputs[i]]] == storage)
            return false;
    uint32_t ending = 0;
    for (uint32_t e = x->run_end[run]; e != RP_NONE; e = x->instances[e].next)
        ending += x->storage[e] == storage;
    return ending == x->live_on[storage];
}

/* Bytes of outputs that sit in a dying input's place. `taken` of a storage is the run that used it
 * up, as the place of an output or as an output that has one. */
static int64_t count_taken_over(rp_expander *x, uint32_t n, uint32_t run) {
    const rp_graph *graph = x->graph;
    const rp_inplace_pair *pairs = rp_node_inplace(graph, n);
    int64_t saved = 0;
    for (size_t i = 0; i < graph->nodes[n].inplace.count; i++) {
        const uint32_t o = pairs[i].output, input = pairs[i].input;
        if (graph->values[graph->values[input].root].persistent || graph->values[o].persistent ||
            graph->values[o].alias_of != RP_NONE)
            continue;
        const uint32_t fresh = x->at[o], old = x->storage[x->at[input]];
        if (x->instances[fresh].begin != run || x->taken[fresh] == run || x->taken[old] == run ||
            x->bytes[fresh] > x->bytes[old] || !is_given_up(x, n, run, input))
            continue;
        x->taken[fresh] = x->taken[old] = run;
        saved += x->bytes[fresh];
    }
    return saved;
}

static void end_instances(rp_expander *x, uint32_t run, int64_t *live) {
    for (uint32_t e = x->run_end[run]; e != RP_NONE; e = x->instances[e].next) {
        const uint32_t storage = x->storage[e];
        x->at[x->instances[e].value] = RP_NONE;
        if (--x->live_on[storage] == 0)
            *live -= x->bytes[storage];
    }
}

/* `COMPLETE`: the peak is known; `BEYOND`: it is above `max_peak` or beyond all numbers. */
static outcome find_peak(rp_expander *x, int64_t max_peak, int64_t level) {
    const rp_graph *graph = x->graph;
    if (!rp_reserve(graph->context, &x->run_end, &x->end_capacity, x->run_count,
                    sizeof *x->run_end) ||
        !rp_reserve(graph->context, &x->run_live, &x->live_capacity, x->run_count,
                    sizeof *x->run_live) ||
        !reserve_instances(x))
        return NO_MEMORY;
    link_ends(x);
    memset(x->at, 0xFF, graph->value_count * sizeof *x->at);
    int64_t live = begin_figures(x);
    size_t next_made = 0;
    for (uint32_t run = 0; run < x->run_count; run++) {
        const uint32_t n = x->run_node[run];
        for (uint32_t o = x->output_begin[n]; o < x->output_begin[n + 1]; o++) {
            if (x->at[x->outputs[o]] != RP_NONE)
                continue;
            const outcome begun = begin_instance(x, n, run, x->outputs[o], &next_made, &live);
            if (begun != COMPLETE)
                return begun;
        }
        int64_t now = live;
        if (graph->nodes[n].inplace.count > 0)
            now -= count_taken_over(x, n, run);
        if (__builtin_add_overflow(now, graph->nodes[n].workspace, &now) || now > max_peak)
            return BEYOND;
        note_live(x, run, now, level);
        end_instances(x, run, &live);
    }
    return COMPLETE;
}

rp_status rp_expander_run(rp_expander *expander, const rp_drops *drops, rp_limits limits,
                          bool *within) {
    outcome end = find_runs(expander, drops, limits.cost);
    expander->is_linked = expander->has_views;
    if (end == COMPLETE)
        end = (expander->has_views ? find_peak : sum_up)(expander, limits.peak, limits.level);
    *within = end == COMPLETE;
    if (end == NO_MEMORY)
        expander->intact = 0;
    return end == NO_MEMORY ? rp_fail_memory(expander->graph->context, "a schedule being tried")
                            : RP_OK;
}

/* ---- Results --------------------------------------------------------------------------------- */

/* What ends with each run, if it is not known yet: what begins there too comes first. */
static bool link_all(rp_expander *x) {
    if (x->is_linked)
        return true;
    if (!rp_reserve(x->graph->context, &x->run_end, &x->end_capacity, x->run_count,
                    sizeof *x->run_end))
        return false;
    link_ends(x);
    for (size_t i = x->made_count; i < x->instance_count; i++) {
        x->instances[i].next = x->run_end[x->instances[i].last];
        x->run_end[x->instances[i].last] = (uint32_t)i;
    }
    x->is_linked = true;
    return true;
}

rp_status rp_expander_build(rp_expander *x, rp_schedule *schedule) {
    schedule->count = 0;
    if (!link_all(x) || !rp_reserve(x->graph->context, &schedule->steps, &schedule->capacity,
                                    x->run_count + x->instance_count, sizeof *schedule->steps))
        return rp_fail_memory(x->graph->context, "a schedule");
    rp_step *step = schedule->steps;
    for (uint32_t run = 0; run < x->run_count; run++) {
        *step++ = (rp_step){.kind = RP_STEP_RUN, .index = x->run_node[run]};
        for (uint32_t e = x->run_end[run]; e != RP_NONE; e = x->instances[e].next)
            *step++ = (rp_step){.kind = RP_STEP_DROP, .index = x->instances[e].value};
    }
    schedule->count = (size_t)(step - schedule->steps);
    return RP_OK;
}

/* The instances that are live at `run` without being touched by it; `at` of each value becomes
 * its place among them, or RP_NONE. */
static size_t list_untouched(rp_expander *x, uint32_t run, rp_wait *waits) {
    size_t count = 0;
    memset(x->at, 0xFF, x->graph->value_count * sizeof *x->at);
    const uint32_t n = x->run_node[run];
    for (uint32_t i = 0; i < x->made_count && x->instances[i].begin < run; i++) {
        const rp_instance *instance = &x->instances[i];
        if (instance->last <= run) /* RP_NONE is larger than every run */
            continue;
        bool touched = false;
        for (uint32_t k = x->input_begin[n]; k < x->input_begin[n + 1]; k++)
            touched = touched || x->inputs[k] == instance->value;
        if (touched)
            continue;
        x->at[instance->value] = (uint32_t)count;
        waits[count++] = (rp_wait){i, instance->value, instance->begin, (uint32_t)x->run_count};
    }
    return count;
}

size_t rp_expander_list_waits(rp_expander *x, uint32_t run, rp_wait *waits) {
    const size_t count = list_untouched(x, run, waits);
    for (uint32_t r = 0; r < x->run_count; r++) {
        const uint32_t n = x->run_node[r];
        for (uint32_t i = x->input_begin[n]; i < x->input_begin[n + 1]; i++) {
            const uint32_t place = x->at[x->inputs[i]];
            if (place == RP_NONE)
                continue;
            rp_wait *wait = &waits[place];
            if (r < run && r > wait->before)
                wait->before = r;
            if (r > run && r < wait->after)
                wait->after = r;
        }
    }
    return count;
}
