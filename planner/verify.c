/* The verifier: an interpreter of schedules that keeps the exact set of live storages. It shares
 * no code with any planner or with the layout, so that a mistake there cannot hide here. Every
 * step takes constant time on average (a group of drops is looked at twice), with placements
 * logarithmic time. */
#include "verify.h"

#include "verify_space.h"

/* Where the copy of a value on its way to or from the host is. */
enum { MOVE_NONE, MOVE_OUT, MOVE_HOST, MOVE_IN };

/* One materialisation: bytes that begin at a step and end when the last value on them is
 * dropped. */
typedef struct storage {
    int64_t bytes, offset;
    uint32_t root;   /* the value whose bytes they are */
    uint32_t begin;  /* step */
    uint32_t values; /* how many live values lie on it; 0: free for another use */
    uint32_t
        over; /* in the run that begins it: the storage whose place it takes over, or RP_NONE */
    uint32_t next; /* in the list of free records */
    /* Of the run at step `seen` - 1: how many of its inputs lie here, how many values here are
     * dropped right behind it, and whether an output has taken the place. */
    uint64_t seen;
    uint32_t inputs, dying;
    bool taken;
} storage;

typedef struct machine {
    const rp_graph *graph;
    const rp_step *steps;
    size_t count;
    rp_space *space;  /* NULL without placements */
    uint32_t *at;     /* value -> storage, RP_NONE while it is not on the device */
    uint8_t *moving;  /* value -> MOVE_* */
    bool *ran;        /* node */
    uint32_t *newest; /* persistent value -> the last node that has written it, or RP_NONE */
    bool *must_go; /* value -> output of a node marked recompute, not seen dropped since the turn */
    size_t must_go_count;
    storage *storages;
    size_t storage_count, storage_capacity;
    uint32_t free_storage;
    uint32_t next_first; /* the node whose first run is due */
    bool turning; /* between the last forward node's and the first backward node's first run */
    int64_t bytes;
    bool any_run;
    rp_verdict verdict;
} machine;

/* "step 12: run 3 (f) reads value 4 (x), which is not live" */
static rp_status fail_run(const machine *m, uint32_t step, const char *what, uint32_t value,
                          const char *why) {
    const uint32_t node = m->steps[step].index;
    if (value == RP_NONE)
        return rp_fail(m->graph->context, RP_BAD_INPUT, "step %u: run %u (%.80s) %s", step, node,
                       rp_node_name(m->graph, node), what);
    return rp_fail(m->graph->context, RP_BAD_INPUT, "step %u: run %u (%.80s) %s value %u (%.80s)%s",
                   step, node, rp_node_name(m->graph, node), what, value,
                   rp_value_name(m->graph, value), why);
}

static rp_status fail_move(const machine *m, uint32_t step, const char *what, const char *why) {
    const uint32_t value = m->steps[step].index;
    return rp_fail(m->graph->context, RP_BAD_INPUT, "step %u: %s of value %u (%.80s), %s", step,
                   what, value, rp_value_name(m->graph, value), why);
}

static rp_status fail_overflow(const machine *m, uint32_t step) {
    const uint32_t x = m->steps[step].index;
    const bool runs = m->steps[step].kind == RP_STEP_RUN;
    return rp_fail(
        m->graph->context, RP_BAD_INPUT, "step %u: with %s %u (%.80s) a sum exceeds 2^63 - 1", step,
        runs ? "node" : "value", x, runs ? rp_node_name(m->graph, x) : rp_value_name(m->graph, x));
}

/* ---- Storages ---- */

static rp_status begin_storage(machine *m, uint32_t step, uint32_t root, int64_t bytes,
                               uint32_t *made) {
    if (!rp_checked_add(m->bytes, bytes, &m->bytes))
        return fail_overflow(m, step);
    uint32_t id = m->free_storage;
    if (id != RP_NONE) {
        m->free_storage = m->storages[id].next;
    } else {
        if (m->storage_count >= RP_NONE ||
            !rp_reserve(m->graph->context, &m->storages, &m->storage_capacity, m->storage_count + 1,
                        sizeof *m->storages))
            return rp_fail_memory(m->graph->context, "the check of a schedule");
        id = (uint32_t)m->storage_count++;
    }
    m->storages[id] =
        (storage){.bytes = bytes, .root = root, .begin = step, .over = RP_NONE, .next = RP_NONE};
    *made = id;
    return RP_OK;
}

static void put_on(machine *m, uint32_t value, uint32_t id) {
    m->at[value] = id;
    m->storages[id].values++;
}

static void take_off(machine *m, uint32_t value) {
    const uint32_t id = m->at[value];
    storage *old = &m->storages[id];
    m->at[value] = RP_NONE;
    if (--old->values > 0)
        return;
    m->bytes -= old->bytes;
    if (m->space != NULL && old->bytes > 0)
        rp_space_end(m->space, old->offset, old->bytes);
    old->next = m->free_storage;
    m->free_storage = id;
}

/* Gives a new storage its address. */
static rp_status place(machine *m, uint32_t step, uint32_t id) {
    storage *new = &m->storages[id];
    if (m->space == NULL || new->bytes == 0)
        return RP_OK;
    const int64_t over = new->over == RP_NONE ? -1 : m->storages[new->over].offset;
    return rp_space_begin(m->space, step, new->root, new->bytes, over, &new->offset);
}

/* ---- Running a node ---- */

static rp_status check_inputs(const machine *m, uint32_t step, uint32_t node) {
    const uint32_t *inputs = rp_node_inputs(m->graph, node);
    for (size_t i = 0; i < m->graph->nodes[node].inputs.count; i++) {
        const uint32_t v = inputs[i];
        if (m->graph->values[v].persistent)
            continue;
        if (m->moving[v] == MOVE_HOST || m->moving[v] == MOVE_IN)
            return fail_run(m, step, "reads", v, ", which is on the host or on its way back");
        if (m->at[v] == RP_NONE)
            return fail_run(m, step, "reads", v, ", which is not live");
    }
    return RP_OK;
}

/* Called when the last forward node has run: what is not live now has gone. */
static void begin_turn(machine *m) {
    m->turning = true;
    for (uint32_t v = 0; v < m->graph->value_count && m->must_go_count > 0; v++)
        if (m->must_go[v] && m->at[v] == RP_NONE && m->moving[v] != MOVE_HOST) {
            m->must_go[v] = false;
            m->must_go_count--;
        }
}

static rp_status end_turn(machine *m, uint32_t step) {
    m->turning = false;
    if (m->must_go_count == 0)
        return RP_OK;
    uint32_t v = 0;
    while (!m->must_go[v])
        v++;
    const uint32_t writer = m->graph->values[v].writer;
    return rp_fail(m->graph->context, RP_BAD_INPUT,
                   "step %u: value %u (%.80s) of node %u (%.80s), marked recompute, was kept into "
                   "the backward phase",
                   step, v, rp_value_name(m->graph, v), writer, rp_node_name(m->graph, writer));
}

static rp_status check_first_run(machine *m, uint32_t step, uint32_t node) {
    if (node != m->next_first)
        return rp_fail(m->graph->context, RP_BAD_INPUT,
                       "step %u: run %u (%.80s) is its first and out of order: node %u (%.80s) is "
                       "due",
                       step, node, rp_node_name(m->graph, node), m->next_first,
                       rp_node_name(m->graph, m->next_first));
    m->next_first++;
    return node == m->graph->first_backward ? end_turn(m, step) : RP_OK;
}

static rp_status check_replay(machine *m, uint32_t step, uint32_t node) {
    const rp_node *n = &m->graph->nodes[node];
    if (!n->recomputable)
        return fail_run(m, step, "runs again but is not recomputable", RP_NONE, "");
    if (n->mark == RP_MARK_KEEP)
        return fail_run(m, step, "runs again but is marked keep", RP_NONE, "");
    const uint32_t *outputs = rp_node_outputs(m->graph, node);
    for (size_t i = 0; i < n->outputs.count; i++)
        if (m->graph->values[outputs[i]].persistent)
            return fail_run(m, step, "runs again but writes persistent", outputs[i], "");
    const uint32_t *inputs = rp_node_inputs(m->graph, node);
    for (size_t i = 0; i < n->inputs.count; i++) {
        /* Of a view of a persistent value, the base counts: the old content is gone there too. */
        const uint32_t writer = m->newest[m->graph->values[inputs[i]].root];
        if (writer != RP_NONE && writer > node)
            return fail_run(m, step, "runs again after persistent",
                            m->graph->values[inputs[i]].root, " was overwritten");
    }
    m->verdict.recompute_nodes++;
    if (!rp_checked_add(m->verdict.recompute_cost_ns, n->cost_ns, &m->verdict.recompute_cost_ns))
        return fail_overflow(m, step);
    return RP_OK;
}

/* The storage that a view joins: that of its direct base if that is live, else that of the first
 * value of the group which the node sees. */
static rp_status find_base(const machine *m, uint32_t step, uint32_t node, uint32_t view,
                           uint32_t *base) {
    const rp_node *n = &m->graph->nodes[node];
    const rp_value *values = m->graph->values;
    uint32_t found = values[view].alias_of;
    const rp_range lists[] = {n->inputs, n->outputs};
    for (size_t k = 0; k < 2 && m->at[found] == RP_NONE; k++)
        for (size_t i = 0; i < lists[k].count && m->at[found] == RP_NONE; i++) {
            const uint32_t v = m->graph->edges[lists[k].begin + i];
            if (values[v].root == values[view].root && v != view)
                found = v;
        }
    if (m->at[found] == RP_NONE)
        return fail_run(m, step, "writes", view, ", a view, but its base is not live");
    if (m->moving[found] != MOVE_NONE)
        return fail_run(m, step, "writes", view, ", a view, while its base is being moved");
    *base = m->at[found];
    return RP_OK;
}

static rp_status materialise_value(machine *m, uint32_t step, uint32_t node, uint32_t v) {
    const rp_value *value = &m->graph->values[v];
    uint32_t id = RP_NONE;
    rp_status status = RP_OK;
    if (m->moving[v] != MOVE_NONE)
        return fail_run(m, step, "writes", v, " while it is being moved or on the host");
    if (m->at[v] != RP_NONE)
        return RP_OK;
    if (m->graph->values[value->root].persistent)
        status = begin_storage(m, step, value->root, 0, &id);
    else if (value->alias_of == RP_NONE)
        status = begin_storage(m, step, v, value->bytes, &id);
    else
        status = find_base(m, step, node, v, &id);
    if (status == RP_OK)
        put_on(m, v, id);
    return status;
}

/* Own storages first, then the views, which may lie on them. */
static rp_status materialise(machine *m, uint32_t step, uint32_t node) {
    const rp_node *n = &m->graph->nodes[node];
    const uint32_t *outputs = rp_node_outputs(m->graph, node);
    for (int views = 0; views < 2; views++)
        for (size_t i = 0; i < n->outputs.count; i++) {
            const rp_value *value = &m->graph->values[outputs[i]];
            if (value->persistent || (value->alias_of != RP_NONE) != (views == 1))
                continue;
            const rp_status status = materialise_value(m, step, node, outputs[i]);
            if (status != RP_OK)
                return status;
        }
    return RP_OK;
}

/* The counters of a storage, fresh for the run at `step`. */
static storage *look_at(machine *m, uint32_t step, uint32_t id) {
    storage *s = &m->storages[id];
    if (s->seen != (uint64_t)step + 1) {
        s->seen = (uint64_t)step + 1;
        s->inputs = s->dying = 0;
        s->taken = false;
    }
    return s;
}

/* Counts, for each storage that the run at `step` touches, the inputs on it and the drops right
 * behind the run. */
static void count_uses(machine *m, uint32_t step, uint32_t node) {
    const uint32_t *inputs = rp_node_inputs(m->graph, node);
    for (size_t i = 0; i < m->graph->nodes[node].inputs.count; i++)
        if (m->at[inputs[i]] != RP_NONE)
            look_at(m, step, m->at[inputs[i]])->inputs++;
    for (size_t t = (size_t)step + 1; t < m->count && m->steps[t].kind == RP_STEP_DROP; t++) {
        const uint32_t v = m->steps[t].index;
        if (v < m->graph->value_count && m->at[v] != RP_NONE)
            look_at(m, step, m->at[v])->dying++;
    }
}

/* Lets outputs begin in the place of inputs that die in this run; the bytes that so do not count
 * twice. */
static int64_t take_over(machine *m, uint32_t step, uint32_t node) {
    const rp_node *n = &m->graph->nodes[node];
    const rp_inplace_pair *pairs = rp_node_inplace(m->graph, node);
    int64_t saved = 0;
    if (n->inplace.count > 0)
        count_uses(m, step, node);
    for (size_t i = 0; i < n->inplace.count; i++) {
        const uint32_t o = pairs[i].output, v = pairs[i].input;
        if (m->at[o] == RP_NONE || m->at[v] == RP_NONE || m->moving[v] != MOVE_NONE ||
            m->graph->values[o].alias_of != RP_NONE)
            continue;
        storage *new = &m->storages[m->at[o]], *old = look_at(m, step, m->at[v]);
        if (new->begin != step || new->over != RP_NONE || m->graph->values[old->root].persistent ||
            old->taken || old->inputs != 1 || old->dying != old->values || new->bytes > old->bytes)
            continue;
        new->over = m->at[v];
        old->taken = true;
        saved += new->bytes;
    }
    return saved;
}

/* Gives addresses to what began in this run, then to the workspace. */
static rp_status place_run(machine *m, uint32_t step, uint32_t node) {
    const rp_node *n = &m->graph->nodes[node];
    const uint32_t *outputs = rp_node_outputs(m->graph, node);
    rp_status status = RP_OK;
    if (m->space == NULL)
        return RP_OK;
    for (size_t i = 0; i < n->outputs.count && status == RP_OK; i++) {
        const uint32_t v = outputs[i];
        if (m->graph->values[v].root != v || m->at[v] == RP_NONE)
            continue;
        if (m->storages[m->at[v]].begin == step)
            status = place(m, step, m->at[v]);
    }
    if (status == RP_OK && n->workspace > 0)
        status = rp_space_workspace(m->space, step, node);
    return status;
}

static void note_written(machine *m, uint32_t node) {
    const uint32_t *outputs = rp_node_outputs(m->graph, node);
    for (size_t i = 0; i < m->graph->nodes[node].outputs.count; i++)
        if (m->graph->values[outputs[i]].persistent)
            m->newest[outputs[i]] = node;
}

static rp_status run_node(machine *m, uint32_t step, uint32_t node) {
    rp_status status = check_inputs(m, step, node);
    if (status != RP_OK)
        return status;
    const bool first = !m->ran[node];
    status = first ? check_first_run(m, step, node) : check_replay(m, step, node);
    if (status == RP_OK)
        status = materialise(m, step, node);
    if (status != RP_OK)
        return status;
    m->ran[node] = true;
    note_written(m, node);
    const int64_t saved = take_over(m, step, node);
    int64_t now = 0;
    if (!rp_checked_add(m->bytes - saved, m->graph->nodes[node].workspace, &now))
        return fail_overflow(m, step);
    if (now > m->verdict.live_peak_bytes || !m->any_run) {
        if (now > m->verdict.live_peak_bytes)
            m->verdict.live_peak_bytes = now;
        m->verdict.peak_step = step;
        m->verdict.peak_node = node;
    }
    m->any_run = true;
    if (first && node == m->graph->last_forward && m->graph->first_backward != RP_NONE)
        begin_turn(m);
    return place_run(m, step, node);
}

/* ---- The other steps ---- */

static rp_status drop(machine *m, uint32_t step, uint32_t v) {
    if (m->graph->values[v].persistent)
        return fail_move(m, step, "drop", "which is persistent");
    if (m->moving[v] == MOVE_OUT || m->moving[v] == MOVE_IN)
        return fail_move(m, step, "drop", "which is being moved");
    if (m->moving[v] == MOVE_HOST)
        m->moving[v] = MOVE_NONE;
    else if (m->at[v] == RP_NONE)
        return fail_move(m, step, "drop", "which is not live");
    else
        take_off(m, v);
    if (m->turning && m->must_go[v]) {
        m->must_go[v] = false;
        m->must_go_count--;
    }
    return RP_OK;
}

static rp_status offload(machine *m, uint32_t step, uint32_t v) {
    if (m->graph->values[v].persistent)
        return fail_move(m, step, "offload", "which is persistent");
    if (m->moving[v] != MOVE_NONE)
        return fail_move(m, step, "offload", "which is being moved or on the host");
    if (m->at[v] == RP_NONE)
        return fail_move(m, step, "offload", "which is not live");
    if (m->storages[m->at[v]].values != 1 || m->storages[m->at[v]].root != v)
        return fail_move(m, step, "offload", "which is not the only value on its storage");
    m->moving[v] = MOVE_OUT;
    return RP_OK;
}

static rp_status wait(machine *m, uint32_t step, uint32_t v) {
    if (m->moving[v] == MOVE_OUT) {
        take_off(m, v);
        m->moving[v] = MOVE_HOST;
    } else if (m->moving[v] == MOVE_IN) {
        m->moving[v] = MOVE_NONE;
    } else {
        return fail_move(m, step, "wait", "which is not being moved");
    }
    return RP_OK;
}

static rp_status fetch(machine *m, uint32_t step, uint32_t v) {
    uint32_t id = RP_NONE;
    if (m->moving[v] != MOVE_HOST)
        return fail_move(m, step, "fetch", "which is not on the host");
    const rp_status status = begin_storage(m, step, v, m->graph->values[v].bytes, &id);
    if (status != RP_OK)
        return status;
    m->moving[v] = MOVE_IN;
    put_on(m, v, id);
    if (m->bytes > m->verdict.live_peak_bytes) {
        m->verdict.live_peak_bytes = m->bytes;
        m->verdict.peak_step = step;
        m->verdict.peak_node = RP_NONE;
    }
    return place(m, step, id);
}

static rp_status take_step(machine *m, uint32_t step) {
    static rp_status (*const actions[])(machine *, uint32_t, uint32_t) = {
        [RP_STEP_RUN] = run_node, [RP_STEP_DROP] = drop, [RP_STEP_OFFLOAD] = offload,
        [RP_STEP_FETCH] = fetch,  [RP_STEP_WAIT] = wait,
    };
    const rp_step s = m->steps[step];
    if (s.kind >= sizeof actions / sizeof actions[0])
        return rp_fail(m->graph->context, RP_BAD_INPUT, "step %u: unknown kind %u", step, s.kind);
    const bool run = s.kind == RP_STEP_RUN;
    if (s.index >= (run ? m->graph->node_count : m->graph->value_count))
        return rp_fail(m->graph->context, RP_BAD_INPUT, "step %u: there is no %s %u", step,
                       run ? "node" : "value", s.index);
    return actions[s.kind](m, step, s.index);
}

static rp_status finish(const machine *m) {
    const rp_graph *graph = m->graph;
    if (m->next_first != graph->node_count)
        return rp_fail(graph->context, RP_BAD_INPUT, "node %u (%.80s) never runs", m->next_first,
                       rp_node_name(graph, m->next_first));
    for (size_t i = 0; i < graph->output_count; i++) {
        const uint32_t v = graph->outputs[i];
        if (!graph->values[v].persistent && (m->at[v] == RP_NONE || m->moving[v] != MOVE_NONE))
            return rp_fail(graph->context, RP_BAD_INPUT,
                           "output value %u (%.80s) is not live at the end", v,
                           rp_value_name(graph, v));
    }
    return m->space != NULL ? rp_space_finish(m->space) : RP_OK;
}

/* The outputs that marks want gone at the turn. Without a turn (no phase, or interleaved ones)
 * there are none. */
static void list_must_go(machine *m) {
    const rp_graph *graph = m->graph;
    if (graph->last_forward == RP_NONE || graph->first_backward == RP_NONE ||
        graph->last_forward > graph->first_backward)
        return;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        if (graph->nodes[i].mark != RP_MARK_RECOMPUTE)
            continue;
        for (size_t k = 0; k < graph->nodes[i].outputs.count; k++) {
            const uint32_t v = rp_node_outputs(graph, i)[k];
            m->must_go_count += !graph->values[v].persistent;
            m->must_go[v] = !graph->values[v].persistent;
        }
    }
}

static rp_status interpret(const rp_graph *graph, const rp_step *steps, size_t count,
                           rp_space *space, rp_verdict *verdict) {
    rp_context *context = graph->context;
    machine m = {.graph = graph,
                 .steps = steps,
                 .count = count,
                 .space = space,
                 .at = rp_alloc(context, graph->value_count, sizeof *m.at),
                 .moving = rp_alloc(context, graph->value_count, sizeof *m.moving),
                 .ran = rp_alloc(context, graph->node_count, sizeof *m.ran),
                 .newest = rp_alloc(context, graph->value_count, sizeof *m.newest),
                 .must_go = rp_alloc(context, graph->value_count, sizeof *m.must_go),
                 .free_storage = RP_NONE,
                 .bytes = graph->persistent_bytes,
                 .verdict = {.live_peak_bytes = graph->persistent_bytes,
                             .peak_step = RP_NONE,
                             .peak_node = RP_NONE}};
    rp_status status = RP_OK;
    if (m.at == NULL || m.moving == NULL || m.ran == NULL || m.newest == NULL ||
        m.must_go == NULL) {
        status = rp_fail_memory(context, "the check of a schedule");
        goto done;
    }
    for (size_t v = 0; v < graph->value_count; v++)
        m.at[v] = m.newest[v] = RP_NONE;
    list_must_go(&m);
    for (uint32_t s = 0; s < count && status == RP_OK; s++) {
        if (space != NULL)
            rp_space_enter(space, s);
        status = take_step(&m, s);
    }
    if (status == RP_OK)
        status = finish(&m);
    if (status == RP_OK)
        *verdict = m.verdict;
done:
    rp_free(context, m.at);
    rp_free(context, m.moving);
    rp_free(context, m.ran);
    rp_free(context, m.newest);
    rp_free(context, m.must_go);
    rp_free(context, m.storages);
    return status;
}

static rp_status check_count(const rp_graph *graph, size_t count) {
    if (count >= RP_NONE)
        return rp_fail(graph->context, RP_BAD_INPUT,
                       "a schedule of %zu steps: at most %u are known", count, RP_NONE - 1);
    return RP_OK;
}

rp_status rp_verify_schedule(const rp_graph *graph, const rp_step *steps, size_t count,
                             rp_verdict *verdict) {
    const rp_status status = check_count(graph, count);
    return status == RP_OK ? interpret(graph, steps, count, NULL, verdict) : status;
}

/* Whether every step that has a placement runs a node that exists, which rp_space_create relies
 * on. */
static rp_status check_step_indices(const rp_graph *graph, const rp_step *steps, size_t count) {
    for (size_t s = 0; s < count; s++)
        if (steps[s].kind == RP_STEP_RUN && steps[s].index >= graph->node_count)
            return rp_fail(graph->context, RP_BAD_INPUT, "step %zu: there is no node %u", s,
                           steps[s].index);
    return RP_OK;
}

rp_status rp_verify_find_workspaces(const rp_graph *graph, const rp_step *steps, size_t count,
                                    const rp_placement *placements, size_t placement_count,
                                    int64_t peak_bytes, rp_verdict *verdict,
                                    rp_placement **workspaces, size_t *workspace_count) {
    rp_verdict found = {.live_peak_bytes = 0};
    rp_space space;
    rp_status status = check_count(graph, count);
    if (status == RP_OK)
        status = check_step_indices(graph, steps, count);
    if (status == RP_OK)
        status =
            rp_space_create(graph, steps, count, placements, placement_count, peak_bytes, &space);
    if (status != RP_OK)
        return status;
    status = interpret(graph, steps, count, &space, &found);
    found.arena_bytes = space.arena > found.live_peak_bytes ? space.arena : found.live_peak_bytes;
    if (status == RP_OK && found.arena_bytes > peak_bytes)
        status = rp_fail(graph->context, RP_BAD_INPUT, "peak_bytes says %lld, it is %lld",
                         (long long)peak_bytes, (long long)found.arena_bytes);
    if (status == RP_OK) {
        *verdict = found;
        *workspaces = space.found;
        *workspace_count = space.found_count;
        space.found = NULL;
    }
    rp_space_clear(&space);
    return status;
}

rp_status rp_verify_placements(const rp_graph *graph, const rp_step *steps, size_t count,
                               const rp_placement *placements, size_t placement_count,
                               int64_t peak_bytes, rp_verdict *verdict) {
    rp_placement *workspaces = NULL;
    size_t workspace_count = 0;
    const rp_status status =
        rp_verify_find_workspaces(graph, steps, count, placements, placement_count, peak_bytes,
                                  verdict, &workspaces, &workspace_count);
    rp_free(graph->context, workspaces);
    return status;
}
