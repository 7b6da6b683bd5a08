/* The table of strategies. */
#include "strategy_list.h"
#include "unit.h"

#include <ctype.h>
#include <string.h>

static const char *const names[] = {
#define NAME(name, function, numbered, text) name,
    RP_STRATEGY_LIST(NAME)
#undef NAME
};

enum { NAMES = sizeof names / sizeof names[0] };

static void test_names_are_unique(void) {
    for (size_t i = 0; i < NAMES; i++)
        for (size_t k = 0; k < i; k++)
            RP_CHECK(strcmp(names[i], names[k]) != 0, "rows %zu and %zu are both %s", k, i,
                     names[i]);
}

/* A number is written behind a colon and lists of names are separated by commas. */
static void test_names_hold_no_separator(void) {
    for (size_t i = 0; i < NAMES; i++)
        for (const char *c = names[i]; *c != 0; c++)
            RP_CHECK(islower((unsigned char)*c) || *c == '-', "%s contains '%c'", names[i], *c);
}

static const rp_test tests[] = {
    RP_TEST(test_names_are_unique),
    RP_TEST(test_names_hold_no_separator),
};
RP_SUITE(strategy_list, tests)
