/* The planner's graph in memory: plain arrays, indices instead of pointers, frozen by
 * rp_graph_finish. Everything in planner/ may read these fields; only graph.c writes them. */
#ifndef REPRISE_PLANNER_GRAPH_H
#define REPRISE_PLANNER_GRAPH_H

#include <reprise/extend.h>
#include <reprise/graph.h>

/* A run of entries in one of the graph's pools. */
typedef struct rp_range {
    size_t begin, count;
} rp_range;

typedef struct rp_value {
    size_t name;          /* offset into graph->strings */
    int64_t stated_bytes; /* as given */
    int64_t bytes;        /* rounded up; 0 for a view */
    uint32_t alias_of;    /* direct base or RP_NONE */
    uint32_t root;        /* end of the alias chain; itself without one */
    uint32_t writer;      /* the node that writes this activation; RP_NONE for persistent values */
    rp_range readers;     /* in graph->readers: nodes that read it, ascending */
    /* as stated; a view of a persistent value is an activation with a persistent root */
    bool persistent;
    bool is_output;
} rp_value;

typedef struct rp_node {
    size_t name, block; /* offsets into graph->strings */
    int64_t cost_ns;
    int64_t stated_workspace; /* as given */
    int64_t workspace;        /* rounded up */
    rp_range inputs, outputs; /* in graph->edges; no input twice, no output twice */
    rp_range inplace;         /* in graph->pairs */
    rp_phase phase;
    rp_mark mark;
    bool recomputable;      /* as stated */
    bool writes_persistent; /* then it runs once, whatever the flag says */
} rp_node;

struct rp_graph {
    rp_context *context;
    rp_owned owned;
    size_t name;
    int64_t alignment;
    rp_value *values;
    size_t value_count, value_capacity;
    rp_node *nodes;
    size_t node_count, node_capacity;
    uint32_t *edges;
    size_t edge_count, edge_capacity;
    rp_inplace_pair *pairs;
    size_t pair_count, pair_capacity;
    char *strings;
    size_t string_bytes, string_capacity;
    uint32_t *outputs;
    size_t output_count;

    /* set by rp_graph_finish */
    bool finished;
    uint32_t *readers;
    size_t reader_count;
    uint32_t last_forward, first_backward; /* nodes, or RP_NONE */
    int64_t persistent_bytes;
    int64_t total_cost_ns;
    uint64_t hash;
    struct rp_memo *memo; /* what planning has found out about the graph (memo.h) */
};

/* Other costs for a finished graph, one a node; what planning has found out is forgotten.
 * RP_BAD_INPUT: they do not add up below 2^63; nothing has changed. */
rp_status rp_graph_set_costs(rp_graph *graph, const int64_t *costs);

static inline const uint32_t *rp_node_inputs(const rp_graph *graph, uint32_t node) {
    return graph->edges + graph->nodes[node].inputs.begin;
}

static inline const uint32_t *rp_node_outputs(const rp_graph *graph, uint32_t node) {
    return graph->edges + graph->nodes[node].outputs.begin;
}

static inline const rp_inplace_pair *rp_node_inplace(const rp_graph *graph, uint32_t node) {
    return graph->pairs + graph->nodes[node].inplace.begin;
}

static inline const uint32_t *rp_value_readers(const rp_graph *graph, uint32_t value) {
    return graph->readers + graph->values[value].readers.begin;
}

static inline const char *rp_node_name(const rp_graph *graph, uint32_t node) {
    return graph->strings + graph->nodes[node].name;
}

static inline const char *rp_value_name(const rp_graph *graph, uint32_t value) {
    return graph->strings + graph->values[value].name;
}

/* Whether the value has storage that begins and ends: neither persistent nor a view of something
 * persistent. */
static inline bool rp_value_has_lifetime(const rp_graph *graph, uint32_t value) {
    return !graph->values[graph->values[value].root].persistent;
}

/* Whether the node may run a second time at all: flag, mark, and nothing persistent written. */
static inline bool rp_node_may_rerun(const rp_graph *graph, uint32_t node) {
    const rp_node *n = &graph->nodes[node];
    return n->recomputable && n->mark != RP_MARK_KEEP && !n->writes_persistent;
}

/* The last node whose first run needs the activation: node_count for an output of the graph, its
 * writer if nobody reads it. */
static inline uint32_t rp_value_last_need(const rp_graph *graph, uint32_t value) {
    const rp_value *v = &graph->values[value];
    if (v->is_output)
        return (uint32_t)graph->node_count;
    return v->readers.count == 0 ? v->writer : rp_value_readers(graph, value)[v->readers.count - 1];
}

/* The last forward node where all backward nodes stand behind it: marks recompute speak of that
 * moment. RP_NONE without one. */
static inline uint32_t rp_graph_turn(const rp_graph *graph) {
    return graph->last_forward != RP_NONE && graph->first_backward != RP_NONE &&
                   graph->last_forward < graph->first_backward
               ? graph->last_forward
               : RP_NONE;
}

/* The last stage in which each node may run again: itself if it may not at all, else the next write
 * of something persistent that it reads, also through a view; RP_NONE: none comes. `next_write` is
 * scratch: a number for each value. */
void rp_graph_find_deadlines(const rp_graph *graph, uint32_t *deadline, uint32_t *next_write);

#endif
