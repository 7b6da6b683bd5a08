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

static void dropout_range(const rp_launch *launch, int64_t begin, int64_t end) {
    const float p = launch->call.params->dropout.p;
    const uint32_t stream = launch->call.params->dropout.stream;
    const uint32_t threshold = rp_dropout_threshold(p);
    const float factor = 1.0f / (1.0f - p);
    uint32_t key[2];
    rp_philox_words drawn;
    rp_random_key(launch->step->seed, launch->step->step, launch->step->micro_batch, key);
    for (int64_t at = begin; at < end; at += RP_PHILOX_WORDS) {
        const float *x = (const float *)launch->in[0] + at, *sum = rp_accumulated(launch, 0);
        float *y = (float *)launch->out[0] + at;
        const int64_t count = end - at < RP_PHILOX_WORDS ? end - at : RP_PHILOX_WORDS;
        if (sum != NULL)
            sum += at;
        rp_philox_fill(&drawn, key, stream, (uint64_t)at / 4);
        RP_LOOP(y, sum, 0, count, keep(factor * x[i], drawn.word[i], threshold));
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
