/* exact: what auto found, made cheaper and proven by a search over all schedules. */
#include "exact.h"
#include "exact_graph.h"
#include "memo.h"

/* States: for one budget, and for all of them together. */
enum { MOST_STATES = 400000, ALL_STATES = 2000000 };

/* The minimum belongs to the graph and is auto's, so that every strategy tells the same one; on the
 * graphs that are small enough auto itself has looked for it in this way. */
rp_status rp_propose_exact(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    (void)argument;
    const size_t values = rp_exact_graph_count(graph);
    rp_memo *memo = NULL;
    int64_t bottom = INT64_MAX;
    if (values > RP_EXACT_MOST_VALUES)
        return rp_fail(graph->context, RP_NOT_APPLICABLE,
                       "exact needs a graph of at most %d activations; this one has %zu",
                       RP_EXACT_MOST_VALUES, values);
    rp_status status = rp_memo_open(graph, &memo);
    for (size_t i = 0; status == RP_OK && i < memo->family.count; i++) {
        rp_schedule schedule = {.steps = NULL};
        status = rp_candidates_build(memo->family.set, i, &schedule);
        if (status == RP_OK)
            status = rp_candidates_offer(set, &schedule);
        rp_schedule_clear(graph->context, &schedule);
        bottom = rp_candidates_get(memo->family.set, i).live_peak_bytes;
    }
    return status == RP_OK ? rp_exact_improve(graph, bottom, MOST_STATES, ALL_STATES, set) : status;
}
