/* Megatron's two methods over labelled blocks (Korthikanti et al. 2022): `uniform` makes segments
 * of N consecutive blocks, `block` makes the first N blocks a segment each. A segment holds what
 * later ones read, which is the input of the next one; the rest is run again on demand and only as
 * far as backward needs it. The last segment is kept: backward begins with it. */
#include "lists.h"
#include "segments.h"

/* Turns blocks into segments, in place: which block belongs to which segment is `size` blocks a
 * segment, and from `kept` on they are kept. */
static void group_blocks(const rp_graph *graph, uint32_t size, uint32_t kept, uint32_t *block) {
    for (uint32_t n = 0; n < graph->node_count; n++)
        if (block[n] != RP_NONE)
            block[n] = block[n] >= kept ? RP_NONE : block[n] / size;
}

static rp_status list_blocks(const rp_expander *x, uint32_t argument, bool uniform, rp_drops *drops,
                             rp_sink sink) {
    const rp_graph *graph = x->graph;
    uint32_t *block = rp_alloc(graph->context, graph->node_count, sizeof *block);
    if (block == NULL)
        return rp_fail_memory(graph->context, "the blocks of a graph");
    rp_status status = RP_OK;
    const uint32_t count = rp_segments_find_blocks(graph, block);
    if (count == 0) {
        status = rp_fail(graph->context, RP_NOT_APPLICABLE,
                         "%s needs blocks, but no forward node carries a label",
                         uniform ? "uniform" : "block");
        goto fail;
    }
    if (uniform) /* the last segment, whole or not, begins at a multiple of the size */
        group_blocks(graph, argument, (count - 1) / argument * argument, block);
    else
        group_blocks(graph, 1, argument < count ? argument : count - 1, block);
    status = rp_drops_reset(x, drops);
    if (status == RP_OK)
        status = rp_segments_drop(x, block, drops);
    if (status == RP_OK)
        status = sink.take(sink.user, drops);
fail:
    rp_free(graph->context, block);
    return status;
}

rp_status rp_nested_list(const rp_expander *x, uint32_t argument, rp_drops *drops, rp_sink sink) {
    const rp_graph *graph = x->graph;
    rp_context *const context = graph->context;
    rp_status status = RP_OK;
    uint32_t *segment = rp_alloc(context, graph->node_count, sizeof *segment);
    uint32_t *block = rp_alloc(context, graph->node_count, sizeof *block);
    if (segment == NULL || block == NULL) {
        status = rp_fail_memory(context, "the blocks of a graph");
        goto fail;
    }
    const uint32_t count = rp_segments_find_blocks(graph, block);
    if (count == 0) {
        status = rp_fail(context, RP_NOT_APPLICABLE, "no forward node carries a label");
        goto fail;
    }
    rp_segments_find_blocks(graph, segment);
    group_blocks(graph, argument, (count - 1) / argument * argument, segment);
    status = rp_drops_reset(x, drops);
    if (status == RP_OK)
        status = rp_segments_drop(x, segment, drops);
    if (status == RP_OK)
        status = rp_segments_drop_parts(x, segment, block, drops);
    if (status == RP_OK)
        status = sink.take(sink.user, drops);
fail:
    rp_free(context, segment);
    rp_free(context, block);
    return status;
}

rp_status rp_uniform_list(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                          rp_sink sink) {
    return list_blocks(expander, argument, true, drops, sink);
}

rp_status rp_block_list(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                        rp_sink sink) {
    return list_blocks(expander, argument, false, drops, sink);
}

rp_status rp_propose_uniform(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    return rp_propose_list(graph, rp_uniform_list, argument, set);
}

rp_status rp_propose_block(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    return rp_propose_list(graph, rp_block_list, argument, set);
}
