/* The naive checker. It sees the graph through the public calls only. */
#include "naive.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>

enum { IN_MEMORY, GOING_OUT, OUTSIDE, COMING_BACK };

/* A value that exists somewhere. Storages have numbers; the bytes of one are those of `root`. */
typedef struct entry {
    bool exists;
    int where;
    uint64_t storage;     /* meaningless while OUTSIDE */
    uint32_t step, value; /* the key of the storage's place */
} entry;

typedef struct naive {
    const rp_graph *graph;
    const rp_step *steps;
    size_t count;
    size_t values, nodes;
    entry *entries;
    uint32_t *runs;         /* of each node */
    bool *gone_at_the_turn; /* of each value */
    uint64_t next_storage;
    const rp_placement *places; /* NULL: none are known */
    size_t place_count;
    rp_naive result;
} naive;

static rp_value_info value_of(const naive *n, uint32_t v) {
    rp_value_info info;
    rp_graph_value(n->graph, v, &info);
    return info;
}

static rp_node_info node_of(const naive *n, uint32_t i) {
    rp_node_info info;
    rp_graph_node(n->graph, i, &info);
    return info;
}

static uint32_t root_of(const naive *n, uint32_t v) {
    while (value_of(n, v).alias_of != RP_NONE)
        v = value_of(n, v).alias_of;
    return v;
}

static bool is_persistent(const naive *n, uint32_t v) {
    return value_of(n, v).kind == RP_PERSISTENT;
}

static int64_t rounded(const naive *n, int64_t bytes) {
    const int64_t a = rp_graph_alignment(n->graph);
    return (bytes + a - 1) / a * a;
}

/* Bytes of the storage that v lies on. */
static int64_t bytes_of(const naive *n, uint32_t v) {
    const uint32_t root = root_of(n, v);
    return is_persistent(n, root) ? 0 : rounded(n, value_of(n, root).bytes);
}

static bool on_device(const naive *n, uint32_t v) {
    return n->entries[v].exists && n->entries[v].where != OUTSIDE;
}

static bool is_readable(const naive *n, uint32_t v) {
    return is_persistent(n, v) || (n->entries[v].exists && (n->entries[v].where == IN_MEMORY ||
                                                            n->entries[v].where == GOING_OUT));
}

static bool contains(const uint32_t *list, size_t count, uint32_t v) {
    for (size_t i = 0; i < count; i++)
        if (list[i] == v)
            return true;
    return false;
}

static int64_t live_bytes(const naive *n) {
    int64_t sum = rp_graph_persistent_bytes(n->graph);
    for (uint32_t v = 0; v < n->values; v++) {
        bool counted = !on_device(n, v);
        for (uint32_t u = 0; u < v && !counted; u++)
            counted = on_device(n, u) && n->entries[u].storage == n->entries[v].storage;
        if (!counted)
            sum += bytes_of(n, v);
    }
    return sum;
}

/* ---- Running --------------------------------------------------------------------------------- */

static bool overwritten_since(const naive *n, uint32_t node, uint32_t value) {
    for (uint32_t w = node; w < n->nodes; w++) {
        const rp_node_info info = node_of(n, w);
        if (n->runs[w] > 0 && contains(info.outputs, info.output_count, root_of(n, value)) &&
            is_persistent(n, root_of(n, value)))
            return true;
    }
    return false;
}

static bool may_run(const naive *n, uint32_t node) {
    const rp_node_info info = node_of(n, node);
    for (size_t i = 0; i < info.input_count; i++)
        if (!is_readable(n, info.inputs[i]))
            return false;
    for (size_t i = 0; i < info.output_count; i++)
        if (n->entries[info.outputs[i]].exists && n->entries[info.outputs[i]].where != IN_MEMORY)
            return false;
    if (n->runs[node] == 0) {
        for (uint32_t earlier = 0; earlier < n->nodes; earlier++)
            if ((n->runs[earlier] > 0) != (earlier < node))
                return false;
        return true;
    }
    if (!info.recomputable || info.mark == RP_MARK_KEEP)
        return false;
    for (size_t i = 0; i < info.output_count; i++)
        if (is_persistent(n, info.outputs[i]))
            return false;
    for (size_t i = 0; i < info.input_count; i++)
        if (overwritten_since(n, node, info.inputs[i]))
            return false;
    return true;
}

/* The value whose storage the view joins, or RP_NONE. */
static uint32_t base_of(const naive *n, const rp_node_info *info, uint32_t view) {
    uint32_t base = value_of(n, view).alias_of;
    if (on_device(n, base))
        return n->entries[base].where == IN_MEMORY ? base : RP_NONE;
    for (size_t i = 0; i < info->input_count + info->output_count; i++) {
        base = i < info->input_count ? info->inputs[i] : info->outputs[i - info->input_count];
        if (base != view && root_of(n, base) == root_of(n, view) && on_device(n, base))
            return n->entries[base].where == IN_MEMORY ? base : RP_NONE;
    }
    return RP_NONE;
}

static bool materialise(naive *n, size_t step, const rp_node_info *info, bool *fresh) {
    for (int views = 0; views < 2; views++)
        for (size_t i = 0; i < info->output_count; i++) {
            const uint32_t v = info->outputs[i];
            const bool view = value_of(n, v).alias_of != RP_NONE;
            if (is_persistent(n, v) || view != (views == 1) || n->entries[v].exists)
                continue;
            entry made = {true, IN_MEMORY, n->next_storage++, (uint32_t)step, v};
            if (view && !is_persistent(n, root_of(n, v))) {
                const uint32_t base = base_of(n, info, v);
                if (base == RP_NONE)
                    return false;
                made = n->entries[base];
                made.where = IN_MEMORY;
            }
            n->entries[v] = made;
            fresh[v] = !view;
        }
    return true;
}

/* Whether every value on the storage is dropped in the unbroken group of drops behind the step. */
static bool dies_behind(const naive *n, size_t step, uint64_t storage) {
    for (uint32_t v = 0; v < n->values; v++) {
        if (!on_device(n, v) || n->entries[v].storage != storage)
            continue;
        bool dropped = false;
        for (size_t s = step + 1; s < n->count && n->steps[s].kind == RP_STEP_DROP; s++)
            dropped = dropped || n->steps[s].index == v;
        if (!dropped)
            return false;
    }
    return true;
}

/* Where the storage that v lies on has its place; -1: nowhere. */
static int64_t offset_of(const naive *n, uint32_t v) {
    for (size_t i = 0; i < n->place_count; i++)
        if (n->places[i].step == n->entries[v].step && n->places[i].value == n->entries[v].value)
            return n->places[i].offset;
    return -1;
}

static void look_at_places(naive *n, uint32_t output, uint32_t input) {
    if (n->places == NULL || bytes_of(n, output) == 0)
        return;
    n->result.in_place++;
    n->result.in_smaller += bytes_of(n, output) < bytes_of(n, input);
    n->result.elsewhere += offset_of(n, output) != offset_of(n, input);
}

/* `fresh` outputs began in this run; those that get a place are not fresh any more. `taken`: inputs
 * whose place has gone to an output. */
static int64_t saved_in_place(naive *n, size_t step, const rp_node_info *info, bool *fresh,
                              bool *taken) {
    int64_t saved = 0;
    for (size_t i = 0; i < info->inplace_count; i++) {
        const uint32_t o = info->inplace[i].output, v = info->inplace[i].input;
        bool good = fresh[o] && !taken[v] && on_device(n, v) && n->entries[v].where == IN_MEMORY &&
                    !is_persistent(n, root_of(n, v)) && bytes_of(n, o) <= bytes_of(n, v);
        for (size_t k = 0; k < info->input_count; k++)
            good = good && (info->inputs[k] == v || !on_device(n, info->inputs[k]) ||
                            n->entries[info->inputs[k]].storage != n->entries[v].storage);
        if (!good || !dies_behind(n, step, n->entries[v].storage))
            continue;
        look_at_places(n, o, v);
        saved += bytes_of(n, o);
        fresh[o] = false;
        taken[v] = true;
    }
    return saved;
}

static void note_peak(naive *n, int64_t bytes) {
    if (bytes > n->result.live_peak_bytes)
        n->result.live_peak_bytes = bytes;
}

static bool run(naive *n, size_t step, uint32_t node) {
    if (!may_run(n, node))
        return false;
    const rp_node_info info = node_of(n, node);
    bool *fresh = calloc(n->values + 1, sizeof *fresh);
    bool *taken = calloc(n->values + 1, sizeof *taken);
    RP_REQUIRE(fresh != NULL && taken != NULL, "no memory");
    const bool good = materialise(n, step, &info, fresh);
    if (good) {
        const int64_t saved = saved_in_place(n, step, &info, fresh, taken);
        note_peak(n, live_bytes(n) - saved + rounded(n, info.workspace_bytes));
        if (n->runs[node]++ > 0) {
            n->result.recompute_nodes++;
            n->result.recompute_cost_ns += info.cost_ns;
        }
    }
    free(fresh);
    free(taken);
    return good;
}

/* ---- The other steps ------------------------------------------------------------------------- */

static bool alone(const naive *n, uint32_t v) {
    for (uint32_t u = 0; u < n->values; u++)
        if (u != v && on_device(n, u) && n->entries[u].storage == n->entries[v].storage)
            return false;
    return value_of(n, v).alias_of == RP_NONE;
}

static bool take(naive *n, size_t step) {
    const rp_step s = n->steps[step];
    if (s.kind == RP_STEP_RUN)
        return s.index < n->nodes && run(n, step, s.index);
    if (s.kind > RP_STEP_WAIT || s.index >= n->values || is_persistent(n, s.index))
        return false;
    entry *e = &n->entries[s.index];
    if (!e->exists)
        return false;
    switch (s.kind) {
    case RP_STEP_DROP:
        e->exists = false;
        return e->where == IN_MEMORY || e->where == OUTSIDE;
    case RP_STEP_OFFLOAD:
        if (e->where != IN_MEMORY || !alone(n, s.index))
            return false;
        e->where = GOING_OUT;
        return true;
    case RP_STEP_FETCH:
        if (e->where != OUTSIDE)
            return false;
        *e = (entry){true, COMING_BACK, n->next_storage++, (uint32_t)step, s.index};
        note_peak(n, live_bytes(n));
        return true;
    default:
        if (e->where != GOING_OUT && e->where != COMING_BACK)
            return false;
        e->where = e->where == GOING_OUT ? OUTSIDE : IN_MEMORY;
        return true;
    }
}

/* Whether the first run of every forward node but of no backward node has happened. */
static bool is_turn(const naive *n) {
    for (uint32_t i = 0; i < n->nodes; i++)
        if ((n->runs[i] > 0) != (node_of(n, i).phase == RP_FORWARD))
            return false;
    return true;
}

static bool marks_are_honoured(const naive *n) {
    bool turned = false, forward = false;
    for (uint32_t i = 0; i < n->nodes; i++) {
        const rp_phase phase = node_of(n, i).phase;
        if (turned && phase == RP_FORWARD)
            return true; /* the phases are mixed: there is no turn */
        forward = forward || phase == RP_FORWARD;
        turned = turned || phase == RP_BACKWARD;
    }
    for (uint32_t i = 0; i < n->nodes && turned && forward; i++) {
        const rp_node_info info = node_of(n, i);
        for (size_t k = 0; info.mark == RP_MARK_RECOMPUTE && k < info.output_count; k++)
            if (!is_persistent(n, info.outputs[k]) && !n->gone_at_the_turn[info.outputs[k]])
                return false;
    }
    return true;
}

static bool is_finished(const naive *n) {
    size_t count = 0;
    const uint32_t *outputs = rp_graph_outputs(n->graph, &count);
    for (size_t i = 0; i < count; i++)
        if (!is_persistent(n, outputs[i]) &&
            (!n->entries[outputs[i]].exists || n->entries[outputs[i]].where != IN_MEMORY))
            return false;
    for (uint32_t i = 0; i < n->nodes; i++)
        if (n->runs[i] == 0)
            return false;
    return marks_are_honoured(n);
}

rp_naive rp_naive_check(const rp_graph *graph, const rp_step *steps, size_t count) {
    return rp_naive_check_places(graph, steps, count, NULL, 0);
}

rp_naive rp_naive_check_places(const rp_graph *graph, const rp_step *steps, size_t count,
                               const rp_placement *places, size_t place_count) {
    naive n = {.graph = graph,
               .steps = steps,
               .count = count,
               .places = places,
               .place_count = place_count,
               .values = rp_graph_value_count(graph),
               .nodes = rp_graph_node_count(graph)};
    n.entries = calloc(n.values + 1, sizeof *n.entries);
    n.runs = calloc(n.nodes + 1, sizeof *n.runs);
    n.gone_at_the_turn = calloc(n.values + 1, sizeof *n.gone_at_the_turn);
    RP_REQUIRE(n.entries != NULL && n.runs != NULL && n.gone_at_the_turn != NULL, "no memory");
    n.result.valid = true;
    n.result.live_peak_bytes = rp_graph_persistent_bytes(graph);
    for (size_t s = 0; s < count && n.result.valid; s++) {
        n.result.valid = take(&n, s);
        for (uint32_t v = 0; v < n.values && is_turn(&n); v++)
            n.gone_at_the_turn[v] = n.gone_at_the_turn[v] || !n.entries[v].exists;
    }
    n.result.valid = n.result.valid && is_finished(&n);
    free(n.entries);
    free(n.runs);
    free(n.gone_at_the_turn);
    return n.result;
}
