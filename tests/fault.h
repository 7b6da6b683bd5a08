/* What happens when memory runs out: a scenario is run again and again, and another allocation of
 * the context fails each time. */
#ifndef REPRISE_TESTS_FAULT_H
#define REPRISE_TESTS_FAULT_H

#include <reprise/extend.h>

/* Makes things from the context, uses them, destroys them all, and returns the status of the first
 * call that failed. It may be left half-way only through its own clean-up: no RP_REQUIRE here. */
typedef rp_status (*rp_scenario)(rp_context *context, void *user);

/* Runs the scenario once with all memory to learn how many allocations it makes, then with the n-th
 * one failing, and with the n-th and every later one failing. Each run must end with RP_OK (what
 * failed could be done without) or RP_OUT_OF_MEMORY and a message, and leave no block behind. n
 * runs over the first and last allocations and a spread sample of the others; over all of them if
 * rp_test_is_long(). `name` goes into what a failed check prints. */
void rp_fault_sweep(const char *name, rp_scenario scenario, void *user);

/* One run in which the allocations from..to fail, counted from 1: what is wrong with how it ended,
 * or NULL. */
const char *rp_fault_problem(rp_scenario scenario, void *user, int64_t from, int64_t to);

/* The allocator alone. Blocks move on every resize and are filled before they are handed out and
 * before they are freed, so that whoever relies on old addresses or on zeros is found out. */
typedef struct rp_faulty_memory {
    int64_t requests;  /* of fresh bytes, so far */
    int64_t fail_from; /* the first request that fails, from 1; 0: none */
    int64_t fail_to;   /* the last one */
    int64_t live;      /* blocks that are out */
    int64_t failed;    /* requests that were refused */
    bool misused;      /* a block came back damaged, or was never handed out */
} rp_faulty_memory;

rp_allocator rp_faulty_allocator(rp_faulty_memory *memory);

#endif
