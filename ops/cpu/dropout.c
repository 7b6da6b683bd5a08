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

static void dropout_range(const rp_launch *launch, int64_t begin, int64_t end) {
    const float p = launch->call.params->dropout.p, factor = 1.0f / (1.0f - p);
    const uint32_t threshold = rp_dropout_threshold(p),
                   stream = launch->call.params->dropout.stream;
    uint32_t key[2], words[RP_PHILOX_WORDS];
    rp_random_key(launch->step->seed, launch->step->step, launch->step->micro_batch, key);
    /* A chunk is less than 2^34 elements, and begins at a multiple of its length. */
    const rp_philox_drawing drawing =
        rp_philox_begin(key, stream, (uint32_t)((uint64_t)begin >> 34));
    for (int64_t at = begin; at < end; at += RP_PHILOX_WORDS) {
        const float *x = (const float *)launch->in[0] + at, *sum = rp_accumulated(launch, 0);
        float *y = (float *)launch->out[0] + at;
        if (sum != NULL)
            sum += at;
        rp_philox_fill(words, &drawing, (uint32_t)(at / 4));
        if (end - at >= RP_PHILOX_WORDS)
            drop(x, sum, y, words, RP_PHILOX_WORDS, threshold, factor);
        else
            drop(x, sum, y, words, end - at, threshold, factor);
    }
}

static void copy_range(const rp_launch *launch, int64_t begin, int64_t end) {
    const float *x = launch->in[0], *sum = rp_accumulated(launch, 0);
    float *y = launch->out[0];
    RP_LOOP(y, sum, begin, end, x[i]);
}

rp_status RP_CPU(dropout)(const rp_launch *launch) {
    const bool keeps_all = launch->step->evaluate || launch->call.params->dropout.p == 0.0f;
    RP_TRY(rp_require_f32(launch));
    rp_for_chunks(launch, rp_info_count(&launch->call.out[0]),
                  keeps_all ? copy_range : dropout_range);
    return RP_OK;
}
