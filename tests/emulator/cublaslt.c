/* cuBLASLt's matmul: what ops/cuda/products.c uses of it. D = op(A) op(B) alpha + C beta + bias,
 * column-major, strided batches; f32 x f32 -> f32, bf16 x bf16 -> bf16 or f32; sums in f32, in an
 * order that depends on k alone, rounded once; or, in place of the bias, the sums over k of op(A)
 * or op(B). What is not here is not supported. */
#include <cublasLt.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "runtime.h"
#include "settings.h"

enum { LIBRARY_BYTES = 8 << 20, SCRATCH_BYTES = 1024 };

struct cublasLtContext {
    int unused;
};

/* Within the structs that callers see as opaque. */
typedef struct layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t leading, stride;
    int32_t batch;
} layout;

typedef struct description {
    cublasComputeType_t compute;
    cudaDataType_t scale_type, bias_type;
    cublasOperation_t transpose_a, transpose_b;
    cublasLtEpilogue_t epilogue;
    const void *bias; /* or where its gradient goes */
} description;

typedef struct preference {
    uint64_t most_scratch;
    uint32_t alignment[4]; /* of A, B, C, D */
} preference;

/* In cublasLtMatmulAlgo_t: what the caller promised when it chose. */
typedef struct algorithm {
    uint64_t scratch;
    uint32_t alignment[4];
} algorithm;

_Static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "layout");
_Static_assert(sizeof(description) <= sizeof(cublasLtMatmulDescOpaque_t), "description");
_Static_assert(sizeof(preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "preference");
_Static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "algorithm");

/* ---- Objects --------------------------------------------------------------------------------- */

/* Takes some of the device's memory, as the library does. */
cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
    *handle = emulator_take(sizeof **handle);
    emulator_reserve(LIBRARY_BYTES);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    emulator_release(LIBRARY_BYTES);
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void) {
    return CUBLAS_VERSION;
}

const char *cublasLtGetStatusName(cublasStatus_t status) {
    return status == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
           : status == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
           : status == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                                   : "a status of cuBLASLt";
}

const char *cublasLtGetStatusString(cublasStatus_t status) {
    return cublasLtGetStatusName(status);
}

/* A member of an object that an attribute sets. */
typedef struct member {
    int attribute;
    size_t offset, bytes;
} member;

static const member layout_members[] = {
    {CUBLASLT_MATRIX_LAYOUT_TYPE, offsetof(layout, type), sizeof(cudaDataType_t)},
    {CUBLASLT_MATRIX_LAYOUT_ROWS, offsetof(layout, rows), 8},
    {CUBLASLT_MATRIX_LAYOUT_COLS, offsetof(layout, columns), 8},
    {CUBLASLT_MATRIX_LAYOUT_LD, offsetof(layout, leading), 8},
    {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, offsetof(layout, batch), 4},
    {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, offsetof(layout, stride), 8},
};

static const member description_members[] = {
    {CUBLASLT_MATMUL_DESC_TRANSA, offsetof(description, transpose_a), 4},
    {CUBLASLT_MATMUL_DESC_TRANSB, offsetof(description, transpose_b), 4},
    {CUBLASLT_MATMUL_DESC_EPILOGUE, offsetof(description, epilogue), 4},
    {CUBLASLT_MATMUL_DESC_BIAS_POINTER, offsetof(description, bias), sizeof(void *)},
    {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, offsetof(description, bias_type), 4},
};

static const member preference_members[] = {
    {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, offsetof(preference, most_scratch), 8},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, offsetof(preference, alignment[0]), 4},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, offsetof(preference, alignment[1]), 4},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, offsetof(preference, alignment[2]), 4},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, offsetof(preference, alignment[3]), 4},
};

static cublasStatus_t set_member(void *object, const member *members, size_t count, int attribute,
                                 const void *value, size_t bytes) {
    for (size_t i = 0; i < count; i++) {
        if (members[i].attribute != attribute)
            continue;
        if (members[i].bytes != bytes)
            return CUBLAS_STATUS_INVALID_VALUE;
        memcpy((char *)object + members[i].offset, value, bytes);
        return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

#define SET_MEMBER(object, members, attribute, value, bytes)                                       \
    set_member(object, members, sizeof(members) / sizeof((members)[0]), (int)(attribute), value,   \
               bytes)

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *created, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
    const layout made = {type, rows, columns, leading, 0, 1};
    *created = emulator_take(sizeof **created);
    memcpy(*created, &made, sizeof made);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t object,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes) {
    if (attribute == CUBLASLT_MATRIX_LAYOUT_ORDER)
        return *(const int32_t *)value == CUBLASLT_ORDER_COL ? CUBLAS_STATUS_SUCCESS
                                                             : CUBLAS_STATUS_NOT_SUPPORTED;
    return SET_MEMBER(object, layout_members, attribute, value, bytes);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t object) {
    free(object);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *created, cublasComputeType_t compute,
                                        cudaDataType_t scale_type) {
    const description made = {.compute = compute,
                              .scale_type = scale_type,
                              .bias_type = (cudaDataType_t)-1,
                              .transpose_a = CUBLAS_OP_N,
                              .transpose_b = CUBLAS_OP_N,
                              .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
    *created = emulator_take(sizeof **created);
    memcpy(*created, &made, sizeof made);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t object,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
    return SET_MEMBER(object, description_members, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t object) {
    free(object);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *created) {
    const preference made = {0, {256, 256, 256, 256}};
    *created = emulator_take(sizeof **created);
    memcpy(*created, &made, sizeof made);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t object,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes) {
    if (attribute == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK)
        return CUBLAS_STATUS_SUCCESS; /* there is one order of summing here */
    return SET_MEMBER(object, preference_members, attribute, value, bytes);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t object) {
    free(object);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* Everything of one call, by value. */
typedef struct product {
    description operation;
    layout a, b, c, d;
    float alpha, beta;
    const void *at_a, *at_b, *at_c;
    void *at_d;
} product;

static size_t element_bytes(cudaDataType_t type) {
    return type == CUDA_R_32F ? 4 : 2;
}

static bool is_transposed(cublasOperation_t operation) {
    return operation != CUBLAS_OP_N;
}

static bool has_known_type(const layout *l) {
    return l->type == CUDA_R_32F || l->type == CUDA_R_16BF;
}

static bool has_bias(const product *p) {
    return p->operation.epilogue == CUBLASLT_EPILOGUE_BIAS;
}

static bool has_gradient(const product *p) {
    return p->operation.epilogue == CUBLASLT_EPILOGUE_BGRADA ||
           p->operation.epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

static uint64_t gradient_count(const product *p) {
    return p->operation.epilogue == CUBLASLT_EPILOGUE_BGRADA ? p->d.rows : p->d.columns;
}

/* As the library does for reasons of its own; here, so that callers are seen to do without. */
static bool is_refused(uint64_t k) {
    return k % 4 == 1;
}

static cudaDataType_t bias_type(const product *p) {
    return p->operation.bias_type == (cudaDataType_t)-1 ? p->d.type : p->operation.bias_type;
}

/* Types and epilogues that the library serves, shapes that fit. */
static cublasStatus_t check(const product *p) {
    const description *o = &p->operation;
    const layout *a = &p->a, *b = &p->b, *c = &p->c, *d = &p->d;
    const bool ta = is_transposed(o->transpose_a), tb = is_transposed(o->transpose_b);
    if (o->compute != CUBLAS_COMPUTE_32F || o->scale_type != CUDA_R_32F || a->type != b->type ||
        c->type != d->type || !has_known_type(a) || !has_known_type(d) ||
        (a->type == CUDA_R_32F && d->type != CUDA_R_32F))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (o->epilogue != CUBLASLT_EPILOGUE_DEFAULT && !has_bias(p) && !has_gradient(p))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (o->epilogue != CUBLASLT_EPILOGUE_DEFAULT && (bias_type(p) != d->type || o->bias == NULL))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const uint64_t m = ta ? a->columns : a->rows, k = ta ? a->rows : a->columns;
    const uint64_t n = tb ? b->rows : b->columns;
    if (has_gradient(p) && (d->batch != 1 || is_refused(k)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const bool fits = m > 0 && n > 0 && k > 0 && (tb ? b->columns : b->rows) == k && d->rows == m &&
                      d->columns == n && c->rows == m && c->columns == n;
    const bool leads = a->leading >= (int64_t)a->rows && b->leading >= (int64_t)b->rows &&
                       c->leading >= (int64_t)c->rows && d->leading >= (int64_t)d->rows;
    const bool batches =
        a->batch >= 1 && a->batch == b->batch && a->batch == c->batch && a->batch == d->batch;
    return fits && leads && batches ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

static product describe(cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                        cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                        cublasLtMatrixLayout_t d) {
    product p = {.alpha = 1.0f};
    memcpy(&p.operation, operation, sizeof p.operation);
    memcpy(&p.a, a, sizeof p.a);
    memcpy(&p.b, b, sizeof p.b);
    memcpy(&p.c, c, sizeof p.c);
    memcpy(&p.d, d, sizeof p.d);
    return p;
}

/* Two: one that asks for scratch, and one that needs none. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t wish, int asked,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *count) {
    const product p = describe(operation, a, b, c, d);
    preference wanted;
    (void)handle;
    memcpy(&wanted, wish, sizeof wanted);
    *count = 0;
    if (asked < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    const cublasStatus_t status = check(&p);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    for (int i = wanted.most_scratch >= SCRATCH_BYTES ? 0 : 1; i < 2 && *count < asked; i++) {
        algorithm chosen = {i == 0 ? SCRATCH_BYTES : 0, {0}};
        cublasLtMatmulHeuristicResult_t *result = &results[(*count)++];
        memcpy(chosen.alignment, wanted.alignment, sizeof chosen.alignment);
        memset(result, 0, sizeof *result);
        memcpy(&result->algo, &chosen, sizeof chosen);
        result->workspaceSize = chosen.scratch;
        result->state = CUBLAS_STATUS_SUCCESS;
        result->wavesCount = 1.0f;
    }
    return CUBLAS_STATUS_SUCCESS;
}

/* Bytes from the first to the last element. */
static size_t extent(const layout *l) {
    const int64_t last =
        (l->batch - 1) * l->stride + ((int64_t)l->columns - 1) * l->leading + (int64_t)l->rows - 1;
    return (size_t)(last + 1) * element_bytes(l->type);
}

static void check_memory(const char *what, const void *address, size_t bytes, uint32_t alignment) {
    if (!emulator_is_device(address, bytes))
        emulator_fail("cublasLtMatmul: %s, %p, is no device memory of %zu bytes", what, address,
                      bytes);
    if (alignment > 0 && (uintptr_t)address % alignment != 0)
        emulator_fail("cublasLtMatmul: %s, %p, is not aligned to %u as the algorithm was told",
                      what, address, alignment);
}

static bool overlap(const void *a, size_t a_bytes, const void *b, size_t b_bytes) {
    const char *x = a, *y = b;
    return x < y + b_bytes && y < x + a_bytes;
}

/* What a device would read or write wrongly. */
static void check_places(const product *p, const algorithm *chosen, void *scratch,
                         size_t scratch_bytes) {
    const size_t a = extent(&p->a), b = extent(&p->b), d = extent(&p->d);
    check_memory("A", p->at_a, a, chosen->alignment[0]);
    check_memory("B", p->at_b, b, chosen->alignment[1]);
    check_memory("C", p->at_c, extent(&p->c), chosen->alignment[2]);
    check_memory("D", p->at_d, d, chosen->alignment[3]);
    if (has_gradient(p)) {
        const size_t sums = gradient_count(p) * element_bytes(bias_type(p));
        const void *at = p->operation.bias;
        check_memory("the bias's gradient", at, sums, 16);
        if (overlap(at, sums, p->at_a, a) || overlap(at, sums, p->at_b, b) ||
            overlap(at, sums, p->at_d, d) || overlap(at, sums, scratch, chosen->scratch))
            emulator_fail("cublasLtMatmul: the bias's gradient lies on A, B, D or the scratch");
    }
    if (has_bias(p))
        check_memory("the bias", p->operation.bias, p->d.rows * element_bytes(bias_type(p)), 0);
    if (overlap(p->at_d, d, p->at_a, a) || overlap(p->at_d, d, p->at_b, b))
        emulator_fail("cublasLtMatmul: D lies on A or B");
    if (scratch_bytes < chosen->scratch)
        emulator_fail("cublasLtMatmul: %zu bytes of scratch for an algorithm that takes %llu",
                      scratch_bytes, (unsigned long long)chosen->scratch);
    if (chosen->scratch == 0)
        return;
    check_memory("the scratch", scratch, scratch_bytes, 16);
    if (overlap(scratch, scratch_bytes, p->at_d, d) ||
        overlap(scratch, scratch_bytes, p->at_a, a) || overlap(scratch, scratch_bytes, p->at_b, b))
        emulator_fail("cublasLtMatmul: the scratch lies on A, B or D");
}

/* ---- Multiplying ----------------------------------------------------------------------------- */

static float load(const void *from, cudaDataType_t type, int64_t i) {
    if (type == CUDA_R_32F)
        return ((const float *)from)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)from)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* To the nearest, ties to even. */
static void store(void *to, cudaDataType_t type, int64_t i, float value) {
    uint32_t bits;
    if (type == CUDA_R_32F) {
        ((float *)to)[i] = value;
        return;
    }
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        bits = 0x7FFF0000u;
    else
        bits += 0x7FFFu + (bits >> 16 & 1u);
    ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
}

static const void *batch_at(const void *base, const layout *l, int32_t batch) {
    return (const char *)base + batch * l->stride * (int64_t)element_bytes(l->type);
}

/* op(X) as f32, `rows` x `columns`, column-major, packed. */
static void widen(float *to, const void *from, const layout *l, bool transposed) {
    const int64_t rows = (int64_t)(transposed ? l->columns : l->rows);
    const int64_t columns = (int64_t)(transposed ? l->rows : l->columns);
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            to[j * rows + i] =
                load(from, l->type, transposed ? i * l->leading + j : j * l->leading + i);
}

/* c [m] += a [m, k] b [k]: sums of up to 64 products, then those. */
static void multiply_column(float *restrict c, float *restrict part, const float *restrict a,
                            const float *restrict b, int64_t m, int64_t k) {
    enum { PIECE = 64 };
    memset(c, 0, (size_t)m * sizeof *c);
    for (int64_t begin = 0; begin < k; begin += PIECE) {
        const int64_t end = begin + PIECE < k ? begin + PIECE : k;
        memset(part, 0, (size_t)m * sizeof *part);
        for (int64_t p = begin; p < end; p++)
            for (int64_t i = 0; i < m; i++)
                part[i] += a[p * m + i] * b[p];
        for (int64_t i = 0; i < m; i++)
            c[i] += part[i];
    }
}

static void finish_column(const product *p, const void *at_c, void *at_d, int64_t j,
                          const float *sums) {
    for (int64_t i = 0; i < (int64_t)p->d.rows; i++) {
        float value = p->alpha * sums[i];
        if (p->beta != 0.0f)
            value += p->beta * load(at_c, p->c.type, j * p->c.leading + i);
        if (has_bias(p))
            value += load(p->operation.bias, bias_type(p), i);
        store(at_d, p->d.type, j * p->d.leading + i, value);
    }
}

/* Sums over k, of up to 64 elements, then of those: of the packed a [m, k] or b [k, n]. */
static void sum_operand(const product *p, const float *a, const float *b, int64_t k) {
    enum { PIECE = 64 };
    const bool of_a = p->operation.epilogue == CUBLASLT_EPILOGUE_BGRADA;
    const int64_t count = (int64_t)gradient_count(p);
    void *to = (void *)(uintptr_t)p->operation.bias;
    for (int64_t i = 0; i < count; i++) {
        float sum = 0.0f;
        for (int64_t begin = 0; begin < k; begin += PIECE) {
            float part = 0.0f;
            for (int64_t j = begin; j < k && j < begin + PIECE; j++)
                part += of_a ? a[j * count + i] : b[i * k + j];
            sum += part;
        }
        store(to, bias_type(p), i, sum);
    }
}

static void run_product(const void *data) {
    const product *p = data;
    const bool ta = is_transposed(p->operation.transpose_a);
    const bool tb = is_transposed(p->operation.transpose_b);
    const int64_t m = (int64_t)p->d.rows, n = (int64_t)p->d.columns;
    const int64_t k = (int64_t)(ta ? p->a.rows : p->a.columns);
    float *a = emulator_take((size_t)(m * k + k * n + 2 * m) * sizeof *a);
    float *b = a + m * k, *sums = b + k * n, *part = sums + m;
    emulator_counts.products++;
    for (int32_t batch = 0; batch < p->d.batch; batch++) {
        const void *at_c = batch_at(p->at_c, &p->c, batch);
        void *at_d = (void *)(uintptr_t)batch_at(p->at_d, &p->d, batch);
        widen(a, batch_at(p->at_a, &p->a, batch), &p->a, ta);
        widen(b, batch_at(p->at_b, &p->b, batch), &p->b, tb);
        for (int64_t j = 0; j < n; j++) {
            multiply_column(sums, part, a, b + j * k, m, k);
            finish_column(p, at_c, at_d, j, sums);
        }
    }
    if (has_gradient(p))
        sum_operand(p, a, b, k);
    free(a);
}

/* What lies in scratch is lost. */
typedef struct scratch_use {
    void *scratch;
    size_t bytes;
} scratch_use;

static void spoil(const void *data) {
    const scratch_use *s = data;
    memset(s->scratch, 0xFF, s->bytes);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void *alpha, const void *at_a, cublasLtMatrixLayout_t a,
                              const void *at_b, cublasLtMatrixLayout_t b, const void *beta,
                              const void *at_c, cublasLtMatrixLayout_t c, void *at_d,
                              cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *chosen,
                              void *scratch, size_t scratch_bytes, cudaStream_t stream) {
    product p = describe(operation, a, b, c, d);
    algorithm told = {0};
    (void)handle;
    if (chosen == NULL) /* it would be chosen anew, by whatever the library likes */
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memcpy(&told, chosen, sizeof told);
    p.alpha = *(const float *)alpha;
    p.beta = *(const float *)beta;
    p.at_a = at_a;
    p.at_b = at_b;
    p.at_c = at_c;
    p.at_d = at_d;
    const cublasStatus_t status = check(&p);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    check_places(&p, &told, scratch, scratch_bytes);
    const scratch_use use = {scratch, (size_t)told.scratch};
    if (told.scratch > 0 && emulator_submit(stream, spoil, &use, sizeof use) != cudaSuccess)
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return emulator_submit(stream, run_product, &p, sizeof p) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}
