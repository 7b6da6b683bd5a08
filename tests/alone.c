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
