/* bf16 storage: kernels compute on floats, so what they read is widened into a buffer and what they
 * write is rounded out of one, a stretch at a time that stays in the first cache. Where the storage
 * is f32 the array itself is the buffer, and nothing is copied. */
#ifndef REPRISE_OPS_CPU_BF16_H
#define REPRISE_OPS_CPU_BF16_H

#include "op.h"
#include "vector_math.h"

/* The upper half of a float. */
static inline float rp_bf16_widen(uint16_t x) {
    return rp_math_float((int32_t)((uint32_t)x << 16));
}

/* Rounded to nearest, ties to even: adds a little less than half of the last place that stays, or
 * exactly half if that place is odd. Largest finite numbers carry into infinity. A NaN stays one,
 * whatever its lower half was, and keeps its sign. */
static inline uint16_t rp_bf16_round(float x) {
    const uint32_t bits = (uint32_t)rp_math_bits(x);
    const uint32_t nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    const uint32_t quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : nearest);
}

static inline void rp_bf16_widen_all(float *to, const uint16_t *from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = rp_bf16_widen(from[i]);
}

static inline void rp_bf16_round_all(uint16_t *to, const float *from, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++)
        to[i] = rp_bf16_round(from[i]);
}

/* An array in memory, f32 or bf16; `at` NULL: absent. */
typedef struct rp_source {
    const void *at;
    bool bf16;
} rp_source;

typedef struct rp_target {
    void *at;
    bool bf16;
} rp_target;

/* Elements [begin, begin + count): in place, or in `buffer`. NULL if absent. */
static inline const float *rp_read(rp_source source, int64_t begin, int64_t count, float *buffer) {
    if (source.at == NULL)
        return NULL;
    if (!source.bf16)
        return (const float *)source.at + begin;
    rp_bf16_widen_all(buffer, (const uint16_t *)source.at + begin, count);
    return buffer;
}

/* One element. */
static inline float rp_element(rp_source source, int64_t i) {
    return source.bf16 ? rp_bf16_widen(((const uint16_t *)source.at)[i])
                       : ((const float *)source.at)[i];
}

static inline void rp_set_element(rp_target target, int64_t i, float x) {
    if (target.bf16)
        ((uint16_t *)target.at)[i] = rp_bf16_round(x);
    else
        ((float *)target.at)[i] = x;
}

/* The array from element `begin` on; absent if it is. */
static inline rp_source rp_source_from(rp_source source, int64_t begin) {
    if (source.at != NULL)
        source.at = (const uint8_t *)source.at + begin * (source.bf16 ? 2 : 4);
    return source;
}

static inline rp_target rp_target_from(rp_target target, int64_t begin) {
    if (target.at != NULL)
        target.at = (uint8_t *)target.at + begin * (target.bf16 ? 2 : 4);
    return target;
}

/* Elements that are converted at once: a few buffers of this length stay in the first cache. */
enum { RP_CPU_PART = 1024 };

/* What `add` adds up of elements [begin, begin + count), all at once if they are f32. */
static inline double rp_reduce(rp_source x, int64_t begin, int64_t count,
                               double (*add)(double sum, const float *x, int64_t count)) {
    const int64_t most = x.bf16 ? RP_CPU_PART : count;
    float buffer[RP_CPU_PART];
    double sum = 0.0;
    for (int64_t at = 0; at < count; at += most) {
        const int64_t part = count - at < most ? count - at : most;
        sum = add(sum, rp_read(x, begin + at, part, buffer), part);
    }
    return sum;
}

/* Where to put the elements from `begin` on, and, when they are there, what makes them the
 * target's. */
static inline float *rp_write(rp_target target, int64_t begin, float *buffer) {
    if (target.at == NULL)
        return NULL;
    return target.bf16 ? buffer : (float *)target.at + begin;
}

static inline void rp_written(rp_target target, int64_t begin, int64_t count, const float *buffer) {
    if (target.at != NULL && target.bf16)
        rp_bf16_round_all((uint16_t *)target.at + begin, buffer, count);
}

#endif
