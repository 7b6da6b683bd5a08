/* Megatron's two methods over labelled blocks (Korthikanti et al. 2022): `uniform` makes segments
 * of N consecutive blocks, `block` makes the first N blocks a segment each. A segment holds what
 * later ones read, which is the input of the next one; the rest is run again on demand and only as
 * far as backward needs it. The last segment is kept: backward begins with it. */
#include "segments.h"
#include "strategy.h"

/* Turns blocks into segments, in place: which block belongs to which segment is `size` blocks a
 * segment, and from `kept` on they are kept. */
static void group_blocks(const rp_graph *graph, uint32_t size, uint32_t kept, uint32_t *block) {
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (block[n] != RP_NONE)
            block[n] = block[n] >= kept ? RP_NONE : block[n] / size;
}

static rp_status propose(const rp_graph *graph, uint32_t size, uint32_t kept, uint32_t *segment,
                         rp_candidates *set) {
    rp_expander expander;
    rp_drops drops = {0};
    rp_status status = rp_expander_create(graph, &expander);
    if (status != RP_OK)
        return status;
    group_blocks(graph, size, kept, segment);
    status = rp_drops_create(&expander, &drops);
    if (status == RP_OK)
        status = rp_segments_drop(&expander, segment, &drops);
    if (status == RP_OK)
        status = rp_candidates_offer_drops(set, &expander, &drops);
    rp_drops_clear(graph->context, &drops);
    rp_expander_clear(&expander);
    return status;
}

static rp_status propose_blocks(const rp_graph *graph, uint32_t argument, bool uniform,
                                rp_candidates *set) {
    rp_context *const context = graph->context;
    uint32_t *block = rp_alloc(context, graph->node_count, sizeof *block);
    if (block == NULL)
        return rp_fail_memory(context, "the blocks of a graph");
    const uint32_t count = rp_segments_find_blocks(graph, block);
    rp_status status = RP_OK;
    if (count == 0)
        status = rp_fail(context, RP_NOT_APPLICABLE,
                         "%s needs blocks, but no forward node carries a label",
                         uniform ? "uniform" : "block");
    else if (uniform) /* the last segment, whole or not, begins at a multiple of the size */
        status = propose(graph, argument, (count - 1) / argument * argument, block, set);
    else
        status = propose(graph, 1, argument < count ? argument : count - 1, block, set);
    rp_free(context, block);
    return status;
}

rp_status rp_propose_uniform(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    return propose_blocks(graph, argument, true, set);
}

rp_status rp_propose_block(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    return propose_blocks(graph, argument, false, set);
}
