/* The table of strategies, and their names. */
#include "strategy.h"

#include <stdio.h>
#include <string.h>

const rp_strategy rp_strategies[] = {
#define STRATEGY_ROW(name, function, argument, description) {name, description, argument, function},
    RP_STRATEGY_LIST(STRATEGY_ROW)
#undef STRATEGY_ROW
        {NULL, NULL, false, NULL},
};

enum { STRATEGIES = sizeof rp_strategies / sizeof rp_strategies[0] - 1, NAMES_BYTES = 256 };

const char *rp_strategy_name(size_t i) {
    return i < STRATEGIES ? rp_strategies[i].name : NULL;
}

const char *rp_strategy_description(size_t i) {
    return i < STRATEGIES ? rp_strategies[i].description : NULL;
}

static rp_status fail_unknown(rp_context *context, const char *text) {
    char names[NAMES_BYTES] = "";
    size_t used = 0;
    for (size_t i = 0; i < STRATEGIES && used < sizeof names; i++)
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s%s%s", i > 0 ? ", " : "",
                             rp_strategies[i].name, rp_strategies[i].takes_argument ? ":N" : "");
    return rp_fail(context, RP_INVALID_ARGUMENT, "strategy \"%.80s\" is unknown; known are %s",
                   text, names);
}

/* Digits only, from 1 to below RP_NONE. */
static bool read_argument(const char *text, uint32_t *argument) {
    uint64_t number = 0;
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9')
            return false;
        number = 10 * number + (uint64_t)(*text - '0');
        if (number >= RP_NONE)
            return false;
    }
    *argument = (uint32_t)number;
    return number > 0;
}

rp_status rp_strategy_find(rp_context *context, const char *text, const rp_strategy **strategy,
                           uint32_t *argument) {
    const char *colon = strchr(text, ':');
    const size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    *argument = 0;
    for (size_t i = 0; i < STRATEGIES; i++) {
        const rp_strategy *row = &rp_strategies[i];
        if (strlen(row->name) != length || memcmp(row->name, text, length) != 0)
            continue;
        *strategy = row;
        if (row->takes_argument && (colon == NULL || !read_argument(colon + 1, argument)))
            return rp_fail(context, RP_INVALID_ARGUMENT,
                           "strategy \"%.80s\": %s needs a number from 1 to %u, as in %s:2", text,
                           row->name, RP_NONE - 1, row->name);
        if (!row->takes_argument && colon != NULL)
            return rp_fail(context, RP_INVALID_ARGUMENT, "strategy \"%.80s\": %s takes no number",
                           text, row->name);
        return RP_OK;
    }
    return fail_unknown(context, text);
}
