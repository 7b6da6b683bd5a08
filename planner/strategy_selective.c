/* Selective recomputation after Korthikanti et al. 2022: what costs the least time per byte goes
 * first; with attention in separate nodes that is its core. The family is the prefixes of that
 * order over the nodes whose outputs wait from forward to backward: as much as the budget asks
 * for. */
#include "lists.h"
#include "wide.h"

#include <stdlib.h>

/* Effort: schedules tried x nodes. With more nodes than that the prefixes are thinned out. */
enum { EFFORT = 200000, MIN_TRIED = 6 };

/* A forward node whose outputs may be dropped at the turn. */
typedef struct choice {
    uint32_t node;
    int64_t cost, bytes;
} choice;

/* Rising cost per byte; then the earlier node first, because backward wants it last: its replay
 * finds the most room. */
static int compare_choices(const void *left, const void *right) {
    const choice *a = left, *b = right;
    const int order = rp_ratio_compare(a->cost, a->bytes, b->cost, b->bytes);
    if (order != 0)
        return order;
    return a->node < b->node ? -1 : a->node > b->node;
}

/* Whether the value is written in forward and read in backward, the nodes up to `turn` being the
 * forward ones. */
static bool waits(const rp_graph *graph, uint32_t value, uint32_t turn) {
    const rp_value *v = &graph->values[value];
    return !v->persistent && !v->is_output && v->writer <= turn &&
           rp_value_last_need(graph, value) > turn;
}

static size_t list_choices(const rp_expander *x, choice *choices) {
    const rp_graph *graph = x->graph;
    size_t count = 0;
    for (uint32_t n = 0; n <= graph->last_forward; n++) {
        choice found = {n, graph->nodes[n].cost_ns, 0};
        for (uint32_t o = x->output_begin[n]; o < x->output_begin[n + 1]; o++)
            if (!x->fixed[x->outputs[o]] && waits(graph, x->outputs[o], graph->last_forward))
                found.bytes += graph->values[x->outputs[o]].bytes;
        if (found.bytes > 0)
            choices[count++] = found;
    }
    qsort(choices, count, sizeof *choices, compare_choices);
    return count;
}

static rp_status drop_outputs(const rp_expander *x, uint32_t node, rp_drops *drops) {
    rp_status status = RP_OK;
    for (uint32_t o = x->output_begin[node]; o < x->output_begin[node + 1] && status == RP_OK; o++)
        if (waits(x->graph, x->outputs[o], x->graph->last_forward))
            status = rp_drops_add(x, drops, x->outputs[o], x->graph->last_forward);
    return status;
}

static rp_status list_prefixes(const rp_expander *x, const choice *choices, size_t count,
                               rp_drops *drops, rp_sink sink) {
    const size_t affordable = EFFORT / (x->graph->node_count + 1);
    const size_t tried = affordable < MIN_TRIED ? MIN_TRIED : affordable;
    rp_status status = rp_drops_reset(x, drops);
    if (status == RP_OK)
        status = sink.take(sink.user, drops);
    size_t done = 0;
    for (size_t i = 1; i <= tried && i <= count && status == RP_OK; i++) {
        const size_t prefix = tried >= count ? i : count * i / tried;
        for (; done < prefix && status == RP_OK; done++)
            status = drop_outputs(x, choices[done].node, drops);
        if (status == RP_OK)
            status = sink.take(sink.user, drops);
    }
    return status;
}

rp_status rp_selective_list(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                            rp_sink sink) {
    (void)argument;
    const rp_graph *graph = expander->graph;
    if (graph->last_forward == RP_NONE || graph->first_backward == RP_NONE ||
        graph->last_forward > graph->first_backward)
        return rp_fail(graph->context, RP_NOT_APPLICABLE,
                       "selective looks at what waits from the forward to the backward phase, but "
                       "the graph is not one behind the other");
    choice *choices = rp_alloc(graph->context, graph->node_count, sizeof *choices);
    if (choices == NULL)
        return rp_fail_memory(graph->context, "the order of a selective recompute");
    const size_t count = list_choices(expander, choices);
    const rp_status status = list_prefixes(expander, choices, count, drops, sink);
    rp_free(graph->context, choices);
    return status;
}

rp_status rp_propose_selective(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    return rp_propose_list(graph, rp_selective_list, argument, set);
}
