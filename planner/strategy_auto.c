#include "strategy.h"

rp_status rp_propose_auto(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    (void)argument;
    (void)set;
    return rp_fail(graph->context, RP_NOT_APPLICABLE, "auto: not built yet");
}
