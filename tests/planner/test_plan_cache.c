/* The plan cache: a plan comes back only for the same graph, and is the one that would be made. */
#include "fault.h"
#include "graphs.h"
#include "written.h"

#include <reprise/plan.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 512 };

/* A small step for a batch of so many: sizes grow with it. */
static rp_graph *batch_graph(rp_context *context, int batch) {
    char text[TEXT_BYTES];
    snprintf(text, sizeof text,
             "p x %d\nf F1 10 x -> a:%d\nf F2 10 a -> b:%d\nf F3 10 b -> c:%d\n"
             "b B3 20 b c -> d:%d\nb B2 20 a d -> e:%d\nb B1 20 x e -> g:8\no g\n",
             8 * batch, 8 * batch, 8 * batch, 8 * batch, 8 * batch, 8 * batch);
    return rp_test_written_graph(context, text);
}

static rp_plan *get(rp_plan_cache *cache, const rp_graph *graph, int64_t budget, bool hit) {
    rp_plan_options options = RP_PLAN_OPTIONS;
    rp_plan_report report, own;
    rp_plan *plan = NULL;
    bool was = !hit;
    options.budget_bytes = budget;
    RP_REQUIRE_OK(NULL, rp_plan_cache_get(cache, graph, &options, &plan, &report, &was));
    RP_CHECK(was == hit, "%s", was ? "a hit" : "a miss");
    rp_plan_get_report(plan, &own);
    RP_CHECK(own.plan_hash == report.plan_hash && rp_plan_graph(plan) == graph, "another plan");
    return plan;
}

static void check_same(const rp_graph *graph, const rp_plan *plan, int64_t budget) {
    rp_plan_options options = RP_PLAN_OPTIONS;
    rp_plan_report a, b;
    rp_plan *fresh = NULL;
    options.budget_bytes = budget;
    RP_REQUIRE_OK(NULL, rp_plan_create(graph, &options, &fresh, &b));
    rp_plan_get_report(plan, &a);
    a.plan_ms = b.plan_ms = 0;
    RP_CHECK(a.plan_hash == b.plan_hash && a.peak_bytes == b.peak_bytes &&
                 a.min_feasible_bytes == b.min_feasible_bytes &&
                 a.lower_bound_ns == b.lower_bound_ns && a.recompute_cost_ns == b.recompute_cost_ns,
             "the cache's plan is another one");
    CU_ASSERT_STRING_EQUAL(rp_plan_strategy(plan), rp_plan_strategy(fresh));
    rp_plan_destroy(fresh);
}

static void test_PL_11_a_ragged_batch_gets_a_plan_of_its_own(void) {
    rp_context *context = rp_test_context(1);
    rp_plan_cache *cache = NULL;
    RP_REQUIRE_OK(context, rp_plan_cache_create(context, 8, &cache));
    const int64_t budget = 32 * 8 * 4; /* makes the full batch recompute */
    static const struct {
        int batch;
        bool hit;
    } rows[] = {{32, false}, {7, false}, {32, true}, {7, true}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        rp_graph *graph = batch_graph(context, rows[i].batch); /* recorded anew each time */
        rp_plan *plan = get(cache, graph, budget, rows[i].hit);
        check_same(graph, plan, budget);
        rp_plan_destroy(plan);
        rp_graph_destroy(graph);
    }
    rp_graph *larger = batch_graph(context, 33); /* does not fit, and is not squeezed into 32's */
    rp_plan_options options = RP_PLAN_OPTIONS;
    rp_plan *plan = NULL;
    options.budget_bytes = 32 * 8 * 3;
    RP_CHECK_STATUS(context, rp_plan_cache_get(cache, larger, &options, &plan, NULL, NULL),
                    RP_INFEASIBLE);
    CU_ASSERT_PTR_NULL(plan);
    rp_context_destroy(context);
}

static void test_whatever_a_plan_depends_on_makes_a_miss(void) {
    static const char *const texts[] = {
        "p x 8\nf F 10 x -> a:64\nf G 10 a -> b:64\nb H 10 a b -> c:8\no c\n",
        "p x 8\nf F 11 x -> a:64\nf G 10 a -> b:64\nb H 10 a b -> c:8\no c\n",       /* a cost */
        "p x 8\nf F 10 x -> a:65\nf G 10 a -> b:64\nb H 10 a b -> c:8\no c\n",       /* a byte */
        "p x 8\nf F 10 x -> a:64 !keep\nf G 10 a -> b:64\nb H 10 a b -> c:8\no c\n", /* a mark */
        "p x 8\nf F 10 x -> a:64 @h.0\nf G 10 a -> b:64\nb H 10 a b -> c:8\no c\n",  /* a block */
        "p x 8\nf F 10 x -> a:64\nf G 10 a -> b:64 !b/a\nb H 10 b -> c:8\no c\n",    /* a hint */
    };
    rp_context *context = rp_test_context(1);
    rp_plan_cache *cache = NULL;
    RP_REQUIRE_OK(context, rp_plan_cache_create(context, 32, &cache));
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
            rp_graph *graph = rp_test_written_graph(context, texts[i]);
            for (int64_t budget = 200; budget <= 300; budget += 100)
                rp_plan_destroy(get(cache, graph, budget, round == 1));
            rp_plan_options options = RP_PLAN_OPTIONS;
            rp_plan *plan = NULL;
            bool hit = false;
            options.strategy = "keep-all"; /* another strategy, and another budget */
            RP_REQUIRE_OK(context, rp_plan_cache_get(cache, graph, &options, &plan, NULL, &hit));
            RP_CHECK(hit == (round == 1), "keep-all");
            CU_ASSERT_STRING_EQUAL(rp_plan_strategy(plan), "keep-all");
            rp_plan_destroy(plan);
            rp_graph_destroy(graph);
        }
    rp_context_destroy(context);
}

static void test_the_plan_used_longest_ago_goes(void) {
    rp_context *context = rp_test_context(1);
    rp_plan_cache *cache = NULL;
    rp_graph *graphs[3];
    RP_REQUIRE_OK(context, rp_plan_cache_create(context, 2, &cache));
    for (int i = 0; i < 3; i++)
        graphs[i] = batch_graph(context, 1 + i);
    static const struct {
        int graph;
        bool hit;
    } rows[] = {{0, false}, {1, false}, {0, true}, {2, false}, {0, true}, {2, true}, {1, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        rp_plan_destroy(get(cache, graphs[rows[i].graph], RP_UNLIMITED, rows[i].hit));
    rp_plan_cache_destroy(cache);
    rp_context_destroy(context);
}

static void test_what_a_cache_refuses(void) {
    rp_context *context = rp_test_context(1), *other = rp_test_context(1);
    rp_graph *graph = batch_graph(context, 4);
    rp_plan_cache *cache = NULL;
    rp_plan *plan = NULL;
    RP_CHECK_STATUS(context, rp_plan_cache_create(context, 0, &cache), RP_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NULL(cache);
    RP_REQUIRE_OK(other, rp_plan_cache_create(other, 1, &cache));
    RP_CHECK_STATUS(other, rp_plan_cache_get(cache, graph, NULL, &plan, NULL, NULL),
                    RP_INVALID_ARGUMENT);
    rp_plan_cache_destroy(cache);
    RP_REQUIRE_OK(context, rp_plan_cache_create(context, 1, &cache));
    rp_plan_options options = RP_PLAN_OPTIONS;
    options.strategy = "a name that is longer than the names of all strategies, and no strategy";
    RP_CHECK_STATUS(context, rp_plan_cache_get(cache, graph, &options, &plan, NULL, NULL),
                    RP_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NULL(plan);
    rp_context_destroy(context);
    rp_context_destroy(other);
}

static rp_status use_cache(rp_context *context, void *user) {
    (void)user;
    rp_graph *graphs[2] = {NULL, NULL};
    rp_plan_cache *cache = NULL;
    rp_status status = rp_plan_cache_create(context, 1, &cache);
    for (int i = 0; i < 4 && status == RP_OK; i++) {
        rp_plan *plan = NULL;
        rp_graph **graph = &graphs[i / 2];
        if (*graph == NULL)
            status = rp_graph_parse(context, user, strlen(user), graph);
        if (status == RP_OK)
            status = rp_plan_cache_get(cache, *graph, NULL, &plan, NULL, NULL);
        rp_plan_destroy(plan);
    }
    rp_plan_cache_destroy(cache);
    rp_graph_destroy(graphs[0]);
    rp_graph_destroy(graphs[1]);
    return status;
}

static void test_every_allocation_of_a_cache_may_fail(void) {
    static char text[] =
        "{\"format\": \"reprise-graph\", \"version\": 1, \"name\": \"g\", \"values\": ["
        "{\"name\": \"a\", \"bytes\": 4, \"kind\": \"activation\"}], \"nodes\": ["
        "{\"name\": \"f\", \"phase\": \"forward\", \"inputs\": [], \"outputs\": [0], "
        "\"cost_ns\": 1}], \"outputs\": [0]}";
    rp_fault_sweep("plan cache", use_cache, text);
}

static const rp_test tests[] = {
    RP_TEST(test_PL_11_a_ragged_batch_gets_a_plan_of_its_own),
    RP_TEST(test_whatever_a_plan_depends_on_makes_a_miss),
    RP_TEST(test_the_plan_used_longest_ago_goes),
    RP_TEST(test_what_a_cache_refuses),
    RP_TEST(test_every_allocation_of_a_cache_may_fail),
};
RP_SUITE(plan_cache, tests)
