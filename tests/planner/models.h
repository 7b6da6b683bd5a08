/* More graphs than the tests of single rules need: what planners are compared on. Every builder
 * returns a finished graph, the same for the same arguments; the caller destroys it. */
#ifndef REPRISE_TESTS_PLANNER_MODELS_H
#define REPRISE_TESTS_PLANNER_MODELS_H

#include <reprise/graph.h>

#include "graphs.h"

/* The reversal of a uniform chain as Griewank counts it (Griewank & Walther 2000, Algorithm 799):
 * states x_0 .. x_(length-1) of one byte, x_0 persistent; forward i writes x_i, in the place of
 * x_(i-1) where nobody needs that any more, for 1 ns; backward i, from `length` down, reads x_(i-1)
 * and contains step i; gradients have no bytes. s snapshots, x_0 among them, and the state that
 * moves are a budget of s + 1 bytes. */
rp_graph *rp_test_griewank(rp_context *context, uint32_t length);

/* The fewest recomputes of that chain with `snapshots` >= 1: r l - C(s + r, r - 1), r the least
 * with C(s + r, r) >= l, counts the l - 1 runs of the first sweep too, which are taken off here. */
int64_t rp_test_griewank_optimum(uint32_t length, uint32_t snapshots);

/* A chain whose ops cost from 1 to 1000 ns and write from 1 to 64 KiB; backward of an op reads its
 * input and its output. */
rp_graph *rp_test_uneven_chain(rp_context *context, uint64_t seed, uint32_t length);

/* About `nodes` nodes in layers of 2 to 8, each of which reads one to three values of the last
 * layers; sizes and costs at random. With `backward` half of the nodes: one for each forward node,
 * in reverse order, which reads what that reads and writes, and the gradient that the backward node
 * before it wrote. Otherwise the last layer is the output. */
rp_graph *rp_test_layered(rp_context *context, uint64_t seed, uint32_t nodes, bool backward);

/* A U-Net as it is trained: `depth` levels down and up again, two rounds of convolution, norm and
 * activation in place in each. A level down has half the bytes; a level up is joined with what its
 * level gave on the way down. Backward of a convolution reads its inputs, of a norm its input, of
 * an activation its output; parameters are persistent. */
rp_graph *rp_test_conv_unet(rp_context *context, uint32_t depth);

#endif
