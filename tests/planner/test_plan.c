/* Plans: what a budget selects, what comes from elsewhere, files, text, the frontier. */
#include "expand.h"
#include "graphs.h"
#include "steps.h"
#include "strategy.h"
#include "verify.h"
#include "written.h"

#include <reprise/plan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static rp_status create(const rp_graph *graph, const char *strategy, int64_t budget, rp_plan **plan,
                        rp_plan_report *report) {
    rp_plan_options options = RP_PLAN_OPTIONS;
    options.strategy = strategy;
    options.budget_bytes = budget;
    return rp_plan_create(graph, &options, plan, report);
}

static const char *const strategies[] = {"keep-all",       "uniform:1", "uniform:2",
                                         "block:1",        "block:3",   "sqrt",
                                         "sqrt-recursive", "selective", "auto"};
enum { STRATEGIES = sizeof strategies / sizeof strategies[0] };

/* Everything that a plan says of itself is true. */
static void check_plan(const rp_plan *plan, int64_t budget) {
    const rp_graph *graph = rp_plan_graph(plan);
    size_t steps = 0, placements = 0;
    const rp_step *s = rp_plan_steps(plan, &steps);
    const rp_placement *p = rp_plan_placements(plan, &placements);
    rp_plan_report report;
    rp_verdict verdict;
    int64_t cost = 0;
    rp_plan_get_report(plan, &report);
    RP_CHECK_OK(graph->context,
                rp_verify_placements(graph, s, steps, p, placements, report.peak_bytes, &verdict));
    RP_CHECK_EQUAL(verdict.arena_bytes, report.peak_bytes);
    RP_CHECK_EQUAL(verdict.live_peak_bytes, report.live_peak_bytes);
    RP_CHECK_EQUAL(verdict.recompute_cost_ns, report.recompute_cost_ns);
    RP_CHECK_EQUAL(verdict.recompute_nodes, report.recompute_nodes);
    RP_CHECK_EQUAL(verdict.peak_node, report.peak_node);
    for (uint32_t i = 0; i < graph->node_count; i++)
        cost += graph->nodes[i].cost_ns;
    RP_CHECK_EQUAL(report.total_cost_ns, cost);
    RP_CHECK_EQUAL(report.budget_bytes, budget);
    RP_CHECK(report.peak_bytes <= budget, "peak %lld above %lld", (long long)report.peak_bytes,
             (long long)budget);
    RP_CHECK(report.floor_bytes <= report.live_peak_bytes, "floor %lld above live peak %lld",
             (long long)report.floor_bytes, (long long)report.live_peak_bytes);
    RP_CHECK(report.lower_bound_ns <= report.recompute_cost_ns, "bound above cost");
}

/* ---- Budgets --------------------------------------------------------------------------------- */

/* From the minimum to keep-all, and one byte to each side. */
static void check_budgets(const rp_graph *graph, const char *strategy, int steps) {
    rp_context *context = graph->context;
    rp_plan_report all, report;
    rp_plan *plan = NULL;
    int64_t cost = INT64_MAX, peak = 0;
    const rp_status status = create(graph, strategy, RP_UNLIMITED, &plan, &all);
    if (status != RP_OK) {
        RP_CHECK(status == RP_NOT_APPLICABLE || status == RP_INFEASIBLE, "%s: %s", strategy,
                 rp_context_message(context));
        RP_CHECK(plan == NULL, "a plan and a failure");
        return;
    }
    rp_plan_destroy(plan);
    const int64_t low = all.strategy_min_bytes, high = all.keep_all_peak_bytes;
    RP_CHECK(all.min_feasible_bytes <= low, "%s goes below auto", strategy);
    RP_CHECK(all.floor_bytes <= all.min_feasible_bytes, "a plan below the floor");
    for (int i = 0; i <= steps; i++) {
        const int64_t budget = low + (high > low ? (high - low) / steps * i : 0);
        RP_REQUIRE_OK(context, create(graph, strategy, budget, &plan, &report));
        check_plan(plan, budget);
        RP_CHECK(report.recompute_cost_ns <= cost, "%s: a larger budget costs more", strategy);
        RP_CHECK(report.peak_bytes >= peak, "%s: a larger budget has a smaller peak", strategy);
        RP_CHECK_EQUAL(report.min_feasible_bytes, all.min_feasible_bytes);
        RP_CHECK_EQUAL(report.strategy_min_bytes, low);
        cost = report.recompute_cost_ns;
        peak = report.peak_bytes;
        RP_CHECK(i > 0 || peak == low, "the minimum is not reached");
        rp_plan_destroy(plan);
    }
    if (low > 0) {
        RP_CHECK_STATUS(context, create(graph, strategy, low - 1, &plan, &report), RP_INFEASIBLE);
        RP_CHECK(plan == NULL, "a plan below the minimum");
        RP_CHECK_EQUAL(report.strategy_min_bytes, low);
        RP_CHECK_EQUAL(report.keep_all_peak_bytes, high);
    }
}

static void test_budgets_of_models(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graphs[] = {rp_test_chain(context, 12, 1, NULL, 1),
                          rp_test_transformer(context, 3, false),
                          rp_test_transformer(context, 2, true), rp_test_unet(context, 5)};
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++) {
        for (size_t k = 0; k < STRATEGIES; k++)
            check_budgets(graphs[i], strategies[k], 10);
        rp_graph_destroy(graphs[i]);
    }
    rp_context_destroy(context);
}

static void test_budgets_of_random_graphs(void) {
    rp_context *context = rp_test_context(1);
    const uint64_t graphs = rp_test_samples(16, 500);
    for (uint64_t seed = 1; seed <= graphs; seed++) {
        rp_graph *graph =
            rp_test_random_graph(context, seed, 1 + (uint32_t)(seed * 7 % 40),
                                 RP_TEST_EVERYTHING & (seed % 3 == 0 ? -1 : ~RP_TEST_RECOMPUTE));
        for (size_t k = 0; k < STRATEGIES; k++)
            check_budgets(graph, strategies[k], 5);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

/* 0 and 1 byte, and as many as there are. */
static void test_PL_01_nonsense_budgets(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, 12, 4, NULL, 1);
    rp_plan_report report;
    rp_plan *plan = NULL;
    for (int64_t budget = 0; budget < 2; budget++) {
        RP_CHECK_STATUS(context, create(graph, NULL, budget, &plan, &report), RP_INFEASIBLE);
        RP_CHECK(report.min_feasible_bytes > 1 && report.peak_node != RP_NONE, "no minimum");
    }
    RP_CHECK_STATUS(context, create(graph, NULL, -1, &plan, &report), RP_INVALID_ARGUMENT);
    RP_CHECK_STATUS(context, create(graph, NULL, INT64_MIN, &plan, &report), RP_INVALID_ARGUMENT);
    RP_REQUIRE_OK(context, create(graph, NULL, INT64_MAX, &plan, &report));
    RP_CHECK_EQUAL(report.recompute_nodes, 0);
    RP_CHECK_EQUAL(report.peak_bytes, report.keep_all_peak_bytes);
    rp_plan_destroy(plan);
    rp_plan_options options = {sizeof options - 1, 0, NULL};
    RP_CHECK_STATUS(context, rp_plan_create(graph, &options, &plan, NULL), RP_INVALID_ARGUMENT);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_PL_02_extremes_are_no_other_path(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_transformer(context, 2, false);
    rp_plan_report limits, report;
    rp_plan *plan = NULL;
    RP_REQUIRE_OK(context, rp_plan_limits(graph, &limits));
    const int64_t plain = limits.keep_all_peak_bytes, low = limits.min_feasible_bytes;
    const int64_t budgets[] = {low, low + 1, plain - 1, plain, plain + 1};
    for (size_t i = 0; i < 5; i++) {
        RP_REQUIRE_OK(context, create(graph, "auto", budgets[i], &plan, &report));
        check_plan(plan, budgets[i]);
        RP_CHECK((report.recompute_nodes == 0) == (i >= 3), "%llu replays with %lld bytes",
                 (unsigned long long)report.recompute_nodes, (long long)budgets[i]);
        rp_plan_destroy(plan);
    }
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_strategies_by_name(void) {
    static const struct {
        const char *name, *message;
    } rows[] = {{"", "strategy \"\" is unknown; known are keep-all, uniform:N, block:N, sqrt"},
                {"optimale", "strategy \"optimale\" is unknown"},
                {"aut", "is unknown"},
                {"uniform", "uniform needs a number from 1 to 4294967294, as in uniform:2"},
                {"uniform:", "needs a number"},
                {"uniform:0", "needs a number"},
                {"uniform:-1", "needs a number"},
                {"uniform:2x", "needs a number"},
                {"uniform:4294967295", "needs a number"},
                {"uniform:99999999999999999999999", "needs a number"},
                {"auto:1", "auto takes no number"},
                {"keep-all:", "keep-all takes no number"}};
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, 3, 1, NULL, 1);
    rp_plan *plan = NULL;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        RP_CHECK_STATUS(context, create(graph, rows[i].name, 100, &plan, NULL),
                        RP_INVALID_ARGUMENT);
        RP_CHECK_MESSAGE(context, rows[i].message);
    }
    size_t count = 0;
    while (rp_strategy_name(count) != NULL) {
        RP_CHECK(rp_strategy_description(count) != NULL, "%s", rp_strategy_name(count));
        RP_CHECK_STRING(rp_strategies[count].name, rp_strategy_name(count));
        count++;
    }
    RP_CHECK(count >= 6 && rp_strategies[count].name == NULL, "%zu strategies", count);
    RP_CHECK(rp_strategy_description(count) == NULL && rp_strategy_name(SIZE_MAX) == NULL, "end");
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_unfinished_graphs_have_no_plans(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = NULL;
    rp_plan *plan = NULL;
    rp_plan_report report;
    rp_frontier_point point;
    size_t count = 1;
    RP_REQUIRE_OK(context, rp_graph_create(context, "g", 1, &graph));
    RP_CHECK_STATUS(context, create(graph, NULL, 1, &plan, NULL), RP_BAD_STATE);
    RP_CHECK_STATUS(context, rp_plan_limits(graph, &report), RP_BAD_STATE);
    RP_CHECK_STATUS(context, rp_plan_frontier(graph, NULL, &point, &count), RP_BAD_STATE);
    RP_CHECK_STATUS(context, rp_plan_import(graph, NULL, 0, 1, &plan, NULL), RP_BAD_STATE);
    RP_CHECK_STATUS(context, rp_plan_parse(graph, "{}", 2, 1, &plan, NULL), RP_BAD_STATE);
    RP_CHECK_STATUS(context, rp_graph_save(graph, "never.json"), RP_BAD_STATE);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* A mark that nothing can honour: no budget is enough, and every strategy says which it is. */
static void test_marks_that_leave_no_plan(void) {
    static const char text[] = "p x 8\n"
                               "p s 2\n"
                               "f F 1 s -> a:4 !recompute\n"
                               "f S 1 x -> s b:1 !once\n"
                               "b B 1 a b -> c:1\n"
                               "o c\n";
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, text);
    rp_plan *plan = NULL;
    rp_plan_report report = {.min_feasible_bytes = 1};
    RP_CHECK_STATUS(context, create(graph, NULL, RP_UNLIMITED, &plan, &report), RP_INFEASIBLE);
    RP_CHECK_MESSAGE(context, "marked recompute");
    RP_CHECK_EQUAL(report.min_feasible_bytes, RP_UNLIMITED);
    RP_CHECK_STATUS(context, rp_plan_limits(graph, &report), RP_INFEASIBLE);
    RP_CHECK_EQUAL(report.min_feasible_bytes, RP_UNLIMITED);
    RP_CHECK(report.keep_all_peak_bytes > 0, "keep-all does not look at marks");
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* The same graph in another process: other addresses, other names, the same plan. */
static void test_DE_05_plans_do_not_depend_on_the_process(void) {
    uint64_t hashes[2][3];
    for (int run = 0; run < 2; run++) {
        rp_context *context = rp_test_context(1 + run);
        void *ballast = malloc(100000 + 31337 * (size_t)run);
        rp_graph *graphs[] = {
            rp_test_random_graph(context, 9, 40, RP_TEST_EVERYTHING & ~RP_TEST_RECOMPUTE),
            rp_test_transformer(context, 2, true), rp_test_unet(context, 4)};
        for (size_t i = 0; i < 3; i++) {
            rp_plan_report limits, report;
            rp_plan *plan = NULL;
            RP_REQUIRE_OK(context, rp_plan_limits(graphs[i], &limits));
            RP_REQUIRE_OK(context,
                          create(graphs[i], NULL,
                                 (limits.min_feasible_bytes + limits.keep_all_peak_bytes) / 2,
                                 &plan, &report));
            hashes[run][i] = report.plan_hash;
            rp_plan_destroy(plan);
            rp_graph_destroy(graphs[i]);
        }
        free(ballast);
        rp_context_destroy(context);
    }
    for (size_t i = 0; i < 3; i++)
        RP_CHECK(hashes[0][i] == hashes[1][i], "graph %zu", i);
}

/* ---- The floor ------------------------------------------------------------------------------- */

static int64_t floor_of(const char *text) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, text);
    rp_plan_report report;
    RP_REQUIRE_OK(context, rp_plan_limits(graph, &report));
    rp_graph_destroy(graph);
    rp_context_destroy(context);
    return report.floor_bytes;
}

static void test_floor_by_hand(void) {
    static const struct {
        const char *text;
        int64_t floor;
    } rows[] = {
        {"p x 8\n", 8},
        {"p x 8\nf F 1 x -> a:4\nf G 1 a -> b:2\no b\n", 8 + 6},
        /* outputs at the end */
        {"p x 8\nf F 1 x -> a:4\nf G 1 x -> b:5\no a b\n", 8 + 9},
        /* in place; the second output cannot take the same place */
        {"p x 8\nf F 1 x -> a:4\nf G 1 a -> b:4 !b/a\n", 8 + 4},
        {"p x 8\nf F 1 x -> a:4\nf G 1 a -> b:4 c:4 !b/a !c/a\n", 8 + 8},
        /* a view counts its base once, a view of a parameter nothing */
        {"p x 8\nf F 1 x -> a:4\nf V 1 a -> v=a\nf G 1 a v -> b:3\n", 8 + 7},
        {"p x 8\nf V 1 x -> v=x\nf G 1 v -> b:3\n", 8 + 3},
        /* two views may lie on two storages, and both places be taken: no less, as exact knows */
        {"p x 0\nf F 1 x -> a:10\nf V 1 a -> v=a\nf W 1 a -> w=a\n"
         "f G 1 v w -> b:10 c:10 !b/v !c/w\n",
         20},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        RP_CHECK(floor_of(rows[i].text) == rows[i].floor, "%s: %lld", rows[i].text,
                 (long long)floor_of(rows[i].text));
}

/* The schedule that reaches the last floor above: the base is recomputed, so that each view has a
 * storage of its own. */
static void test_floor_holds_for_views_on_two_storages(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, "p x 0\nf F 1 x -> a:10\nf V 1 a -> v=a\n"
                                                     "f W 1 a -> w=a\n"
                                                     "f G 1 v w -> b:10 c:10 !b/v !c/w\n");
    rp_schedule schedule =
        rp_test_steps(graph, "run F run V drop a run F run W drop a run G drop v drop w");
    rp_verdict verdict;
    rp_plan_report report;
    RP_REQUIRE_OK(context, rp_verify_schedule(graph, schedule.steps, schedule.count, &verdict));
    RP_CHECK_EQUAL(verdict.live_peak_bytes, 20);
    RP_REQUIRE_OK(context, rp_plan_limits(graph, &report));
    RP_CHECK(report.floor_bytes <= verdict.live_peak_bytes, "floor %lld",
             (long long)report.floor_bytes);
    rp_schedule_clear(context, &schedule);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* ---- The frontier ---------------------------------------------------------------------------- */

static void check_frontier(const rp_graph *graph, const char *strategy, size_t room) {
    rp_context *context = graph->context;
    rp_frontier_point points[64];
    rp_plan_report report;
    rp_plan *plan = NULL;
    size_t count = room;
    RP_REQUIRE_OK(context, rp_plan_frontier(graph, strategy, points, &count));
    RP_REQUIRE(count >= 1 && count <= room, "%zu points", count);
    RP_REQUIRE_OK(context, create(graph, strategy, RP_UNLIMITED, &plan, &report));
    rp_plan_destroy(plan);
    RP_CHECK_EQUAL(points[0].budget_bytes, report.strategy_min_bytes);
    if (room > 1)
        RP_CHECK_EQUAL(points[count - 1].recompute_cost_ns, report.recompute_cost_ns);
    for (size_t i = 0; i < count; i++) {
        RP_CHECK_EQUAL(points[i].budget_bytes, points[i].peak_bytes);
        RP_CHECK(i == 0 || (points[i - 1].peak_bytes < points[i].peak_bytes &&
                            points[i - 1].recompute_cost_ns > points[i].recompute_cost_ns),
                 "point %zu does not go on from the last", i);
        RP_REQUIRE_OK(context, create(graph, strategy, points[i].budget_bytes, &plan, &report));
        RP_CHECK_EQUAL(report.peak_bytes, points[i].peak_bytes);
        RP_CHECK_EQUAL(report.recompute_cost_ns, points[i].recompute_cost_ns);
        rp_plan_destroy(plan);
    }
}

static void test_frontier_points_are_plans(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graphs[] = {
        rp_test_chain(context, 12, 1, NULL, 1), rp_test_transformer(context, 2, false),
        rp_test_random_graph(context, 5, 30, RP_TEST_EVERYTHING & ~RP_TEST_RECOMPUTE)};
    static const size_t rooms[] = {1, 2, 5, 64};
    for (size_t i = 0; i < 3; i++) {
        for (size_t r = 0; r < 4; r++) {
            check_frontier(graphs[i], NULL, rooms[r]);
            check_frontier(graphs[i], "keep-all", rooms[r]);
        }
        rp_graph_destroy(graphs[i]);
    }
    rp_context_destroy(context);
}

static void test_frontier_without_room(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, 4, 1, NULL, 1);
    rp_frontier_point point = {-1, -1, -1};
    size_t count = 0;
    RP_CHECK_OK(context, rp_plan_frontier(graph, NULL, &point, &count));
    RP_CHECK_EQUAL(count, 0);
    RP_CHECK_EQUAL(point.budget_bytes, -1);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* ---- Text ------------------------------------------------------------------------------------ */

typedef struct sink {
    char text[20000];
    size_t length, calls, stop_at;
} sink;

static bool write_text(void *user, const char *text, size_t length) {
    sink *s = user;
    if (++s->calls == s->stop_at || s->length + length >= sizeof s->text)
        return false;
    memcpy(s->text + s->length, text, length);
    s->length += length;
    s->text[s->length] = '\0';
    return true;
}

static void test_printed_plans(void) {
    static const char wanted[] = "plan imported of graph written\n"
                                 "peak 28 bytes, 28 of them live, budget 30\n"
                                 "recomputes 1 nodes in 10 ns; all nodes once take 61 ns\n"
                                 "       persistent x [0, 8)\n"
                                 "     0 run F -> a [8, 16)\n"
                                 "     1 run V ->\n"
                                 "     2 drop a\n"
                                 "     3 recompute F -> a [16, 24)\n"
                                 "     4 run G -> b [24, 28)   <- peak\n"
                                 "     5 drop v\n"
                                 "     6 drop a\n";
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, "p x 8\nf F 10 x -> a:8\nf V 1 a -> v=a\n"
                                                     "f G 50 a v -> b:4\no b\n");
    rp_schedule schedule = rp_test_steps(graph, "run F run V drop a run F run G drop v drop a");
    rp_plan *plan = NULL;
    static sink s;
    s = (sink){.length = 0};
    RP_REQUIRE_OK(context, rp_plan_import(graph, schedule.steps, schedule.count, 30, &plan, NULL));
    RP_CHECK_OK(context, rp_plan_print(plan, write_text, &s));
    RP_CHECK_STRING(s.text, wanted);
    s = (sink){.stop_at = 1};
    RP_CHECK_STATUS(context, rp_plan_print(plan, write_text, &s), RP_IO_ERROR);
    RP_CHECK_STATUS(context, rp_plan_print(plan, NULL, NULL), RP_INVALID_ARGUMENT);
    rp_plan_destroy(plan);
    rp_schedule_clear(context, &schedule);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_budgets_of_models),
    RP_TEST(test_budgets_of_random_graphs),
    RP_TEST(test_PL_01_nonsense_budgets),
    RP_TEST(test_PL_02_extremes_are_no_other_path),
    RP_TEST(test_strategies_by_name),
    RP_TEST(test_unfinished_graphs_have_no_plans),
    RP_TEST(test_marks_that_leave_no_plan),
    RP_TEST(test_DE_05_plans_do_not_depend_on_the_process),
    RP_TEST(test_floor_by_hand),
    RP_TEST(test_floor_holds_for_views_on_two_storages),
    RP_TEST(test_frontier_points_are_plans),
    RP_TEST(test_frontier_without_room),
    RP_TEST(test_printed_plans),
};
RP_SUITE(plan, tests)
