/* Lists of runs and their annealing: figures are the verifier's, however they are found. */
#include "anneal.h"
#include "families.h"
#include "graphs.h"
#include "runs.h"
#include "verify.h"

enum { NO_VIEWS = RP_TEST_EVERYTHING & ~(RP_TEST_VIEWS | RP_TEST_RECOMPUTE) };

/* The draft is taken in, and what was measured of it before is what it has. */
static void check_taking(rp_runs *r, uint64_t seed) {
    const rp_reading measured = rp_runs_measure(r);
    rp_runs_take(r);
    RP_CHECK(measured.cost == r->cost && measured.over == r->over,
             "seed %d: %lld ns and %lld bytes over, not %lld and %lld", (int)seed,
             (long long)measured.cost, (long long)measured.over, (long long)r->cost,
             (long long)r->over);
}

/* A few replays less, one after another; what is left is a schedule with these figures. */
static void leave_out_replays(rp_runs *r, rp_test_random *random, uint64_t seed) {
    for (int i = 0; i < 4 && r->replay_count > 0; i++) {
        const uint32_t place = r->replays[rp_test_random_below(random, r->replay_count)] - r->begin;
        rp_runs_copy(r);
        for (uint32_t k = place; k + 1 < r->draft_count; k++)
            r->draft[k] = r->draft[k + 1];
        r->draft_count--;
        check_taking(r, seed);
    }
    rp_schedule schedule = {0};
    rp_verdict verdict;
    RP_REQUIRE(rp_runs_build(r, &schedule), "no memory");
    RP_REQUIRE_OK(r->graph->context,
                  rp_verify_schedule(r->graph, schedule.steps, schedule.count, &verdict));
    RP_CHECK(verdict.live_peak_bytes == r->peak && verdict.recompute_cost_ns == r->cost,
             "seed %d: %lld bytes and %lld ns, not %lld and %lld", (int)seed, (long long)r->peak,
             (long long)r->cost, (long long)verdict.live_peak_bytes,
             (long long)verdict.recompute_cost_ns);
    rp_schedule_clear(r->graph->context, &schedule);
}

static int check_lists(rp_context *context, uint64_t seed) {
    const int features = ((int)seed * 37 & NO_VIEWS) | RP_TEST_BACKWARD;
    rp_graph *graph = rp_test_random_graph(context, seed, 13 + (uint32_t)(seed % 30), features);
    rp_expander x;
    rp_runs runs;
    rp_test_random random = {seed};
    int lists = 0;
    RP_REQUIRE_OK(context, rp_expander_create(graph, &x));
    if (rp_runs_apply(&x)) {
        rp_candidates *set = rp_test_family(graph, rp_propose_sqrt, 0);
        RP_REQUIRE(rp_runs_create(&x, &runs), "no memory");
        for (size_t i = 0; i < rp_candidates_count(set); i++) {
            const rp_candidate c = rp_candidates_get(set, i);
            rp_schedule schedule = {0};
            RP_REQUIRE_OK(context, rp_candidates_build(set, i, &schedule));
            RP_REQUIRE(rp_runs_load(&runs, &schedule), "a schedule that is too long");
            runs.level = c.live_peak_bytes * 3 / 4;
            rp_runs_take(&runs);
            /* of several outputs a schedule may make some again, a list makes all */
            RP_CHECK((features & RP_TEST_OUTPUTS) != 0 ||
                         (runs.peak <= c.live_peak_bytes && runs.cost <= c.recompute_cost_ns),
                     "seed %d: a list is worse than its schedule", (int)seed);
            leave_out_replays(&runs, &random, seed);
            rp_schedule_clear(context, &schedule);
            lists++;
        }
        rp_runs_clear(&runs);
        rp_candidates_destroy(set);
    }
    rp_expander_clear(&x);
    rp_graph_destroy(graph);
    return lists;
}

static void test_lists_have_the_figures_of_the_verifier(void) {
    rp_context *context = rp_test_context(1);
    const uint64_t seeds = rp_test_samples(1000, 20000);
    uint64_t lists = 0;
    for (uint64_t seed = 1; seed <= seeds; seed++)
        lists += (uint64_t)check_lists(context, seed);
    RP_CHECK(lists > seeds / 2, "%d lists", (int)lists);
    rp_context_destroy(context);
}

static rp_candidates *anneal(const rp_graph *graph) {
    rp_candidates *set = rp_test_family(graph, rp_propose_keep_all, 0);
    rp_expander x;
    rp_bound bound;
    RP_REQUIRE_OK(graph->context, rp_expander_create(graph, &x));
    RP_REQUIRE_OK(graph->context, rp_bound_create(graph, &bound));
    RP_CHECK_OK(graph->context, rp_anneal(&x, &bound, 20000000, 1, set));
    rp_bound_clear(graph->context, &bound);
    rp_expander_clear(&x);
    return set;
}

/* From keep-all alone it comes a good way down, the same way each time. */
static void test_annealing_is_the_same_every_time(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_unet(context, 6);
    rp_candidates *set = anneal(graph), *again = anneal(graph);
    const int64_t most = rp_candidates_get(set, 0).live_peak_bytes;
    const size_t count = rp_candidates_count(set);
    RP_CHECK(count > 3 && rp_test_minimum(set) < most * 4 / 5,
             "%zu schedules, down to %lld of %lld", count, (long long)rp_test_minimum(set),
             (long long)most);
    RP_REQUIRE_EQUAL(count, rp_candidates_count(again));
    for (size_t i = 0; i < count; i++) {
        const rp_candidate a = rp_candidates_get(set, i), b = rp_candidates_get(again, i);
        RP_CHECK_EQUAL(a.live_peak_bytes, b.live_peak_bytes);
        RP_CHECK_EQUAL(a.recompute_cost_ns, b.recompute_cost_ns);
    }
    rp_candidates_destroy(set);
    rp_candidates_destroy(again);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_lists_have_the_figures_of_the_verifier),
    RP_TEST(test_annealing_is_the_same_every_time),
};
RP_SUITE(anneal, tests)
