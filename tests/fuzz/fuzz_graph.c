/* One input for the planner's readers: the text of a graph, and behind a byte 0 a plan of it, which
 * is a text that begins with '{', or bytes, two a step.
 *
 * Whatever the bytes: a status that the call may give, a message where it is no RP_OK, nothing made
 * where it is none, and no crash. Schedules of small graphs are judged by the naive checker too
 * (tests/planner/naive.h), and must be valid for both or for neither. */
#include "fuzz_graph.h"

#include "graph.h"
#include "naive.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

/* Above that the naive checker, which scans everything for every question, takes too long. */
enum { FEW_NODES = 40, FEW_VALUES = 60, MOST_STEPS = 200, PLANNED_NODES = 8 };

static bool is_small(const rp_graph *graph) {
    return rp_graph_node_count(graph) <= FEW_NODES && rp_graph_value_count(graph) <= FEW_VALUES;
}

static void check_made(const rp_graph *graph, const rp_plan *plan) {
    size_t count = 0;
    rp_plan_report report;
    const rp_step *steps = rp_plan_steps(plan, &count);
    rp_plan_get_report(plan, &report);
    RP_CHECK(report.peak_bytes >= report.live_peak_bytes, "the arena is below the live peak");
    RP_CHECK(report.lower_bound_ns <= report.recompute_cost_ns, "a bound above a plan");
    RP_CHECK(report.floor_bytes <= report.peak_bytes, "a floor above a plan");
    if (!is_small(graph) || count > MOST_STEPS)
        return;
    const rp_naive naive = rp_naive_check(graph, steps, count);
    RP_CHECK(naive.valid, "a plan that is not valid");
    RP_CHECK_EQUAL(report.live_peak_bytes, naive.live_peak_bytes);
    RP_CHECK_EQUAL(report.recompute_cost_ns, naive.recompute_cost_ns);
}

static void read_plan(const rp_graph *graph, const char *text, size_t length) {
    rp_plan *plan = NULL;
    const rp_status status = rp_plan_parse(graph, text, length, RP_UNLIMITED, &plan, NULL);
    RP_CHECK(status == RP_OK || status == RP_BAD_INPUT || status == RP_INFEASIBLE, "%s: %s",
             rp_status_name(status), rp_context_message(graph->context));
    RP_CHECK((plan != NULL) == (status == RP_OK), "made, or not, against the status");
    RP_CHECK(status == RP_OK || rp_context_message(graph->context)[0] != 0, "no message");
    if (plan != NULL)
        check_made(graph, plan);
    rp_plan_destroy(plan);
}

static void read_steps(const rp_graph *graph, const uint8_t *bytes, size_t size) {
    rp_step steps[MOST_STEPS];
    const size_t count = size / 2 < MOST_STEPS ? size / 2 : MOST_STEPS;
    rp_plan *plan = NULL;
    for (size_t i = 0; i < count; i++)
        steps[i] = (rp_step){bytes[2 * i] % 6, bytes[2 * i + 1]};
    const rp_status status = rp_plan_import(graph, steps, count, RP_UNLIMITED, &plan, NULL);
    RP_CHECK(status == RP_OK || status == RP_BAD_INPUT, "%s: %s", rp_status_name(status),
             rp_context_message(graph->context));
    if (is_small(graph))
        RP_CHECK(rp_naive_check(graph, steps, count).valid == (status == RP_OK), "%s",
                 status == RP_OK ? "valid, and not by the naive checker"
                                 : rp_context_message(graph->context));
    if (plan != NULL)
        check_made(graph, plan);
    rp_plan_destroy(plan);
}

/* What was read can be planned: the strategy keep-all, and beside it the search of the minimum. */
static void plan_small(const rp_graph *graph) {
    const rp_plan_options options = {sizeof options, RP_UNLIMITED, "keep-all"};
    rp_plan *plan = NULL;
    if (rp_graph_node_count(graph) > PLANNED_NODES || rp_graph_value_count(graph) > FEW_VALUES)
        return;
    const rp_status status = rp_plan_create(graph, &options, &plan, NULL);
    RP_CHECK(status == RP_OK || status == RP_INFEASIBLE || status == RP_BAD_INPUT, "%s: %s",
             rp_status_name(status), rp_context_message(graph->context));
    if (plan != NULL)
        check_made(graph, plan);
    rp_plan_destroy(plan);
}

bool rp_fuzz_graph(const uint8_t *bytes, size_t size) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = NULL;
    const uint8_t *end = memchr(bytes, 0, size);
    const size_t length = end != NULL ? (size_t)(end - bytes) : size;
    const size_t rest = end != NULL ? size - length - 1 : 0;
    const rp_status status = rp_graph_parse(context, (const char *)bytes, length, &graph);
    RP_CHECK(status == RP_OK || status == RP_BAD_INPUT, "%s: %s", rp_status_name(status),
             rp_context_message(context));
    RP_CHECK((graph != NULL) == (status == RP_OK), "made, or not, against the status");
    RP_CHECK(status == RP_OK || rp_context_message(context)[0] != 0, "no message");
    if (graph != NULL && rest > 0 && end[1] == '{')
        read_plan(graph, (const char *)end + 1, rest);
    else if (graph != NULL && rest > 0)
        read_steps(graph, end + 1, rest);
    if (graph != NULL)
        plan_small(graph);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
    return status == RP_OK;
}

/* libFuzzer's entry. The bytes stand in a block of exactly their size, so that a sanitizer sees
 * whoever reads behind them. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    uint8_t *copy = malloc(size > 0 ? size : 1);
    RP_REQUIRE(copy != NULL, "no memory");
    if (size > 0)
        memcpy(copy, bytes, size);
    rp_fuzz_graph(copy, size);
    free(copy);
    return 0;
}
