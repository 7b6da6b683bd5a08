/* Philox and Box-Muller. */
#include "normal.h"

#include <math.h>

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53U * c0, p1 = (uint64_t)0xCD9E8D57U * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

static void box_muller(uint32_t a, uint32_t b, double deviation, double *x, double *y) {
    const double pi = 3.14159265358979323846;
    const double radius = sqrt(-2.0 * log((a + 0.5) * 0x1p-32)),
                 angle = 2.0 * pi * ((b + 0.5) * 0x1p-32);
    *x = deviation * (radius * cos(angle));
    *y = deviation * (radius * sin(angle));
}

void normal_fill(uint64_t seed, uint32_t stream, double deviation, int64_t count, int threads,
                 float *out) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const int64_t blocks = count / 4 + (count % 4 != 0);
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t k = 0; k < blocks; k++) {
        const uint32_t counter[4] = {(uint32_t)k, (uint32_t)((uint64_t)k >> 32), stream,
                                     0x494E4954U};
        uint32_t word[4];
        double lane[4];
        philox4x32(counter, key, word);
        box_muller(word[0], word[1], deviation, &lane[0], &lane[1]);
        box_muller(word[2], word[3], deviation, &lane[2], &lane[3]);
        for (int64_t e = 4 * k; e < 4 * k + 4 && e < count; e++)
            out[e] = (float)lane[e - 4 * k];
    }
}
