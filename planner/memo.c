/* Bounds and auto's family, made when they are first asked for. */
#include "memo.h"

#include "clock.h"

/* Schedules that a graph keeps after planning: about as many nodes in all. */
enum { KEPT_NODES = 16 << 20 };

rp_memo *rp_memo_create(const rp_graph *graph) {
    return rp_alloc(graph->context, 1, sizeof(rp_memo));
}

void rp_memo_destroy(const rp_graph *graph) {
    if (graph->memo == NULL)
        return;
    rp_family_clear(&graph->memo->family);
    rp_bound_clear(graph->context, &graph->memo->bound);
    rp_free(graph->context, graph->memo);
}

rp_status rp_memo_bound(const rp_graph *graph, const rp_bound **bound) {
    rp_memo *m = graph->memo;
    rp_status status = RP_OK;
    *bound = &m->bound;
    if (!m->is_bounded)
        status = rp_bound_create(graph, &m->bound);
    m->is_bounded = status == RP_OK;
    return status;
}

rp_status rp_memo_open(const rp_graph *graph, rp_memo **memo) {
    rp_memo *m = graph->memo;
    *memo = m;
    if (m->family.set != NULL)
        return RP_OK;
    const double begin = rp_milliseconds();
    const rp_strategy *strategy = NULL;
    uint32_t argument = 0;
    rp_status status = rp_strategy_find(graph->context, "auto", &strategy, &argument);
    if (status == RP_OK)
        status = rp_family_create(graph, strategy, argument, &m->family);
    if (status == RP_OK)
        status = rp_family_minimum(&m->family, &m->minimum, &m->minimum_bytes);
    if (status != RP_OK)
        rp_family_clear(&m->family);
    m->milliseconds = rp_milliseconds() - begin;
    return status;
}

void rp_memo_close(const rp_graph *graph) {
    if (graph->memo->family.count * graph->node_count > KEPT_NODES)
        rp_family_clear(&graph->memo->family);
}
