/* Elementwise loops over tensors of either storage type. */
#include "loops.h"

_Static_assert(RP_CPU_CHUNK % RP_CPU_PART == 0, "parts begin where chunks may");

typedef struct slots {
    rp_source in[RP_SPAN_IN], sum;
    rp_target out[RP_SPAN_OUT];
    int in_count, out_count; /* that may be there */
    bool bf16;               /* any of them */
} slots;

static slots slots_of(const rp_launch *launch, int64_t n) {
    slots s = {.sum = rp_launch_sum(launch, 0)};
    for (size_t i = 0; i < launch->call.in_count && i < RP_SPAN_IN; i++)
        if (rp_info_count(&launch->call.in[i]) == n) {
            s.in[i] = rp_launch_source(launch, i);
            s.in_count = (int)i + 1;
            s.bf16 = s.bf16 || s.in[i].bf16;
        }
    for (size_t k = 0; k < launch->call.out_count && k < RP_SPAN_OUT; k++)
        if (rp_info_count(&launch->call.out[k]) == n) {
            s.out[k] = rp_launch_target(launch, k);
            s.out_count = (int)k + 1;
            s.bf16 = s.bf16 || s.out[k].bf16;
        }
    return s;
}

static void run_chunk(const rp_launch *launch, const slots *s, rp_span_body body, int64_t begin,
                      int64_t count) {
    rp_span span = {.launch = launch, .begin = begin, .count = count};
    for (int i = 0; i < RP_SPAN_IN; i++)
        span.in[i] = rp_read(s->in[i], begin, count, NULL);
    for (int k = 0; k < RP_SPAN_OUT; k++)
        span.out[k] = rp_write(s->out[k], begin, NULL);
    span.sum = rp_read(s->sum, begin, count, NULL);
    body(&span);
}

/* Inputs are read before anything is written: an output may lie on any of them. */
static void run_part(const rp_launch *launch, const slots *s, rp_span_body body, int64_t begin,
                     int64_t count) {
    float in[RP_SPAN_IN][RP_CPU_PART], out[RP_SPAN_OUT][RP_CPU_PART], sum[RP_CPU_PART];
    rp_span span = {.launch = launch, .begin = begin, .count = count};
    for (int i = 0; i < RP_SPAN_IN; i++)
        span.in[i] = rp_read(s->in[i], begin, count, in[i]);
    for (int k = 0; k < RP_SPAN_OUT; k++)
        span.out[k] = rp_write(s->out[k], begin, out[k]);
    span.sum = rp_read(s->sum, begin, count, sum);
    body(&span);
    for (int k = 0; k < RP_SPAN_OUT; k++)
        rp_written(s->out[k], begin, count, out[k]);
}

rp_status RP_CPU(for_spans)(const rp_launch *launch, rp_span_body body) {
    const int64_t n = rp_info_count(&launch->call.out[0]);
    const int64_t chunks = n / RP_CPU_CHUNK + (n % RP_CPU_CHUNK != 0);
    const slots s = slots_of(launch, n);
    RP_TRY(rp_require_floating(launch));
    RP_PARALLEL_FOR(rp_cpu_threads(launch, n), c, chunks, {
        const int64_t begin = c * RP_CPU_CHUNK, rest = n - begin;
        const int64_t count = rest < RP_CPU_CHUNK ? rest : RP_CPU_CHUNK;
        if (!s.bf16)
            run_chunk(launch, &s, body, begin, count);
        for (int64_t at = 0; s.bf16 && at < count; at += RP_CPU_PART)
            run_part(launch, &s, body, begin + at,
                     count - at < RP_CPU_PART ? count - at : RP_CPU_PART);
    });
    return RP_OK;
}

/* The slots of the call that are rows, and where the buffers of a piece lie, those of bf16 only. */
static slots row_slots_of(const rp_launch *launch, uint32_t in) {
    slots s = {.sum = rp_launch_sum(launch, 0), .out = {rp_launch_target(launch, 0)}};
    s.out_count = 1;
    s.bf16 = s.out[0].at != NULL && s.out[0].bf16;
    for (int i = 0; i < RP_SPAN_IN; i++)
        if (in >> i & 1) {
            s.in[i] = rp_launch_source(launch, (size_t)i);
            s.in_count = i + 1;
            s.bf16 = s.bf16 || s.in[i].bf16;
        }
    return s;
}

typedef struct row_buffers {
    float *in[RP_SPAN_IN], *out, *sum;
} row_buffers;

static row_buffers row_buffers_of(const slots *s, float *at, int64_t width) {
    row_buffers b = {.out = at};
    if (!s->bf16)
        return b;
    b.sum = at + width;
    at += 2 * width;
    for (int i = 0; i < s->in_count; i++)
        if (s->in[i].bf16) {
            b.in[i] = at;
            at += width;
        }
    return b;
}

static void run_rows(const rp_launch *launch, const slots *s, const rp_rows *rows, float *buffers,
                     int64_t piece) {
    const int64_t top = piece * rows->cut.length, end = top + rows->cut.length;
    const int64_t count = rows->width;
    const row_buffers b = row_buffers_of(s, buffers, count);
    rp_span span = {.launch = launch, .count = count};
    for (int64_t row = top; row < end && row < rows->rows; row++) {
        span.begin = row * count;
        for (int i = 0; i < s->in_count; i++)
            span.in[i] = rp_read(s->in[i], span.begin, count, b.in[i]);
        span.out[0] = rp_write(s->out[0], span.begin, b.out);
        span.sum = rp_read(s->sum, span.begin, count, b.sum);
        rows->body(&span, rows->job, row, piece);
        rp_written(s->out[0], span.begin, count, b.out);
    }
}

rp_status RP_CPU(for_rows)(const rp_launch *launch, const rp_rows *rows) {
    const slots s = row_slots_of(launch, rows->in);
    const int64_t buffers = rp_row_buffers(&launch->call, rows->in) * rows->width;
    RP_TRY(rp_require_floating(launch));
    RP_PARALLEL_FOR(rp_cpu_threads(launch, rows->rows * rows->width), piece, rows->cut.count, {
        run_rows(launch, &s, rows, s.bf16 ? rows->buffers + piece * buffers : NULL, piece);
    });
    return RP_OK;
}
