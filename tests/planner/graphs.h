/* Graphs that the planner's tests share. Every builder returns a finished graph and ends the test
 * if it cannot; the caller destroys it. */
#ifndef REPRISE_TESTS_PLANNER_GRAPHS_H
#define REPRISE_TESTS_PLANNER_GRAPHS_H

#include <reprise/graph.h>

#include "unit.h"

/* A generator of numbers that are the same everywhere (splitmix64). */
typedef struct rp_test_random {
    uint64_t state;
} rp_test_random;

uint64_t rp_test_random_next(rp_test_random *random);
/* From 0 to limit - 1. */
uint32_t rp_test_random_below(rp_test_random *random, uint32_t limit);

/* The chain of convention M (cases.md): a_i = f(a_(i-1)) for i = 1..length, each op its own block
 * "op.<i>"; a node "seed" reads a_length and writes g_length; backward of op i reads a_i and g_i
 * and writes g_(i-1). a_0 is a persistent value of 0 bytes; g_0 is the output. Every a_i and g_i
 * has `unit` bytes, or sizes[i] (0..length) where sizes is not NULL. Forward ops cost `cost`. */
rp_graph *rp_test_chain(rp_context *context, uint32_t length, int64_t unit, const int64_t *sizes,
                        int64_t cost);

/* What a random graph may contain besides forward nodes with one output each. */
enum {
    RP_TEST_BACKWARD = 1,    /* a second half of backward nodes, most of which never run again */
    RP_TEST_VIEWS = 2,       /* views, of views and of persistent values too */
    RP_TEST_INPLACE = 4,     /* in-place hints */
    RP_TEST_OUTPUTS = 8,     /* nodes with several outputs */
    RP_TEST_PERSISTENT = 16, /* nodes that write persistent values, and readers of them */
    RP_TEST_KEEP = 32,       /* marks keep */
    RP_TEST_RECOMPUTE = 64,  /* marks recompute, which not every graph can honour */
    RP_TEST_WORKSPACE = 128, /* workspaces */
    RP_TEST_ALIGNMENT = 256, /* an alignment above 1 */
    RP_TEST_BLOCKS = 512,    /* block labels */
    RP_TEST_EVERYTHING = 1023
};

/* A random DAG of `nodes` nodes; the same for the same arguments. */
rp_graph *rp_test_random_graph(rp_context *context, uint64_t seed, uint32_t nodes, int features);

/* A GPT-2-like training step: `layers` blocks "h.<i>" between "embed" and "head", 10 forward and 8
 * backward nodes each (12 and 10 with unfused attention), costs and bytes in proportion to a real
 * one, in-place residual adds, gradients of parameters persistent, the loss as output. */
rp_graph *rp_test_transformer(rp_context *context, uint32_t layers, bool unfused);

/* The same in any shape: `rows` tokens in sequences of `sequence`, two bytes an element. */
typedef struct rp_test_shape {
    uint32_t layers;
    int64_t rows, width, heads, vocabulary, sequence;
    bool unfused;
} rp_test_shape;

rp_graph *rp_test_transformer_of(rp_context *context, const rp_test_shape *shape);

/* An encoder and a decoder of `depth` levels with a skip connection each: no single value cuts it.
 */
rp_graph *rp_test_unet(rp_context *context, uint32_t depth);

#endif
