/* Philox 4x32-10 (Salmon et al. 2011), and the addresses of random numbers. */
#ifndef REPRISE_OPS_RANDOM_H
#define REPRISE_OPS_RANDOM_H

#include <stdint.h>

/* Kernels of CUDA draw by the same functions. */
#ifdef __CUDACC__
#define RP_RANDOM static inline __host__ __device__
#else
#define RP_RANDOM static inline
#endif

typedef struct rp_philox {
    uint32_t word[4];
} rp_philox;

/* Ten rounds. Written without branches or tables so that loops over it vectorise. */
RP_RANDOM rp_philox rp_philox_draw(const uint32_t key[2], uint32_t c0, uint32_t c1, uint32_t c2,
                                   uint32_t c3) {
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        const uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    const rp_philox drawn = {{c0, c1, c2, c3}};
    return drawn;
}

/* The key of one random op in one micro-batch of one step: a hash of (seed, step, micro-batch) by
 * Philox itself, so that the four counter words are left for op and element. Element e is lane
 * e % 4 of counter (e / 4, e / 2^34, stream, 0x44524F50). */
RP_RANDOM void rp_random_key(uint64_t seed, uint64_t step, uint32_t micro_batch, uint32_t key[2]) {
    const uint32_t root[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const rp_philox r =
        rp_philox_draw(root, (uint32_t)step, (uint32_t)(step >> 32), micro_batch, 0x53544550u);
    key[0] = r.word[0];
    key[1] = r.word[1];
}

RP_RANDOM rp_philox rp_random_block(const uint32_t key[2], uint32_t stream, uint64_t block) {
    return rp_philox_draw(key, (uint32_t)block, (uint32_t)(block >> 32), stream, 0x44524F50u);
}

/* An element is kept when its word is at or above this threshold: probability p of being dropped, p
 * in [0, 1). */
RP_RANDOM uint32_t rp_dropout_threshold(float p) {
    return (uint32_t)((double)p * 4294967296.0);
}

#endif
