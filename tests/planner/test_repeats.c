/* Blocks by structure: found where nothing is labelled, and as good as labels. */
#include <string.h>

#include "families.h"
#include "graphs.h"
#include "lists.h"

enum { MOST_NODES = 2048 };

/* The same graph without a word: no names, no labels. */
static rp_graph *without_words(const rp_graph *graph) {
    rp_graph *copy = NULL;
    RP_REQUIRE_OK(graph->context,
                  rp_graph_create(graph->context, "", rp_graph_alignment(graph), &copy));
    for (uint32_t v = 0; v < graph->value_count; v++) {
        rp_value_info info;
        rp_graph_value(graph, v, &info);
        info.name = "";
        RP_REQUIRE_OK(graph->context, rp_graph_add_value(copy, &info, NULL));
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        rp_node_info info;
        rp_graph_node(graph, n, &info);
        info.name = info.block = "";
        RP_REQUIRE_OK(graph->context, rp_graph_add_node(copy, &info, NULL));
    }
    size_t count = 0;
    const uint32_t *outputs = rp_graph_outputs(graph, &count);
    RP_REQUIRE_OK(graph->context, rp_graph_set_outputs(copy, outputs, count));
    RP_REQUIRE_OK(graph->context, rp_graph_finish(copy));
    return copy;
}

static uint32_t count_repeats(const rp_graph *graph, uint32_t *of) {
    uint32_t count = 0;
    RP_REQUIRE(graph->node_count <= MOST_NODES, "no room");
    RP_CHECK_OK(graph->context, rp_segments_find_repeats(graph, of, &count));
    return count;
}

/* Every layer is found, and where it begins and ends; embedding and head stand apart. */
static void test_layers_are_found_by_structure(void) {
    rp_context *context = rp_test_context(1);
    for (uint32_t layers = 3; layers <= 24; layers += 7)
        for (int unfused = 0; unfused < 2; unfused++) {
            rp_graph *graph = rp_test_transformer(context, layers, unfused != 0);
            uint32_t of[MOST_NODES], label[MOST_NODES], differ = 0;
            RP_CHECK_EQUAL(count_repeats(graph, of), layers);
            RP_CHECK_EQUAL(rp_segments_find_labels(graph, label), layers + 2);
            for (uint32_t n = 0; n < graph->node_count; n++) {
                const bool in_layer = label[n] != RP_NONE && label[n] > 0 && label[n] <= layers;
                differ += of[n] != (in_layer ? label[n] - 1 : RP_NONE);
            }
            RP_CHECK_EQUAL(differ, 0);
            rp_graph_destroy(graph);
        }
    rp_context_destroy(context);
}

static void test_what_does_not_repeat_has_no_blocks(void) {
    rp_context *context = rp_test_context(1);
    static const int64_t uneven[] = {1, 7, 3, 9, 2, 8, 5, 4, 6, 1};
    static const int64_t cut_off[] = {5, 1, 2, 3, 4, 1, 2, 3, 4, 1}; /* less than two periods */
    rp_graph *graphs[] = {rp_test_chain(context, 40, 1, NULL, 1),    /* one node is no block */
                          rp_test_chain(context, 9, 1, uneven, 1),
                          rp_test_chain(context, 7, 1, cut_off, 1), rp_test_unet(context, 8),
                          rp_test_random_graph(context, 3, 60, RP_TEST_EVERYTHING)};
    for (size_t g = 0; g < sizeof graphs / sizeof graphs[0]; g++) {
        uint32_t of[MOST_NODES];
        RP_CHECK(count_repeats(graphs[g], of) == 0, "graph %zu has blocks", g);
        for (uint32_t n = 0; n < graphs[g]->node_count; n++)
            RP_CHECK_EQUAL(of[n], RP_NONE);
        rp_graph_destroy(graphs[g]);
    }
    rp_context_destroy(context);
}

/* What auto finds for a graph that says nothing is what it finds for one that is labelled, but for
 * the blocks of one op that embedding and head are. RP_TEST_BRIEF=1: of fused attention. */
static void test_auto_needs_no_labels(void) {
    rp_context *context = rp_test_context(1);
    for (int unfused = 0; unfused < (int)rp_test_samples(2, 2); unfused++) {
        rp_graph *graph = rp_test_transformer(context, 24, unfused != 0);
        rp_graph *bare = without_words(graph);
        rp_candidates *named = rp_test_family(graph, rp_propose_auto, 0);
        rp_candidates *plain = rp_test_family(bare, rp_propose_auto, 0);
        const int64_t least = rp_test_minimum(named), allowed = graph->total_cost_ns / 1000;
        RP_CHECK(rp_test_minimum(plain) <= least + least / 100, "%lld bytes, %lld with labels",
                 (long long)rp_test_minimum(plain), (long long)least);
        for (int percent = 105; percent <= 200; percent += 5) {
            const int64_t labelled = rp_test_cost_within(named, least * percent / 100);
            const int64_t cost = rp_test_cost_within(plain, least * percent / 100);
            RP_CHECK(cost >= 0 && cost <= labelled + allowed, "%d %%: %lld ns, %lld with labels",
                     percent, (long long)cost, (long long)labelled);
        }
        rp_candidates_destroy(plain);
        rp_candidates_destroy(named);
        rp_graph_destroy(bare);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_layers_are_found_by_structure),
    RP_TEST(test_what_does_not_repeat_has_no_blocks),
    RP_TEST(test_auto_needs_no_labels),
};
RP_SUITE(repeats, tests)
