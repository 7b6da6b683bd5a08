/* Damages texts and reads them. */
#include "malformed.h"

#include "graphs.h"
#include "unit.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* ---- Damaged bytes --------------------------------------------------------------------------- */

rp_status rp_malformed_read(const rp_malformed *s, const char *text, size_t length) {
    char *copy = malloc(length ? length : 1);
    RP_REQUIRE(copy != NULL, "no memory for %zu bytes", length);
    memcpy(copy, text, length);
    bool made = false;
    const rp_status status = s->read(s, copy, length, &made);
    free(copy);
    RP_CHECK(made == (status == RP_OK), "%s, but %s was made", rp_status_name(status),
             made ? "something" : "nothing");
    RP_CHECK(status == RP_OK || status == RP_BAD_INPUT || status == RP_INFEASIBLE, "status %s: %s",
             rp_status_name(status), rp_context_message(s->context));
    RP_CHECK(status == RP_OK || rp_context_message(s->context)[0] != 0, "no message");
    return status;
}

void rp_malformed_truncate(const rp_malformed *s) {
    RP_REQUIRE_OK(s->context, rp_malformed_read(s, s->text, s->length));
    size_t end = s->length; /* of the object: what follows is white space */
    while (end > 0 && s->text[end - 1] != '}')
        end--;
    for (size_t length = 0; length < end; length++) {
        const rp_status status = rp_malformed_read(s, s->text, length);
        RP_CHECK(status == RP_BAD_INPUT, "the first %zu bytes: %s", length, rp_status_name(status));
    }
}

void rp_malformed_flip(const rp_malformed *s, int rounds) {
    rp_test_random random = {12345};
    char *text = malloc(s->length);
    RP_REQUIRE(text != NULL, "no memory");
    int refused = 0;
    for (int round = 0; round < rounds; round++) {
        memcpy(text, s->text, s->length);
        const uint32_t flips = 1 + rp_test_random_below(&random, 4);
        for (uint32_t i = 0; i < flips; i++) {
            const uint32_t at = rp_test_random_below(&random, (uint32_t)s->length);
            if (rp_test_random_below(&random, 2))
                text[at] = (char)(text[at] ^ (1 << rp_test_random_below(&random, 8)));
            else
                text[at] = s->text[rp_test_random_below(&random, (uint32_t)s->length)];
        }
        refused += rp_malformed_read(s, text, s->length) != RP_OK;
    }
    free(text);
    RP_CHECK(refused > rounds / 2, "only %d of %d damaged texts were refused", refused, rounds);
}

void rp_malformed_splice(const rp_malformed *s, int rounds) {
    rp_test_random random = {54321};
    char *text = malloc(2 * s->length);
    RP_REQUIRE(text != NULL, "no memory");
    for (int round = 0; round < rounds; round++) {
        const uint32_t from = rp_test_random_below(&random, (uint32_t)s->length);
        const uint32_t count = rp_test_random_below(&random, (uint32_t)s->length - from) + 1;
        const bool doubled = rp_test_random_below(&random, 2) == 1;
        const size_t kept = doubled ? from + count : from, rest = doubled ? from : from + count;
        memcpy(text, s->text, kept);
        memcpy(text + kept, s->text + rest, s->length - rest);
        rp_malformed_read(s, text, kept + s->length - rest);
    }
    free(text);
}

/* ---- The right form, the wrong content ------------------------------------------------------- */

static const char *const replacements[] = {
    "-1",
    "0",
    "1",
    "2",
    "5",
    "1000000",
    "2147483647",
    "4294967295",
    "8589934592",
    "1152921504606846976",
    "9223372036854775807",
    "-9223372036854775808",
    "null",
    "true",
    "\"\"",
    "\"run\"",
    "0.5",
    "1e300",
    "[]",
    "{}",
};
enum { REPLACEMENTS = sizeof replacements / sizeof replacements[0] };

static json_t *replacement(size_t i) {
    json_t *made = json_loads(replacements[i], JSON_DECODE_ANY, NULL);
    RP_REQUIRE(made != NULL, "%s is not JSON", replacements[i]);
    return made;
}

static void read_tree(const rp_malformed *s, const json_t *root) {
    char *text = json_dumps(root, JSON_COMPACT);
    RP_REQUIRE(text != NULL, "no memory");
    rp_malformed_read(s, text, strlen(text));
    free(text);
}

static void check_replacements(const rp_malformed *s, json_t *root, json_t *at);

static void replace_members(const rp_malformed *s, json_t *root, json_t *at) {
    json_t *snapshot = json_copy(at), *old = NULL; /* the loop below changes the order in `at` */
    const char *key = NULL;
    json_object_foreach(snapshot, key, old) {
        for (size_t i = 0; i < REPLACEMENTS; i++) {
            json_object_set_new(at, key, replacement(i));
            read_tree(s, root);
        }
        json_object_del(at, key);
        read_tree(s, root);
        json_object_set(at, key, old);
        check_replacements(s, root, old);
    }
    json_decref(snapshot);
}

static void replace_elements(const rp_malformed *s, json_t *root, json_t *at) {
    for (size_t k = 0; k < json_array_size(at); k++) {
        json_t *old = json_incref(json_array_get(at, k));
        for (size_t i = 0; i < REPLACEMENTS; i++) {
            json_array_set_new(at, k, replacement(i));
            read_tree(s, root);
        }
        json_array_remove(at, k);
        read_tree(s, root);
        json_array_insert(at, k, old);
        check_replacements(s, root, old);
        json_decref(old);
    }
}

/* Puts every replacement into the place of every value of the tree in turn, and leaves it out. */
static void check_replacements(const rp_malformed *s, json_t *root, json_t *at) {
    if (json_is_object(at))
        replace_members(s, root, at);
    else if (json_is_array(at))
        replace_elements(s, root, at);
}

void rp_malformed_replace(const rp_malformed *s) {
    json_t *root = json_loadb(s->text, s->length, 0, NULL);
    RP_REQUIRE(root != NULL, "what is to be damaged is not JSON");
    check_replacements(s, root, root);
    json_decref(root);
}
