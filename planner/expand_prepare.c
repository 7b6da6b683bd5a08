/* What the expansion knows of a graph before any decision: flat lists of activations, the values
 * that may not be dropped, and the drops that marks ask for. */
#include "expand.h"

#include <string.h>

/* ---- Flat lists ------------------------------------------------------------------------------ */

static bool is_activation(const rp_graph *graph, uint32_t value) {
    return !graph->values[value].persistent;
}

/* Missing inputs are made again in the order of their list: small ones first, so that the large
 * ones do not wait while others are made. */
static void add_input(const rp_graph *graph, rp_expander *x, uint32_t begin, uint32_t value,
                      uint32_t *count) {
    const int64_t bytes = graph->values[graph->values[value].root].bytes;
    uint32_t i = (*count)++;
    for (; i > begin && graph->values[graph->values[x->inputs[i - 1]].root].bytes > bytes; i--)
        x->inputs[i] = x->inputs[i - 1];
    x->inputs[i] = value;
}

static void flatten_inputs(const rp_graph *graph, rp_expander *x) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const uint32_t *inputs = rp_node_inputs(graph, n);
        x->input_begin[n] = count;
        for (size_t i = 0; i < graph->nodes[n].inputs.count; i++)
            if (is_activation(graph, inputs[i]))
                add_input(graph, x, x->input_begin[n], inputs[i], &count);
    }
    x->input_begin[graph->node_count] = count;
    for (size_t i = 0; i < graph->output_count; i++)
        if (is_activation(graph, graph->outputs[i]))
            add_input(graph, x, x->input_begin[graph->node_count], graph->outputs[i], &count);
    x->input_begin[graph->node_count + 1] = count;
}

static void flatten_outputs(const rp_graph *graph, rp_expander *x) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        x->output_begin[n] = count;
        const uint32_t *outputs = rp_node_outputs(graph, n);
        for (int views = 0; views <= 1; views++)
            for (size_t i = 0; i < graph->nodes[n].outputs.count; i++) {
                const bool is_view = graph->values[outputs[i]].alias_of != RP_NONE;
                if (is_activation(graph, outputs[i]) && is_view == (views == 1))
                    x->outputs[count++] = outputs[i];
                x->has_views = x->has_views || is_view;
            }
    }
    x->output_begin[graph->node_count] = count;
}

/* What the expansion asks of values and nodes again and again, close together. */
static void copy_figures(const rp_graph *graph, rp_expander *x) {
    for (size_t v = 0; v < graph->value_count; v++) {
        x->writer[v] = graph->values[v].writer;
        x->size[v] = graph->values[v].bytes;
    }
    for (size_t n = 0; n < graph->node_count; n++) {
        x->node_cost[n] = graph->nodes[n].cost_ns;
        x->workspace[n] = graph->nodes[n].workspace;
    }
}

/* With views it is not enough to look at instances. */
static void list_pairs(const rp_graph *graph, rp_expander *x) {
    uint32_t count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const rp_inplace_pair *pairs = rp_node_inplace(graph, n);
        x->pair_begin[n] = count;
        for (size_t i = 0; i < graph->nodes[n].inplace.count && !x->has_views; i++)
            if (is_activation(graph, pairs[i].input) && is_activation(graph, pairs[i].output) &&
                x->size[pairs[i].output] <= x->size[pairs[i].input])
                x->pairs[count++] = pairs[i];
    }
    x->pair_begin[graph->node_count] = count;
}

/* ---- What may not run again ------------------------------------------------------------------ */

/* What a node marked recompute writes cannot be held instead: its readers run again no later than
 * it may itself. */
static void inherit_deadlines(const rp_expander *x, uint32_t *deadline) {
    const rp_graph *graph = x->graph;
    for (uint32_t n = 0; n < graph->node_count; n++)
        for (uint32_t i = x->input_begin[n]; i < x->input_begin[n + 1]; i++) {
            const uint32_t writer = graph->values[x->inputs[i]].writer;
            if (graph->nodes[writer].mark == RP_MARK_RECOMPUTE && deadline[writer] < deadline[n])
                deadline[n] = deadline[writer];
        }
}

/* The last stage in which anything may ask for an output of node n: its readers' first runs, and
 * the runs of readers that may run again. */
static uint32_t find_last_demand(const rp_expander *x, uint32_t n, const uint32_t *last_demand) {
    const rp_graph *graph = x->graph;
    uint32_t last = n;
    for (uint32_t o = x->output_begin[n]; o < x->output_begin[n + 1]; o++) {
        const rp_value *value = &graph->values[x->outputs[o]];
        const uint32_t *readers = rp_value_readers(graph, x->outputs[o]);
        if (value->is_output)
            return (uint32_t)graph->node_count;
        for (size_t i = 0; i < value->readers.count; i++)
            if (last_demand[readers[i]] > last)
                last = last_demand[readers[i]];
    }
    return last;
}

/* ---- Marks ----------------------------------------------------------------------------------- */

uint32_t rp_graph_find_kept_mark(const rp_graph *graph) {
    const uint32_t turn = rp_graph_turn(graph);
    for (uint32_t n = 0; turn != RP_NONE && n <= turn; n++) {
        const uint32_t *outputs = rp_node_outputs(graph, n);
        for (size_t i = 0; i < graph->nodes[n].outputs.count; i++)
            if (graph->nodes[n].mark == RP_MARK_RECOMPUTE && is_activation(graph, outputs[i]) &&
                rp_value_last_need(graph, outputs[i]) > turn)
                return n;
    }
    return RP_NONE;
}

/* The stage before which a node marked recompute must run again, if its outputs are read behind the
 * turn, because what it reads is overwritten then or given up: what it writes is held from there
 * on. RP_NONE: there is none. `own` is its deadline whatever becomes of its inputs: one of those
 * that may not run again is still there in the stage behind the turn, and ends with that run. */
static uint32_t find_hold(const rp_expander *x, uint32_t n, uint32_t turn, uint32_t own,
                          uint32_t deadline) {
    const rp_graph *graph = x->graph;
    if (turn == RP_NONE || n > turn || graph->nodes[n].mark != RP_MARK_RECOMPUTE || own <= turn)
        return RP_NONE;
    for (uint32_t o = x->output_begin[n]; o < x->output_begin[n + 1]; o++)
        if (rp_value_last_need(graph, x->outputs[o]) > turn)
            return deadline > turn ? deadline : turn + 1;
    return RP_NONE;
}

/* A node runs again only if that is allowed in every stage in which anything may ask for it, or up
 * to the stage from which its outputs are held: then a drop never leads into a dead end. The lists
 * are scratch. */
static void find_fixed(rp_expander *x, uint32_t *own, uint32_t *deadline, uint32_t *last_demand,
                       uint32_t *next_write) {
    const rp_graph *graph = x->graph;
    const uint32_t turn = rp_graph_turn(graph);
    rp_graph_find_deadlines(graph, own, next_write);
    if (graph->node_count > 0)
        memcpy(deadline, own, graph->node_count * sizeof *own);
    inherit_deadlines(x, deadline);
    for (uint32_t n = (uint32_t)graph->node_count; n-- > 0;) {
        const uint32_t last = find_last_demand(x, n, last_demand);
        const bool again = rp_node_may_rerun(graph, n) && deadline[n] >= last;
        const uint32_t hold = again ? RP_NONE : find_hold(x, n, turn, own[n], deadline[n]);
        last_demand[n] = again ? last : hold != RP_NONE ? hold : n;
        for (uint32_t o = x->output_begin[n]; o < x->output_begin[n + 1]; o++) {
            x->fixed[x->outputs[o]] = !again && hold == RP_NONE;
            x->hold[x->outputs[o]] = hold;
        }
    }
}

static bool reads(const rp_graph *graph, uint32_t node, uint32_t value) {
    for (size_t i = 0; i < graph->nodes[node].inputs.count; i++)
        if (rp_node_inputs(graph, node)[i] == value)
            return true;
    return false;
}

/* Whether the value stands in the list of stage hold[value] although its node does not read it:
 * whoever reads it later finds it there. */
static bool is_called_up(const rp_expander *x, uint32_t value) {
    return x->hold[value] != RP_NONE && rp_value_last_need(x->graph, value) > x->hold[value] &&
           !reads(x->graph, x->hold[value], value);
}

/* Puts the values that are called up behind the inputs of their stages' nodes. `more` is scratch: a
 * number for each node. */
static void call_up(rp_expander *x, uint32_t *more) {
    const rp_graph *graph = x->graph;
    uint32_t total = 0, end = x->input_begin[graph->node_count + 1];
    for (uint32_t n = 0; n < graph->node_count; n++)
        more[n] = 0;
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (is_called_up(x, v)) {
            more[x->hold[v]]++;
            total++;
        }
    x->input_begin[graph->node_count + 1] += total;
    for (uint32_t n = (uint32_t)graph->node_count + 1; n-- > 0 && total > 0;) {
        const uint32_t begin = x->input_begin[n], count = end - begin;
        total -= n < graph->node_count ? more[n] : 0;
        memmove(x->inputs + begin + total, x->inputs + begin, count * sizeof *x->inputs);
        x->input_begin[n] = begin + total;
        end = begin;
        if (n < graph->node_count)
            more[n] = begin + total + count; /* from here on: where the next one goes */
    }
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (is_called_up(x, v))
            x->inputs[more[x->hold[v]]++] = v;
}

/* Outputs of nodes marked recompute are not carried from the last forward node to the first
 * backward one, which is the stage behind it. */
static rp_status find_forced(rp_expander *x) {
    const rp_graph *graph = x->graph;
    const uint32_t turn = rp_graph_turn(graph);
    if (turn == RP_NONE)
        return RP_OK;
    for (uint32_t n = 0; n <= turn; n++) {
        if (graph->nodes[n].mark != RP_MARK_RECOMPUTE)
            continue;
        for (uint32_t o = x->output_begin[n]; o < x->output_begin[n + 1]; o++) {
            const uint32_t value = x->outputs[o];
            if (x->fixed[value] && rp_value_last_need(graph, value) > turn)
                return rp_fail(graph->context, RP_INFEASIBLE,
                               "node %u (%s) is marked recompute, but %s is needed after something "
                               "that the node reads has been overwritten",
                               n, rp_node_name(graph, n), rp_value_name(graph, value));
            x->forced[x->forced_count++] = (rp_drop){value, turn};
        }
    }
    return RP_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static size_t count_marked_outputs(const rp_graph *graph) {
    size_t count = 0;
    for (size_t n = 0; n < graph->node_count; n++)
        if (graph->nodes[n].mark == RP_MARK_RECOMPUTE)
            count += graph->nodes[n].outputs.count;
    return count;
}

static bool allocate(rp_expander *x) {
    const rp_graph *graph = x->graph;
    rp_context *const context = graph->context;
    const size_t nodes = graph->node_count, values = graph->value_count;
    const size_t marked = count_marked_outputs(graph);
    size_t inputs = graph->output_count + marked, outputs = 0;
    for (size_t n = 0; n < nodes; n++) {
        inputs += graph->nodes[n].inputs.count;
        outputs += graph->nodes[n].outputs.count;
    }
    x->input_begin = rp_alloc(context, nodes + 2, sizeof *x->input_begin);
    x->inputs = rp_alloc(context, inputs, sizeof *x->inputs);
    x->output_begin = rp_alloc(context, nodes + 1, sizeof *x->output_begin);
    x->outputs = rp_alloc(context, outputs, sizeof *x->outputs);
    x->fixed = rp_alloc(context, values, sizeof *x->fixed);
    x->hold = rp_alloc(context, values, sizeof *x->hold);
    x->forced = rp_alloc(context, marked, sizeof *x->forced);
    x->use = rp_alloc(context, values, sizeof *x->use);
    x->at = rp_alloc(context, values, sizeof *x->at);
    x->writer = rp_alloc(context, values, sizeof *x->writer);
    x->size = rp_alloc(context, values, sizeof *x->size);
    x->node_cost = rp_alloc(context, nodes, sizeof *x->node_cost);
    x->workspace = rp_alloc(context, nodes, sizeof *x->workspace);
    x->pair_begin = rp_alloc(context, nodes + 1, sizeof *x->pair_begin);
    x->pairs = rp_alloc(context, graph->pair_count, sizeof *x->pairs);
    x->stack = rp_alloc(context, nodes + 1, sizeof *x->stack);
    x->cursor = rp_alloc(context, nodes + 1, sizeof *x->cursor);
    return x->input_begin && x->inputs && x->output_begin && x->outputs && x->fixed && x->hold &&
           x->forced && x->use && x->at && x->stack && x->cursor && x->writer && x->size &&
           x->node_cost && x->workspace && x->pair_begin && x->pairs;
}

rp_status rp_expander_create(const rp_graph *graph, rp_expander *expander) {
    rp_context *const context = graph->context;
    rp_status status = RP_OK;
    *expander = (rp_expander){.graph = graph};
    uint32_t *own = rp_alloc(context, graph->node_count, sizeof *own);
    uint32_t *deadline = rp_alloc(context, graph->node_count, sizeof *deadline);
    uint32_t *last_demand = rp_alloc(context, graph->node_count, sizeof *last_demand);
    uint32_t *next_write = rp_alloc(context, graph->value_count, sizeof *next_write);
    if (own == NULL || deadline == NULL || last_demand == NULL || next_write == NULL ||
        !allocate(expander)) {
        status = rp_fail_memory(context, "the expansion of schedules");
        goto fail;
    }
    flatten_inputs(graph, expander);
    flatten_outputs(graph, expander);
    copy_figures(graph, expander);
    list_pairs(graph, expander);
    for (size_t v = 0; v < graph->value_count; v++)
        expander->hold[v] = RP_NONE;
    find_fixed(expander, own, deadline, last_demand, next_write);
    call_up(expander, own);
    status = find_forced(expander);
fail:
    rp_free(context, own);
    rp_free(context, deadline);
    rp_free(context, last_demand);
    rp_free(context, next_write);
    if (status != RP_OK)
        rp_expander_clear(expander);
    return status;
}

void rp_expander_clear(rp_expander *x) {
    if (x->graph == NULL)
        return;
    rp_context *const context = x->graph->context;
    void *const blocks[] = {
        x->input_begin, x->inputs,    x->output_begin, x->outputs,  x->fixed,  x->hold,
        x->forced,      x->run_node,  x->run_stage,    x->run_end,  x->at,     x->use,
        x->stack,       x->cursor,    x->instances,    x->storage,  x->taken,  x->live_on,
        x->bytes,       x->run_live,  x->spared,       x->meetings, x->writer, x->size,
        x->node_cost,   x->workspace, x->pair_begin,   x->pairs,
    };
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        rp_free(context, blocks[i]);
    for (size_t i = 0; i < x->prefix_count; i++)
        rp_free(context, x->prefixes[i].uses);
    *x = (rp_expander){0};
}
