/* The context: allocator, threads, message. Every folder reaches it through <reprise/extend.h>. */
#include <reprise/extend.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { MESSAGE_BYTES = 512 };

struct rp_context {
    rp_allocator allocator;
    int threads;
    rp_owned *newest;
    char message[MESSAGE_BYTES];
};

static const struct {
    const char *name, *text;
    bool poison;
} statuses[] = {
#define UNCHANGED false
#define POISONED true
#define STATUS_ROW(name, class, text) [name] = {#name, text, class},
    RP_STATUS_LIST(STATUS_ROW)
#undef STATUS_ROW
#undef UNCHANGED
#undef POISONED
};

static bool status_is_known(rp_status status) {
    return (size_t)status < sizeof statuses / sizeof statuses[0];
}

const char *rp_status_text(rp_status status) {
    return status_is_known(status) ? statuses[status].text : "unknown status";
}

const char *rp_status_name(rp_status status) {
    return status_is_known(status) ? statuses[status].name : "RP_UNKNOWN";
}

int rp_status_is_poison(rp_status status) {
    return !status_is_known(status) || statuses[status].poison;
}

static void *resize_with_libc(void *user, void *block, size_t bytes) {
    (void)user;
    if (bytes == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, bytes);
}

static int available_threads(void) {
#ifdef _OPENMP
    const int n = omp_get_num_procs();
    return n < 1 ? 1 : n > RP_MAX_THREADS ? RP_MAX_THREADS : n;
#else
    return 1;
#endif
}

rp_status rp_context_create(const rp_context_options *options, rp_context **context) {
    if (context == NULL)
        return RP_INVALID_ARGUMENT;
    *context = NULL;
    rp_context_options used = RP_CONTEXT_OPTIONS;
    if (options != NULL) {
        if (options->struct_size != sizeof used || options->threads < 0 ||
            options->threads > RP_MAX_THREADS)
            return RP_INVALID_ARGUMENT;
        used = *options;
    }
    if (used.allocator.resize == NULL)
        used.allocator.resize = resize_with_libc;
    rp_context *made = used.allocator.resize(used.allocator.user, NULL, sizeof *made);
    if (made == NULL)
        return RP_OUT_OF_MEMORY;
    memset(made, 0, sizeof *made);
    made->allocator = used.allocator;
    made->threads = used.threads > 0 ? used.threads : available_threads();
    *context = made;
    return RP_OK;
}

void rp_context_destroy(rp_context *context) {
    if (context == NULL)
        return;
    while (context->newest != NULL) {
        rp_owned *owned = context->newest;
        void (*destroy)(void *) = owned->destroy;
        void *object = owned->object;
        rp_disown(context, owned);
        destroy(object);
    }
    context->allocator.resize(context->allocator.user, context, 0);
}

void rp_own(rp_context *context, rp_owned *owned, void *object, void (*destroy)(void *)) {
    if (context == NULL || owned == NULL)
        return;
    *owned = (rp_owned){context->newest, NULL, destroy, object};
    if (context->newest != NULL)
        context->newest->newer = owned;
    context->newest = owned;
}

void rp_disown(rp_context *context, rp_owned *owned) {
    if (context == NULL || owned == NULL || owned->destroy == NULL)
        return;
    if (owned->newer != NULL)
        owned->newer->older = owned->older;
    else
        context->newest = owned->older;
    if (owned->older != NULL)
        owned->older->newer = owned->newer;
    *owned = (rp_owned){NULL, NULL, NULL, NULL};
}

const char *rp_context_message(const rp_context *context) {
    return context ? context->message : "";
}

int rp_context_threads(const rp_context *context) {
    return context ? context->threads : 1;
}

void *rp_resize(rp_context *context, void *block, size_t count, size_t size) {
    size_t bytes = 0;
    if (context == NULL || __builtin_mul_overflow(count, size, &bytes))
        return NULL;
    return context->allocator.resize(context->allocator.user, block, bytes ? bytes : 1);
}

void *rp_alloc(rp_context *context, size_t count, size_t size) {
    void *block = rp_resize(context, NULL, count, size);
    if (block != NULL)
        memset(block, 0, count * size);
    return block;
}

void rp_free(rp_context *context, void *block) {
    if (context != NULL && block != NULL)
        context->allocator.resize(context->allocator.user, block, 0);
}

char *rp_copy_string(rp_context *context, const char *text) {
    const size_t bytes = text != NULL ? strlen(text) + 1 : 0;
    char *copy = bytes > 0 ? rp_resize(context, NULL, bytes, 1) : NULL;
    if (copy != NULL)
        memcpy(copy, text, bytes);
    return copy;
}

bool rp_reserve(rp_context *context, void *array, size_t *capacity, size_t needed, size_t size) {
    if (array == NULL || capacity == NULL)
        return false;
    if (needed <= *capacity)
        return true;
    size_t wanted = *capacity < 8 ? 8 : *capacity;
    while (wanted < needed) {
        if (wanted > SIZE_MAX / 2)
            return false;
        wanted *= 2;
    }
    /* `array` points to a pointer of any type: copied, not cast, to respect aliasing rules */
    void *old = NULL;
    memcpy(&old, array, sizeof old);
    void *grown = rp_resize(context, old, wanted, size);
    if (grown == NULL)
        return false;
    memcpy(array, &grown, sizeof grown);
    *capacity = wanted;
    return true;
}

rp_status rp_fail(rp_context *context, rp_status status, const char *format, ...) {
    va_list arguments;
    if (context == NULL || format == NULL)
        return status;
    va_start(arguments, format);
    vsnprintf(context->message, sizeof context->message, format, arguments);
    va_end(arguments);
    return status;
}

rp_status rp_fail_memory(rp_context *context, const char *what) {
    return rp_fail(context, RP_OUT_OF_MEMORY, "out of memory: no room for %s", what);
}

bool rp_checked_add(int64_t a, int64_t b, int64_t *sum) {
    return a >= 0 && b >= 0 && sum != NULL && !__builtin_add_overflow(a, b, sum);
}

bool rp_checked_multiply(int64_t a, int64_t b, int64_t *product) {
    return a >= 0 && b >= 0 && product != NULL && !__builtin_mul_overflow(a, b, product);
}
