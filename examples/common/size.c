/* SIZE: exact decimal arithmetic, no floating point, so that 40% is the same number everywhere. */
#include "size.h"

#include <stddef.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

/* Digits behind the point that are looked at; 10^18 fits 63 bits, and a longer fraction changes no
 * byte of an EiB. */
enum { FRACTION_DIGITS = 18 };

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* Reads digits into *whole; false when there is none or the number passes 63 bits. */
static bool read_whole(const char **text, int64_t *whole) {
    const char *at = *text;
    int64_t value = 0;
    if (!is_digit(*at))
        return false;
    for (; is_digit(*at); at++) {
        const int digit = *at - '0';
        if (value > (INT64_MAX - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    *text = at;
    *whole = value;
    return true;
}

/* Reads ".digits" if it is there: *part / *scale is the fraction. */
static bool read_fraction(const char **text, int64_t *part, int64_t *scale) {
    const char *at = *text;
    *part = 0;
    *scale = 1;
    if (*at != '.')
        return true;
    at++;
    if (!is_digit(*at))
        return false;
    for (int count = 0; is_digit(*at); at++, count++) {
        if (count < FRACTION_DIGITS) {
            *part = 10 * *part + (*at - '0');
            *scale *= 10;
        }
    }
    *text = at;
    return true;
}

/* "K" and "KiB" are 10, ... "EiB" 60; "" is 0, anything else -1. */
static int unit_shift(const char *unit) {
    static const char letters[] = "KMGTPE";
    if (unit[0] == '\0')
        return 0;
    const char *letter = strchr(letters, unit[0]);
    if (letter == NULL || (unit[1] != '\0' && strcmp(unit + 1, "iB") != 0))
        return -1;
    return 10 * (int)(letter - letters + 1);
}

/* whole + part / scale percent; digits that do not fit beside a large whole part are dropped. */
static bool percent_from(int64_t whole, int64_t part, int64_t scale, size_spec *size) {
    for (;;) {
        const wide amount = (wide)whole * (wide)scale + (wide)part;
        if (amount <= INT64_MAX) {
            *size = (size_spec){SIZE_PERCENT, (int64_t)amount, scale};
            return true;
        }
        if (scale == 1)
            return false;
        scale /= 10;
        part /= 10;
    }
}

bool size_parse(const char *text, size_spec *size) {
    int64_t whole = 0, part = 0, scale = 1;
    if (strcmp(text, "max") == 0 || strcmp(text, "min") == 0) {
        *size = (size_spec){text[1] == 'a' ? SIZE_KEEP_ALL : SIZE_MINIMUM, 0, 1};
        return true;
    }
    const char *at = text;
    if (!read_whole(&at, &whole) || !read_fraction(&at, &part, &scale))
        return false;
    if (strcmp(at, "%") == 0)
        return percent_from(whole, part, scale, size);
    const int shift = unit_shift(at);
    if (shift < 0 || (shift == 0 && scale > 1)) /* there is no half byte */
        return false;
    const wide bytes = ((wide)whole << shift) + ((wide)part << shift) / (wide)scale;
    if (bytes > INT64_MAX)
        return false;
    *size = (size_spec){SIZE_BYTES, (int64_t)bytes, 1};
    return true;
}

bool size_is_relative(const size_spec *size) {
    return size->kind != SIZE_NONE && size->kind != SIZE_BYTES;
}

static bool percent_of(const size_spec *size, int64_t peak, int64_t *bytes) {
    /* peak amount / (100 scale), rounded down; both factors are below 2^63, so the product fits 126
     * bits. */
    const wide result = (wide)peak * (wide)size->amount / ((wide)100 * (wide)size->scale);
    if (result > INT64_MAX)
        return false;
    *bytes = (int64_t)result;
    return true;
}

bool size_resolve(const size_spec *size, int64_t keep_all_peak, int64_t min_feasible,
                  int64_t *bytes) {
    switch (size->kind) {
    case SIZE_NONE:
        *bytes = INT64_MAX;
        return true;
    case SIZE_BYTES:
        *bytes = size->amount;
        return true;
    case SIZE_PERCENT:
        return percent_of(size, keep_all_peak, bytes);
    case SIZE_KEEP_ALL:
        *bytes = keep_all_peak;
        return true;
    case SIZE_MINIMUM:
        *bytes = min_feasible;
        return true;
    }
    return false;
}
