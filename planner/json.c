/* JSON with places. Jansson takes its memory from the C library: its allocator is one per
 * process, not per context. */
#include "json.h"

#include <string.h>

/* Our formats need 5 levels. Jansson's parser recurses: the limit keeps it small enough for any
 * thread's stack. */
enum { DEEPEST = 100 };

/* The first place that nests too deep, outside of strings. */
static bool nests_too_deep(const char *text, size_t length, size_t *line, size_t *column) {
    size_t depth = 0, line_begin = 0;
    bool in_string = false;
    *line = 1;
    for (size_t i = 0; i < length; i++) {
        const char c = text[i];
        if (c == '\n') {
            ++*line;
            line_begin = i + 1;
        } else if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            depth++;
        } else if ((c == ']' || c == '}') && depth > 0) {
            depth--;
        }
        *column = i + 1 - line_begin;
        if (depth > DEEPEST)
            return true;
    }
    return false;
}

/* Whether `name` is one of `names`, which bars separate. */
static bool is_one_of(const char *name, const char *names) {
    const size_t length = strlen(name);
    for (const char *at = names; at != NULL; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, name, length) == 0 && (at[length] == 0 || at[length] == '|'))
            return length > 0;
    }
    return false;
}

static rp_status check_head(rp_context *context, const json_t *object, const char *format) {
    rp_json_place top = {.context = context};
    const char *found = NULL;
    int64_t version = 0;
    rp_status status = rp_json_string(&top, object, "format", &found);
    if (status == RP_OK && (found == NULL || !is_one_of(found, format)))
        status = rp_fail(context, RP_BAD_INPUT, "format is \"%.40s\", \"%s\" is needed",
                         found != NULL ? found : "", format);
    if (status == RP_OK)
        status = rp_json_count(&top, object, "version", false, &version);
    if (status == RP_OK && version != 1)
        status =
            rp_fail(context, RP_BAD_INPUT, "version is %lld, only 1 is known", (long long)version);
    return status;
}

rp_status rp_json_parse(rp_context *context, const char *text, size_t length, const char *format,
                        json_t **object) {
    json_error_t error;
    size_t line = 0, column = 0;
    *object = NULL;
    if (nests_too_deep(text, length, &line, &column))
        return rp_fail(context, RP_BAD_INPUT, "line %zu, column %zu: nested deeper than %d levels",
                       line, column, DEEPEST);
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL && json_error_code(&error) == json_error_out_of_memory)
        return rp_fail_memory(context, "a file");
    if (root == NULL)
        return rp_fail(context, RP_BAD_INPUT, "line %d, column %d: %s", error.line, error.column,
                       error.text);
    rp_status status = RP_OK;
    if (!json_is_object(root))
        status = rp_fail(context, RP_BAD_INPUT, "the file is no JSON object");
    else
        status = check_head(context, root, format);
    if (status != RP_OK)
        json_decref(root);
    else
        *object = root;
    return status;
}

rp_status rp_json_fail(const rp_json_place *place, const char *field, const char *reason) {
    return rp_fail(place->context, RP_BAD_INPUT, "%s%s %s", place->text, field, reason);
}

rp_status rp_json_count(const rp_json_place *place, const json_t *object, const char *field,
                        bool optional, int64_t *number) {
    const json_t *found = json_object_get(object, field);
    if (found == NULL)
        return optional ? RP_OK : rp_json_fail(place, field, "is missing");
    if (!json_is_integer(found) || json_integer_value(found) < 0)
        return rp_json_fail(place, field, "must be a whole number from 0 to 2^63 - 1");
    *number = json_integer_value(found);
    return RP_OK;
}

rp_status rp_json_string(const rp_json_place *place, const json_t *object, const char *field,
                         const char **string) {
    const json_t *found = json_object_get(object, field);
    if (found == NULL)
        return RP_OK;
    if (!json_is_string(found))
        return rp_json_fail(place, field, "must be a string");
    *string = json_string_value(found);
    return RP_OK;
}

rp_status rp_json_bool(const rp_json_place *place, const json_t *object, const char *field,
                       bool *value) {
    const json_t *found = json_object_get(object, field);
    if (found == NULL)
        return RP_OK;
    if (!json_is_boolean(found))
        return rp_json_fail(place, field, "must be true or false");
    *value = json_is_true(found);
    return RP_OK;
}

rp_status rp_json_list(const rp_json_place *place, const json_t *object, const char *field,
                       bool optional, const json_t **list) {
    const json_t *found = json_object_get(object, field);
    *list = NULL;
    if (found == NULL)
        return optional ? RP_OK : rp_json_fail(place, field, "is missing");
    if (!json_is_array(found))
        return rp_json_fail(place, field, "must be a list");
    *list = found;
    return RP_OK;
}

rp_status rp_json_word(const rp_json_place *place, const json_t *object, const char *field,
                       const char *const *words, bool optional, int *index) {
    const char *found = NULL;
    const rp_status status = rp_json_string(place, object, field, &found);
    if (status != RP_OK)
        return status;
    if (found == NULL)
        return optional ? RP_OK : rp_json_fail(place, field, "is missing");
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(found, words[i]) == 0) {
            *index = i;
            return RP_OK;
        }
    char reason[200];
    size_t used = (size_t)snprintf(reason, sizeof reason, "is \"%.40s\", known are", found);
    for (int i = 0; words[i] != NULL && used < sizeof reason; i++)
        used += (size_t)snprintf(reason + used, sizeof reason - used, "%s %s", i > 0 ? "," : "",
                                 words[i]);
    return rp_json_fail(place, field, reason);
}
