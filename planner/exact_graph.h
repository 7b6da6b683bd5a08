/* A small graph as the exact search sees it: activations have slots, and questions that depend on
 * the stage alone are answered beforehand. */
#ifndef REPRISE_PLANNER_EXACT_GRAPH_H
#define REPRISE_PLANNER_EXACT_GRAPH_H

#include "graph.h"

typedef struct rp_exact_graph {
    const rp_graph *graph;
    uint32_t slots;
    uint32_t *slot_of;   /* of each value, RP_NONE for persistent ones */
    uint32_t *value_of;  /* of each slot */
    uint32_t *last_need; /* of each slot: rp_value_last_need */
    uint32_t *deadline;  /* of each node: the last stage in which it may run again */
    bool *useful;        /* of each stage, of each slot: whether anybody may still read it */
    bool *marked;        /* of each slot: not live throughout the turn */
    bool *hinted;        /* of each slot: an output may take the place of something of its group */
    uint32_t turn;       /* the last forward node, if all backward nodes follow; else RP_NONE */
} rp_exact_graph;

rp_status rp_exact_graph_create(const rp_graph *graph, rp_exact_graph *exact);
void rp_exact_graph_clear(rp_exact_graph *exact);

/* How many activations there are. */
size_t rp_exact_graph_count(const rp_graph *graph);

static inline bool rp_exact_may_rerun(const rp_exact_graph *e, uint32_t node, uint32_t stage) {
    return node < stage && e->deadline[node] >= stage;
}

static inline bool rp_exact_is_useful(const rp_exact_graph *e, uint32_t stage, uint32_t slot) {
    return e->useful[(size_t)stage * e->slots + slot];
}

/* Bytes of the storage that the slot's value lies on. */
static inline int64_t rp_exact_bytes(const rp_exact_graph *e, uint32_t slot) {
    const rp_value *root = &e->graph->values[e->graph->values[e->value_of[slot]].root];
    return root->persistent ? 0 : root->bytes;
}

#endif
