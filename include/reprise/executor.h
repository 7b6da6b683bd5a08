/* The executor: runs a plan. It has no policy of its own: it walks the schedule and calls kernels
 * at the planned addresses, in one arena of exactly the predicted size. */
#ifndef REPRISE_EXECUTOR_H
#define REPRISE_EXECUTOR_H

#include "plan.h"
#include "program.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rp_executor rp_executor;

/* One kernel that ran, for profilers. */
typedef struct rp_trace_event {
    uint32_t node;
    bool is_replay;
    rp_phase phase;
    int64_t begin_ns, end_ns; /* monotonic clock */
} rp_trace_event;

typedef struct rp_executor_options {
    size_t struct_size; /* sizeof(rp_executor_options) */
    rp_backend_kind backend;
    bool evaluate; /* dropout does nothing */
    /* every replay is compared bit for bit with the first run; costs a copy of each value, and on
     * a device the time to bring it to the host */
    bool check_replays;
    bool poison; /* memory that holds nothing is filled with NaN: a read of it shows */
    /* two clock readings a replay, for rp_executor_stats.replay_ns; a device is waited for */
    bool time_replays;
    /* of a program of the same tape: use its parameters and its arena instead of own memory. This
     * plan must fit in; whatever else the arena held is gone after a run, also this program's own
     * inputs after a run of the other one. Destroy this executor first. No accumulation and no
     * optimizer here (RP_INVALID_ARGUMENT) */
    rp_executor *share;
    /* called behind each kernel, which a device is waited for */
    void (*trace)(void *user, const rp_trace_event *event);
    void *trace_user;
    /* CUDA: the cudaStream_t that everything is given to, in order, instead of one of the
     * executor's own; must outlive it. NULL elsewhere, and where memory is shared */
    void *stream;
    /* CUDA: the second rp_executor_run is recorded as a CUDA graph, which it and all later ones
     * replay: the same kernels at the same addresses, so the same bits, for one launch. The step's
     * numbers are read anew by each. Not together with what looks at single kernels: trace,
     * time_replays, check_replays, synchronous (RP_INVALID_ARGUMENT). Nothing elsewhere */
    bool record;
    /* CUDA: waits for each kernel, so that a failure names its node. Nothing elsewhere, where every
     * kernel has run when its call returns */
    bool synchronous;
} rp_executor_options;

#define RP_EXECUTOR_OPTIONS                                                                        \
    {                                                                                              \
        sizeof(rp_executor_options), RP_BACKEND_CPU, false, false, false, false, NULL, NULL, NULL, \
            NULL, false, false                                                                     \
    }

/* Makes one allocation for all tensors (the arena) and binds every step of the schedule to its
 * addresses; nothing is allocated after that. The plan must be of the program's graph
 * (RP_BAD_INPUT). Both must outlive the executor. RP_OUT_OF_MEMORY: the arena or the tables.
 * `options` may be NULL. */
RP_API rp_status rp_executor_create(const rp_program *program, const rp_plan *plan,
                                    const rp_executor_options *options, rp_executor **executor);

/* NULL is ignored. */
RP_API void rp_executor_destroy(rp_executor *executor);

/* Copies from the caller's memory to a parameter or input, in the tensor's own type. `bytes` must
 * be the tensor's size. A master copy (rp_optimizer_kind) becomes the same numbers.
 * RP_INVALID_ARGUMENT also for one that nothing in the program needs: it has no memory.
 * RP_BAD_STATE between forward and backward. */
RP_API rp_status rp_executor_write(rp_executor *executor, rp_tensor leaf, const void *data,
                                   size_t bytes);

/* The same from `count` f32 numbers, as many as the tensor has elements, whether it is f32 or bf16:
 * how weights are loaded. A bf16 tensor gets each number rounded to nearest even, its master copy
 * the number itself. RP_BAD_DTYPE: i32. */
RP_API rp_status rp_executor_write_f32(rp_executor *executor, rp_tensor leaf, const float *values,
                                       size_t count);

/* The same with normal random numbers of this standard deviation: the usual initial values. Element
 * e is a function of (seed, stream, e) alone: lane e % 4 of block k = e / 4 of Philox 4x32-10, key
 * (seed), counter (k low, k high, stream, 0x494E4954), and Box-Muller in double on pairs of words,
 * rounded to f32. */
RP_API rp_status rp_executor_write_normal(rp_executor *executor, rp_tensor leaf, double deviation,
                                          uint64_t seed, uint32_t stream);

/* Any tensor that is live when a run has ended: leaves, losses, outputs, in its own type; a
 * gradient in that of rp_program_gradient_info. RP_BAD_STATE: not live, or nothing has run.
 * RP_INVALID_ARGUMENT: nothing in the program needs it, as in rp_executor_write. */
RP_API rp_status rp_executor_read(const rp_executor *executor, rp_tensor tensor, void *data,
                                  size_t bytes);
RP_API rp_status rp_executor_read_gradient(const rp_executor *executor, rp_tensor leaf, void *data,
                                           size_t bytes);

/* The same as `count` f32 numbers, which every bf16 number is: how weights are saved. Of a
 * parameter with a master copy, that copy, which rp_executor_write_f32 puts back bit for bit.
 * RP_BAD_DTYPE: i32. */
RP_API rp_status rp_executor_read_f32(const rp_executor *executor, rp_tensor tensor, float *values,
                                      size_t count);
RP_API rp_status rp_executor_read_gradient_f32(const rp_executor *executor, rp_tensor leaf,
                                               float *values, size_t count);

/* rp_executor_read without a copy: an address in the arena (CPU only, else NULL), valid until the
 * next run. NULL: no such value. */
RP_API const void *rp_executor_data(const rp_executor *executor, rp_tensor tensor);
RP_API const void *rp_executor_gradient(const rp_executor *executor, rp_tensor leaf);

/* Begins a step: its number goes into dropout, `loss_scale` multiplies every loss gradient,
 * accumulated gradients are set to 0 and the micro-batch to 0. Without it the step is 0 and the
 * scale 1. For micro-batches of unequal numbers of valid tokens: RP_REDUCE_SUM and a loss scale of
 * 1 / (valid tokens of all micro-batches). */
RP_API rp_status rp_executor_begin_step(rp_executor *executor, uint64_t step, float loss_scale);

/* One micro-batch: forward, replays, backward. The n-th run after rp_executor_begin_step is
 * micro-batch n - 1. RP_VALUE_CHANGED: a replay differed (check_replays); the message names the
 * node and the first element. A status that a kernel or a custom op gave is returned as it is, with
 * the node's name; whatever its class, the executor is then good for destroying only. On a device
 * kernels may still run when the call returns, and what fails then is a later call's status. */
RP_API rp_status rp_executor_run(rp_executor *executor);

/* The same in two calls. Inputs and parameters must not change in between: writing them then is
 * RP_BAD_STATE. A forward may be followed by another forward, which abandons the first. */
RP_API rp_status rp_executor_forward(rp_executor *executor);
RP_API rp_status rp_executor_backward(rp_executor *executor);

/* Waits until everything given to the device has run: runs and updates return before that. Reading
 * waits, too. RP_OUT_OF_MEMORY, RP_DEVICE_ERROR: what failed since it was last asked; the executor
 * is then good for destroying only. Nothing to wait for on the CPU. */
RP_API rp_status rp_executor_finish(rp_executor *executor);

typedef struct rp_executor_stats {
    /* persistent storage plus the highest end of any place bound to a kernel that ran */
    int64_t measured_peak_bytes;
    int64_t arena_bytes; /* what the backend's allocator handed out for this executor */
    /* resident memory that the process has won since this executor was made, arena apart (what a
     * BLAS takes for itself); of a device, the memory in use there that was not when its queue was
     * opened, arena apart (code and buffers of libraries); 0 if unknown */
    int64_t outside_bytes;
    uint64_t runs, replays; /* kernels of the last run (no views): all, and those that recomputed */
    int64_t replay_ns;      /* time in them (time_replays) */
} rp_executor_stats;

RP_API void rp_executor_get_stats(const rp_executor *executor, rp_executor_stats *stats);

/* ---- Optimizers: update the parameters in place from the gradients since begin_step ---------- *
 *
 * Computed in f32. Of a bf16 parameter p is the master copy, and the parameter becomes p rounded to
 * nearest even. */

typedef struct rp_adamw_options {
    size_t struct_size; /* sizeof(rp_adamw_options) */
    float lr, beta1, beta2, eps;
    /* decoupled; for parameters of two or more dimensions, the others get none */
    float weight_decay;
    float max_grad_norm; /* gradients are scaled down to this global norm; 0: no clipping */
} rp_adamw_options;

#define RP_ADAMW_OPTIONS                                                                           \
    { sizeof(rp_adamw_options), 3e-4f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.0f }

/* p -= lr decay p;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;
 * p -= lr (m / (1-b1^t)) / (sqrt(v / (1-b2^t)) + eps).
 * t counts these calls from 1. One pass over memory. Needs RP_OPTIMIZER_ADAMW. */
RP_API rp_status rp_adamw_step(rp_executor *executor, const rp_adamw_options *options);

/* p -= lr (g + decay p). Needs any program with gradients; where a parameter is bf16, one with an
 * optimizer, which has its master copy. */
RP_API rp_status rp_sgd_step(rp_executor *executor, float lr, float weight_decay,
                             float max_grad_norm);

/* sqrt of the sum of squares of all gradients of parameters, summed in double in a fixed order. */
RP_API rp_status rp_gradient_norm(const rp_executor *executor, double *norm);

#ifdef __cplusplus
}
#endif

#endif
