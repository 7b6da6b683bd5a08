/* auto: valid everywhere, never worse than the other strategies, and good where the best is
 * known. */
#include "families.h"
#include "frontier.h"
#include "graphs.h"
#include "segments.h"
#include "verify.h"

static void test_GR_16_auto_is_valid_on_random_graphs(void) {
    rp_context *context = rp_test_context(1);
    const uint64_t count = rp_test_samples(300, 5000);
    for (uint64_t seed = 0; seed < count; seed++) {
        rp_graph *graph = rp_test_random_graph(context, seed, 1 + (uint32_t)(seed % 40),
                                               (int)(seed * 48271 >> 4) & RP_TEST_EVERYTHING);
        rp_candidates *set = NULL;
        RP_REQUIRE_OK(context, rp_candidates_create(graph, &set));
        const rp_status status = rp_propose_auto(graph, 0, set);
        RP_CHECK(status == RP_INFEASIBLE || (status == RP_OK && rp_candidates_count(set) > 0),
                 "seed %d: %s: %s", (int)seed, rp_status_name(status), rp_context_message(context));
        rp_candidates_destroy(set);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

/* The best single-level figures are upper bounds: auto may replay a value more than once. */
static void check_chain(const int64_t *sizes, uint32_t length, const int64_t (*rows)[2],
                        size_t count) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, length, 1, sizes, 1);
    rp_candidates *set = rp_test_family(graph, rp_propose_auto, 0);
    for (size_t i = 0; i < count; i++) {
        const int64_t cost = rp_test_cost_within(set, rows[i][0]);
        RP_CHECK(cost >= 0 && cost <= rows[i][1], "peak %d: %d replays, at most %d wanted",
                 (int)rows[i][0], (int)cost, (int)rows[i][1]);
    }
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_PL_04_quality_against_brute_force(void) {
    static const int64_t even[][2] = {{6, 8},  {7, 7},  {8, 6},  {9, 5}, {10, 4},
                                      {11, 3}, {12, 2}, {13, 1}, {14, 0}};
    static const int64_t sizes[] = {1, 1, 8, 1, 1, 8, 1, 1, 8, 1};
    static const int64_t uneven[][2] = {{19, 6}, {20, 5}, {21, 4}, {22, 3},
                                        {23, 2}, {31, 1}, {39, 0}};
    check_chain(NULL, 12, even, sizeof even / sizeof even[0]);
    check_chain(sizes, 9, uneven, sizeof uneven / sizeof uneven[0]);
}

/* Wherever `set` has a member, `best` has one that costs no more in as many bytes. */
static void check_never_worse(const rp_candidates *best, const rp_candidates *set, size_t graph,
                              size_t strategy, uint32_t argument) {
    for (size_t i = 0; i < rp_candidates_count(set); i++) {
        const rp_candidate other = rp_candidates_get(set, i);
        const int64_t cost = rp_test_cost_within(best, other.live_peak_bytes);
        RP_CHECK(cost >= 0 && cost <= other.recompute_cost_ns,
                 "graph %zu, strategy %zu:%u, member %zu is better", graph, strategy, argument, i);
    }
}

static void test_auto_is_never_worse_than_a_strategy(void) {
    static const rp_test_propose all[] = {rp_propose_keep_all,       rp_propose_uniform,
                                          rp_propose_block,          rp_propose_sqrt,
                                          rp_propose_sqrt_recursive, rp_propose_selective};
    rp_context *context = rp_test_context(1);
    rp_graph *graphs[] = {rp_test_chain(context, 16, 1, NULL, 1),
                          rp_test_transformer(context, 3, false),
                          rp_test_transformer(context, 3, true), rp_test_unet(context, 5)};
    for (size_t g = 0; g < sizeof graphs / sizeof graphs[0]; g++) {
        const uint32_t blocks = rp_segments_find_labels(graphs[g], NULL);
        rp_candidates *best = rp_test_family(graphs[g], rp_propose_auto, 0);
        for (size_t s = 0; s < sizeof all / sizeof all[0]; s++)
            for (uint32_t n = 1; n <= blocks; n++) {
                rp_candidates *set = rp_test_family(graphs[g], all[s], n);
                check_never_worse(best, set, g, s, n);
                rp_candidates_destroy(set);
            }
        rp_candidates_destroy(best);
        rp_graph_destroy(graphs[g]);
    }
    rp_context_destroy(context);
}

static void test_auto_is_never_worse_on_chains(void) {
    static const rp_test_propose all[] = {rp_propose_revolve, rp_propose_chain_dp};
    rp_context *context = rp_test_context(1);
    rp_graph *graphs[] = {rp_test_chain(context, 30, 1, NULL, 1),
                          rp_test_transformer(context, 5, false),
                          rp_test_transformer(context, 5, true)};
    const size_t count = sizeof graphs / sizeof graphs[0];
    for (size_t g = 0; g < rp_test_samples(count, count); g++) {
        rp_candidates *best = rp_test_family(graphs[g], rp_propose_auto, 0);
        for (size_t s = 0; s < sizeof all / sizeof all[0]; s++) {
            rp_candidates *set = rp_test_family(graphs[g], all[s], 0);
            check_never_worse(best, set, g, s, 0);
            rp_candidates_destroy(set);
        }
        rp_candidates_destroy(best);
        rp_graph_destroy(graphs[g]);
    }
    rp_context_destroy(context);
}

static void test_auto_recomputes_nothing_at_the_keep_all_peak(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graphs[] = {rp_test_chain(context, 9, 1, NULL, 1),
                          rp_test_transformer(context, 2, true), rp_test_unet(context, 4)};
    for (size_t g = 0; g < sizeof graphs / sizeof graphs[0]; g++) {
        rp_candidates *plain = rp_test_family(graphs[g], rp_propose_keep_all, 0);
        rp_candidates *set = rp_test_family(graphs[g], rp_propose_auto, 0);
        RP_CHECK_EQUAL(rp_candidates_get(set, 0).live_peak_bytes, rp_test_minimum(plain));
        RP_CHECK_EQUAL(rp_candidates_get(set, 0).recompute_nodes, 0);
        rp_candidates_destroy(set);
        rp_candidates_destroy(plain);
        rp_graph_destroy(graphs[g]);
    }
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_GR_16_auto_is_valid_on_random_graphs),
    RP_TEST(test_PL_04_quality_against_brute_force),
    RP_TEST(test_auto_is_never_worse_than_a_strategy),
    RP_TEST(test_auto_is_never_worse_on_chains),
    RP_TEST(test_auto_recomputes_nothing_at_the_keep_all_peak),
};
RP_SUITE(auto, tests)
