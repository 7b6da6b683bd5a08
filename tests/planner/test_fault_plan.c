/* The n-th allocation fails, for every n, while plans are made, saved, loaded
 * and printed. */
#include <reprise/plan.h>

#include "fault.h"
#include "graphs.h"

#include <stdio.h>
#include <string.h>

typedef struct scene {
    const char *strategy;
    int64_t budget_bytes; /* RP_UNLIMITED, or 0 for the smallest feasible one */
    char path[RP_TEST_PATH];
} scene;

/* A chain of six forward and six backward nodes in blocks of two: small, so that most allocations
 * are those of the planner. */
static rp_status make_graph(rp_context *context, rp_graph **graph) {
    enum { LENGTH = 6 };
    rp_status status = rp_graph_create(context, "chain", 64, graph);
    const rp_value_info input = {"x", 64, RP_PERSISTENT, RP_NONE};
    const rp_value_info activation = {"a", 1000, RP_ACTIVATION, RP_NONE};
    if (status == RP_OK)
        status = rp_graph_add_value(*graph, &input, NULL);
    for (uint32_t i = 0; i < 2 * LENGTH && status == RP_OK; i++)
        status = rp_graph_add_value(*graph, &activation, NULL);
    for (uint32_t i = 0; i < 2 * LENGTH && status == RP_OK; i++) {
        const bool forward = i < LENGTH;
        const uint32_t inputs[2] = {i, 2 * LENGTH - i}, output = i + 1;
        char block[8];
        snprintf(block, sizeof block, "h.%u", i / 2);
        const rp_node_info node = {.name = "node",
                                   .block = forward ? block : "",
                                   .phase = forward ? RP_FORWARD : RP_BACKWARD,
                                   .recomputable = forward,
                                   .cost_ns = 100 + i,
                                   .workspace_bytes = 10,
                                   .inputs = inputs,
                                   .input_count = forward || inputs[0] == inputs[1] ? 1 : 2,
                                   .outputs = &output,
                                   .output_count = 1};
        status = rp_graph_add_node(*graph, &node, NULL);
    }
    const uint32_t last = 2 * LENGTH;
    if (status == RP_OK)
        status = rp_graph_set_outputs(*graph, &last, 1);
    return status == RP_OK ? rp_graph_finish(*graph) : status;
}

static rp_status make_plan(const rp_graph *graph, const scene *s, rp_plan **plan) {
    rp_plan_options options = RP_PLAN_OPTIONS;
    rp_plan_report report;
    options.strategy = s->strategy;
    options.budget_bytes = s->budget_bytes;
    if (s->budget_bytes == 0) {
        const rp_status status = rp_plan_limits(graph, &report);
        if (status != RP_OK)
            return status;
        options.budget_bytes = report.min_feasible_bytes;
    }
    const rp_status status = rp_plan_create(graph, &options, plan, &report);
    RP_CHECK((*plan != NULL) == (status == RP_OK), "%s, and a plan", rp_status_name(status));
    return status;
}

static rp_status plan_once(rp_context *context, void *user) {
    rp_graph *graph = NULL;
    rp_plan *plan = NULL;
    rp_status status = make_graph(context, &graph);
    if (status == RP_OK)
        status = make_plan(graph, user, &plan);
    rp_plan_destroy(plan);
    rp_graph_destroy(graph);
    return status;
}

static void test_every_allocation_of_every_strategy_may_fail(void) {
    for (size_t i = 0; rp_strategy_name(i) != NULL; i++) {
        char name[64];
        const bool numbered = strcmp(rp_strategy_name(i), "uniform") == 0 ||
                              strcmp(rp_strategy_name(i), "block") == 0;
        snprintf(name, sizeof name, "%s%s", rp_strategy_name(i), numbered ? ":1" : "");
        scene s = {.strategy = name, .budget_bytes = RP_UNLIMITED};
        rp_fault_sweep(name, plan_once, &s);
    }
}

static void test_every_allocation_at_the_minimum_may_fail(void) {
    scene s = {.strategy = "auto", .budget_bytes = 0};
    rp_fault_sweep("auto at the minimum", plan_once, &s);
}

/* ---- Plans as data
 * ---------------------------------------------------------------------------
 */

static bool count_bytes(void *user, const char *text, size_t length) {
    (void)text;
    *(size_t *)user += length;
    return true;
}

static rp_status reload(const rp_graph *graph, const rp_plan *plan, const scene *s) {
    rp_plan *loaded = NULL, *imported = NULL;
    size_t count = 0, printed = 0;
    const rp_step *steps = rp_plan_steps(plan, &count);
    rp_status status = rp_plan_save(plan, s->path);
    if (status == RP_OK)
        status = rp_plan_load(graph, s->path, RP_UNLIMITED, &loaded, NULL);
    if (status == RP_OK)
        status = rp_plan_import(graph, steps, count, RP_UNLIMITED, &imported, NULL);
    if (status == RP_OK)
        status = rp_plan_print(loaded, count_bytes, &printed);
    RP_CHECK(status != RP_OK || printed > 0, "the plan is printed as nothing");
    rp_plan_destroy(imported);
    rp_plan_destroy(loaded);
    remove(s->path);
    return status;
}

static rp_status plan_and_reload(rp_context *context, void *user) {
    rp_graph *graph = NULL;
    rp_plan *plan = NULL;
    rp_status status = make_graph(context, &graph);
    if (status == RP_OK)
        status = make_plan(graph, user, &plan);
    if (status == RP_OK)
        status = reload(graph, plan, user);
    rp_plan_destroy(plan);
    rp_graph_destroy(graph);
    return status;
}

static void test_every_allocation_of_saving_and_loading_a_plan_may_fail(void) {
    scene s = {.strategy = "auto", .budget_bytes = 0};
    rp_test_temporary(s.path, "fault-plan.json");
    rp_fault_sweep("plan files", plan_and_reload, &s);
}

static rp_status frontier(rp_context *context, void *user) {
    (void)user;
    rp_graph *graph = NULL;
    rp_frontier_point points[8];
    size_t count = 8;
    rp_status status = make_graph(context, &graph);
    if (status == RP_OK)
        status = rp_plan_frontier(graph, "auto", points, &count);
    rp_graph_destroy(graph);
    return status;
}

static void test_every_allocation_of_a_frontier_may_fail(void) {
    rp_fault_sweep("frontier", frontier, NULL);
}

static const rp_test tests[] = {
    RP_TEST(test_every_allocation_of_every_strategy_may_fail),
    RP_TEST(test_every_allocation_at_the_minimum_may_fail),
    RP_TEST(test_every_allocation_of_saving_and_loading_a_plan_may_fail),
    RP_TEST(test_every_allocation_of_a_frontier_may_fail),
};
RP_SUITE(fault_plan, tests)
