/* The planner's graph: nodes in execution order, values in bytes. It knows no tensor, shape or
 * device, and is useful alone to a framework that has its own tensors. File format and exact
 * semantics: `reprise-graph` version 1, README.
 *
 * Units: bytes, nanoseconds, indices; all from 0 to 2^63 - 1.
 */
#ifndef REPRISE_GRAPH_H
#define REPRISE_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rp_graph rp_graph;

/* No node, no value. */
#define RP_NONE UINT32_MAX

typedef enum rp_value_kind {
    RP_ACTIVATION, /* begins with the run of its writer, ends with its drop */
    RP_PERSISTENT  /* parameters, inputs, optimizer state: live from start to end */
} rp_value_kind;

typedef enum rp_phase { RP_FORWARD, RP_BACKWARD } rp_phase;

/* A user's constraint on a node, as hard as the budget. */
typedef enum rp_mark {
    RP_MARK_AUTO, /* the planner decides */
    RP_MARK_KEEP, /* the node never runs again */
    /* forward nodes: no output is live throughout the turn from forward to backward */
    RP_MARK_RECOMPUTE
} rp_mark;

typedef struct rp_value_info {
    const char *name;
    int64_t bytes; /* as given; rounded up to the graph's alignment wherever it counts */
    rp_value_kind kind;
    /* the value that this one is a view of, or RP_NONE. A view has no bytes of its own */
    uint32_t alias_of;
} rp_value_info;

/* `output` may take over the storage of `input` when that one dies in the same run. */
typedef struct rp_inplace_pair {
    uint32_t output, input; /* values */
} rp_inplace_pair;

typedef struct rp_node_info {
    const char *name;
    /* label: where uniform:N and block:N may cut, what reports group by; "" for none */
    const char *block;
    rp_phase phase;
    rp_mark mark;
    bool recomputable;
    int64_t cost_ns;
    int64_t workspace_bytes;
    const uint32_t *inputs;
    size_t input_count;
    const uint32_t *outputs;
    size_t output_count;
    const rp_inplace_pair *inplace; /* tried in order */
    size_t inplace_count;
} rp_node_info;

/* ---- Building -------------------------------------------------------------------------------- */

/* An empty graph. `alignment` >= 1: every size is rounded up to a multiple of it. */
RP_API rp_status rp_graph_create(rp_context *context, const char *name, int64_t alignment,
                                 rp_graph **graph);

/* NULL is ignored. Plans of the graph must have been destroyed before. */
RP_API void rp_graph_destroy(rp_graph *graph);

/* Appends; `*index` (may be NULL) counts from 0. Strings and lists are copied. An alias may name a
 * value that comes later; everything that needs the whole graph is checked by rp_graph_finish. */
RP_API rp_status rp_graph_add_value(rp_graph *graph, const rp_value_info *value, uint32_t *index);
RP_API rp_status rp_graph_add_node(rp_graph *graph, const rp_node_info *node, uint32_t *index);

/* Values that must be live when a schedule ends; replaces the list of an earlier call. */
RP_API rp_status rp_graph_set_outputs(rp_graph *graph, const uint32_t *values, size_t count);

/* Checks the graph as a whole and freezes it. RP_BAD_INPUT names the value or node: unknown
 * indices, two writers, a reader before its writer, an activation without a writer, alias loops,
 * sums beyond 2^63 - 1, a mark that contradicts `recomputable`. */
RP_API rp_status rp_graph_finish(rp_graph *graph);

/* ---- Files ----------------------------------------------------------------------------------- */

/* Reads and finishes. RP_IO_ERROR: cannot be read; RP_BAD_INPUT: line and column, or index and
 * name, in the message. */
RP_API rp_status rp_graph_load(rp_context *context, const char *path, rp_graph **graph);
RP_API rp_status rp_graph_parse(rp_context *context, const char *text, size_t length,
                                rp_graph **graph);

/* Writes a finished graph to a temporary name in the same folder, then renames: never half a
 * file. */
RP_API rp_status rp_graph_save(const rp_graph *graph, const char *path);

/* ---- Looking (finished graphs) --------------------------------------------------------------- */

RP_API const char *rp_graph_name(const rp_graph *graph);
RP_API size_t rp_graph_node_count(const rp_graph *graph);
RP_API size_t rp_graph_value_count(const rp_graph *graph);

/* Pointers in `*info` live as long as the graph. */
RP_API void rp_graph_node(const rp_graph *graph, uint32_t node, rp_node_info *info);
RP_API void rp_graph_value(const rp_graph *graph, uint32_t value, rp_value_info *info);
RP_API const uint32_t *rp_graph_outputs(const rp_graph *graph, size_t *count);

/* Structure, sizes, kinds, phases, flags, marks and in-place hints; not names, blocks or costs, so
 * that a plan outlives a new measurement of costs. */
RP_API uint64_t rp_graph_hash(const rp_graph *graph);

/* The cost of running every node once. */
RP_API int64_t rp_graph_total_cost_ns(const rp_graph *graph);

/* What every size is rounded up to. */
RP_API int64_t rp_graph_alignment(const rp_graph *graph);

/* Rounded-up bytes of all persistent values. */
RP_API int64_t rp_graph_persistent_bytes(const rp_graph *graph);

#ifdef __cplusplus
}
#endif

#endif
