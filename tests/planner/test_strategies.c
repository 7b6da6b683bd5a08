/* The strategies, by the cases of cases.md that speak of them. Units are those of convention M. */
#include "expand.h"
#include "families.h"
#include "graphs.h"
#include "segments.h"
#include "verify.h"
#include "written.h"

/* The one member of the family of uniform:size or block:size on a chain. */
static rp_candidate measure_chain(rp_test_propose propose, uint32_t length, uint32_t argument) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, length, 1, NULL, 1);
    rp_candidates *set = rp_test_family(graph, propose, argument);
    RP_CHECK_EQUAL(rp_candidates_count(set), 1);
    const rp_candidate measure = rp_candidates_get(set, 0);
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
    return measure;
}

static void test_ME_03_replay_working_set_is_predicted(void) {
    RP_CHECK_EQUAL(measure_chain(rp_propose_uniform, 16, 8).live_peak_bytes, 11);
}

static void test_ME_04_segment_length_is_u_shaped(void) {
    static const struct {
        uint32_t length;
        int64_t peak, replayed;
    } rows[] = {{1, 18, 0}, {2, 11, 7}, {3, 8, 10}, {4, 9, 9},
                {5, 8, 12}, {6, 8, 10}, {8, 11, 7}, {16, 18, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const rp_candidate measure = measure_chain(rp_propose_uniform, 16, rows[i].length);
        RP_CHECK_EQUAL(measure.live_peak_bytes, rows[i].peak);
        RP_CHECK_EQUAL(measure.recompute_nodes, rows[i].replayed);
    }
}

static void test_PL_16_BW_10_ME_01_nine_replays_and_peak_nine(void) {
    const rp_candidate measure = measure_chain(rp_propose_uniform, 16, 4);
    RP_CHECK_EQUAL(measure.recompute_nodes, 9);
    RP_CHECK_EQUAL(measure.live_peak_bytes, 9);
}

static void test_ME_05_no_plan_above_plain(void) {
    static const rp_test_propose all[] = {rp_propose_uniform, rp_propose_block, rp_propose_sqrt,
                                          rp_propose_sqrt_recursive, rp_propose_selective};
    rp_context *context = rp_test_context(1);
    for (uint32_t length = 1; length <= 3; length++)
        for (size_t s = 0; s < sizeof all / sizeof all[0]; s++)
            for (uint32_t argument = 1; argument <= 4; argument++) {
                rp_graph *graph = rp_test_chain(context, length, 1, NULL, 1);
                rp_candidates *set = rp_test_family(graph, all[s], argument);
                RP_CHECK(rp_candidates_get(set, 0).live_peak_bytes <= length + 2, "above plain");
                if (length < 3 && all[s] != rp_propose_selective) /* which may replay a boundary */
                    RP_CHECK_EQUAL(rp_test_minimum(set), length + 2);
                rp_candidates_destroy(set);
                rp_graph_destroy(graph);
            }
    rp_context_destroy(context);
    const rp_candidate two = measure_chain(rp_propose_uniform, 3, 2);
    RP_CHECK_EQUAL(two.live_peak_bytes, 4);
    RP_CHECK_EQUAL(two.recompute_nodes, 1);
}

static void test_ME_10_peak_is_a_running_maximum(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, 5, 1, NULL, 1);
    rp_candidates *set = rp_test_family(graph, rp_propose_auto, 0);
    RP_CHECK_EQUAL(rp_candidates_get(set, 0).live_peak_bytes, 7);
    RP_CHECK_EQUAL(rp_candidates_get(set, 0).recompute_nodes, 0);
    RP_CHECK_EQUAL(rp_test_cost_within(set, 6), 1);
    RP_CHECK_EQUAL(rp_test_cost_within(set, 5), 2);
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* How many segments have inner values live, at most, once backward has begun. */
static uint32_t count_open_segments(const rp_graph *graph, const rp_schedule *schedule,
                                    uint32_t size) {
    uint32_t open[8] = {0}, most = 0, now = 0;
    bool live[64] = {false}, backward = false;
    for (size_t i = 0; i < schedule->count; i++) {
        const rp_step step = schedule->steps[i];
        const bool run = step.kind == RP_STEP_RUN;
        if (run && graph->nodes[step.index].phase == RP_BACKWARD)
            backward = true;
        if (run && graph->nodes[step.index].phase == RP_BACKWARD)
            continue;
        const uint32_t value = run ? step.index + 1 : step.index;
        if (value >= graph->first_backward + 1 || value % size == 0 || live[value] == run)
            continue; /* a gradient, a boundary, or nothing new */
        live[value] = run;
        uint32_t *segment = &open[(value - 1) / size];
        now += run ? (*segment)++ == 0 : 0;
        now -= run ? 0 : --*segment == 0;
        if (backward && now > most)
            most = now;
    }
    return most;
}

static void test_ME_06_replays_start_just_before_their_readers(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, 16, 1, NULL, 1);
    rp_candidates *set = rp_test_family(graph, rp_propose_uniform, 4);
    rp_schedule schedule = {0};
    RP_REQUIRE_OK(context, rp_candidates_build(set, 0, &schedule));
    RP_CHECK_EQUAL(count_open_segments(graph, &schedule, 4), 1);
    rp_schedule_clear(context, &schedule);
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* Which ops of a chain run more than once, as the lengths of the segments that they show. */
static void check_segments(uint32_t length, uint32_t size, const uint32_t *lengths, size_t count) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, length, 1, NULL, 1);
    rp_candidates *set = rp_test_family(graph, rp_propose_uniform, size);
    rp_schedule schedule = {0};
    uint32_t runs[64] = {0};
    RP_REQUIRE_OK(context, rp_candidates_build(set, 0, &schedule));
    for (size_t i = 0; i < schedule.count; i++)
        if (schedule.steps[i].kind == RP_STEP_RUN && schedule.steps[i].index < length)
            runs[schedule.steps[i].index]++;
    uint32_t n = 0;
    for (size_t s = 0; s < count; s++)
        for (uint32_t i = 1; i <= lengths[s]; i++) {
            const bool inner = i < lengths[s] && s + 1 < count;
            RP_CHECK_EQUAL(runs[n++], inner ? 2 : 1);
        }
    RP_CHECK_EQUAL(n, length);
    rp_schedule_clear(context, &schedule);
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_GR_07_ragged_segments(void) {
    check_segments(24, 7, (const uint32_t[]){7, 7, 7, 3}, 4);
    check_segments(1, 7, (const uint32_t[]){1}, 1);
    check_segments(7, 7, (const uint32_t[]){7}, 1);
    check_segments(8, 7, (const uint32_t[]){7, 1}, 2);
}

static const char several_readers[] = "p x 10\np a 10\np b 10\np c 10\n"
                                      "f tanh 5 x -> h:100 !recompute\n"
                                      "f mul.a 1 h a -> ya:1\nf mul.b 1 h b -> yb:1\n"
                                      "f mul.c 1 h c -> yc:1\nf sum 1 ya yb yc -> y:1\n"
                                      "b mul.c.bwd 1 h -> dc:1\nb mul.b.bwd 1 h -> db:1\n"
                                      "b mul.a.bwd 1 h -> da:1\no da db dc y\n";

static void test_GR_17_recomputed_once_and_freed_after_the_last_consumer(void) {
    static const rp_test_propose all[] = {rp_propose_selective, rp_propose_sqrt,
                                          rp_propose_sqrt_recursive, rp_propose_auto};
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, several_readers);
    const uint32_t h = rp_test_value(graph, "h");
    for (size_t s = 0; s < sizeof all / sizeof all[0]; s++) {
        rp_candidates *set = rp_test_family(graph, all[s], 0);
        rp_schedule schedule = {0};
        uint32_t runs = 0;
        RP_REQUIRE_OK(context, rp_candidates_build(set, 0, &schedule));
        for (size_t i = 0; i < schedule.count; i++) {
            const rp_step step = schedule.steps[i];
            runs += step.kind == RP_STEP_RUN && step.index == rp_test_node(graph, "tanh");
            if (step.kind == RP_STEP_DROP && step.index == h && runs == 2)
                RP_CHECK_EQUAL(schedule.steps[i - 1].index, rp_test_node(graph, "mul.a.bwd"));
        }
        RP_CHECK_EQUAL(runs, 2);
        rp_schedule_clear(context, &schedule);
        rp_candidates_destroy(set);
    }
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_GR_18_a_block_marked_twice_is_replayed_once(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, "p x 10\n"
                                                     "f one 5 x -> h:100 !recompute @a\n"
                                                     "f two 5 h -> y:100 @a\n"
                                                     "f three 5 y -> z:100 @b\n"
                                                     "b three.bwd 1 z y -> dy:10\n"
                                                     "b two.bwd 1 h dy -> dh:10\no dh\n");
    rp_candidates *set = rp_test_family(graph, rp_propose_uniform, 1);
    RP_CHECK_EQUAL(rp_candidates_get(set, 0).recompute_nodes, 1);
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_ME_19_an_input_that_a_replay_gives_is_not_kept(void) {
    static const rp_test_propose all[] = {rp_propose_selective, rp_propose_auto};
    rp_context *context = rp_test_context(1);
    rp_graph *graph =
        rp_test_written_graph(context, "p in 10\nf embed 50 in -> x:100\nf norm 1 x -> y:100\n"
                                       "f gemm 100 y -> z:100\nf loss 1 z -> l:1\n"
                                       "b loss.bwd 1 z -> dz:100\nb gemm.bwd 200 y dz -> dy:10\n"
                                       "b norm.bwd 2 x dy -> dx:100\no l dx\n");
    for (size_t s = 0; s < 2; s++) { /* plain: x, y, z, dz are live in loss.bwd */
        rp_candidates *set = rp_test_family(graph, all[s], 0);
        RP_CHECK_EQUAL(rp_candidates_get(set, 0).live_peak_bytes, 411);
        RP_CHECK_EQUAL(rp_test_cost_within(set, 410), 1); /* the norm alone is replayed */
        rp_candidates_destroy(set);
    }
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_PL_03_room_for_one_of_three(void) {
    static const rp_test_propose all[] = {rp_propose_selective, rp_propose_auto};
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(
        context,
        "p in 0\nf a 7 in -> a:10\nf b 7 in -> b:10\nf c 7 in -> c:10\nf turn 1 in -> t:1\n"
        "b turn.bwd 1 t -> u:10\nb c.bwd 1 c u -> dc:1\nb b.bwd 1 b u -> db:1\n"
        "b a.bwd 1 a u -> da:1\no da db dc\n");
    for (size_t s = 0; s < 2; s++) { /* room for t, u and one of a, b, c at the turn */
        rp_candidates *set = rp_test_family(graph, all[s], 0);
        RP_CHECK_EQUAL(rp_candidates_get(set, 0).live_peak_bytes, 41);
        RP_CHECK_EQUAL(rp_test_cost_within(set, 23), 14);
        rp_candidates_destroy(set);
    }
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_PL_15_graphs_without_a_single_cut(void) {
    static const rp_test_propose all[] = {rp_propose_uniform, rp_propose_sqrt,
                                          rp_propose_sqrt_recursive, rp_propose_selective,
                                          rp_propose_auto};
    rp_context *context = rp_test_context(1);
    rp_graph *graphs[] = {
        rp_test_unet(context, 4),
        rp_test_written_graph(context, "p x 10\nf a 9 x -> a:10 @a\nf b 9 x a -> b:10 @b\n"
                                       "f c 9 x a b -> c:10 @c\nf d 9 x a b c -> d:10 @d\n"
                                       "f e 9 x a b c d -> e:10 @e\nf f 9 x a b c d e -> f:10 @f\n"
                                       "b f.bwd 9 f e -> de:10\nb e.bwd 9 e d de -> dd:10\n"
                                       "b d.bwd 9 d c dd -> dc:10\nb c.bwd 9 c b dc -> db:10\n"
                                       "b b.bwd 9 b a db -> da:10\no da\n")};
    for (size_t g = 0; g < 2; g++) {
        for (size_t s = 0; s < sizeof all / sizeof all[0]; s++)
            rp_candidates_destroy(rp_test_family(graphs[g], all[s], 1));
        rp_graph_destroy(graphs[g]);
    }
    rp_context_destroy(context);
}

static void test_PL_17_nothing_is_replayed_without_need(void) {
    static const rp_test_propose all[] = {rp_propose_selective, rp_propose_sqrt,
                                          rp_propose_sqrt_recursive, rp_propose_auto};
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(
        context, "p w 10\np x 10\nf matmul 0 x w -> a:100 @a\nf reshape 0 a -> b=a @b\n"
                 "f relu 0 b -> c:100 @c\nf dropout 0 c -> d:100 m:10 @d\n"
                 "b dropout.bwd 0 m d -> dc:100\nb relu.bwd 0 c dc -> db:100\n"
                 "b reshape.bwd 0 db -> da=db\nb matmul.bwd 0 x da -> dw:10\no dw\n");
    for (size_t s = 0; s < sizeof all / sizeof all[0]; s++) {
        rp_candidates *set = rp_test_family(graph, all[s], 0);
        RP_CHECK_EQUAL(rp_candidates_get(set, 0).recompute_nodes, 0);
        rp_candidates_destroy(set);
    }
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_strategies_without_what_they_need_say_so(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, "p x 1\nf a 1 x -> y:1\no y\n");
    rp_candidates *set = NULL;
    RP_REQUIRE_OK(context, rp_candidates_create(graph, &set));
    RP_CHECK_STATUS(context, rp_propose_uniform(graph, 1, set), RP_NOT_APPLICABLE);
    RP_CHECK_MESSAGE(context, "uniform");
    RP_CHECK_STATUS(context, rp_propose_block(graph, 1, set), RP_NOT_APPLICABLE);
    RP_CHECK_MESSAGE(context, "block");
    RP_CHECK_STATUS(context, rp_propose_sqrt(graph, 0, set), RP_NOT_APPLICABLE);
    RP_CHECK_STATUS(context, rp_propose_sqrt_recursive(graph, 0, set), RP_NOT_APPLICABLE);
    RP_CHECK_MESSAGE(context, "sqrt-recursive");
    RP_CHECK_STATUS(context, rp_propose_selective(graph, 0, set), RP_NOT_APPLICABLE);
    RP_CHECK_OK(context, rp_propose_auto(graph, 0, set));
    RP_CHECK_EQUAL(rp_candidates_count(set), 1);
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_PL_07_marks_win_over_the_strategy(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, several_readers);
    rp_candidates *set = NULL;
    RP_REQUIRE_OK(context, rp_candidates_create(graph, &set));
    RP_CHECK_STATUS(context, rp_propose_keep_all(graph, 0, set), RP_INFEASIBLE);
    RP_CHECK_MESSAGE(context, "tanh");
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
    /* the mark cannot be honoured: x is overwritten before h is needed again */
    graph = rp_test_written_graph(context, "p x 10\nf tanh 5 x -> h:100 !recompute\n"
                                           "f step 1 h -> x\nb tanh.bwd 1 h -> d:10\no d\n");
    RP_REQUIRE_OK(context, rp_candidates_create(graph, &set));
    RP_CHECK_STATUS(context, rp_propose_auto(graph, 0, set), RP_INFEASIBLE);
    RP_CHECK_MESSAGE(context, "tanh");
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_block_replays_the_first_blocks_only(void) {
    for (uint32_t n = 1; n <= 8; n++) {
        rp_context *context = rp_test_context(1);
        rp_graph *graph = rp_test_transformer(context, 6, false);
        rp_candidates *set = rp_test_family(graph, rp_propose_block, n);
        rp_schedule schedule = {0};
        uint32_t runs[512] = {0}, block[512];
        RP_REQUIRE_OK(context, rp_candidates_build(set, 0, &schedule));
        RP_CHECK_EQUAL(rp_segments_find_labels(graph, block), 8); /* embed, h.0 to h.5, head */
        for (size_t i = 0; i < schedule.count; i++)
            if (schedule.steps[i].kind == RP_STEP_RUN)
                runs[schedule.steps[i].index]++;
        bool replayed[8] = {false};
        for (uint32_t i = 0; i < graph->node_count; i++)
            if (block[i] != RP_NONE)
                replayed[block[i]] = replayed[block[i]] || runs[i] > 1;
        for (uint32_t b = 0; b < 8; b++) /* the embedding is one op: its output is a boundary */
            RP_CHECK_EQUAL(replayed[b], b > 0 && b < n && b < 7);
        rp_schedule_clear(context, &schedule);
        rp_candidates_destroy(set);
        rp_graph_destroy(graph);
        rp_context_destroy(context);
    }
}

static void test_every_strategy_is_valid_on_random_graphs(void) {
    static const rp_test_propose all[] = {
        rp_propose_uniform, rp_propose_block,    rp_propose_sqrt,     rp_propose_sqrt_recursive,
        rp_propose_revolve, rp_propose_chain_dp, rp_propose_selective};
    rp_context *context = rp_test_context(1);
    const uint64_t count = rp_test_samples(1500, 20000);
    for (uint64_t seed = 0; seed < count; seed++) {
        rp_graph *graph = rp_test_random_graph(context, seed, 1 + (uint32_t)(seed % 47),
                                               (int)(seed * 40503 >> 5) & RP_TEST_EVERYTHING);
        for (size_t s = 0; s < sizeof all / sizeof all[0]; s++) {
            rp_candidates *set = NULL;
            RP_REQUIRE_OK(context, rp_candidates_create(graph, &set));
            const rp_status status = all[s](graph, 1 + (uint32_t)(seed % 3), set);
            RP_CHECK(status == RP_OK || status == RP_NOT_APPLICABLE || status == RP_INFEASIBLE,
                     "seed %d: %s: %s", (int)seed, rp_status_name(status),
                     rp_context_message(context));
            rp_candidates_destroy(set);
        }
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_ME_03_replay_working_set_is_predicted),
    RP_TEST(test_ME_04_segment_length_is_u_shaped),
    RP_TEST(test_PL_16_BW_10_ME_01_nine_replays_and_peak_nine),
    RP_TEST(test_ME_05_no_plan_above_plain),
    RP_TEST(test_ME_10_peak_is_a_running_maximum),
    RP_TEST(test_ME_06_replays_start_just_before_their_readers),
    RP_TEST(test_GR_07_ragged_segments),
    RP_TEST(test_GR_17_recomputed_once_and_freed_after_the_last_consumer),
    RP_TEST(test_GR_18_a_block_marked_twice_is_replayed_once),
    RP_TEST(test_ME_19_an_input_that_a_replay_gives_is_not_kept),
    RP_TEST(test_PL_03_room_for_one_of_three),
    RP_TEST(test_PL_15_graphs_without_a_single_cut),
    RP_TEST(test_PL_17_nothing_is_replayed_without_need),
    RP_TEST(test_strategies_without_what_they_need_say_so),
    RP_TEST(test_PL_07_marks_win_over_the_strategy),
    RP_TEST(test_block_replays_the_first_blocks_only),
    RP_TEST(test_every_strategy_is_valid_on_random_graphs),
};
RP_SUITE(strategies, tests)
