/* dropout: x [n] -> y [n], y = x / (1 - p) where the element's random word says keep, else 0.
 * Nothing is kept: the same words are drawn again from (seed, step, micro-batch, stream, index). */
#include "loops.h"
#include "random.h"

/* Elements whose words are drawn before they are used: 4 KiB, in the first cache. */
enum { DRAWN = 1024 };

/* words[i] for the elements from 4 `block` on. */
static void draw(uint32_t words[DRAWN], const uint32_t key[2], uint32_t stream, uint64_t block) {
#pragma omp simd
    for (uint32_t b = 0; b < DRAWN / 4; b++) {
        const rp_philox drawn = rp_random_block(key, stream, block + b);
        words[4 * b] = drawn.word[0];
        words[4 * b + 1] = drawn.word[1];
        words[4 * b + 2] = drawn.word[2];
        words[4 * b + 3] = drawn.word[3];
    }
}

static void dropout_range(const rp_launch *launch, int64_t begin, int64_t end) {
    const float p = launch->call.params->dropout.p;
    const uint32_t stream = launch->call.params->dropout.stream;
    const uint32_t threshold = rp_dropout_threshold(p);
    const float factor = 1.0f / (1.0f - p);
    uint32_t key[2], words[DRAWN];
    rp_random_key(launch->step->seed, launch->step->step, launch->step->micro_batch, key);
    for (int64_t at = begin; at < end; at += DRAWN) {
        const float *x = (const float *)launch->in[0] + at, *sum = rp_accumulated(launch, 0);
        float *y = (float *)launch->out[0] + at;
        const int64_t count = end - at < DRAWN ? end - at : DRAWN;
        if (sum != NULL)
            sum += at;
        draw(words, key, stream, (uint64_t)at / 4);
        RP_LOOP(y, sum, 0, count, words[i] >= threshold ? factor * x[i] : 0.0f);
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
