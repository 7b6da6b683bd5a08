/* malloc and its like of the C library behind a counter. A definition in the program comes before
 * those of every library, so OpenBLAS and OpenMP are counted too. */
#include "heap.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNDER_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define UNDER_SANITIZER 1
#endif
#endif

static atomic_llong calls;

int64_t heap_calls(void) {
    return atomic_load(&calls);
}

bool heap_is_held_back(void) {
#ifdef UNDER_SANITIZER
    return true;
#else
    return false;
#endif
}

#if defined(UNDER_SANITIZER) || !defined(__GLIBC__)

bool heap_is_counted(void) {
    return false;
}

#else

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);
void *memalign(size_t alignment, size_t bytes);

__attribute__((visibility("default"))) void *malloc(size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_calloc(count, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *block, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_realloc(block, bytes);
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_memalign(alignment, bytes);
}

__attribute__((visibility("default"))) int posix_memalign(void **block, size_t alignment,
                                                          size_t bytes) {
    atomic_fetch_add(&calls, 1);
    *block = __libc_memalign(alignment, bytes);
    return *block != NULL ? 0 : ENOMEM;
}

__attribute__((visibility("default"))) void *memalign(size_t alignment, size_t bytes) {
    atomic_fetch_add(&calls, 1);
    return __libc_memalign(alignment, bytes);
}

bool heap_is_counted(void) {
    return true;
}

#endif
