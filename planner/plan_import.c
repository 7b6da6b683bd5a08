/* Plans made elsewhere: nothing is believed, everything is verified; what is missing is laid out.
 */
#include "plan_import.h"

#include <stdlib.h>
#include <string.h>

#include "lifetimes.h"
#include "verify.h"

/* Bounds of the plan against its budget, and what the report of an import adds. */
static rp_status admit(rp_plan *plan, const rp_draft *draft, int64_t claimed_bytes) {
    rp_context *context = plan->graph->context;
    const int64_t peak =
        claimed_bytes > plan->report.peak_bytes ? claimed_bytes : plan->report.peak_bytes;
    plan->report.strategy_min_bytes = plan->report.peak_bytes;
    const rp_status status = rp_plan_find_keep_all(plan->graph, &plan->report.keep_all_peak_bytes);
    if (status != RP_OK || peak <= draft->budget_bytes)
        return status;
    return rp_fail(context, draft->own_budget ? RP_BAD_INPUT : RP_INFEASIBLE,
                   "the plan needs %lld bytes, which is above %s budget of %lld bytes",
                   (long long)peak, draft->own_budget ? "its own" : "the",
                   (long long)draft->budget_bytes);
}

/* ---- Layouts from elsewhere ---- */

static int compare_placements(const void *a, const void *b) {
    const rp_placement *x = a, *y = b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    return x->value == y->value ? 0 : x->value < y->value ? -1 : 1;
}

/* The place of (step, value) in an ascending list, or `count`. */
static size_t find_placement(const rp_placement *list, size_t count, uint32_t step,
                             uint32_t value) {
    const rp_placement key = {step, value, 0};
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (compare_placements(&list[middle], &key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && compare_placements(&list[low], &key) == 0 ? low : count;
}

/* Persistent values at step 0. If they have no place they get the lowest addresses, and everything
 * else moves up by their bytes (`*shift`). */
static bool complete_persistent(const rp_graph *graph, const rp_draft *draft, rp_layout *layout,
                                int64_t *shift) {
    int64_t *offsets = rp_alloc(graph->context, graph->value_count, sizeof *offsets);
    if (offsets == NULL)
        return false;
    bool any = false;
    for (size_t i = 0; i < draft->placement_count; i++) {
        const rp_placement *p = &draft->placements[i];
        if (p->value == RP_NONE || !graph->values[p->value].persistent)
            continue;
        offsets[p->value] = p->offset;
        any = any || graph->values[p->value].bytes > 0;
    }
    int64_t next = 0;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        if (!graph->values[v].persistent)
            continue;
        layout->placements[layout->count++] = (rp_placement){0, v, any ? offsets[v] : next};
        next += graph->values[v].bytes;
    }
    *shift = any ? 0 : next;
    rp_free(graph->context, offsets);
    return true;
}

/* An entry for every storage: the given one, for workspaces also the hole that was found. */
static void complete_storages(const rp_graph *graph, const rp_draft *draft,
                              const rp_lifetimes *lifetimes, const rp_placement *workspaces,
                              size_t workspace_count, int64_t shift, rp_layout *layout) {
    for (size_t i = 0; i < lifetimes->storage_count; i++) {
        const rp_storage *s = &lifetimes->storages[i];
        const bool empty = s->value != RP_NONE && graph->values[s->value].bytes == 0;
        const size_t given =
            find_placement(draft->placements, draft->placement_count, s->step, s->value);
        const size_t found = find_placement(workspaces, workspace_count, s->step, s->value);
        int64_t offset = 0;
        if (given < draft->placement_count)
            offset = draft->placements[given].offset + (empty ? 0 : shift);
        else if (found < workspace_count)
            offset = workspaces[found].offset + shift;
        layout->placements[layout->count++] = (rp_placement){s->step, s->value, offset};
    }
}

static rp_status complete_layout(const rp_graph *graph, const rp_draft *draft,
                                 const rp_placement *workspaces, size_t workspace_count,
                                 rp_layout *layout) {
    rp_context *context = graph->context;
    rp_lifetimes lifetimes;
    int64_t shift = 0;
    rp_status status =
        rp_lifetimes_create(graph, draft->schedule.steps, draft->schedule.count, &lifetimes);
    if (status != RP_OK)
        return status;
    layout->placements = rp_resize(context, NULL, graph->value_count + lifetimes.storage_count,
                                   sizeof *layout->placements);
    if (layout->placements != NULL && complete_persistent(graph, draft, layout, &shift)) {
        complete_storages(graph, draft, &lifetimes, workspaces, workspace_count, shift, layout);
        qsort(layout->placements, layout->count, sizeof *layout->placements, compare_placements);
    } else {
        status = rp_fail_memory(context, "the layout of a plan");
        rp_layout_clear(context, layout);
    }
    rp_lifetimes_clear(context, &lifetimes);
    return status;
}

/* The given offsets are kept, and what they lack is added. */
static rp_status take_layout(const rp_graph *graph, rp_draft *draft, rp_layout *layout) {
    const int64_t limit = draft->peak_bytes >= 0 ? draft->peak_bytes : INT64_MAX;
    rp_placement *workspaces = NULL;
    size_t workspace_count = 0;
    rp_verdict verdict;
    qsort(draft->placements, draft->placement_count, sizeof *draft->placements, compare_placements);
    rp_status status = rp_verify_find_workspaces(
        graph, draft->schedule.steps, draft->schedule.count, draft->placements,
        draft->placement_count, limit, &verdict, &workspaces, &workspace_count);
    if (status != RP_OK)
        return status;
    status = complete_layout(graph, draft, workspaces, workspace_count, layout);
    layout->arena_bytes = verdict.arena_bytes;
    layout->live_peak_bytes = verdict.live_peak_bytes;
    rp_free(graph->context, workspaces);
    return status;
}

/* ---- Import ---- */

/* What the draft says of itself against what is true. */
static rp_status check_claims(const rp_graph *graph, const rp_draft *draft,
                              const rp_verdict *verdict) {
    if (draft->live_peak_bytes >= 0 && draft->live_peak_bytes != verdict->live_peak_bytes)
        return rp_fail(graph->context, RP_BAD_INPUT, "live_peak_bytes says %lld, it is %lld",
                       (long long)draft->live_peak_bytes, (long long)verdict->live_peak_bytes);
    if (draft->peak_bytes >= 0 && draft->peak_bytes < verdict->live_peak_bytes)
        return rp_fail(graph->context, RP_BAD_INPUT,
                       "peak_bytes says %lld, but %lld bytes are live at step %u",
                       (long long)draft->peak_bytes, (long long)verdict->live_peak_bytes,
                       verdict->peak_step);
    return RP_OK;
}

rp_status rp_plan_admit(const rp_graph *graph, rp_draft *draft, rp_plan **plan,
                        rp_plan_report *report) {
    rp_verdict verdict;
    rp_layout layout = {.placements = NULL};
    const bool given = draft->placement_count > 0;
    rp_status status =
        rp_verify_schedule(graph, draft->schedule.steps, draft->schedule.count, &verdict);
    if (status == RP_OK)
        status = check_claims(graph, draft, &verdict);
    if (status == RP_OK)
        status = given ? take_layout(graph, draft, &layout)
                       : rp_layout_create(graph, &draft->schedule, RP_LAYOUT_THOROUGH, &layout);
    if (status != RP_OK)
        return status;
    rp_plan *made = NULL;
    status = rp_plan_assemble(graph, draft->strategy != NULL ? draft->strategy : "imported",
                              &draft->schedule, &layout, draft->budget_bytes, &made);
    if (status != RP_OK)
        return status;
    /* Without offsets the stated peak is one that our layout need not meet to the byte. */
    status = admit(made, draft, given ? draft->peak_bytes : -1);
    if (status == RP_OK)
        status = rp_plan_add_bounds(made);
    if (report != NULL && (status == RP_OK || status == RP_INFEASIBLE))
        *report = made->report;
    if (status == RP_OK)
        *plan = made;
    else
        rp_plan_destroy(made);
    return status;
}

rp_status rp_plan_check_import(const rp_graph *graph, int64_t budget_bytes) {
    if (!graph->finished)
        return rp_fail(graph->context, RP_BAD_STATE, "plan: the graph is not finished");
    if (budget_bytes < 0)
        return rp_fail(graph->context, RP_INVALID_ARGUMENT,
                       "plan: the budget is %lld bytes, 0 or more are needed",
                       (long long)budget_bytes);
    return RP_OK;
}

void rp_draft_clear(rp_context *context, rp_draft *draft) {
    rp_schedule_clear(context, &draft->schedule);
    rp_free(context, draft->placements);
    draft->placements = NULL;
}

rp_status rp_plan_import(const rp_graph *graph, const rp_step *steps, size_t count,
                         int64_t budget_bytes, rp_plan **plan, rp_plan_report *report) {
    if (plan == NULL)
        return RP_INVALID_ARGUMENT;
    *plan = NULL;
    if (graph == NULL)
        return RP_INVALID_ARGUMENT;
    rp_context *context = graph->context;
    if (steps == NULL && count > 0)
        return rp_fail(context, RP_INVALID_ARGUMENT, "plan: the list of steps is NULL");
    rp_status status = rp_plan_check_import(graph, budget_bytes);
    if (status != RP_OK)
        return status;
    rp_draft draft = RP_DRAFT(budget_bytes);
    if (!rp_reserve(context, &draft.schedule.steps, &draft.schedule.capacity, count, sizeof *steps))
        return rp_fail_memory(context, "a plan");
    if (count > 0)
        memcpy(draft.schedule.steps, steps, count * sizeof *steps);
    draft.schedule.count = count;
    status = rp_plan_admit(graph, &draft, plan, report);
    rp_draft_clear(context, &draft);
    return status;
}
