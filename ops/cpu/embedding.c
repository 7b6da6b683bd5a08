/* embedding: table [V, C], ids [N] -> y [N, C]. embedding_backward: ids [N], dy [N, C] -> dtable
 * [V, C]. Kept: the ids. */
#include <math.h>
#include <string.h>

#include "loops.h"

/* Rows that one thread copies at once: about a chunk of elements. */
static int64_t rows_at_once(int64_t width) {
    const int64_t rows = RP_CPU_CHUNK / (width > 0 ? width : 1);
    return rows > 0 ? rows : 1;
}

static void copy_rows(const rp_launch *launch, int64_t begin, int64_t end) {
    const int64_t vocabulary = launch->call.in[0].shape.dims[0];
    const int64_t width = launch->call.in[0].shape.dims[1];
    const float *table = launch->in[0];
    const int32_t *ids = launch->in[1];
    float *y = launch->out[0];
    for (int64_t r = begin; r < end; r++) {
        const int64_t id = ids[r];
        if (id >= 0 && id < vocabulary)
            memcpy(y + r * width, table + id * width, (size_t)width * sizeof *y);
        else
            for (int64_t c = 0; c < width; c++)
                y[r * width + c] = NAN;
    }
}

rp_status RP_CPU(embedding)(const rp_launch *launch) {
    const int64_t width = launch->call.in[0].shape.dims[1];
    const int64_t rows = rp_info_count(&launch->call.in[1]), group = rows_at_once(width);
    const int64_t groups = rows / group + (rows % group != 0);
    if (launch->call.in[0].dtype != RP_F32 || launch->call.out[0].dtype != RP_F32)
        return RP_UNSUPPORTED;
    if (width == 0)
        return RP_OK;
    RP_PARALLEL_FOR(rp_cpu_threads(launch, rows * width), g, groups,
                    { copy_rows(launch, g * group, g + 1 < groups ? (g + 1) * group : rows); });
    return RP_OK;
}

/* dtable begins as what is accumulated, or as 0. Nothing to do when that lies there already: then
 * only the rows that occur in ids are touched. */
static void begin_range(const rp_launch *launch, int64_t begin, int64_t end) {
    const float *sum = rp_accumulated(launch, 0);
    float *dtable = launch->out[0];
    const size_t bytes = (size_t)(end - begin) * sizeof *dtable;
    if (sum == NULL)
        memset(dtable + begin, 0, bytes);
    else
        memcpy(dtable + begin, sum + begin, bytes);
}

/* Columns that one thread owns, in lines of cache. It adds all rows in the order of their position,
 * and the columns do not meet: this cut may depend on the threads, the bits do not. */
static int64_t columns_owned(const rp_launch *launch, int64_t rows, int64_t width) {
    const int64_t threads = rp_cpu_threads(launch, rows * width);
    const int64_t even = width / threads + (width % threads != 0);
    return (even + 15) / 16 * 16;
}

static void add_columns(const rp_launch *launch, int64_t begin, int64_t end) {
    const int64_t vocabulary = launch->call.out[0].shape.dims[0];
    const int64_t width = launch->call.out[0].shape.dims[1];
    const int64_t rows = rp_info_count(&launch->call.in[0]);
    const int32_t *ids = launch->in[0];
    for (int64_t r = 0; r < rows; r++) {
        const int64_t id = ids[r];
        if (id < 0 || id >= vocabulary)
            continue;
        float *to = (float *)launch->out[0] + id * width;
        const float *from = (const float *)launch->in[1] + r * width;
#pragma omp simd
        for (int64_t c = begin; c < end; c++)
            to[c] += from[c];
    }
}

rp_status RP_CPU(embedding_backward)(const rp_launch *launch) {
    const int64_t width = launch->call.out[0].shape.dims[1];
    const int64_t rows = rp_info_count(&launch->call.in[0]);
    const int64_t owned = columns_owned(launch, rows, width);
    const int64_t tiles = owned > 0 ? width / owned + (width % owned != 0) : 0;
    if (launch->call.in[1].dtype != RP_F32 || launch->call.out[0].dtype != RP_F32)
        return RP_UNSUPPORTED;
    if (rp_accumulated(launch, 0) != launch->out[0])
        rp_for_chunks(launch, rp_info_count(&launch->call.out[0]), begin_range);
    RP_PARALLEL_FOR(rp_cpu_threads(launch, rows * width), t, tiles,
                    { add_columns(launch, t * owned, t + 1 < tiles ? (t + 1) * owned : width); });
    return RP_OK;
}
