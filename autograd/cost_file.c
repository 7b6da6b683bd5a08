/* Files of costs: `reprise-device`, a description, and `reprise-costs`, what was measured. */
#include "cost.h"

#include <stdio.h>
#include <string.h>

#include "planner/file.h"
#include "planner/json.h"

typedef struct field {
    const char *object, *name; /* object NULL: of the file itself */
    size_t offset;             /* in rp_device */
    bool optional;
} field;

#define FIELD(object, name, member, optional)                                                      \
    { object, name, offsetof(rp_device, member), optional }
static const field fields[] = {
    FIELD("peak_flops", "f32", f32_flops, false),
    FIELD("peak_flops", "bf16", bf16_flops, true),
    FIELD(NULL, "memory_bytes", memory_bytes, true),
    FIELD(NULL, "memory_bytes_per_s", memory_rate, false),
    FIELD(NULL, "link_bytes_per_s", link_rate, true),
    FIELD(NULL, "launch_ns", launch_ns, true),
    FIELD("achieved_permille", "products", products_permille, true),
    FIELD("achieved_permille", "attention", attention_permille, true),
    FIELD("achieved_permille", "other", other_permille, true),
    FIELD("achieved_permille", "memory", memory_permille, true),
};
#undef FIELD

/* ---- Reading --------------------------------------------------------------------------------- */

static rp_status read_field(rp_context *context, const json_t *root, const field *f,
                            rp_device *device) {
    rp_json_place place = {.context = context};
    const json_t *object = root;
    if (f->object != NULL) {
        object = json_object_get(root, f->object);
        if (object == NULL && f->optional)
            return RP_OK;
        if (!json_is_object(object))
            return rp_json_fail(&place, f->object, object ? "must be an object" : "is missing");
        snprintf(place.text, sizeof place.text, "%s: ", f->object);
    }
    return rp_json_count(&place, object, f->name, f->optional,
                         (int64_t *)((char *)device + f->offset));
}

static rp_status read_device(rp_context *context, const json_t *root, rp_cost_table *table) {
    rp_json_place place = {.context = context};
    rp_device *device = &table->device;
    const char *name = NULL;
    *device = (rp_device){.struct_size = sizeof *device,
                          .products_permille = 1000,
                          .attention_permille = 1000,
                          .other_permille = 1000,
                          .memory_permille = 1000};
    rp_status status = rp_json_string(&place, root, "name", &name);
    if (status == RP_OK && (name == NULL || strlen(name) >= sizeof device->name))
        status = rp_json_fail(&place, "name", name ? "is longer than 127 bytes" : "is missing");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && status == RP_OK; i++)
        status = read_field(context, root, &fields[i], device);
    if (status != RP_OK)
        return status;
    snprintf(device->name, sizeof device->name, "%s", name);
    status = rp_device_check(context, device);
    return status == RP_INVALID_ARGUMENT ? RP_BAD_INPUT : status; /* with that message */
}

static rp_status read_entry(rp_context *context, const json_t *entry, size_t index,
                            rp_cost_table *table) {
    rp_json_place place = {.context = context};
    const char *op = NULL;
    int64_t cost = 0;
    snprintf(place.text, sizeof place.text, "costs[%zu]: ", index);
    if (!json_is_object(entry))
        return rp_fail(context, RP_BAD_INPUT, "costs[%zu] must be an object", index);
    rp_status status = rp_json_string(&place, entry, "op", &op);
    if (status == RP_OK && op == NULL)
        status = rp_json_fail(&place, "op", "is missing");
    if (status == RP_OK)
        status = rp_json_count(&place, entry, "cost_ns", false, &cost);
    if (status == RP_OK && rp_cost_table_find(table, op) >= 0)
        status = rp_json_fail(&place, "op", "stands in the file twice");
    return status == RP_OK ? rp_cost_table_add(table, op, cost) : status;
}

static rp_status read_measured(rp_context *context, const json_t *root, rp_cost_table *table) {
    rp_json_place place = {.context = context};
    const char *machine = NULL, *libraries = NULL;
    const json_t *list = NULL;
    table->is_measured = true;
    rp_status status = rp_json_string(&place, root, "machine", &machine);
    if (status == RP_OK)
        status = rp_json_string(&place, root, "libraries", &libraries);
    if (status == RP_OK && (machine == NULL || libraries == NULL))
        status = rp_json_fail(&place, machine ? "libraries" : "machine", "is missing");
    if (status == RP_OK)
        status = rp_json_list(&place, root, "costs", false, &list);
    if (status != RP_OK)
        return status;
    table->machine = rp_copy_string(context, machine);
    table->libraries = rp_copy_string(context, libraries);
    if (table->machine == NULL || table->libraries == NULL)
        return rp_fail_memory(context, "a table of costs");
    for (size_t i = 0; i < json_array_size(list) && status == RP_OK; i++)
        status = read_entry(context, json_array_get(list, i), i, table);
    return status;
}

rp_status rp_cost_table_parse(rp_context *context, const char *text, size_t length,
                              rp_cost_table **table) {
    if (table == NULL)
        return RP_INVALID_ARGUMENT;
    *table = NULL;
    if (context == NULL)
        return RP_INVALID_ARGUMENT;
    if (text == NULL)
        return rp_fail(context, RP_INVALID_ARGUMENT, "costs: the text is NULL");
    json_t *root = NULL;
    rp_cost_table *made = NULL;
    rp_status status = rp_json_parse(context, text, length, "reprise-device|reprise-costs", &root);
    if (status == RP_OK)
        status = rp_cost_table_make(context, &made);
    if (status == RP_OK) {
        const char *format = json_string_value(json_object_get(root, "format"));
        status = strcmp(format, "reprise-device") == 0 ? read_device(context, root, made)
                                                       : read_measured(context, root, made);
    }
    json_decref(root);
    if (status != RP_OK) {
        rp_cost_table_destroy(made);
        return status;
    }
    rp_cost_table_own(made);
    *table = made;
    return RP_OK;
}

rp_status rp_cost_table_load(rp_context *context, const char *path, rp_cost_table **table) {
    if (table == NULL)
        return RP_INVALID_ARGUMENT;
    *table = NULL;
    if (context == NULL)
        return RP_INVALID_ARGUMENT;
    if (path == NULL)
        return rp_fail(context, RP_INVALID_ARGUMENT, "costs: the path is NULL");
    rp_text text;
    rp_status status = rp_file_read(context, path, &text);
    if (status != RP_OK)
        return status;
    status = rp_cost_table_parse(context, text.data != NULL ? text.data : "", text.count, table);
    rp_text_clear(&text);
    return status == RP_OK ? RP_OK : rp_fail_in_file(context, status, path);
}

/* ---- Writing --------------------------------------------------------------------------------- */

static int64_t field_value(const rp_device *device, const field *f) {
    return *(const int64_t *)((const char *)device + f->offset);
}

static void write_device(rp_text *text, const rp_device *device) {
    const char *open = NULL;
    rp_text_format(text, "{ \"format\": \"reprise-device\", \"version\": 1,\n  \"name\": ");
    rp_text_quote(text, device->name);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        const field *f = &fields[i];
        const bool begins = f->object != NULL && f->object != open;
        if (open != NULL && f->object != open)
            rp_text_format(text, "}");
        rp_text_format(text, open != NULL && f->object == open ? ", " : ",\n  ");
        if (begins)
            rp_text_format(text, "\"%s\": {", f->object);
        rp_text_format(text, "\"%s\": %lld", f->name, (long long)field_value(device, f));
        open = f->object;
    }
    rp_text_format(text, "%s }\n", open != NULL ? "}" : "");
}

static void write_measured(rp_text *text, const rp_cost_table *table) {
    rp_text_format(text, "{ \"format\": \"reprise-costs\", \"version\": 1,\n  \"machine\": ");
    rp_text_quote(text, table->machine);
    rp_text_format(text, ",\n  \"libraries\": ");
    rp_text_quote(text, table->libraries);
    rp_text_format(text, ",\n  \"costs\": [");
    const char *separator = "\n    ";
    for (const rp_cost_entry *e = table->entries; e != NULL; e = rp_cost_entry_next(e)) {
        int64_t cost = 0;
        rp_text_format(text, "%s{\"op\": ", separator);
        rp_text_quote(text, rp_cost_entry_text(e, &cost));
        rp_text_format(text, ", \"cost_ns\": %lld}", (long long)cost);
        separator = ",\n    ";
    }
    rp_text_format(text, " ] }\n");
}

rp_status rp_cost_table_save(const rp_cost_table *table, const char *path) {
    if (table == NULL)
        return RP_INVALID_ARGUMENT;
    if (path == NULL)
        return rp_fail(table->context, RP_INVALID_ARGUMENT, "costs: the path is NULL");
    rp_text text = {.context = table->context};
    if (table->is_measured)
        write_measured(&text, table);
    else
        write_device(&text, &table->device);
    const rp_status status = rp_file_replace(table->context, path, &text);
    rp_text_clear(&text);
    return status;
}
