/* What an op's vjp emits, recorded without running it: order, operands, absent slots. */
#ifndef REPRISE_TESTS_OPS_VJP_RECORD_H
#define REPRISE_TESTS_OPS_VJP_RECORD_H

#include "op.h"

enum { VJP_MAX_NODES = 8, VJP_MAX_SLOTS = 16, VJP_TEXT = 512 };

typedef struct vjp_node {
    rp_op op;
    rp_op_params params;
    uint32_t in[VJP_MAX_SLOTS];
    size_t in_count, out_count;
    int gradient_of[VJP_MAX_SLOTS];
    uint32_t temporary[VJP_MAX_SLOTS];
} vjp_node;

typedef struct vjp_record {
    rp_vjp vjp; /* first: emit gets its address */
    vjp_node nodes[VJP_MAX_NODES];
    size_t count;
    uint32_t temporaries;
} vjp_record;

/* The forward inputs are the values 0, 1, ..., the outputs 100, 101, ..., their gradients 200 (of
 * output 0; the others have none), temporaries 300, 301, ... wanted: bit i for input i. Absent
 * inputs are RP_NONE. */
void vjp_record_make(vjp_record *record, rp_op op, const rp_op_call *call, uint32_t wanted);

/* "op(in0 out1 g0 -)->d0 t0 -; " for each node: d0 is the gradient of input 0, - is absent. */
const char *vjp_record_text(const vjp_record *record, char text[VJP_TEXT]);

#endif
