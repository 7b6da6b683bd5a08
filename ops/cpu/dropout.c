/* dropout: x [n] -> y [n], y = x / (1 - p) where the element's random word says keep, else 0.
 * Nothing is kept: the same words are drawn again from (seed, step, micro-batch, stream, index). */
#include "loops.h"
#include "philox.h"
#include "random.h"
#include "vector_math.h"

/* x or 0, as bits: a choice would be compiled to loads under a mask, which cost more. */
static inline float keep(float x, uint32_t word, uint32_t threshold) {
    return rp_math_float(rp_math_bits(x) & -(int32_t)(word >= threshold));
}

/* `count` is a constant wherever it is RP_PHILOX_WORDS. */
static inline __attribute__((always_inline)) void drop(const float *x, const float *sum, float *y,
                                                       const uint32_t *words, int64_t count,
                                                       uint32_t threshold, float factor) {
    RP_LOOP(y, sum, 0, count, keep(factor * x[i], words[i], threshold));
}

_Static_assert(RP_CPU_PART % RP_PHILOX_WORDS == 0, "spans begin where a drawing may");

static void dropout_span(const rp_span *span) {
    const rp_launch *launch = span->launch;
    const float p = launch->call.params->dropout.p, factor = 1.0f / (1.0f - p);
    const uint32_t threshold = rp_dropout_threshold(p),
                   stream = launch->call.params->dropout.stream;
    uint32_t key[2], words[RP_PHILOX_WORDS];
    rp_random_key(launch->step->seed, launch->step->step, launch->step->micro_batch, key);
    /* A span is less than 2^34 elements, and does not cross a multiple of that. */
    const rp_philox_drawing drawing =
        rp_philox_begin(key, stream, (uint32_t)((uint64_t)span->begin >> 34));
    for (int64_t at = 0; at < span->count; at += RP_PHILOX_WORDS) {
        const float *x = span->in[0] + at, *sum = span->sum != NULL ? span->sum + at : NULL;
        rp_philox_fill(words, &drawing, (uint32_t)((span->begin + at) / 4));
        if (span->count - at >= RP_PHILOX_WORDS)
            drop(x, sum, span->out[0] + at, words, RP_PHILOX_WORDS, threshold, factor);
        else
            drop(x, sum, span->out[0] + at, words, span->count - at, threshold, factor);
    }
}

static void copy_span(const rp_span *span) {
    const float *x = span->in[0];
    RP_LOOP(span->out[0], span->sum, 0, span->count, x[i]);
}

rp_status RP_CPU(dropout)(const rp_launch *launch) {
    const bool keeps_all = launch->step->evaluate || launch->call.params->dropout.p == 0.0f;
    return RP_CPU(for_spans)(launch, keeps_all ? copy_span : dropout_span);
}
