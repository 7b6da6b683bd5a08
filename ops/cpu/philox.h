/* Random words in bulk: what rp_random_block gives, many blocks at a time.
 *
 * A round multiplies 32 by 32 bits to 64. Kept in the lower halves of 64-bit lanes (what is above
 * is ignored) this is one instruction of x86, which gcc does not find in plain C: it widens,
 * multiplies 64 by 64 bits and narrows again, which measured 2 (AVX-512) to 2.6 times (AVX2) as
 * long. Hence one intrinsic; everything else is arithmetic on vectors that every target has. */
#ifndef REPRISE_OPS_CPU_PHILOX_H
#define REPRISE_OPS_CPU_PHILOX_H

#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { RP_PHILOX_BYTES = 64 };
#elif defined(__AVX2__)
enum { RP_PHILOX_BYTES = 32 };
#else
enum { RP_PHILOX_BYTES = 16 };
#endif
enum { RP_PHILOX_LANES = RP_PHILOX_BYTES / 8 };

typedef uint64_t rp_philox_lanes __attribute__((vector_size(RP_PHILOX_BYTES)));

/* The products of the lower halves. */
static inline rp_philox_lanes rp_philox_multiply(rp_philox_lanes a, rp_philox_lanes b) {
#if defined(__AVX512F__)
    return (rp_philox_lanes)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(__AVX2__)
    return (rp_philox_lanes)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#elif defined(__SSE2__)
    return (rp_philox_lanes)_mm_mul_epu32((__m128i)a, (__m128i)b);
#else
    return (a & UINT32_MAX) * (b & UINT32_MAX);
#endif
}

/* Blocks that are drawn at once, and the words they give. Few, so that a processor that looks ahead
 * draws some while it waits for the memory of others. */
#define RP_PHILOX_BLOCKS 32
#define RP_PHILOX_WORDS (4 * RP_PHILOX_BLOCKS)

/* word[4 i + j] is word j of block i; a pair is two words, the first one in its lower half. */
typedef union rp_philox_words {
    uint32_t word[RP_PHILOX_WORDS];
    uint64_t pair[RP_PHILOX_WORDS / 2];
} rp_philox_words;
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "pairs have their first word first");

/* Blocks from `first` on, a multiple of RP_PHILOX_BLOCKS: its lower half does not overflow on the
 * way. */
static inline void rp_philox_fill(rp_philox_words *words, const uint32_t key[2], uint32_t stream,
                                  uint64_t first) {
    const rp_philox_lanes zero = {0}, m0 = zero + 0xD2511F53u, m1 = zero + 0xCD9E8D57u;
    uint64_t low[RP_PHILOX_BLOCKS], high[RP_PHILOX_BLOCKS];
    rp_philox_lanes count;
    for (int i = 0; i < RP_PHILOX_LANES; i++)
        count[i] = (uint32_t)first + (uint64_t)i;
    for (int b = 0; b < RP_PHILOX_BLOCKS; b += RP_PHILOX_LANES) {
        rp_philox_lanes c0 = count + (uint64_t)b, c1 = zero + (first >> 32), c2 = zero + stream;
        rp_philox_lanes c3 = zero + 0x44524F50u;
        uint32_t k0 = key[0], k1 = key[1];
        for (int round = 0; round < 10; round++) {
            const rp_philox_lanes p0 = rp_philox_multiply(c0, m0), p1 = rp_philox_multiply(c2, m1);
            c0 = (p1 >> 32) ^ c1 ^ k0;
            c2 = (p0 >> 32) ^ c3 ^ k1;
            c1 = p1;
            c3 = p0;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        c0 = (c0 & UINT32_MAX) | (c1 << 32);
        c2 = (c2 & UINT32_MAX) | (c3 << 32);
        memcpy(low + b, &c0, sizeof c0);
        memcpy(high + b, &c2, sizeof c2);
    }
#pragma omp simd
    for (int b = 0; b < RP_PHILOX_BLOCKS; b++) {
        words->pair[2 * b] = low[b];
        words->pair[2 * b + 1] = high[b];
    }
}

#endif
