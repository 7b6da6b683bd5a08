/* Counts calls of malloc and its like, in every thread and library of this program. */
#ifndef REPRISE_TESTS_AUTOGRAD_HEAP_H
#define REPRISE_TESTS_AUTOGRAD_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/* False under a sanitizer, which has these functions for itself, and with clang, whose OpenMP
 * runtime allocates for every parallel region that has one thread: its calls cannot be told from
 * ours. */
bool heap_is_counted(void);

/* Calls so far that asked for memory. */
int64_t heap_calls(void);

#endif
