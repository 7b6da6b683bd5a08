/* `reprise-plan` files, version 1: one step and one offset a line, so that they diff. */
#include <stdio.h>
#include <string.h>

#include "file.h"
#include "json.h"
#include "plan_import.h"

static const char *const kinds[] = {
    [RP_STEP_RUN] = "run",     [RP_STEP_DROP] = "drop", [RP_STEP_OFFLOAD] = "offload",
    [RP_STEP_FETCH] = "fetch", [RP_STEP_WAIT] = "wait", NULL,
};

enum { HASH_DIGITS = 16 };

/* ---- Reading ---- */

static rp_status fail_item(rp_context *context, const char *list, size_t i, const char *reason) {
    return rp_fail(context, RP_BAD_INPUT, "%s[%zu] %s", list, i, reason);
}

static bool is_count(const json_t *item) {
    return json_is_integer(item) && json_integer_value(item) >= 0;
}

/* A number that indices are compared with: what does not fit is beyond every list. */
static uint32_t to_index(const json_t *item) {
    const json_int_t value = json_integer_value(item);
    return value < (json_int_t)RP_NONE ? (uint32_t)value : RP_NONE;
}

static rp_status read_step(rp_context *context, const json_t *item, size_t i, rp_step *step) {
    static const char *const wanted = "must be a pair [\"run\", node] or [\"drop\", value], or of "
                                      "offload, fetch or wait and a value";
    if (!json_is_array(item) || json_array_size(item) != 2 ||
        !json_is_string(json_array_get(item, 0)) || !is_count(json_array_get(item, 1)))
        return fail_item(context, "steps", i, wanted);
    const char *kind = json_string_value(json_array_get(item, 0));
    for (uint32_t k = 0; kinds[k] != NULL; k++)
        if (strcmp(kind, kinds[k]) == 0) {
            *step = (rp_step){k, to_index(json_array_get(item, 1))};
            return RP_OK;
        }
    return fail_item(context, "steps", i, wanted);
}

static rp_status read_steps(rp_context *context, const json_t *root, rp_draft *draft) {
    const rp_json_place top = {.context = context};
    const json_t *list = NULL;
    const rp_status status = rp_json_list(&top, root, "steps", false, &list);
    if (status != RP_OK)
        return status;
    const size_t count = json_array_size(list);
    if (!rp_reserve(context, &draft->schedule.steps, &draft->schedule.capacity, count,
                    sizeof *draft->schedule.steps))
        return rp_fail_memory(context, "the steps of a plan");
    for (size_t i = 0; i < count; i++) {
        const rp_status read =
            read_step(context, json_array_get(list, i), i, &draft->schedule.steps[i]);
        if (read != RP_OK)
            return read;
    }
    draft->schedule.count = count;
    return RP_OK;
}

static rp_status read_offset(const rp_graph *graph, const json_t *item, size_t i,
                             rp_placement *placement) {
    const json_t *step = json_array_get(item, 0), *value = json_array_get(item, 1);
    const json_t *offset = json_array_get(item, 2);
    if (!json_is_array(item) || json_array_size(item) != 3 || !is_count(step) ||
        !json_is_integer(value) || !is_count(offset))
        return fail_item(graph->context, "offsets", i, "must be [step, value, offset]");
    const json_int_t v = json_integer_value(value);
    if (v < -1 || (v >= 0 && (uint64_t)v >= graph->value_count))
        return rp_fail(graph->context, RP_BAD_INPUT, "offsets[%zu]: there is no value %lld", i,
                       (long long)v);
    if (to_index(step) == RP_NONE)
        return rp_fail(graph->context, RP_BAD_INPUT, "offsets[%zu]: there is no step %lld", i,
                       (long long)json_integer_value(step));
    *placement =
        (rp_placement){to_index(step), v < 0 ? RP_NONE : (uint32_t)v, json_integer_value(offset)};
    return RP_OK;
}

static rp_status read_offsets(const rp_graph *graph, const json_t *root, rp_draft *draft) {
    const rp_json_place top = {.context = graph->context};
    const json_t *list = NULL;
    const rp_status status = rp_json_list(&top, root, "offsets", true, &list);
    if (status != RP_OK || list == NULL)
        return status;
    const size_t count = json_array_size(list);
    if (!rp_reserve(graph->context, &draft->placements, &draft->placement_capacity, count,
                    sizeof *draft->placements))
        return rp_fail_memory(graph->context, "the offsets of a plan");
    for (size_t i = 0; i < count; i++) {
        const rp_status read =
            read_offset(graph, json_array_get(list, i), i, &draft->placements[i]);
        if (read != RP_OK)
            return read;
    }
    draft->placement_count = count;
    return RP_OK;
}

/* 16 hexadecimal digits, as this graph has them. */
static rp_status check_hash(const rp_graph *graph, const json_t *root) {
    const rp_json_place top = {.context = graph->context};
    const char *text = NULL;
    char own[HASH_DIGITS + 1];
    const rp_status status = rp_json_string(&top, root, "graph_hash", &text);
    if (status != RP_OK || text == NULL)
        return status;
    if (strlen(text) != HASH_DIGITS || strspn(text, "0123456789abcdef") != HASH_DIGITS)
        return rp_json_fail(&top, "graph_hash", "must be 16 hexadecimal digits");
    snprintf(own, sizeof own, "%016llx", (unsigned long long)graph->hash);
    if (strcmp(text, own) != 0)
        return rp_fail(graph->context, RP_BAD_INPUT,
                       "graph_hash is %s, that of this graph is %s: the plan is for another one",
                       text, own);
    return RP_OK;
}

static rp_status read_numbers(rp_context *context, const json_t *root, rp_draft *draft) {
    const rp_json_place top = {.context = context};
    int64_t cost = 0, budget = -1; /* the cost is information: it is computed anew */
    rp_status status = rp_json_count(&top, root, "budget_bytes", true, &budget);
    if (status == RP_OK)
        status = rp_json_count(&top, root, "peak_bytes", true, &draft->peak_bytes);
    if (status == RP_OK)
        status = rp_json_count(&top, root, "live_peak_bytes", true, &draft->live_peak_bytes);
    if (status == RP_OK)
        status = rp_json_count(&top, root, "recompute_cost_ns", true, &cost);
    if (status == RP_OK)
        status = rp_json_string(&top, root, "strategy", &draft->strategy);
    if (status == RP_OK && budget >= 0 && draft->budget_bytes == RP_UNLIMITED) {
        draft->budget_bytes = budget;
        draft->own_budget = true;
    }
    return status;
}

static rp_status read_plan(const rp_graph *graph, const json_t *root, int64_t budget_bytes,
                           rp_plan **plan, rp_plan_report *report) {
    rp_draft draft = RP_DRAFT(budget_bytes);
    rp_status status = check_hash(graph, root);
    if (status == RP_OK)
        status = read_numbers(graph->context, root, &draft);
    if (status == RP_OK)
        status = read_steps(graph->context, root, &draft);
    if (status == RP_OK)
        status = read_offsets(graph, root, &draft);
    if (status == RP_OK)
        status = rp_plan_admit(graph, &draft, plan, report);
    rp_draft_clear(graph->context, &draft);
    return status;
}

rp_status rp_plan_parse(const rp_graph *graph, const char *text, size_t length,
                        int64_t budget_bytes, rp_plan **plan, rp_plan_report *report) {
    json_t *root = NULL;
    if (plan == NULL)
        return RP_INVALID_ARGUMENT;
    *plan = NULL;
    if (graph == NULL)
        return RP_INVALID_ARGUMENT;
    if (text == NULL)
        return rp_fail(graph->context, RP_INVALID_ARGUMENT, "plan: the text is NULL");
    rp_status status = rp_plan_check_import(graph, budget_bytes);
    if (status == RP_OK)
        status = rp_json_parse(graph->context, text, length, "reprise-plan", &root);
    if (status == RP_OK)
        status = read_plan(graph, root, budget_bytes, plan, report);
    json_decref(root);
    return status;
}

rp_status rp_plan_load(const rp_graph *graph, const char *path, int64_t budget_bytes,
                       rp_plan **plan, rp_plan_report *report) {
    rp_text text;
    if (plan == NULL)
        return RP_INVALID_ARGUMENT;
    *plan = NULL;
    if (graph == NULL)
        return RP_INVALID_ARGUMENT;
    if (path == NULL)
        return rp_fail(graph->context, RP_INVALID_ARGUMENT, "plan: the path is NULL");
    rp_status status = rp_file_read(graph->context, path, &text);
    if (status != RP_OK)
        return status;
    status = rp_plan_parse(graph, text.data, text.count, budget_bytes, plan, report);
    rp_text_clear(&text);
    return status == RP_OK ? RP_OK : rp_fail_in_file(graph->context, status, path);
}

/* ---- Writing ---- */

rp_status rp_plan_save(const rp_plan *plan, const char *path) {
    if (plan == NULL)
        return RP_INVALID_ARGUMENT;
    rp_context *context = plan->graph->context;
    if (path == NULL)
        return rp_fail(context, RP_INVALID_ARGUMENT, "plan: the path is NULL");
    const rp_plan_report *r = &plan->report;
    rp_text text = {.context = context};
    rp_text_format(&text, "{ \"format\": \"reprise-plan\", \"version\": 1, \"graph_hash\": ");
    rp_text_format(&text, "\"%016llx\", \"strategy\": ", (unsigned long long)plan->graph->hash);
    rp_text_quote(&text, plan->strategy);
    if (r->budget_bytes != RP_UNLIMITED)
        rp_text_format(&text, ",\n  \"budget_bytes\": %lld", (long long)r->budget_bytes);
    rp_text_format(&text, ",\n  \"peak_bytes\": %lld, \"live_peak_bytes\": %lld",
                   (long long)r->peak_bytes, (long long)r->live_peak_bytes);
    rp_text_format(&text, ", \"recompute_cost_ns\": %lld,\n  \"steps\": [",
                   (long long)r->recompute_cost_ns);
    for (size_t i = 0; i < plan->schedule.count; i++)
        rp_text_format(&text, "%s\n    [\"%s\", %u]", i > 0 ? "," : "",
                       kinds[plan->schedule.steps[i].kind], plan->schedule.steps[i].index);
    rp_text_format(&text, "\n  ],\n  \"offsets\": [");
    for (size_t i = 0; i < plan->layout.count; i++) {
        const rp_placement *p = &plan->layout.placements[i];
        rp_text_format(&text, "%s\n    [%u, %lld, %lld]", i > 0 ? "," : "", p->step,
                       p->value == RP_NONE ? -1LL : (long long)p->value, (long long)p->offset);
    }
    rp_text_format(&text, "\n  ]\n}\n");
    const rp_status status = rp_file_replace(context, path, &text);
    rp_text_clear(&text);
    return status;
}
