/* Binding: from a plan to a flat array of actions with resolved addresses.
 *
 * It follows the storages as interfaces.md has it: a value begins in the run that writes it, unless
 * it is live still and stays where it is; a view joins the storage of its base; a storage ends with
 * the last value on it. The plan has been verified, so what does not fit is a contradiction. */
#include "executor.h"
#include "planner/graph.h"
#include <reprise/plan.h>
#include <string.h>

typedef struct storage {
    int64_t offset, bytes; /* what nobody has taken over in place */
    uint32_t values;       /* live on it */
    uint32_t next_free;
} storage;

typedef struct binder {
    rp_executor *executor;
    const rp_graph *graph;
    const rp_code *code;
    const rp_placement *placements;
    size_t placement_count, cursor; /* cursor: the first placement of the step in hand or later */
    uint32_t *storage_of;           /* by graph value, while it is live; RP_NONE: persistent */
    storage *storages;
    size_t storage_count, storage_capacity;
    uint32_t free_storage; /* a list through next_free */
    uint8_t *ran;          /* by node: how often so far */
    uint8_t *runs;         /* by node: how often in all, 2 for more */
} binder;

static rp_status no_memory(const rp_executor *executor) {
    return rp_fail_memory(executor->context, "an executor");
}

static rp_status contradiction(const binder *b, size_t step, const char *what) {
    return rp_fail(b->executor->context, RP_INTERNAL_ERROR, "executor: plan step %zu: %s", step,
                   what);
}

/* ---- Persistent values ----------------------------------------------------------------------- */

static int64_t add_end(int64_t end, int64_t offset, int64_t bytes) {
    return offset + bytes > end ? offset + bytes : end;
}

/* Where the plan puts persistent values, and how far they reach. */
static int64_t place_by_plan(rp_executor *executor, const rp_graph *graph) {
    size_t count = 0;
    int64_t end = 0;
    const rp_placement *placements = rp_plan_placements(executor->plan, &count);
    for (size_t i = 0; i < count; i++) {
        const rp_placement *p = &placements[i];
        if (p->value == RP_NONE || !graph->values[p->value].persistent)
            continue;
        executor->offset[p->value] = p->offset;
        end = add_end(end, p->offset, graph->values[p->value].bytes);
    }
    return end;
}

/* The owner's value for one of this program: the same leaf, or its scratch for the same purpose if
 * that is large enough: runs of both are in order, and each begins by filling it. RP_NONE: none.
 */
static uint32_t value_of_owner(const rp_executor *executor, const rp_graph *graph, size_t v) {
    const rp_program *program = executor->program, *owner = executor->owner->program;
    if (v < owner->tensor_count && program->code.values[v].kind != RP_CODE_SCRATCH)
        return owner->graph_value[v];
    for (int k = 0; k < RP_SCRATCH_COUNT; k++) {
        if (program->scratch[k] != v || owner->scratch[k] == RP_NONE)
            continue;
        const uint32_t value = owner->graph_value[owner->scratch[k]];
        if (value != RP_NONE &&
            owner->graph->values[value].bytes >= graph->values[program->graph_value[v]].bytes)
            return value;
    }
    return RP_NONE;
}

/* A leaf that the owner of the arena has lies there; another one behind all that persists. */
static rp_status place_by_owner(rp_executor *executor, const rp_graph *graph) {
    const rp_program *program = executor->program;
    const rp_executor *owner = executor->owner;
    int64_t end = owner->persistent_end;
    for (size_t v = 0; v < program->code.value_count; v++) {
        const uint32_t value = program->graph_value[v];
        const rp_code_kind kind = (rp_code_kind)program->code.values[v].kind;
        if (value == RP_NONE || kind == RP_CODE_ACTIVATION)
            continue;
        if (kind == RP_CODE_GRADIENT || kind == RP_CODE_STATE)
            return rp_fail(executor->context, RP_INVALID_ARGUMENT,
                           "executor: a program that accumulates or has optimizer state cannot "
                           "share another one's memory");
        const uint32_t known = value_of_owner(executor, graph, v);
        executor->offset[value] = known != RP_NONE ? owner->offset[known] : end;
        if (known == RP_NONE)
            end = add_end(end, end, graph->values[value].bytes);
    }
    executor->persistent_end = end;
    return RP_OK;
}

/* Activations move as a whole, which they can if the plan has them behind everything persistent. */
static rp_status place_shared(rp_executor *executor, const rp_graph *graph, int64_t own_end) {
    const rp_status status = place_by_owner(executor, graph);
    if (status != RP_OK)
        return status;
    size_t count = 0;
    const rp_placement *placements = rp_plan_placements(executor->plan, &count);
    for (size_t i = 0; i < count; i++)
        if ((placements[i].value == RP_NONE || !graph->values[placements[i].value].persistent) &&
            placements[i].offset < own_end)
            return rp_fail(executor->context, RP_INVALID_ARGUMENT,
                           "executor: this plan has activations between persistent values: it "
                           "cannot share another one's memory");
    rp_plan_report report;
    rp_plan_get_report(executor->plan, &report);
    executor->shift = executor->persistent_end - own_end;
    const int64_t needed = report.peak_bytes + executor->shift;
    if (needed > executor->owner->arena_bytes)
        return rp_fail(executor->context, RP_INVALID_ARGUMENT,
                       "executor: the plan needs %lld bytes of an arena that has %lld",
                       (long long)needed, (long long)executor->owner->arena_bytes);
    return RP_OK;
}

rp_status rp_executor_place(rp_executor *executor) {
    const rp_graph *graph = executor->program->graph;
    for (size_t v = 0; v < graph->value_count; v++)
        executor->offset[v] = -1;
    executor->persistent_end = place_by_plan(executor, graph);
    if (executor->owner == executor)
        return RP_OK;
    return place_shared(executor, graph, executor->persistent_end);
}

/* ---- Actions --------------------------------------------------------------------------------- */

static rp_status add_action(binder *b, const rp_bound *action) {
    rp_executor *e = b->executor;
    if (!rp_reserve(e->context, &e->bound, &e->bound_capacity, e->bound_count + 1,
                    sizeof *e->bound))
        return no_memory(e);
    e->bound[e->bound_count++] = *action;
    return RP_OK;
}

static rp_status add_poison(binder *b, int64_t offset, int64_t bytes) {
    if (!b->executor->options.poison || bytes <= 0)
        return RP_OK;
    const rp_bound action = {
        .node = RP_NONE, .place = b->executor->owner->arena + offset, .end = bytes};
    return add_action(b, &action);
}

/* ---- Storages -------------------------------------------------------------------------------- */

static rp_status begin_storage(binder *b, uint32_t value, int64_t offset, int64_t bytes) {
    uint32_t index = b->free_storage;
    if (index != RP_NONE) {
        b->free_storage = b->storages[index].next_free;
    } else {
        if (!rp_reserve(b->executor->context, &b->storages, &b->storage_capacity,
                        b->storage_count + 1, sizeof *b->storages))
            return no_memory(b->executor);
        index = (uint32_t)b->storage_count++;
    }
    b->storages[index] = (storage){offset, bytes, 1, RP_NONE};
    b->storage_of[value] = index;
    b->executor->offset[value] = offset;
    return RP_OK;
}

/* A new storage at the place of an input's has taken it over: only what lies behind it will be
 * free when the old one ends. */
static void take_over(binder *b, const rp_code_node *node, int64_t offset, int64_t bytes) {
    const uint32_t *in = rp_code_inputs(b->code, node), *sum = rp_code_accumulates(b->code, node);
    const size_t reads = node->in_count + (sum != NULL ? node->out_count : 0);
    for (size_t i = 0; i < reads; i++) {
        const uint32_t slot = i < node->in_count ? in[i] : sum[i - node->in_count];
        const uint32_t value = slot != RP_NONE ? b->executor->program->graph_value[slot] : RP_NONE;
        if (value == RP_NONE || b->storage_of[value] == RP_NONE)
            continue;
        storage *old = &b->storages[b->storage_of[value]];
        if (old->offset == offset && old->bytes >= bytes && bytes > 0) {
            old->offset += bytes;
            old->bytes -= bytes;
            return;
        }
    }
}

static rp_status drop(binder *b, uint32_t value) {
    b->executor->offset[value] = -1;
    const uint32_t index = b->storage_of[value];
    if (index == RP_NONE)
        return RP_OK; /* a view of something persistent */
    storage *s = &b->storages[index];
    if (--s->values > 0)
        return RP_OK;
    s->next_free = b->free_storage;
    b->free_storage = index;
    return add_poison(b, s->offset, s->bytes);
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* The plan's place for a value that begins at this step, RP_NONE for the workspace. */
static bool find_placement(const binder *b, size_t step, uint32_t value, int64_t *offset) {
    for (size_t i = b->cursor; i < b->placement_count && b->placements[i].step == step; i++) {
        if (b->placements[i].value == value) {
            *offset = b->placements[i].offset + b->executor->shift;
            return true;
        }
    }
    return false;
}

static void bind_view(binder *b, const rp_code_node *node) {
    const uint32_t *map = b->executor->program->graph_value;
    const uint32_t base = map[rp_code_inputs(b->code, node)[0]];
    const uint32_t view = map[rp_code_outputs(b->code, node)[0]];
    int64_t *offset = b->executor->offset;
    if (offset[view] >= 0)
        return;
    offset[view] = offset[base] + b->code->params[node->params].view.offset_bytes +
                   rp_program_joined_offset(b->executor->program, rp_code_inputs(b->code, node)[0]);
    b->storage_of[view] = b->storage_of[base];
    if (b->storage_of[view] != RP_NONE)
        b->storages[b->storage_of[view]].values++;
}

static rp_status begin_outputs(binder *b, const rp_code_node *node, size_t step) {
    const uint32_t *out = rp_code_outputs(b->code, node);
    for (uint32_t k = 0; k < node->out_count; k++) {
        if (out[k] == RP_NONE)
            continue;
        const uint32_t value = b->executor->program->graph_value[out[k]];
        int64_t offset = 0;
        if (b->executor->offset[value] >= 0)
            continue; /* persistent, or live still */
        const int64_t bytes = b->graph->values[value].bytes;
        if (!find_placement(b, step, value, &offset))
            return contradiction(b, step, "an output has no place");
        take_over(b, node, offset, bytes);
        const rp_status status = begin_storage(b, value, offset, bytes);
        if (status != RP_OK)
            return status;
    }
    return RP_OK;
}

/* The addresses of all slots of a node. */
static rp_status bind_slots(binder *b, const rp_code_node *node, rp_bound *action) {
    rp_executor *e = b->executor;
    const size_t count = rp_code_slots(node);
    const uint32_t *slots = rp_code_inputs(b->code, node);
    if (!rp_reserve(e->context, &e->places, &e->place_capacity, e->place_count + count,
                    sizeof *e->places))
        return no_memory(e);
    action->slots = e->place_count;
    for (size_t i = 0; i < count; i++) {
        void *place = NULL;
        if (slots[i] != RP_NONE) {
            const uint32_t value = e->program->graph_value[slots[i]];
            place =
                e->owner->arena + e->offset[value] + rp_program_joined_offset(e->program, slots[i]);
            action->end = add_end(action->end, e->offset[value], b->graph->values[value].bytes);
        }
        e->places[e->place_count++] = place;
    }
    return RP_OK;
}

static uint32_t flags_of(const binder *b, uint32_t node) {
    uint32_t flags = b->ran[node] > 0 ? RP_BOUND_REPLAY : 0;
    if (b->runs != NULL && b->runs[node] > 1)
        flags |= b->ran[node] > 0 ? RP_BOUND_COMPARE : RP_BOUND_SAVE;
    return flags;
}

static rp_status bind_run(binder *b, uint32_t index, size_t step) {
    const rp_code_node *node = &b->code->nodes[index];
    if (node->op == RP_OP_VIEW) {
        bind_view(b, node);
        return RP_OK;
    }
    rp_status status = begin_outputs(b, node, step);
    if (status != RP_OK)
        return status;
    rp_bound action = {.node = index, .flags = flags_of(b, index)};
    b->ran[index] = 1;
    const int64_t workspace = b->graph->nodes[index].workspace;
    int64_t offset = 0;
    if (workspace > 0) {
        if (!find_placement(b, step, RP_NONE, &offset))
            return contradiction(b, step, "a workspace has no place");
        action.place = b->executor->owner->arena + offset;
        action.end = offset + workspace;
    }
    status = bind_slots(b, node, &action);
    if (status == RP_OK)
        status = add_action(b, &action);
    return status == RP_OK ? add_poison(b, offset, workspace) : status;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* check_replays: room for the outputs of every node that runs more than once. */
static rp_status make_copies(binder *b, const rp_step *steps, size_t count) {
    rp_executor *e = b->executor;
    b->runs = rp_alloc(e->context, b->code->node_count, 1);
    e->copy_of = rp_alloc(e->context, b->code->node_count, sizeof *e->copy_of);
    if (b->runs == NULL || e->copy_of == NULL)
        return no_memory(e);
    for (size_t s = 0; s < count; s++)
        if (steps[s].kind == RP_STEP_RUN && b->runs[steps[s].index] < 2)
            b->runs[steps[s].index]++;
    size_t bytes = 0, most = 0;
    for (size_t n = 0; n < b->code->node_count; n++) {
        const rp_code_node *node = &b->code->nodes[n];
        const uint32_t *out = rp_code_outputs(b->code, node);
        e->copy_of[n] = bytes;
        for (uint32_t k = 0; k < node->out_count && b->runs[n] > 1 && node->op != RP_OP_VIEW; k++) {
            const size_t output = out[k] != RP_NONE ? rp_executor_bytes(e, out[k]) : 0;
            most = output > most ? output : most;
            bytes += output;
        }
    }
    e->copies = rp_alloc(e->context, bytes, 1);
    if (e->copies == NULL)
        return no_memory(e);
    if (e->backend->host_readable || e->kernels == NULL)
        return RP_OK;
    e->compared = rp_alloc(e->context, most, 1);
    return e->compared != NULL ? RP_OK : no_memory(e);
}

/* Behind the last forward node and what is dropped there: the turn. */
static void mark_turn(binder *b) {
    rp_executor *e = b->executor;
    e->backward_begin = e->bound_count;
    for (size_t i = 0; i < e->program->root_count; i++)
        e->forward_offset[i] = e->offset[e->program->graph_value[e->program->roots[i]]];
}

static rp_status bind_step(binder *b, const rp_step *step, size_t index) {
    while (b->cursor < b->placement_count && b->placements[b->cursor].step < index)
        b->cursor++;
    if (step->kind == RP_STEP_RUN)
        return bind_run(b, step->index, index);
    if (step->kind == RP_STEP_DROP)
        return drop(b, step->index);
    return rp_fail(
        b->executor->context, RP_UNSUPPORTED,
        "executor: plan step %zu moves a value to or from the host, which no backend does", index);
}

static rp_status bind_steps(binder *b) {
    size_t count = 0;
    const rp_step *steps = rp_plan_steps(b->executor->plan, &count);
    const uint32_t last_forward = b->graph->last_forward;
    bool forward_ended = last_forward == RP_NONE, turned = false;
    rp_status status = RP_OK;
    if (b->executor->options.check_replays)
        status = make_copies(b, steps, count);
    if (status == RP_OK)
        status = add_poison(b, b->executor->persistent_end,
                            b->executor->owner->arena_bytes - b->executor->persistent_end);
    for (size_t s = 0; s < count && status == RP_OK; s++) {
        if (forward_ended && !turned && steps[s].kind == RP_STEP_RUN) {
            mark_turn(b);
            turned = true;
        }
        status = bind_step(b, &steps[s], s);
        if (steps[s].kind == RP_STEP_RUN && steps[s].index == last_forward)
            forward_ended = true;
    }
    if (!turned)
        mark_turn(b);
    return status;
}

static size_t most_slots(const rp_code *code) {
    size_t most = 4; /* what an optimizer's kernel takes and gives */
    for (size_t n = 0; n < code->node_count; n++) {
        const size_t slots = (size_t)code->nodes[n].in_count + code->nodes[n].out_count;
        most = slots > most ? slots : most;
    }
    return most;
}

rp_status rp_executor_bind(rp_executor *executor) {
    rp_context *context = executor->context;
    const rp_graph *graph = executor->program->graph;
    binder b = {.executor = executor,
                .graph = graph,
                .code = &executor->program->code,
                .free_storage = RP_NONE};
    b.placements = rp_plan_placements(executor->plan, &b.placement_count);
    b.storage_of = rp_alloc(context, graph->value_count, sizeof *b.storage_of);
    b.ran = rp_alloc(context, b.code->node_count, 1);
    executor->infos = rp_alloc(context, most_slots(b.code), sizeof *executor->infos);
    rp_status status = RP_OK;
    if (b.storage_of == NULL || b.ran == NULL || executor->infos == NULL)
        status = no_memory(executor);
    for (size_t v = 0; v < graph->value_count && status == RP_OK; v++)
        b.storage_of[v] = RP_NONE;
    if (status == RP_OK)
        status = bind_steps(&b);
    rp_free(context, b.storage_of);
    rp_free(context, b.storages);
    rp_free(context, b.ran);
    rp_free(context, b.runs);
    return status;
}
