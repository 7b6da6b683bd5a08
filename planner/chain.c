/* Finding the stages of a graph, and what is asked of them. */
#include "chain.h"

#include "segments.h"

/* ---- Stages ---------------------------------------------------------------------------------- */

/* The last stage in which a forward node reads the value; 0: none does. */
static uint32_t find_last_stage(const rp_graph *graph, const rp_chain *c, uint32_t value) {
    const uint32_t *readers = rp_value_readers(graph, value);
    uint32_t last = 0;
    for (size_t i = 0; i < graph->values[value].readers.count; i++)
        if (c->stage[readers[i]] > last)
            last = c->stage[readers[i]];
    return last;
}

static bool is_read_by_backward(const rp_graph *graph, uint32_t value) {
    const rp_range readers = graph->values[value].readers;
    return readers.count > 0 &&
           graph->nodes[rp_value_readers(graph, value)[readers.count - 1]].phase == RP_BACKWARD;
}

/* Whether the value is one that a stage writes and that can go and come again. */
static bool is_written_by_stage(const rp_graph *graph, const rp_chain *c, uint32_t value) {
    return rp_value_has_lifetime(graph, value) && graph->values[value].writer != RP_NONE &&
           c->stage[graph->values[value].writer] > 0;
}

/* From blocks to stages, in place: one begins with every block, and behind it; without blocks, with
 * every node. */
static void number_stages(const rp_graph *graph, bool has_blocks, rp_chain *c) {
    const uint32_t forward = graph->last_forward + 1;
    uint32_t block = RP_NONE;
    c->count = 0;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        const uint32_t now = c->stage[n];
        if (n < forward && (n == 0 || !has_blocks || now != block))
            c->begin[c->count++] = n;
        block = now;
        c->stage[n] = n < forward ? c->count : 0;
    }
    c->begin[c->count] = forward;
}

/* Keeps the ends of stages that `goes` does not name. */
static void join_stages(const bool *goes, rp_chain *c) {
    uint32_t count = 0;
    for (uint32_t k = 1; k <= c->count; k++)
        if (k == c->count || !goes[k])
            c->begin[++count] = c->begin[k];
    c->count = count;
    for (uint32_t k = 1; k <= count; k++)
        for (uint32_t n = c->begin[k - 1]; n < c->begin[k]; n++)
            c->stage[n] = k;
}

static rp_status fail_skipped(const rp_graph *graph, const char *who, uint32_t value,
                              uint32_t last) {
    const uint32_t writer = graph->values[value].writer;
    return rp_fail(graph->context, RP_NOT_APPLICABLE,
                   "%s needs a chain, but %s, which node %u (%s) writes, is read beyond the next "
                   "stage, by node %u (%s)",
                   who, rp_value_name(graph, value), writer, rp_node_name(graph, writer), last,
                   rp_node_name(graph, last));
}

static uint32_t find_last_forward_reader(const rp_graph *graph, uint32_t value) {
    const uint32_t *readers = rp_value_readers(graph, value);
    uint32_t last = RP_NONE;
    for (size_t i = 0; i < graph->values[value].readers.count; i++)
        if (graph->nodes[readers[i]].phase == RP_FORWARD)
            last = readers[i];
    return last;
}

/* Joins the stages that values skip: all from the one behind the writer's to the last reader's. */
static rp_status join_skipped(const rp_graph *graph, const char *who, bool merge, bool *goes,
                              rp_chain *c) {
    uint32_t skipping = RP_NONE, skips = 0;
    uint32_t *const until = c->demand; /* of each stage: the last one that is joined to it */
    for (uint32_t k = 0; k <= c->count; k++)
        until[k] = k;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        if (!is_written_by_stage(graph, c, v))
            continue;
        const uint32_t next = c->stage[graph->values[v].writer] + 1;
        const uint32_t last = find_last_stage(graph, c, v);
        if (last <= next)
            continue;
        if (!merge)
            return fail_skipped(graph, who, v, find_last_forward_reader(graph, v));
        if (last > until[next])
            until[next] = last;
        if (last - next > skips) {
            skips = last - next;
            skipping = v;
        }
    }
    for (uint32_t k = 1, end = 0; k < c->count; k++) {
        end = until[k] > end ? until[k] : end;
        goes[k] = k < end;
    }
    join_stages(goes, c);
    if (skips > 0 && c->count < 3) /* all of it, perhaps but for an end */
        return fail_skipped(graph, who, skipping, find_last_forward_reader(graph, skipping));
    return RP_OK;
}

/* Joins neighbours, as many to one everywhere, until there are at most `most` stages. */
static void join_neighbours(uint32_t most, bool *goes, rp_chain *c) {
    const uint32_t size = (c->count - 1) / most + 1;
    for (uint32_t k = 1; k < c->count; k++)
        goes[k] = k % size != 0;
    if (size > 1)
        join_stages(goes, c);
}

/* ---- States ---------------------------------------------------------------------------------- */

static void find_states(const rp_graph *graph, rp_chain *c) {
    for (uint32_t v = 0; v < graph->value_count; v++) {
        if (!is_written_by_stage(graph, c, v))
            continue;
        const uint32_t stage = c->stage[graph->values[v].writer];
        const uint32_t last = find_last_stage(graph, c, v);
        c->is_state[v] =
            stage < c->count ? last > stage : last == 0 && is_read_by_backward(graph, v);
    }
}

static rp_status fail_forth(const rp_graph *graph, const char *who, uint32_t node, uint32_t value) {
    return rp_fail(graph->context, RP_NOT_APPLICABLE,
                   "%s needs a chain, but backward does not go back through it: node %u (%s) is "
                   "the first to ask for %s, behind what stands before it",
                   who, node, rp_node_name(graph, node), rp_value_name(graph, value));
}

/* Backward asks for the states from the last to the first, perhaps for several at once. */
static rp_status find_demands(const rp_graph *graph, const char *who, rp_chain *c) {
    uint32_t lowest = RP_NONE; /* of the states asked for by the nodes before */
    for (uint32_t k = 0; k <= c->count; k++)
        c->demand[k] = RP_NONE;
    for (uint32_t n = graph->last_forward + 1; n < graph->node_count; n++) {
        uint32_t now = lowest;
        for (size_t i = 0; i < graph->nodes[n].inputs.count; i++) {
            const uint32_t v = rp_node_inputs(graph, n)[i];
            if (!is_written_by_stage(graph, c, v))
                continue;
            const uint32_t state = c->stage[graph->values[v].writer] - (c->is_state[v] ? 0 : 1);
            if (c->demand[state] != RP_NONE)
                continue;
            if (state > lowest)
                return fail_forth(graph, who, n, v);
            c->demand[state] = n;
            now = state < now ? state : now;
        }
        lowest = now;
    }
    for (uint32_t k = 0; k <= c->count; k++) {
        if (c->demand[k] != RP_NONE)
            c->top = k;
        else if (k > 0)
            c->demand[k] = c->demand[k - 1];
    }
    return RP_OK;
}

/* ---- All of it ------------------------------------------------------------------------------- */

rp_status rp_chain_create(const rp_graph *graph, const char *who, bool merge, uint32_t most,
                          rp_chain *chain) {
    rp_context *const context = graph->context;
    rp_status status = RP_OK;
    *chain = (rp_chain){.count = 0};
    if (graph->last_forward == RP_NONE || graph->first_backward == RP_NONE)
        return rp_fail(context, RP_NOT_APPLICABLE, "%s needs a chain, but there is no %s node", who,
                       graph->last_forward == RP_NONE ? "forward" : "backward");
    if (graph->last_forward > graph->first_backward)
        return rp_fail(context, RP_NOT_APPLICABLE,
                       "%s needs a chain, but forward node %u (%s) stands behind a backward one",
                       who, graph->last_forward, rp_node_name(graph, graph->last_forward));
    bool *goes = rp_alloc(context, graph->node_count, sizeof *goes);
    chain->begin = rp_alloc(context, graph->node_count + 1, sizeof *chain->begin);
    chain->stage = rp_alloc(context, graph->node_count, sizeof *chain->stage);
    chain->demand = rp_alloc(context, graph->node_count + 1, sizeof *chain->demand);
    chain->is_state = rp_alloc(context, graph->value_count, sizeof *chain->is_state);
    if (goes == NULL || chain->begin == NULL || chain->stage == NULL || chain->demand == NULL ||
        chain->is_state == NULL) {
        status = rp_fail_memory(context, "the stages of a chain");
        goto fail;
    }
    uint32_t blocks = rp_segments_find_labels(graph, chain->stage);
    number_stages(graph, blocks > 0, chain);
    status = join_skipped(graph, who, merge, goes, chain);
    if (status == RP_NOT_APPLICABLE && !merge && blocks == 0) {
        status = rp_segments_find_repeats(graph, chain->stage, &blocks);
        if (status != RP_OK)
            goto fail;
        number_stages(graph, blocks > 0, chain);
        status = join_skipped(graph, who, merge, goes, chain);
    }
    if (status != RP_OK)
        goto fail;
    join_neighbours(most, goes, chain);
    find_states(graph, chain);
    status = find_demands(graph, who, chain);
fail:
    rp_free(context, goes);
    if (status != RP_OK)
        rp_chain_clear(context, chain);
    return status;
}

void rp_chain_clear(rp_context *context, rp_chain *chain) {
    rp_free(context, chain->begin);
    rp_free(context, chain->stage);
    rp_free(context, chain->demand);
    rp_free(context, chain->is_state);
    *chain = (rp_chain){.count = 0};
}

rp_status rp_chain_advance(const rp_chain *chain, const rp_expander *expander, uint32_t from,
                           uint32_t to, uint32_t at, rp_drops *drops) {
    const rp_graph *graph = expander->graph;
    rp_status status = RP_OK;
    for (uint32_t n = chain->begin[from]; n < chain->begin[to] && status == RP_OK; n++)
        for (size_t o = 0; o < graph->nodes[n].outputs.count && status == RP_OK; o++) {
            const uint32_t v = rp_node_outputs(graph, n)[o];
            if (graph->values[v].is_output || !rp_value_has_lifetime(graph, v) ||
                (chain->is_state[v] && chain->stage[n] == to))
                continue;
            status = rp_drops_add(expander, drops, v, at);
        }
    return status;
}
