/* Text of any length, printed into a buffer that grows. */
#include "text.h"

#include <stdio.h>

bool rp_string_append_list(rp_context *context, rp_string *text, const char *format,
                           va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    const int needed = vsnprintf(NULL, 0, format, arguments);
    const bool fits = needed >= 0 && rp_reserve(context, &text->data, &text->capacity,
                                                text->length + (size_t)needed + 1, 1);
    if (fits) {
        vsnprintf(text->data + text->length, (size_t)needed + 1, format, again);
        text->length += (size_t)needed;
    }
    va_end(again);
    return fits;
}

bool rp_string_append(rp_context *context, rp_string *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const bool done = rp_string_append_list(context, text, format, arguments);
    va_end(arguments);
    return done;
}

void rp_string_clear(rp_context *context, rp_string *text) {
    rp_free(context, text->data);
    *text = (rp_string){0};
}
