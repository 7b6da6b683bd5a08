/* Checkpointing of chains: Griewank's optimum, the tables of convention M (cases.md), and all
 * persistent schedules of small chains. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chain.h"
#include "exact.h"
#include "families.h"
#include "family.h"
#include "graphs.h"
#include "segments.h"
#include "written.h"

enum { UNIT = 4096, COST = 1000, MOST_STEPS = 96, MOST_TEXT = 16384 };

/* ---- Uniform chains -------------------------------------------------------------------------- */

/* As Griewank counts: step i takes state i - 1 to state i, in its place if nobody needs that any
 * more; backward of step i needs state i - 1 and contains the step itself. State 0 is held, and
 * gradients have no bytes. `length` steps in s slots take s + 1 units. */
static rp_graph *make_uniform(rp_context *context, uint32_t length) {
    static char text[MOST_TEXT];
    int used = snprintf(text, sizeof text, "p x0 %d\n", UNIT);
    for (uint32_t i = 1; i < length; i++) {
        used += snprintf(text + used, sizeof text - (size_t)used, "f f%u %d x%u -> x%u:%d", i, COST,
                         i - 1, i, UNIT);
        used += i > 1 ? snprintf(text + used, sizeof text - (size_t)used, " !x%u/x%u\n", i, i - 1)
                      : snprintf(text + used, sizeof text - (size_t)used, "\n");
    }
    used += snprintf(text + used, sizeof text - (size_t)used, "b loss 0 -> g%u:0\n", length);
    for (uint32_t i = length; i > 0; i--)
        used += snprintf(text + used, sizeof text - (size_t)used, "b b%u %d x%u g%u -> g%u:0\n", i,
                         COST, i - 1, i, i - 1);
    used += snprintf(text + used, sizeof text - (size_t)used, "o g0\n");
    RP_REQUIRE(used < MOST_TEXT, "%d characters", used);
    return rp_test_written_graph(context, text);
}

/* The fewest runs of a step beyond the first of each: r l - C(s + r, r - 1) - (l - 1). */
static int64_t count_griewank(int64_t length, int64_t slots) {
    int64_t r = 0, reach = 1, before = 0;
    while (reach < length) {
        r++;
        before = r > 1 ? reach * (slots + r) / (slots + 1) : 1;
        reach = reach * (slots + r) / r;
    }
    return r * length - before - (length - 1);
}

/* What the strategy plans within exactly the bytes of each number of slots, layout included. */
static void check_griewank(const char *name, uint32_t length) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = make_uniform(context, length);
    const rp_strategy *strategy = NULL;
    uint32_t argument = 0;
    rp_family family;
    RP_REQUIRE_OK(context, rp_strategy_find(context, name, &strategy, &argument));
    RP_REQUIRE_OK(context, rp_family_create(graph, strategy, argument, &family));
    for (uint32_t slots = 1; slots < length; slots++) {
        size_t member = 0;
        RP_REQUIRE_OK(context, rp_family_select(&family, ((int64_t)slots + 1) * UNIT, &member));
        RP_REQUIRE(member < family.count, "%s: %u steps, %u slots: nothing", name, length, slots);
        const rp_candidate found = rp_candidates_get(family.set, member);
        const int64_t want = count_griewank(length, slots);
        RP_CHECK(found.recompute_cost_ns == COST * want && (int64_t)found.recompute_nodes == want,
                 "%s: %u steps, %u slots: %d replays, not %d", name, length, slots,
                 (int)found.recompute_nodes, (int)want);
    }
    rp_family_clear(&family);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_the_fewest_runs_are_those_of_all_splits(void) {
    static int64_t runs[MOST_STEPS + 1][MOST_STEPS + 1]; /* of a length, with slots */
    for (int64_t length = 2; length <= MOST_STEPS; length++)
        for (int64_t slots = 1; slots < MOST_STEPS; slots++) {
            int64_t least = slots == 1 ? length * (length - 1) / 2 : INT64_MAX;
            for (int64_t split = 1; split < length && slots > 1; split++) {
                const int64_t now = split + runs[split][slots] + runs[length - split][slots - 1];
                least = now < least ? now : least;
            }
            runs[length][slots] = least;
            RP_CHECK_EQUAL(count_griewank(length, slots), least - (length - 1));
        }
}

static void test_revolve_equals_griewank_for_every_length_and_all_slots(void) {
    for (uint32_t length = 2; length <= MOST_STEPS; length++)
        check_griewank("revolve", length);
}

static void test_optimal_equals_griewank(void) {
    for (uint32_t length = 2; length <= MOST_STEPS; length++)
        if (rp_test_is_long() || length <= 9 || length == 17 || length == 40 ||
            length == (uint32_t)rp_test_samples(MOST_STEPS, MOST_STEPS))
            check_griewank("optimal", length);
}

static void test_chain_dp_equals_griewank_where_stages_are_equal(void) {
    for (uint32_t length = 2; length <= MOST_STEPS; length += length < 40 ? 1 : 28)
        check_griewank("chain-dp", length);
}

/* ---- Convention M ---------------------------------------------------------------------------- */

typedef struct row {
    int64_t peak, replayed;
} row;

static const row even[] = {{6, 8},  {7, 7},  {8, 6},  {9, 5}, {10, 4},
                           {11, 3}, {12, 2}, {13, 1}, {14, 0}};
static const int64_t uneven_sizes[] = {1, 1, 8, 1, 1, 8, 1, 1, 8, 1};
static const row uneven[] = {{19, 6}, {20, 5}, {21, 4}, {22, 3}, {23, 2}, {31, 1}, {39, 0}};

/* The fewest replays within the peak over all boundaries of one level, the last segment kept. */
static int64_t count_single_level(const rp_graph *graph, uint32_t length, int64_t peak) {
    int64_t least = -1;
    uint32_t segment[64];
    rp_expander x;
    rp_drops drops;
    RP_REQUIRE_OK(graph->context, rp_expander_create(graph, &x));
    RP_REQUIRE_OK(graph->context, rp_drops_create(&x, &drops));
    for (uint32_t cuts = 0; cuts < 1u << (length - 1); cuts++) { /* bit i: behind op i + 1 */
        bool within = false;
        for (uint32_t n = 0, current = 0; n < graph->node_count; n++) {
            segment[n] = n < length && cuts >> n != 0 ? current : RP_NONE;
            current += n + 1 < length && (cuts >> n & 1) != 0;
        }
        RP_REQUIRE_OK(graph->context, rp_drops_reset(&x, &drops));
        RP_REQUIRE_OK(graph->context, rp_segments_drop(&x, segment, &drops));
        RP_REQUIRE_OK(graph->context, rp_expander_run(&x, &drops, RP_NO_LIMITS, &within));
        if (within && x.peak <= peak && (least < 0 || x.cost < least))
            least = x.cost;
    }
    rp_drops_clear(graph->context, &drops);
    rp_expander_clear(&x);
    return least;
}

/* The table holds for one level; whoever may replay twice meets it or does better. */
static void check_table(uint32_t length, const int64_t *sizes, const row *rows, size_t count,
                        const rp_test_propose *all, size_t strategies) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, length, 1, sizes, 1);
    for (size_t i = 0; i < count; i++)
        RP_CHECK_EQUAL(count_single_level(graph, length, rows[i].peak), rows[i].replayed);
    RP_CHECK_EQUAL(count_single_level(graph, length, rows[0].peak - 1), -1);
    for (size_t s = 0; s < strategies; s++) {
        rp_candidates *set = rp_test_family(graph, all[s], 0);
        for (size_t i = 0; i < count; i++) {
            const int64_t cost = rp_test_cost_within(set, rows[i].peak);
            RP_CHECK(cost >= 0 && cost <= rows[i].replayed, "strategy %zu, peak %d: %d replays", s,
                     (int)rows[i].peak, (int)cost);
        }
        rp_candidates_destroy(set);
    }
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_PL_04_tables_of_one_level_are_met_or_beaten(void) {
    static const rp_test_propose all[] = {rp_propose_auto, rp_propose_chain_dp, rp_propose_revolve};
    check_table(12, NULL, even, sizeof even / sizeof even[0], all, 3);
    check_table(9, uneven_sizes, uneven, sizeof uneven / sizeof uneven[0], all, 2);
}

/* Of uniform chains Griewank knows the best: one step more than ops, one slot for a_0, which has no
 * bytes, and two units for gradients. */
static void test_PL_04_no_schedule_of_a_uniform_chain_is_better(void) {
    static const rp_test_propose all[] = {rp_propose_auto, rp_propose_chain_dp, rp_propose_revolve};
    rp_context *context = rp_test_context(1);
    for (uint32_t length = 1; length <= 12; length++)
        for (size_t s = 0; s < sizeof all / sizeof all[0]; s++) {
            rp_graph *graph = rp_test_chain(context, length, 1, NULL, 1);
            rp_candidates *set = rp_test_family(graph, all[s], 0);
            RP_CHECK_EQUAL(rp_test_minimum(set), 3);
            for (uint32_t peak = 3; peak <= length + 2; peak++)
                RP_CHECK_EQUAL(rp_test_cost_within(set, peak),
                               count_griewank(length + 1, peak - 2));
            rp_candidates_destroy(set);
            rp_graph_destroy(graph);
        }
    rp_context_destroy(context);
}

/* Two replays fit five ops in 5 units, as on one level; and all of them in 3. */
static void test_ME_05_ME_10_short_chains(void) {
    static const rp_test_propose all[] = {rp_propose_chain_dp, rp_propose_revolve};
    static const struct {
        uint32_t length;
        row row;
    } rows[] = {{3, {4, 1}}, {5, {5, 2}}, {5, {6, 1}}, {5, {7, 0}}, {2, {3, 1}}};
    rp_context *context = rp_test_context(1);
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            rp_graph *graph = rp_test_chain(context, rows[i].length, 1, NULL, 1);
            rp_candidates *set = rp_test_family(graph, all[s], 0);
            RP_CHECK_EQUAL(rp_candidates_get(set, 0).live_peak_bytes, rows[i].length + 2);
            RP_CHECK_EQUAL(rp_test_cost_within(set, rows[i].row.peak), rows[i].row.replayed);
            rp_candidates_destroy(set);
            rp_graph_destroy(graph);
        }
    rp_context_destroy(context);
}

/* ---- All persistent schedules ---------------------------------------------------------------- */

enum { MOST_STAGES = 8, MOST_POINTS = 64 };

/* A random chain and what the enumeration needs to know of it: state i is value a<i>, and a stage
 * may have an inner value m<i>. */
typedef struct chain {
    rp_graph *graph;
    uint32_t stages;
    bool has_inner;
    uint32_t state[MOST_STAGES + 1], inner[MOST_STAGES + 1]; /* inner: RP_NONE without one */
    uint32_t demand[MOST_STAGES + 1];
} chain;

static int append(char *text, int used, const char *format, ...) {
    va_list list;
    va_start(list, format);
    used += vsnprintf(text + used, MOST_TEXT - (size_t)used, format, list);
    va_end(list);
    RP_REQUIRE(used < MOST_TEXT, "%d characters", used);
    return used;
}

/* Chains of convention M with sizes, costs, workspaces of zero and, at random, outputs in the place
 * of inputs; with inner values stages are blocks of two nodes, and backward of a block reads the
 * inner value and then the state before it. */
static void make_random_chain(rp_context *context, uint64_t seed, uint32_t stages, bool has_inner,
                              chain *c) {
    static char text[MOST_TEXT];
    rp_test_random random = {seed};
    int64_t size[MOST_STAGES + 1];
    int used = append(text, 0, "p a0 0\n");
    for (uint32_t i = 1; i <= stages; i++) {
        const uint32_t cost = 1 + rp_test_random_below(&random, 9);
        size[i] = 1 + rp_test_random_below(&random, 12);
        if (has_inner) {
            const uint32_t inner_cost = rp_test_random_below(&random, 5);
            const uint32_t inner_bytes = 1 + rp_test_random_below(&random, 20);
            used = append(text, used, "f h%u %u a%u -> m%u:%u @b%u\n", i, inner_cost, i - 1, i,
                          inner_bytes, i);
            used =
                append(text, used, "f f%u %u m%u -> a%u:%d @b%u\n", i, cost, i, i, (int)size[i], i);
        } else {
            used = append(text, used, "f f%u %u a%u -> a%u:%d", i, cost, i - 1, i, (int)size[i]);
            used = append(text, used,
                          i > 1 && rp_test_random_below(&random, 3) == 0 ? " !a%u/a%u\n" : "\n", i,
                          i - 1);
        }
    }
    used = append(text, used, "b seed 0 a%u -> g%u:%d\n", stages, stages, (int)size[stages]);
    for (uint32_t i = stages; i > 0; i--) {
        const int bytes = i > 1 ? (int)size[i - 1] : 1;
        if (has_inner)
            used = append(text, used, "b bf%u 1 m%u g%u -> n%u:1\nb b%u 1 a%u n%u -> g%u:%d\n", i,
                          i, i, i, i, i - 1, i, i - 1, bytes);
        else
            used = append(text, used, "b b%u 1 a%u g%u -> g%u:%d\n", i, i, i, i - 1, bytes);
    }
    append(text, used, "o g0\n");
    *c = (chain){rp_test_written_graph(context, text), stages, has_inner, {0}, {0}, {0}};
    for (uint32_t i = 0; i <= stages; i++) {
        char name[16];
        snprintf(name, sizeof name, "a%u", i);
        c->state[i] = rp_test_value(c->graph, name);
        snprintf(name, sizeof name, "m%u", i);
        c->inner[i] = has_inner && i > 0 ? rp_test_value(c->graph, name) : RP_NONE;
        snprintf(name, sizeof name, has_inner ? "bf%u" : "b%u", has_inner ? i + 1 : i);
        c->demand[i] = i == stages || i == 0 ? RP_NONE : rp_test_node(c->graph, name);
    }
}

/* A row of states and the stage of the graph in which it is swept through. */
typedef struct span {
    uint32_t a, b, at;
} span;

/* What has been decided and what is still to be. */
typedef struct enumeration {
    const chain *chain;
    rp_expander x;
    rp_drops drops;
    span open[MOST_STAGES + 1], swept[4 * MOST_STAGES];
    size_t open_count, swept_count;
    row points[MOST_POINTS]; /* the best, in no order */
    size_t point_count, schedules;
} enumeration;

static void note_point(enumeration *e, row fresh) {
    size_t kept = 0;
    for (size_t i = 0; i < e->point_count; i++) {
        const row p = e->points[i];
        if (p.peak <= fresh.peak && p.replayed <= fresh.replayed)
            return;
    }
    for (size_t i = 0; i < e->point_count; i++)
        if (e->points[i].peak < fresh.peak || e->points[i].replayed < fresh.replayed)
            e->points[kept++] = e->points[i];
    RP_REQUIRE(kept < MOST_POINTS, "%zu points", kept);
    e->points[kept++] = fresh;
    e->point_count = kept;
}

/* Nothing of a sweep is carried behind its stage but the state that it ends with. */
static void expand_sweeps(enumeration *e) {
    rp_context *const context = e->x.graph->context;
    bool within = false;
    RP_REQUIRE_OK(context, rp_drops_reset(&e->x, &e->drops));
    for (size_t i = 0; i < e->swept_count; i++)
        for (uint32_t k = e->swept[i].a + 1; k <= e->swept[i].b; k++) {
            if (e->chain->inner[k] != RP_NONE)
                RP_REQUIRE_OK(context,
                              rp_drops_add(&e->x, &e->drops, e->chain->inner[k], e->swept[i].at));
            if (k < e->swept[i].b)
                RP_REQUIRE_OK(context,
                              rp_drops_add(&e->x, &e->drops, e->chain->state[k], e->swept[i].at));
        }
    RP_REQUIRE_OK(context, rp_expander_run(&e->x, &e->drops, RP_NO_LIMITS, &within));
    RP_REQUIRE(within, "a schedule out of all proportion");
    e->schedules++;
    note_point(e, (row){e->x.peak, e->x.cost});
}

/* Every way to decide what is open. */
static void enumerate(enumeration *e) {
    if (e->open_count == 0) {
        expand_sweeps(e);
        return;
    }
    const size_t open = e->open_count;
    const span now = e->open[--e->open_count];
    if (now.a == now.b)
        enumerate(e);
    for (uint32_t stop = now.a + 1; stop <= now.b; stop++) {
        e->open_count = open - 1;
        e->open[e->open_count++] = (span){now.a, stop - 1, e->chain->demand[stop - 1]};
        e->open[e->open_count++] = (span){stop, now.b, now.at};
        e->swept[e->swept_count++] = (span){now.a, stop, now.at};
        enumerate(e);
        e->swept_count--;
    }
    if (now.a < now.b && e->chain->has_inner) { /* all of the next stage is kept */
        e->open_count = open - 1;
        e->open[e->open_count++] = (span){now.a + 1, now.b, now.at};
        enumerate(e);
    }
    e->open_count = open;
    e->open[open - 1] = now;
}

/* chain-dp finds, for every peak at which it makes a difference, the best of all. */
static size_t check_against_all(const chain *c) {
    enumeration *e = calloc(1, sizeof *e);
    rp_context *const context = c->graph->context;
    RP_REQUIRE(e != NULL, "no memory");
    e->chain = c;
    RP_REQUIRE_OK(context, rp_expander_create(c->graph, &e->x));
    RP_REQUIRE_OK(context, rp_drops_create(&e->x, &e->drops));
    e->open[e->open_count++] = (span){0, c->stages, c->graph->last_forward};
    enumerate(e);
    rp_candidates *set = rp_test_family(c->graph, rp_propose_chain_dp, 0);
    for (size_t i = 0; i < e->point_count; i++)
        RP_CHECK(rp_test_cost_within(set, e->points[i].peak) == e->points[i].replayed,
                 "%u stages, peak %d: %d, not %d", c->stages, (int)e->points[i].peak,
                 (int)rp_test_cost_within(set, e->points[i].peak), (int)e->points[i].replayed);
    const size_t schedules = e->schedules;
    rp_candidates_destroy(set);
    rp_drops_clear(context, &e->drops);
    rp_expander_clear(&e->x);
    free(e);
    return schedules;
}

static void test_PL_04_chain_dp_finds_the_best_persistent_schedules(void) {
    rp_context *context = rp_test_context(1);
    const uint64_t seeds = rp_test_samples(60, 400);
    size_t schedules = 0;
    for (uint64_t seed = 0; seed < seeds; seed++)
        for (int has_inner = 0; has_inner < 2; has_inner++) {
            chain c;
            const uint32_t most = has_inner ? 4 : 7;
            make_random_chain(context, seed, 1 + (uint32_t)(seed % most), has_inner == 1, &c);
            schedules += check_against_all(&c);
            rp_graph_destroy(c.graph);
        }
    RP_CHECK(schedules > 84 * seeds, "%zu schedules are not many", schedules);
    rp_context_destroy(context);
}

static void test_PL_04_nothing_is_below_the_exact_optimum(void) {
    static const rp_test_propose all[] = {rp_propose_chain_dp, rp_propose_revolve,
                                          rp_propose_sqrt_recursive};
    rp_context *context = rp_test_context(1);
    for (uint64_t seed = 0; seed < 12; seed++)
        for (size_t s = 0; s < sizeof all / sizeof all[0]; s++) {
            chain c;
            make_random_chain(context, seed, 2 + (uint32_t)(seed % 3), seed % 2 == 1, &c);
            rp_candidates *set = rp_test_family(c.graph, all[s], 0);
            for (size_t i = 0; i < rp_candidates_count(set); i++) {
                const rp_candidate member = rp_candidates_get(set, i);
                int64_t effort = 2000000;
                rp_exact_result result;
                rp_schedule schedule = {0};
                RP_REQUIRE_OK(context, rp_exact_solve(c.graph, member.live_peak_bytes, INT64_MAX,
                                                      &effort, &result, &schedule));
                RP_CHECK(result.outcome == RP_EXACT_FOUND &&
                             result.least <= member.recompute_cost_ns,
                         "seed %d, member %zu", (int)seed, i);
                rp_schedule_clear(context, &schedule);
            }
            rp_candidates_destroy(set);
            rp_graph_destroy(c.graph);
        }
    rp_context_destroy(context);
}

/* ---- Other graphs ---------------------------------------------------------------------------- */

static void check_refused(rp_context *context, const char *text, rp_test_propose propose,
                          const char *const *words, size_t count) {
    rp_graph *graph = rp_test_written_graph(context, text);
    rp_candidates *set = NULL;
    RP_REQUIRE_OK(context, rp_candidates_create(graph, &set));
    RP_CHECK_STATUS(context, propose(graph, 0, set), RP_NOT_APPLICABLE);
    for (size_t i = 0; i < count; i++)
        RP_CHECK_MESSAGE(context, words[i]);
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
}

static void test_what_is_no_chain_is_named(void) {
    static const char skips[] = "p x 1\nf one 1 x -> a:1\nf two 1 a -> c:1\nf three 1 a c -> d:1\n"
                                "b back 1 d c a -> g:1\no g\n";
    static const char forth[] = "p x 1\nf one 1 x -> a:1\nf two 1 a -> c:1\nf three 1 c -> d:1\n"
                                "b early 1 a -> e:1\nb late 1 d c e -> g:1\no g\n";
    rp_context *context = rp_test_context(1);
    check_refused(context, skips, rp_propose_revolve,
                  (const char *const[]){"revolve", "a, which node 0 (one)", "node 2 (three)"}, 3);
    check_refused(context, skips, rp_propose_chain_dp,
                  (const char *const[]){"chain-dp", "a, which node 0 (one)"}, 2);
    check_refused(context, forth, rp_propose_revolve,
                  (const char *const[]){"node 4 (late)", "ask for d"}, 2);
    check_refused(context, forth, rp_propose_chain_dp,
                  (const char *const[]){"node 4 (late)", "ask for d"}, 2);
    check_refused(context, "p x 1\nf one 1 x -> a:1\no a\n", rp_propose_revolve,
                  (const char *const[]){"no backward node"}, 1);
    check_refused(context, "p x 1\nb one 1 x -> a:1\no a\n", rp_propose_chain_dp,
                  (const char *const[]){"no forward node"}, 1);
    check_refused(context,
                  "p x 1\nf one 1 x -> a:1\nb back 1 a -> g:1\nf two 1 g -> c:1\n"
                  "b last 1 c a -> d:1\no d\n",
                  rp_propose_revolve, (const char *const[]){"forward node 2 (two) stands behind"},
                  1);
    rp_context_destroy(context);
}

/* What skips a node but no layer is no obstacle: layers are found without labels. */
static void test_chain_dp_joins_what_is_skipped(void) {
    static char text[MOST_TEXT];
    rp_context *context = rp_test_context(1);
    int used = append(text, 0, "p r0 0\n");
    for (uint32_t i = 1; i <= 6; i++)
        used = append(text, used,
                      "f norm%u 1 r%u -> n%u:4\nf up%u 9 n%u -> u%u:16\nf down%u 9 u%u r%u -> "
                      "r%u:4\n",
                      i, i - 1, i, i, i, i, i, i, i - 1, i);
    used = append(text, used, "b seed 0 r6 -> g6:4\n");
    for (uint32_t i = 6; i > 0; i--)
        used =
            append(text, used, "b up%u.b 9 n%u u%u g%u -> w%u:4\nb norm%u.b 1 r%u w%u -> g%u:4\n",
                   i, i, i, i, i, i, i - 1, i, i - 1);
    append(text, used, "o g0\n");
    rp_graph *graph = rp_test_written_graph(context, text);
    rp_chain found;
    RP_REQUIRE_OK(context, rp_chain_create(graph, "this test", true, 100, &found));
    RP_CHECK_EQUAL(found.count, 8); /* r0 persists, so that the first layer is three */
    rp_chain_clear(context, &found);
    RP_REQUIRE_OK(context, rp_chain_create(graph, "this test", true, 3, &found));
    RP_CHECK_EQUAL(found.count, 3);
    rp_chain_clear(context, &found);
    rp_candidates *set = rp_test_family(graph, rp_propose_chain_dp, 0);
    rp_candidates *plain = rp_test_family(graph, rp_propose_keep_all, 0);
    RP_CHECK_EQUAL(rp_candidates_get(set, 0).recompute_nodes, 0);
    RP_CHECK(3 * rp_test_minimum(set) < rp_test_minimum(plain), "no saving");
    rp_candidates_destroy(plain);
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* More levels, less memory: a chain of n ops needs about the square root on one level, and about
 * the logarithm on all. */
static void test_sqrt_recursive_goes_below_sqrt(void) {
    rp_context *context = rp_test_context(1);
    for (uint32_t length = 16; length <= 256; length *= 4) {
        rp_graph *graph = rp_test_chain(context, length, 1, NULL, 1);
        rp_candidates *one = rp_test_family(graph, rp_propose_sqrt, 0);
        rp_candidates *more = rp_test_family(graph, rp_propose_sqrt_recursive, 0);
        int64_t logarithm = 0;
        while (1 << logarithm < (int)length)
            logarithm++;
        RP_CHECK(rp_test_minimum(one) * rp_test_minimum(one) <= 8 * length, "%u ops: %d", length,
                 (int)rp_test_minimum(one));
        RP_CHECK(rp_test_minimum(more) <= logarithm + 3, "%u ops: %d", length,
                 (int)rp_test_minimum(more));
        rp_candidates_destroy(one);
        rp_candidates_destroy(more);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_the_fewest_runs_are_those_of_all_splits),
    RP_TEST(test_revolve_equals_griewank_for_every_length_and_all_slots),
    RP_TEST(test_optimal_equals_griewank),
    RP_TEST(test_chain_dp_equals_griewank_where_stages_are_equal),
    RP_TEST(test_PL_04_tables_of_one_level_are_met_or_beaten),
    RP_TEST(test_PL_04_no_schedule_of_a_uniform_chain_is_better),
    RP_TEST(test_ME_05_ME_10_short_chains),
    RP_TEST(test_PL_04_chain_dp_finds_the_best_persistent_schedules),
    RP_TEST(test_PL_04_nothing_is_below_the_exact_optimum),
    RP_TEST(test_what_is_no_chain_is_named),
    RP_TEST(test_chain_dp_joins_what_is_skipped),
    RP_TEST(test_sqrt_recursive_goes_below_sqrt),
};
RP_SUITE(chains, tests)
