/* Time for reports. No decision depends on it. */
#ifndef REPRISE_PLANNER_CLOCK_H
#define REPRISE_PLANNER_CLOCK_H

#include <time.h>

/* Now, of a clock that only goes forward. */
static inline double rp_milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

#endif
