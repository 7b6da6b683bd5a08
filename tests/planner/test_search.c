/* The search: what its parts promise each other. */
#include "families.h"
#include "frontier.h"
#include "graphs.h"
#include "lists.h"

typedef struct lab {
    rp_context *context;
    rp_graph *graph;
    rp_candidates *set;
    rp_search search;
    rp_drops drops;
} lab;

static void lab_open(lab *l, rp_context *context, rp_graph *graph, int64_t effort) {
    *l = (lab){.context = context, .graph = graph};
    RP_REQUIRE_OK(context, rp_candidates_create(graph, &l->set));
    RP_REQUIRE_OK(context, rp_search_create(graph, l->set, effort, &l->search));
    RP_REQUIRE_OK(context, rp_frontier_begin(&l->search));
    RP_REQUIRE_OK(context, rp_drops_create(&l->search.x, &l->drops));
}

static void lab_close(lab *l) {
    rp_drops_clear(l->context, &l->drops);
    rp_search_clear(&l->search);
    rp_candidates_destroy(l->set);
    rp_graph_destroy(l->graph);
}

/* Peak and cost of the decisions, exactly. */
static void measure(lab *l, int64_t *peak, int64_t *cost) {
    bool within = false;
    RP_REQUIRE_OK(l->context, rp_expander_run(&l->search.x, &l->drops, RP_NO_LIMITS, &within));
    RP_REQUIRE(within, "an expansion stopped");
    *peak = l->search.x.peak;
    *cost = l->search.x.cost;
}

static void test_descents_reach_their_targets_and_refills_stay_below(void) {
    rp_context *context = rp_test_context(1);
    lab l;
    lab_open(&l, context, rp_test_transformer(context, 4, true), 100000000);
    int64_t plain = 0, cost = 0, peak = 0;
    measure(&l, &plain, &cost);
    RP_CHECK_EQUAL(cost, 0);
    for (int percent = 95; percent >= 50; percent -= 5) {
        const int64_t target = plain / 100 * percent;
        bool reached = false;
        RP_REQUIRE_OK(context, rp_search_descend(&l.search, &l.drops, target, &reached));
        RP_CHECK(reached, "%d %% was not reached", percent);
        measure(&l, &peak, &cost);
        RP_CHECK(peak <= target, "%d %%: %lld bytes, %lld wanted", percent, (long long)peak,
                 (long long)target);
        const int64_t before = cost;
        RP_REQUIRE_OK(context, rp_search_refill(&l.search, &l.drops, target, 48));
        measure(&l, &peak, &cost);
        RP_CHECK(peak <= target && cost <= before, "%d %%: a refill that does harm", percent);
    }
    RP_CHECK(cost > 0, "nothing is recomputed at half the peak");
    lab_close(&l);
    rp_context_destroy(context);
}

static void test_descent_below_the_floor_ends(void) {
    rp_context *context = rp_test_context(1);
    lab l;
    lab_open(&l, context, rp_test_chain(context, 10, 8, NULL, 1), 10000000);
    bool reached = true;
    RP_REQUIRE_OK(context, rp_search_descend(&l.search, &l.drops, 1, &reached));
    RP_CHECK(!reached, "a peak of one byte");
    lab_close(&l);
    rp_context_destroy(context);
}

static void test_disturbed_decisions_are_valid(void) {
    rp_context *context = rp_test_context(1);
    lab l;
    lab_open(&l, context, rp_test_transformer(context, 2, false), 100000000);
    bool reached = false;
    int64_t peak = 0, cost = 0, changed = 0, before = 0;
    measure(&l, &peak, &cost);
    RP_REQUIRE_OK(context, rp_search_descend(&l.search, &l.drops, peak / 100 * 60, &reached));
    for (int i = 0; i < 50; i++) {
        measure(&l, &peak, &before);
        RP_REQUIRE_OK(context, rp_search_disturb(&l.search, &l.drops));
        measure(&l, &peak, &cost); /* what is offered to the family is verified there */
        changed += cost != before;
    }
    RP_CHECK(changed > 10, "%lld of 50 changed anything", (long long)changed);
    lab_close(&l);
    rp_context_destroy(context);
}

static void test_effort_is_kept_to(void) {
    rp_context *context = rp_test_context(1);
    for (int64_t effort = 0; effort <= 400000; effort += 100000) {
        lab l;
        lab_open(&l, context, rp_test_transformer(context, 4, false), effort);
        RP_CHECK_OK(context, rp_frontier_explore(&l.search));
        RP_CHECK(l.search.effort > -40000, "%lld runs too many", (long long)-l.search.effort);
        RP_CHECK(rp_candidates_count(l.set) >= 1, "not even keep-all");
        lab_close(&l);
    }
    rp_context_destroy(context);
}

static void test_the_search_is_the_same_every_time(void) {
    rp_context *context = rp_test_context(1);
    for (int i = 0; i < (int)rp_test_samples(3, 3); i++) {
        rp_graph *graph = i == 0   ? rp_test_transformer(context, 2, true)
                          : i == 1 ? rp_test_unet(context, 3)
                                   : rp_test_random_graph(context, 7, 40,
                                                          RP_TEST_EVERYTHING & ~RP_TEST_RECOMPUTE);
        rp_candidates *a = rp_test_family(graph, rp_propose_auto, 0);
        rp_candidates *b = rp_test_family(graph, rp_propose_auto, 0);
        RP_REQUIRE_EQUAL(rp_candidates_count(a), rp_candidates_count(b));
        for (size_t k = 0; k < rp_candidates_count(a); k++) {
            rp_schedule one = {0}, two = {0};
            RP_REQUIRE_OK(context, rp_candidates_build(a, k, &one));
            RP_REQUIRE_OK(context, rp_candidates_build(b, k, &two));
            RP_REQUIRE_EQUAL(one.count, two.count);
            for (size_t s = 0; s < one.count; s++)
                RP_REQUIRE(one.steps[s].kind == two.steps[s].kind &&
                               one.steps[s].index == two.steps[s].index,
                           "member %zu, step %zu", k, s);
            rp_schedule_clear(context, &one);
            rp_schedule_clear(context, &two);
        }
        rp_candidates_destroy(a);
        rp_candidates_destroy(b);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

/* Where nothing is recomputed yet, the cost that is estimated for a drop is the one that it has. */
static void test_estimates_of_first_drops_are_exact(void) {
    rp_context *context = rp_test_context(1);
    lab l;
    lab_open(&l, context, rp_test_transformer(context, 3, false), 100000000);
    rp_survey *survey = &l.search.survey;
    rp_move move = {0};
    int64_t peak = 0, cost = 0, seen = 0;
    measure(&l, &peak, &cost);
    const size_t waits = 200;
    for (size_t w = 0; w < waits; w++)
        for (int kind = 0; kind < RP_DROP_KINDS; kind++) {
            bool fits = false;
            RP_REQUIRE_OK(context, rp_drops_reset(&l.search.x, &l.drops));
            measure(&l, &peak, &cost);
            RP_REQUIRE_OK(context, rp_survey_read(survey, &l.drops, peak - 1000));
            RP_REQUIRE_OK(context, rp_survey_list_waits(survey, l.search.x.peak_run));
            if (w >= survey->wait_count)
                break;
            RP_REQUIRE_OK(context, rp_survey_drop(survey, w, kind, NULL, &move, &fits));
            if (!fits)
                continue;
            for (size_t i = 0; i < move.count; i++)
                RP_REQUIRE_OK(context, rp_drops_add(&l.search.x, &l.drops, move.drops[i].value,
                                                    move.drops[i].stage));
            measure(&l, &peak, &cost);
            RP_CHECK_EQUAL(cost, move.cost);
            seen++;
        }
    RP_CHECK(seen > 60, "%lld moves", (long long)seen);
    rp_move_clear(context, &move);
    lab_close(&l);
    rp_context_destroy(context);
}

static void test_shelf_keeps_the_best_of_each_place(void) {
    rp_context *context = rp_test_context(1);
    lab l;
    lab_open(&l, context, rp_test_transformer(context, 3, false), 100000000);
    RP_REQUIRE_OK(context, rp_frontier_explore(&l.search));
    rp_shelf *shelf = &l.search.shelf;
    size_t filled = 0;
    for (size_t place = 0; place < shelf->count; place++) {
        int64_t peak = 0, cost = 0;
        if (shelf->places[place].cost == INT64_MAX)
            continue;
        filled++;
        RP_CHECK_EQUAL(rp_shelf_find(shelf, shelf->places[place].peak), place);
        RP_CHECK(shelf->places[place].peak <= rp_shelf_target(shelf, place), "above its target");
        RP_REQUIRE_OK(context, rp_shelf_load(shelf, place, &l.search.x, &l.drops));
        measure(&l, &peak, &cost);
        RP_CHECK_EQUAL(peak, shelf->places[place].peak);
        RP_CHECK_EQUAL(cost, shelf->places[place].cost);
        const int64_t known = rp_test_cost_within(l.set, rp_shelf_target(shelf, place));
        RP_CHECK(known >= 0 && known <= cost, "the family lacks what stands at %zu", place);
    }
    RP_CHECK(filled > shelf->count / 2, "%zu of %zu places are filled", filled, shelf->count);
    lab_close(&l);
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_descents_reach_their_targets_and_refills_stay_below),
    RP_TEST(test_descent_below_the_floor_ends),
    RP_TEST(test_disturbed_decisions_are_valid),
    RP_TEST(test_effort_is_kept_to),
    RP_TEST(test_the_search_is_the_same_every_time),
    RP_TEST(test_estimates_of_first_drops_are_exact),
    RP_TEST(test_shelf_keeps_the_best_of_each_place),
};
RP_SUITE(search, tests)
