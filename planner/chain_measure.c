/* Sizes and costs of stages. Lifetimes are those of storages: a value and all views on it. */
#include "chain_measure.h"

#include <string.h>

typedef struct measuring {
    const rp_graph *graph;
    const rp_chain *chain;
    uint32_t *end;                 /* of each storage: the last forward node that uses it */
    uint32_t *last;                /* and the last node at all; RP_NONE: it stays */
    bool *crosses, *waits;         /* of each storage: some of it is of a state, is read later */
    uint32_t *needed, *seen, mark; /* stamps of values and of storages */
    bool *runs;                    /* of each node: in the sum of costs made last */
    int64_t *left; /* of each stage: bytes of inner values that backward still needs */
    rp_stage_measure *measures;
} measuring;

static bool has_lifetime(const measuring *m, uint32_t value) {
    return rp_value_has_lifetime(m->graph, value) && m->graph->values[value].writer != RP_NONE;
}

/* ---- Lifetimes ------------------------------------------------------------------------------- */

static void use(measuring *m, uint32_t value, uint32_t node) {
    const uint32_t root = m->graph->values[value].root;
    if (m->graph->nodes[node].phase == RP_FORWARD && node > m->end[root])
        m->end[root] = node;
    if (m->last[root] != RP_NONE && node > m->last[root])
        m->last[root] = node;
}

static void find_lifetimes(measuring *m) {
    const rp_graph *graph = m->graph;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        if (!has_lifetime(m, v))
            continue;
        const rp_value *value = &graph->values[v];
        const uint32_t *readers = rp_value_readers(graph, v);
        use(m, v, value->writer);
        for (size_t i = 0; i < value->readers.count; i++) {
            use(m, v, readers[i]);
            if (graph->nodes[readers[i]].phase == RP_BACKWARD)
                m->waits[value->root] = true;
        }
        if (value->is_output)
            m->last[value->root] = RP_NONE;
        if (m->chain->is_state[v])
            m->crosses[value->root] = true;
    }
}

static uint32_t find_stage(const measuring *m, uint32_t root) {
    return m->chain->stage[m->graph->values[root].writer];
}

static void sum_bytes(measuring *m) {
    const rp_graph *graph = m->graph;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        if (!has_lifetime(m, v) || graph->values[v].root != v || find_stage(m, v) == 0)
            continue;
        rp_stage_measure *of = &m->measures[find_stage(m, v)];
        if (m->crosses[v])
            of->state_bytes += graph->values[v].bytes;
        else if (m->waits[v])
            of->inner_bytes += graph->values[v].bytes;
    }
}

/* ---- Costs ----------------------------------------------------------------------------------- */

/* The cost of the nodes of a stage that must run for values of its state or inner ones. */
static int64_t sum_needed(measuring *m, uint32_t stage, bool state, bool inner) {
    const rp_graph *graph = m->graph;
    int64_t cost = 0;
    m->mark++;
    for (uint32_t n = m->chain->begin[stage]; n-- > m->chain->begin[stage - 1];) {
        bool needed = false;
        for (size_t o = 0; o < graph->nodes[n].outputs.count; o++) {
            const uint32_t v = rp_node_outputs(graph, n)[o];
            const rp_range readers = graph->values[v].readers;
            const bool waits = readers.count > 0 &&
                               rp_value_readers(graph, v)[readers.count - 1] > graph->last_forward;
            needed = needed || m->needed[v] == m->mark || (state && m->chain->is_state[v]) ||
                     (inner && waits && !m->chain->is_state[v]);
        }
        m->runs[n] = needed;
        if (!needed)
            continue;
        cost += graph->nodes[n].cost_ns;
        for (size_t i = 0; i < graph->nodes[n].inputs.count; i++)
            m->needed[rp_node_inputs(graph, n)[i]] = m->mark;
    }
    return cost;
}

/* ---- What is live ---------------------------------------------------------------------------- */

/* How a stage runs. */
typedef enum manner {
    HELD,
    PASSING,
    KEEPING,
    AGAIN /* KEEPING, but only what the inner values need */
} manner;

/* Whether the storage ends with node n of the stage. */
static bool ends(const measuring *m, uint32_t root, uint32_t n, uint32_t stage, manner how) {
    const bool own = find_stage(m, root) == stage;
    return m->end[root] == n && !(own && m->crosses[root]) &&
           !(own && m->waits[root] && (how == KEEPING || how == AGAIN));
}

/* Whether the storage counts: one of the state before does only if it passes. */
static bool counts(const measuring *m, uint32_t value, uint32_t stage, manner how) {
    return has_lifetime(m, value) &&
           (how == PASSING || find_stage(m, m->graph->values[value].root) >= stage);
}

/* Bytes of outputs that begin in the place of an input which ends with node n. */
static int64_t count_taken_over(measuring *m, uint32_t n, uint32_t stage, manner how) {
    const rp_graph *graph = m->graph;
    int64_t bytes = 0;
    m->mark++;
    for (size_t i = 0; i < graph->nodes[n].inplace.count; i++) {
        const rp_inplace_pair pair = rp_node_inplace(graph, n)[i];
        const rp_value *output = &graph->values[pair.output];
        const uint32_t root = graph->values[pair.input].root;
        if (output->persistent || output->alias_of != RP_NONE ||
            !counts(m, pair.input, stage, how) || !ends(m, root, n, stage, how) ||
            output->bytes > graph->values[root].bytes || m->seen[root] == m->mark ||
            m->seen[pair.output] == m->mark)
            continue;
        m->seen[root] = m->seen[pair.output] = m->mark;
        bytes += output->bytes;
    }
    return bytes;
}

static int64_t count_ending(measuring *m, uint32_t n, uint32_t stage, manner how) {
    const rp_graph *graph = m->graph;
    const rp_range lists[] = {graph->nodes[n].inputs, graph->nodes[n].outputs};
    int64_t bytes = 0;
    m->mark++;
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k].count; i++) {
            const uint32_t v = graph->edges[lists[k].begin + i], root = graph->values[v].root;
            if (!counts(m, v, stage, how) || m->seen[root] == m->mark ||
                !ends(m, root, n, stage, how))
                continue;
            m->seen[root] = m->mark;
            bytes += graph->values[root].bytes;
        }
    return bytes;
}

static int64_t find_stage_peak(measuring *m, uint32_t stage, manner how) {
    const rp_graph *graph = m->graph;
    int64_t live = how == PASSING ? m->measures[stage - 1].state_bytes : 0, peak = live;
    for (uint32_t n = m->chain->begin[stage - 1]; n < m->chain->begin[stage]; n++) {
        if (how == AGAIN && !m->runs[n])
            continue;
        for (size_t o = 0; o < graph->nodes[n].outputs.count; o++)
            live += graph->values[rp_node_outputs(graph, n)[o]].persistent
                        ? 0
                        : graph->values[rp_node_outputs(graph, n)[o]].bytes;
        const int64_t now = live + graph->nodes[n].workspace - count_taken_over(m, n, stage, how);
        peak = now > peak ? now : peak;
        live -= count_ending(m, n, stage, how);
    }
    return peak;
}

/* Takes off what ends with a backward node: of what backward wrote itself from `live`, of inner
 * values from what is left of their stage. Their storages are those with the new stamp. */
static void end_with(measuring *m, uint32_t n, int64_t *live) {
    const rp_graph *graph = m->graph;
    const rp_range lists[] = {graph->nodes[n].inputs, graph->nodes[n].outputs};
    m->mark++;
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < lists[k].count; i++) {
            const uint32_t v = graph->edges[lists[k].begin + i], root = graph->values[v].root;
            if (!has_lifetime(m, v) || m->last[root] != n || m->seen[root] == m->mark ||
                m->crosses[root])
                continue;
            int64_t *const of = find_stage(m, root) > 0 ? &m->left[find_stage(m, root)] : live;
            m->seen[root] = m->mark;
            *of -= graph->values[root].bytes;
        }
}

/* Bytes of outputs that begin in the place of storages with the stamp, each once. */
static int64_t count_replaced(measuring *m, uint32_t n) {
    const rp_graph *graph = m->graph;
    int64_t bytes = 0;
    for (size_t i = 0; i < graph->nodes[n].inplace.count; i++) {
        const rp_inplace_pair pair = rp_node_inplace(graph, n)[i];
        const uint32_t root = graph->values[pair.input].root;
        if (!has_lifetime(m, pair.input) || m->seen[root] != m->mark ||
            !has_lifetime(m, pair.output) || m->seen[pair.output] == m->mark ||
            graph->values[pair.output].bytes > graph->values[root].bytes)
            continue;
        m->seen[root] = 0;
        bytes += graph->values[pair.output].bytes;
    }
    return bytes;
}

/* What backward nodes write and pass on, and what is left of the inner values of the stage that
 * they go back through. */
static void measure_backward(measuring *m) {
    const rp_graph *graph = m->graph;
    uint32_t state = m->chain->top;
    int64_t live = 0;
    for (uint32_t k = 1; k <= m->chain->count; k++)
        m->left[k] = m->measures[k].inner_bytes;
    for (uint32_t n = graph->last_forward + 1; n < graph->node_count; n++) {
        while (state > 0 && m->chain->demand[state - 1] <= n)
            state--;
        rp_stage_measure *of = &m->measures[state];
        if (m->chain->demand[state] == n)
            of->gradients = live;
        for (size_t o = 0; o < graph->nodes[n].outputs.count; o++)
            if (has_lifetime(m, rp_node_outputs(graph, n)[o]))
                live += graph->values[rp_node_outputs(graph, n)[o]].bytes;
        const int64_t now = live + graph->nodes[n].workspace + m->left[state + 1];
        end_with(m, n, &live);
        const int64_t peak = now - count_replaced(m, n);
        of->backward_peak = peak > of->backward_peak ? peak : of->backward_peak;
    }
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void measure(measuring *m) {
    find_lifetimes(m);
    sum_bytes(m);
    for (uint32_t k = 1; k <= m->chain->count; k++) {
        rp_stage_measure *of = &m->measures[k];
        of->state_cost = sum_needed(m, k, true, false);
        of->inner_cost = sum_needed(m, k, false, true);
        of->inner_peak = find_stage_peak(m, k, AGAIN);
        of->both_cost = sum_needed(m, k, true, true);
        of->held_peak = find_stage_peak(m, k, HELD);
        of->passing_peak = find_stage_peak(m, k, PASSING);
        of->keeping_peak = find_stage_peak(m, k, KEEPING);
    }
    measure_backward(m);
    for (uint32_t k = 1; k <= m->chain->top; k++) /* what is asked for at once */
        if (m->chain->demand[k] == m->chain->demand[k - 1])
            m->measures[k].gradients = m->measures[k - 1].gradients;
}

rp_status rp_chain_measure(const rp_graph *graph, const rp_chain *chain,
                           rp_stage_measure *measures) {
    rp_context *const context = graph->context;
    const size_t values = graph->value_count;
    measuring m = {
        .graph = graph,
        .chain = chain,
        .end = rp_alloc(context, values, sizeof *m.end),
        .last = rp_alloc(context, values, sizeof *m.last),
        .crosses = rp_alloc(context, values, sizeof *m.crosses),
        .waits = rp_alloc(context, values, sizeof *m.waits),
        .runs = rp_alloc(context, graph->node_count, sizeof *m.runs),
        .left = rp_alloc(context, (size_t)chain->count + 2, sizeof *m.left),
        .needed = rp_alloc(context, values, sizeof *m.needed),
        .seen = rp_alloc(context, values, sizeof *m.seen),
        .measures = measures,
    };
    const bool ok =
        m.end && m.last && m.crosses && m.waits && m.runs && m.left && m.needed && m.seen;
    if (ok) {
        memset(measures, 0, ((size_t)chain->count + 1) * sizeof *measures);
        measure(&m);
    }
    void *const blocks[] = {m.end, m.last, m.crosses, m.waits, m.runs, m.left, m.needed, m.seen};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        rp_free(context, blocks[i]);
    return ok ? RP_OK : rp_fail_memory(context, "the measures of a chain");
}
