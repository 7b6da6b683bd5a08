/* The exact search against all schedules of small graphs, and the others against it. */
#include "bound.h"
#include "exact.h"
#include "families.h"
#include "graphs.h"
#include "steps.h"
#include "verify.h"
#include "written.h"

#include <stdio.h>
#include <stdlib.h>

enum { ENOUGH = 4000000, MOST_NODES = 12, MOST_VALUES = 13 };

/* The cheapest schedule within the budget: its cost and peak. False: there is none. */
static bool solve(const rp_graph *graph, int64_t budget, rp_candidate *best) {
    rp_exact_result result;
    rp_schedule schedule = {.steps = NULL};
    rp_verdict verdict;
    int64_t effort = ENOUGH;
    RP_REQUIRE_OK(graph->context,
                  rp_exact_solve(graph, budget, INT64_MAX, &effort, &result, &schedule));
    RP_REQUIRE(result.outcome != RP_EXACT_STOPPED, "%d states were not enough", ENOUGH);
    if (result.outcome == RP_EXACT_FOUND) {
        RP_REQUIRE_OK(graph->context,
                      rp_verify_schedule(graph, schedule.steps, schedule.count, &verdict));
        RP_CHECK(verdict.live_peak_bytes <= budget, "peak %lld above %lld",
                 (long long)verdict.live_peak_bytes, (long long)budget);
        RP_CHECK_EQUAL(verdict.recompute_cost_ns, result.least);
        *best = (rp_candidate){verdict.live_peak_bytes, verdict.recompute_cost_ns,
                               verdict.recompute_nodes};
    }
    rp_schedule_clear(graph->context, &schedule);
    return result.outcome == RP_EXACT_FOUND;
}

/* ---- All schedules --------------------------------------------------------------------------- */

/* Every state that any run or drop leads to, with the least cost of getting there. For graphs
 * without views, in-place hints and marks recompute: a state is how many nodes have run and which
 * values are live. */
typedef struct world {
    const rp_graph *graph;
    uint32_t bit[64]; /* of each value; 0: persistent */
    uint32_t inputs[MOST_NODES], outputs[MOST_NODES];
    int64_t bytes[1 << MOST_VALUES]; /* of each set of values */
    int64_t cost[MOST_NODES + 1][1 << MOST_VALUES];
    bool waiting[MOST_NODES + 1][1 << MOST_VALUES];
    uint32_t queue[(MOST_NODES + 1) << MOST_VALUES], head, tail; /* a ring */
    uint32_t values;
} world;

static uint32_t mask_of(const world *w, rp_range list) {
    uint32_t mask = 0;
    for (size_t i = 0; i < list.count; i++)
        mask |= w->bit[w->graph->edges[list.begin + i]];
    return mask;
}

static bool open_world(world *w, const rp_graph *graph) {
    w->graph = graph;
    w->values = 0;
    if (graph->node_count > MOST_NODES || graph->value_count > 64)
        return false;
    for (uint32_t v = 0; v < graph->value_count; v++)
        w->bit[v] = graph->values[v].persistent ? 0 : 1u << w->values++;
    if (w->values > MOST_VALUES)
        return false;
    for (uint32_t set = 0; set < 1u << w->values; set++) {
        w->bytes[set] = graph->persistent_bytes;
        for (uint32_t v = 0; v < graph->value_count; v++)
            w->bytes[set] += set & w->bit[v] ? graph->values[v].bytes : 0;
    }
    for (uint32_t n = 0; n < graph->node_count; n++) {
        w->inputs[n] = mask_of(w, graph->nodes[n].inputs);
        w->outputs[n] = mask_of(w, graph->nodes[n].outputs);
    }
    return true;
}

static void reach(world *w, uint32_t ran, uint32_t live, int64_t cost) {
    if (cost >= w->cost[ran][live])
        return;
    w->cost[ran][live] = cost;
    if (w->waiting[ran][live])
        return;
    w->waiting[ran][live] = true;
    w->queue[w->tail] = ran << MOST_VALUES | live;
    w->tail = (w->tail + 1) % (sizeof w->queue / sizeof w->queue[0]);
}

/* INT64_MAX: no schedule fits. */
static int64_t try_everything(world *w, int64_t budget) {
    const rp_graph *graph = w->graph;
    const uint32_t nodes = (uint32_t)graph->node_count;
    uint32_t needed = 0;
    for (size_t i = 0; i < graph->output_count; i++)
        needed |= w->bit[graph->outputs[i]];
    for (uint32_t ran = 0; ran <= nodes; ran++)
        for (uint32_t live = 0; live < 1u << w->values; live++)
            w->cost[ran][live] = INT64_MAX;
    w->head = w->tail = 0;
    reach(w, 0, 0, 0);
    while (w->head != w->tail) {
        const uint32_t state = w->queue[w->head], ran = state >> MOST_VALUES;
        const uint32_t live = state & ((1u << MOST_VALUES) - 1);
        w->head = (w->head + 1) % (sizeof w->queue / sizeof w->queue[0]);
        w->waiting[ran][live] = false;
        for (uint32_t v = 0; v < w->values; v++)
            if (live >> v & 1)
                reach(w, ran, live & ~(1u << v), w->cost[ran][live]);
        for (uint32_t n = 0; n <= ran && n < nodes; n++) {
            const uint32_t after = live | w->outputs[n];
            if ((w->inputs[n] & ~live) != 0 ||
                (n != ran && !rp_test_may_run_again(graph, n, ran)) ||
                w->bytes[after] + graph->nodes[n].workspace > budget)
                continue;
            reach(w, ran + (n == ran), after,
                  w->cost[ran][live] + (n == ran ? 0 : graph->nodes[n].cost_ns));
        }
    }
    int64_t least = INT64_MAX;
    for (uint32_t live = 0; live < 1u << w->values; live++)
        if ((needed & ~live) == 0 && w->cost[nodes][live] < least)
            least = w->cost[nodes][live];
    return least;
}

static void test_PL_04_exact_equals_trying_everything(void) {
    rp_context *context = rp_test_context(1);
    world *w = calloc(1, sizeof *w);
    RP_REQUIRE(w != NULL, "no memory");
    const int features = RP_TEST_BACKWARD | RP_TEST_OUTPUTS | RP_TEST_PERSISTENT | RP_TEST_KEEP |
                         RP_TEST_WORKSPACE | RP_TEST_ALIGNMENT;
    const uint64_t seeds = rp_test_samples(600, 4000);
    int budgets = 0, replayed = 0;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        rp_graph *graph = rp_test_random_graph(context, seed, 2 + (uint32_t)(seed % 10),
                                               (int)(seed * 37 % 1024) & features);
        if (open_world(w, graph)) {
            rp_bound bound;
            rp_candidate best = {0, 0, 0};
            RP_REQUIRE_OK(context, rp_bound_create(graph, &bound));
            for (int64_t budget = INT64_MAX;; budget = best.live_peak_bytes - 1) {
                const int64_t least = try_everything(w, budget);
                const bool found = solve(graph, budget, &best);
                RP_CHECK_EQUAL(found, least < INT64_MAX);
                RP_CHECK(rp_bound_cost(&bound, budget) <= least, "seed %d: the bound is wrong",
                         (int)seed);
                if (!found)
                    break;
                RP_CHECK_EQUAL(best.recompute_cost_ns, least);
                RP_CHECK(bound.floor_bytes <= best.live_peak_bytes, "the floor is wrong");
                budgets++;
                replayed += least > 0;
            }
            rp_bound_clear(context, &bound);
        }
        rp_graph_destroy(graph);
    }
    RP_CHECK((uint64_t)budgets > seeds / 2 && (uint64_t)replayed > seeds / 6,
             "%d budgets, %d with replays", budgets, replayed);
    free(w);
    rp_context_destroy(context);
}

/* Forty values wait for a run that would not fit without all of them: to try every set of them
 * would take for ever. */
static void test_what_never_fits_is_seen_at_once(void) {
    enum { VALUES = 40, TEXT_BYTES = 4096 };
    rp_context *context = rp_test_context(1);
    char text[TEXT_BYTES];
    rp_candidate best;
    int length = snprintf(text, sizeof text, "p x 1\n");
    for (int i = 0; i < VALUES; i++)
        length +=
            snprintf(text + length, sizeof text - (size_t)length, "f F%d 1 x -> a%d:4\n", i, i);
    length += snprintf(text + length, sizeof text - (size_t)length, "f W 1 x -> w:1000\nb B 1 w");
    for (int i = 0; i < VALUES; i++)
        length += snprintf(text + length, sizeof text - (size_t)length, " a%d", i);
    snprintf(text + length, sizeof text - (size_t)length, " -> g:1\no g\n");
    rp_graph *graph = rp_test_written_graph(context, text);
    RP_CHECK(!solve(graph, 900, &best), "a schedule in less than one value takes");
    RP_CHECK(solve(graph, 1200, &best) && best.recompute_cost_ns == 0, "nothing need be dropped");
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* ---- Others ---------------------------------------------------------------------------------- */

typedef struct tally {
    int points, missed, seed;
} tally;

/* Every distinct budget of the graph: whether auto's family reaches the optimum, and the bounds
 * hold. */
static void compare_with_auto(rp_graph *graph, tally *t) {
    rp_candidates *set = NULL;
    rp_candidate best = {0, 0, 0};
    rp_bound bound;
    RP_REQUIRE_OK(graph->context, rp_candidates_create(graph, &set));
    RP_REQUIRE_OK(graph->context, rp_bound_create(graph, &bound));
    const rp_status status = rp_propose_auto(graph, 0, set);
    RP_CHECK(status == RP_OK || status == RP_INFEASIBLE, "%s", rp_context_message(graph->context));
    for (int64_t budget = INT64_MAX; solve(graph, budget, &best);
         budget = best.live_peak_bytes - 1) {
        const int64_t cost = rp_test_cost_within(set, best.live_peak_bytes);
        const int64_t proven = rp_candidates_proven(set, best.live_peak_bytes);
        RP_CHECK(cost == -1 || cost >= best.recompute_cost_ns, "auto is below the optimum: seed %d",
                 t->seed);
        RP_CHECK(proven <= best.recompute_cost_ns, "a proof is wrong");
        RP_CHECK(rp_candidates_floor(set) <= best.live_peak_bytes, "a proven floor is wrong");
        RP_CHECK(rp_bound_cost(&bound, best.live_peak_bytes) <= best.recompute_cost_ns,
                 "the bound is wrong: seed %d", t->seed);
        RP_CHECK(bound.floor_bytes <= best.live_peak_bytes, "the floor is wrong");
        t->points++;
        t->missed += cost != best.recompute_cost_ns;
    }
    rp_bound_clear(graph->context, &bound);
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
}

static void check_tally(const char *what, tally t) {
    printf("    auto on %s: %d of %d budgets not optimal\n", what, t.missed, t.points);
    RP_CHECK(t.points > 0 && t.missed * 100 <= t.points, "more than 1 %% missed");
}

static void test_PL_04_auto_equals_exact_on_chains(void) {
    rp_context *context = rp_test_context(1);
    rp_test_random random = {7};
    tally t = {0, 0, 0};
    for (uint32_t length = 1; length <= 10; length++)
        for (int kind = 0; kind < 4; kind++) {
            int64_t sizes[11];
            for (uint32_t i = 0; i <= length; i++)
                sizes[i] = 1 + rp_test_random_below(&random, 1 << (2 * kind));
            compare_with_auto(rp_test_chain(context, length, 0, sizes, 1), &t);
        }
    check_tally("chains", t);
    rp_context_destroy(context);
}

static void test_PL_04_auto_equals_exact_on_random_graphs(void) {
    rp_context *context = rp_test_context(1);
    tally t = {0, 0, 0};
    const uint64_t seeds = rp_test_samples(2000, 20000);
    for (uint64_t seed = 0; seed < seeds; seed++, t.seed++)
        compare_with_auto(
            rp_test_random_graph(context, seed, 2 + (uint32_t)(seed % 11), (int)(seed * 37 % 1024)),
            &t);
    check_tally("random graphs", t);
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_PL_04_exact_equals_trying_everything),
    RP_TEST(test_what_never_fits_is_seen_at_once),
    RP_TEST(test_PL_04_auto_equals_exact_on_chains),
    RP_TEST(test_PL_04_auto_equals_exact_on_random_graphs),
};
RP_SUITE(exact, tests)
