/* For those who extend Reprise from inside: strategies, ops, backends. UNSTABLE.
 *
 * Every folder of the library takes host memory and reports errors through these calls, so that an
 * embedder's allocator sees every byte and every message ends up in the context.
 */
#ifndef REPRISE_EXTEND_H
#define REPRISE_EXTEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "context.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `count` elements of `size` bytes, all zero. NULL when memory is short or the product overflows; a
 * count of 0 gives a block of one byte, so that NULL always means failure. Sets no message. */
RP_API void *rp_alloc(rp_context *context, size_t count, size_t size);

/* As realloc, for `count` elements of `size` bytes; new bytes are not cleared. NULL leaves `block`
 * as it was. */
RP_API void *rp_resize(rp_context *context, void *block, size_t count, size_t size);

/* NULL is ignored. */
RP_API void rp_free(rp_context *context, void *block);

/* A copy of `text`, or NULL. */
RP_API char *rp_copy_string(rp_context *context, const char *text);

/* Makes room for at least `needed` elements in an array of `*capacity`: grows by doubling. `array`
 * is the address of the pointer. False when memory is short: the array is then as it was. */
RP_API bool rp_reserve(rp_context *context, void *array, size_t *capacity, size_t needed,
                       size_t size);

/* Leaves a message (printf's rules, cut at 511 bytes) and returns `status`:
 *   return rp_fail(context, RP_BAD_SHAPE, "linear: x has %d dimensions, not 2 or more", rank); */
RP_API rp_status rp_fail(rp_context *context, rp_status status, const char *format, ...)
    RP_PRINTF(3, 4);

/* rp_fail(context, RP_OUT_OF_MEMORY, ...) with one wording. `what` is what there was no room
 * for. */
RP_API rp_status rp_fail_memory(rp_context *context, const char *what);

/* The place of an object among those that its context destroys with itself, newest first. */
typedef struct rp_owned {
    struct rp_owned *older, *newer;
    void (*destroy)(void *object); /* NULL: the context does not know the object */
    void *object;
} rp_owned;

/* `object`, which holds `owned` (all zero), is whole from here on: the context will call
 * destroy(object). */
RP_API void rp_own(rp_context *context, rp_owned *owned, void *object, void (*destroy)(void *));

/* The object is being destroyed; nothing for one that the context does not know. */
RP_API void rp_disown(rp_context *context, rp_owned *owned);

/* a + b and a * b; false on overflow or when an operand is negative. */
RP_API bool rp_checked_add(int64_t a, int64_t b, int64_t *sum);
RP_API bool rp_checked_multiply(int64_t a, int64_t b, int64_t *product);

#ifdef __cplusplus
}
#endif

#endif
