/* Work in a process of its own: its time, its memory, and what is left of it when it crashes. */
#ifndef REPRISE_TESTS_BENCH_CHILD_H
#define REPRISE_TESTS_BENCH_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a stretch of work took. */
typedef struct rp_took {
    double seconds, cpu_seconds;
    int64_t peak_bytes; /* most resident memory so far, of the whole process */
} rp_took;

/* begin: {0} before; end: the difference, and the peak. */
rp_took rp_took_begin(void);
rp_took rp_took_end(rp_took begin);

typedef struct rp_child {
    void (*work)(void *argument, void *result);
    void *argument;
    void *result; /* `bytes` that the child sees too; from rp_child_share */
    unsigned limit_seconds;
    int64_t limit_bytes; /* of address space; 0: none */
} rp_child;

/* Memory that a child and its parent share, all zero; NULL if there is none. */
void *rp_child_share(size_t bytes);
void rp_child_unshare(void *shared, size_t bytes);

/* Whether the work came to its end; if not, `why` says what ended it. */
bool rp_child_run(const rp_child *child, char *why, size_t why_bytes);

#endif
