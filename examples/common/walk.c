/* The walk: steps and placements in, places bound out. Knows the rules of the graph format and
 * nothing of planners. */
#include "walk.h"

#include <stdlib.h>

/* One materialisation: bytes at a place, until the last value on them is dropped. */
typedef struct storage {
    int64_t offset, bytes;
    uint32_t holders;   /* values on it that are not dropped */
    uint32_t successor; /* the storage that took over this place in the run that reads it last;
                           RP_NONE */
    bool is_gradient;
} storage;

typedef struct walk {
    const rp_graph *graph;
    int64_t alignment;
    int64_t *place;      /* of each value: where its next storage begins */
    uint32_t *at;        /* of each value: its storage, RP_NONE when it is not live or persistent */
    bool *is_persistent; /* of each value: at the end of its chain of views */
    bool *is_gradient;
    bool *has_run;   /* of each node */
    bool has_turned; /* a backward node has run */
    storage *storages;
    size_t count, capacity;
    int64_t transient_bytes;
    int64_t highest; /* end of a place that was bound */
    walk_report report;
} walk;

static int64_t round_up(const walk *w, int64_t bytes) {
    return (bytes + w->alignment - 1) / w->alignment * w->alignment;
}

static uint32_t root_of(const rp_graph *graph, uint32_t value) {
    rp_value_info info;
    rp_graph_value(graph, value, &info);
    while (info.alias_of != RP_NONE) {
        value = info.alias_of;
        rp_graph_value(graph, value, &info);
    }
    return value;
}

/* Outputs of the graph that backward nodes write: gradients of parameters. */
static void mark_gradients(walk *w) {
    size_t output_count = 0;
    const uint32_t *outputs = rp_graph_outputs(w->graph, &output_count);
    for (size_t i = 0; i < output_count; i++)
        w->is_gradient[outputs[i]] = true;
    for (size_t n = 0; n < rp_graph_node_count(w->graph); n++) {
        rp_node_info node;
        rp_graph_node(w->graph, (uint32_t)n, &node);
        for (size_t i = 0; i < node.output_count && node.phase == RP_FORWARD; i++)
            w->is_gradient[node.outputs[i]] = false;
    }
}

static bool walk_open(walk *w, const rp_graph *graph, failure *failure) {
    const size_t values = rp_graph_value_count(graph), nodes = rp_graph_node_count(graph);
    *w = (walk){.graph = graph, .alignment = rp_graph_alignment(graph)};
    w->place = calloc(values + 1, sizeof *w->place);
    w->at = calloc(values + 1, sizeof *w->at);
    w->is_persistent = calloc(values + 1, sizeof *w->is_persistent);
    w->is_gradient = calloc(values + 1, sizeof *w->is_gradient);
    w->has_run = calloc(nodes + 1, sizeof *w->has_run);
    if (w->place == NULL || w->at == NULL || w->is_persistent == NULL || w->is_gradient == NULL ||
        w->has_run == NULL)
        return fail_memory(failure, "the walk through the plan");
    for (size_t v = 0; v < values; v++) {
        rp_value_info info;
        rp_graph_value(graph, root_of(graph, (uint32_t)v), &info);
        w->is_persistent[v] = info.kind == RP_PERSISTENT;
        w->at[v] = RP_NONE;
    }
    mark_gradients(w);
    return true;
}

static void walk_close(walk *w) {
    free(w->place);
    free(w->at);
    free(w->is_persistent);
    free(w->is_gradient);
    free(w->has_run);
    free(w->storages);
}

static void bind_place(walk *w, int64_t offset, int64_t bytes) {
    const int64_t end = offset + bytes;
    if (bytes > 0 && end > w->highest)
        w->highest = end;
}

/* The storage that a value has, or whose base has, in this run; NULL for what is persistent or
 * nowhere. */
static storage *storage_of(walk *w, uint32_t value) {
    return w->at[value] == RP_NONE ? NULL : &w->storages[w->at[value]];
}

/* A view joins the storage of the nearest base that is live. */
static bool join(walk *w, uint32_t value, uint32_t step, failure *failure) {
    rp_value_info info;
    rp_graph_value(w->graph, value, &info);
    for (uint32_t base = info.alias_of; base != RP_NONE; base = info.alias_of) {
        if (w->at[base] != RP_NONE) {
            w->at[value] = w->at[base];
            w->storages[w->at[base]].holders++;
            return true;
        }
        rp_graph_value(w->graph, base, &info);
    }
    return fail(failure, STATUS_OTHER, "step %u: view %u has no base in memory", step, value);
}

/* The input whose place `offset` is, if this run takes one over. */
static storage *find_taken_over(walk *w, const rp_node_info *node, int64_t offset, int64_t bytes) {
    for (size_t i = 0; i < node->input_count && bytes > 0; i++) {
        storage *input = storage_of(w, node->inputs[i]);
        if (input != NULL && input->offset == offset && input->bytes >= bytes &&
            input->successor == RP_NONE)
            return input;
    }
    return NULL;
}

static bool begin(walk *w, const rp_node_info *node, uint32_t value, failure *failure) {
    rp_value_info info;
    rp_graph_value(w->graph, value, &info);
    if (w->count == w->capacity) {
        const size_t capacity = w->capacity == 0 ? 256 : 2 * w->capacity;
        storage *grown = realloc(w->storages, capacity * sizeof *grown);
        if (grown == NULL)
            return fail_memory(failure, "the walk through the plan");
        w->storages = grown;
        w->capacity = capacity;
    }
    const uint32_t index = (uint32_t)w->count++;
    const int64_t bytes = round_up(w, info.bytes);
    storage *before = find_taken_over(w, node, w->place[value], bytes);
    w->storages[index] = (storage){w->place[value], bytes, 1, RP_NONE, w->is_gradient[value]};
    w->at[value] = index;
    if (before != NULL)
        before->successor = index;
    else if (!w->is_gradient[value])
        w->transient_bytes += bytes;
    return true;
}

static bool run(walk *w, uint32_t step, uint32_t index, int64_t workspace_offset,
                failure *failure) {
    rp_node_info node;
    rp_graph_node(w->graph, index, &node);
    if (node.phase == RP_BACKWARD && !w->has_turned) {
        w->has_turned = true;
        w->report.kept_bytes = w->transient_bytes;
    }
    for (size_t i = 0; i < node.input_count; i++) {
        const uint32_t value = node.inputs[i];
        const storage *input = storage_of(w, value);
        if (input != NULL) {
            bind_place(w, input->offset, input->bytes);
        } else if (!w->is_persistent[value]) {
            return fail(failure, STATUS_OTHER,
                        "step %u: node %u reads value %u, which is not in memory", step, index,
                        value);
        }
    }
    for (int views = 0; views <= 1; views++) { /* a view may lie on an output of the same node */
        for (size_t i = 0; i < node.output_count; i++) {
            rp_value_info info;
            const uint32_t value = node.outputs[i];
            rp_graph_value(w->graph, value, &info);
            if (w->at[value] != RP_NONE || w->is_persistent[value] ||
                (info.alias_of != RP_NONE) != (views == 1))
                continue;
            if (!(views == 1 ? join(w, value, step, failure) : begin(w, &node, value, failure)))
                return false;
        }
    }
    for (size_t i = 0; i < node.output_count; i++) {
        const storage *out = storage_of(w, node.outputs[i]);
        if (out != NULL)
            bind_place(w, out->offset, out->bytes);
    }
    const int64_t workspace = round_up(w, node.workspace_bytes);
    bind_place(w, workspace_offset, workspace);
    if (w->transient_bytes + workspace > w->report.transient_peak_bytes)
        w->report.transient_peak_bytes = w->transient_bytes + workspace;
    w->report.runs++;
    w->report.replays += w->has_run[index];
    w->has_run[index] = true;
    return true;
}

static bool drop(walk *w, uint32_t step, uint32_t value, failure *failure) {
    storage *gone = storage_of(w, value);
    if (gone == NULL) {
        return w->is_persistent[value] ||
               fail(failure, STATUS_OTHER, "step %u: value %u is not in memory", step, value);
    }
    w->at[value] = RP_NONE;
    if (--gone->holders > 0)
        return true;
    if (!gone->is_gradient)
        w->transient_bytes -= gone->bytes;
    if (gone->successor != RP_NONE && !w->storages[gone->successor].is_gradient)
        w->transient_bytes += w->storages[gone->successor].bytes;
    return true;
}

static bool walk_steps(walk *w, const rp_plan *plan, failure *failure) {
    size_t step_count = 0, placement_count = 0, next = 0;
    const rp_step *steps = rp_plan_steps(plan, &step_count);
    const rp_placement *placements = rp_plan_placements(plan, &placement_count);
    for (size_t s = 0; s < step_count; s++) {
        int64_t workspace_offset = 0;
        for (; next < placement_count && placements[next].step <= s; next++)
            if (placements[next].value == RP_NONE)
                workspace_offset = placements[next].offset;
            else
                w->place[placements[next].value] = placements[next].offset;
        const uint32_t step = (uint32_t)s, index = steps[s].index;
        if (steps[s].kind == RP_STEP_RUN) {
            if (!run(w, step, index, workspace_offset, failure))
                return false;
        } else if (steps[s].kind == RP_STEP_DROP) {
            if (!drop(w, step, index, failure))
                return false;
        } else {
            return fail(failure, STATUS_USAGE, "step %zu: a null run of offload is not built yet",
                        s);
        }
    }
    return true;
}

bool walk_plan(const rp_plan *plan, walk_report *report, failure *failure) {
    walk w;
    const rp_graph *graph = rp_plan_graph(plan);
    const bool good = walk_open(&w, graph, failure) && walk_steps(&w, plan, failure);
    const int64_t persistent = rp_graph_persistent_bytes(graph);
    w.report.measured_peak_bytes = w.highest > persistent ? w.highest : persistent;
    *report = w.report;
    walk_close(&w);
    return good;
}
