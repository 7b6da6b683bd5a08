/* Working sets, the moments worth looking at, and the lines that their cuts prove. */
#include "bound.h"

#include "expand.h"
#include "moment.h"

enum {
    MOST_MOMENTS = 8, /* of each kind */
    CHOICES = 24,     /* of a hull */
    EFFORT = 400000   /* choices x nodes and values, over all moments */
};

/* ---- Working sets ---------------------------------------------------------------------------- */

/* Of each root: the last node that met it (counted from 1), how many inputs of that node are on it,
 * and whether an output has taken its place; of each value: the last node whose output it was and
 * that has got a place so. */
typedef struct working_set {
    const rp_graph *graph;
    uint32_t *met, *inputs, *taken, *placed;
} working_set;

static int64_t meet(working_set *w, uint32_t node, uint32_t value) {
    const uint32_t root = w->graph->values[value].root;
    if (w->graph->values[root].persistent || w->met[root] == node + 1)
        return 0;
    w->met[root] = node + 1;
    w->inputs[root] = 0;
    return w->graph->values[root].bytes;
}

/* Bytes that in-place outputs can save at most in the first run of a node, in which all outputs
 * begin. Two inputs on one root may lie on two storages (one of them recomputed): more room, but
 * also a second place to take; then every hint is believed. */
static int64_t most_saved(working_set *w, uint32_t node) {
    const rp_graph *graph = w->graph;
    int64_t saved = 0;
    for (size_t i = 0; i < graph->nodes[node].inplace.count; i++) {
        const rp_inplace_pair pair = rp_node_inplace(graph, node)[i];
        const uint32_t root = graph->values[pair.input].root;
        const rp_value *output = &graph->values[pair.output];
        if (output->alias_of != RP_NONE || output->persistent || graph->values[root].persistent ||
            output->bytes > graph->values[root].bytes || w->placed[pair.output] == node + 1 ||
            (w->inputs[root] == 1 && w->taken[root] == node + 1))
            continue;
        w->placed[pair.output] = node + 1;
        w->taken[root] = node + 1;
        saved += output->bytes;
    }
    return saved;
}

static int64_t working_set_of(working_set *w, uint32_t node) {
    const rp_node *n = &w->graph->nodes[node];
    const uint32_t *inputs = rp_node_inputs(w->graph, node);
    const uint32_t *outputs = rp_node_outputs(w->graph, node);
    int64_t bytes = n->workspace;
    for (size_t i = 0; i < n->inputs.count; i++) {
        bytes += meet(w, node, inputs[i]);
        w->inputs[w->graph->values[inputs[i]].root]++;
    }
    for (size_t i = 0; i < n->outputs.count; i++)
        bytes += meet(w, node, outputs[i]);
    return bytes - most_saved(w, node);
}

/* ---- Profiles -------------------------------------------------------------------------------- */

/* Bytes at the first run of each node. */
typedef struct profiles {
    int64_t *base;     /* persistent values and the working set */
    int64_t *least;    /* that, and what is needed behind and cannot be made again */
    int64_t *keep_all; /* live in the schedule without recompute */
    uint32_t *seen;    /* of each root: the last node that met it, counted from 1 */
} profiles;

static void clear_profiles(rp_context *context, profiles *p) {
    rp_free(context, p->base);
    rp_free(context, p->least);
    rp_free(context, p->keep_all);
    rp_free(context, p->seen);
}

static rp_status find_bases(const rp_graph *graph, int64_t *base) {
    rp_context *const context = graph->context;
    working_set w = {graph, rp_alloc(context, graph->value_count, sizeof *w.met),
                     rp_alloc(context, graph->value_count, sizeof *w.inputs),
                     rp_alloc(context, graph->value_count, sizeof *w.taken),
                     rp_alloc(context, graph->value_count, sizeof *w.placed)};
    const bool ok = w.met != NULL && w.inputs != NULL && w.taken != NULL && w.placed != NULL;
    if (ok) {
        for (uint32_t i = 0; i < graph->node_count; i++)
            base[i] = graph->persistent_bytes + working_set_of(&w, i);
        base[graph->node_count] = graph->persistent_bytes;
        for (size_t i = 0; i < graph->output_count; i++) /* as of one more node */
            base[graph->node_count] += meet(&w, (uint32_t)graph->node_count, graph->outputs[i]);
    }
    rp_free(context, w.met);
    rp_free(context, w.inputs);
    rp_free(context, w.taken);
    rp_free(context, w.placed);
    return ok ? RP_OK : rp_fail_memory(context, "the floor of a graph");
}

/* Whether the storage is live while node n runs because its writer cannot run again. */
static bool must_stay(const rp_graph *graph, uint32_t root, uint32_t n) {
    const rp_value *value = &graph->values[root];
    return !value->persistent && value->writer < n && !rp_node_may_rerun(graph, value->writer) &&
           n < rp_value_last_need(graph, root);
}

static int64_t meet_staying(const rp_graph *graph, profiles *p, uint32_t n, uint32_t value) {
    const uint32_t root = graph->values[value].root;
    const bool met = p->seen[root] == n + 1;
    p->seen[root] = n + 1;
    return !met && must_stay(graph, root, n) ? graph->values[root].bytes : 0;
}

/* Bytes of what must stay that the working set of node n has already: it reads it, or writes a view
 * of it. */
static int64_t count_met(const rp_graph *graph, profiles *p, uint32_t n) {
    int64_t bytes = 0;
    for (size_t i = 0; i < graph->nodes[n].inputs.count; i++)
        bytes += meet_staying(graph, p, n, rp_node_inputs(graph, n)[i]);
    for (size_t i = 0; i < graph->nodes[n].outputs.count; i++)
        bytes += meet_staying(graph, p, n, rp_node_outputs(graph, n)[i]);
    return bytes;
}

/* What must stay is counted where the node does not touch it: its working set has the rest. */
static void find_least(const rp_graph *graph, profiles *p) {
    const uint32_t nodes = (uint32_t)graph->node_count;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const rp_value *value = &graph->values[v];
        if (value->alias_of != RP_NONE || !must_stay(graph, v, value->writer + 1))
            continue;
        p->least[value->writer + 1] += value->bytes;
        p->least[rp_value_last_need(graph, v)] -= value->bytes;
    }
    int64_t stays = 0;
    for (uint32_t n = 0; n <= nodes; n++) {
        stays += p->least[n];
        p->least[n] = p->base[n] + stays;
        if (n < nodes)
            p->least[n] -= count_met(graph, p, n);
    }
}

/* Zero where marks leave no schedule. */
static rp_status find_keep_all(rp_expander *x, int64_t *keep_all) {
    rp_drops drops = {0};
    bool within = false;
    rp_status status = rp_drops_create(x, &drops);
    if (status == RP_OK)
        status = rp_expander_run(x, &drops, RP_NO_LIMITS, &within);
    for (size_t run = 0; status == RP_OK && within && run < x->run_count; run++)
        if (x->run_node[run] == x->run_stage[run])
            keep_all[x->run_node[run]] = x->run_live[run];
    rp_drops_clear(x->graph->context, &drops);
    return status;
}

/* ---- Moments --------------------------------------------------------------------------------- */

/* The stage with the highest local maximum that was not taken before; `stages` if there is none. */
static uint32_t take_maximum(const int64_t *profile, uint32_t stages, bool *taken) {
    uint32_t best = stages;
    for (uint32_t n = 1; n < stages; n++) /* nothing was written before stage 0 */
        if (!taken[n] && profile[n] > profile[n - 1] &&
            (n + 1 == stages || profile[n] >= profile[n + 1]) &&
            (best == stages || profile[n] > profile[best]))
            best = n;
    if (best < stages)
        taken[best] = true;
    return best;
}

static rp_status add_lines(rp_context *context, rp_bound *bound, const rp_hull *hull,
                           int64_t base) {
    for (size_t i = 0; i < hull->support_count; i++) {
        const rp_support *s = &hull->supports[i];
        if (!rp_reserve(context, &bound->lines, &bound->capacity, bound->count + 1,
                        sizeof *bound->lines))
            return rp_fail_memory(context, "the bounds of a graph");
        bound->lines[bound->count++] = (rp_bound_line){
            base, s->of_bytes, s->of_cost, s->value, hull->byte_shift, hull->cost_shift};
    }
    return RP_OK;
}

static rp_status look_at(const rp_expander *x, uint32_t stage, size_t choices, int64_t base,
                         rp_bound *bound) {
    rp_context *const context = x->graph->context;
    rp_hull hull;
    rp_status status = rp_hull_create(x, stage, choices, &hull);
    if (status != RP_OK)
        return status;
    if (hull.count > 0) {
        const int64_t least = base + (hull.choices[hull.count - 1].bytes << hull.byte_shift);
        bound->floor_bytes = least > bound->floor_bytes ? least : bound->floor_bytes;
    }
    status = add_lines(context, bound, &hull, base);
    rp_hull_clear(context, &hull);
    return status;
}

/* From the highest moments of both profiles in turn; none where one cut would take seconds. */
static rp_status look_at_moments(const rp_expander *x, const profiles *p, bool *taken,
                                 rp_bound *bound) {
    const rp_graph *graph = x->graph;
    const uint32_t stages = (uint32_t)graph->node_count;
    const size_t affordable = EFFORT / (graph->node_count + graph->value_count + 1);
    const size_t choices = affordable > CHOICES ? CHOICES : affordable > 4 ? affordable : 4;
    const size_t most = affordable / choices > 2 * MOST_MOMENTS ? 2 * MOST_MOMENTS
                        : affordable / choices > 1              ? affordable / choices
                        : affordable > 0                        ? 1
                                                                : 0;
    rp_status status = RP_OK;
    for (size_t i = 0; i < most && status == RP_OK; i++) {
        const uint32_t stage = take_maximum(i % 2 == 0 ? p->keep_all : p->least, stages, taken);
        if (stage < stages)
            status = look_at(x, stage, choices, p->base[stage], bound);
    }
    return status;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static rp_status find_lines(const rp_graph *graph, const profiles *p, rp_bound *bound) {
    rp_expander x;
    rp_status status = rp_expander_create(graph, &x);
    if (status == RP_INFEASIBLE) /* a mark: there is nothing to bound */
        return RP_OK;
    bool *taken = rp_alloc(graph->context, graph->node_count, sizeof *taken);
    if (status == RP_OK && taken == NULL)
        status = rp_fail_memory(graph->context, "the bounds of a graph");
    if (status == RP_OK)
        status = find_keep_all(&x, p->keep_all);
    if (status == RP_OK)
        status = look_at_moments(&x, p, taken, bound);
    rp_free(graph->context, taken);
    rp_expander_clear(&x);
    return status;
}

rp_status rp_bound_create(const rp_graph *graph, rp_bound *bound) {
    rp_context *const context = graph->context;
    const size_t stages = graph->node_count + 1;
    rp_status status = RP_OK;
    *bound = (rp_bound){0};
    profiles p = {.base = rp_alloc(context, stages, sizeof *p.base),
                  .least = rp_alloc(context, stages, sizeof *p.least),
                  .keep_all = rp_alloc(context, stages, sizeof *p.keep_all),
                  .seen = rp_alloc(context, graph->value_count, sizeof *p.seen)};
    if (!p.base || !p.least || !p.keep_all || !p.seen) {
        status = rp_fail_memory(context, "the bounds of a graph");
        goto done;
    }
    status = find_bases(graph, p.base);
    if (status != RP_OK)
        goto done;
    find_least(graph, &p);
    for (size_t n = 0; n < stages; n++)
        if (p.least[n] > bound->floor_bytes)
            bound->floor_bytes = p.least[n];
    status = find_lines(graph, &p, bound);
done:
    clear_profiles(context, &p);
    if (status != RP_OK)
        rp_bound_clear(context, bound);
    return status;
}

void rp_bound_clear(rp_context *context, rp_bound *bound) {
    rp_free(context, bound->lines);
    *bound = (rp_bound){0};
}

int64_t rp_bound_cost(const rp_bound *bound, int64_t budget_bytes) {
    int64_t most = 0;
    for (size_t i = 0; i < bound->count; i++) {
        const rp_bound_line *line = &bound->lines[i];
        const int64_t room = (budget_bytes - line->base) >> line->byte_shift;
        if (budget_bytes < line->base || line->of_cost == 0 ||
            (line->of_bytes > 0 && room >= line->value / line->of_bytes + 1))
            continue; /* nothing fits, or everything does */
        const int64_t left = line->value - line->of_bytes * room;
        const int64_t cost = left <= 0 ? 0 : ((left - 1) / line->of_cost + 1) << line->cost_shift;
        most = cost > most ? cost : most;
    }
    return most;
}
