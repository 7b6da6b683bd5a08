/* Plans: a schedule, where each value lies, and what both cost. A plan is data: it prints, diffs,
 * saves, loads, and runs after a reload exactly as before. File format: `reprise-plan` version 1.
 */
#ifndef REPRISE_PLAN_H
#define REPRISE_PLAN_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rp_plan rp_plan;

#define RP_UNLIMITED INT64_MAX /* a budget that is none */

typedef enum rp_step_kind {
    /* node: first time, or again (a recompute); materialises every output that is not live */
    RP_STEP_RUN,
    RP_STEP_DROP,    /* value: ends; its bytes are free when the last view on them is dropped too */
    RP_STEP_OFFLOAD, /* value: copying to the host begins; readable until the wait */
    /* value: copying back begins; takes its bytes at once, readable after the wait */
    RP_STEP_FETCH,
    RP_STEP_WAIT /* value: the copy that was begun has ended */
} rp_step_kind;

/* The schedule is a list of these: the only thing the planner and the executor share. */
typedef struct rp_step {
    uint32_t kind;  /* rp_step_kind */
    uint32_t index; /* node for RUN, value for the others */
} rp_step;

/* Where a storage lies from the step at which it begins. `value` is RP_NONE for the workspace of
 * the node that runs at `step`. Persistent values have step 0. Offsets count from the start of the
 * arena. */
typedef struct rp_placement {
    uint32_t step;
    uint32_t value;
    int64_t offset;
} rp_placement;

typedef struct rp_plan_options {
    size_t struct_size; /* sizeof(rp_plan_options) */
    /* bounds the arena, persistent values included. RP_UNLIMITED: none. 0 is a budget of 0 */
    int64_t budget_bytes;
    const char *strategy; /* a name of rp_strategy_name, "uniform:2", ...; NULL: "auto" */
} rp_plan_options;

#define RP_PLAN_OPTIONS                                                                            \
    { sizeof(rp_plan_options), RP_UNLIMITED, NULL }

#ifndef __cplusplus
/* &options for a budget and nothing else: rp_plan_create(graph, RP_BUDGET(bytes), &plan, NULL) */
#define RP_BUDGET(bytes) (&(const rp_plan_options){sizeof(rp_plan_options), (bytes), NULL})
#endif

/* What a plan costs, and what a budget would have to be. Bytes include the persistent values. */
typedef struct rp_plan_report {
    int64_t budget_bytes;
    int64_t peak_bytes; /* size of the arena */
    /* most bytes live at one moment; peak - live peak is layout loss */
    int64_t live_peak_bytes;
    int64_t keep_all_peak_bytes; /* arena of the schedule without recompute */
    /* smallest budget for which `auto` has a plan; belongs to the graph. RP_UNLIMITED: marks leave
     * none. 0 for a plan made elsewhere: ask rp_plan_limits */
    int64_t min_feasible_bytes;
    int64_t strategy_min_bytes; /* smallest budget for which this strategy has one */
    int64_t floor_bytes;        /* proven: no plan lies below */
    int64_t recompute_cost_ns;
    int64_t total_cost_ns;    /* every node once */
    int64_t lower_bound_ns;   /* proven: no plan within the budget recomputes less */
    uint64_t recompute_nodes; /* runs beyond the first */
    uint64_t plan_hash;
    /* runs at the peak; RP_NONE in an empty graph. On RP_INFEASIBLE: sets the minimum */
    uint32_t peak_node;
    uint32_t peak_step;
    double plan_ms; /* from the graph in memory to the verified plan, the minimum included */
} rp_plan_report;

/* The cheapest verified plan of the strategy within the budget. `report` may be NULL; it is filled
 * on RP_OK, and on RP_INFEASIBLE with the minimum, the keep-all peak and the node that sets the
 * minimum.
 *   RP_INFEASIBLE      nothing fits; the message names the minimum in bytes and the node, or the
 *                      mark
 *   RP_NOT_APPLICABLE  the strategy needs something that the graph lacks; the message says what
 *   RP_INVALID_ARGUMENT  no such strategy, a negative budget
 * The plan refers to the graph: destroy it first. The same graph and options give the same plan in
 * every process. */
RP_API rp_status rp_plan_create(const rp_graph *graph, const rp_plan_options *options,
                                rp_plan **plan, rp_plan_report *report);

/* NULL is ignored. */
RP_API void rp_plan_destroy(rp_plan *plan);

RP_API void rp_plan_get_report(const rp_plan *plan, rp_plan_report *report);
RP_API const char *rp_plan_strategy(const rp_plan *plan);
RP_API const rp_graph *rp_plan_graph(const rp_plan *plan);
RP_API const rp_step *rp_plan_steps(const rp_plan *plan, size_t *count);

/* In ascending order of (step, value); every storage, every persistent value and every workspace
 * has one. */
RP_API const rp_placement *rp_plan_placements(const rp_plan *plan, size_t *count);

/* A schedule made elsewhere: verified, laid out, and from there on like any other. RP_BAD_INPUT:
 * the step and the reason. RP_INFEASIBLE: valid, but its arena is larger than the budget. */
RP_API rp_status rp_plan_import(const rp_graph *graph, const rp_step *steps, size_t count,
                                int64_t budget_bytes, rp_plan **plan, rp_plan_report *report);

/* `budget_bytes` RP_UNLIMITED: the file's own budget, or none. A file that contradicts itself or
 * the graph (hash, peaks, overlapping offsets) is RP_BAD_INPUT. */
RP_API rp_status rp_plan_load(const rp_graph *graph, const char *path, int64_t budget_bytes,
                              rp_plan **plan, rp_plan_report *report);
RP_API rp_status rp_plan_parse(const rp_graph *graph, const char *text, size_t length,
                               int64_t budget_bytes, rp_plan **plan, rp_plan_report *report);

/* To a temporary name, then renamed. */
RP_API rp_status rp_plan_save(const rp_plan *plan, const char *path);

/* The plan for people: one step a line, names instead of numbers. `write` gets pieces of text; it
 * returns false to stop, which gives RP_IO_ERROR. */
RP_API rp_status rp_plan_print(const rp_plan *plan,
                               bool (*write)(void *user, const char *text, size_t length),
                               void *user);

/* ---- Strategies and limits ------------------------------------------------------------------- */

/* The i-th strategy and one line about it; NULL behind the last. `uniform` and `block` want a
 * number behind a colon. `revolve` and `chain-dp` apply where the forward phase is a chain of
 * blocks, or of nodes in a graph without labels; if it is none, they say what stands against it. */
RP_API const char *rp_strategy_name(size_t i);
RP_API const char *rp_strategy_description(size_t i);

/* A point of the curve of bytes against recompute. */
typedef struct rp_frontier_point {
    int64_t budget_bytes, peak_bytes, recompute_cost_ns;
} rp_frontier_point;

/* At most `*count` points from the minimum to keep-all: peak rising, cost falling strictly, the
 * last with cost 0. Each is the plan that its budget gives alone. `*count` becomes the number of
 * points written. */
RP_API rp_status rp_plan_frontier(const rp_graph *graph, const char *strategy,
                                  rp_frontier_point *points, size_t *count);

/* keep_all_peak_bytes, min_feasible_bytes, floor_bytes and peak_node (of the minimum); the rest
 * 0. */
RP_API rp_status rp_plan_limits(const rp_graph *graph, rp_plan_report *report);

/* ---- Plans of graphs that come again --------------------------------------------------------- */

/* The last plans made, for programs that see the same few shapes again and again (a ragged last
 * batch). It knows a graph by its content, so that recording it anew still finds its plan. */
typedef struct rp_plan_cache rp_plan_cache;

/* Room for `most_plans`, at least 1; then the one that was asked for longest ago goes. The cache
 * belongs to the context and keeps copies: it needs none of the graphs and plans. */
RP_API rp_status rp_plan_cache_create(rp_context *context, size_t most_plans,
                                      rp_plan_cache **cache);

/* NULL is ignored. */
RP_API void rp_plan_cache_destroy(rp_plan_cache *cache);

/* The plan that rp_plan_create gives for these arguments, which is the caller's in the same way.
 * Taken from the cache only for a graph with the same hash and costs, the same strategy and budget,
 * and after the verifier has found it right for this graph; else made, and kept. `*hit` (may be
 * NULL): it was there. Graphs of another context are RP_INVALID_ARGUMENT. */
RP_API rp_status rp_plan_cache_get(rp_plan_cache *cache, const rp_graph *graph,
                                   const rp_plan_options *options, rp_plan **plan,
                                   rp_plan_report *report, bool *hit);

#ifdef __cplusplus
}
#endif

#endif
