/* What the system says of this process: clock and memory. Neither influences what is computed. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "executor.h"

int64_t rp_monotonic_ns(void) {
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Resident pages of the process: the second number of /proc/self/statm. */
static int64_t resident_pages(void) {
    char text[128];
    const int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    const ssize_t length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0)
        return -1;
    text[length] = 0;
    char *second = NULL;
    strtoll(text, &second, 10);
    return strtoll(second, NULL, 10);
}

/* Resident pages among those of a block; -1 if the system does not say. */
static int64_t resident_pages_of(const void *block, int64_t bytes, int64_t page) {
    enum { AT_ONCE = 1024 };
    unsigned char resident[AT_ONCE];
    const uintptr_t first = (uintptr_t)block / (uintptr_t)page * (uintptr_t)page;
    const uintptr_t end = (uintptr_t)block + (uintptr_t)bytes;
    int64_t count = 0;
    for (uintptr_t at = first; at < end; at += (uintptr_t)(AT_ONCE * page)) {
        const uintptr_t left = end - at, most = (uintptr_t)(AT_ONCE * page);
        const uintptr_t length = left < most ? left : most;
        if (mincore((void *)at, length, resident) != 0)
            return -1;
        for (uintptr_t i = 0; i * (uintptr_t)page < length; i++)
            count += resident[i] & 1;
    }
    return count;
}

int64_t rp_process_outside(const void *block, int64_t bytes) {
    const int64_t page = sysconf(_SC_PAGESIZE), all = resident_pages();
    const int64_t inside = page > 0 ? resident_pages_of(block, bytes, page) : -1;
    return all < 0 || inside < 0 ? -1 : (all - inside) * page;
}
