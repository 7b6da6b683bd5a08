/* Normal random numbers as a pure function of (seed, stream, element): initial values. */
#include <math.h>

#include "executor.h"
#include "ops/random.h"

/* Two numbers from two words. */
static void box_muller(const uint32_t word[2], double deviation, float *out) {
    const double pi = 3.14159265358979323846;
    const double radius = sqrt(-2.0 * log((word[0] + 0.5) * 0x1p-32));
    const double angle = 2.0 * pi * ((word[1] + 0.5) * 0x1p-32);
    out[0] = (float)(deviation * (radius * cos(angle)));
    out[1] = (float)(deviation * (radius * sin(angle)));
}

/* Elements, multiples of 4: what a thread draws at a time, and what is written at a time, by one
 * thread, as a queue must be. */
enum { PIECE = 512, STRETCH = 32 * PIECE };

/* Elements [4 * block, 4 * block + PIECE). */
static void draw_piece(const uint32_t key[2], uint32_t stream, uint64_t block, double deviation,
                       float out[PIECE]) {
    for (int i = 0; i < PIECE; i += 4, block++) {
        const rp_philox r =
            rp_philox_draw(key, (uint32_t)block, (uint32_t)(block >> 32), stream, 0x494E4954u);
        box_muller(r.word, deviation, out + i);
        box_muller(r.word + 2, deviation, out + i + 2);
    }
}

/* Elements [4 * block, 4 * block + count), and the rest of the last piece. */
static void draw_stretch(const rp_executor *executor, const uint32_t key[2], uint32_t stream,
                         uint64_t block, double deviation, int64_t count, float out[STRETCH]) {
    const int threads = rp_context_threads(executor->context);
    (void)threads; /* without OpenMP */
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < count; i += PIECE)
        draw_piece(key, stream, block + (uint64_t)i / 4, deviation, out + i);
}

static rp_status check_normal(rp_executor *executor, rp_tensor leaf, double deviation,
                              rp_float_target *target) {
    const char *call = "rp_executor_write_normal";
    const rp_status status = rp_executor_find_floats(executor, call, leaf, target);
    if (status != RP_OK)
        return status;
    if (!(deviation >= 0.0) || isinf(deviation))
        return rp_fail(executor->context, RP_INVALID_ARGUMENT,
                       "%s: the deviation is %g, a finite number of at least 0 is needed", call,
                       deviation);
    return RP_OK;
}

rp_status rp_executor_write_normal(rp_executor *executor, rp_tensor leaf, double deviation,
                                   uint64_t seed, uint32_t stream) {
    if (executor == NULL)
        return RP_INVALID_ARGUMENT;
    rp_float_target target;
    rp_status status = check_normal(executor, leaf, deviation, &target);
    if (status != RP_OK || executor->kernels == NULL)
        return status;
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    for (int64_t begin = 0; begin < target.count && status == RP_OK; begin += STRETCH) {
        const int64_t left = target.count - begin, count = left < STRETCH ? left : STRETCH;
        float values[STRETCH];
        draw_stretch(executor, key, stream, (uint64_t)begin / 4, deviation, count, values);
        status = rp_executor_write_floats(executor, &target, begin, values, count);
    }
    return status;
}
