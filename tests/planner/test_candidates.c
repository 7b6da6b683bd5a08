/* The family of schedules, and the schedule without recompute. */
#include "graphs.h"
#include "strategy.h"
#include "verify.h"

/* A chain that keeps all but drops a_value after its forward reader and runs it again for its
 * backward reader. */
static void offer_with_replay(rp_candidates *set, const rp_graph *graph, uint32_t value) {
    rp_context *const context = graph->context;
    rp_schedule keep = {0}, schedule = {0};
    RP_REQUIRE_OK(context, rp_keep_all_schedule(graph, &keep));
    for (size_t i = 0; i < keep.count; i++) {
        const rp_step step = keep.steps[i];
        const uint32_t backward = 2 * ((uint32_t)graph->value_count / 2 - 1) + 1 - value;
        if (step.kind == RP_STEP_RUN && step.index == backward)
            rp_schedule_append(context, &schedule, RP_STEP_RUN, value - 1);
        rp_schedule_append(context, &schedule, (rp_step_kind)step.kind, step.index);
        if (step.kind == RP_STEP_RUN && step.index == value)
            rp_schedule_append(context, &schedule, RP_STEP_DROP, value);
    }
    RP_CHECK_OK(context, rp_candidates_offer(set, &schedule));
    rp_schedule_clear(context, &keep);
    rp_schedule_clear(context, &schedule);
}

static void test_keep_all_peaks_of_chains(void) {
    rp_context *context = rp_test_context(1);
    for (uint32_t length = 1; length <= 20; length++) { /* convention M: a plain run needs L + 2 */
        rp_graph *graph = rp_test_chain(context, length, 1, NULL, 1);
        rp_candidates *set = NULL;
        RP_REQUIRE_OK(context, rp_candidates_create(graph, &set));
        RP_CHECK_OK(context, rp_propose_keep_all(graph, 0, set));
        RP_REQUIRE_EQUAL(rp_candidates_count(set), 1);
        RP_CHECK_EQUAL(rp_candidates_get(set, 0).live_peak_bytes, length + 2);
        RP_CHECK_EQUAL(rp_candidates_get(set, 0).recompute_cost_ns, 0);
        rp_candidates_destroy(set);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

static void test_keep_all_is_valid_on_random_graphs(void) {
    rp_context *context = rp_test_context(1);
    const int marks = RP_TEST_RECOMPUTE; /* keep-all does not look at them */
    for (uint64_t seed = 0; seed < 400; seed++) {
        const uint32_t nodes = 1 + (uint32_t)(seed % 60);
        rp_graph *graph =
            rp_test_random_graph(context, seed, nodes, (int)(seed * 37 % 1024) & ~marks);
        rp_schedule schedule = {0};
        rp_verdict verdict;
        RP_CHECK_OK(context, rp_keep_all_schedule(graph, &schedule));
        RP_CHECK_OK(context, rp_verify_schedule(graph, schedule.steps, schedule.count, &verdict));
        RP_CHECK_EQUAL(verdict.recompute_nodes, 0);
        rp_schedule_clear(context, &schedule);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

static void test_family_keeps_what_no_other_beats(void) {
    rp_context *context = rp_test_context(1);
    const int64_t sizes[] = {1, 1, 9, 5, 5, 1};
    rp_graph *graph = rp_test_chain(context, 5, 0, sizes, 1);
    rp_candidates *set = NULL;
    RP_REQUIRE_OK(context, rp_candidates_create(graph, &set));
    offer_with_replay(set, graph, 3);
    RP_CHECK_EQUAL(rp_candidates_count(set), 1);
    const int64_t with_3 = rp_candidates_get(set, 0).live_peak_bytes;
    offer_with_replay(set, graph, 4); /* equal in both: the earlier one stays */
    RP_CHECK_EQUAL(rp_candidates_count(set), 1);
    offer_with_replay(set, graph, 2); /* the same cost, a smaller peak: replaces */
    RP_CHECK_EQUAL(rp_candidates_count(set), 1);
    RP_CHECK(rp_candidates_get(set, 0).live_peak_bytes < with_3, "the larger peak was kept");
    offer_with_replay(set, graph, 3); /* beaten */
    RP_CHECK_EQUAL(rp_candidates_count(set), 1);
    RP_CHECK_OK(context, rp_propose_keep_all(graph, 0, set)); /* cheaper: comes first */
    RP_REQUIRE_EQUAL(rp_candidates_count(set), 2);
    for (size_t i = 0; i < 2; i++) {
        rp_schedule schedule = {0};
        rp_verdict verdict;
        RP_CHECK_OK(context, rp_candidates_build(set, i, &schedule));
        RP_CHECK_OK(context, rp_verify_schedule(graph, schedule.steps, schedule.count, &verdict));
        RP_CHECK_EQUAL(verdict.live_peak_bytes, rp_candidates_get(set, i).live_peak_bytes);
        RP_CHECK_EQUAL(verdict.recompute_cost_ns, rp_candidates_get(set, i).recompute_cost_ns);
        RP_CHECK_EQUAL(verdict.recompute_cost_ns, i);
        rp_schedule_clear(context, &schedule);
    }
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_family_refuses_an_invalid_schedule(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, 3, 1, NULL, 1);
    rp_candidates *set = NULL;
    rp_schedule schedule = {0};
    RP_REQUIRE_OK(context, rp_candidates_create(graph, &set));
    RP_REQUIRE_OK(context, rp_keep_all_schedule(graph, &schedule));
    schedule.count--;
    RP_CHECK_OK(context, rp_candidates_offer(set, &schedule)); /* only the last drop is missing */
    schedule.count -= 2;
    RP_CHECK_STATUS(context, rp_candidates_offer(set, &schedule), RP_BAD_INPUT);
    RP_CHECK_EQUAL(rp_candidates_count(set), 1);
    rp_schedule_clear(context, &schedule);
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_built_graphs_are_what_they_say(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *fused = rp_test_transformer(context, 4, false);
    rp_graph *unfused = rp_test_transformer(context, 4, true);
    rp_graph *unet = rp_test_unet(context, 4);
    RP_CHECK_EQUAL(rp_graph_node_count(fused), 4 * 18 + 8);
    RP_CHECK_EQUAL(rp_graph_node_count(unfused), 4 * 22 + 8);
    RP_CHECK_EQUAL(rp_graph_node_count(unet), 7 + 1 + 7);
    rp_graph *again = rp_test_random_graph(context, 5, 40, RP_TEST_EVERYTHING);
    rp_graph *random = rp_test_random_graph(context, 5, 40, RP_TEST_EVERYTHING);
    RP_CHECK(rp_graph_hash(again) == rp_graph_hash(random),
             "a random graph that is not repeatable");
    rp_graph_destroy(random);
    rp_graph_destroy(again);
    rp_graph_destroy(unet);
    rp_graph_destroy(unfused);
    rp_graph_destroy(fused);
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_keep_all_peaks_of_chains),
    RP_TEST(test_keep_all_is_valid_on_random_graphs),
    RP_TEST(test_family_keeps_what_no_other_beats),
    RP_TEST(test_family_refuses_an_invalid_schedule),
    RP_TEST(test_built_graphs_are_what_they_say),
};
RP_SUITE(candidates, tests)
