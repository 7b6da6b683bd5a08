/* Ops on values in flat lists: what a tape records and what a program is made of.
 *
 * A chain of a million ops must stay small, so everything is an index into a pool, and
 * neighbours share equal shapes and parameters. A value's index is its tensor's id less 1; an
 * absent slot is RP_NONE, as in ops/op.h. */
#ifndef REPRISE_AUTOGRAD_CODE_H
#define REPRISE_AUTOGRAD_CODE_H

#include <reprise/graph.h>

#include "ops/op.h"

typedef enum rp_code_kind {
    RP_CODE_ACTIVATION,
    RP_CODE_PARAMETER,
    RP_CODE_INPUT,
    RP_CODE_GRADIENT, /* persistent: accumulates over the runs of a step */
    RP_CODE_STATE,    /* persistent: of the optimizer */
    RP_CODE_SCRATCH   /* persistent: what a device needs beside tensors */
} rp_code_kind;

typedef struct rp_code_value {
    uint32_t dims;   /* where its dimensions begin in rp_code.dims */
    uint32_t writer; /* activations: the node; else what the owner of the list wants */
    uint8_t rank, dtype, kind;
    bool needs_gradient; /* a gradient may flow to it */
} rp_code_value;

typedef struct rp_code_node {
    /* where its slots begin in rp_code.edges: inputs, outputs, what the outputs are added to */
    size_t edges;
    uint32_t in_count, out_count;
    uint32_t params;
    uint32_t block, name; /* offsets into the tape's strings; name 0: none given */
    /* tape: how many of its op came before; program: the tape's node that it comes from */
    uint32_t number;
    uint8_t op, mark;
    bool accumulates; /* the third list of slots is there */
    bool detached, backward;
    bool joined; /* a view that is no value of its own in the graph, but its base's */
} rp_code_node;

typedef struct rp_code {
    int64_t *dims;
    size_t dim_count, dim_capacity;
    rp_code_value *values;
    size_t value_count, value_capacity;
    rp_code_node *nodes;
    size_t node_count, node_capacity;
    uint32_t *edges;
    size_t edge_count, edge_capacity;
    rp_op_params *params;
    size_t params_count, params_capacity;
} rp_code;

/* One node as it is appended. `accumulate` may be NULL, else it has out_count entries. */
typedef struct rp_code_call {
    rp_op op;
    const rp_op_params *params;
    const uint32_t *in, *out, *accumulate;
    size_t in_count, out_count;
} rp_code_call;

/* Both leave the lists as they were when memory is short (false). A new node's other fields are
 * 0. */
bool rp_code_add_value(rp_context *context, rp_code *code, const rp_tensor_info *info,
                       rp_code_kind kind, uint32_t *index);
bool rp_code_add_node(rp_context *context, rp_code *code, const rp_code_call *call,
                      uint32_t *index);

void rp_code_clear(rp_context *context, rp_code *code);

/* The type and shape of a value; RP_NO_DTYPE and rank 0 of RP_NONE. */
rp_tensor_info rp_code_info(const rp_code *code, uint32_t value);

/* The types and shapes of `count` slots. */
void rp_code_infos(const rp_code *code, const uint32_t *slots, size_t count, rp_tensor_info *infos);

/* Bytes of a tensor; false when they do not fit 63 bits, also if a dimension of 0 were 1. */
bool rp_code_info_bytes(const rp_tensor_info *info, int64_t *bytes);

bool rp_code_info_equal(const rp_tensor_info *a, const rp_tensor_info *b);

static inline const uint32_t *rp_code_inputs(const rp_code *code, const rp_code_node *node) {
    return code->edges + node->edges;
}

static inline uint32_t *rp_code_outputs(const rp_code *code, const rp_code_node *node) {
    return code->edges + node->edges + node->in_count;
}

/* NULL if the node adds to nothing. */
static inline const uint32_t *rp_code_accumulates(const rp_code *code, const rp_code_node *node) {
    return node->accumulates ? code->edges + node->edges + node->in_count + node->out_count : NULL;
}

static inline size_t rp_code_slots(const rp_code_node *node) {
    return node->in_count + (size_t)node->out_count * (node->accumulates ? 2 : 1);
}

#endif
