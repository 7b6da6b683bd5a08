/* Programs: a tape differentiated into one joint graph of forward and backward nodes.
 *
 * First derivatives only: gradients are no tensors of the tape, so nothing can be recorded from
 * them. A derivative of a gradient needs the gradient written down with ops. */
#ifndef REPRISE_PROGRAM_H
#define REPRISE_PROGRAM_H

#include "backend.h"
#include "graph.h"
#include "tape.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rp_program rp_program;

/* What an optimizer keeps, in f32, for as long as the executor lives; it counts in the peak. A bf16
 * parameter gets a master copy: what it would be in f32. Updates are made to that copy, because
 * most are too small to be seen in bf16; the parameter, which kernels read, is its master
 * rounded. */
typedef enum rp_optimizer_kind {
    RP_OPTIMIZER_NONE, /* nothing: no master copies either */
    RP_OPTIMIZER_SGD,  /* master copies */
    RP_OPTIMIZER_ADAMW /* master copies, and two numbers an element: first and second moment */
} rp_optimizer_kind;

typedef struct rp_program_options {
    size_t struct_size; /* sizeof(rp_program_options) */
    const char *name;   /* of the graph; NULL: "program" */
    /* scalars; their gradients add up, each with the loss scale of the step */
    const rp_tensor *losses;
    size_t loss_count;
    /* parameters and inputs whose gradients are wanted; NULL: all that require one */
    const rp_tensor *wanted;
    size_t wanted_count;
    const rp_tensor *outputs; /* further tensors that must be readable after a run */
    size_t output_count;
    /* no gradients: each value is dropped behind its last forward reader */
    bool forward_only;
    /* gradients of parameters are persistent and add up over the runs of a step, in f32 */
    bool accumulate;
    rp_optimizer_kind optimizer;
    uint64_t seed; /* of dropout */
    /* whose alignment and workspaces count in the graph; only this backend runs the program, and
     * the null backend */
    rp_backend_kind backend;
} rp_program_options;

#define RP_PROGRAM_OPTIONS                                                                         \
    {                                                                                              \
        sizeof(rp_program_options), NULL, NULL, 0, NULL, 0, NULL, 0, false, false,                 \
            RP_OPTIMIZER_NONE, 0, RP_BACKEND_CPU                                                   \
    }

#ifndef __cplusplus
/* &options for one loss and nothing else: rp_program_create(tape, RP_LOSS(loss), &program) */
#define RP_LOSS(loss)                                                                              \
    (&(const rp_program_options){                                                                  \
        .struct_size = sizeof(rp_program_options), .losses = &(loss), .loss_count = 1})
#endif

/* Leaves out what neither a loss, a wanted gradient nor an output needs. The tape may be recorded
 * further; the program does not see it.
 *   the tape's status            it holds a wrong call
 *   RP_NOTHING_TO_DIFFERENTIATE  no loss depends on a wanted tensor
 *   RP_UNSUPPORTED               a gradient would flow through an op that has none; the message
 *                                names it
 *   RP_BAD_SHAPE                 a loss that is no scalar */
RP_API rp_status rp_program_create(rp_tape *tape, const rp_program_options *options,
                                   rp_program **program);

/* Executors and plans of the program must have been destroyed before. NULL is ignored. */
RP_API void rp_program_destroy(rp_program *program);

/* What the planner sees: one micro-batch, forward and backward. Owned by the program. Parameters,
 * inputs and optimizer state are persistent; gradients of parameters are activations listed in the
 * outputs, or persistent if they accumulate. Costs are modelled from shapes. */
RP_API const rp_graph *rp_program_graph(const rp_program *program);

/* The trained parameters that get a gradient, in the order in which they were recorded. */
RP_API size_t rp_program_parameter_count(const rp_program *program);
RP_API rp_tensor rp_program_parameter(const rp_program *program, size_t i);

/* The type and shape of the gradient of a parameter or input: its own, but f32 where it adds up
 * over the runs of a step. RP_NO_DTYPE: it gets none. */
RP_API rp_tensor_info rp_program_gradient_info(const rp_program *program, rp_tensor leaf);

/* The name of a parameter or input; of an op's output the name that rp_name gave it, or else the
 * kind of the op. "" for the tensor 0. Valid until something is recorded. */
RP_API const char *rp_tensor_name(const rp_tape *tape, rp_tensor tensor);

/* Bytes by purpose, rounded up as they count in the peak. */
typedef struct rp_memory_report {
    int64_t parameters_bytes, gradients_bytes, optimizer_bytes, inputs_bytes, workspace_bytes;
} rp_memory_report;
RP_API void rp_program_memory(const rp_program *program, rp_memory_report *report);

/* Floating point operations of one run of every node, and of the forward nodes alone (2 a
 * multiply-add). */
RP_API void rp_program_flops(const rp_program *program, int64_t *all, int64_t *forward);

/* The same of one run of one node of the graph; 0 behind the last. */
RP_API int64_t rp_program_node_flops(const rp_program *program, uint32_t node);

#ifdef __cplusplus
}
#endif

#endif
