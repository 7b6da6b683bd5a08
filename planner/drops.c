/* Sets of decisions: for each value a short list of stages that it is not carried across. */
#include "expand.h"

#include <string.h>

rp_status rp_drops_create(const rp_expander *expander, rp_drops *drops) {
    const rp_graph *graph = expander->graph;
    *drops = (rp_drops){.unused = RP_NONE};
    drops->head = rp_resize(graph->context, NULL, graph->value_count, sizeof *drops->head);
    if (drops->head == NULL)
        return rp_fail_memory(graph->context, "the decisions of a schedule");
    const rp_status status = rp_drops_reset(expander, drops);
    if (status != RP_OK)
        rp_drops_clear(graph->context, drops);
    return status;
}

void rp_drops_clear(rp_context *context, rp_drops *drops) {
    rp_free(context, drops->head);
    rp_free(context, drops->entries);
    *drops = (rp_drops){.unused = RP_NONE};
}

static bool is_forced(const rp_expander *expander, uint32_t value, uint32_t stage) {
    const rp_graph *graph = expander->graph;
    return expander->forced_count > 0 && stage == graph->last_forward &&
           graph->nodes[graph->values[value].writer].mark == RP_MARK_RECOMPUTE;
}

bool rp_drops_contain(const rp_drops *drops, uint32_t value, uint32_t stage) {
    for (uint32_t e = drops->head[value]; e != RP_NONE; e = drops->entries[e].next)
        if (drops->entries[e].stage == stage)
            return true;
    return false;
}

/* The first stage in which a decision can make anything run again: of the next reader, or already
 * the next one where marks have called values up. */
static uint32_t find_effect(const rp_expander *x, uint32_t value, uint32_t stage) {
    const uint32_t *readers = rp_value_readers(x->graph, value);
    const size_t count = x->graph->values[value].readers.count;
    if (x->forced_count > 0)
        return stage + 1;
    for (size_t i = 0; i < count; i++)
        if (readers[i] > stage)
            return readers[i];
    return (uint32_t)x->graph->node_count;
}

rp_status rp_drops_add(const rp_expander *expander, rp_drops *drops, uint32_t value,
                       uint32_t stage) {
    rp_context *const context = expander->graph->context;
    if (expander->fixed[value] || stage >= expander->hold[value] ||
        rp_drops_contain(drops, value, stage))
        return RP_OK;
    uint32_t entry = drops->unused;
    if (entry != RP_NONE) {
        drops->unused = drops->entries[entry].next;
    } else {
        if (drops->count == RP_NONE || (drops->count == drops->capacity &&
                                        !rp_reserve(context, &drops->entries, &drops->capacity,
                                                    drops->count + 1, sizeof *drops->entries)))
            return rp_fail_memory(context, "the decisions of a schedule");
        entry = (uint32_t)drops->count++;
    }
    drops->entries[entry] = (struct rp_drop_entry){stage, drops->head[value]};
    drops->head[value] = entry;
    drops->size++;
    if (stage + 1 < drops->plain) {
        const uint32_t effect = find_effect(expander, value, stage);
        drops->plain = effect < drops->plain ? effect : drops->plain;
    }
    return RP_OK;
}

bool rp_drops_remove(const rp_expander *expander, rp_drops *drops, uint32_t value, uint32_t stage) {
    uint32_t *link = &drops->head[value];
    while (*link != RP_NONE && drops->entries[*link].stage != stage)
        link = &drops->entries[*link].next;
    if (*link == RP_NONE || is_forced(expander, value, stage))
        return false;
    const uint32_t entry = *link;
    *link = drops->entries[entry].next;
    drops->entries[entry].next = drops->unused;
    drops->unused = entry;
    drops->size--;
    return true;
}

rp_status rp_drops_reset(const rp_expander *expander, rp_drops *drops) {
    for (size_t v = 0; v < expander->graph->value_count; v++)
        drops->head[v] = RP_NONE;
    drops->count = drops->size = 0;
    drops->unused = RP_NONE;
    drops->plain = (uint32_t)expander->graph->node_count;
    for (size_t i = 0; i < expander->forced_count; i++) {
        const rp_status status =
            rp_drops_add(expander, drops, expander->forced[i].value, expander->forced[i].stage);
        if (status != RP_OK)
            return status;
    }
    return RP_OK;
}

rp_status rp_drops_copy(const rp_expander *expander, const rp_drops *from, rp_drops *to) {
    rp_context *const context = expander->graph->context;
    if (!rp_reserve(context, &to->entries, &to->capacity, from->count, sizeof *to->entries))
        return rp_fail_memory(context, "the decisions of a schedule");
    memcpy(to->head, from->head, expander->graph->value_count * sizeof *to->head);
    if (from->count > 0)
        memcpy(to->entries, from->entries, from->count * sizeof *to->entries);
    to->count = from->count;
    to->unused = from->unused;
    to->size = from->size;
    to->plain = from->plain;
    return RP_OK;
}
