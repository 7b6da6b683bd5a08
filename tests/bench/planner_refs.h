/* What is known of graphs from elsewhere: a file refs.json beside them.
 *
 *   {"graphs": {NAME: {"keep_all_peak_bytes": LIVE, "entries": [
 *       {"budget_bytes": LIVE, "overhead": X or null, "peak_bytes": ?, "lower_bound": ?,
 *        "space": "all", "status": "optimal" | "oom" | ..., "source": TEXT}, ...]}}} */
#ifndef REPRISE_TESTS_BENCH_REFS_H
#define REPRISE_TESTS_BENCH_REFS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* refs.json of the folder that holds the file; NULL if there is none. */
json_t *rp_refs_load_beside(const char *path);

/* The entry of a graph; NULL if there is none. */
const json_t *rp_refs_find(const json_t *refs, const char *graph);

/* Peak of live bytes without recompute, or -1. */
int64_t rp_refs_keep_all(const json_t *of_graph);

/* Budgets of the entries, without repeats, descending; returns how many of at most `most`. */
size_t rp_refs_budgets(const json_t *of_graph, int64_t *budgets, size_t most);

typedef struct rp_known {
    double best;     /* overhead of the best plan known within the budget; -1: none */
    double bound;    /* no plan at all has less; -1: unknown */
    bool proven;     /* both are the same */
    double online;   /* of the online planner DTR at this very budget; -1: not tried or failed */
    bool online_out; /* it ran out of memory or thrashed */
} rp_known;

/* A plan for a smaller budget is one for this budget, and a bound for a larger one holds here. */
rp_known rp_refs_known(const json_t *of_graph, int64_t budget);

#endif
