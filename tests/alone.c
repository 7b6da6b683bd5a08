/* What the checks of unit.h do in programs that run no tests (benchmarks, fuzz targets): the first
 * that fails is told, and ends the program. */
#include "unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool rp_check_true(rp_place place, bool condition, const char *format, ...) {
    if (condition)
        return true;
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: %s: ", place.file, place.line, place.function);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    abort();
}

bool rp_check_status(rp_place place, const rp_context *context, const char *text, rp_status got,
                     rp_status wanted) {
    return rp_check_true(place, got == wanted, "%s: got %s, wanted %s; message: \"%s\"", text,
                         rp_status_name(got), rp_status_name(wanted), rp_context_message(context));
}

bool rp_check_equal(rp_place place, const char *text, int64_t got, int64_t wanted) {
    return rp_check_true(place, got == wanted, "%s: got %lld, wanted %lld", text, (long long)got,
                         (long long)wanted);
}
