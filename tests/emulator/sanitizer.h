/* What the sanitizers must be told of fibers, barriers and device memory; nothing without them.
 * RP_EMULATOR_TSAN and RP_EMULATOR_ASAN are defined by the build. Under ThreadSanitizer the kernels
 * are instrumented and the engine is not: what it does to its own state is no access of a kernel,
 * and its calls of memset and malloc are hidden by emulator_quiet. */
#ifndef REPRISE_EMULATOR_SANITIZER_H
#define REPRISE_EMULATOR_SANITIZER_H

#include <stddef.h>

#ifdef RP_EMULATOR_TSAN
void *__tsan_create_fiber(unsigned flags);
void *__tsan_get_current_fiber(void);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
void __tsan_acquire(void *token);
void __tsan_release(void *token);
void __tsan_java_init(unsigned long heap, unsigned long bytes);
void __tsan_java_alloc(unsigned long address, unsigned long bytes);
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

enum { EMULATOR_TSAN = 1, EMULATOR_TSAN_NO_ORDER = 1 };

static inline void emulator_quiet(void) {
    AnnotateIgnoreReadsBegin("", 0);
    AnnotateIgnoreWritesBegin("", 0);
}

static inline void emulator_loud(void) {
    AnnotateIgnoreWritesEnd("", 0);
    AnnotateIgnoreReadsEnd("", 0);
}
#else
enum { EMULATOR_TSAN = 0, EMULATOR_TSAN_NO_ORDER = 1 };
#define __tsan_create_fiber(flags) NULL
#define __tsan_get_current_fiber() NULL
#define __tsan_switch_to_fiber(fiber, flags) ((void)(fiber))
#define __tsan_acquire(token) ((void)(token))
#define __tsan_release(token) ((void)(token))
#define __tsan_java_init(heap, bytes) ((void)(heap), (void)(bytes))
#define __tsan_java_alloc(address, bytes) ((void)(address), (void)(bytes))
#define emulator_quiet() ((void)0)
#define emulator_loud() ((void)0)
#endif

#ifdef RP_EMULATOR_ASAN
void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t bytes);
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **bottom, size_t *bytes);
void __asan_poison_memory_region(const volatile void *address, size_t bytes);
void __asan_unpoison_memory_region(const volatile void *address, size_t bytes);
#else
#define __sanitizer_start_switch_fiber(fake_stack, bottom, bytes) ((void)(fake_stack))
#define __sanitizer_finish_switch_fiber(fake_stack, bottom, bytes) ((void)(fake_stack))
#define __asan_poison_memory_region(address, bytes) ((void)(address), (void)(bytes))
#define __asan_unpoison_memory_region(address, bytes) ((void)(address), (void)(bytes))
#endif

#endif
