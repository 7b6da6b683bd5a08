/* Reading a plan, and what its graph would need at least. */
#include "load_plan.h"

#include <inttypes.h>
#include <stdio.h>

/* Behind the message of a plan that is larger than its budget: the minimum and what sets it. */
static bool fail_infeasible(const rp_graph *graph, const rp_plan_report *limits, failure *failure) {
    char first[sizeof failure->text];
    rp_node_info node = {.name = ""};
    if (limits->min_feasible_bytes == RP_UNLIMITED)
        return false;
    if (limits->peak_node != RP_NONE)
        rp_graph_node(graph, limits->peak_node, &node);
    snprintf(first, sizeof first, "%s", failure->text);
    return fail(failure, STATUS_INFEASIBLE,
                "%.600s; the smallest feasible budget is %" PRId64 " bytes, set by node %" PRIu32
                " (%.80s)",
                first, limits->min_feasible_bytes, limits->peak_node, node.name);
}

bool load_plan(const rp_graph *graph, rp_context *context, const char *path, int64_t budget,
               rp_plan **plan, rp_plan_report *report, failure *failure) {
    rp_plan_report limits;
    const rp_status loaded = rp_plan_load(graph, path, budget, plan, report);
    if (loaded != RP_OK)
        fail_library(failure, context, loaded, path);
    if (loaded != RP_OK && loaded != RP_INFEASIBLE)
        return false;
    const rp_status status = rp_plan_limits(graph, &limits);
    if (status != RP_OK && status != RP_INFEASIBLE)
        return fail_library(failure, context, status, path);
    if (loaded == RP_INFEASIBLE) {
        *report = limits;
        report->budget_bytes = budget;
        return fail_infeasible(graph, &limits, failure);
    }
    report->keep_all_peak_bytes = limits.keep_all_peak_bytes;
    report->min_feasible_bytes = limits.min_feasible_bytes;
    report->floor_bytes = limits.floor_bytes;
    return true;
}
