/* A 64-bit hash of tensors, bit for bit: equal only where every bit is, -0 and 0 differ, NaNs by
 * their bits. */
#ifndef EXAMPLES_HASH_H
#define EXAMPLES_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_START UINT64_C(0x9E3779B97F4A7C15)

/* Continues `hash` over the bits of `count` f32. */
static inline uint64_t hash_floats(uint64_t hash, const float *data, size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, &data[i], sizeof bits);
        hash = (hash ^ bits) * UINT64_C(0xD6E8FEB86659FD93);
        hash ^= hash >> 32;
    }
    return hash;
}

#endif
