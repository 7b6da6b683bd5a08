/* Matrix products by the BLAS. */
#ifndef REPRISE_OPS_CPU_GEMM_H
#define REPRISE_OPS_CPU_GEMM_H

#include <cblas.h>
#include <string.h>

#include "loops.h"
#include "product.h"

/* c [m, n] = alpha op(a) op(b) + beta c, row-major; op(a) [m, k], op(b) [k, n]. The strides (lda,
 * ldb, ldc) go from row to row of the matrices as they lie in memory. Sizes fit 32 bits (infer). An
 * empty product is made here: libraries differ in what they do with one. */
static inline void rp_gemm(bool ta, bool tb, int64_t m, int64_t n, int64_t k, float alpha,
                           const float *a, int64_t lda, const float *b, int64_t ldb, float beta,
                           float *c, int64_t ldc) {
    if (m == 0 || n == 0)
        return;
    if (k == 0) {
        for (int64_t i = 0; i < m && beta == 0.0f; i++)
            memset(c + i * ldc, 0, (size_t)n * sizeof *c);
        return;
    }
    cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
                (int)m, (int)n, (int)k, alpha, a, (int)lda, b, (int)ldb, beta, c, (int)ldc);
}

/* A matrix that is read: where it begins, and how far its rows are apart; a stride of 0 repeats one
 * row. `at` is the same place of one that is written. */
typedef struct rp_matrix {
    rp_source array;
    void *at;
    int64_t stride;
} rp_matrix;

static inline rp_matrix rp_matrix_read(rp_source array, int64_t begin, int64_t stride) {
    return (rp_matrix){rp_source_from(array, begin), NULL, stride};
}

static inline rp_matrix rp_matrix_written(rp_target array, int64_t begin, int64_t stride) {
    const rp_target from = rp_target_from(array, begin);
    return (rp_matrix){{from.at, from.bf16}, from.at, stride};
}

/* c [m, n] = added + alpha times the sum of `terms` products op(a) op(b), of which a and b begin
 * a_step and b_step elements further each time; `added` may be absent, or c itself. Sums are made
 * in floats and rounded once. */
typedef struct rp_product {
    bool ta, tb;
    int64_t m, n, k;
    float alpha;
    rp_matrix a, b, c, added;
    int64_t terms, a_step, b_step;
} rp_product;

/* What a product may use: panels of rp_panels_floats(m, n, k, most) floats where something is bf16,
 * and threads beside those of the BLAS. */
typedef struct rp_room {
    float *floats;
    int64_t most;
    int threads;
} rp_room;

void RP_CPU(product)(const rp_product *product, const rp_room *room);

/* `count` products, shared out to `threads` threads, or one after the other by all. `floats`: of
 * the panels of one. */
typedef struct rp_products {
    int64_t count;
    bool shared;
    int threads;
    int64_t floats;
    void (*body)(const rp_launch *launch, const void *job, int64_t i, const rp_room *room);
    const void *job;
} rp_products;

void RP_CPU(for_products)(const rp_launch *launch, const rp_products *products);

#endif
