/* The expansion: which nodes run in which order, when each value ends, and what is live. */
#include "expand.h"

#include <string.h>

/* Schedules longer than this many runs a node are given up: nothing useful comes of them. */
enum { MAX_RUNS_PER_NODE = 24, MAX_RUNS_BASE = 65536 };

/* ---- First pass: who runs when --------------------------------------------------------------- */

/* Whether the value, last used in its `last_stage`, is still carried when stage t begins. */
static inline bool is_carried(const rp_expander *x, const rp_drops *drops, uint32_t value,
                              uint32_t t) {
    const uint32_t since = x->last_stage[value];
    if (since == t)
        return true;
    for (uint32_t e = drops->head[value]; e != RP_NONE; e = drops->entries[e].next)
        if (drops->entries[e].stage >= since && drops->entries[e].stage < t)
            return false;
    return true;
}

static bool reserve_runs(rp_expander *x, size_t outputs) {
    rp_context *const context = x->graph->context;
    if (x->run_count < x->run_capacity && x->run_count < x->stage_capacity &&
        x->instance_count + outputs <= x->instance_capacity)
        return true;
    return rp_reserve(context, &x->run_node, &x->run_capacity, x->run_count + 1,
                      sizeof *x->run_node) &&
           rp_reserve(context, &x->run_stage, &x->stage_capacity, x->run_count + 1,
                      sizeof *x->run_stage) &&
           rp_reserve(context, &x->instances, &x->instance_capacity, x->instance_count + outputs,
                      sizeof *x->instances);
}

/* Node n runs in stage t. An output that is still carried stays where it is: whether it really is
 * live shows only when somebody uses it. */
static bool run_node(rp_expander *x, const rp_drops *drops, uint32_t n, uint32_t t) {
    const uint32_t begin = x->output_begin[n], end = x->output_begin[n + 1];
    if (!reserve_runs(x, end - begin))
        return false;
    const uint32_t run = (uint32_t)x->run_count++;
    x->run_node[run] = n;
    x->run_stage[run] = t;
    for (uint32_t i = x->input_begin[n]; i < x->input_begin[n + 1]; i++) {
        x->instances[x->current[x->inputs[i]]].last = run;
        x->last_stage[x->inputs[i]] = t;
    }
    for (uint32_t o = begin; o < end; o++) {
        const uint32_t value = x->outputs[o];
        if (n != t && is_carried(x, drops, value, t))
            continue;
        x->instances[x->instance_count] = (rp_instance){value, run, run, RP_NONE};
        x->current[value] = (uint32_t)x->instance_count++;
        x->last_stage[value] = t;
    }
    return true;
}

/* How a pass ended. */
typedef enum outcome { COMPLETE, BEYOND, NO_MEMORY } outcome;

/* Runs again what `list` of stage t lacks, depth first, each just before its reader. */
static outcome run_missing(rp_expander *x, const rp_drops *drops, uint32_t list, uint32_t t,
                           int64_t max_cost, size_t max_runs) {
    const rp_graph *graph = x->graph;
    size_t depth = 1;
    x->stack[0] = list;
    x->cursor[0] = x->input_begin[list];
    for (;;) {
        const uint32_t n = x->stack[depth - 1];
        uint32_t i = x->cursor[depth - 1];
        while (i < x->input_begin[n + 1] && is_carried(x, drops, x->inputs[i], t))
            i++;
        if (i < x->input_begin[n + 1]) {
            const uint32_t writer = graph->values[x->inputs[i]].writer;
            x->cursor[depth - 1] = i + 1;
            x->stack[depth] = writer;
            x->cursor[depth++] = x->input_begin[writer];
            continue;
        }
        if (--depth == 0)
            return COMPLETE;
        if (__builtin_add_overflow(x->cost, graph->nodes[n].cost_ns, &x->cost) ||
            x->cost > max_cost || x->run_count >= max_runs)
            return BEYOND;
        if (!run_node(x, drops, n, t))
            return NO_MEMORY;
    }
}

static outcome find_runs(rp_expander *x, const rp_drops *drops, int64_t max_cost) {
    const uint32_t nodes = (uint32_t)x->graph->node_count;
    const size_t max_runs = (size_t)nodes * MAX_RUNS_PER_NODE + MAX_RUNS_BASE;
    x->run_count = x->instance_count = 0;
    x->cost = 0;
    for (uint32_t t = 0; t <= nodes; t++) {
        const outcome end = run_missing(x, drops, t, t, max_cost, max_runs);
        if (end != COMPLETE)
            return end;
        if (t < nodes && !run_node(x, drops, t, t))
            return NO_MEMORY;
    }
    for (uint32_t i = x->input_begin[nodes]; i < x->input_begin[nodes + 1]; i++)
        x->instances[x->current[x->inputs[i]]].last = RP_NONE;
    x->made_count = x->instance_count;
    return COMPLETE;
}

/* ---- Second pass: what is live --------------------------------------------------------------- */

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
    if (!x->has_views)
        return x->instances[x->at[value]].last == run;
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
    int64_t live = graph->persistent_bytes;
    x->peak = live;
    x->peak_run = 0;
    x->excess = 0;
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
        x->run_live[run] = now;
        if (now > level && __builtin_add_overflow(x->excess, now - level, &x->excess))
            x->excess = INT64_MAX;
        if (now > x->peak) {
            x->peak = now;
            x->peak_run = run;
        }
        end_instances(x, run, &live);
    }
    return COMPLETE;
}

rp_status rp_expander_run(rp_expander *expander, const rp_drops *drops, rp_limits limits,
                          bool *within) {
    outcome end = find_runs(expander, drops, limits.cost);
    if (end == COMPLETE)
        end = find_peak(expander, limits.peak, limits.level);
    *within = end == COMPLETE;
    return end == NO_MEMORY ? rp_fail_memory(expander->graph->context, "a schedule being tried")
                            : RP_OK;
}

/* ---- Results --------------------------------------------------------------------------------- */

rp_status rp_expander_build(const rp_expander *x, rp_schedule *schedule) {
    rp_context *const context = x->graph->context;
    schedule->count = 0;
    for (uint32_t run = 0; run < x->run_count; run++) {
        bool ok = rp_schedule_append(context, schedule, RP_STEP_RUN, x->run_node[run]);
        for (uint32_t e = x->run_end[run]; ok && e != RP_NONE; e = x->instances[e].next)
            ok = rp_schedule_append(context, schedule, RP_STEP_DROP, x->instances[e].value);
        if (!ok)
            return rp_fail_memory(context, "a schedule");
    }
    return RP_OK;
}

/* The instances that are live at `run` without being touched by it; `current` of each value becomes
 * its place among them, or RP_NONE. */
static size_t list_untouched(rp_expander *x, uint32_t run, rp_wait *waits) {
    size_t count = 0;
    memset(x->current, 0xFF, x->graph->value_count * sizeof *x->current);
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
        x->current[instance->value] = (uint32_t)count;
        waits[count++] = (rp_wait){i, instance->value, instance->begin, (uint32_t)x->run_count};
    }
    return count;
}

size_t rp_expander_list_waits(rp_expander *x, uint32_t run, rp_wait *waits) {
    const size_t count = list_untouched(x, run, waits);
    for (uint32_t r = 0; r < x->run_count; r++) {
        const uint32_t n = x->run_node[r];
        for (uint32_t i = x->input_begin[n]; i < x->input_begin[n + 1]; i++) {
            const uint32_t place = x->current[x->inputs[i]];
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
