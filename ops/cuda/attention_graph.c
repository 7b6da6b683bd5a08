/* Attention as a composite graph of cuDNN: what its fused kernels are recognised by, operation by
 * operation, so the order and the virtual tensors matter. Forward is softmax(scale q k^T) v with
 * the log-sum-exp beside it. Backward is the form whose dq is one product and not a sum of atomics:
 * that, and nothing else, makes it deterministic, and costs a scratch of the size of the scores.
 *
 * Dimensions are [batch, heads, rows, columns]. Every call after one that failed does nothing, and
 * the first failure is kept. */
#include "attention_graph.h"

typedef cudnnBackendDescriptor_t descriptor;

typedef struct four {
    int64_t at[4];
} four;

static const cudnnDataType_t f32 = CUDNN_DATA_FLOAT, bf16 = CUDNN_DATA_BFLOAT16;

/* ---- Descriptors ----------------------------------------------------------------------------- */

static bool keep_status(rp_cudnn_plan *p, cudnnStatus_t status) {
    if (p->status == CUDNN_STATUS_SUCCESS)
        p->status = status;
    return p->status == CUDNN_STATUS_SUCCESS;
}

static descriptor make(rp_cudnn_plan *p, cudnnBackendDescriptorType_t type) {
    descriptor made = NULL;
    if (p->status != CUDNN_STATUS_SUCCESS)
        return NULL;
    if (p->made_count == RP_CUDNN_MADE)
        keep_status(p, CUDNN_STATUS_INTERNAL_ERROR);
    else if (keep_status(p, cudnnBackendCreateDescriptor(type, &made)))
        p->made[p->made_count++] = made;
    return made;
}

static void set(rp_cudnn_plan *p, descriptor d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values) {
    if (p->status == CUDNN_STATUS_SUCCESS)
        keep_status(p, cudnnBackendSetAttribute(d, name, type, count, values));
}

static void set_descriptor(rp_cudnn_plan *p, descriptor d, cudnnBackendAttributeName_t name,
                           descriptor value) {
    set(p, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static descriptor finish(rp_cudnn_plan *p, descriptor d) {
    if (p->status == CUDNN_STATUS_SUCCESS)
        keep_status(p, cudnnBackendFinalize(d));
    return d;
}

static void add_operation(rp_cudnn_plan *p, descriptor operation) {
    finish(p, operation);
    if (p->status != CUDNN_STATUS_SUCCESS)
        return;
    if (p->operation_count == RP_CUDNN_OPERATIONS)
        keep_status(p, CUDNN_STATUS_INTERNAL_ERROR);
    else
        p->operations[p->operation_count++] = operation;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static four contiguous(four dims) {
    return (four){{dims.at[1] * dims.at[2] * dims.at[3], dims.at[2] * dims.at[3], dims.at[3], 1}};
}

static four transposed(four x) {
    return (four){{x.at[0], x.at[1], x.at[3], x.at[2]}};
}

static descriptor make_tensor(rp_cudnn_plan *p, int64_t number, cudnnDataType_t type, four dims,
                              four strides, bool by_value) {
    const int64_t alignment = 16, name = number;
    const bool is_virtual = number >= RP_CUDNN_VIRTUAL;
    descriptor d = make(p, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(p, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(p, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dims.at);
    set(p, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides.at);
    set(p, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &name);
    set(p, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(p, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    set(p, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    return finish(p, d);
}

static descriptor real_tensor(rp_cudnn_plan *p, int64_t number, cudnnDataType_t type, four dims,
                              four strides) {
    return make_tensor(p, number, type, dims, strides, false);
}

/* Lies nowhere: lives within the kernel. */
static descriptor virtual_tensor(rp_cudnn_plan *p, cudnnDataType_t type, four dims, four strides) {
    return make_tensor(p, p->next_virtual++, type, dims, strides, false);
}

static descriptor scalar(rp_cudnn_plan *p, int64_t number) {
    const four one = {{1, 1, 1, 1}};
    return make_tensor(p, number, f32, one, one, true);
}

/* ---- Operations ------------------------------------------------------------------------------ */

static void multiply(rp_cudnn_plan *p, descriptor a, descriptor b, descriptor c) {
    descriptor how = make(p, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(p, how, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32);
    finish(p, how);
    descriptor operation = make(p, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_descriptor(p, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_descriptor(p, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_descriptor(p, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set_descriptor(p, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    add_operation(p, operation);
}

/* y = x mode b (, choice); b and choice may be NULL. `axis` is of GEN_INDEX. */
static void pointwise_in(rp_cudnn_plan *p, cudnnPointwiseMode_t mode, cudnnDataType_t precision,
                         int64_t axis, descriptor x, descriptor b, descriptor choice,
                         descriptor y) {
    const float one = 1.0f;
    descriptor how = make(p, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(p, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(p, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision);
    if (mode == CUDNN_POINTWISE_GEN_INDEX)
        set(p, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &axis);
    finish(p, how);
    descriptor operation = make(p, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(p, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_descriptor(p, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_descriptor(p, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    if (b != NULL)
        set_descriptor(p, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    if (choice != NULL)
        set_descriptor(p, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, choice);
    set(p, operation, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, CUDNN_TYPE_FLOAT, 1, &one);
    set(p, operation, CUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, CUDNN_TYPE_FLOAT, 1, &one);
    add_operation(p, operation);
}

static void pointwise(rp_cudnn_plan *p, cudnnPointwiseMode_t mode, descriptor x, descriptor b,
                      descriptor y) {
    pointwise_in(p, mode, f32, 0, x, b, NULL, y);
}

static void reduce(rp_cudnn_plan *p, cudnnReduceTensorOp_t operator, descriptor x, descriptor y) {
    descriptor how = make(p, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(p, how, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &f32);
    set(p, how, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &operator);
    finish(p, how);
    descriptor operation = make(p, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_descriptor(p, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    set_descriptor(p, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_descriptor(p, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add_operation(p, operation);
}

/* The transpose of x. */
static void reshape(rp_cudnn_plan *p, descriptor x, descriptor y) {
    descriptor operation = make(p, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_descriptor(p, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_descriptor(p, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add_operation(p, operation);
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

typedef struct dimensions {
    four q, kv, all_kv, scores, rows; /* all_kv: keys with as many heads as queries have */
    four q_strides, kv_strides, o_strides;
} dimensions;

static dimensions dimensions_of(const rp_cudnn_shape *s) {
    return (dimensions){
        .q = {{s->batch, s->heads, s->queries, s->size}},
        .kv = {{s->batch, s->kv_heads, s->keys, s->size}},
        .all_kv = {{s->batch, s->heads, s->keys, s->size}},
        .scores = {{s->batch, s->heads, s->queries, s->keys}},
        .rows = {{s->batch, s->heads, s->queries, 1}},
        .q_strides = {{s->queries * s->q_stride, s->size, s->q_stride, 1}},
        .kv_strides = {{s->keys * s->kv_stride, s->size, s->kv_stride, 1}},
        .o_strides = {{s->queries * s->o_stride, s->size, s->o_stride, 1}},
    };
}

static descriptor virtual_scores(rp_cudnn_plan *p, const dimensions *d) {
    return virtual_tensor(p, f32, d->scores, contiguous(d->scores));
}

static descriptor virtual_rows(rp_cudnn_plan *p, const dimensions *d) {
    return virtual_tensor(p, f32, d->rows, contiguous(d->rows));
}

/* scores mode b, as a new tensor */
static descriptor scores_by(rp_cudnn_plan *p, const dimensions *d, cudnnPointwiseMode_t mode,
                            descriptor scores, descriptor b) {
    descriptor y = virtual_scores(p, d);
    pointwise(p, mode, scores, b, y);
    return y;
}

/* Scores of keys behind the query are -inf. */
static descriptor mask(rp_cudnn_plan *p, const dimensions *d, descriptor scores) {
    const four strides = contiguous(d->scores);
    descriptor row = virtual_tensor(p, CUDNN_DATA_INT32, d->scores, strides);
    descriptor column = virtual_tensor(p, CUDNN_DATA_INT32, d->scores, strides);
    descriptor visible = virtual_tensor(p, CUDNN_DATA_BOOLEAN, d->scores, strides);
    descriptor masked = virtual_scores(p, d);
    pointwise_in(p, CUDNN_POINTWISE_GEN_INDEX, f32, 2, scores, NULL, NULL, row);
    pointwise_in(p, CUDNN_POINTWISE_GEN_INDEX, f32, 3, scores, NULL, NULL, column);
    pointwise_in(p, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, 0, row, column, NULL, visible);
    pointwise_in(p, CUDNN_POINTWISE_BINARY_SELECT, f32, 0, scores, scalar(p, RP_CUDNN_LOWEST),
                 visible, masked);
    return masked;
}

/* scale q k^T; *scale is the tensor. */
static descriptor scaled_scores(rp_cudnn_plan *p, const dimensions *d, descriptor q, descriptor kt,
                                descriptor scale) {
    descriptor scores = virtual_scores(p, d);
    multiply(p, q, kt, scores);
    return scores_by(p, d, CUDNN_POINTWISE_MUL, scores, scale);
}

static void build_forward(rp_cudnn_plan *p, const rp_cudnn_shape *s) {
    const dimensions d = dimensions_of(s);
    descriptor q = real_tensor(p, RP_CUDNN_Q, bf16, d.q, d.q_strides);
    descriptor kt = real_tensor(p, RP_CUDNN_K, bf16, transposed(d.kv), transposed(d.kv_strides));
    descriptor v = real_tensor(p, RP_CUDNN_V, bf16, d.kv, d.kv_strides);
    descriptor o = real_tensor(p, RP_CUDNN_O, bf16, d.q, d.o_strides);
    descriptor scores = scaled_scores(p, &d, q, kt, scalar(p, RP_CUDNN_SCALE));
    if (s->causal)
        scores = mask(p, &d, scores);
    descriptor top = virtual_rows(p, &d), sum = virtual_rows(p, &d);
    reduce(p, CUDNN_REDUCE_TENSOR_MAX, scores, top);
    descriptor lower = scores_by(p, &d, CUDNN_POINTWISE_SUB, scores, top);
    descriptor powers = scores_by(p, &d, CUDNN_POINTWISE_EXP, lower, NULL);
    reduce(p, CUDNN_REDUCE_TENSOR_ADD, powers, sum);
    /* There even where nobody wants it: without it no kernel is found. */
    descriptor logarithm = virtual_rows(p, &d);
    descriptor lse = s->statistics ? real_tensor(p, RP_CUDNN_LSE, f32, d.rows, contiguous(d.rows))
                                   : virtual_rows(p, &d);
    pointwise(p, CUDNN_POINTWISE_LOG, sum, NULL, logarithm);
    pointwise(p, CUDNN_POINTWISE_ADD, top, logarithm, lse);
    descriptor probabilities = virtual_tensor(p, bf16, d.scores, contiguous(d.scores));
    pointwise(p, CUDNN_POINTWISE_DIV, powers, sum, probabilities);
    multiply(p, probabilities, v, o);
}

/* out [keys, size] = x^T rows; where heads share keys, of each head first and then their sum. */
static void multiply_keys(rp_cudnn_plan *p, const rp_cudnn_shape *s, const dimensions *d,
                          descriptor x, descriptor rows, descriptor out) {
    const four dims = transposed(d->scores);
    const four strides = transposed(contiguous(d->scores));
    descriptor xt = virtual_tensor(p, bf16, dims, strides);
    reshape(p, x, xt);
    if (s->heads == s->kv_heads) {
        multiply(p, xt, rows, out);
        return;
    }
    descriptor of_each = virtual_tensor(p, bf16, d->all_kv, contiguous(d->all_kv));
    multiply(p, xt, rows, of_each);
    reduce(p, CUDNN_REDUCE_TENSOR_ADD, of_each, out);
}

/* sums [B, H, T] = the sum over d of do o, for all products with the gradient of a score */
static descriptor sum_rows(rp_cudnn_plan *p, const dimensions *d, descriptor o,
                           descriptor gradient) {
    descriptor product = virtual_tensor(p, f32, d->q, d->o_strides), sum = virtual_rows(p, d);
    descriptor sums = real_tensor(p, RP_CUDNN_SUMS, f32, d->rows, contiguous(d->rows));
    pointwise(p, CUDNN_POINTWISE_MUL, gradient, o, product);
    reduce(p, CUDNN_REDUCE_TENSOR_ADD, product, sum);
    pointwise(p, CUDNN_POINTWISE_MUL, sum, scalar(p, RP_CUDNN_ONE), sums);
    return sums;
}

static void build_backward(rp_cudnn_plan *p, const rp_cudnn_shape *s) {
    const dimensions d = dimensions_of(s);
    const four kvt = transposed(d.kv), kvt_strides = transposed(d.kv_strides);
    descriptor q = real_tensor(p, RP_CUDNN_Q, bf16, d.q, d.q_strides);
    descriptor o = real_tensor(p, RP_CUDNN_O, bf16, d.q, d.o_strides);
    descriptor gradient = real_tensor(p, RP_CUDNN_GRADIENT, bf16, d.q, d.o_strides);
    descriptor kt = real_tensor(p, RP_CUDNN_K, bf16, kvt, kvt_strides);
    descriptor vt = real_tensor(p, RP_CUDNN_V, bf16, kvt, kvt_strides);
    descriptor lse = real_tensor(p, RP_CUDNN_LSE, f32, d.rows, contiguous(d.rows));
    descriptor dq = real_tensor(p, RP_CUDNN_DQ, bf16, d.q, d.q_strides);
    descriptor dk = real_tensor(p, RP_CUDNN_DK, bf16, d.kv, d.kv_strides);
    descriptor dv = real_tensor(p, RP_CUDNN_DV, bf16, d.kv, d.kv_strides);
    descriptor scale = scalar(p, RP_CUDNN_SCALE);
    descriptor sums = sum_rows(p, &d, o, gradient);

    descriptor scores = scaled_scores(p, &d, q, kt, scale);
    scores = scores_by(p, &d, CUDNN_POINTWISE_SUB, scores, lse);
    if (s->causal)
        scores = mask(p, &d, scores);
    descriptor probabilities = scores_by(p, &d, CUDNN_POINTWISE_EXP, scores, NULL);
    multiply_keys(p, s, &d, probabilities, gradient, dv);

    descriptor dp = virtual_scores(p, &d);
    multiply(p, gradient, vt, dp);
    dp = scores_by(p, &d, CUDNN_POINTWISE_SUB, dp, sums);
    dp = scores_by(p, &d, CUDNN_POINTWISE_MUL, dp, probabilities);
    descriptor ds = virtual_tensor(p, bf16, d.scores, contiguous(d.scores));
    pointwise(p, CUDNN_POINTWISE_MUL, dp, scale, ds);
    multiply_keys(p, s, &d, ds, q, dk);

    descriptor k = virtual_tensor(p, bf16, d.kv, d.kv_strides);
    reshape(p, kt, k);
    multiply(p, ds, k, dq);
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static bool is_deterministic(descriptor config) {
    enum { NOTES = 16 };
    cudnnBackendNumericalNote_t notes[NOTES];
    descriptor engine = NULL;
    int64_t count = 0;
    bool found = cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) ==
                 CUDNN_STATUS_SUCCESS;
    if (!found)
        return false;
    found =
        cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 1, &count, &engine) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                 CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &count,
                                 notes) == CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; found && i < count && i < NOTES; i++)
        if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)
            found = false;
    cudnnBackendDestroyDescriptor(engine);
    return found;
}

/* One configuration as the plan, if it keeps to the scratch. */
static bool try_config(rp_cudnn_plan *p, cudnnHandle_t handle, descriptor properties,
                       descriptor config, int64_t scratch) {
    descriptor plan = NULL;
    int64_t count = 0, bytes = 0;
    if (!is_deterministic(config))
        return false;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) !=
        CUDNN_STATUS_SUCCESS)
        return false;
    cudnnStatus_t status = cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config);
    if (status == CUDNN_STATUS_SUCCESS)
        status = handle != NULL
                     ? cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
                                                CUDNN_TYPE_HANDLE, 1, &handle)
                     : cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &properties);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendFinalize(plan);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                          CUDNN_TYPE_INT64, 1, &count, &bytes);
    if (status != CUDNN_STATUS_SUCCESS || bytes > scratch) {
        cudnnBackendDestroyDescriptor(plan);
        return false;
    }
    p->plan = plan;
    p->scratch = bytes;
    return true;
}

/* The first configuration, and so by cuDNN's estimate the fastest, that serves. */
static void choose(rp_cudnn_plan *p, cudnnHandle_t handle, descriptor properties, descriptor graph,
                   cudnnBackendHeurMode_t mode, int64_t scratch) {
    enum { ASKED = 16 };
    descriptor configs[ASKED] = {NULL};
    int64_t count = 0, most = 0;
    descriptor heuristics = make(p, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_descriptor(p, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(p, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (handle == NULL)
        set_descriptor(p, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties);
    if (p->status != CUDNN_STATUS_SUCCESS ||
        cudnnBackendFinalize(heuristics) != CUDNN_STATUS_SUCCESS)
        return;
    while (most < ASKED && cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                                        &configs[most]) == CUDNN_STATUS_SUCCESS)
        most++;
    if (cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count,
                                 configs) != CUDNN_STATUS_SUCCESS)
        count = 0;
    for (int64_t i = 0; i < most; i++) {
        if (p->plan == NULL && i < count &&
            try_config(p, handle, properties, configs[i], scratch) && p->made_count < RP_CUDNN_MADE)
            p->made[p->made_count++] = configs[i];
        else
            cudnnBackendDestroyDescriptor(configs[i]);
    }
}

void rp_cudnn_plan_destroy(rp_context *context, rp_cudnn_plan *plan) {
    if (plan == NULL)
        return;
    if (plan->plan != NULL)
        cudnnBackendDestroyDescriptor(plan->plan);
    while (plan->made_count > 0)
        cudnnBackendDestroyDescriptor(plan->made[--plan->made_count]);
    rp_free(context, plan);
}

static void build(rp_cudnn_plan *p, cudnnHandle_t handle, descriptor properties,
                  const rp_cudnn_shape *shape, int64_t scratch) {
    if (shape->backward)
        build_backward(p, shape);
    else
        build_forward(p, shape);
    descriptor graph = make(p, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(p, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, p->operation_count,
        p->operations);
    if (handle != NULL)
        set(p, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    finish(p, graph);
    choose(p, handle, properties, graph, CUDNN_HEUR_MODE_A, scratch);
    if (p->plan == NULL)
        choose(p, handle, properties, graph, CUDNN_HEUR_MODE_FALLBACK, scratch);
}

rp_status rp_cudnn_plan_make(rp_context *context, cudnnHandle_t handle,
                             cudnnBackendDescriptor_t properties, const rp_cudnn_shape *shape,
                             int64_t scratch, rp_cudnn_plan **plan) {
    *plan = NULL;
    rp_cudnn_plan *p = rp_alloc(context, 1, sizeof *p);
    if (p == NULL)
        return rp_fail_memory(context, "a plan of attention");
    p->next_virtual = RP_CUDNN_VIRTUAL;
    build(p, handle, properties, shape, scratch);
    if (p->plan != NULL) {
        *plan = p;
        return RP_OK;
    }
    const rp_status status =
        p->status == CUDNN_STATUS_ALLOC_FAILED ? RP_OUT_OF_MEMORY
        : p->status == CUDNN_STATUS_SUCCESS || p->status / 1000 == CUDNN_STATUS_NOT_SUPPORTED / 1000
            ? RP_UNSUPPORTED
            : RP_DEVICE_ERROR;
    rp_fail(context, status,
            "attention: cuDNN has no plan (status %d) of %lld bytes of scratch for %s of %lld "
            "heads of %lld over %lld queries and %lld keys",
            (int)p->status, (long long)scratch, shape->backward ? "backward" : "forward",
            (long long)shape->heads, (long long)shape->size, (long long)shape->queries,
            (long long)shape->keys);
    rp_cudnn_plan_destroy(context, p);
    return status;
}
