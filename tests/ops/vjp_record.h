/* What an op's vjp emits, recorded without running it: order, operands, absent slots. */
#ifndef REPRISE_TESTS_OPS_VJP_RECORD_H
#define REPRISE_TESTS_OPS_VJP_RECORD_H

#include "op.h"

enum { VJP_MAX_NODES = 8, VJP_MAX_SLOTS = 8 };

typedef struct vjp_node {
    rp_op op;
    rp_op_params params;
    uint32_t in[VJP_MAX_SLOTS];
    size_t in_count, out_count;
    int gradient_of[VJP_MAX_SLOTS];
} vjp_node;

typedef struct vjp_record {
    rp_vjp vjp; /* first: emit gets its address */
    vjp_node nodes[VJP_MAX_NODES];
    size_t count;
} vjp_record;

/* The forward inputs are the values 0, 1, ..., the outputs 100, 101, ..., their gradients 200 (of
 * output 0; the others have none). wanted: bit i for input i. Absent inputs are RP_NONE. */
void vjp_record_make(vjp_record *record, rp_op op, const rp_op_call *call, uint32_t wanted);

#endif
