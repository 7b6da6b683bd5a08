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

/* Of two vectors in turns the lanes with even and with odd numbers: in pairs of lanes, which never
 * cross the halves and quarters of a register. */
#if defined(__AVX512F__)
enum { RP_PHILOX_BYTES = 64 };
#define RP_PHILOX_EVEN 0, 8, 2, 10, 4, 12, 6, 14
#define RP_PHILOX_ODD 1, 9, 3, 11, 5, 13, 7, 15
#elif defined(__AVX2__)
enum { RP_PHILOX_BYTES = 32 };
#define RP_PHILOX_EVEN 0, 4, 2, 6
#define RP_PHILOX_ODD 1, 5, 3, 7
#else
enum { RP_PHILOX_BYTES = 16 };
#define RP_PHILOX_EVEN 0, 2
#define RP_PHILOX_ODD 1, 3
#endif
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a lane has its first word first");
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

/* What a drawing has in common: of its blocks only the lower half of the first counter differs. So
 * half of the first round is the same for all, and half of the second. */
typedef struct rp_philox_drawing {
    uint32_t key[2];                          /* of the third round */
    uint32_t first_c2;                        /* enters c2 in the first round */
    uint32_t second_c0, second_c2, second_c3; /* enter c0 and c2 in the second; its c3 */
} rp_philox_drawing;

/* `high` is the upper half of all blocks' numbers. */
static inline rp_philox_drawing rp_philox_begin(const uint32_t key[2], uint32_t stream,
                                                uint32_t high) {
    const uint64_t p1 = (uint64_t)0xCD9E8D57u * stream;
    const uint32_t c0 = (uint32_t)(p1 >> 32) ^ high ^ key[0];
    const uint64_t p0 = (uint64_t)0xD2511F53u * c0;
    const uint32_t k0 = key[0] + 0x9E3779B9u, k1 = key[1] + 0xBB67AE85u;
    return (rp_philox_drawing){
        .key = {k0 + 0x9E3779B9u, k1 + 0xBB67AE85u},
        .first_c2 = 0x44524F50u ^ key[1],
        .second_c0 = (uint32_t)p1 ^ k0,
        .second_c2 = (uint32_t)(p0 >> 32) ^ k1,
        .second_c3 = (uint32_t)p0,
    };
}

/* Blocks that are drawn at once, and the words they give. Few, so that a processor that looks ahead
 * draws some while it waits for the memory of others. */
#define RP_PHILOX_BLOCKS 32
#define RP_PHILOX_WORDS (4 * RP_PHILOX_BLOCKS)

/* Vectors that are drawn in turns: a round waits for the one before, and several chains fill the
 * time. */
enum { RP_PHILOX_TURNS = 4 };

/* words[4 i + j] is word j of block first + i, `first` a multiple of RP_PHILOX_BLOCKS: it does not
 * overflow on the way. Block i is in lane 2 i, or the odd lane as far behind the half: so a vector
 * of the first words of blocks and one of the second ones are put in order by pairs of lanes. */
static inline void rp_philox_fill(uint32_t words[RP_PHILOX_WORDS], const rp_philox_drawing *drawing,
                                  uint32_t first) {
    const rp_philox_lanes zero = {0}, m0 = zero + 0xD2511F53u, m1 = zero + 0xCD9E8D57u;
    rp_philox_lanes count, c0[RP_PHILOX_TURNS], c1[RP_PHILOX_TURNS], c2[RP_PHILOX_TURNS],
        c3[RP_PHILOX_TURNS];
    for (int i = 0; i < RP_PHILOX_LANES; i++)
        count[i] = first + (uint64_t)(i / 2 + i % 2 * (RP_PHILOX_LANES / 2));
    for (int b = 0; b < RP_PHILOX_BLOCKS; b += RP_PHILOX_TURNS * RP_PHILOX_LANES) {
        uint32_t k0 = drawing->key[0], k1 = drawing->key[1];
        for (int t = 0; t < RP_PHILOX_TURNS; t++) {
            const uint64_t block = (uint64_t)b + (uint64_t)t * RP_PHILOX_LANES;
            const rp_philox_lanes p0 = rp_philox_multiply(count + block, m0);
            const rp_philox_lanes p1 = rp_philox_multiply((p0 >> 32) ^ drawing->first_c2, m1);
            c0[t] = (p1 >> 32) ^ drawing->second_c0;
            c1[t] = p1;
            c2[t] = p0 ^ drawing->second_c2;
            c3[t] = zero + drawing->second_c3;
        }
        for (int round = 2; round < 10; round++) {
            for (int t = 0; t < RP_PHILOX_TURNS; t++) {
                const rp_philox_lanes p0 = rp_philox_multiply(c0[t], m0);
                const rp_philox_lanes p1 = rp_philox_multiply(c2[t], m1);
                c0[t] = (p1 >> 32) ^ c1[t] ^ k0;
                c2[t] = (p0 >> 32) ^ c3[t] ^ k1;
                c1[t] = p1;
                c3[t] = p0;
            }
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        for (int t = 0; t < RP_PHILOX_TURNS; t++) {
            uint32_t *to = words + 4 * (b + t * RP_PHILOX_LANES);
            const rp_philox_lanes low = (c0[t] & UINT32_MAX) | (c1[t] << 32);
            const rp_philox_lanes high = (c2[t] & UINT32_MAX) | (c3[t] << 32);
            const rp_philox_lanes even = __builtin_shufflevector(low, high, RP_PHILOX_EVEN);
            const rp_philox_lanes odd = __builtin_shufflevector(low, high, RP_PHILOX_ODD);
            memcpy(to, &even, sizeof even);
            memcpy(to + 2 * RP_PHILOX_LANES, &odd, sizeof odd);
        }
    }
}

#endif
