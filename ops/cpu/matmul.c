/* matmul: the BLAS, once a batch. */
#include "gemm.h"

typedef struct batch {
    bool ta, tb;
    int64_t m, n, k;
} batch;

static void run_one(const rp_launch *launch, const void *job, int64_t i, const rp_room *room) {
    const batch *s = job;
    const rp_product product = {
        .ta = s->ta,
        .tb = s->tb,
        .m = s->m,
        .n = s->n,
        .k = s->k,
        .alpha = 1.0f,
        .a = rp_matrix_read(rp_launch_source(launch, 0), i * s->m * s->k, s->ta ? s->m : s->k),
        .b = rp_matrix_read(rp_launch_source(launch, 1), i * s->k * s->n, s->tb ? s->k : s->n),
        .c = rp_matrix_written(rp_launch_target(launch, 0), i * s->m * s->n, s->n),
        .added = rp_matrix_read(rp_launch_sum(launch, 0), i * s->m * s->n, s->n),
        .terms = 1};
    RP_CPU(product)(&product, room);
}

/* op(a) [batch, m, k], op(b) [batch, k, n] -> c [batch, m, n] */
rp_status RP_CPU(matmul)(const rp_launch *launch) {
    const rp_shape a_shape = launch->call.in[0].shape, c_shape = launch->call.out[0].shape;
    const bool ta = launch->call.params->matmul.transpose_a;
    const batch s = {.ta = ta,
                     .tb = launch->call.params->matmul.transpose_b,
                     .m = c_shape.dims[c_shape.rank - 2],
                     .n = c_shape.dims[c_shape.rank - 1],
                     .k = a_shape.dims[a_shape.rank - (ta ? 2 : 1)]};
    int64_t count = 1;
    for (int i = 0; i < c_shape.rank - 2; i++)
        count *= c_shape.dims[i];
    const bool large = (double)s.m * (double)s.n * (double)s.k * (double)count > RP_CPU_SERIAL;
    RP_TRY(rp_require_floating(launch));
    RP_CPU(for_products)
    (launch, &(rp_products){.count = count,
                            .shared = rp_matmul_is_shared(count, s.m, s.n, s.k),
                            .threads = large ? launch->threads : 1,
                            .floats = rp_panels_floats(s.m, s.n, s.k, RP_SHARED_PANEL),
                            .body = run_one,
                            .job = &s});
    return RP_OK;
}
