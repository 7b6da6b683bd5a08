/* The command line as a table: one row an option, --help made from it. "--name value" and
 * "--name=value"; of a repeated option the last counts. */
#ifndef EXAMPLES_OPTIONS_H
#define EXAMPLES_OPTIONS_H

#include "failure.h"
#include "size.h"

typedef enum option_kind {
    OPTION_FLAG,   /* bool: set, takes no value */
    OPTION_COUNT,  /* int64_t: 1 to 2^31 - 1 */
    OPTION_NUMBER, /* int64_t: 0 to 2^63 - 1 */
    OPTION_REAL,   /* double: from 0 to the largest float */
    OPTION_CHOICE, /* const char *: one of the words of `value`, "a|b|c" */
    OPTION_TEXT,   /* const char *: anything but nothing */
    OPTION_LIST,   /* text_list: the same, may be given several times */
    OPTION_SIZE,   /* size_spec */
    OPTION_OPERAND /* const char *: stands without a name; every one in the table is required */
} option_kind;

typedef struct option_row {
    const char *name; /* without the dashes */
    option_kind kind;
    void *target;      /* holds the default, which --help prints: "" and 0 are not worth it */
    const char *value; /* what stands for the value in --help; the words of a choice */
    const char *help;
} option_row;

enum { TEXT_LIST_MAX = 256 };
typedef struct text_list {
    const char *items[TEXT_LIST_MAX];
    size_t count;
} text_list;

typedef struct option_table {
    const char *program, *purpose;
    const option_row *rows;
    size_t count;
} option_table;

/* True: everything is in the targets, or *help is set and nothing else matters. False:
 * STATUS_USAGE. */
bool options_parse(const option_table *table, int argc, char **argv, bool *help, failure *failure);

/* --help, on standard output. */
void options_print(const option_table *table);

#endif
