/* Decisions to schedules: whatever is decided, the schedule is valid and its peak is exact. */
#include <stdlib.h>
#include <string.h>

#include "expand.h"
#include "families.h"
#include "graphs.h"
#include "steps.h"
#include "strategy.h"
#include "verify.h"
#include "written.h"

/* Expands, builds, verifies; the verdict and the expansion must agree. */
static void check_expansion(rp_expander *x, const rp_drops *drops, rp_verdict *verdict) {
    const rp_graph *graph = x->graph;
    rp_context *const context = graph->context;
    bool within = false;
    rp_schedule schedule = {0};
    RP_REQUIRE_OK(context, rp_expander_run(x, drops, RP_NO_LIMITS, &within));
    RP_REQUIRE(within, "the expansion stopped");
    RP_REQUIRE_OK(context, rp_expander_build(x, &schedule));
    RP_REQUIRE_OK(context, rp_verify_schedule(graph, schedule.steps, schedule.count, verdict));
    RP_CHECK_EQUAL(x->peak, verdict->live_peak_bytes);
    RP_CHECK_EQUAL(x->cost, verdict->recompute_cost_ns);
    rp_schedule_clear(context, &schedule);
}

/* An expander that has seen other decisions, and has given up these, ends as a new one does. */
static void check_like_new(rp_expander *x, const rp_drops *drops) {
    rp_context *const context = x->graph->context;
    rp_expander fresh;
    rp_schedule here = {0}, there = {0};
    bool within = false;
    RP_REQUIRE_OK(context,
                  rp_expander_run(x, drops, (rp_limits){x->peak - 1, x->cost / 2, 0}, &within));
    RP_CHECK(!within || x->cost == 0, "an expansion beyond its limits");
    RP_REQUIRE_OK(context, rp_expander_run(x, drops, RP_NO_LIMITS, &within));
    RP_REQUIRE_OK(context, rp_expander_build(x, &here));
    RP_REQUIRE_OK(context, rp_expander_create(x->graph, &fresh));
    RP_REQUIRE_OK(context, rp_expander_run(&fresh, drops, RP_NO_LIMITS, &within));
    RP_REQUIRE_OK(context, rp_expander_build(&fresh, &there));
    RP_REQUIRE_EQUAL(here.count, there.count);
    for (size_t i = 0; i < here.count; i++)
        RP_CHECK(here.steps[i].kind == there.steps[i].kind &&
                     here.steps[i].index == there.steps[i].index,
                 "step %zu is another one", i);
    RP_CHECK_EQUAL(x->peak, fresh.peak);
    RP_CHECK_EQUAL(x->peak_run, fresh.peak_run);
    rp_schedule_clear(context, &here);
    rp_schedule_clear(context, &there);
    rp_expander_clear(&fresh);
}

static void check_without_drops(rp_expander *x, rp_drops *drops) {
    const rp_graph *graph = x->graph;
    rp_verdict verdict, keep_all;
    rp_schedule schedule = {0};
    RP_REQUIRE_OK(graph->context, rp_drops_reset(x, drops));
    check_expansion(x, drops, &verdict);
    if (drops->size > 0)
        return;
    RP_REQUIRE_OK(graph->context, rp_keep_all_schedule(graph, &schedule));
    RP_CHECK_OK(graph->context,
                rp_verify_schedule(graph, schedule.steps, schedule.count, &keep_all));
    RP_CHECK_EQUAL(verdict.live_peak_bytes, keep_all.live_peak_bytes);
    RP_CHECK_EQUAL(verdict.recompute_nodes, 0);
    rp_schedule_clear(graph->context, &schedule);
}

static void check_random_drops(rp_context *context, uint64_t seed, int features) {
    rp_test_random random = {seed ^ 0x5EED};
    rp_graph *graph = rp_test_random_graph(context, seed, 1 + (uint32_t)(seed % 40), features);
    rp_expander x;
    rp_drops drops;
    const rp_status status = rp_expander_create(graph, &x);
    if (status == RP_INFEASIBLE) { /* a mark that cannot be honoured */
        RP_CHECK(features & RP_TEST_RECOMPUTE, "infeasible without a mark");
        rp_graph_destroy(graph);
        return;
    }
    RP_REQUIRE_OK(context, status);
    RP_REQUIRE_OK(context, rp_drops_create(&x, &drops));
    for (int round = 0; round < 4; round++) {
        rp_verdict verdict;
        check_without_drops(&x, &drops);
        const uint32_t count = 1 + rp_test_random_below(&random, 60);
        for (uint32_t i = 0; i < count; i++) {
            const uint32_t v = rp_test_random_below(&random, (uint32_t)graph->value_count);
            const uint32_t stage = rp_test_random_below(&random, (uint32_t)graph->node_count);
            RP_CHECK_OK(context, rp_drops_add(&x, &drops, v, stage));
        }
        check_expansion(&x, &drops, &verdict);
        check_like_new(&x, &drops);
    }
    rp_drops_clear(context, &drops);
    rp_expander_clear(&x);
    rp_graph_destroy(graph);
}

static void test_GR_16_random_drops_on_random_graphs_are_valid(void) {
    rp_context *context = rp_test_context(1);
    const uint64_t count = rp_test_samples(4000, 50000);
    for (uint64_t seed = 0; seed < count; seed++)
        check_random_drops(context, seed, (int)(seed * 2654435761u >> 7) & RP_TEST_EVERYTHING);
    rp_context_destroy(context);
}

/* Two slices of one parameter: the second view is no write; what read the first may run again. */
static void test_a_view_of_a_parameter_does_not_overwrite_it(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, "p pool 20\np x 10\n"
                                                     "f slice.0 0 pool -> v0=pool\n"
                                                     "f copy.0 1 v0 -> w0:100 !recompute\n"
                                                     "f mul.0 1 x w0 -> y:10\n"
                                                     "f slice.1 0 pool -> v1=pool\n"
                                                     "f copy.1 1 v1 -> w1:100 !recompute\n"
                                                     "f mul.1 1 y w1 -> z:10\n"
                                                     "b mul.1.bwd 1 z w1 -> dy:10\n"
                                                     "b mul.0.bwd 1 dy w0 -> dx:10\no dx\n");
    rp_candidates *set = rp_test_family(graph, rp_propose_auto, 0);
    RP_CHECK_EQUAL(rp_candidates_get(set, 0).recompute_nodes, 2);
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* ---- Which marks can be honoured ------------------------------------------------------------- */

/* All schedules of a small graph, as far as marks ask: a state is how many nodes have run, which
 * outputs of marked nodes are live, and which were away between the turn's two runs. Everything
 * else stays live, which never hurts without a budget. */
enum { MARKED_MOST = 6, NODES_MOST = 12, STATES = (NODES_MOST + 1) << (2 * MARKED_MOST) };

typedef struct world {
    const rp_graph *graph;
    uint32_t marked[MARKED_MOST], marked_count;
    uint8_t seen[STATES];
    uint32_t queue[STATES], queue_count;
} world;

static uint32_t mask_of(const world *w, const uint32_t *values, size_t count) {
    uint32_t mask = 0;
    for (size_t i = 0; i < count; i++)
        for (uint32_t m = 0; m < w->marked_count; m++)
            if (w->marked[m] == values[i])
                mask |= 1u << m;
    return mask;
}

static uint32_t inputs_of(const world *w, uint32_t n) {
    return mask_of(w, rp_node_inputs(w->graph, n), w->graph->nodes[n].inputs.count);
}

static uint32_t outputs_of(const world *w, uint32_t n) {
    return mask_of(w, rp_node_outputs(w->graph, n), w->graph->nodes[n].outputs.count);
}

static void visit(world *w, uint32_t ran, uint32_t live, uint32_t away) {
    const rp_graph *graph = w->graph;
    if (ran > graph->last_forward && ran <= graph->first_backward)
        away |= ~live & ((1u << w->marked_count) - 1);
    const uint32_t state = (ran << 2 * MARKED_MOST) | live << MARKED_MOST | away;
    if (!w->seen[state])
        w->queue[w->queue_count++] = state;
    w->seen[state] = 1;
}

static bool honours_marks(world *w) {
    const rp_graph *graph = w->graph;
    const uint32_t all = (1u << w->marked_count) - 1;
    const uint32_t needed = mask_of(w, graph->outputs, graph->output_count);
    memset(w->seen, 0, sizeof w->seen);
    w->queue_count = 0;
    visit(w, 0, 0, 0);
    while (w->queue_count > 0) {
        const uint32_t state = w->queue[--w->queue_count], ran = state >> 2 * MARKED_MOST;
        const uint32_t live = state >> MARKED_MOST & all, away = state & all;
        if (ran == graph->node_count && (needed & ~live) == 0 && away == all)
            return true;
        if (ran < graph->node_count && (inputs_of(w, ran) & ~live) == 0)
            visit(w, ran + 1, live | outputs_of(w, ran), away);
        for (uint32_t m = 0; m < w->marked_count; m++) {
            const uint32_t n = graph->values[w->marked[m]].writer;
            if (live >> m & 1)
                visit(w, ran, live & ~(1u << m), away);
            else if ((inputs_of(w, n) & ~live) == 0 && rp_test_may_run_again(graph, n, ran))
                visit(w, ran, live | outputs_of(w, n), away);
        }
    }
    return false;
}

/* The marked values; false if there are none, too many, or no turn. */
static bool open_world(world *w, const rp_graph *graph) {
    w->graph = graph;
    w->marked_count = 0;
    if (graph->last_forward == RP_NONE || graph->first_backward == RP_NONE ||
        graph->last_forward > graph->first_backward)
        return false;
    for (uint32_t v = 0; v < graph->value_count; v++)
        if (!graph->values[v].persistent &&
            graph->nodes[graph->values[v].writer].mark == RP_MARK_RECOMPUTE) {
            if (w->marked_count == MARKED_MOST)
                return false;
            w->marked[w->marked_count++] = v;
        }
    return w->marked_count > 0;
}

/* Plans exist exactly where some schedule honours all marks, also where a later node overwrites
 * what a marked one reads: it then runs again before. */
static void test_marks_are_honoured_wherever_any_schedule_can(void) {
    rp_context *context = rp_test_context(1);
    world *w = malloc(sizeof *w);
    RP_REQUIRE(w != NULL, "no memory");
    const uint64_t count = rp_test_samples(6000, 100000);
    int plans = 0, none = 0;
    for (uint64_t seed = 0; seed < count; seed++) {
        rp_graph *graph = rp_test_random_graph(context, seed, 4 + (uint32_t)(seed % 9),
                                               RP_TEST_EVERYTHING & ~RP_TEST_KEEP);
        if (open_world(w, graph)) {
            rp_plan *plan = NULL;
            const bool possible = honours_marks(w);
            RP_CHECK(rp_plan_create(graph, NULL, &plan, NULL) == (possible ? RP_OK : RP_INFEASIBLE),
                     "seed %d: %s, %s", (int)seed, possible ? "possible" : "impossible",
                     rp_context_message(context));
            plans += possible;
            none += !possible;
            rp_plan_destroy(plan);
        }
        rp_graph_destroy(graph);
    }
    RP_CHECK(plans > 100 && none > 10, "%d with plans, %d without", plans, none);
    free(w);
    rp_context_destroy(context);
}

/* The smallest of the kind: B overwrites what F reads, so F runs again between the turn and B. */
static void test_a_marked_node_runs_again_before_its_input_is_overwritten(void) {
    static const char *const texts[] = {
        "p x 8\np s 2\nf F 1 s -> a:4 !recompute\nf T 1 x -> t:1\n"
        "b B 1 t -> s b:1\nb C 1 a b -> c:1\no c\n",
        /* G cannot wait for B: what it reads of F is lost with the turn, so it runs behind it */
        "p x 8\np s 2\nf F 1 s -> a:4 !recompute\nf G 1 a -> g:4 !recompute\n"
        "f T 1 x -> s t:1\nb B 1 t -> b:1\nb C 1 g b -> c:1\no c\n",
    };
    rp_context *context = rp_test_context(1);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        rp_graph *graph = rp_test_written_graph(context, texts[i]);
        rp_plan *plan = NULL;
        rp_plan_report report;
        RP_REQUIRE_OK(context, rp_plan_create(graph, NULL, &plan, &report));
        RP_CHECK_EQUAL(report.recompute_nodes, 1);
        rp_plan_destroy(plan);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_GR_16_random_drops_on_random_graphs_are_valid),
    RP_TEST(test_marks_are_honoured_wherever_any_schedule_can),
    RP_TEST(test_a_marked_node_runs_again_before_its_input_is_overwritten),
    RP_TEST(test_a_view_of_a_parameter_does_not_overwrite_it),
};
RP_SUITE(expand, tests)
