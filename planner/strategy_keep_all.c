/* keep-all: every node runs once, every value goes right behind its last reader. */
#include "expand.h"
#include "strategy.h"

/* last[v]: the node behind which the value is dropped. */
static void find_last_uses(const rp_graph *graph, uint32_t *last) {
    for (size_t v = 0; v < graph->value_count; v++) {
        const rp_value *value = &graph->values[v];
        last[v] = value->writer;
        if (value->readers.count > 0)
            last[v] = rp_value_readers(graph, (uint32_t)v)[value->readers.count - 1];
    }
}

/* Values that end with the same node, as lists: first[node], next[value]. Ascending, because they
 * are pushed in descending order. */
static void list_ends(const rp_graph *graph, const uint32_t *last, uint32_t *first,
                      uint32_t *next) {
    for (size_t n = 0; n < graph->node_count; n++)
        first[n] = RP_NONE;
    for (size_t v = graph->value_count; v-- > 0;) {
        const rp_value *value = &graph->values[v];
        if (value->persistent || value->is_output)
            continue;
        next[v] = first[last[v]];
        first[last[v]] = (uint32_t)v;
    }
}

static bool append_all(const rp_graph *graph, const uint32_t *first, const uint32_t *next,
                       rp_schedule *schedule) {
    rp_context *const context = graph->context;
    for (uint32_t n = 0; n < graph->node_count; n++) {
        if (!rp_schedule_append(context, schedule, RP_STEP_RUN, n))
            return false;
        for (uint32_t v = first[n]; v != RP_NONE; v = next[v])
            if (!rp_schedule_append(context, schedule, RP_STEP_DROP, v))
                return false;
    }
    return true;
}

rp_status rp_keep_all_schedule(const rp_graph *graph, rp_schedule *schedule) {
    rp_context *const context = graph->context;
    rp_status status = RP_OK;
    uint32_t *last = rp_alloc(context, graph->value_count, sizeof *last);
    uint32_t *next = rp_alloc(context, graph->value_count, sizeof *next);
    uint32_t *first = rp_alloc(context, graph->node_count, sizeof *first);
    schedule->count = 0;
    if (last == NULL || next == NULL || first == NULL)
        goto fail;
    find_last_uses(graph, last);
    list_ends(graph, last, first, next);
    if (append_all(graph, first, next, schedule))
        goto done;
fail:
    status = rp_fail_memory(context, "the schedule without recompute");
done:
    rp_free(context, last);
    rp_free(context, next);
    rp_free(context, first);
    return status;
}

rp_status rp_propose_keep_all(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    (void)argument;
    const uint32_t marked = rp_graph_find_kept_mark(graph);
    if (marked != RP_NONE)
        return rp_fail(graph->context, RP_INFEASIBLE,
                       "keep-all recomputes nothing, but node %u (%s) is marked recompute", marked,
                       rp_node_name(graph, marked));
    rp_schedule schedule = {0};
    rp_status status = rp_keep_all_schedule(graph, &schedule);
    if (status == RP_OK)
        status = rp_candidates_offer(set, &schedule);
    rp_schedule_clear(graph->context, &schedule);
    return status;
}
