/* Text of any length, printed into a buffer that grows. */
#ifndef REPRISE_AUTOGRAD_TEXT_H
#define REPRISE_AUTOGRAD_TEXT_H

#include <reprise/extend.h>
#include <stdarg.h>

typedef struct rp_string {
    char *data; /* ends with a 0; NULL before the first byte */
    size_t length, capacity;
} rp_string;

/* Appends a text as it is; false when memory is short. */
bool rp_string_add(rp_context *context, rp_string *text, const char *more);

/* Append by printf's rules; false when memory is short, the text is then as it was. */
bool rp_string_append(rp_context *context, rp_string *text, const char *format, ...)
    RP_PRINTF(3, 4);
bool rp_string_append_list(rp_context *context, rp_string *text, const char *format,
                           va_list arguments) RP_PRINTF(3, 0);

void rp_string_clear(rp_context *context, rp_string *text);

#endif
