/* Addresses: what the verifier refuses, and how good the layout is. */
#include "families.h"
#include "graphs.h"
#include "layout.h"
#include "naive.h"
#include "steps.h"
#include "strategy.h"
#include "verify.h"
#include "written.h"

#include <pthread.h>
#include <stdio.h>

/* ---- The verifier on placements -------------------------------------------------------------- */

/* x and y are persistent, b takes a's place, F has a workspace of 4. */
static rp_graph *placed_graph(rp_context *context) {
    rp_graph *graph = NULL;
    RP_REQUIRE_OK(context, rp_graph_create(context, "placed", 4, &graph));
    const rp_value_info values[] = {
        {"x", 8, RP_PERSISTENT, RP_NONE}, {"y", 4, RP_PERSISTENT, RP_NONE},
        {"a", 8, RP_ACTIVATION, RP_NONE}, {"b", 8, RP_ACTIVATION, RP_NONE},
        {"c", 4, RP_ACTIVATION, RP_NONE}, {"z", 0, RP_ACTIVATION, RP_NONE}};
    for (size_t i = 0; i < 6; i++)
        RP_REQUIRE_OK(context, rp_graph_add_value(graph, &values[i], NULL));
    static const uint32_t in[] = {0, 2, 3}, out[] = {2, 3, 4, 5};
    static const rp_inplace_pair pair = {3, 2};
    const rp_node_info nodes[] = {
        {.name = "F",
         .workspace_bytes = 4,
         .inputs = in,
         .input_count = 1,
         .outputs = out,
         .output_count = 1},
        {.name = "G",
         .inputs = in + 1,
         .input_count = 1,
         .outputs = out + 1,
         .output_count = 1,
         .inplace = &pair,
         .inplace_count = 1},
        {.name = "H", .inputs = in + 2, .input_count = 1, .outputs = out + 2, .output_count = 2}};
    for (size_t i = 0; i < 3; i++)
        RP_REQUIRE_OK(context, rp_graph_add_node(graph, &nodes[i], NULL));
    RP_REQUIRE_OK(context, rp_graph_set_outputs(graph, out + 2, 1));
    RP_REQUIRE_OK(context, rp_graph_finish(graph));
    return graph;
}

#define PERSISTENT                                                                                 \
    {0, 0, 0}, {                                                                                   \
        0, 1, 8                                                                                    \
    }
typedef struct placing {
    const char *message; /* NULL: good */
    int64_t peak_bytes, arena_bytes;
    rp_placement entries[8];
    size_t count;
} placing;

static const placing placings[] = {
    /* F: a at 12, workspace at 20; G: b over a; H: c at 20, z nowhere */
    {NULL, 24, 24, {PERSISTENT, {0, 2, 12}, {0, RP_NONE, 20}, {1, 3, 12}, {3, 4, 20}}, 6},
    /* any order, any step for persistent values, an entry for what is empty */
    {NULL,
     24,
     24,
     {{3, 5, 0}, {3, 4, 20}, {1, 3, 12}, {0, RP_NONE, 20}, {0, 2, 12}, {7, 1, 8}, {9, 0, 0}},
     7},
    /* the workspace finds a hole by itself */
    {NULL, 24, 24, {PERSISTENT, {0, 2, 12}, {1, 3, 12}, {3, 4, 20}}, 5},
    {NULL, 100, 28, {PERSISTENT, {0, 2, 20}, {1, 3, 20}, {3, 4, 12}}, 5},
    /* persistent values lie elsewhere: they only count */
    {NULL, 24, 24, {{0, 2, 0}, {1, 3, 0}, {3, 4, 8}}, 3},
    /* not in place after all */
    {NULL, 28, 28, {PERSISTENT, {0, 2, 12}, {1, 3, 20}, {3, 4, 12}}, 5},
    {"step 1, value 3 (b) at 16 overlaps a value that is live",
     100,
     0,
     {PERSISTENT, {0, 2, 12}, {1, 3, 16}, {3, 4, 24}},
     5},
    {"step 3, value 4 (c) at 16 overlaps",
     100,
     0,
     {PERSISTENT, {0, 2, 12}, {1, 3, 12}, {3, 4, 16}},
     5},
    {"step 0, value 2 (a) at 8 overlaps",
     100,
     0,
     {PERSISTENT, {0, 2, 8}, {1, 3, 8}, {3, 4, 20}},
     5},
    {"step 0, value 1 (y) at 4 overlaps another persistent value",
     100,
     0,
     {{0, 0, 0}, {0, 1, 4}, {0, 2, 12}, {1, 3, 12}, {3, 4, 20}},
     5},
    {"persistent value 1 (y) has no place although others have one",
     100,
     0,
     {{0, 0, 0}, {0, 2, 12}, {1, 3, 12}, {3, 4, 20}},
     4},
    {"value 0 (x) at 32 is persistent and has two entries",
     100,
     0,
     {{0, 0, 0}, {1, 0, 32}, {0, 2, 12}, {1, 3, 12}, {3, 4, 20}},
     5},
    {"value 4 (c) begins at step 3 and has no entry",
     100,
     0,
     {PERSISTENT, {0, 2, 12}, {1, 3, 12}},
     4},
    {"step 2, value 4 (c) at 20 does not begin there",
     100,
     0,
     {PERSISTENT, {0, 2, 12}, {1, 3, 12}, {3, 4, 20}, {2, 4, 20}},
     6},
    {"value 2 (a) at 14 is not aligned",
     100,
     0,
     {PERSISTENT, {0, 2, 14}, {1, 3, 14}, {3, 4, 24}},
     5},
    {"value 2 (a) at -4 is negative", 100, 0, {PERSISTENT, {0, 2, -4}, {1, 3, 12}}, 4},
    {"at 20 ends above peak_bytes",
     23,
     0,
     {PERSISTENT, {0, 2, 12}, {0, RP_NONE, 20}, {1, 3, 12}, {3, 4, 20}},
     6},
    {"at 9223372036854775804 ends above peak_bytes",
     INT64_MAX,
     0,
     {PERSISTENT, {0, 2, INT64_MAX - 3}},
     3},
    {"has two entries", 100, 0, {PERSISTENT, {0, 2, 12}, {0, 2, 20}, {1, 3, 12}, {3, 4, 20}}, 6},
    {"the workspace of step 0 at 16 overlaps",
     100,
     0,
     {PERSISTENT, {0, 2, 12}, {0, RP_NONE, 16}, {1, 3, 12}, {3, 4, 20}},
     6},
    {"step 2 has a workspace entry but runs no node", 100, 0, {PERSISTENT, {2, RP_NONE, 20}}, 3},
    {"step 77 has a workspace entry but runs no node", 100, 0, {PERSISTENT, {77, RP_NONE, 20}}, 3},
    {"there is no value 6", 100, 0, {{0, 6, 0}}, 1},
    {"peak_bytes says 11, but the persistent values alone have 12 bytes", 11, 0, {PERSISTENT}, 2},
    {"no hole of 4 bytes for the workspace of node 0 (F)", 22, 0, {PERSISTENT, {0, 2, 12}}, 3},
};

static void test_placements_by_hand(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = placed_graph(context);
    rp_schedule schedule = rp_test_steps(graph, "run F run G drop a run H drop b drop z");
    for (size_t i = 0; i < sizeof placings / sizeof placings[0]; i++) {
        const placing *p = &placings[i];
        rp_verdict verdict = {.arena_bytes = -1};
        const rp_status status = rp_verify_placements(
            graph, schedule.steps, schedule.count, p->entries, p->count, p->peak_bytes, &verdict);
        if (p->message != NULL) {
            RP_CHECK(status == RP_BAD_INPUT, "row %zu: %s", i, rp_status_name(status));
            RP_CHECK_MESSAGE(context, p->message);
        } else {
            RP_CHECK(status == RP_OK, "row %zu: %s", i, rp_context_message(context));
            RP_CHECK(verdict.arena_bytes == p->arena_bytes, "row %zu: arena %lld", i,
                     (long long)verdict.arena_bytes);
        }
    }
    rp_schedule_clear(context, &schedule);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static void test_found_workspaces_are_places(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = placed_graph(context);
    rp_schedule schedule = rp_test_steps(graph, "run F run G drop a run H drop b drop z");
    const rp_placement entries[] = {PERSISTENT, {0, 2, 16}, {1, 3, 16}, {3, 4, 24}};
    rp_placement *found = NULL;
    size_t count = 0;
    rp_verdict verdict;
    RP_REQUIRE_OK(context, rp_verify_find_workspaces(graph, schedule.steps, schedule.count, entries,
                                                     5, 100, &verdict, &found, &count));
    RP_REQUIRE_EQUAL(count, 1);
    RP_CHECK_EQUAL(found[0].step, 0);
    RP_CHECK_EQUAL(found[0].value, RP_NONE);
    RP_CHECK_EQUAL(found[0].offset, 12);
    rp_free(context, found);
    rp_schedule_clear(context, &schedule);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* A fetched value has a place of its own from the fetch on. */
static void test_fetches_are_placed(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, "p x 1\nf F 1 x -> a:10\nf G 1 x -> b:9\n"
                                                     "b B 1 a -> d:1\no d\n");
    rp_schedule schedule =
        rp_test_steps(graph, "run F offload a wait a run G drop b fetch a wait a run B drop a");
    rp_layout layout;
    rp_verdict verdict;
    RP_REQUIRE_OK(context, rp_layout_create(graph, &schedule, RP_LAYOUT_THOROUGH, &layout));
    RP_CHECK_EQUAL(layout.live_peak_bytes, 12);
    RP_CHECK_EQUAL(layout.arena_bytes, 12);
    RP_CHECK_OK(context,
                rp_verify_placements(graph, schedule.steps, schedule.count, layout.placements,
                                     layout.count, layout.arena_bytes, &verdict));
    rp_layout_clear(context, &layout);
    rp_schedule_clear(context, &schedule);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* ---- The layout ------------------------------------------------------------------------------ */

/* How much of the arenas is loss. */
typedef struct losses {
    int count;
    double sum, worst; /* arena / live peak - 1 */
} losses;

/* Lays the schedule out; everything about the result must be true. */
static void lay_out(const rp_graph *graph, const rp_schedule *schedule, losses *l) {
    rp_context *context = graph->context;
    rp_layout layout, again;
    rp_verdict verdict;
    RP_REQUIRE_OK(context, rp_layout_create(graph, schedule, RP_LAYOUT_THOROUGH, &layout));
    RP_CHECK_OK(context,
                rp_verify_placements(graph, schedule->steps, schedule->count, layout.placements,
                                     layout.count, layout.arena_bytes, &verdict));
    RP_CHECK_EQUAL(layout.live_peak_bytes, verdict.live_peak_bytes);
    RP_CHECK_EQUAL(layout.arena_bytes, verdict.arena_bytes);
    int64_t next = 0; /* persistent values first, in order */
    for (size_t i = 0; i < layout.count; i++) {
        const rp_placement *p = &layout.placements[i];
        RP_CHECK(i == 0 || p[-1].step < p->step ||
                     (p[-1].step == p->step && p[-1].value < p->value),
                 "entry %zu is out of order", i);
        if (p->value == RP_NONE || !graph->values[p->value].persistent)
            continue;
        RP_CHECK_EQUAL(p->offset, next);
        next += graph->values[p->value].bytes;
    }
    RP_CHECK_EQUAL(next, graph->persistent_bytes);
    RP_REQUIRE_OK(context, rp_layout_create(graph, schedule, RP_LAYOUT_THOROUGH, &again));
    RP_CHECK_EQUAL(again.arena_bytes, layout.arena_bytes);
    for (size_t i = 0; i < again.count && i < layout.count; i++)
        RP_CHECK_EQUAL(again.placements[i].offset, layout.placements[i].offset);
    const double loss = layout.live_peak_bytes > 0
                            ? (double)layout.arena_bytes / (double)layout.live_peak_bytes - 1
                            : 0;
    l->count++;
    l->sum += loss;
    l->worst = loss > l->worst ? loss : l->worst;
    rp_layout_clear(context, &again);
    rp_layout_clear(context, &layout);
}

/* Every member of auto's family, or `most` of them spread over it. */
static void lay_out_family(rp_graph *graph, size_t most, losses *l) {
    rp_candidates *set = rp_test_family(graph, rp_propose_auto, 0);
    const size_t count = rp_candidates_count(set);
    const size_t step = count > most ? count / most : 1;
    for (size_t i = 0; i < count; i += step) {
        rp_schedule schedule = {NULL, 0, 0};
        RP_REQUIRE_OK(graph->context, rp_candidates_build(set, i, &schedule));
        lay_out(graph, &schedule, l);
        rp_schedule_clear(graph->context, &schedule);
    }
    rp_candidates_destroy(set);
    rp_graph_destroy(graph);
}

static void report(const char *what, const losses *l) {
    printf("    layout of %s: %d schedules, loss %.4f %% on average, %.4f %% at worst\n", what,
           l->count, 100 * l->sum / l->count, 100 * l->worst);
}

/* Of U-Nets every second one, RP_TEST_LONG=1 all; RP_TEST_BRIEF=1 few of everything. */
static void test_models_lose_at_most_one_percent(void) {
    rp_context *context = rp_test_context(1);
    losses l = {0, 0, 0};
    const uint32_t largest = 4 * (uint32_t)rp_test_samples(3, 3);
    const uint32_t stride = 12 / (uint32_t)rp_test_samples(6, 12);
    for (uint32_t layers = 1; layers <= largest; layers += layers < 4 ? 1 : 4) {
        lay_out_family(rp_test_transformer(context, layers, false), 30, &l);
        lay_out_family(rp_test_transformer(context, layers, true), 30, &l);
    }
    for (uint32_t depth = 1; depth <= 12; depth += stride)
        lay_out_family(rp_test_unet(context, depth), 30, &l);
    static const int64_t ragged[] = {1, 1, 8, 1, 1, 8, 1, 1, 8, 1};
    lay_out_family(rp_test_chain(context, 9, 1, ragged, 1), 30, &l);
    lay_out_family(rp_test_chain(context, 100, 64, NULL, 1), 30, &l);
    report("models", &l);
    RP_CHECK(l.worst <= 0.01, "%g %% at worst", 100 * l.worst);
    rp_context_destroy(context);
}

static void test_random_graphs_lose_little(void) {
    rp_context *context = rp_test_context(1);
    losses small = {0, 0, 0}, large = {0, 0, 0};
    const uint64_t graphs = rp_test_samples(24, 1000);
    for (uint64_t seed = 1; seed <= graphs; seed++)
        lay_out_family(rp_test_random_graph(context, seed, 10 + (uint32_t)(seed % 50),
                                            RP_TEST_EVERYTHING & ~RP_TEST_RECOMPUTE),
                       5, &small);
    for (uint64_t seed = 1; seed <= graphs / 6; seed++)
        lay_out_family(rp_test_random_graph(context, 1000 + seed, 200 + (uint32_t)(17 * seed % 200),
                                            RP_TEST_EVERYTHING & ~RP_TEST_RECOMPUTE),
                       5, &large);
    report("small random graphs", &small);
    report("large random graphs", &large);
    RP_CHECK(small.sum / small.count <= 0.01, "%g %%", 100 * small.sum / small.count);
    RP_CHECK(large.sum / large.count <= 0.01, "%g %%", 100 * large.sum / large.count);
    rp_context_destroy(context);
}

/* interfaces.md, section 2: an in-place output has its input's offset, also where it is smaller. */
static void test_in_place_outputs_have_their_inputs_offset(void) {
    rp_context *context = rp_test_context(1);
    int in_place = 0, in_smaller = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        rp_graph *graph = rp_test_random_graph(context, seed, 10 + (uint32_t)(seed % 30),
                                               RP_TEST_EVERYTHING & ~RP_TEST_RECOMPUTE);
        rp_schedule schedule = {NULL, 0, 0};
        rp_layout layout;
        RP_REQUIRE_OK(context, rp_keep_all_schedule(graph, &schedule));
        RP_REQUIRE_OK(context, rp_layout_create(graph, &schedule, RP_LAYOUT_THOROUGH, &layout));
        const rp_naive naive = rp_naive_check_places(graph, schedule.steps, schedule.count,
                                                     layout.placements, layout.count);
        RP_CHECK(naive.elsewhere == 0, "seed %d: %d of %d lie elsewhere", (int)seed,
                 naive.elsewhere, naive.in_place);
        in_place += naive.in_place;
        in_smaller += naive.in_smaller;
        rp_layout_clear(context, &layout);
        rp_schedule_clear(context, &schedule);
        rp_graph_destroy(graph);
    }
    RP_CHECK(in_place >= 100 && in_smaller >= 20, "%d and %d are few", in_place, in_smaller);
    rp_context_destroy(context);
}

static void test_graphs_without_bytes(void) {
    static const char *const texts[] = {"", "p x 8\n", "f F 1 -> a:0\n",
                                        "p x 0\nf F 1 x -> a:0\nf G 1 a -> b:0\no b\n"};
    rp_context *context = rp_test_context(1);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        rp_graph *graph = rp_test_written_graph(context, texts[i]);
        rp_schedule schedule = {NULL, 0, 0};
        losses l = {0, 0, 0};
        RP_REQUIRE_OK(context, rp_keep_all_schedule(graph, &schedule));
        lay_out(graph, &schedule, &l);
        rp_schedule_clear(context, &schedule);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

/* Keep-all of the written graph loses nothing. */
static void check_exact(const char *text) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_written_graph(context, text);
    rp_schedule schedule = {NULL, 0, 0};
    losses l = {0, 0, 0};
    RP_REQUIRE_OK(context, rp_keep_all_schedule(graph, &schedule));
    lay_out(graph, &schedule, &l);
    RP_CHECK(l.worst == 0, "loss %g", l.worst);
    rp_schedule_clear(context, &schedule);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* Offsets near 2^63 are refused or right, never wrapped. */
static void test_addresses_stay_below_2_63(void) {
    check_exact("p x 8\nf F 1 x -> a:4611686018427387000\nf G 1 a -> b:4611686018427387000\n"
                "b B 1 a b -> c:1\no c\n");
}

/* Bytes go up to 2^63 - 1, and an arena does too. */
static void test_one_value_fills_all_addresses(void) {
    check_exact("f F 1 -> a:9223372036854775807\nf G 1 a -> b:0\no b\n");
}

/* ---- Size ------------------------------------------------------------------------------------ */

enum { SMALL_STACK = 256 << 10 };

typedef struct deep {
    rp_context *context;
    uint32_t length;
    rp_status status;
    int64_t live, arena;
} deep;

/* Builds, freezes, schedules, verifies, lays out and verifies again, all in a small stack. */
static void *go_deep(void *user) {
    deep *d = user;
    const uint32_t n = d->length;
    rp_graph *graph = NULL;
    rp_schedule schedule = {NULL, 0, 0};
    rp_layout layout = {.placements = NULL};
    rp_verdict verdict = {.live_peak_bytes = 0};
    d->status = rp_graph_create(d->context, "deep", 1, &graph);
    for (uint32_t i = 0; i <= 2 * n + 1 && d->status == RP_OK; i++) {
        const rp_value_info value = {NULL, 1 + i % 7, i == 0 ? RP_PERSISTENT : RP_ACTIVATION,
                                     RP_NONE};
        d->status = rp_graph_add_value(graph, &value, NULL);
    }
    for (uint32_t i = 1; i <= 2 * n + 1 && d->status == RP_OK; i++) { /* a_1..a_n, g_n..g_0 */
        const uint32_t inputs[] = {i - 1, i <= n ? 0 : 2 * n + 1 - i};
        const rp_node_info node = {.phase = i <= n ? RP_FORWARD : RP_BACKWARD,
                                   .recomputable = i <= n,
                                   .cost_ns = 1,
                                   .inputs = inputs,
                                   .input_count = 2,
                                   .outputs = &i,
                                   .output_count = 1};
        d->status = rp_graph_add_node(graph, &node, NULL);
    }
    if (d->status == RP_OK)
        d->status = rp_graph_finish(graph);
    if (d->status == RP_OK)
        d->status = rp_keep_all_schedule(graph, &schedule);
    if (d->status == RP_OK)
        d->status = rp_verify_schedule(graph, schedule.steps, schedule.count, &verdict);
    d->live = verdict.live_peak_bytes;
    if (d->status == RP_OK)
        d->status = rp_layout_create(graph, &schedule, RP_LAYOUT_THOROUGH, &layout);
    d->arena = layout.arena_bytes;
    if (d->status == RP_OK)
        d->status = rp_verify_placements(graph, schedule.steps, schedule.count, layout.placements,
                                         layout.count, layout.arena_bytes, &verdict);
    rp_layout_clear(d->context, &layout);
    rp_schedule_clear(d->context, &schedule);
    rp_graph_destroy(graph);
    return NULL;
}

static void check_deep(uint32_t length) {
    deep d = {.context = rp_test_context(1), .length = length};
    pthread_t thread;
    pthread_attr_t attributes;
    RP_REQUIRE_EQUAL(pthread_attr_init(&attributes), 0);
    RP_REQUIRE_EQUAL(pthread_attr_setstacksize(&attributes, SMALL_STACK), 0);
    RP_REQUIRE_EQUAL(pthread_create(&thread, &attributes, go_deep, &d), 0);
    RP_REQUIRE_EQUAL(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attributes);
    RP_CHECK_OK(d.context, d.status);
    RP_CHECK(d.arena <= d.live + d.live / 100, "%u: live %lld, arena %lld", length,
             (long long)d.live, (long long)d.arena);
    rp_context_destroy(d.context);
}

/* 1,000,001 nodes. */
static void test_BW_06_a_million_nodes_in_a_small_stack(void) {
    check_deep(rp_test_is_long() ? 1000000 : (uint32_t)rp_test_samples(500000, 500000));
}

static void test_BW_07_sizes_around_powers_of_two(void) {
    static const uint32_t powers[] = {8, 16, 64, 1024, 4096, 65536};
    for (size_t i = 0; i < sizeof powers / sizeof powers[0]; i++)
        for (uint32_t length = powers[i] - 1; length <= powers[i] + 1; length++)
            check_deep(length);
}

static const rp_test tests[] = {
    RP_TEST(test_placements_by_hand),
    RP_TEST(test_found_workspaces_are_places),
    RP_TEST(test_fetches_are_placed),
    RP_TEST(test_models_lose_at_most_one_percent),
    RP_TEST(test_random_graphs_lose_little),
    RP_TEST(test_in_place_outputs_have_their_inputs_offset),
    RP_TEST(test_graphs_without_bytes),
    RP_TEST(test_addresses_stay_below_2_63),
    RP_TEST(test_one_value_fills_all_addresses),
    RP_TEST(test_BW_06_a_million_nodes_in_a_small_stack),
    RP_TEST(test_BW_07_sizes_around_powers_of_two),
};
RP_SUITE(layout, tests)
