/* auto: the families of all strategies, and a search op by op. */
#include "frontier.h"
#include "segments.h"
#include "strategy.h"

/* Effort: schedules of uniform:N and block:N tried x nodes. With more than that N is thinned
 * out. */
enum { EFFORT = 16000000, MIN_TRIED = 8 };

/* A strategy that has nothing for this graph is none of auto's concern. */
static rp_status forgive(rp_status status) {
    return status == RP_NOT_APPLICABLE || status == RP_INFEASIBLE ? RP_OK : status;
}

/* Every N up to the number of blocks. */
static rp_status propose_blocks(const rp_graph *graph, rp_candidates *set) {
    const uint32_t blocks = rp_segments_find_blocks(graph, NULL);
    const size_t affordable = EFFORT / (graph->node_count + 1);
    const uint32_t tried = (uint32_t)(affordable < MIN_TRIED ? MIN_TRIED : affordable);
    rp_status status = RP_OK;
    for (uint32_t i = 1; i <= tried && i <= blocks && status == RP_OK; i++) {
        const uint32_t n = tried >= blocks ? i : (uint32_t)((uint64_t)blocks * i / tried);
        status = forgive(rp_propose_uniform(graph, n, set));
        if (status == RP_OK)
            status = forgive(rp_propose_block(graph, n, set));
    }
    return status;
}

rp_status rp_propose_auto(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    (void)argument;
    rp_expander expander;
    rp_status status = rp_expander_create(graph, &expander);
    if (status != RP_OK) /* a mark that cannot be honoured */
        return status;
    rp_expander_clear(&expander);
    status = forgive(rp_propose_keep_all(graph, 0, set));
    if (status == RP_OK)
        status = propose_blocks(graph, set);
    if (status == RP_OK)
        status = forgive(rp_propose_sqrt(graph, 0, set));
    if (status == RP_OK)
        status = forgive(rp_propose_selective(graph, 0, set));
    if (status == RP_OK)
        status = rp_frontier_propose(graph, rp_frontier_effort(graph), set);
    return status;
}
