/* Small graphs written down in a test. */
#ifndef REPRISE_TESTS_PLANNER_WRITTEN_H
#define REPRISE_TESTS_PLANNER_WRITTEN_H

#include <reprise/graph.h>

#include "unit.h"

/* One line a thing, words separated by spaces:
 *
 *   p NAME BYTES                             a persistent value
 *   f NAME COST IN... -> OUT:BYTES... FLAG   a forward node; OUT alone: a persistent value
 *   b NAME COST IN... -> OUT:BYTES...        a backward node
 *   o NAME...                                outputs
 *
 * OUT=BASE is a view of BASE. Flags: !keep, !recompute (marks), !once (not recomputable), !again
 * (recomputable), !OUT/IN (an in-place hint), @LABEL (a block). Ends the test if the text makes no
 * sense. */
rp_graph *rp_test_written_graph(rp_context *context, const char *text);

/* The value or node of that name; ends the test if there is none. */
uint32_t rp_test_value(const rp_graph *graph, const char *name);
uint32_t rp_test_node(const rp_graph *graph, const char *name);

#endif
