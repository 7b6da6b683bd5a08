/* Text of any length, printed into a buffer that grows. */
#ifndef REPRISE_AUTOGRAD_TEXT_H
#define REPRISE_AUTOGRAD_TEXT_H

#include <reprise/extend.h>
#include <stdarg.h>

typedef struct rp_text {
    char *data; /* ends with a 0; NULL before the first byte */
    size_t length, capacity;
} rp_text;

/* Append by printf's rules; false when memory is short, the text is then as it was. */
bool rp_text_append(rp_context *context, rp_text *text, const char *format, ...) RP_PRINTF(3, 4);
bool rp_text_append_list(rp_context *context, rp_text *text, const char *format, va_list arguments)
    RP_PRINTF(3, 0);

void rp_text_clear(rp_context *context, rp_text *text);

#endif
