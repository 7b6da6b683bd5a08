/* Text of any length, printed into a buffer that grows. */
#include "text.h"

#include <stdio.h>
#include <string.h>

bool rp_string_add(rp_context *context, rp_string *text, const char *more) {
    const size_t length = strlen(more);
    if (!rp_reserve(context, &text->data, &text->capacity, text->length + length + 1, 1))
        return false;
    memcpy(text->data + text->length, more, length + 1);
    text->length += length;
    return true;
}

bool rp_string_append_list(rp_context *context, rp_string *text, const char *format,
                           va_list arguments) {
    enum { USUAL = 64 }; /* most texts fit at once; the others are printed again */
    va_list again;
    if (!rp_reserve(context, &text->data, &text->capacity, text->length + USUAL, 1))
        return false;
    va_copy(again, arguments);
    const size_t room = text->capacity - text->length;
    const int length = vsnprintf(text->data + text->length, room, format, arguments);
    bool fits = length >= 0 && (size_t)length < room;
    if (length >= 0 && !fits &&
        rp_reserve(context, &text->data, &text->capacity, text->length + (size_t)length + 1, 1)) {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        fits = true;
    }
    va_end(again);
    if (fits)
        text->length += (size_t)length;
    else
        text->data[text->length] = 0;
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
