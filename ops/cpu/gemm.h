/* Matrix products by the BLAS, and what an output holds before one adds to it. */
#ifndef REPRISE_OPS_CPU_GEMM_H
#define REPRISE_OPS_CPU_GEMM_H

#include <cblas.h>
#include <string.h>

#include "loops.h"

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

/* Copies `count` floats, in pieces that do not depend on the number of threads. */
static inline void rp_copy_floats(float *to, const float *from, int64_t count, int threads) {
    const int64_t piece = RP_CPU_SERIAL, pieces = (count + piece - 1) / piece;
    RP_PARALLEL_FOR(pieces > 4 ? threads : 1, i, pieces, {
        const int64_t begin = i * piece, left = count - begin;
        memcpy(to + begin, from + begin, (size_t)(left < piece ? left : piece) * sizeof *to);
    });
}

static inline float *rp_launch_output(const rp_launch *launch, size_t slot) {
    return slot < launch->call.out_count ? launch->out[slot] : NULL;
}

static inline const float *rp_launch_input(const rp_launch *launch, size_t slot) {
    return slot < launch->call.in_count ? launch->in[slot] : NULL;
}

/* The beta for a product into output `slot` as a whole: 1 with the output holding what is added to,
 * 0 if nothing is. */
static inline float rp_launch_beta(const rp_launch *launch, size_t slot) {
    const float *added = rp_accumulated(launch, slot);
    float *out = rp_launch_output(launch, slot);
    if (added == NULL)
        return 0.0f;
    if (added != out)
        rp_copy_floats(out, added, rp_shape_count(launch->call.out[slot].shape), launch->threads);
    return 1.0f;
}

#endif
