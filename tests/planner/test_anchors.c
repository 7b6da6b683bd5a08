/* Figures that others publish about the memory budget of torch.compile, met or beaten.
 *
 * Cases of test_ac.py ("memory budget") in PyTorch, as closed forms: what is kept between forward
 * and backward, and the FLOPs that are run again. Their budget is a sum of kept bytes, ours a peak:
 * the graphs here have a node at the turn whose output is far larger than everything else, so that
 * the peak stands there and what is kept decides. One unit of bytes is their 512 x 512 tensor, one
 * of cost their product of 512 x 512 x 512; cos is free, as in their count.
 *
 * The other one is issue 197838 of PyTorch: peaks that rise as the budget falls. */
#include "families.h"
#include "graphs.h"
#include "unit.h"
#include "written.h"

#include <reprise/plan.h>

#include <stdarg.h>
#include <stdio.h>

enum { TURN = 100000, TEXT = 65536 };

typedef struct text {
    char bytes[TEXT];
    size_t length;
} text;

static void say(text *t, const char *format, ...) RP_PRINTF(2, 3);
static void say(text *t, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    t->length +=
        (size_t)vsnprintf(t->bytes + t->length, sizeof t->bytes - t->length, format, arguments);
    va_end(arguments);
    RP_REQUIRE(t->length < sizeof t->bytes, "the graph is too long");
}

/* With room for so many units at the turn the plan runs no more again than they do. */
static void check_kept(const rp_graph *graph, int64_t units, int64_t cost) {
    static const char *const strategies[] = {"auto", "optimal", "exact"};
    for (size_t i = 0; i < sizeof strategies / sizeof strategies[0]; i++) {
        rp_plan_report report;
        RP_REQUIRE_OK(NULL, rp_test_plan_within(graph, strategies[i], TURN + units, &report));
        RP_CHECK(report.peak_bytes <= TURN + units, "%s: above the budget", strategies[i]);
        RP_CHECK(report.recompute_cost_ns <= cost, "%s, %d units: cost %d, theirs is %d",
                 strategies[i], (int)units, (int)report.recompute_cost_ns, (int)cost);
    }
}

static void check_eager(const rp_graph *graph, int64_t units) {
    rp_plan_report report;
    RP_REQUIRE_OK(NULL, rp_test_plan_within(graph, "keep-all", RP_UNLIMITED, &report));
    RP_CHECK_EQUAL(report.live_peak_bytes, TURN + units);
}

/* cos, five times (mm, cos): at a budget of k tenths k units are kept and 5 - k products run again,
 * up to 5; from 5 on none; eager keeps 10. */
static void test_torch_chain_of_products(void) {
    static text t;
    rp_context *context = rp_test_context(1);
    t.length = 0;
    say(&t, "p x 0\nf cos.0 0 x -> c0:1\n");
    for (int i = 1; i <= 5; i++)
        say(&t, "f mm.%d 1 c%d -> m%d:1\nf cos.%d 0 m%d -> c%d:1\n", i, i - 1, i, i, i, i);
    say(&t, "f sum 0 c5 -> loss:0\nb turn 0 loss -> big:%d dc5:0\n", TURN);
    for (int i = 5; i >= 1; i--)
        say(&t, "b cos.%d.bwd 0 m%d dc%d -> dm%d:0\nb mm.%d.bwd 2 c%d dm%d -> dc%d:0\n", i, i, i, i,
            i, i - 1, i, i - 1);
    say(&t, "b cos.0.bwd 0 x dc0 -> dx:0\no dx\n");
    rp_graph *graph = rp_test_written_graph(context, t.bytes);
    check_eager(graph, 10);
    for (int k = 0; k <= 10; k++)
        check_kept(graph, k, k < 5 ? 5 - k : 0);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* Products of one input with several matrices, each followed by cos and a sum: of each the product
 * is kept or run again. */
static rp_graph *make_products(rp_context *context, int (*bytes_and_cost)[2], int count) {
    static text t;
    t.length = 0;
    say(&t, "p x 0\n");
    for (int i = 0; i < count; i++)
        say(&t, "f mm.%d %d x -> m%d:%d\nf cos.%d 0 m%d -> c%d:%d\nf sum.%d 0 c%d -> s%d:0\n", i,
            bytes_and_cost[i][1], i, bytes_and_cost[i][0], i, i, i, bytes_and_cost[i][0], i, i, i);
    say(&t, "b turn 0 s0 -> big:%d ds:0\n", TURN);
    for (int i = count - 1; i >= 0; i--)
        say(&t, "b cos.%d.bwd 0 m%d ds -> dm%d:0\nb mm.%d.bwd %d x dm%d -> dw%d:0\n", i, i, i, i,
            bytes_and_cost[i][1], i, i);
    say(&t, "o dw0\n");
    return rp_test_written_graph(context, t.bytes);
}

/* Widths whose sums are met exactly: what is kept is the budget, the rest runs again. */
static void test_torch_knapsacks_are_exact(void) {
    static const struct {
        int widths[5], count, sums[10], sum_count;
    } rows[] = {
        {{11, 3, 4, 2}, 4, {18, 17, 16, 15, 14, 13, 11, 7, 6, 5}, 10},
        {{3, 5, 11, 17, 14}, 5, {42, 30, 19, 8, 3}, 5},
    };
    rp_context *context = rp_test_context(1);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        int products[5][2], total = 0;
        for (int i = 0; i < rows[r].count; i++) {
            products[i][0] = products[i][1] = rows[r].widths[i];
            total += rows[r].widths[i];
        }
        rp_graph *graph = make_products(context, products, rows[r].count);
        check_eager(graph, total);
        for (int i = 0; i < rows[r].sum_count; i++)
            check_kept(graph, rows[r].sums[i], total - rows[r].sums[i]);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

/* Products of (b x b) and (b x o): b o bytes, b b o cost. By size alone one would drop the wrong
 * ones: at 28 of 40 it is the pair (2, 6) that goes, at 16 (4, 4) and (2, 6). */
static void test_torch_pairs(void) {
    int products[][2] = {{4 * 4, 4 * 4 * 4}, {6 * 2, 6 * 6 * 2}, {2 * 6, 2 * 2 * 6}};
    rp_context *context = rp_test_context(1);
    rp_graph *graph = make_products(context, products, 3);
    check_eager(graph, 40);
    check_kept(graph, 28, 24);
    check_kept(graph, 16, 88);
    check_kept(graph, 12, 88);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* Attention and a product behind it, S tokens of width D, room for 0.6 of what both keep: the
 * product (S D D) runs again where it is the cheaper one, else attention (2 S S D). */
static void test_torch_attention_or_product(void) {
    static const int rows[][2] = {{1, 1}, {1, 3}, {2, 5}, {4, 7}, {4, 9}};
    static const bool product[] = {true, false, false, true, false};
    rp_context *context = rp_test_context(1);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        static text t;
        const int s = rows[r][0], d = rows[r][1], bytes = s * d * 10;
        const int attention = 2 * s * s * d, mm = s * d * d;
        t.length = 0;
        say(&t, "p x 0\nf attn %d x -> o:%d lse:0\nf mm %d o -> m:%d\nf cos 0 m -> c:%d\n",
            attention, bytes, mm, bytes, bytes);
        say(&t, "f sum 0 c -> loss:0\nb turn 0 loss -> big:%d dc:0\n", TURN);
        say(&t, "b cos.bwd 0 m dc -> dm:0\nb mm.bwd %d o dm -> do:0\n", 2 * mm);
        say(&t, "b attn.bwd %d x o lse do -> dx:0\no dx\n", 5 * attention / 2);
        rp_graph *graph = rp_test_written_graph(context, t.bytes);
        check_eager(graph, 2 * bytes);
        RP_CHECK_EQUAL(product[r], mm < attention);
        check_kept(graph, bytes * 2 * 6 / 10, product[r] ? mm : attention);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

/* ---- Peaks that rise as the budget falls ----------------------------------------------------- */

/* Residual gated MLPs, x + down(silu(gate(x)) up(x)): 128 tokens, 64 wide, 256 inside, f32. */
static rp_graph *make_gated(rp_context *context, int layers) {
    enum { WIDE = 128 * 64 * 4, INSIDE = 128 * 256 * 4, PRODUCT = 2 * 128 * 64 * 256 / 1000 };
    static text t;
    t.length = 0;
    say(&t, "p in 0\nf embed 1 in -> x0:%d\n", WIDE);
    for (int i = 0; i < layers; i++) {
        say(&t, "f gate.%d %d x%d -> g%d:%d\nf up.%d %d x%d -> u%d:%d\n", i, PRODUCT, i, i, INSIDE,
            i, PRODUCT, i, i, INSIDE);
        say(&t, "f silu.%d 60 g%d -> s%d:%d\nf mul.%d 40 s%d u%d -> p%d:%d\n", i, i, i, INSIDE, i,
            i, i, i, INSIDE);
        say(&t, "f down.%d %d p%d -> d%d:%d\nf add.%d 10 x%d d%d -> x%d:%d !x%d/d%d\n", i, PRODUCT,
            i, i, WIDE, i, i, i, i + 1, WIDE, i + 1, i);
    }
    say(&t, "f loss 1 x%d -> loss:4\nb loss.bwd 1 loss -> dx%d:%d\n", layers, layers, WIDE);
    for (int i = layers - 1; i >= 0; i--) {
        say(&t, "b down.%d.bwd %d p%d dx%d -> dp%d:%d\n", i, 2 * PRODUCT, i, i + 1, i, INSIDE);
        say(&t, "b mul.%d.bwd 80 s%d u%d dp%d -> ds%d:%d du%d:%d !ds%d/dp%d\n", i, i, i, i, i,
            INSIDE, i, INSIDE, i, i);
        say(&t, "b silu.%d.bwd 80 g%d ds%d -> dg%d:%d !dg%d/ds%d\n", i, i, i, i, INSIDE, i, i);
        say(&t, "b gate.%d.bwd %d x%d dg%d -> e%d:%d\n", i, 2 * PRODUCT, i, i, i, WIDE);
        say(&t, "b up.%d.bwd %d x%d du%d -> h%d:%d\n", i, 2 * PRODUCT, i, i, i, WIDE);
        say(&t, "b add.%d.bwd 20 dx%d e%d h%d -> dx%d:%d !dx%d/dx%d\n", i, i + 1, i, i, i, WIDE, i,
            i + 1);
    }
    say(&t, "o dx0 loss\n");
    return rp_test_written_graph(context, t.bytes);
}

/* Issue 197838: peaks in MB at budgets 0.05, 0.10, 0.15, 0.20, 0.30 are 288.1 123.0 80.5 92.1 115.9
 * for 16 layers, 661.6 292.3 167.1 197.5 240.1 for 24, 1145.4 508.2 274.8 325.2 411.1 for 32. What
 * keeping everything takes is not in the table; the straight line through 0.20 and 0.30, where the
 * plans are sound, reaches 282.5, 538.3 and 1012.4 at 1.0. So the best that was seen, at 0.15, is
 * 0.285, 0.310 and 0.271 of it. RP_TEST_BRIEF=1: the first row. */
static void test_peaks_fall_with_the_budget(void) {
    static const struct {
        int layers;
        double best;
    } rows[] = {{16, 80.5 / 282.5}, {24, 167.1 / 538.3}, {32, 274.8 / 1012.4}};
    static const int percent[] = {100, 90, 70, 50, 40, 35, 30, 25, 20, 15, 10, 5};
    rp_context *context = rp_test_context(1);
    for (size_t r = 0; r < rp_test_samples(3, 3); r++) {
        rp_graph *graph = make_gated(context, rows[r].layers);
        rp_plan_report report, before = {.peak_bytes = INT64_MAX}, tightest;
        RP_REQUIRE_OK(context, rp_test_plan_within(graph, "auto", RP_UNLIMITED, &report));
        const int64_t top = report.keep_all_peak_bytes, least = report.min_feasible_bytes;
        RP_CHECK_EQUAL(report.recompute_cost_ns, 0);
        for (size_t i = 0; i < sizeof percent / sizeof percent[0]; i++) {
            const int64_t budget = top / 100 * percent[i];
            const rp_status status = rp_test_plan_within(graph, "auto", budget, &report);
            RP_CHECK_EQUAL(status, budget >= least ? RP_OK : RP_INFEASIBLE);
            if (status != RP_OK)
                continue;
            RP_CHECK(report.peak_bytes <= budget, "%d %%: above the budget", percent[i]);
            RP_CHECK(report.peak_bytes <= before.peak_bytes &&
                         report.recompute_cost_ns >= before.recompute_cost_ns,
                     "%d layers, %d %%: not monotone", rows[r].layers, percent[i]);
            before = report;
        }
        RP_REQUIRE_OK(context, rp_test_plan_within(graph, "auto", least, &tightest));
        RP_CHECK(tightest.peak_bytes <= before.peak_bytes, "the minimum is not the least");
        RP_CHECK((double)tightest.peak_bytes < rows[r].best * (double)top,
                 "%d layers: %.3f of keep-all at the tightest budget, theirs is %.3f",
                 rows[r].layers, (double)tightest.peak_bytes / (double)top, rows[r].best);
        rp_graph_destroy(graph);
    }
    rp_context_destroy(context);
}

/* ---- Bytes of a layer ------------------------------------------------------------------------ */

/* Korthikanti et al. 2022, equation 1: s b h (34 + 5 a s / h) bytes a layer with dropout. Without
 * its masks (1 + 1, and a s / h) and the output of dropout on the scores (2 a s / h) that is
 * 32 + 2 a s / h; our norms keep their statistics besides, 16 bytes a token. */
static void test_bytes_of_a_transformer_layer(void) {
    enum { S = 2048, H = 12288, A = 96 };
    rp_context *context = rp_test_context(1);
    int64_t held[2];
    for (uint32_t i = 0; i < 2; i++) {
        const rp_test_shape shape = {2 + i, S, H, A, 50257, S, true};
        rp_graph *graph = rp_test_transformer_of(context, &shape);
        rp_plan_report report;
        RP_REQUIRE_OK(context, rp_plan_limits(graph, &report));
        held[i] = report.keep_all_peak_bytes - rp_graph_persistent_bytes(graph);
        rp_graph_destroy(graph);
    }
    RP_CHECK_EQUAL(held[1] - held[0], (int64_t)S * (32 * H + 2 * A * S) + 16 * S);
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_torch_chain_of_products),
    RP_TEST(test_torch_knapsacks_are_exact),
    RP_TEST(test_torch_pairs),
    RP_TEST(test_torch_attention_or_product),
    RP_TEST(test_peaks_fall_with_the_budget),
    RP_TEST(test_bytes_of_a_transformer_layer),
};
RP_SUITE(anchors, tests)
