/* How kernels go through memory: elementwise work in chunks, row work in rows, each chunk or row by
 * one thread.
 *
 * Chunks have a fixed length, so which elements fall into the vector part of a loop and which into
 * its remainder does not depend on the number of threads. `#pragma omp simd` says what the compiler
 * cannot see: an output may be an input (exactly, not shifted), so element i of all arrays is read
 * before element i is written. */
#ifndef REPRISE_OPS_CPU_LOOPS_H
#define REPRISE_OPS_CPU_LOOPS_H

#include <string.h>

#include "bf16.h"
#include "define.h"
#include "kernel.h"

/* Elements of a chunk. */
#define RP_CPU_CHUNK 4096

/* Threads that are worth waking for so many elements. */
static inline int rp_cpu_threads(const rp_launch *launch, int64_t elements) {
    return elements < RP_CPU_SERIAL || launch->threads < 1 ? 1 : launch->threads;
}

/* `bytes` bytes become those of `from`, or 0 where it is NULL, in pieces of which each is one
 * thread's. */
static inline void rp_begin_bytes(void *to, const void *from, int64_t bytes, int threads) {
    const int64_t piece = RP_CPU_SERIAL * (int64_t)sizeof(float);
    const int64_t pieces = bytes / piece + (bytes % piece != 0);
    RP_PARALLEL_FOR(pieces > 4 ? threads : 1, i, pieces, {
        const int64_t begin = i * piece, left = bytes - begin;
        const size_t size = (size_t)(left < piece ? left : piece);
        if (from != NULL)
            memcpy((uint8_t *)to + begin, (const uint8_t *)from + begin, size);
        else
            memset((uint8_t *)to + begin, 0, size);
    });
}

/* What is added to output k, or NULL. */
static inline const void *rp_accumulated(const rp_launch *launch, size_t k) {
    return launch->accumulate != NULL ? launch->accumulate[k] : NULL;
}

/* Slots as arrays of either type; absent where the call has none. What is added to an output has
 * its type. */
static inline rp_source rp_launch_source(const rp_launch *launch, size_t i) {
    if (i >= launch->call.in_count)
        return (rp_source){NULL, false};
    return (rp_source){launch->in[i], launch->call.in[i].dtype == RP_BF16};
}

static inline rp_target rp_launch_target(const rp_launch *launch, size_t k) {
    if (k >= launch->call.out_count)
        return (rp_target){NULL, false};
    return (rp_target){launch->out[k], launch->call.out[k].dtype == RP_BF16};
}

static inline rp_source rp_launch_sum(const rp_launch *launch, size_t k) {
    if (k >= launch->call.out_count)
        return (rp_source){NULL, false};
    return (rp_source){rp_accumulated(launch, k), launch->call.out[k].dtype == RP_BF16};
}

/* RP_UNSUPPORTED unless all inputs and outputs are f32, bf16 or absent. */
static inline rp_status rp_require_floating(const rp_launch *launch) {
    for (size_t i = 0; i < launch->call.in_count; i++)
        if (launch->call.in[i].dtype != RP_NO_DTYPE && !rp_is_floating(launch->call.in[i].dtype))
            return RP_UNSUPPORTED;
    for (size_t k = 0; k < launch->call.out_count; k++)
        if (launch->call.out[k].dtype != RP_NO_DTYPE && !rp_is_floating(launch->call.out[k].dtype))
            return RP_UNSUPPORTED;
    return RP_OK;
}

/* Elements [begin, begin + count) of all tensors that have as many elements as the first output, as
 * floats; NULL where a slot is absent or has another number of elements. `sum`: of what is added to
 * output 0, or NULL. */
enum { RP_SPAN_IN = 6, RP_SPAN_OUT = 4 };

typedef struct rp_span {
    const rp_launch *launch;
    int64_t begin, count;
    const float *in[RP_SPAN_IN], *sum;
    float *out[RP_SPAN_OUT];
} rp_span;

typedef void (*rp_span_body)(const rp_span *span);

/* Whole rows of `width` elements, one a span: of the inputs of bit mask `in`, and of output 0.
 * `buffers`: rp_rows_workspace bytes, if something is bf16; each piece of the cut is one thread's;
 * `job`, the row and the piece go to the body. */
typedef void (*rp_row_body)(const rp_span *span, const void *job, int64_t row, int64_t piece);

typedef struct rp_rows {
    int64_t rows, width;
    uint32_t in;
    rp_cut cut;
    float *buffers;
    rp_row_body body;
    const void *job;
} rp_rows;

/* Many pieces, or those that have buffers. */
static inline rp_cut rp_rows_cut(const rp_launch *launch, int64_t rows) {
    return rp_call_has_bf16(&launch->call) ? rp_cut_rows(rows) : rp_cut_make(rows, 1, 256);
}

/* RP_UNSUPPORTED if there is something else than f32 and bf16. */
rp_status RP_CPU(for_rows)(const rp_launch *launch, const rp_rows *rows);

/* Elementwise: calls `body` for all spans of the call's tensors, in chunks, or in parts of them
 * where something is stored as bf16. A body reads element i of everything before it writes element
 * i. RP_UNSUPPORTED if there is something else than f32 and bf16. */
rp_status RP_CPU(for_spans)(const rp_launch *launch, rp_span_body body);

/* One loop, with and without accumulation: out[i] = (sum[i] +) expression of i. */
#define RP_LOOP(out, sum, begin, end, expression)                                                  \
    do {                                                                                           \
        float *const rp_loop_out = (out);                                                          \
        const float *const rp_loop_sum = (sum);                                                    \
        const int64_t rp_loop_end = (end);                                                         \
        if (rp_loop_sum == NULL) {                                                                 \
            _Pragma("omp simd") for (int64_t i = (begin); i < rp_loop_end; i++) rp_loop_out[i] =   \
                (expression);                                                                      \
        } else {                                                                                   \
            _Pragma("omp simd") for (int64_t i = (begin); i < rp_loop_end; i++) rp_loop_out[i] =   \
                rp_loop_sum[i] + (expression);                                                     \
        }                                                                                          \
    } while (0)

#endif
