/* Products of two 63-bit numbers, for comparing ratios without rounding. */
#ifndef REPRISE_PLANNER_WIDE_H
#define REPRISE_PLANNER_WIDE_H

#include <stdint.h>

__extension__ typedef __int128 rp_wide;

/* The sign of a/b - c/d, for b and d above 0. */
static inline int rp_ratio_compare(int64_t a, int64_t b, int64_t c, int64_t d) {
    const rp_wide difference = (rp_wide)a * d - (rp_wide)c * b;
    return (difference > 0) - (difference < 0);
}

#endif
