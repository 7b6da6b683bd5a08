/* The tape: what a program computes. Recording runs nothing and allocates no tensor; it checks
 * shapes and data types.
 *
 * The first wrong call leaves a status on the tape (rp_tape_status) with a message that names the
 * op, the shapes it got and what it wanted; that call and every later one return the tensor 0, so a
 * formula can be written down without a check on every line. rp_program_create refuses such a tape
 * with the same status.
 */
#ifndef REPRISE_TAPE_H
#define REPRISE_TAPE_H

#include "context.h"
#include "graph.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rp_tape rp_tape;

RP_API rp_status rp_tape_create(rp_context *context, rp_tape **tape);

/* Programs of the tape must have been destroyed before. NULL is ignored. */
RP_API void rp_tape_destroy(rp_tape *tape);

/* RP_OK, or the status of the first call that was wrong; rp_context_message has the words. */
RP_API rp_status rp_tape_status(const rp_tape *tape);

/* A tensor that is trained: gets a gradient and optimizer state. `name` is copied; it names files
 * and reports. */
RP_API rp_tensor rp_parameter(rp_tape *tape, const char *name, rp_dtype dtype, rp_shape shape);

/* Data that the caller writes before a run: tokens, targets, images. Gets no gradient, unless
 * rp_require_gradient. */
RP_API rp_tensor rp_input(rp_tape *tape, const char *name, rp_dtype dtype, rp_shape shape);

/* Whether a parameter or input gets a gradient. A frozen parameter (false) costs no gradient, no
 * optimizer state, and nothing is kept or replayed on its behalf. Ids (i32) cannot have one. */
RP_API void rp_require_gradient(rp_tape *tape, rp_tensor leaf, bool wanted);

/* Everything recorded from here on belongs to this block (printf's rules): where `uniform:N` and
 * `block:N` may cut, and what reports group by. */
RP_API void rp_block(rp_tape *tape, const char *format, ...) RP_PRINTF(2, 3);

/* What is recorded from here on belongs to no block. */
RP_API void rp_block_end(rp_tape *tape);

/* The next op recorded gets this name inside its block (printf's rules); without it, its kind and a
 * number. */
RP_API void rp_name(rp_tape *tape, const char *format, ...) RP_PRINTF(2, 3);

/* A constraint on the node that writes `tensor`. */
RP_API void rp_mark_node(rp_tape *tape, rp_tensor tensor, rp_mark mark);

/* The same for every node recorded from here on: RP_MARK_AUTO ends it. */
RP_API void rp_mark_from_here(rp_tape *tape, rp_mark mark);

/* `tensor` as a constant: the same values (a view), and no gradient flows through. */
RP_API rp_tensor rp_detach(rp_tape *tape, rp_tensor tensor);

/* RP_NO_DTYPE and rank 0 for the tensor 0. */
RP_API rp_tensor_info rp_tensor_get_info(const rp_tape *tape, rp_tensor tensor);

/* Whether a gradient can flow to it: it depends on something that is trained. */
RP_API bool rp_tensor_needs_gradient(const rp_tape *tape, rp_tensor tensor);

#ifdef __cplusplus
}
#endif

#endif
