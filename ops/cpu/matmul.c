/* matmul: the BLAS, once a batch. */
#include "gemm.h"

/* Products of up to this many multiply-adds are too small to be cut for several threads: with more
 * than one of them, the batches are shared out instead. So are many products of any size. By shape
 * alone, so that the bits of these do not depend on the number of threads. */
enum { SMALL = 128 * 128 * 128, MANY = 32 };

/* op(a) [batch, m, k], op(b) [batch, k, n] -> c [batch, m, n] */
rp_status RP_CPU(matmul)(const rp_launch *launch) {
    const rp_shape a_shape = launch->call.in[0].shape, c_shape = launch->call.out[0].shape;
    const bool ta = launch->call.params->matmul.transpose_a;
    const bool tb = launch->call.params->matmul.transpose_b;
    const int64_t m = c_shape.dims[c_shape.rank - 2], n = c_shape.dims[c_shape.rank - 1];
    const int64_t k = a_shape.dims[a_shape.rank - (ta ? 2 : 1)];
    int64_t batch = 1;
    for (int i = 0; i < c_shape.rank - 2; i++)
        batch *= c_shape.dims[i];
    const float *a = launch->in[0], *b = launch->in[1];
    float *c = launch->out[0];
    const float beta = rp_launch_beta(launch, 0);
    const bool small = (double)m * (double)n * (double)k <= SMALL;
    const bool share = batch > 1 && (small || batch >= MANY);
    RP_PARALLEL_FOR_UNEVEN(
        share && (double)m * (double)n * (double)k * (double)batch > RP_CPU_SERIAL ? launch->threads
                                                                                   : 1,
        i, batch, {
            rp_gemm(ta, tb, m, n, k, 1.0f, a + i * m * k, ta ? m : k, b + i * k * n, tb ? k : n,
                    beta, c + i * m * n, n);
        });
    return RP_OK;
}
