/* Products of matrices in either storage type. Panels are cut by shape alone: the bits depend on
 * the threads no more than those of the BLAS do. */
#include "gemm.h"

/* rows x columns from (row, column) on of a matrix, as floats, `columns` apart if they were
 * widened, else where they are. */
static const float *widen(rp_matrix m, int64_t row, int64_t column, int64_t rows, int64_t columns,
                          float *panel, int64_t *stride, int threads) {
    *stride = m.array.bf16 ? columns : m.stride;
    if (!m.array.bf16)
        return (const float *)m.array.at + row * m.stride + column;
    RP_PARALLEL_FOR(rows * columns > RP_CPU_SERIAL ? threads : 1, i, rows, {
        rp_read(m.array, (row + i) * m.stride + column, columns, panel + i * columns);
    });
    return panel;
}

/* Rows of the result begin as what is added to them, or 0. */
static void begin_rows(const rp_product *p, int64_t row, int64_t column, int64_t rows,
                       int64_t columns, float *panel, int threads) {
    const size_t bytes = (size_t)columns * sizeof *panel;
    const bool bf16 = p->c.array.bf16;
    RP_PARALLEL_FOR(rows * columns > RP_CPU_SERIAL ? threads : 1, i, rows, {
        const int64_t from = (row + i) * p->added.stride + column;
        float *to =
            bf16 ? panel + i * columns : (float *)p->c.array.at + (row + i) * p->c.stride + column;
        const float *added = rp_read(p->added.array, from, columns, to);
        if (added == NULL)
            memset(to, 0, bytes);
        else if (added != to)
            memcpy(to, added, bytes);
    });
}

static void end_rows(const rp_product *p, int64_t row, int64_t column, int64_t rows,
                     int64_t columns, const float *panel, int threads) {
    const rp_target c = {p->c.at, p->c.array.bf16};
    RP_PARALLEL_FOR(c.bf16 && rows * columns > RP_CPU_SERIAL ? threads : 1, i, rows, {
        rp_written(c, (row + i) * p->c.stride + column, columns, panel + i * columns);
    });
}

typedef struct panels {
    float *a, *b, *c;
    int64_t most;
    int threads;
} panels;

/* Adds the terms [k, k + depth) of all products to one panel of the result. */
static void add_terms(const rp_product *p, const panels *w, int64_t row, int64_t column,
                      int64_t rows, int64_t columns, int64_t k, int64_t depth) {
    float *c = p->c.array.bf16 ? w->c : (float *)p->c.at + row * p->c.stride + column;
    const int64_t c_stride = p->c.array.bf16 ? columns : p->c.stride;
    for (int64_t t = 0; t < p->terms; t++) {
        rp_matrix a = p->a, b = p->b;
        int64_t a_stride = 0, b_stride = 0;
        a.array = rp_source_from(a.array, t * p->a_step);
        b.array = rp_source_from(b.array, t * p->b_step);
        const float *a_at = p->ta ? widen(a, k, row, depth, rows, w->a, &a_stride, w->threads)
                                  : widen(a, row, k, rows, depth, w->a, &a_stride, w->threads);
        const float *b_at = p->tb
                                ? widen(b, column, k, columns, depth, w->b, &b_stride, w->threads)
                                : widen(b, k, column, depth, columns, w->b, &b_stride, w->threads);
        rp_gemm(p->ta, p->tb, rows, columns, depth, p->alpha, a_at, a_stride, b_at, b_stride, 1.0f,
                c, c_stride);
    }
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static void by_panels(const rp_product *p, const panels *w) {
    for (int64_t column = 0; column < p->n; column += w->most)
        for (int64_t row = 0; row < p->m; row += w->most) {
            const int64_t rows = least(p->m - row, w->most),
                          columns = least(p->n - column, w->most);
            begin_rows(p, row, column, rows, columns, w->c, w->threads);
            for (int64_t k = 0; k < p->k; k += w->most)
                add_terms(p, w, row, column, rows, columns, k, least(p->k - k, w->most));
            end_rows(p, row, column, rows, columns, w->c, w->threads);
        }
}

/* Of floats: the BLAS at once. */
static void at_once(const rp_product *p, int threads) {
    const bool is_added = p->added.array.at != NULL;
    float *c = p->c.at;
    if (is_added && (p->added.array.at != p->c.at || p->added.stride != p->c.stride))
        begin_rows(p, 0, 0, p->m, p->n, NULL, threads);
    for (int64_t t = 0; t < p->terms; t++)
        rp_gemm(p->ta, p->tb, p->m, p->n, p->k, p->alpha,
                (const float *)p->a.array.at + t * p->a_step, p->a.stride,
                (const float *)p->b.array.at + t * p->b_step, p->b.stride,
                is_added || t > 0 ? 1.0f : 0.0f, c, p->c.stride);
}

void RP_CPU(product)(const rp_product *p, const rp_room *room) {
    if (!p->a.array.bf16 && !p->b.array.bf16 && !p->c.array.bf16) {
        at_once(p, room->threads);
        return;
    }
    const int64_t c = rp_panel_floats(p->m, p->n, room->most);
    const int64_t a = rp_panel_floats(p->m, p->k, room->most);
    const panels w = {.a = room->floats + c,
                      .b = room->floats + c + a,
                      .c = room->floats,
                      .most = room->most,
                      .threads = room->threads};
    by_panels(p, &w);
}

/* Products of floats are dealt out one by one, others in the pieces that have panels. */
void RP_CPU(for_products)(const rp_launch *launch, const rp_products *products) {
    const int64_t count = products->count;
    const bool bf16 = rp_call_has_bf16(&launch->call);
    float *floats = launch->workspace;
    if (!products->shared) {
        const rp_room room = {floats, RP_PANEL, launch->threads};
        for (int64_t i = 0; i < count; i++)
            products->body(launch, products->job, i, &room);
        return;
    }
    const rp_cut one = {count, 1}, cut = bf16 ? rp_cut_make(count, 1, RP_PRODUCT_PIECES) : one;
    RP_PARALLEL_FOR_UNEVEN(products->threads, piece, cut.count, {
        const rp_room room = {bf16 ? floats + piece * products->floats : NULL, RP_SHARED_PANEL, 1};
        const int64_t end = least(count, (piece + 1) * cut.length);
        for (int64_t i = piece * cut.length; i < end; i++)
            products->body(launch, products->job, i, &room);
    });
}
