/* What the file formats share: reading JSON with messages that name the place. */
#ifndef REPRISE_PLANNER_JSON_H
#define REPRISE_PLANNER_JSON_H

#include <jansson.h>

#include <reprise/extend.h>

enum { RP_JSON_PLACE_BYTES = 160 };

/* Where in the file a field stands: "nodes[3] (name): " or "". */
typedef struct rp_json_place {
    rp_context *context;
    char text[RP_JSON_PLACE_BYTES];
} rp_json_place;

/* Parses one object of `format`, or one of several ("a|b"), and version 1. RP_BAD_INPUT with line
 * and column where the text is no JSON, has a key twice, is not UTF-8 or nests too deep. */
rp_status rp_json_parse(rp_context *context, const char *text, size_t length, const char *format,
                        json_t **object);

/* "PLACE FIELD REASON" */
rp_status rp_json_fail(const rp_json_place *place, const char *field, const char *reason);

/* A whole number from 0 to 2^63 - 1. A missing one leaves `*number` as it is if it is optional. */
rp_status rp_json_count(const rp_json_place *place, const json_t *object, const char *field,
                        bool optional, int64_t *number);

/* Optional fields: missing ones leave the result as it is. Strings live as long as `object`. */
rp_status rp_json_string(const rp_json_place *place, const json_t *object, const char *field,
                         const char **string);
rp_status rp_json_bool(const rp_json_place *place, const json_t *object, const char *field,
                       bool *value);

/* A list; NULL if it is optional and missing. */
rp_status rp_json_list(const rp_json_place *place, const json_t *object, const char *field,
                       bool optional, const json_t **list);

/* One of `words` (a NULL behind the last). A missing field leaves `*index` as it is if it is
 * optional. */
rp_status rp_json_word(const rp_json_place *place, const json_t *object, const char *field,
                       const char *const *words, bool optional, int *index);

#endif
