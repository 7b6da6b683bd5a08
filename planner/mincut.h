/* Minimum cuts of directed networks (Dinic's algorithm on flat arrays). */
#ifndef REPRISE_PLANNER_MINCUT_H
#define REPRISE_PLANNER_MINCUT_H

#include <reprise/extend.h>

#define RP_CUT_NEVER (INT64_MAX / 4) /* the capacity of an edge that no cut may use */

typedef struct rp_network {
    rp_context *context;
    uint32_t source, sink, vertex_count;
    struct rp_network_edge {
        uint32_t from, to;
        int64_t capacity, room; /* as built; what is left of it. Edge e ^ 1 goes the other way */
    } * edges;
    size_t edge_count, edge_capacity;

    /* set by rp_network_solve */
    uint32_t *first, *order; /* edges by vertex: order[first[v]] to order[first[v + 1] - 1] */
    uint32_t *level, *next, *queue, *path;
    bool indexed;
} rp_network;

/* Vertices 0 to vertex_count - 1. */
rp_status rp_network_create(rp_context *context, uint32_t vertex_count, uint32_t source,
                            uint32_t sink, rp_network *network);
void rp_network_clear(rp_network *network);

/* False when memory is short. `*edge` (may be NULL) is good for rp_network_set. */
bool rp_network_add(rp_network *network, uint32_t from, uint32_t to, int64_t capacity,
                    uint32_t *edge);

/* Another capacity for an edge. The sum of all that are not RP_CUT_NEVER must stay below that. */
void rp_network_set(rp_network *network, uint32_t edge, int64_t capacity);

/* The value of the minimum cut; RP_CUT_NEVER or more: every cut uses such an edge. Afterwards
 * rp_network_is_source_side tells the side of each vertex in the cut nearest to the source. Where
 * `*is_cut` is false the network took too long: the value is one that no cut is below, and there
 * are no sides. */
rp_status rp_network_solve(rp_network *network, int64_t *value, bool *is_cut);

static inline bool rp_network_is_source_side(const rp_network *network, uint32_t vertex) {
    return network->level[vertex] != UINT32_MAX;
}

#endif
