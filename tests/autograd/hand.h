/* Schedules written by hand: which nodes run, again and again if need be; what may be dropped
 * follows from it. */
#ifndef REPRISE_TESTS_AUTOGRAD_HAND_H
#define REPRISE_TESTS_AUTOGRAD_HAND_H

#include "bench.h"

enum { HAND_RUNS = 512 };

typedef struct hand {
    uint32_t runs[HAND_RUNS]; /* nodes */
    size_t count;
} hand;

/* Appends a run; ends the test if there are too many. */
void hand_run(hand *h, uint32_t node);

/* Plans these runs, each value dropped right behind the last run that reads it before it is written
 * again, and makes the bench's executor for it. The graph must have no views. Ends the test if it
 * fails. */
void hand_make(bench *b, const hand *h, int64_t budget_bytes);

#endif
