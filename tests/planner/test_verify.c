/* The verifier: every rule once kept and once broken. */
#include "graphs.h"
#include "naive.h"
#include "steps.h"
#include "verify.h"
#include "written.h"

/* ---- Rules by hand --------------------------------------------------------------------------- */

/* A forward chain with a backward node that reads the first value again. */
static const char chain[] = "p x 8\n"
                            "f F 10 x -> a:4\n"
                            "f G 20 a -> b:2\n"
                            "b B 30 a b -> c:1\n"
                            "o c\n";

static const char views[] = "p x 8\n"
                            "f F 1 x -> a:4\n"
                            "f V 1 a -> v=a\n"
                            "f W 1 v -> w=v\n"
                            "f G 1 v w -> b:2\n"
                            "b B 1 b -> c:1\n"
                            "o c\n";

static const char written_persistent[] = "p x 8\n"
                                         "p s 2\n"
                                         "f F 1 x s -> a:4\n"
                                         "f V 1 s -> t=s\n"
                                         "f R 1 t -> r:1\n"
                                         "f S 1 x -> s b:1 !once\n"
                                         "f T 1 x -> s d:1\n"
                                         "b B 1 a b d r -> c:1\n"
                                         "o c\n";

static const char marked[] = "p x 8\n"
                             "f F 1 x -> a:4 !recompute\n"
                             "f K 1 x -> k:1 !keep\n"
                             "f G 1 a k -> b:2\n"
                             "b B 1 a b k -> c:1\n"
                             "o c\n";

static const char once[] = "p x 8\n"
                           "f F 1 x -> a:4 !once\n"
                           "b B 1 a -> c:1\n"
                           "o c\n";

/* What a schedule is found to be: a message part, or NULL and the live peak. */
typedef struct rule {
    const char *graph, *steps, *message;
    int64_t peak;
} rule;

static void check_rules(const rule *rules, size_t count) {
    rp_context *context = rp_test_context(1);
    for (size_t i = 0; i < count; i++) {
        rp_graph *graph = rp_test_written_graph(context, rules[i].graph);
        rp_schedule schedule = rp_test_steps(graph, rules[i].steps);
        rp_verdict verdict = {.live_peak_bytes = -1};
        const rp_status status =
            rp_verify_schedule(graph, schedule.steps, schedule.count, &verdict);
        const rp_naive naive = rp_naive_check(graph, schedule.steps, schedule.count);
        RP_CHECK(naive.valid == (rules[i].message == NULL), "naive checker on: %s", rules[i].steps);
        if (rules[i].message != NULL) {
            RP_CHECK(status == RP_BAD_INPUT, "%s: %s", rules[i].steps, rp_status_name(status));
            RP_CHECK_MESSAGE(context, rules[i].message);
        } else {
            RP_CHECK(status == RP_OK, "%s: %s", rules[i].steps, rp_context_message(context));
            RP_CHECK(verdict.live_peak_bytes == rules[i].peak, "%s: peak %lld", rules[i].steps,
                     (long long)verdict.live_peak_bytes);
            RP_CHECK_EQUAL(naive.live_peak_bytes, rules[i].peak);
        }
        rp_schedule_clear(context, &schedule);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

#define CHECK_RULES(rules) check_rules(rules, sizeof(rules) / sizeof((rules)[0]))

static void test_order_and_liveness(void) {
    static const rule rules[] = {
        {chain, "run F run G run B drop a drop b", NULL, 15},
        {chain, "run F run G drop a run F run B drop a drop b", NULL, 15},
        {chain, "run F run G run B", NULL, 15},
        {chain, "run F run B", "step 1: run 2 (B) reads value 2 (b), which is not live", 0},
        {chain, "run F drop a run G", "step 2: run 1 (G) reads value 1 (a), which is not live", 0},
        {chain, "run G", "reads value 1 (a), which is not live", 0},
        {chain, "run F run G", "node 2 (B) never runs", 0},
        {chain, "", "node 0 (F) never runs", 0},
        {chain, "run F run G drop a drop a", "drop of value 1 (a), which is not live", 0},
        {chain, "run F drop x", "drop of value 0 (x), which is persistent", 0},
        {chain, "run F run G run B drop c", "output value 3 (c) is not live at the end", 0},
        {chain, "run F run G run B run B", "runs again but is not recomputable", 0},
        {once, "run F run F run B", "runs again but is not recomputable", 0},
    };
    CHECK_RULES(rules);
}

static void test_first_runs_keep_their_order(void) {
    static const char apart[] = "p x 1\nf F 1 x -> a:1\nf G 1 x -> b:1\n";
    static const rule rules[] = {
        {apart, "run F run G", NULL, 3},
        {apart, "run G run F", "out of order: node 0 (F) is due", 0},
    };
    CHECK_RULES(rules);
}

static void test_views_hold_their_base(void) {
    static const rule rules[] = {
        {views, "run F run V run W run G drop a drop v drop w run B drop b", NULL, 14},
        {views, "run F run V drop a run W run G drop v drop w run B drop b", NULL, 14},
        /* a dropped base cannot be read, although its bytes stay */
        {views, "run F run V drop a run V", "reads value 1 (a), which is not live", 0},
        /* a base that runs again has a new storage; the old one stays until its views go */
        {views, "run F run V drop a run F run W run G drop v drop w drop a run B drop b", NULL, 18},
        /* W's direct base is on the old storage, where w joins it */
        {views, "run F run V run W drop v run V run G drop a drop v drop w run B drop b", NULL, 14},
    };
    CHECK_RULES(rules);
}

static void test_a_view_needs_its_base(void) {
    /* u views a but is written by a node that sees v only, which lies on the same storage */
    static const char relatives[] = "p x 8\n"
                                    "f F 1 x -> a:4\n"
                                    "f V 1 a -> v=a\n"
                                    "f U 1 v -> u=a\n"
                                    "f G 1 u -> b:2\n"
                                    "o b\n";
    static const rule rules[] = {
        {relatives, "run F run V drop a run U drop v run G drop u", NULL, 14},
        {relatives, "run F run V drop a run F run U drop v run G drop u drop a", NULL, 16},
        {relatives, "run F run V drop v run U", "reads value 2 (v), which is not live", 0},
        {relatives, "run F run V offload a run U",
         "offload of value 1 (a), which is not the only value on its storage", 0},
    };
    CHECK_RULES(rules);
}

static void test_overwritten_persistent_values(void) {
    static const rule rules[] = {
        {written_persistent, "run F run V run R run S run T run B", NULL, 18},
        {written_persistent, "run F run V run R drop a run F run S run T run B", NULL, 18},
        {written_persistent, "run F run V run R run S drop a run F",
         "runs again after persistent value 1 (s) was overwritten", 0},
        /* through a view as well */
        {written_persistent, "run F run V run R run S drop r run R",
         "runs again after persistent value 1 (s) was overwritten", 0},
        {written_persistent, "run F run V run R run S run T drop d run T",
         "runs again but writes persistent value 1 (s)", 0},
        {written_persistent, "run F run V run R run S drop b run S", "is not recomputable", 0},
    };
    CHECK_RULES(rules);
}

static void test_marks(void) {
    static const rule rules[] = {
        {marked, "run F run K run G drop a run F run B drop a drop b drop k", NULL, 16},
        {marked, "run F run K run G run B", "value 1 (a) of node 0 (F), marked recompute, was kept",
         0},
        /* gone before the turn and back only behind it */
        {marked, "run F run K run G drop a drop b run F run G drop a run F run B", NULL, 16},
        {marked, "run F run K run G drop a run F drop k run K", "is marked keep", 0},
    };
    CHECK_RULES(rules);
}

static void test_offload(void) {
    static const rule rules[] = {
        {chain, "run F offload a run G wait a fetch a wait a run B", NULL, 15},
        {chain, "run F run G offload a wait a fetch a wait a run B", NULL, 15},
        {chain, "run F run G offload a wait a drop a run F run B", NULL, 15},
        {chain, "run F offload a wait a run G", "on the host or on its way back", 0},
        {chain, "run F offload a wait a fetch a run G", "on the host or on its way back", 0},
        {chain, "run F offload a drop a", "drop of value 1 (a), which is being moved", 0},
        {chain, "run F offload a wait a fetch a drop a", "which is being moved", 0},
        {chain, "run F offload a offload a", "which is being moved or on the host", 0},
        {chain, "run F wait a", "wait of value 1 (a), which is not being moved", 0},
        {chain, "run F offload a wait a wait a", "which is not being moved", 0},
        {chain, "run F fetch a", "fetch of value 1 (a), which is not on the host", 0},
        {chain, "run F offload a wait a run F", "while it is being moved or on the host", 0},
        {chain, "run F offload x", "offload of value 0 (x), which is persistent", 0},
        {chain, "run F offload b", "offload of value 2 (b), which is not live", 0},
        {chain, "run F run G run B offload c wait c", "is not live at the end", 0},
        {chain, "run F run G run B offload c", "is not live at the end", 0},
        {views, "run F run V offload v", "which is not the only value on its storage", 0},
        {views, "run F offload a run V", "a view, while its base is being moved", 0},
    };
    CHECK_RULES(rules);
}

/* The bytes are free from the wait on, and taken again by the fetch. */
static void test_offloaded_bytes_are_free(void) {
    static const char big[] = "p x 1\n"
                              "f F 1 x -> a:100\n"
                              "f G 1 x -> b:50 !b/x\n"
                              "f H 1 b -> c:60\n"
                              "b B 1 a -> d:1\n"
                              "o d\n";
    static const rule rules[] = {
        {big, "run F run G run H drop b drop c run B", NULL, 211},
        {big, "run F offload a run G wait a run H drop b drop c fetch a wait a run B", NULL, 151},
        {big, "run F offload a wait a run G run H drop b fetch a wait a drop c run B", NULL, 161},
        {big, "run F offload a wait a run G run H fetch a drop b drop c wait a run B", NULL, 211},
    };
    CHECK_RULES(rules);
}

static void test_in_place(void) {
    static const char pair[] = "p x 1\n"
                               "f F 1 x -> a:10\n"
                               "f G 1 a -> b:10 !b/a\n"
                               "f H 1 b -> c:1\n"
                               "o c\n";
    static const char larger[] = "p x 1\nf F 1 x -> a:10\nf G 1 a -> b:11 !b/a\no b\n";
    static const char smaller[] = "p x 1\nf F 1 x -> a:10\nf G 1 a -> b:9 !b/a\no b\n";
    static const char persistent[] = "p x 10\nf G 1 x -> b:10 !b/x\no b\n";
    static const char shared[] = "p x 1\n"
                                 "f F 1 x -> a:10\n"
                                 "f V 1 a -> v=a\n"
                                 "f G 1 a v -> b:10 !b/a\n"
                                 "o b\n";
    static const char two[] = "p x 1\n"
                              "f F 1 x -> a:10\n"
                              "f G 1 a -> b:10 c:10 !b/a !c/a\n"
                              "o b c\n";
    static const char again[] = "p x 1\n"
                                "f F 1 x -> a:10\n"
                                "f G 1 a -> b:10 c:1 !b/a\n"
                                "f H 1 b c -> d:1\n"
                                "o d\n";
    static const rule rules[] = {
        {pair, "run F run G drop a run H drop b", NULL, 12},
        {pair, "run F run G run H drop a drop b", NULL, 22},
        /* the group of drops is broken */
        {pair, "run F run G offload b drop a wait b fetch b wait b run H drop b", NULL, 21},
        {larger, "run F run G drop a", NULL, 22},
        {smaller, "run F run G drop a", NULL, 11},
        {persistent, "run G", NULL, 20},
        {shared, "run F run V run G drop a drop v", NULL, 21},
        {two, "run F run G drop a", NULL, 21},
        /* what is still live takes no other place */
        {again, "run F run G drop c run G drop a run H drop b drop c", NULL, 22},
    };
    CHECK_RULES(rules);
}

/* Every view on the old storage must go, the base included. */
static void test_in_place_over_a_storage_with_views(void) {
    static const char graph[] = "p x 1\n"
                                "f F 1 x -> a:10\n"
                                "f V 1 a -> v=a\n"
                                "f G 1 v -> b:10 !b/v\n"
                                "o b\n";
    static const rule rules[] = {
        {graph, "run F run V drop a run G drop v", NULL, 11},
        {graph, "run F run V run G drop v drop a", NULL, 11},
        {graph, "run F run V run G drop v", NULL, 21},
    };
    CHECK_RULES(rules);
}

static void test_indices_and_kinds_out_of_range(void) {
    static const struct {
        rp_step step;
        const char *message;
    } rows[] = {
        {{RP_STEP_RUN, 3}, "step 0: there is no node 3"},
        {{RP_STEP_RUN, RP_NONE}, "there is no node"},
        {{RP_STEP_DROP, 4}, "step 0: there is no value 4"},
        {{RP_STEP_FETCH, RP_NONE}, "there is no value"},
        {{5, 0}, "step 0: unknown kind 5"},
        {{UINT32_MAX, 0}, "unknown kind"},
    };
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, chain);
    rp_verdict verdict;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        RP_CHECK_STATUS(context, rp_verify_schedule(graph, &rows[i].step, 1, &verdict),
                        RP_BAD_INPUT);
        RP_CHECK_MESSAGE(context, rows[i].message);
        RP_CHECK_STATUS(context,
                        rp_verify_placements(graph, &rows[i].step, 1, NULL, 0, 1000, &verdict),
                        RP_BAD_INPUT);
    }
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* ---- What counts ----------------------------------------------------------------------------- */

/* Workspace, alignment, an output that nothing reads, one that is still live when its node runs
 * again, zero bytes. */
static void test_ME_20_peak_counts_workspaces_and_unused_outputs(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = NULL;
    RP_REQUIRE_OK(context, rp_graph_create(context, "peak", 64, &graph));
    const rp_value_info values[] = {{"x", 10, RP_PERSISTENT, RP_NONE},
                                    {"y", 100, RP_ACTIVATION, RP_NONE},
                                    {"aux", 30, RP_ACTIVATION, RP_NONE},
                                    {"z", 0, RP_ACTIVATION, RP_NONE}};
    for (size_t i = 0; i < 4; i++)
        RP_REQUIRE_OK(context, rp_graph_add_value(graph, &values[i], NULL));
    const uint32_t x = 0, outputs[] = {1, 2, 3};
    const rp_node_info node = {.name = "F",
                               .recomputable = true,
                               .cost_ns = 7,
                               .workspace_bytes = 65,
                               .inputs = &x,
                               .input_count = 1,
                               .outputs = outputs,
                               .output_count = 3};
    RP_REQUIRE_OK(context, rp_graph_add_node(graph, &node, NULL));
    RP_REQUIRE_OK(context, rp_graph_set_outputs(graph, outputs, 1));
    RP_REQUIRE_OK(context, rp_graph_finish(graph));
    rp_schedule schedule = rp_test_steps(graph, "run F drop aux run F drop aux drop z");
    rp_verdict verdict;
    RP_REQUIRE_OK(context, rp_verify_schedule(graph, schedule.steps, schedule.count, &verdict));
    RP_CHECK_EQUAL(verdict.live_peak_bytes, 64 + 128 + 64 + 128);
    RP_CHECK_EQUAL(verdict.peak_step, 0);
    RP_CHECK_EQUAL(verdict.peak_node, 0);
    RP_CHECK_EQUAL(verdict.recompute_nodes, 1);
    RP_CHECK_EQUAL(verdict.recompute_cost_ns, 7);
    rp_schedule_clear(context, &schedule);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* A small view keeps the whole base; a view of a parameter holds nothing. */
static void test_ME_17_views_count_their_base_once(void) {
    static const char slice[] = "p x 8\n"
                                "f F 1 x -> base:16777216\n"
                                "f S 1 base -> row=base\n"
                                "f P 1 x -> q=x\n"
                                "b B 1 row q -> c:4\n"
                                "o c\n";
    static const rule rules[] = {
        {slice, "run F run S drop base run P run B drop row drop q", NULL, 8 + 16777216 + 4},
        {slice, "run F run S run P run B", NULL, 8 + 16777216 + 4},
    };
    CHECK_RULES(rules);
}

static void test_an_empty_graph(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, "p x 8\n");
    rp_verdict verdict;
    RP_CHECK_OK(context, rp_verify_schedule(graph, NULL, 0, &verdict));
    RP_CHECK_EQUAL(verdict.live_peak_bytes, 8);
    RP_CHECK_EQUAL(verdict.peak_node, RP_NONE);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_order_and_liveness),
    RP_TEST(test_first_runs_keep_their_order),
    RP_TEST(test_views_hold_their_base),
    RP_TEST(test_a_view_needs_its_base),
    RP_TEST(test_overwritten_persistent_values),
    RP_TEST(test_marks),
    RP_TEST(test_offload),
    RP_TEST(test_offloaded_bytes_are_free),
    RP_TEST(test_in_place),
    RP_TEST(test_in_place_over_a_storage_with_views),
    RP_TEST(test_indices_and_kinds_out_of_range),
    RP_TEST(test_ME_20_peak_counts_workspaces_and_unused_outputs),
    RP_TEST(test_ME_17_views_count_their_base_once),
    RP_TEST(test_an_empty_graph),
};
RP_SUITE(verify, tests)
