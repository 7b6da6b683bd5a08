/* sum: x [n] -> scalar, times a factor; backward: dy scalar -> dx [n]. sum_leading: x [rows,
 * columns] -> [columns]. loss_seed: -> the loss scale of the step. Nothing is kept. */
#include "pieces.h"

static double sum_of(const float *x, int64_t count) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += (double)x[i];
    return sum;
}

rp_status RP_CPU(sum)(const rp_launch *launch) {
    const int64_t n = rp_info_count(&launch->call.in[0]);
    const rp_cut cut = rp_cut_sum(n);
    const float *x = launch->in[0];
    double *partial = launch->workspace, sum = 0.0;
    RP_TRY(rp_require_f32(launch));
    RP_PARALLEL_FOR(rp_cpu_threads(launch, n), p, cut.count, {
        const int64_t begin = p * cut.length, rest = n - begin;
        partial[p] = sum_of(x + begin, rest < cut.length ? rest : cut.length);
    });
    for (int64_t p = 0; p < cut.count; p++)
        sum += partial[p];
    *(float *)launch->out[0] = (float)(sum * (double)launch->call.params->sum.factor);
    return RP_OK;
}

static void sum_backward_range(const rp_launch *launch, int64_t begin, int64_t end) {
    const float slope = *(const float *)launch->in[0] * launch->call.params->sum.factor;
    const float *sum = rp_accumulated(launch, 0);
    float *dx = launch->out[0];
    RP_LOOP(dx, sum, begin, end, slope);
}

rp_status RP_CPU(sum_backward)(const rp_launch *launch) {
    RP_TRY(rp_require_f32(launch));
    rp_for_chunks(launch, rp_info_count(&launch->call.out[0]), sum_backward_range);
    return RP_OK;
}

/* Each piece of rows and tile of columns is one task; with a single piece its sum is the result. */
rp_status RP_CPU(sum_leading)(const rp_launch *launch) {
    const int64_t columns = rp_info_count(&launch->call.out[0]);
    const int64_t rows = columns > 0 ? rp_info_count(&launch->call.in[0]) / columns : 0;
    const rp_cut cut = rp_cut_sum_leading(rows, columns);
    const int64_t tiles = rp_tile_count(columns);
    const float *x = launch->in[0], *sum = rp_accumulated(launch, 0);
    float *out = launch->out[0];
    RP_TRY(rp_require_f32(launch));
    if (cut.count != 1) {
        out = launch->workspace;
        sum = NULL;
    }
    RP_PARALLEL_FOR(rp_cpu_threads(launch, rows * columns), task, cut.count * tiles, {
        const int64_t piece = task / tiles, top = piece * cut.length, left = rows - top;
        const int64_t begin = task % tiles * RP_CPU_TILE, rest = columns - begin;
        const int64_t width = rest < RP_CPU_TILE ? rest : RP_CPU_TILE;
        float line[RP_CPU_TILE] = {0};
        rp_add_rows(line, x + top * columns + begin, left < cut.length ? left : cut.length, columns,
                    width);
        rp_put_line(out + piece * columns + begin, sum != NULL ? sum + begin : NULL, line, width);
    });
    if (cut.count != 1)
        rp_add_pieces(launch, launch->out[0], rp_accumulated(launch, 0), launch->workspace,
                      cut.count, columns);
    return RP_OK;
}

rp_status RP_CPU(loss_seed)(const rp_launch *launch) {
    float *dy = launch->out[0];
    RP_TRY(rp_require_f32(launch));
    for (int64_t i = 0; i < rp_info_count(&launch->call.out[0]); i++)
        dy[i] = launch->step->loss_scale;
    return RP_OK;
}
