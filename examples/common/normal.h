/* Normal numbers as a pure function of (seed, stream, element): the initial weights. */
#ifndef EXAMPLES_NORMAL_H
#define EXAMPLES_NORMAL_H

#include <stdint.h>

/* Philox 4x32-10 (Salmon et al. 2011): four words from a counter and a key. */
void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* out[e], e from 0 to count - 1: element e of stream `stream`, normal with this standard deviation.
 * Lane e mod 4 of block k = floor(e / 4): key (seed), counter (k low, k high, stream, "INIT");
 * Box-Muller in double precision on pairs of words, rounded to f32. The same numbers with any
 * number of threads. */
void normal_fill(uint64_t seed, uint32_t stream, double deviation, int64_t count, int threads,
                 float *out);

#endif
