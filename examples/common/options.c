/* The command line: parsing by a table, and the help text from the same table. */
#include "options.h"

#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool whole_in(const char *text, int64_t low, int64_t high, int64_t *out) {
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') /* strtoll would take blanks and signs */
        return false;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || value < low || value > high)
        return false;
    *out = value;
    return true;
}

static bool is_word_of(const char *words, const char *text, const char **stored) {
    const size_t length = strlen(text);
    for (const char *word = words; length > 0 && word != NULL;) {
        const char *bar = strchr(word, '|');
        const size_t size = bar != NULL ? (size_t)(bar - word) : strlen(word);
        if (size == length && memcmp(word, text, size) == 0) {
            *stored = text;
            return true;
        }
        word = bar != NULL ? bar + 1 : NULL;
    }
    return false;
}

static bool set_count(const option_row *row, const char *text) {
    return whole_in(text, 1, INT32_MAX, row->target);
}

static bool set_number(const option_row *row, const char *text) {
    return whole_in(text, 0, INT64_MAX, row->target);
}

static bool set_real(const option_row *row, const char *text) {
    char *end = NULL;
    if ((text[0] < '0' || text[0] > '9') && text[0] != '.')
        return false;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value <= FLT_MAX)) /* what is made of it is f32 */
        return false;
    *(double *)row->target = value;
    return true;
}

static bool set_choice(const option_row *row, const char *text) {
    return is_word_of(row->value, text, row->target);
}

static bool set_text(const option_row *row, const char *text) {
    *(const char **)row->target = text;
    return text[0] != '\0';
}

static bool add_text(const option_row *row, const char *text) {
    text_list *list = row->target;
    if (text[0] == '\0' || list->count == TEXT_LIST_MAX)
        return false;
    list->items[list->count++] = text;
    return true;
}

static bool set_size(const option_row *row, const char *text) {
    return size_parse(text, row->target);
}

static const struct {
    bool (*set)(const option_row *row, const char *text);
    const char *expected; /* NULL: the words of the row */
} kinds[] = {
    [OPTION_COUNT] = {set_count, "a whole number from 1 to 2147483647"},
    [OPTION_NUMBER] = {set_number, "a whole number from 0 to 9223372036854775807"},
    [OPTION_REAL] = {set_real, "a number from 0 to 3.4e38"},
    [OPTION_CHOICE] = {set_choice, NULL},
    [OPTION_TEXT] = {set_text, "a text that is not empty"},
    [OPTION_LIST] = {add_text, "a text that is not empty, at most 256 times"},
    [OPTION_SIZE] = {set_size, SIZE_GRAMMAR},
    [OPTION_OPERAND] = {set_text, "a text that is not empty"},
};

static const option_row *find(const option_table *table, const char *name, size_t length) {
    for (size_t i = 0; i < table->count; i++) {
        const option_row *row = &table->rows[i];
        if (row->kind != OPTION_OPERAND && strlen(row->name) == length &&
            memcmp(row->name, name, length) == 0)
            return row;
    }
    return NULL;
}

static bool set_value(const option_row *row, const char *text, failure *failure) {
    if (kinds[row->kind].set(row, text))
        return true;
    const char *expected = kinds[row->kind].expected;
    return fail(failure, STATUS_USAGE, "%s%s \"%s\": expected %s%s",
                row->kind == OPTION_OPERAND ? "" : "--", row->name, text,
                expected != NULL ? "" : "one of ", expected != NULL ? expected : row->value);
}

/* argv[*at] begins with "--"; moves *at to the last word used. */
static bool parse_option(const option_table *table, int argc, char **argv, int *at,
                         failure *failure) {
    const char *name = argv[*at] + 2;
    const char *equals = strchr(name, '=');
    const size_t length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const option_row *row = find(table, name, length);
    if (row == NULL) {
        return fail(failure, STATUS_USAGE, "--%.*s: no such option; --help lists them", (int)length,
                    name);
    }
    if (row->kind == OPTION_FLAG) {
        *(bool *)row->target = true;
        return equals == NULL || fail(failure, STATUS_USAGE, "--%s: takes no value, got \"%s\"",
                                      row->name, equals + 1);
    }
    if (equals != NULL)
        return set_value(row, equals + 1, failure);
    if (*at + 1 >= argc) {
        const char *expected = kinds[row->kind].expected;
        return fail(failure, STATUS_USAGE, "--%s: a value is missing: expected %s", row->name,
                    expected != NULL ? expected : row->value);
    }
    *at += 1;
    return set_value(row, argv[*at], failure);
}

static bool parse_operand(const option_table *table, const char *text, failure *failure) {
    for (size_t i = 0; i < table->count; i++) {
        const option_row *row = &table->rows[i];
        if (row->kind == OPTION_OPERAND && *(const char **)row->target == NULL)
            return set_value(row, text, failure);
    }
    return fail(failure, STATUS_USAGE,
                "\"%s\": one argument too many; --help says what is expected", text);
}

bool options_parse(const option_table *table, int argc, char **argv, bool *help, failure *failure) {
    bool only_operands = false;
    *help = false;
    for (int at = 1; at < argc; at++) {
        const char *word = argv[at];
        if (!only_operands && strcmp(word, "--help") == 0) {
            *help = true;
            return true;
        }
        if (!only_operands && strcmp(word, "--") == 0) {
            only_operands = true;
        } else if (!only_operands && strncmp(word, "--", 2) == 0) {
            if (!parse_option(table, argc, argv, &at, failure))
                return false;
        } else if (!only_operands && word[0] == '-') {
            return fail(failure, STATUS_USAGE, "%s: no such option; --help lists them", word);
        } else if (!parse_operand(table, word, failure)) {
            return false;
        }
    }
    for (size_t i = 0; i < table->count; i++) {
        const option_row *row = &table->rows[i];
        if (row->kind == OPTION_OPERAND && *(const char **)row->target == NULL)
            return fail(failure, STATUS_USAGE, "%s is missing: expected %s", row->name, row->help);
    }
    return true;
}

/* " (default 4)", or nothing where a default says nothing. */
static void print_default(const option_row *row) {
    if (row->kind == OPTION_COUNT || row->kind == OPTION_NUMBER) {
        const int64_t value = *(const int64_t *)row->target;
        if (value != 0)
            printf(" (default %" PRId64 ")", value);
    } else if (row->kind == OPTION_REAL) {
        printf(" (default %g)", *(const double *)row->target);
    } else if (row->kind == OPTION_CHOICE || row->kind == OPTION_TEXT) {
        const char *value = *(const char *const *)row->target;
        if (value != NULL)
            printf(" (default %s)", value);
    }
}

void options_print(const option_table *table) {
    printf("usage: %s [OPTION]...", table->program);
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].kind == OPTION_OPERAND)
            printf(" %s", table->rows[i].name);
    printf("\n%s\n\n", table->purpose);
    for (size_t i = 0; i < table->count; i++) {
        const option_row *row = &table->rows[i];
        char left[64];
        const bool named = row->kind != OPTION_OPERAND;
        snprintf(left, sizeof left, "%s%s%s%s", named ? "--" : "", row->name,
                 named && row->value != NULL ? " " : "", row->value != NULL ? row->value : "");
        printf("  %-32s %s", left, row->help);
        print_default(row);
        putchar('\n');
    }
    printf("  %-32s %s\n", "--help", "this text");
    printf("\nSIZE: %s. Of a repeated option the last counts.\nExit status:\n", SIZE_GRAMMAR);
#define PRINT_STATUS(name, number, meaning) printf("  %d  %s\n", number, meaning);
    STATUS_LIST(PRINT_STATUS)
#undef PRINT_STATUS
}
