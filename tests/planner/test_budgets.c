/* Group I of cases.md: what is said when nothing fits. */
#include <stdio.h>

#include "expand.h"
#include "families.h"
#include "graphs.h"
#include "segments.h"
#include "written.h"

/* The message says what would fit and which node sets it. */
static void check_refusal(const rp_graph *graph, int64_t minimum, uint32_t peak_node) {
    char text[64];
    rp_node_info node;
    RP_REQUIRE(peak_node != RP_NONE, "no node is named");
    rp_graph_node(graph, peak_node, &node);
    snprintf(text, sizeof text, "%lld bytes", (long long)minimum);
    RP_CHECK_MESSAGE(graph->context, text);
    RP_CHECK_MESSAGE(graph->context, node.name);
}

/* The least peak of a chain over all boundaries that one level of segments can have, the last
 * segment kept. */
static int64_t least_of_one_level(const rp_graph *graph, uint32_t length) {
    int64_t least = INT64_MAX;
    uint32_t segment[64];
    rp_expander x;
    rp_drops drops;
    RP_REQUIRE_OK(graph->context, rp_expander_create(graph, &x));
    RP_REQUIRE_OK(graph->context, rp_drops_create(&x, &drops));
    RP_REQUIRE(graph->node_count <= 64, "%zu nodes", graph->node_count);
    for (uint32_t cuts = 0; cuts < 1u << (length - 1); cuts++) { /* bit i: behind op i */
        bool within = false;
        uint32_t current = 0;
        for (uint32_t n = 0; n < graph->node_count; n++) {
            segment[n] = n < length ? current : RP_NONE;
            current += n + 1 < length && (cuts >> n & 1) != 0;
        }
        for (uint32_t n = 0; n < length; n++)
            segment[n] = segment[n] == current ? RP_NONE : segment[n];
        RP_REQUIRE_OK(graph->context, rp_drops_reset(&x, &drops));
        RP_REQUIRE_OK(graph->context, rp_segments_drop(&x, segment, &drops));
        RP_REQUIRE_OK(graph->context, rp_expander_run(&x, &drops, RP_NO_LIMITS, &within));
        least = within && x.peak < least ? x.peak : least;
    }
    rp_drops_clear(graph->context, &drops);
    rp_expander_clear(&x);
    return least;
}

/* Twelve ops in 5 units: no strategy that replays a value once at most has a plan below 6. auto may
 * replay more often, so 6 is an upper bound for it. */
static void test_PL_05_infeasible_is_said_with_the_minimum(void) {
    static const char *const single[] = {"keep-all",  "uniform:1", "uniform:2", "uniform:3",
                                         "uniform:4", "block:1",   "block:6",   "sqrt"};
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, 12, 1, NULL, 1);
    rp_plan_report report;
    RP_CHECK_EQUAL(least_of_one_level(graph, 12), 6);
    for (size_t s = 0; s < sizeof single / sizeof single[0]; s++) {
        RP_CHECK_STATUS(context, rp_test_plan_within(graph, single[s], 5, &report), RP_INFEASIBLE);
        RP_CHECK(report.strategy_min_bytes >= 6, "%s: a minimum of %d", single[s],
                 (int)report.strategy_min_bytes);
        check_refusal(graph, report.strategy_min_bytes, report.peak_node);
        RP_CHECK_OK(context,
                    rp_test_plan_within(graph, single[s], report.strategy_min_bytes, &report));
        RP_CHECK_EQUAL(report.peak_bytes, report.strategy_min_bytes);
    }
    RP_REQUIRE_OK(context, rp_plan_limits(graph, &report));
    const int64_t least = report.min_feasible_bytes;
    RP_CHECK_EQUAL(least, 3); /* and no less: a backward op alone needs that */
    RP_CHECK_EQUAL(report.floor_bytes, 3);
    RP_CHECK_STATUS(context, rp_test_plan_within(graph, "auto", least - 1, &report), RP_INFEASIBLE);
    RP_CHECK_EQUAL(report.min_feasible_bytes, least);
    check_refusal(graph, least, report.peak_node);
    RP_CHECK_OK(context, rp_test_plan_within(graph, "auto", least, &report));
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* Without the marks one byte less than plain is possible; with them it is not, and one is named. */
static void test_PL_07_a_mark_that_makes_the_budget_impossible_is_named(void) {
    static const char *const marks[] = {"", " !keep"};
    rp_context *context = rp_test_context(1);
    for (int m = 0; m < 2; m++) {
        char text[512];
        rp_plan_report report;
        snprintf(text, sizeof text,
                 "p in 10\nf first 5 in -> a:100%s\nf second 5 a -> b:100%s\nf third 5 b -> c:100%s"
                 "\nb third.bwd 1 c -> dc:10\nb second.bwd 1 b dc -> db:10\n"
                 "b first.bwd 1 a db -> da:10\no da\n",
                 marks[m], marks[m], marks[m]);
        rp_graph *graph = rp_test_written_graph(context, text);
        RP_REQUIRE_OK(context, rp_test_plan_within(graph, "auto", RP_UNLIMITED, &report));
        RP_CHECK_EQUAL(report.recompute_nodes, 0);
        const int64_t plain = report.peak_bytes;
        RP_CHECK_STATUS(context, rp_test_plan_within(graph, "auto", plain - 1, &report),
                        m == 0 ? RP_OK : RP_INFEASIBLE);
        if (m == 1) {
            RP_CHECK_EQUAL(report.min_feasible_bytes, plain);
            RP_CHECK_MESSAGE(context, "mark keep of node");
        }
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_PL_05_infeasible_is_said_with_the_minimum),
    RP_TEST(test_PL_07_a_mark_that_makes_the_budget_impossible_is_named),
};
RP_SUITE(budgets, tests)
