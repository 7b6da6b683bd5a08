/* A program in memory: the tape's ops and their backward nodes as one list, and the graph made
 * of it.
 *
 * Values below `tensor_count` are the tape's, under the same numbers. From lowering on, node i of
 * the list is node i of the graph. */
#ifndef REPRISE_AUTOGRAD_PROGRAM_H
#define REPRISE_AUTOGRAD_PROGRAM_H

#include <reprise/extend.h>
#include <reprise/program.h>

#include "code.h"
#include "ops/backend.h"
#include "tape.h"

/* What an optimizer keeps of a parameter: f32, of the parameter's shape. */
typedef enum rp_state_kind {
    RP_STATE_MOMENT1,
    RP_STATE_MOMENT2,
    RP_STATE_MASTER, /* of a bf16 parameter: what it is rounded from */
    RP_STATE_COUNT
} rp_state_kind;

/* What a backend whose memory the host does not share keeps beside tensors; persistent, so that it
 * counts in the peak. */
typedef enum rp_scratch_kind {
    RP_SCRATCH_STEP, /* the step's numbers: written before each run, read by kernels */
    RP_SCRATCH_NORM, /* of the gradients' norm: rp_norm_parts */
    RP_SCRATCH_COUNT
} rp_scratch_kind;

/* Where in the norm's scratch things begin: one double a parameter, what gradients are multiplied
 * by, and the workspace of the kernels that compute both. */
typedef struct rp_norm_parts {
    int64_t scale, workspace, bytes;
} rp_norm_parts;

/* A leaf that gets a gradient. */
typedef struct rp_program_gradient {
    uint32_t leaf, gradient;        /* values */
    uint32_t state[RP_STATE_COUNT]; /* values; RP_NONE for what is not kept */
} rp_program_gradient;

struct rp_program {
    rp_context *context;
    rp_owned owned;
    rp_tape *tape;
    const rp_backend *backend; /* whose alignment and workspaces the graph has */
    rp_code code;
    size_t tensor_count;
    rp_graph *graph;
    uint32_t *graph_value;  /* by value: its number in the graph, or RP_NONE if it is not needed */
    int64_t *joined_offset; /* by value: where in that it begins, in bytes; NULL: all at 0 */

    uint32_t *roots; /* values of losses, then of further outputs */
    size_t loss_count, root_count;
    rp_program_gradient *gradients; /* ascending by leaf */
    size_t gradient_count;
    uint32_t *parameters; /* in gradients: those of parameters */
    size_t parameter_count;
    uint32_t scratch[RP_SCRATCH_COUNT]; /* values; RP_NONE for what the backend does not need */

    bool forward_only, accumulate;
    rp_optimizer_kind optimizer;
    uint64_t seed;
    rp_memory_report memory;
    int64_t *node_flops; /* of one run */
    int64_t flops_all, flops_forward;
};

/* Appends the backward nodes; sets gradients. The wanted leaves are marked. */
rp_status rp_program_differentiate(rp_program *program, const bool *wanted);

/* Sets scratch, and appends its values. */
rp_status rp_program_add_scratch(rp_program *program);

/* The parts of the norm's scratch by the rules of a backend. */
rp_norm_parts rp_program_norm_parts(const rp_program *program, const rp_backend *backend);

/* Leaves out nodes and outputs that nothing needs. */
rp_status rp_program_prune(rp_program *program);

/* Marks casts of parameters to be recomputed, unless their bytes have a mark or are an output's,
 * and joins views of them to them. */
rp_status rp_program_mark_weight_casts(rp_program *program);

/* Makes the graph, the reports and graph_value. */
rp_status rp_program_lower(rp_program *program, const char *name);

/* A node's name as it stands in the graph: of the tape's node, and for backward ones the op
 * behind a slash. */
bool rp_program_node_text(const rp_program *program, uint32_t node, rp_string *text);

/* Where in its value of the graph a value begins, in bytes. */
static inline int64_t rp_program_joined_offset(const rp_program *program, uint32_t value) {
    return program->joined_offset != NULL ? program->joined_offset[value] : 0;
}

/* The gradient of a leaf, or NULL. */
const rp_program_gradient *rp_program_find_gradient(const rp_program *program, uint32_t leaf);

#endif
