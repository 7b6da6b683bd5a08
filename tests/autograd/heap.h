/* Counts calls of malloc and its like, in every thread and library of this program. */
#ifndef REPRISE_TESTS_AUTOGRAD_HEAP_H
#define REPRISE_TESTS_AUTOGRAD_HEAP_H

#include <stdbool.h>
#include <stdint.h>

/* False under a sanitizer, which has these functions for itself. */
bool heap_is_counted(void);

/* Whether a sanitizer holds freed memory back: the process then grows with every block that comes
 * and goes, as OpenMP's do. */
bool heap_is_held_back(void);

/* Calls so far that asked for memory. */
int64_t heap_calls(void);

#endif
