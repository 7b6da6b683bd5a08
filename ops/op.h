/* What an op is. An op is defined once, for all backends (rp_op_def), and has one kernel per
 * backend (rp_kernel). ops/ knows neither tape nor planner: definitions talk to the differentiator
 * through rp_vjp. Kernels of CUDA include this header as C++.
 *
 * Storage is f32 or bf16: one type for all floating inputs of a call, and for its outputs. Always
 * f32 are the statistics of layernorm, attention and cross entropy, and what reduces to a scalar (a
 * loss, a sum). Gradients have the type of what they belong to, but for the f32 gradient of a bf16
 * parameter in which micro-batches add up: so a backward kernel takes outputs of either type beside
 * bf16 inputs. Sums are made in f32 or wider, and rounded once, to nearest even.
 *
 * All tensors are row-major and contiguous. A slot that is absent (an optional input, an output
 * that nobody wants) has dtype RP_NO_DTYPE, a NULL pointer and the value RP_NONE; it keeps its
 * place. */
#ifndef REPRISE_OPS_OP_H
#define REPRISE_OPS_OP_H

#include <reprise/extend.h>
#include <reprise/ops.h>
#include <reprise/tensor.h>

#include "op_list.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum rp_op {
#define RP_OP_ENUM(id, name) id,
    RP_OP_LIST(RP_OP_ENUM)
#undef RP_OP_ENUM
        RP_OP_COUNT
} rp_op;

/* Most outputs of an op that is not custom. */
#define RP_OP_MAX_OUTPUTS 4

typedef struct rp_custom_params {
    const rp_custom_op *op; /* a copy that the tape owns */
    size_t forward_in_count, forward_out_count;
} rp_custom_params;

/* What an op was recorded with: plain data, copied by value, shared by forward, backward and
 * replay. `stream` tells the random ops of a tape apart. */
typedef union rp_op_params {
    struct {
        float factor;
    } scale, sum;
    struct {
        rp_gelu_form form;
    } gelu;
    struct {
        float p;
        uint32_t stream;
    } dropout;
    struct {
        rp_dtype dtype;
    } cast;
    struct {
        float eps;
    } layernorm;
    struct {
        bool causal;
    } softmax;
    struct {
        int32_t ignore_index;
        rp_reduction reduction;
    } cross_entropy;
    struct {
        rp_weight_layout layout;
    } linear;
    struct {
        bool transpose_a, transpose_b;
    } matmul;
    struct {
        int heads, kv_heads;
        bool causal, packed; /* packed: one input, q k v beside each other */
        float scale, dropout;
        uint32_t stream;
    } attention;
    struct {
        int first, second;
    } transpose;
    struct {
        int dimension;
        int64_t start, length;
    } slice;
    struct {
        int dimension;
    } concat;
    struct {
        int64_t offset_bytes;
        rp_shape shape;
    } view;
    /* Of step t: correction1 = 1 - beta1^t, correction2 = 1 - beta2^t. sgd reads lr and
     * weight_decay */
    struct {
        float lr, beta1, beta2, eps, weight_decay, correction1, correction2;
    } adamw, sgd;
    struct {
        float most;
    } clip_scale;
    rp_custom_params custom;
} rp_op_params;

/* One use of an op: types and shapes, no data. */
typedef struct rp_op_call {
    const rp_tensor_info *in;
    size_t in_count;
    rp_tensor_info *out;
    size_t out_count;
    const rp_op_params *params;
} rp_op_call;

/* ---- Running --------------------------------------------------------------------------------- */

/* What a backend has open for one executor besides memory, a stream and handles of libraries:
 * backend.h. */
typedef struct rp_queue rp_queue;

/* What changes from step to step; kernels read it, nobody else's state does. */
typedef struct rp_step_state {
    uint64_t seed, step;
    uint32_t micro_batch;
    float loss_scale;
    bool evaluate; /* dropout does nothing */
} rp_step_state;

/* One kernel call. */
typedef struct rp_launch {
    rp_op_call call;
    const void *const *in;
    void *const *out;
    /* NULL, or per output NULL or what is added: out[k] = accumulate[k] + result. It may be out[k]
     * itself */
    const void *const *accumulate;
    /* as many bytes as rp_backend.workspace said, aligned as everything in the arena; contents
     * undefined; NULL for 0 */
    void *workspace;
    const rp_step_state *step; /* in the memory of the backend: kernels read it, the host may not */
    rp_queue *queue;           /* what the backend has open for the caller; NULL on the CPU */
    int threads;
    bool is_replay;
} rp_launch;

typedef rp_status (*rp_kernel)(const rp_launch *launch);

/* ---- Differentiating ------------------------------------------------------------------------- */

/* An output of a backward node: the gradient of a forward input, or a temporary. */
typedef struct rp_vjp_output {
    int gradient_of;     /* index of the forward input, or -1: a temporary, or -2: absent */
    rp_tensor_info info; /* of a temporary */
    uint32_t value;      /* set by emit for temporaries */
} rp_vjp_output;

#define RP_VJP_TEMPORARY (-1)
#define RP_VJP_ABSENT (-2)

/* What an op's vjp sees. It emits backward nodes in execution order, for wanted gradients only.
 * Gradients of one value from several readers are added by `emit`: inside the kernel where the op
 * can (rp_op_def.accumulates), else by an add. `params` may be NULL. */
typedef struct rp_vjp rp_vjp;
struct rp_vjp {
    const rp_op_call *call;   /* the forward call */
    const uint32_t *in, *out; /* its values */
    /* of each output: a value, or RP_NONE if no loss depends on it */
    const uint32_t *gradient;
    const bool *wanted; /* whether a gradient of each input is wanted */
    rp_context *context;
    rp_status (*emit)(rp_vjp *vjp, rp_op op, const rp_op_params *params, const uint32_t *in,
                      size_t in_count, rp_vjp_output *out, size_t out_count);
};

/* ---- Defining -------------------------------------------------------------------------------- */

/* `output` may be computed in place of `input`: the kernel works both ways. Indices of slots. */
typedef struct rp_op_inplace {
    int8_t output, input;
} rp_op_inplace;

#define RP_OP_MAX_INPLACE 4

typedef struct rp_op_def {
    const char *name;
    /* Checks call->in and params, sets call->out and call->out_count (room for RP_OP_MAX_OUTPUTS).
     * The message names the op, what it got and what it wanted. NULL for ops that only vjp
     * emits, and for custom ones, which declare their outputs. */
    rp_status (*infer)(rp_context *context, rp_op_call *call);
    rp_status (*vjp)(rp_vjp *vjp); /* NULL: no gradient flows through */
    /* 2 a multiply-add; NULL: one an output element */
    int64_t (*flops)(const rp_op_call *call);
    /* NULL: inputs and present outputs, once each */
    int64_t (*bytes_moved)(const rp_op_call *call);
    /* bytes of scratch of the CPU's kernel, whatever the threads; NULL: 0 */
    int64_t (*workspace)(const rp_op_call *call);
    uint32_t accumulates; /* bit k: the kernel honours accumulate[k] */
    /* bit k: the kernel writes output k, and what is added to it, as f32 where its inputs are bf16,
     * too. A gradient that adds up in f32 passes a cast where this bit is missing */
    uint32_t widens;
    int inplace_count;
    rp_op_inplace inplace[RP_OP_MAX_INPLACE];
} rp_op_def;

#define RP_OP_DEF_EXTERN(id, name) extern const rp_op_def rp_op_def_##name;
RP_OP_LIST(RP_OP_DEF_EXTERN)
#undef RP_OP_DEF_EXTERN

/* The table; `op` must be below RP_OP_COUNT. */
const rp_op_def *rp_op_get(rp_op op);

/* Bytes read and written by one run, and FLOPs, by the definition. */
int64_t rp_op_bytes_moved(rp_op op, const rp_op_call *call);
int64_t rp_op_flops(rp_op op, const rp_op_call *call);

/* Bytes of scratch by the definition: what the CPU's kernel takes. */
int64_t rp_op_workspace(rp_op op, const rp_op_call *call);

/* f32 or bf16. */
bool rp_is_floating(rp_dtype dtype);

/* Whether something that a call reads or writes is stored as bf16. */
bool rp_call_has_bf16(const rp_op_call *call);

/* ---- Shapes in words ------------------------------------------------------------------------- */

/* "f32 [2, 3]" into `text`, for messages. Returns text. */
#define RP_SHAPE_TEXT 160
const char *rp_tensor_text(const rp_tensor_info *info, char text[RP_SHAPE_TEXT]);

/* Elements of one row and number of rows when the last dimension is the row; rank 0 is one row of
 * one. */
int64_t rp_row_length(rp_shape shape);
int64_t rp_row_count(rp_shape shape);

#ifdef __cplusplus
}
#endif

#endif
