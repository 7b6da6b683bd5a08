/* embedding: table [V, C], ids [N] -> y [N, C]. embedding_backward: ids [N], dy [N, C] -> dtable
 * [V, C]. Kept: the ids. */
#include <math.h>

#include "loops.h"

/* Rows that one thread copies at once: about a chunk of elements. */
static int64_t rows_at_once(int64_t width) {
    const int64_t rows = RP_CPU_CHUNK / (width > 0 ? width : 1);
    return rows > 0 ? rows : 1;
}

static void copy_rows(const rp_launch *launch, int64_t begin, int64_t end) {
    const int64_t vocabulary = launch->call.in[0].shape.dims[0];
    const int64_t width = launch->call.in[0].shape.dims[1];
    const int64_t bytes = width * (int64_t)rp_dtype_bytes(launch->call.in[0].dtype);
    const rp_target y = rp_launch_target(launch, 0);
    const int32_t *ids = launch->in[1];
    for (int64_t r = begin; r < end; r++) {
        const int64_t id = ids[r];
        if (id >= 0 && id < vocabulary)
            memcpy((uint8_t *)y.at + r * bytes, (const uint8_t *)launch->in[0] + id * bytes,
                   (size_t)bytes);
        else
            for (int64_t c = 0; c < width; c++)
                rp_set_element(y, r * width + c, NAN);
    }
}

rp_status RP_CPU(embedding)(const rp_launch *launch) {
    const int64_t width = launch->call.in[0].shape.dims[1];
    const int64_t rows = rp_info_count(&launch->call.in[1]), group = rows_at_once(width);
    const int64_t groups = rows / group + (rows % group != 0);
    if (!rp_is_floating(launch->call.in[0].dtype) ||
        launch->call.in[0].dtype != launch->call.out[0].dtype)
        return RP_UNSUPPORTED;
    if (width == 0)
        return RP_OK;
    RP_PARALLEL_FOR(rp_cpu_threads(launch, rows * width), g, groups,
                    { copy_rows(launch, g * group, g + 1 < groups ? (g + 1) * group : rows); });
    return RP_OK;
}

/* ---- Gradient -------------------------------------------------------------------------------- */

/* Columns that one thread owns, in lines of cache. It adds all rows in the order of their position,
 * and the columns do not meet: this cut may depend on the threads, the bits do not. */
static int64_t columns_owned(const rp_launch *launch, int64_t rows, int64_t width) {
    const int64_t threads = rp_cpu_threads(launch, rows * width);
    const int64_t even = width / threads + (width % threads != 0);
    return (even + 15) / 16 * 16;
}

typedef struct gradient {
    const int32_t *ids;
    int64_t rows, width, vocabulary;
    rp_source dy;
    rp_target dtable;
} gradient;

static gradient gradient_of(const rp_launch *launch) {
    return (gradient){.ids = launch->in[0],
                      .rows = rp_info_count(&launch->call.in[0]),
                      .width = launch->call.out[0].shape.dims[1],
                      .vocabulary = launch->call.out[0].shape.dims[0],
                      .dy = rp_launch_source(launch, 1),
                      .dtable = rp_launch_target(launch, 0)};
}

static bool is_row(const gradient *g, int64_t position) {
    return g->ids[position] >= 0 && g->ids[position] < g->vocabulary;
}

static void add_to(float *to, const float *from, int64_t count) {
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
        to[c] += from[c];
}

/* An f32 table is added to in place. */
static void add_columns(const gradient *g, int64_t begin, int64_t end) {
    const int64_t most = g->dy.bf16 ? RP_CPU_PART : end - begin;
    float buffer[RP_CPU_PART];
    for (int64_t r = 0; r < g->rows; r++) {
        if (!is_row(g, r))
            continue;
        float *to = (float *)g->dtable.at + g->ids[r] * g->width;
        for (int64_t c = begin; c < end; c += most) {
            const int64_t count = end - c < most ? end - c : most;
            add_to(to + c, rp_read(g->dy, r * g->width + c, count, buffer), count);
        }
    }
}

static void add_in_place(const rp_launch *launch, const gradient *g) {
    const int64_t owned = columns_owned(launch, g->rows, g->width);
    const int64_t tiles = owned > 0 ? g->width / owned + (g->width % owned != 0) : 0;
    RP_PARALLEL_FOR(rp_cpu_threads(launch, g->rows * g->width), t, tiles,
                    { add_columns(g, t * owned, t + 1 < tiles ? (t + 1) * owned : g->width); });
}

/* For a bf16 table, whose rows must not be rounded at each addition: first[id] is the first
 * position of an id or -1, next[position] the next one of the same id. */
static void link_positions(const gradient *g, int64_t *first, int64_t *next) {
    for (int64_t id = 0; id < g->vocabulary; id++)
        first[id] = -1;
    for (int64_t r = g->rows - 1; r >= 0; r--)
        if (is_row(g, r)) {
            next[r] = first[g->ids[r]];
            first[g->ids[r]] = r;
        }
}

/* The row of the id at `position`, where it occurs first: what lies there and all that is added. */
static void add_occurrences(const gradient *g, const int64_t *next, int64_t position) {
    float line[RP_CPU_PART], buffer[RP_CPU_PART];
    const rp_source table = {g->dtable.at, g->dtable.bf16};
    const int64_t row = g->ids[position] * g->width;
    for (int64_t c = 0; c < g->width; c += RP_CPU_PART) {
        const int64_t count = g->width - c < RP_CPU_PART ? g->width - c : RP_CPU_PART;
        rp_read(table, row + c, count, line);
        for (int64_t r = position; r >= 0; r = next[r])
            add_to(line, rp_read(g->dy, r * g->width + c, count, buffer), count);
        rp_written(g->dtable, row + c, count, line);
    }
}

static void add_and_round(const rp_launch *launch, const gradient *g) {
    int64_t *first = launch->workspace, *next = first + g->vocabulary;
    link_positions(g, first, next);
    RP_PARALLEL_FOR_UNEVEN(rp_cpu_threads(launch, g->rows * g->width), r, g->rows, {
        if (is_row(g, r) && first[g->ids[r]] == r)
            add_occurrences(g, next, r);
    });
}

/* dtable begins as what is accumulated, or as 0. Nothing to do when that lies there already: then
 * only the rows that occur in ids are touched. */
rp_status RP_CPU(embedding_backward)(const rp_launch *launch) {
    const gradient g = gradient_of(launch);
    if (!rp_is_floating(launch->call.in[1].dtype) || !rp_is_floating(launch->call.out[0].dtype))
        return RP_UNSUPPORTED;
    if (rp_accumulated(launch, 0) != launch->out[0])
        rp_begin_bytes(launch->out[0], rp_accumulated(launch, 0),
                       rp_info_bytes(&launch->call.out[0]), launch->threads);
    if (!g.dtable.bf16)
        add_in_place(launch, &g);
    else if (g.rows > 0)
        add_and_round(launch, &g);
    return RP_OK;
}
