/* Megatron's two methods over labelled blocks (Korthikanti et al. 2022): `uniform` makes segments
 * of N consecutive blocks, `block` makes the first N blocks a segment each. A segment holds what
 * later ones read, which is the input of the next one; the rest is run again on demand and only as
 * far as backward needs it. The last segment is kept: backward begins with it. */
#include "lists.h"

/* Which block belongs to which segment is `size` blocks a segment, and from `kept` on they are
 * kept. Scratch of the caller, one entry a node. */
static void group_blocks(const rp_graph *graph, const rp_blocks *blocks, uint32_t size,
                         uint32_t kept, uint32_t *segment) {
    for (uint32_t n = 0; n < graph->node_count; n++)
        segment[n] = blocks->of[n] >= kept ? RP_NONE : blocks->of[n] / size;
}

/* Segments of `size` blocks below `kept`; `nested`: with the blocks as their parts. */
static rp_status list_segments(const rp_expander *x, const rp_blocks *blocks, uint32_t size,
                               uint32_t kept, bool nested, rp_drops *drops, rp_sink sink) {
    const rp_graph *graph = x->graph;
    uint32_t *segment = rp_alloc(graph->context, graph->node_count, sizeof *segment);
    if (segment == NULL)
        return rp_fail_memory(graph->context, "the segments of a graph");
    group_blocks(graph, blocks, size, kept, segment);
    rp_status status = rp_drops_reset(x, drops);
    if (status == RP_OK)
        status = rp_segments_drop(x, segment, drops);
    if (status == RP_OK && nested)
        status = rp_segments_drop_parts(x, segment, blocks->of, drops);
    if (status == RP_OK)
        status = sink.take(sink.user, drops);
    rp_free(graph->context, segment);
    return status;
}

/* The last segment, whole or not, begins at a multiple of the size. */
static uint32_t last_segment(const rp_blocks *blocks, uint32_t size) {
    return (blocks->count - 1) / size * size;
}

rp_status rp_uniform_list(const rp_expander *expander, const rp_blocks *blocks, uint32_t size,
                          rp_drops *drops, rp_sink sink) {
    return list_segments(expander, blocks, size, last_segment(blocks, size), false, drops, sink);
}

rp_status rp_first_list(const rp_expander *expander, const rp_blocks *blocks, uint32_t size,
                        rp_drops *drops, rp_sink sink) {
    const uint32_t kept = size < blocks->count ? size : blocks->count - 1;
    return list_segments(expander, blocks, 1, kept, false, drops, sink);
}

rp_status rp_nested_list(const rp_expander *expander, const rp_blocks *blocks, uint32_t size,
                         rp_drops *drops, rp_sink sink) {
    return list_segments(expander, blocks, size, last_segment(blocks, size), true, drops, sink);
}

static rp_status list_labelled(const rp_expander *x, rp_block_list list, const char *name,
                               uint32_t argument, rp_drops *drops, rp_sink sink) {
    rp_context *const context = x->graph->context;
    if (rp_segments_find_labels(x->graph, NULL) == 0)
        return rp_fail(context, RP_NOT_APPLICABLE,
                       "%s needs blocks, but no forward node carries a label", name);
    rp_blocks blocks;
    rp_status status = rp_blocks_create(x->graph, &blocks);
    if (status != RP_OK)
        return status;
    status = list(x, &blocks, argument, drops, sink);
    rp_blocks_clear(context, &blocks);
    return status;
}

static rp_status list_uniform(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                              rp_sink sink) {
    return list_labelled(expander, rp_uniform_list, "uniform", argument, drops, sink);
}

static rp_status list_first(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                            rp_sink sink) {
    return list_labelled(expander, rp_first_list, "block", argument, drops, sink);
}

rp_status rp_propose_uniform(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    return rp_propose_list(graph, list_uniform, argument, set);
}

rp_status rp_propose_block(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    return rp_propose_list(graph, list_first, argument, set);
}
