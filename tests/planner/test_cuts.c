/* Minimum cuts, knapsacks, and the choices at one moment, against trying everything. */
#include "expand.h"
#include "graphs.h"
#include "knapsack.h"
#include "mincut.h"
#include "moment.h"

#include <stdlib.h>

enum { MAX_EDGES = 40, MAX_VERTICES = 9 };

typedef struct edge {
    uint32_t from, to;
    int64_t capacity;
} edge;

/* The value of the cut whose source's side are the vertices of `side`. */
static int64_t cut_value(const edge *edges, uint32_t count, uint32_t side) {
    int64_t value = 0;
    for (uint32_t e = 0; e < count; e++)
        if ((side >> edges[e].from & 1) && !(side >> edges[e].to & 1))
            value += edges[e].capacity;
    return value;
}

static void check_network(rp_context *context, rp_test_random *random) {
    edge edges[MAX_EDGES];
    const uint32_t vertices = 2 + rp_test_random_below(random, MAX_VERTICES - 1);
    const uint32_t count = rp_test_random_below(random, MAX_EDGES);
    rp_network network;
    RP_REQUIRE_OK(context, rp_network_create(context, vertices, 0, vertices - 1, &network));
    for (uint32_t e = 0; e < count; e++) {
        edges[e].from = rp_test_random_below(random, vertices);
        edges[e].to = rp_test_random_below(random, vertices);
        edges[e].capacity = rp_test_random_below(random, 12);
        RP_REQUIRE(rp_network_add(&network, edges[e].from, edges[e].to, edges[e].capacity, NULL),
                   "no memory");
    }
    int64_t best = INT64_MAX, value = 0;
    bool is_cut = false;
    for (uint32_t side = 1; side < 1u << (vertices - 1); side += 2)
        if (cut_value(edges, count, side) < best)
            best = cut_value(edges, count, side);
    RP_REQUIRE_OK(context, rp_network_solve(&network, &value, &is_cut));
    RP_CHECK(is_cut, "no cut of a small network");
    RP_CHECK_EQUAL(value, best);
    uint32_t side = 0;
    for (uint32_t v = 0; v < vertices; v++)
        side |= (uint32_t)rp_network_is_source_side(&network, v) << v;
    RP_CHECK_EQUAL(cut_value(edges, count, side), best);
    rp_network_clear(&network);
}

static void test_minimum_cuts_against_all_cuts(void) {
    rp_context *context = rp_test_context(1);
    rp_test_random random = {1};
    for (int i = 0; i < 2000; i++)
        check_network(context, &random);
    rp_context_destroy(context);
}

static void test_a_cut_that_must_not_be(void) {
    rp_context *context = rp_test_context(1);
    rp_network network;
    int64_t value = 0;
    bool is_cut = false;
    uint32_t edge = 0;
    RP_REQUIRE_OK(context, rp_network_create(context, 3, 0, 2, &network));
    RP_REQUIRE(rp_network_add(&network, 0, 1, RP_CUT_NEVER, NULL), "no memory");
    RP_REQUIRE(rp_network_add(&network, 1, 2, RP_CUT_NEVER, &edge), "no memory");
    RP_CHECK_OK(context, rp_network_solve(&network, &value, &is_cut));
    RP_CHECK(value >= RP_CUT_NEVER, "a cut of %lld", (long long)value);
    rp_network_set(&network, edge, 5);
    RP_CHECK_OK(context, rp_network_solve(&network, &value, &is_cut));
    RP_CHECK_EQUAL(value, 5);
    rp_network_clear(&network);
    rp_context_destroy(context);
}

/* A row of sums: each phase finds one path, longer than the one before. */
static void test_a_network_that_takes_too_long_gives_a_bound(void) {
    enum { LENGTH = 2000 };
    rp_context *context = rp_test_context(1);
    rp_network network;
    int64_t value = 0;
    bool is_cut = true;
    RP_REQUIRE_OK(context, rp_network_create(context, LENGTH + 2, LENGTH, LENGTH + 1, &network));
    for (uint32_t v = 0; v < LENGTH; v++) {
        RP_REQUIRE(rp_network_add(&network, LENGTH, v, 1, NULL), "no memory");
        RP_REQUIRE(v + 1 == LENGTH || rp_network_add(&network, v, v + 1, RP_CUT_NEVER, NULL),
                   "no memory");
    }
    RP_REQUIRE(rp_network_add(&network, LENGTH - 1, LENGTH + 1, LENGTH, NULL), "no memory");
    RP_CHECK_OK(context, rp_network_solve(&network, &value, &is_cut));
    RP_CHECK(!is_cut && value > 0 && value < LENGTH, "%d: a cut of %lld", is_cut, (long long)value);
    rp_network_clear(&network);
    rp_context_destroy(context);
}

/* ---- Knapsacks ------------------------------------------------------------------------------ */

static void check_knapsack(rp_context *context, rp_test_random *random) {
    rp_item items[10];
    uint32_t names[10];
    const uint32_t count = rp_test_random_below(random, 11);
    const int64_t capacity = rp_test_random_below(random, 60);
    for (uint32_t i = 0; i < count; i++) {
        const int64_t bytes = rp_test_random_below(random, 12);
        items[i] = (rp_item){bytes, rp_test_random_below(random, 6), i};
    }
    rp_knapsack knapsack;
    RP_REQUIRE_OK(context, rp_knapsack_create(context, items, count, capacity, &knapsack));
    for (int64_t room = 0; room <= capacity; room++) {
        int64_t best = 0, bytes = 0, gain = 0;
        for (uint32_t taken = 0; taken < 1u << count; taken++) {
            int64_t b = 0, g = 0;
            for (uint32_t i = 0; i < count; i++) {
                b += (taken >> i & 1) ? items[i].bytes : 0;
                g += (taken >> i & 1) ? items[i].gain : 0;
            }
            if (b <= room && g > best)
                best = g;
        }
        const size_t taken = rp_knapsack_take(&knapsack, room, names);
        for (size_t i = 0; i < taken; i++) {
            bytes += items[names[i]].bytes;
            gain += items[names[i]].gain;
        }
        RP_CHECK_EQUAL(gain, best);
        RP_CHECK(bytes <= room, "%lld bytes in %lld", (long long)bytes, (long long)room);
    }
    rp_knapsack_clear(context, &knapsack);
}

static void test_knapsacks_against_all_subsets(void) {
    rp_context *context = rp_test_context(1);
    rp_test_random random = {2};
    for (int i = 0; i < 60; i++)
        check_knapsack(context, &random);
    rp_context_destroy(context);
}

static void test_large_knapsacks_are_thinned(void) {
    rp_context *context = rp_test_context(1);
    rp_test_random random = {3};
    enum { COUNT = 400 };
    rp_item items[COUNT];
    uint32_t names[COUNT];
    int64_t all = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        items[i] = (rp_item){1000000 + rp_test_random_below(&random, 1000000), 0, i};
        items[i].gain = items[i].bytes; /* so that any room can be filled to the brim */
        all += items[i].bytes;
    }
    rp_knapsack knapsack;
    RP_REQUIRE_OK(context, rp_knapsack_create(context, items, COUNT, all, &knapsack));
    RP_CHECK(knapsack.point_count < 2000 * (size_t)COUNT, "%zu points", knapsack.point_count);
    for (int part = 1; part <= 10; part++) {
        int64_t bytes = 0;
        const size_t taken = rp_knapsack_take(&knapsack, all / 10 * part, names);
        for (size_t i = 0; i < taken; i++)
            bytes += items[names[i]].bytes;
        RP_CHECK(bytes <= all / 10 * part, "too much");
        RP_CHECK(bytes >= all / 10 * part - all / 100, "%lld of %lld", (long long)bytes,
                 (long long)(all / 10 * part));
    }
    rp_knapsack_clear(context, &knapsack);
    rp_context_destroy(context);
}

/* ---- One moment ----------------------------------------------------------------------------- */

/* What a choice of dropped values means at the stage, by its definition: bytes held and cost of
 * replays; false if something fixed would have to run again or a replay needs what nobody gives. */
static bool weigh(const rp_expander *x, uint32_t stage, uint32_t dropped, int64_t *bytes,
                  int64_t *cost) {
    const rp_graph *graph = x->graph;
    bool needed[32] = {false}, runs[32] = {false};
    for (uint32_t v = 0; v < graph->value_count; v++) {
        const rp_value *value = &graph->values[v];
        needed[v] =
            !value->persistent && value->writer < stage &&
            (value->is_output || (value->readers.count > 0 &&
                                  rp_value_readers(graph, v)[value->readers.count - 1] > stage));
    }
    for (uint32_t n = stage; n-- > 0;) { /* readers stand behind writers */
        for (uint32_t o = x->output_begin[n]; o < x->output_begin[n + 1]; o++)
            runs[n] = runs[n] || (needed[x->outputs[o]] && (dropped >> x->outputs[o] & 1));
        for (uint32_t i = x->input_begin[n]; i < x->input_begin[n + 1] && runs[n]; i++)
            needed[x->inputs[i]] = true;
    }
    *bytes = *cost = 0;
    for (uint32_t v = 0; v < graph->value_count; v++) {
        bool read = false;
        for (uint32_t i = x->input_begin[stage]; i < x->input_begin[stage + 1]; i++)
            read = read || x->inputs[i] == v;
        if (needed[v] && graph->values[v].writer < stage && !read && !runs[graph->values[v].writer])
            *bytes += graph->values[v].bytes;
    }
    for (uint32_t n = 0; n < stage; n++) {
        if (runs[n] && x->fixed[x->outputs[x->output_begin[n]]])
            return false;
        *cost += runs[n] ? graph->nodes[n].cost_ns : 0;
    }
    return true;
}

/* No choice lies below a line between two neighbours of the hull, nor left or right of it. */
static void check_hull(const rp_expander *x, uint32_t stage, const rp_hull *hull) {
    const uint32_t values = (uint32_t)x->graph->value_count;
    for (uint32_t dropped = 0; dropped < 1u << values; dropped++) {
        int64_t bytes = 0, cost = 0;
        if (!weigh(x, stage, dropped, &bytes, &cost))
            continue;
        RP_CHECK(bytes >= hull->choices[hull->count - 1].bytes, "fewer bytes than the last choice");
        for (size_t i = 0; i + 1 < hull->count; i++) {
            const rp_choice *a = &hull->choices[i], *b = &hull->choices[i + 1];
            RP_CHECK((bytes - a->bytes) * (b->cost - a->cost) +
                             (cost - a->cost) * (a->bytes - b->bytes) >=
                         0,
                     "below the hull");
        }
    }
    for (size_t i = 0; i < hull->count; i++) {
        uint32_t dropped = 0;
        int64_t bytes = 0, cost = 0;
        for (size_t k = 0; k < hull->choices[i].count; k++)
            dropped |= 1u << hull->choices[i].values[k];
        RP_CHECK(weigh(x, stage, dropped, &bytes, &cost), "a choice that cannot be");
        RP_CHECK_EQUAL(bytes, hull->choices[i].bytes);
        RP_CHECK_EQUAL(cost, hull->choices[i].cost);
    }
}

static void test_hulls_of_a_moment_against_all_choices(void) {
    rp_context *context = rp_test_context(1);
    size_t corners = 0;
    for (uint64_t seed = 0; seed < 150; seed++) {
        rp_graph *graph = rp_test_random_graph(context, seed, 9, RP_TEST_BACKWARD);
        if (graph->value_count <= 14) {
            const uint32_t stage = 4 + (uint32_t)(seed % 4);
            rp_expander x;
            rp_hull hull;
            RP_REQUIRE_OK(context, rp_expander_create(graph, &x));
            RP_REQUIRE_OK(context, rp_hull_create(&x, stage, 64, &hull));
            RP_CHECK(hull.count >= 1, "no choice at all");
            check_hull(&x, stage, &hull);
            corners += hull.count;
            rp_hull_clear(context, &hull);
            rp_expander_clear(&x);
        }
        rp_graph_destroy(graph);
    }
    RP_CHECK(corners > 300, "%zu corners: the graphs decide nothing", corners);
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_minimum_cuts_against_all_cuts),
    RP_TEST(test_a_cut_that_must_not_be),
    RP_TEST(test_a_network_that_takes_too_long_gives_a_bound),
    RP_TEST(test_knapsacks_against_all_subsets),
    RP_TEST(test_large_knapsacks_are_thinned),
    RP_TEST(test_hulls_of_a_moment_against_all_choices),
};
RP_SUITE(cuts, tests)
