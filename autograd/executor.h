/* The executor in memory: a schedule bound to addresses. */
#ifndef REPRISE_AUTOGRAD_EXECUTOR_H
#define REPRISE_AUTOGRAD_EXECUTOR_H

#include <reprise/executor.h>

#include "ops/backend.h"
#include "program.h"

enum {
    RP_BOUND_REPLAY = 1,  /* the node has run before */
    RP_BOUND_SAVE = 2,    /* check_replays: keep what it computed */
    RP_BOUND_COMPARE = 4, /* check_replays: compare with what was kept */
};

/* One action of a run: a kernel, or memory that has come to hold nothing and is poisoned. A run is
 * a walk over an array of these, so they are small. */
typedef struct rp_bound {
    uint32_t node; /* of program and graph; RP_NONE: poison */
    uint32_t flags;
    size_t slots; /* its addresses in rp_executor.places: inputs, outputs, what is added to */
    void *place;  /* the workspace, or what is poisoned */
    int64_t end;  /* how far its places reach in the arena, or how many bytes are poisoned */
} rp_bound;

typedef enum rp_executor_state {
    RP_EXECUTOR_IDLE,    /* nothing has run since it was made or the step began */
    RP_EXECUTOR_FORWARD, /* backward is due */
    RP_EXECUTOR_DONE,
    RP_EXECUTOR_FAILED /* good for destroying */
} rp_executor_state;

struct rp_executor {
    rp_context *context;
    rp_owned owned;
    const rp_program *program;
    const rp_plan *plan;
    rp_executor_options options;
    const rp_backend *backend;
    rp_queue *queue;          /* the owner's, for those that share */
    const rp_kernel *kernels; /* by op; NULL: nothing runs */
    rp_executor_state state;
    /* any of trace, time_replays, check_replays, synchronous; or profilers may watch */
    bool is_observed;
    /* options.record: a run has gone by, after which libraries have taken what they take at first
     * use; then the recording, and what the run that it holds counted */
    bool is_warm;
    void *recording;
    uint64_t recorded_runs, recorded_replays;
    uint64_t range; /* for profilers: what block and phase has begun, 0: none */

    rp_executor *owner;   /* of the arena: itself, unless it shares another one's */
    rp_executor *pending; /* owners: who is between forward and backward in the arena, or NULL */
    rp_executor *holder;  /* owners: whose values the arena holds: who ran last, or NULL */
    char *arena;
    int64_t arena_bytes;
    int64_t persistent_end; /* no persistent value reaches further */
    int64_t shift;          /* what is added to the plan's offsets of activations */

    rp_bound *bound;
    size_t bound_count, bound_capacity;
    size_t backward_begin; /* in bound */
    void **places;
    size_t place_count, place_capacity;
    int64_t *offset;         /* by graph value: where it lies when a run has ended, or -1 */
    int64_t *forward_offset; /* by root of the program: where it lies behind forward, or -1 */

    rp_tensor_info *infos; /* scratch of a launch */
    uint8_t *copies;       /* check_replays: outputs of first runs */
    uint8_t *compared;     /* check_replays on a device: an output brought to the host */
    size_t *copy_of;       /* by node: where its outputs begin in copies */

    rp_step_state step;
    void *step_place; /* where kernels read it */
    uint64_t updates; /* AdamW's t */

    char *norm, *norm_block; /* norm.h: the parts, and what they lie in where there is no device */
    rp_norm_parts norm_parts;
    double *squares; /* one a parameter: the parts' first, for the host to add up */

    int64_t peak; /* highest end of a kernel's places so far */
    uint64_t runs, replays;
    int64_t replay_ns;
    int64_t outside_base; /* of rp_process_outside when it was made */
};

/* Fills bound, places and offsets from the plan; the arena must be there. */
rp_status rp_executor_bind(rp_executor *executor);

/* Decides where persistent values lie and by how much activations are moved. */
rp_status rp_executor_place(rp_executor *executor);

/* Runs the actions [begin, end). */
rp_status rp_executor_run_actions(rp_executor *executor, size_t begin, size_t end);

/* Gives the device the step's numbers, before what reads them. */
rp_status rp_executor_write_step(rp_executor *executor);

/* All actions, as one recording that is made when there is none. */
rp_status rp_executor_run_recorded(rp_executor *executor);

/* The words for a status that a kernel or the device gave: the device's own, if it has any. */
const char *rp_executor_words(const rp_executor *executor, rp_status status);

/* Bytes of the process that are resident and do not belong to the block; -1 if unknown. */
int64_t rp_process_outside(const void *block, int64_t bytes);

int64_t rp_monotonic_ns(void);

/* Whether parameters may be read and written now; RP_BAD_STATE with words if not. */
rp_status rp_executor_check_idle(const rp_executor *executor, const char *call);

/* Whether the gradients of a run lie in the arena. */
rp_status rp_executor_check_gradients(const rp_executor *executor, const char *call);

/* Where a parameter or input lies that may be written now, or a status with words. */
rp_status rp_executor_find_leaf(rp_executor *executor, const char *call, rp_tensor leaf,
                                void **place);

/* Where a tensor lies that may be read now, or a status with words. */
rp_status rp_executor_find_tensor(const rp_executor *executor, const char *call, rp_tensor tensor,
                                  const void **place);

/* The value of a leaf's gradient, and where it lies. */
rp_status rp_executor_find_gradient(const rp_executor *executor, const char *call, rp_tensor leaf,
                                    uint32_t *value, const void **place);

/* Where f32 numbers for a leaf go. */
typedef struct rp_float_target {
    rp_dtype dtype; /* of the leaf: f32 or bf16 */
    void *place;
    float *master; /* or NULL */
    int64_t count; /* elements */
} rp_float_target;

/* Of a leaf that may be written now, or a status with words. */
rp_status rp_executor_find_floats(rp_executor *executor, const char *call, rp_tensor leaf,
                                  rp_float_target *target);

/* Writes elements [begin, begin + count): rounded to the leaf's type, as they are to the master. */
rp_status rp_executor_write_floats(const rp_executor *executor, const rp_float_target *target,
                                   int64_t begin, const float *values, int64_t count);

/* The master copy of a leaf, if it has one, becomes what the leaf has become. */
rp_status rp_executor_write_master(const rp_executor *executor, uint32_t leaf, const void *data);

/* Bytes of a value of the program. */
size_t rp_executor_bytes(const rp_executor *executor, uint32_t value);

/* Where a value lies, or NULL. */
void *rp_executor_place_of(const rp_executor *executor, uint32_t value);

#endif
