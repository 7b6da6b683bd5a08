/* The lower hull of one moment by minimum cuts. */
#include "moment.h"

#include <string.h>

/* Bytes and costs are scaled to this many bits, so that price x bytes stays far from overflow. */
enum { SCALE_BITS = 28 };

typedef struct moment {
    const rp_expander *x;
    uint32_t stage;
    rp_network network;
    uint32_t *hold, *replay; /* edges, or RP_NONE: of each root, of each node */
    uint32_t *gone;          /* of each root: the vertex that says that its storage goes */
    bool *
        free; /* of each root: the stage itself reads or writes on it, so that it is there anyway */
    int byte_shift, cost_shift;
} moment;

static int find_shift(int64_t total) {
    int shift = 0;
    while (total >> shift >= (int64_t)1 << SCALE_BITS)
        shift++;
    return shift;
}

static void free_touched(moment *m) {
    const rp_graph *graph = m->x->graph;
    const rp_node *node = &graph->nodes[m->stage];
    for (size_t i = 0; i < node->inputs.count; i++)
        m->free[graph->values[rp_node_inputs(graph, m->stage)[i]].root] = true;
    for (size_t i = 0; i < node->outputs.count; i++)
        m->free[graph->values[rp_node_outputs(graph, m->stage)[i]].root] = true;
}

static bool is_needed_behind(const rp_graph *graph, uint32_t value, uint32_t stage) {
    return rp_value_last_need(graph, value) > stage;
}

/* ---- The network ---------------------------------------------------------------------------- */

/* Vertices: nodes before the stage, values by their roots, and the two ends. One on the source's
 * side says: this node runs again; this storage is needed behind the stage; of a view that lends
 * its vertex to its root (`gone`): that storage goes. */
static uint32_t value_vertex(const moment *m, uint32_t value) {
    return m->stage + m->x->graph->values[value].root;
}

/* Whether the value has a storage that exists before the stage. */
static bool takes_part(const moment *m, uint32_t value) {
    const rp_value *v = &m->x->graph->values[value];
    return !v->persistent && v->writer < m->stage && !m->x->graph->values[v->root].persistent;
}

static bool is_needed_view(const moment *m, uint32_t value) {
    const rp_graph *graph = m->x->graph;
    return is_needed_behind(graph, value, m->stage) &&
           graph->values[value].writer != graph->values[graph->values[value].root].writer;
}

/* A storage that is needed is held, or it goes: then its writer runs again, and with it the writers
 * of those views on it that are needed. The writer may also run again for another output of it,
 * which is no reason to make the views again. */
static bool add_value(moment *m, uint32_t value) {
    const rp_graph *graph = m->x->graph;
    const uint32_t root = graph->values[value].root, writer = graph->values[root].writer;
    if (is_needed_view(m, value)) {
        if (m->gone[root] == writer) { /* the first one lends its vertex, which it does not need */
            m->gone[root] = m->stage + value;
            if (!rp_network_add(&m->network, m->gone[root], writer, RP_CUT_NEVER, NULL))
                return false;
        }
        if (!rp_network_add(&m->network, m->gone[root], graph->values[value].writer, RP_CUT_NEVER,
                            NULL))
            return false;
    }
    return !is_needed_behind(graph, value, m->stage) ||
           rp_network_add(&m->network, m->network.source, value_vertex(m, value), RP_CUT_NEVER,
                          NULL);
}

/* A node that runs again costs its time and needs its inputs. */
static bool add_node(moment *m, uint32_t n) {
    const rp_graph *graph = m->x->graph;
    if (!rp_network_add(&m->network, n, m->network.sink, 0, &m->replay[n]))
        return false;
    const uint32_t *inputs = rp_node_inputs(graph, n);
    for (size_t i = 0; i < graph->nodes[n].inputs.count; i++)
        if (takes_part(m, inputs[i]) &&
            !rp_network_add(&m->network, n, value_vertex(m, inputs[i]), RP_CUT_NEVER, NULL))
            return false;
    return true;
}

static rp_status build_network(moment *m) {
    const rp_graph *graph = m->x->graph;
    const uint32_t ends = m->stage + (uint32_t)graph->value_count;
    const rp_status status =
        rp_network_create(graph->context, ends + 2, ends, ends + 1, &m->network);
    if (status != RP_OK)
        return status;
    bool ok = true;
    free_touched(m);
    for (uint32_t n = 0; ok && n < m->stage; n++)
        ok = add_node(m, n);
    for (uint32_t v = 0; v < graph->value_count; v++)
        m->gone[v] = graph->values[v].writer;
    for (uint32_t v = 0; ok && v < graph->value_count; v++)
        ok = !takes_part(m, v) || add_value(m, v);
    for (uint32_t v = 0; ok && v < graph->value_count; v++)
        if (takes_part(m, v) && graph->values[v].root == v)
            ok = rp_network_add(&m->network, m->stage + v, m->gone[v], 0, &m->hold[v]);
    return ok ? RP_OK : rp_fail_memory(graph->context, "the choices at one moment");
}

static int64_t cost_of(const moment *m, uint32_t node) {
    return m->x->graph->nodes[node].cost_ns >> m->cost_shift;
}

static int64_t bytes_of(const moment *m, uint32_t root) {
    return m->free[root] ? 0 : m->x->graph->values[root].bytes >> m->byte_shift;
}

/* What holding the storage costs in time: an output of a node that is marked recompute is not
 * carried through the turn, so that its writer has run again before if anybody needs it; views on
 * its storage are no reason to. A second output of that node comes with the first. */
static int64_t hold_cost_of(const moment *m, uint32_t root) {
    const rp_graph *graph = m->x->graph;
    const uint32_t writer = graph->values[root].writer;
    return m->x->forced_count > 0 && rp_graph_turn(graph) + 1 == m->stage &&
                   graph->nodes[writer].mark == RP_MARK_RECOMPUTE &&
                   m->x->outputs[m->x->output_begin[writer]] == root &&
                   is_needed_behind(graph, root, m->stage)
               ? cost_of(m, writer)
               : 0;
}

static void set_prices(moment *m, int64_t of_bytes, int64_t of_cost) {
    const rp_graph *graph = m->x->graph;
    for (uint32_t n = 0; n < m->stage; n++)
        rp_network_set(&m->network, m->replay[n],
                       rp_node_may_rerun(graph, n) ? of_cost * cost_of(m, n) : RP_CUT_NEVER);
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (m->hold[v] != RP_NONE)
            rp_network_set(&m->network, m->hold[v],
                           of_bytes * bytes_of(m, v) + of_cost * hold_cost_of(m, v));
}

/* ---- Choices -------------------------------------------------------------------------------- */

static bool is_dropped(const moment *m, uint32_t value) {
    const rp_value *values = m->x->graph->values;
    return takes_part(m, value) && rp_network_is_source_side(&m->network, value_vertex(m, value)) &&
           rp_network_is_source_side(&m->network, m->gone[values[value].root]);
}

/* Reads the cut off the network. */
static rp_status read_choice(const moment *m, rp_choice *choice) {
    const rp_graph *graph = m->x->graph;
    *choice = (rp_choice){0};
    for (uint32_t v = 0; v < graph->value_count; v++)
        choice->count += is_dropped(m, v);
    choice->values = rp_alloc(graph->context, choice->count, sizeof *choice->values);
    if (choice->values == NULL)
        return rp_fail_memory(graph->context, "the choices at one moment");
    choice->count = 0;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        if (is_dropped(m, v)) {
            choice->values[choice->count++] = v;
        } else if (m->hold[v] != RP_NONE &&
                   rp_network_is_source_side(&m->network, value_vertex(m, v))) {
            choice->bytes += bytes_of(m, v);
            choice->cost += hold_cost_of(m, v);
        }
    }
    for (uint32_t n = 0; n < m->stage; n++)
        if (rp_network_is_source_side(&m->network, n))
            choice->cost += cost_of(m, n);
    return RP_OK;
}

static rp_status add_support(const moment *m, rp_hull *hull, rp_support support) {
    rp_context *const context = m->x->graph->context;
    if (!rp_reserve(context, &hull->supports, &hull->support_capacity, hull->support_count + 1,
                    sizeof *hull->supports))
        return rp_fail_memory(context, "the choices at one moment");
    hull->supports[hull->support_count++] = support;
    return RP_OK;
}

/* The cheapest choice at these prices. `*found`: there is one, and it is below `limit`. */
static rp_status choose(moment *m, int64_t of_bytes, int64_t of_cost, int64_t limit, rp_hull *hull,
                        bool *found, rp_choice *choice) {
    int64_t value = 0;
    bool is_cut = false;
    set_prices(m, of_bytes, of_cost);
    rp_status status = rp_network_solve(&m->network, &value, &is_cut);
    if (status == RP_OK && value < RP_CUT_NEVER)
        status = add_support(m, hull, (rp_support){of_bytes, of_cost, value});
    *found = status == RP_OK && is_cut && value < RP_CUT_NEVER && value < limit;
    if (*found)
        status = read_choice(m, choice);
    *found = *found && status == RP_OK;
    return status;
}

/* ---- The hull ------------------------------------------------------------------------------- */

static rp_status insert_choice(rp_context *context, rp_hull *hull, size_t place,
                               const rp_choice *choice) {
    if (!rp_reserve(context, &hull->choices, &hull->capacity, hull->count + 1,
                    sizeof *hull->choices)) {
        rp_free(context, choice->values);
        return rp_fail_memory(context, "the choices at one moment");
    }
    memmove(hull->choices + place + 1, hull->choices + place,
            (hull->count - place) * sizeof *hull->choices);
    hull->choices[place] = *choice;
    hull->count++;
    return RP_OK;
}

/* Looks below the line between choices i and i + 1; one that lies there comes between them. */
static rp_status split(moment *m, rp_hull *hull, size_t i) {
    const rp_choice *left = &hull->choices[i], *right = &hull->choices[i + 1];
    const int64_t of_bytes = right->cost - left->cost, of_cost = left->bytes - right->bytes;
    hull->choices[i].closed = true;
    if (of_bytes <= 0 || of_cost <= 0)
        return RP_OK;
    bool found = false;
    rp_choice choice;
    const int64_t line = of_bytes * left->bytes + of_cost * left->cost;
    rp_status status = choose(m, of_bytes, of_cost, line, hull, &found, &choice);
    if (found)
        status = insert_choice(m->x->graph->context, hull, i + 1, &choice);
    if (found && status == RP_OK)
        hull->choices[i].closed = false;
    return status;
}

static rp_status find_hull(moment *m, size_t most, rp_hull *hull) {
    rp_context *const context = m->x->graph->context;
    /* The second price is above all costs together, so that its choice holds the least of all. */
    static const int64_t ends[2][2] = {{0, 1}, {(int64_t)1 << (SCALE_BITS + 2), 1}};
    rp_status status = RP_OK;
    for (int i = 0; i < 2 && status == RP_OK; i++) {
        bool found = false;
        rp_choice choice;
        status = choose(m, ends[i][0], ends[i][1], RP_CUT_NEVER, hull, &found, &choice);
        if (status == RP_OK && found)
            status = insert_choice(context, hull, hull->count, &choice);
    }
    bool open = hull->count == 2;
    while (open && status == RP_OK) { /* a round halves every open part, so that thinning is even */
        open = false;
        for (size_t i = 0; i + 1 < hull->count && hull->count < most && status == RP_OK; i++) {
            if (hull->choices[i].closed)
                continue;
            const size_t before = hull->count;
            status = split(m, hull, i);
            open = open || hull->count > before;
            i += hull->count - before;
        }
    }
    return status;
}

rp_status rp_hull_create(const rp_expander *expander, uint32_t stage, size_t most, rp_hull *hull) {
    const rp_graph *graph = expander->graph;
    rp_context *const context = graph->context;
    *hull = (rp_hull){0};
    moment m = {.x = expander,
                .stage = stage,
                .free = rp_alloc(context, graph->value_count, sizeof *m.free),
                .hold = rp_alloc(context, graph->value_count, sizeof *m.hold),
                .gone = rp_alloc(context, graph->value_count, sizeof *m.gone),
                .replay = rp_alloc(context, stage, sizeof *m.replay)};
    int64_t bytes = 0;
    for (size_t v = 0; v < graph->value_count; v++)
        bytes += graph->values[v].persistent ? 0 : graph->values[v].bytes;
    m.byte_shift = find_shift(bytes);
    m.cost_shift = find_shift(graph->total_cost_ns);
    hull->byte_shift = m.byte_shift;
    hull->cost_shift = m.cost_shift;
    rp_status status = RP_OK;
    if (m.free == NULL || m.hold == NULL || m.gone == NULL || m.replay == NULL) {
        status = rp_fail_memory(context, "the choices at one moment");
        goto fail;
    }
    for (size_t v = 0; v < graph->value_count; v++)
        m.hold[v] = RP_NONE;
    status = build_network(&m);
    if (status == RP_OK)
        status = find_hull(&m, most, hull);
fail:
    rp_network_clear(&m.network);
    rp_free(context, m.free);
    rp_free(context, m.hold);
    rp_free(context, m.gone);
    rp_free(context, m.replay);
    if (status != RP_OK)
        rp_hull_clear(context, hull);
    return status;
}

void rp_hull_clear(rp_context *context, rp_hull *hull) {
    for (size_t i = 0; i < hull->count; i++)
        rp_free(context, hull->choices[i].values);
    rp_free(context, hull->choices);
    rp_free(context, hull->supports);
    *hull = (rp_hull){0};
}
