/* linear, its gradients and matmul by cuBLASLt.
 *
 * Real f32 arithmetic (CUBLAS_COMPUTE_32F, no TF32) for both storage types. The algorithm of a
 * product depends on types and shape, and on whether all its tensors lie at multiples of 16 bytes:
 * values begin at multiples of 256, so that is decided by where views begin, which a program fixes
 * and no plan changes. Partial sums of a split product are f32 in the workspace, added in order:
 * never in the output, where they would be rounded.
 *
 * What is used of cuBLASLt, all of it emulated in tests/emulator: column-major layouts, strided
 * batches; f32 x f32 -> f32, bf16 x bf16 -> bf16 or f32, C of D's type; TRANSA, TRANSB; the
 * epilogues DEFAULT, BIAS, BGRADA and BGRADB (of D's type); alpha 1, beta 0 or 1 with C == D or
 * apart from it; preferences MAX_WORKSPACE_BYTES, REDUCTION_SCHEME_MASK,
 * MIN_ALIGNMENT_{A,B,C,D}_BYTES. An epilogue that is refused is done by kernels of our own.
 *
 * What an epilogue saves in a step of GPT-2 124M at 65,536 tokens in bf16, by arithmetic: BGRADA
 * or BGRADB 10.9 GB, one reading of each dy, in a node that has both outputs anyway. Not used:
 * GELU_AUX_BIAS, 4.8 GB, since one node for both could not run GELU alone again, the cheapest
 * replay there is, and fused only where a plan has both runs, it would make bits depend on the
 * plan. DGELU, 9.7 GB, would cost no plan anything, but needs a node across two ops for gradients
 * with a single reader, and nothing says how exact the library's tanh is. */
#include "bias.h"
#include "prepare.h"
#include "product_prepare.h"
#include "product_sizes.h"
#include "slots.h"

typedef struct product_plan {
    rp_cuda_product product;
    bool aligned;       /* every tensor lies at a multiple of 16 bytes */
    bool bias_epilogue; /* else kernels of our own see to the bias before the product */
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, d;
    cublasLtMatmulAlgo_t algorithm;
    size_t scratch;
} product_plan;

struct rp_cuda_product_plans {
    product_plan *plans;
    size_t count, capacity;
};

/* Where a product's tensors lie; c: what is added, or NULL; dbias: the sum of a or b. */
typedef struct product_tensors {
    const void *a, *b, *bias, *c;
    void *d, *dbias;
} product_tensors;

static bool same_product(const rp_cuda_product *x, const rp_cuda_product *y) {
    return x->in == y->in && x->out == y->out && x->transpose_a == y->transpose_a &&
           x->transpose_b == y->transpose_b && x->bias == y->bias && x->m == y->m && x->n == y->n &&
           x->k == y->k && x->batch == y->batch;
}

static bool is_empty(const rp_cuda_product *p) {
    return p->m == 0 || p->n == 0 || p->k == 0 || p->batch == 0;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static cudaDataType_t data_type(rp_dtype dtype) {
    return dtype == RP_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static void destroy_plan(product_plan *plan) {
    if (plan->operation != NULL)
        cublasLtMatmulDescDestroy(plan->operation);
    if (plan->a != NULL)
        cublasLtMatrixLayoutDestroy(plan->a);
    if (plan->b != NULL)
        cublasLtMatrixLayoutDestroy(plan->b);
    if (plan->d != NULL)
        cublasLtMatrixLayoutDestroy(plan->d);
}

/* A row-major matrix is its transpose in cuBLASLt's order of columns. */
static cublasStatus_t make_layout(cublasLtMatrixLayout_t *layout, rp_dtype dtype, int64_t rows,
                                  int64_t columns, int64_t batch) {
    const int32_t count = (int32_t)batch;
    const int64_t stride = rows * columns;
    cublasStatus_t status = cublasLtMatrixLayoutCreate(layout, data_type(dtype), (uint64_t)columns,
                                                       (uint64_t)rows, columns);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                  &count, sizeof count);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatrixLayoutSetAttribute(
            *layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride);
    return status;
}

static cublasStatus_t set_bias(product_plan *plan) {
    /* Column by column, our B comes first: it is the library's A. */
    static const cublasLtEpilogue_t epilogues[] = {
        [RP_CUDA_NO_BIAS] = CUBLASLT_EPILOGUE_DEFAULT,
        [RP_CUDA_BIAS_ADDED] = CUBLASLT_EPILOGUE_BIAS,
        [RP_CUDA_BIAS_SUM_OF_A] = CUBLASLT_EPILOGUE_BGRADB,
        [RP_CUDA_BIAS_SUM_OF_B] = CUBLASLT_EPILOGUE_BGRADA,
    };
    /* An address of the kind to come: heuristics ask it for its alignment. */
    const void *const some = (const void *)(uintptr_t)16;
    const cublasLtEpilogue_t epilogue =
        epilogues[plan->bias_epilogue ? plan->product.bias : RP_CUDA_NO_BIAS];
    const cudaDataType_t type = data_type(plan->product.out);
    cublasStatus_t status = cublasLtMatmulDescSetAttribute(
        plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (status != CUBLAS_STATUS_SUCCESS || !plan->bias_epilogue)
        return status;
    status = cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                                            &type, sizeof type);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                &some, sizeof some);
    return status;
}

/* D^T = op(B)^T op(A)^T: B comes first, each operand is transposed where ours is. */
static cublasStatus_t describe(product_plan *plan) {
    const rp_cuda_product *p = &plan->product;
    const cublasOperation_t first = p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t status =
        cublasLtMatmulDescCreate(&plan->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                                &first, sizeof first);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB,
                                                &second, sizeof second);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = set_bias(plan);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layout(&plan->b, p->in, p->transpose_b ? p->n : p->k,
                             p->transpose_b ? p->k : p->n, p->batch);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layout(&plan->a, p->in, p->transpose_a ? p->k : p->m,
                             p->transpose_a ? p->m : p->k, p->batch);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = make_layout(&plan->d, p->out, p->m, p->n, p->batch);
    return status;
}

static cublasStatus_t make_preference(cublasLtMatmulPreference_t *preference,
                                      const product_plan *plan) {
    const uint64_t scratch = (uint64_t)rp_cuda_product_scratch(&plan->product);
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const uint32_t in = plan->aligned ? 16 : (uint32_t)rp_dtype_bytes(plan->product.in);
    const uint32_t out = plan->aligned ? 16 : (uint32_t)rp_dtype_bytes(plan->product.out);
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *value;
        size_t bytes;
    } attributes[] = {
        {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &scratch, sizeof scratch},
        {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &in, sizeof in},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &in, sizeof in},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &out, sizeof out},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &out, sizeof out},
    };
    cublasStatus_t status = cublasLtMatmulPreferenceCreate(preference);
    for (size_t i = 0;
         i < sizeof attributes / sizeof attributes[0] && status == CUBLAS_STATUS_SUCCESS; i++)
        status = cublasLtMatmulPreferenceSetAttribute(*preference, attributes[i].name,
                                                      attributes[i].value, attributes[i].bytes);
    return status;
}

/* The first, and so by its estimate the fastest, that keeps to the scratch. */
static cublasStatus_t choose(const rp_queue *queue, product_plan *plan) {
    enum { ASKED = 8 };
    cublasLtMatmulHeuristicResult_t results[ASKED];
    cublasLtMatmulPreference_t preference = NULL;
    int count = 0;
    cublasStatus_t status = make_preference(&preference, plan);
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            cublasLtMatmulAlgoGetHeuristic(queue->products, plan->operation, plan->b, plan->a,
                                           plan->d, plan->d, preference, ASKED, results, &count);
    if (preference != NULL)
        cublasLtMatmulPreferenceDestroy(preference);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    for (int i = 0; i < count; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS &&
            results[i].workspaceSize <= (size_t)rp_cuda_product_scratch(&plan->product)) {
            plan->algorithm = results[i].algo;
            plan->scratch = results[i].workspaceSize;
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

static rp_status fail(rp_queue *queue, const rp_cuda_product *p, cublasStatus_t status) {
    const rp_status what = status == CUBLAS_STATUS_ALLOC_FAILED    ? RP_OUT_OF_MEMORY
                           : status == CUBLAS_STATUS_NOT_SUPPORTED ? RP_UNSUPPORTED
                                                                   : RP_DEVICE_ERROR;
    return rp_cuda_fail(queue, what,
                        "cuBLASLt gave %s for a product [%lld, %lld] x [%lld, %lld] of %s to %s, "
                        "%lld times",
                        cublasLtGetStatusName(status), (long long)p->m, (long long)p->k,
                        (long long)p->k, (long long)p->n, rp_dtype_name(p->in),
                        rp_dtype_name(p->out), (long long)p->batch);
}

static cublasStatus_t make_plan(const rp_queue *queue, product_plan *plan, bool bias_epilogue) {
    plan->bias_epilogue = bias_epilogue;
    cublasStatus_t status = describe(plan);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = choose(queue, plan);
    if (status != CUBLAS_STATUS_SUCCESS) {
        destroy_plan(plan);
        plan->operation = NULL;
        plan->a = plan->b = plan->d = NULL;
    }
    return status;
}

static rp_status check_product(rp_queue *queue, const rp_cuda_product *p) {
    const bool in = p->in == RP_F32 || p->in == RP_BF16;
    if (!in || (p->out != p->in && p->out != RP_F32))
        return rp_cuda_fail(queue, RP_UNSUPPORTED, "a product of %s to %s has no CUDA kernel",
                            rp_dtype_name(p->in), rp_dtype_name(p->out));
    if (p->batch > INT32_MAX)
        return rp_cuda_fail(queue, RP_UNSUPPORTED,
                            "cuBLASLt makes up to %d products at a time, not %lld", INT32_MAX,
                            (long long)p->batch);
    return RP_OK;
}

/* *found stays valid until the next plan is added. */
static rp_status find_plan(rp_queue *queue, const rp_cuda_product *p, bool aligned,
                           product_plan **found) {
    struct rp_cuda_product_plans *known = queue->product_plans;
    for (size_t i = 0; known != NULL && i < known->count; i++)
        if (known->plans[i].aligned == aligned && same_product(&known->plans[i].product, p)) {
            *found = &known->plans[i];
            return RP_OK;
        }
    RP_TRY(check_product(queue, p));
    if (known == NULL)
        known = queue->product_plans = rp_alloc(queue->context, 1, sizeof *known);
    if (known == NULL || !rp_reserve(queue->context, &known->plans, &known->capacity,
                                     known->count + 1, sizeof *known->plans))
        return rp_fail_memory(queue->context, "plans of products");
    product_plan plan = {.product = *p, .aligned = aligned};
    cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
    if (p->bias != RP_CUDA_NO_BIAS && aligned) /* nothing can be asked of one that lies anywhere */
        status = make_plan(queue, &plan, true);
    /* Whatever a version of the library has against an epilogue, it can be done without. */
    if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_ALLOC_FAILED)
        status = make_plan(queue, &plan, false);
    if (status != CUBLAS_STATUS_SUCCESS)
        return fail(queue, p, status);
    known->plans[known->count] = plan;
    *found = &known->plans[known->count++];
    return RP_OK;
}

void rp_cuda_products_unprepare(rp_queue *queue) {
    struct rp_cuda_product_plans *known = queue->product_plans;
    if (known == NULL)
        return;
    for (size_t i = 0; i < known->count; i++)
        destroy_plan(&known->plans[i]);
    rp_free(queue->context, known->plans);
    rp_free(queue->context, known);
    queue->product_plans = NULL;
}

/* Both kinds of addresses: a view may begin anywhere. */
static rp_status prepare(rp_queue *queue, const rp_cuda_product *p) {
    product_plan *plan = NULL;
    if (is_empty(p))
        return RP_OK;
    RP_TRY(find_plan(queue, p, true, &plan));
    const rp_status status = find_plan(queue, p, false, &plan);
    if (status != RP_UNSUPPORTED)
        return status;
    queue->words[0] = 0; /* a run that needs it will say so */
    return RP_OK;
}

rp_status rp_cuda_prepare_linear(rp_queue *queue, const rp_op_call *call) {
    const rp_cuda_product p = rp_cuda_product_linear(call);
    return prepare(queue, &p);
}

rp_status rp_cuda_prepare_linear_backward_input(rp_queue *queue, const rp_op_call *call) {
    const rp_cuda_product p = rp_cuda_product_backward_input(call);
    return prepare(queue, &p);
}

rp_status rp_cuda_prepare_linear_backward_weight(rp_queue *queue, const rp_op_call *call) {
    if (!rp_slot_present(call->out, call->out_count, 0))
        return RP_OK;
    const rp_cuda_product p = rp_cuda_product_backward_weight(call);
    const rp_cuda_product both = rp_cuda_product_backward_weight_and_bias(call);
    RP_TRY(prepare(queue, &both));
    return both.bias != RP_CUDA_NO_BIAS ? prepare(queue, &p) : RP_OK; /* where dbias adds up */
}

rp_status rp_cuda_prepare_matmul(rp_queue *queue, const rp_op_call *call) {
    const rp_cuda_product p = rp_cuda_product_matmul(call);
    return prepare(queue, &p);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* A sum of nothing: what is added, the bias, or zeros. */
static rp_status run_empty(const rp_launch *launch, const rp_cuda_product *p,
                           const product_tensors *t) {
    const size_t bytes = (size_t)(p->batch * p->m * p->n) * rp_dtype_bytes(p->out);
    const cudaStream_t stream = launch->queue->stream;
    if (bytes == 0 || t->c == t->d)
        return RP_OK;
    if (t->c != NULL)
        return rp_cuda_status(launch->queue,
                              cudaMemcpyAsync(t->d, t->c, bytes, cudaMemcpyDeviceToDevice, stream),
                              "a product");
    if (t->bias != NULL)
        return rp_cuda_bias_rows(launch, p->out, t->d, t->bias, p->m, p->n);
    return rp_cuda_status(launch->queue, cudaMemsetAsync(t->d, 0, bytes, stream), "a product");
}

/* dbias, if it is asked for. */
static rp_status sum_dy(const rp_launch *launch, const rp_cuda_product *p,
                        const product_tensors *t) {
    const bool of_a = p->bias == RP_CUDA_BIAS_SUM_OF_A;
    if (t->dbias == NULL)
        return RP_OK;
    return rp_cuda_bias_gradient(launch, p->in, p->out, of_a ? t->a : t->b, NULL, t->dbias, p->k,
                                 of_a ? p->m : p->n);
}

static rp_status run_product(const rp_launch *launch, const rp_cuda_product *p,
                             const product_tensors *tensors) {
    static const float one = 1.0f, zero = 0.0f;
    rp_queue *queue = launch->queue;
    product_tensors t = *tensors;
    product_plan *plan = NULL;
    if (is_empty(p)) {
        RP_TRY(check_product(queue, p));
        RP_TRY(sum_dy(launch, p, &t));
        return run_empty(launch, p, &t);
    }
    const void *const bias = t.dbias != NULL ? t.dbias : t.bias;
    const bool aligned = rp_cuda_aligned16(t.a) && rp_cuda_aligned16(t.b) &&
                         rp_cuda_aligned16(t.c) && rp_cuda_aligned16(t.d) &&
                         rp_cuda_aligned16(bias);
    RP_TRY(find_plan(queue, p, aligned, &plan));
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (bias != NULL && plan->bias_epilogue) {
        status = cublasLtMatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                &bias, sizeof bias);
    } else if (t.bias != NULL) {
        RP_TRY(rp_cuda_bias_rows(launch, p->out, t.d, t.bias, p->m, p->n));
        t.c = t.d;
    } else {
        RP_TRY(sum_dy(launch, p, &t));
    }
    if (status == CUBLAS_STATUS_SUCCESS)
        status =
            cublasLtMatmul(queue->products, plan->operation, &one, t.b, plan->b, t.a, plan->a,
                           t.c != NULL ? &one : &zero, t.c != NULL ? t.c : t.d, plan->d, t.d,
                           plan->d, &plan->algorithm, plan->scratch > 0 ? launch->workspace : NULL,
                           plan->scratch, queue->stream);
    return status == CUBLAS_STATUS_SUCCESS ? RP_OK : fail(queue, p, status);
}

/* x [rows, in], weight [in, out] or [out, in], bias [out] or absent -> y [rows, out] */
rp_status rp_cuda_linear(const rp_launch *launch) {
    const rp_cuda_product p = rp_cuda_product_linear(&launch->call);
    return run_product(launch, &p,
                       &(product_tensors){.a = launch->in[0],
                                          .b = launch->in[1],
                                          .bias = rp_cuda_input(launch, 2),
                                          .d = launch->out[0]});
}

/* dy [rows, out], weight -> dx [rows, in] = dy weight^T */
rp_status rp_cuda_linear_backward_input(const rp_launch *launch) {
    const rp_cuda_product p = rp_cuda_product_backward_input(&launch->call);
    return run_product(launch, &p,
                       &(product_tensors){.a = launch->in[0],
                                          .b = launch->in[1],
                                          .c = rp_cuda_added(launch, 0),
                                          .d = launch->out[0]});
}

/* x [rows, in], dy [rows, out] -> dweight = x^T dy, [in, out] or transposed; dbias [out]. Either
 * may be absent, and x is if dweight is. */
rp_status rp_cuda_linear_backward_weight(const rp_launch *launch) {
    const rp_op_call *call = &launch->call;
    const void *added = rp_cuda_added(launch, 1);
    const bool transposed = call->params->linear.layout == RP_OUT_IN;
    void *dweight = rp_cuda_output(launch, 0), *dbias = rp_cuda_output(launch, 1);
    rp_cuda_product p = {.bias = RP_CUDA_NO_BIAS};
    if (dweight != NULL)
        p = added == NULL ? rp_cuda_product_backward_weight_and_bias(call)
                          : rp_cuda_product_backward_weight(call);
    const bool together = p.bias != RP_CUDA_NO_BIAS;
    if (dbias != NULL && !together)
        RP_TRY(rp_cuda_bias_gradient(launch, call->in[1].dtype, call->out[1].dtype, launch->in[1],
                                     added, dbias, rp_row_count(call->in[1].shape),
                                     rp_row_length(call->in[1].shape)));
    if (dweight == NULL)
        return RP_OK;
    return run_product(launch, &p,
                       &(product_tensors){.a = launch->in[transposed ? 1 : 0],
                                          .b = launch->in[transposed ? 0 : 1],
                                          .c = rp_cuda_added(launch, 0),
                                          .d = dweight,
                                          .dbias = together ? dbias : NULL});
}

/* op(a) [batch, m, k], op(b) [batch, k, n] -> c [batch, m, n] */
rp_status rp_cuda_matmul(const rp_launch *launch) {
    const rp_cuda_product p = rp_cuda_product_matmul(&launch->call);
    return run_product(launch, &p,
                       &(product_tensors){.a = launch->in[0],
                                          .b = launch->in[1],
                                          .c = rp_cuda_added(launch, 0),
                                          .d = launch->out[0]});
}
