#include "strategy.h"

rp_status rp_propose_uniform(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    (void)argument;
    (void)set;
    return rp_fail(graph->context, RP_NOT_APPLICABLE, "uniform: not built yet");
}

rp_status rp_propose_block(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    (void)argument;
    (void)set;
    return rp_fail(graph->context, RP_NOT_APPLICABLE, "block: not built yet");
}
