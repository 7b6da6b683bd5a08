/* Attention by cuDNN, for the calls that rp_cudnn_serves_* names: bf16, no dropout. Plans are made
 * once per shape and kept in the queue. What adds to a gradient, or lies where 16 bytes cannot be
 * read at once, is our own kernel's: both are facts of the program and not of a plan. So is a shape
 * for which the cuDNN that is there has no plan, which it then has in no run. */
#include "attention_cudnn.h"
#include "attention_call.h"
#include "attention_graph.h"
#include "attention_sizes.h"

typedef struct known_plan {
    rp_cudnn_shape shape;
    rp_cudnn_plan *plan; /* NULL: there is none */
} known_plan;

struct rp_cuda_attention_plans {
    cudnnHandle_t handle; /* NULL: cuDNN does not begin, and has no plans */
    known_plan *plans;
    size_t count, capacity;
};

static bool same_shape(const rp_cudnn_shape *x, const rp_cudnn_shape *y) {
    return x->batch == y->batch && x->queries == y->queries && x->keys == y->keys &&
           x->heads == y->heads && x->kv_heads == y->kv_heads && x->size == y->size &&
           x->q_stride == y->q_stride && x->kv_stride == y->kv_stride &&
           x->o_stride == y->o_stride && x->causal == y->causal && x->backward == y->backward &&
           x->statistics == y->statistics;
}

static rp_cudnn_shape shape_of(const rp_op_call *call, const rp_attention_layout *l,
                               bool backward) {
    return (rp_cudnn_shape){
        .batch = backward ? rp_cudnn_backward_part(l) : l->batch,
        .queries = l->queries,
        .keys = l->keys,
        .heads = l->heads,
        .kv_heads = l->kv_heads,
        .size = l->size,
        .q_stride = l->q_stride,
        .kv_stride = l->kv_stride,
        .o_stride = l->o_stride,
        .causal = call->params->attention.causal,
        .backward = backward,
        .statistics = backward || rp_slot_present(call->out, call->out_count, 1),
    };
}

static rp_status fail(rp_queue *queue, const char *what, cudnnStatus_t status) {
    return rp_cuda_fail(
        queue, status == CUDNN_STATUS_ALLOC_FAILED ? RP_OUT_OF_MEMORY : RP_DEVICE_ERROR,
        "attention: %s: cuDNN gave status %d, %s", what, (int)status, cudnnGetErrorString(status));
}

static rp_status open_plans(rp_queue *queue) {
    struct rp_cuda_attention_plans *known = rp_alloc(queue->context, 1, sizeof *known);
    if (known == NULL)
        return rp_fail_memory(queue->context, "plans of attention");
    const cudnnStatus_t status = cudnnCreate(&known->handle);
    if (status == CUDNN_STATUS_ALLOC_FAILED) {
        rp_free(queue->context, known);
        return fail(queue, "a handle", status);
    }
    if (status != CUDNN_STATUS_SUCCESS) {
        known->handle = NULL;
    } else if (cudnnSetStream(known->handle, queue->stream) != CUDNN_STATUS_SUCCESS) {
        cudnnDestroy(known->handle);
        known->handle = NULL;
    }
    queue->attention_plans = known;
    return RP_OK;
}

static rp_status find_plan(rp_queue *queue, const rp_cudnn_shape *shape, int64_t scratch,
                           const rp_cudnn_plan **found) {
    if (queue->attention_plans == NULL)
        RP_TRY(open_plans(queue));
    struct rp_cuda_attention_plans *known = queue->attention_plans;
    for (size_t i = 0; i < known->count; i++)
        if (same_shape(&known->plans[i].shape, shape)) {
            *found = known->plans[i].plan;
            return RP_OK;
        }
    if (!rp_reserve(queue->context, &known->plans, &known->capacity, known->count + 1,
                    sizeof *known->plans))
        return rp_fail_memory(queue->context, "plans of attention");
    known_plan next = {.shape = *shape};
    rp_status status = RP_OK;
    if (known->handle != NULL)
        status =
            rp_cudnn_plan_make(queue->context, known->handle, NULL, shape, scratch, &next.plan);
    if (status == RP_OUT_OF_MEMORY)
        return status;
    known->plans[known->count++] = next;
    *found = next.plan;
    return RP_OK;
}

static rp_status find_forward(rp_queue *queue, const rp_op_call *call,
                              const rp_cudnn_plan **found) {
    const rp_attention_layout l = rp_cuda_attention_layout(call);
    const rp_cudnn_shape shape = shape_of(call, &l, false);
    return find_plan(queue, &shape, RP_CUDNN_FORWARD_SCRATCH, found);
}

static rp_status find_backward(rp_queue *queue, const rp_op_call *call,
                               const rp_cudnn_plan **found) {
    const rp_attention_layout l = rp_cuda_attention_layout(call);
    const rp_cudnn_shape shape = shape_of(call, &l, true);
    return find_plan(queue, &shape, rp_cudnn_backward_plan_scratch(&l, shape.batch), found);
}

rp_status rp_cuda_prepare_attention(rp_queue *queue, const rp_op_call *call) {
    const rp_cudnn_plan *plan = NULL;
    return rp_cudnn_serves_forward(call) ? find_forward(queue, call, &plan) : RP_OK;
}

rp_status rp_cuda_prepare_attention_backward(rp_queue *queue, const rp_op_call *call) {
    const rp_cudnn_plan *plan = NULL;
    return rp_cudnn_serves_backward(call) ? find_backward(queue, call, &plan) : RP_OK;
}

void rp_cuda_attention_unprepare(rp_queue *queue) {
    struct rp_cuda_attention_plans *known = queue->attention_plans;
    if (known == NULL)
        return;
    for (size_t i = 0; i < known->count; i++)
        rp_cudnn_plan_destroy(queue->context, known->plans[i].plan);
    if (known->handle != NULL)
        cudnnDestroy(known->handle);
    rp_free(queue->context, known->plans);
    rp_free(queue->context, known);
    queue->attention_plans = NULL;
}

/* ---- Running --------------------------------------------------------------------------------- */

enum { BOUND = RP_CUDNN_VIRTUAL };

/* What tensors are bound to. */
typedef struct binding {
    int64_t numbers[BOUND];
    void *addresses[BOUND];
    int64_t count;
} binding;

static void bind(binding *b, int64_t number, const void *address) {
    b->numbers[b->count] = number;
    b->addresses[b->count++] = (void *)address;
}

static rp_status execute(rp_queue *queue, const rp_cudnn_plan *plan, const binding *b,
                         void *scratch) {
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t status =
        cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (status != CUDNN_STATUS_SUCCESS)
        return fail(queue, "a binding", status);
    status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                                      b->count, b->numbers);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                                          CUDNN_TYPE_VOID_PTR, b->count, b->addresses);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
                                          CUDNN_TYPE_VOID_PTR, 1, &scratch);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendExecute(queue->attention_plans->handle, plan->plan, pack);
    cudnnBackendDestroyDescriptor(pack);
    return status == CUDNN_STATUS_SUCCESS ? RP_OK : fail(queue, "a run", status);
}

/* Addresses of the host, which are read during the call. */
static void bind_scalars(binding *b, const rp_attention_layout *l, bool causal) {
    static const float lowest = -INFINITY;
    bind(b, RP_CUDNN_SCALE, &l->scale);
    if (causal)
        bind(b, RP_CUDNN_LOWEST, &lowest);
}

static bool all_aligned(const void *const *addresses, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!rp_cuda_aligned16(addresses[i]))
            return false;
    return true;
}

rp_status rp_cuda_attention_cudnn(const rp_launch *launch, bool *served) {
    const rp_op_call *call = &launch->call;
    const rp_cudnn_plan *plan = NULL;
    *served = false;
    if (!rp_cudnn_serves_forward(call))
        return RP_OK;
    const rp_cuda_attention_job job = rp_cuda_attention_make(launch);
    const void *const addresses[] = {job.q, job.k, job.v, launch->out[0],
                                     rp_cuda_output(launch, 1)};
    if (!all_aligned(addresses, sizeof addresses / sizeof addresses[0]))
        return RP_OK;
    RP_TRY(find_forward(launch->queue, call, &plan));
    if (plan == NULL)
        return RP_OK;
    binding b = {.count = 0};
    bind(&b, RP_CUDNN_Q, job.q);
    bind(&b, RP_CUDNN_K, job.k);
    bind(&b, RP_CUDNN_V, job.v);
    bind(&b, RP_CUDNN_O, launch->out[0]);
    if (rp_cuda_output(launch, 1) != NULL)
        bind(&b, RP_CUDNN_LSE, launch->out[1]);
    bind_scalars(&b, &job.l, job.causal);
    *served = true;
    return execute(launch->queue, plan, &b, launch->workspace);
}

static bool adds(const rp_launch *launch) {
    for (size_t i = 0; i < launch->call.out_count; i++)
        if (rp_cuda_added(launch, i) != NULL)
            return true;
    return false;
}

/* bf16 elements behind `tensor` */
static void *element_at(const void *tensor, int64_t index) {
    return (char *)tensor + index * 2;
}

/* Batches [first, first + part). */
static rp_status run_backward_part(const rp_launch *launch, const rp_cuda_attention_job *job,
                                   const rp_cudnn_plan *plan, int64_t first, int64_t part) {
    static const float one = 1.0f;
    const rp_attention_layout *l = &job->l;
    const bool packed = launch->call.params->attention.packed;
    const int64_t q_at = first * l->queries * l->q_stride, kv_at = first * l->keys * l->kv_stride;
    const int64_t o_at = first * l->queries * l->o_stride;
    void *dq = launch->out[0];
    void *dk = packed ? element_at(dq, l->k_column) : launch->out[1];
    void *dv = packed ? element_at(dq, l->v_column) : launch->out[2];
    binding b = {.count = 0};
    bind(&b, RP_CUDNN_Q, element_at(job->q, q_at));
    bind(&b, RP_CUDNN_K, element_at(job->k, kv_at));
    bind(&b, RP_CUDNN_V, element_at(job->v, kv_at));
    bind(&b, RP_CUDNN_O, element_at(launch->in[3], o_at));
    bind(&b, RP_CUDNN_LSE, (const float *)launch->in[4] + first * l->heads * l->queries);
    bind(&b, RP_CUDNN_GRADIENT, element_at(launch->in[5], o_at));
    bind(&b, RP_CUDNN_DQ, element_at(dq, q_at));
    bind(&b, RP_CUDNN_DK, element_at(dk, kv_at));
    bind(&b, RP_CUDNN_DV, element_at(dv, kv_at));
    bind(&b, RP_CUDNN_SUMS, launch->workspace);
    bind(&b, RP_CUDNN_ONE, &one);
    bind_scalars(&b, l, job->causal);
    return execute(launch->queue, plan, &b,
                   (char *)launch->workspace + rp_cudnn_sums_scratch(l, part));
}

rp_status rp_cuda_attention_backward_cudnn(const rp_launch *launch, bool *served) {
    const rp_op_call *call = &launch->call;
    const rp_cudnn_plan *plan = NULL;
    *served = false;
    if (!rp_cudnn_serves_backward(call) || adds(launch) ||
        !all_aligned(launch->in, call->in_count) ||
        !all_aligned((const void *const *)launch->out, call->out_count))
        return RP_OK;
    RP_TRY(find_backward(launch->queue, call, &plan));
    if (plan == NULL)
        return RP_OK;
    const rp_cuda_attention_job job = rp_cuda_attention_make(launch);
    const int64_t part = rp_cudnn_backward_part(&job.l);
    *served = true;
    for (int64_t first = 0; first < job.l.batch; first += part)
        RP_TRY(run_backward_part(launch, &job, plan, first, part));
    return RP_OK;
}
