/* sum: x [n] -> scalar, times a factor; backward: dy scalar -> dx [n]. sum_leading: x [rows,
 * columns] -> [columns]. loss_seed: -> the loss scale of the step. Nothing is kept. */
#include "pieces.h"

static double add_elements(double sum, const float *x, int64_t count) {
    double more = 0.0;
#pragma omp simd reduction(+ : more)
    for (int64_t i = 0; i < count; i++)
        more += (double)x[i];
    return sum + more;
}

rp_status RP_CPU(sum)(const rp_launch *launch) {
    const int64_t n = rp_info_count(&launch->call.in[0]);
    const rp_cut cut = rp_cut_sum(n);
    const rp_source x = rp_launch_source(launch, 0);
    double *partial = launch->workspace, sum = 0.0;
    RP_TRY(rp_require_floating(launch));
    RP_PARALLEL_FOR(rp_cpu_threads(launch, n), p, cut.count, {
        const int64_t begin = p * cut.length, rest = n - begin;
        partial[p] = rp_reduce(x, begin, rest < cut.length ? rest : cut.length, add_elements);
    });
    for (int64_t p = 0; p < cut.count; p++)
        sum += partial[p];
    rp_set_element(rp_launch_target(launch, 0), 0,
                   (float)(sum * (double)launch->call.params->sum.factor));
    return RP_OK;
}

static void sum_backward_span(const rp_span *span) {
    const float slope =
        rp_element(rp_launch_source(span->launch, 0), 0) * span->launch->call.params->sum.factor;
    RP_LOOP(span->out[0], span->sum, 0, span->count, slope);
}

rp_status RP_CPU(sum_backward)(const rp_launch *launch) {
    return RP_CPU(for_spans)(launch, sum_backward_span);
}

/* Each piece of rows and tile of columns is one task; with a single piece its sum is the result. */
rp_status RP_CPU(sum_leading)(const rp_launch *launch) {
    const int64_t columns = rp_info_count(&launch->call.out[0]);
    const int64_t rows = columns > 0 ? rp_info_count(&launch->call.in[0]) / columns : 0;
    const rp_cut cut = rp_cut_sum_leading(rows, columns);
    const int64_t tiles = rp_tile_count(columns);
    const rp_source x = rp_launch_source(launch, 0), none = {NULL, false};
    const rp_source sum = cut.count == 1 ? rp_launch_sum(launch, 0) : none;
    const rp_target pieces = {launch->workspace, false};
    const rp_target out = cut.count == 1 ? rp_launch_target(launch, 0) : pieces;
    RP_TRY(rp_require_floating(launch));
    RP_PARALLEL_FOR(rp_cpu_threads(launch, rows * columns), task, cut.count * tiles, {
        const int64_t piece = task / tiles, top = piece * cut.length, left = rows - top;
        const int64_t begin = task % tiles * RP_CPU_TILE, rest = columns - begin;
        const int64_t width = rest < RP_CPU_TILE ? rest : RP_CPU_TILE;
        float line[RP_CPU_TILE] = {0};
        rp_add_rows(line, x, top * columns + begin, left < cut.length ? left : cut.length, columns,
                    width);
        rp_put_line(out, piece * columns + begin, sum, line, width);
    });
    if (cut.count != 1)
        rp_add_pieces(launch, 0, launch->workspace, cut.count, columns);
    return RP_OK;
}

rp_status RP_CPU(loss_seed)(const rp_launch *launch) {
    RP_TRY(rp_require_floating(launch));
    for (int64_t i = 0; i < rp_info_count(&launch->call.out[0]); i++)
        rp_set_element(rp_launch_target(launch, 0), i, launch->step->loss_scale);
    return RP_OK;
}
