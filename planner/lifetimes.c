/* Lifetimes: one pass over the schedule finds storages and who may take over whose place, a second
 * one decides that (it needs to know where storages end) and forms the blocks. */
#include "lifetimes.h"

/* A storage while the passes run. */
typedef struct record {
    int64_t bytes;
    size_t end_step;
    uint32_t begin, end; /* ticks */
    uint32_t values;     /* live values on it */
    uint32_t heir;       /* the storage that takes over its place, or RP_NONE */
    bool has_parent;
} record;

/* An in-place hint that holds if the old storage ends in the drops right behind the step. */
typedef struct offer {
    uint32_t old, heir; /* records */
    size_t step;
} offer;

/* A value's whereabouts. */
enum { GONE, LIVE, LEAVING, AWAY }; /* leaving: being offloaded; away: on the host */

typedef struct tracer {
    const rp_graph *graph;
    const rp_step *steps;
    size_t count;
    uint32_t *at;    /* value -> record; RP_NONE while it has none: views of persistent values */
    uint8_t *state;  /* value -> GONE ... */
    record *records; /* record i is storage i of the result */
    size_t record_count, record_capacity;
    offer *offers;
    size_t offer_count, offer_capacity;
    uint32_t tick;
    rp_lifetimes *out;
} tracer;

/* ---- First pass: storages ---- */

static bool begin_record(tracer *t, uint32_t step, uint32_t value, int64_t bytes) {
    rp_context *context = t->graph->context;
    if (!rp_reserve(context, &t->records, &t->record_capacity, t->record_count + 1,
                    sizeof *t->records) ||
        !rp_reserve(context, &t->out->storages, &t->out->storage_capacity,
                    t->out->storage_count + 1, sizeof *t->out->storages))
        return false;
    t->records[t->record_count++] = (record){
        .bytes = bytes, .end_step = t->count, .begin = t->tick, .end = RP_NONE, .heir = RP_NONE};
    t->out->storages[t->out->storage_count++] =
        (rp_storage){.step = step, .value = value, .block = RP_NONE};
    return true;
}

static void enter(tracer *t, uint32_t value, uint32_t id) {
    t->state[value] = LIVE;
    t->at[value] = id;
    if (id != RP_NONE)
        t->records[id].values++;
}

static void leave(tracer *t, size_t step, uint32_t value, uint8_t state) {
    const uint32_t id = t->at[value];
    t->state[value] = state;
    t->at[value] = RP_NONE;
    if (id == RP_NONE || --t->records[id].values > 0)
        return;
    t->records[id].end_step = step;
    t->records[id].end = t->tick;
}

/* A view joins the storage of its base if that can be read, else that of a relative. */
static uint32_t storage_of_base(const tracer *t, uint32_t node, uint32_t view) {
    const rp_value *values = t->graph->values;
    const rp_range lists[] = {t->graph->nodes[node].inputs, t->graph->nodes[node].outputs};
    if (t->at[values[view].alias_of] != RP_NONE)
        return t->at[values[view].alias_of];
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k].count; i++) {
            const uint32_t v = t->graph->edges[lists[k].begin + i];
            if (values[v].root == values[view].root && t->at[v] != RP_NONE)
                return t->at[v];
        }
    return RP_NONE;
}

static bool begin_outputs(tracer *t, uint32_t step, uint32_t node) {
    const rp_value *values = t->graph->values;
    const uint32_t *outputs = rp_node_outputs(t->graph, node);
    const size_t count = t->graph->nodes[node].outputs.count;
    for (size_t i = 0; i < count; i++) {
        const uint32_t v = outputs[i];
        if (t->state[v] != GONE || values[v].persistent || values[v].alias_of != RP_NONE)
            continue;
        if (!begin_record(t, step, v, values[v].bytes))
            return false;
        enter(t, v, (uint32_t)t->record_count - 1);
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t v = outputs[i];
        if (t->state[v] == GONE && values[v].alias_of != RP_NONE)
            enter(t, v, rp_value_has_lifetime(t->graph, v) ? storage_of_base(t, node, v) : RP_NONE);
    }
    return true;
}

static size_t inputs_on(const tracer *t, uint32_t node, uint32_t id) {
    const uint32_t *inputs = rp_node_inputs(t->graph, node);
    size_t found = 0;
    for (size_t i = 0; i < t->graph->nodes[node].inputs.count; i++)
        found += t->at[inputs[i]] == id;
    return found;
}

static bool note_offers(tracer *t, uint32_t step, uint32_t node) {
    const rp_inplace_pair *pairs = rp_node_inplace(t->graph, node);
    for (size_t i = 0; i < t->graph->nodes[node].inplace.count; i++) {
        const uint32_t output = pairs[i].output, input = pairs[i].input;
        const uint32_t heir = t->at[output], old = t->at[input];
        if (heir == RP_NONE || old == RP_NONE || t->state[input] != LIVE ||
            t->graph->values[output].alias_of != RP_NONE || t->out->storages[heir].step != step ||
            t->records[heir].bytes > t->records[old].bytes || inputs_on(t, node, old) != 1)
            continue;
        if (!rp_reserve(t->graph->context, &t->offers, &t->offer_capacity, t->offer_count + 1,
                        sizeof *t->offers))
            return false;
        t->offers[t->offer_count++] = (offer){.old = old, .heir = heir, .step = step};
    }
    return true;
}

static bool trace_run(tracer *t, uint32_t step, uint32_t node) {
    const int64_t workspace = t->graph->nodes[node].workspace;
    if (!begin_outputs(t, step, node) || !note_offers(t, step, node))
        return false;
    if (workspace > 0) {
        if (!begin_record(t, step, RP_NONE, workspace))
            return false;
        t->records[t->record_count - 1].end = t->tick + 1;
    }
    t->tick++;
    return true;
}

static bool trace_fetch(tracer *t, uint32_t step, uint32_t value) {
    if (!begin_record(t, step, value, t->graph->values[value].bytes))
        return false;
    enter(t, value, (uint32_t)t->record_count - 1);
    t->tick++;
    return true;
}

static bool trace_step(tracer *t, uint32_t step) {
    const uint32_t x = t->steps[step].index;
    switch (t->steps[step].kind) {
    case RP_STEP_RUN:
        return trace_run(t, step, x);
    case RP_STEP_FETCH:
        return trace_fetch(t, step, x);
    case RP_STEP_DROP:
        leave(t, step, x, GONE);
        return true;
    case RP_STEP_OFFLOAD:
        t->state[x] = LEAVING;
        return true;
    default: /* the end of an offload; that of a fetch changes nothing */
        if (t->state[x] == LEAVING)
            leave(t, step, x, AWAY);
        return true;
    }
}

/* ---- Second pass: blocks ---- */

/* In the order of the offers, as the first that holds wins. */
static void accept_offers(tracer *t) {
    size_t group_step = t->count, group_end = 0; /* the drops right behind a step */
    for (size_t i = 0; i < t->offer_count; i++) {
        const offer o = t->offers[i];
        if (o.step != group_step)
            for (group_step = o.step, group_end = o.step + 1;
                 group_end < t->count && t->steps[group_end].kind == RP_STEP_DROP;)
                group_end++;
        record *old = &t->records[o.old], *heir = &t->records[o.heir];
        if (old->end_step >= group_end || old->heir != RP_NONE || heir->has_parent)
            continue;
        old->heir = o.heir;
        heir->has_parent = true;
    }
}

/* The maximum of the bytes live at each tick. */
static bool find_live_peak(const tracer *t) {
    rp_lifetimes *out = t->out;
    int64_t *live = rp_alloc(t->graph->context, (size_t)out->ticks + 1, sizeof *live);
    if (live == NULL)
        return false;
    for (size_t i = 0; i < t->record_count; i++) {
        const record *r = &t->records[i];
        live[r->begin] += r->bytes;
        live[r->end != RP_NONE ? r->end : out->ticks] -= r->bytes;
    }
    for (uint32_t i = 1; i < out->ticks; i++)
        live[i] += live[i - 1];
    for (size_t i = 0; i < t->record_count; i++)
        if (t->records[i].has_parent) /* in the tick of its begin it lies in its parent */
            live[t->records[i].begin] -= t->records[i].bytes;
    for (uint32_t i = 0; i < out->ticks; i++)
        if (live[i] > out->live_peak_bytes) {
            out->live_peak_bytes = live[i];
            out->peak_tick = i;
        }
    rp_free(t->graph->context, live);
    return true;
}

static bool append_piece(tracer *t, rp_block *block, uint32_t begin, uint32_t end, int64_t bytes) {
    rp_lifetimes *out = t->out;
    if (begin == end)
        return true;
    rp_piece *last = block->pieces.count > 0 ? &out->pieces[out->piece_count - 1] : NULL;
    block->end = end;
    if (last != NULL && last->bytes == bytes) {
        last->end = end;
        return true;
    }
    if (!rp_reserve(t->graph->context, &out->pieces, &out->piece_capacity, out->piece_count + 1,
                    sizeof *out->pieces))
        return false;
    out->pieces[out->piece_count++] = (rp_piece){begin, end, bytes};
    block->pieces.count++;
    return true;
}

/* A block from the storage that nothing precedes, with all that take over its place. */
static bool form_block(tracer *t, uint32_t first) {
    rp_lifetimes *out = t->out;
    if (!rp_reserve(t->graph->context, &out->blocks, &out->block_capacity, out->block_count + 1,
                    sizeof *out->blocks))
        return false;
    rp_block *block = &out->blocks[out->block_count];
    *block = (rp_block){.begin = t->records[first].begin,
                        .bytes = t->records[first].bytes,
                        .pieces = {out->piece_count, 0}};
    uint32_t begin = block->begin;
    for (uint32_t id = first; id != RP_NONE && t->records[id].bytes > 0; id = t->records[id].heir) {
        const uint32_t end = t->records[id].end != RP_NONE ? t->records[id].end : t->tick;
        if (!append_piece(t, block, begin, end, t->records[id].bytes))
            return false;
        out->storages[id].block = (uint32_t)out->block_count;
        begin = end;
    }
    out->block_count++;
    return true;
}

static bool trace(tracer *t) {
    for (size_t v = 0; v < t->graph->value_count; v++)
        t->at[v] = RP_NONE;
    for (uint32_t s = 0; s < t->count; s++)
        if (!trace_step(t, s))
            return false;
    t->out->ticks = t->tick;
    accept_offers(t);
    if (!find_live_peak(t))
        return false;
    for (uint32_t i = 0; i < t->record_count; i++)
        if (!t->records[i].has_parent && t->records[i].bytes > 0 && !form_block(t, i))
            return false;
    return true;
}

rp_status rp_lifetimes_create(const rp_graph *graph, const rp_step *steps, size_t count,
                              rp_lifetimes *lifetimes) {
    rp_context *context = graph->context;
    *lifetimes = (rp_lifetimes){.storages = NULL};
    tracer t = {.graph = graph,
                .steps = steps,
                .count = count,
                .at = rp_alloc(context, graph->value_count, sizeof *t.at),
                .state = rp_alloc(context, graph->value_count, sizeof *t.state),
                .out = lifetimes};
    const bool done = t.at != NULL && t.state != NULL && trace(&t);
    rp_free(context, t.at);
    rp_free(context, t.state);
    rp_free(context, t.records);
    rp_free(context, t.offers);
    if (done)
        return RP_OK;
    rp_lifetimes_clear(context, lifetimes);
    return rp_fail_memory(context, "the lifetimes of a schedule");
}

void rp_lifetimes_clear(rp_context *context, rp_lifetimes *lifetimes) {
    rp_free(context, lifetimes->storages);
    rp_free(context, lifetimes->blocks);
    rp_free(context, lifetimes->pieces);
    *lifetimes = (rp_lifetimes){.storages = NULL};
}
