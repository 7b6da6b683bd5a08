/* Groups C and J of cases.md as far as they speak of where segments lie: boundaries that a user
 * names, nested ones, cuts through what is one op elsewhere, the order of replays. */
#include <math.h>
#include <string.h>

#include "autograd/program.h"
#include "bench.h"
#include "hand.h"
#include "rows.h"

static rp_tensor x, y, w, loss;

/* ---- Chains of tanh -------------------------------------------------------------------------- */

enum { CHAIN_MOST = 32, CHAIN_ELEMENTS = 256 };

static rp_tensor chain[CHAIN_MOST + 1]; /* chain[0] is the input */

/* L = sum(tanh(...tanh(x))). The block of op i is label + (i - 1) / size. */
static void record_chain(bench *b, int length, const char *label, int size) {
    float values[CHAIN_ELEMENTS];
    for (int i = 0; i < CHAIN_ELEMENTS; i++)
        values[i] = (float)(i % 17 - 8) / 4.0f;
    bench_open(b);
    x = chain[0] = bench_input(b, "x", RP_SHAPE(CHAIN_ELEMENTS), values);
    rp_require_gradient(b->tape, x, true);
    for (int i = 1; i <= length; i++) {
        rp_block(b->tape, "%s.%d", label, (i - 1) / size);
        chain[i] = rp_tanh(b->tape, chain[i - 1]);
    }
    rp_block_end(b->tape);
    loss = rp_sum(b->tape, chain[length]);
}

static uint64_t hash_of_keeping_all(bench *b) {
    bench_program(b, loss, NULL);
    bench_make(b, "keep-all", RP_UNLIMITED);
    bench_run(b);
    RP_CHECK_EQUAL(bench_replays(b), 0);
    return bench_hash_gradients(b);
}

/* ---- BW-10: no replay too many --------------------------------------------------------------- */

/* Counted where kernels are called: 12 if boundaries were replayed, 16 if everything was. */
static void test_BW_10_sixteen_ops_in_segments_of_four_replay_nine(void) {
    bench b;
    record_chain(&b, 16, "segment", 4);
    const uint64_t wanted = hash_of_keeping_all(&b);
    bench_make(&b, "uniform:1", RP_UNLIMITED);
    bench_run(&b);
    rp_executor_stats stats;
    rp_executor_get_stats(b.executor, &stats);
    RP_CHECK_EQUAL(b.report.recompute_nodes, 9);
    RP_CHECK_EQUAL(stats.replays, 9);
    for (int i = 1; i <= 16; i++)
        RP_CHECK_EQUAL(bench_replays_of(&b, chain[i]), i % 4 != 0 && i <= 12);
    RP_CHECK(bench_hash_gradients(&b) == wanted, "other bits");
    bench_close(&b);
}

/* ---- GR-05: a list of boundaries ------------------------------------------------------------- */

/* Everything up to the last boundary is replayed, but for the boundaries. */
static uint64_t plan_with_boundaries(bench *b, const int *boundaries, int count) {
    record_chain(b, 12, "op", 1);
    for (int i = 1; i < 8; i++)
        rp_mark_node(b->tape, chain[i], RP_MARK_RECOMPUTE);
    for (int i = 0; i < count; i++)
        rp_mark_node(b->tape, chain[boundaries[i]], RP_MARK_KEEP);
    bench_program(b, loss, NULL);
    bench_make(b, NULL, RP_UNLIMITED);
    bench_run(b);
    return b->report.plan_hash;
}

static void test_GR_05_order_and_repetition_of_boundaries_do_not_matter(void) {
    bench sorted, given;
    const uint64_t wanted = plan_with_boundaries(&sorted, (const int[]){4, 8}, 2);
    RP_CHECK_EQUAL(sorted.report.recompute_nodes, 6);
    for (int i = 1; i <= 12; i++)
        RP_CHECK_EQUAL(bench_replays_of(&sorted, chain[i]), i < 8 && i != 4);
    const uint64_t hash = bench_hash_gradients(&sorted);
    RP_CHECK(plan_with_boundaries(&given, (const int[]){8, 4, 4}, 3) == wanted, "another plan");
    RP_CHECK(bench_hash_gradients(&given) == hash, "other bits");
    bench_close(&sorted);
    bench_close(&given);
}

static void test_GR_05_a_boundary_that_is_not_in_the_graph_is_named(void) {
    bench b;
    rp_program *program = NULL;
    rp_program_options options = RP_PROGRAM_OPTIONS;
    record_chain(&b, 12, "op", 1);
    bench_program(&b, loss, NULL);
    const rp_step step = {RP_STEP_RUN, 99};
    rp_plan *plan = NULL;
    RP_CHECK_STATUS(
        b.context, rp_plan_import(rp_program_graph(b.program), &step, 1, RP_UNLIMITED, &plan, NULL),
        RP_BAD_INPUT);
    RP_CHECK_MESSAGE(b.context, "node 99");
    CU_ASSERT_PTR_NULL(plan);

    rp_mark_node(b.tape, (rp_tensor){99}, RP_MARK_KEEP);
    RP_CHECK_STATUS(b.context, rp_tape_status(b.tape), RP_INVALID_ARGUMENT);
    RP_CHECK_MESSAGE(b.context, "tensor 99");
    options.losses = &loss;
    options.loss_count = 1;
    RP_CHECK_STATUS(b.context, rp_program_create(b.tape, &options, &program), RP_INVALID_ARGUMENT);
    RP_CHECK_MESSAGE(b.context, "tensor 99");
    bench_close(&b);
}

/* ---- GR-14: checkpoints inside checkpoints --------------------------------------------------- */

enum { NESTED = 27, OUTER = 9, INNER = 3 };

/* Op i is node i - 1, the sum node 27, the two that begin backward 28 and 29, backward of op i node
 * 57 - i. The outer segments hold their ends; a replay of one holds the ends of its inner ones; the
 * last segment of each level is held. */
static void run_nested(hand *h) {
    for (uint32_t n = 0; n <= NESTED + 2; n++)
        hand_run(h, n);
    for (uint32_t o = NESTED / OUTER; o-- > 0;) {
        for (uint32_t i = 1; i < OUTER && o + 1 < NESTED / OUTER; i++)
            hand_run(h, o * OUTER + i - 1);
        for (uint32_t s = OUTER / INNER; s-- > 0;) {
            const uint32_t begin = o * OUTER + s * INNER; /* the op before the inner segment */
            for (uint32_t i = 1; i < INNER && s + 1 < OUTER / INNER; i++)
                hand_run(h, begin + i - 1);
            for (uint32_t i = INNER; i > 0; i--)
                hand_run(h, 2 * NESTED + 3 - (begin + i));
        }
    }
}

/* How often op i is replayed: by its outer segment, unless it ends it or that is the last one, and
 * by its inner segment likewise. */
static uint32_t nested_replays(int i) {
    const int in_outer = (i - 1) % OUTER, in_inner = (i - 1) % INNER;
    const bool outer = i <= NESTED - OUTER && in_outer != OUTER - 1;
    const bool inner = in_outer / INNER != OUTER / INNER - 1 && in_inner != INNER - 1;
    return (uint32_t)outer + (uint32_t)inner;
}

static void test_GR_14_segments_of_nine_that_consist_of_segments_of_three(void) {
    bench b;
    hand h = {.count = 0};
    uint32_t planned = 0;
    rp_executor_stats stats;
    record_chain(&b, NESTED, "inner", INNER);
    const uint64_t wanted = hash_of_keeping_all(&b);
    RP_REQUIRE_EQUAL(rp_graph_node_count(rp_program_graph(b.program)), 2 * NESTED + 3);
    run_nested(&h);
    hand_make(&b, &h, RP_UNLIMITED);
    bench_run(&b);
    RP_CHECK(bench_hash_gradients(&b) == wanted, "other bits");
    for (int i = 1; i <= NESTED; i++) {
        RP_CHECK_EQUAL(bench_replays_of(&b, chain[i]), nested_replays(i));
        planned += nested_replays(i);
    }
    RP_CHECK_EQUAL(planned, 12 + 12 + 4);
    RP_CHECK_EQUAL(b.report.recompute_nodes, planned);
    rp_executor_get_stats(b.executor, &stats);
    RP_CHECK_EQUAL(stats.replays, planned);
    /* where backward begins: the ends of each level, the last inner segment, one gradient (the next
     * takes its place), the loss and its gradient */
    const int64_t unit = CHAIN_ELEMENTS * sizeof(float);
    const int64_t persistent = rp_graph_persistent_bytes(rp_program_graph(b.program));
    RP_CHECK_EQUAL(b.report.live_peak_bytes - persistent, (2 + 2 + 3 + 1) * unit + 2 * 64);
    bench_close(&b);
}

/* ---- GR-15: cuts through what is one op elsewhere -------------------------------------------- */

enum { PARTS_MOST = 8, PART_ROWS = 3, PART_COLUMNS = 5 };

typedef struct composite {
    rp_tensor parts[PARTS_MOST]; /* in order; the last one is the result */
    int count;
} composite;

static rp_tensor add_part(composite *c, rp_tensor part) {
    return c->parts[c->count++] = part;
}

static composite record_layernorm(bench *b, rp_tensor in) {
    composite c = {.count = 0};
    w = bench_parameter(b, "weight", RP_SHAPE(PART_COLUMNS),
                        (const float[]){1, -2, 0.5f, 3, 0.25f});
    const rp_tensor bias =
        bench_parameter(b, "bias", RP_SHAPE(PART_COLUMNS), (const float[]){0, 1, 2, -1, 0.5f});
    const rp_tensor mean = add_part(&c, row_op(b, ROW_MEAN, in, RP_NO_TENSOR));
    const rp_tensor centred = add_part(&c, row_op(b, ROW_SUBTRACT, in, mean));
    const rp_tensor variance = add_part(&c, row_op(b, ROW_SQUARES, centred, RP_NO_TENSOR));
    const rp_tensor normal = add_part(&c, row_op(b, ROW_NORMALISE, centred, variance));
    const rp_tensor scaled = add_part(&c, rp_mul(b->tape, normal, w));
    y = add_part(&c, rp_add(b->tape, scaled, bias));
    return c;
}

static composite record_softmax(bench *b, rp_tensor in) {
    composite c = {.count = 0};
    const rp_tensor most = add_part(&c, row_op(b, ROW_MAX, in, RP_NO_TENSOR));
    const rp_tensor shifted = add_part(&c, row_op(b, ROW_SUBTRACT, in, most));
    const rp_tensor exponential = add_part(&c, row_op(b, ROW_EXP, shifted, RP_NO_TENSOR));
    const rp_tensor sum = add_part(&c, row_op(b, ROW_SUM, exponential, RP_NO_TENSOR));
    y = add_part(&c, row_op(b, ROW_DIVIDE, exponential, sum));
    return c;
}

/* sum(y^2 * v), so that no gradient is 0 or 1. */
static rp_tensor record_loss(bench *b, rp_tensor of) {
    const rp_tensor v =
        bench_input(b, "v", RP_SHAPE(PART_COLUMNS), (const float[]){1, 3, -2, 0.5f, 7});
    return rp_sum(b->tape, rp_mul(b->tape, rp_mul(b->tape, of, of), v));
}

static rp_tensor open_composite(bench *b) {
    float values[PART_ROWS * PART_COLUMNS];
    for (int i = 0; i < PART_ROWS * PART_COLUMNS; i++)
        values[i] = (float)(i * 7 % 11) / 3.0f - 1.5f;
    bench_open(b);
    x = bench_parameter(b, "x", RP_SHAPE(PART_ROWS, PART_COLUMNS), values);
    return rp_scale(b->tape, x, 1.0f);
}

/* Each cut in turn: the part before it is kept, all others are recomputed. */
static void check_cuts(bench *b, const composite *c) {
    bench_program(b, loss, NULL);
    bench_make(b, "keep-all", RP_UNLIMITED);
    bench_run(b);
    const uint64_t wanted = bench_hash_gradients(b);
    for (int kept = -1; kept < c->count; kept++) {
        for (int i = 0; i < c->count; i++)
            rp_mark_node(b->tape, c->parts[i], i == kept ? RP_MARK_KEEP : RP_MARK_RECOMPUTE);
        bench_program(b, loss, NULL);
        bench_make(b, NULL, RP_UNLIMITED);
        bench_run(b);
        RP_CHECK(bench_hash_gradients(b) == wanted, "cut behind part %d: other bits", kept);
        RP_CHECK(bench_replays(b) > 0, "cut behind part %d: nothing was replayed", kept);
        RP_CHECK(kept < 0 || bench_replays_of(b, c->parts[kept]) == 0, "part %d ran again", kept);
    }
}

/* Where the one op stands in its place: the same values, up to rounding. */
static void check_against_one_op(bench *b, bool is_softmax) {
    float gradient[PART_ROWS * PART_COLUMNS];
    memcpy(gradient, bench_gradient(b, x), sizeof gradient);
    const float value = bench_scalar(b, loss);
    const rp_tensor in = rp_scale(b->tape, x, 1.0f);
    const rp_tensor one = is_softmax
                              ? rp_softmax(b->tape, in, false)
                              : rp_add(b->tape, rp_layernorm(b->tape, in, w, RP_NO_TENSOR, 1e-5f),
                                       b->leaves[2].tensor);
    loss = record_loss(b, one);
    bench_program(b, loss, NULL);
    bench_make(b, NULL, RP_UNLIMITED);
    bench_run(b);
    RP_CHECK_NEAR((double)value, (double)bench_scalar(b, loss), 1e-5);
    const float *wanted = bench_gradient(b, x);
    for (int i = 0; i < PART_ROWS * PART_COLUMNS; i++)
        RP_CHECK(fabsf(gradient[i] - wanted[i]) <= 2e-5f * (1.0f + fabsf(wanted[i])),
                 "element %d: %.9g, the one op %.9g", i, (double)gradient[i], (double)wanted[i]);
}

static void test_GR_15_cuts_through_layernorm_in_parts(void) {
    bench b;
    const rp_tensor in = open_composite(&b);
    const composite c = record_layernorm(&b, in);
    RP_REQUIRE_EQUAL(c.count, 6);
    loss = record_loss(&b, y);
    check_cuts(&b, &c);
    check_against_one_op(&b, false);
    bench_close(&b);
}

static void test_GR_15_cuts_through_softmax_in_parts(void) {
    bench b;
    const rp_tensor in = open_composite(&b);
    const composite c = record_softmax(&b, in);
    RP_REQUIRE_EQUAL(c.count, 5);
    loss = record_loss(&b, y);
    check_cuts(&b, &c);
    check_against_one_op(&b, true);
    bench_close(&b);
}

/* ---- GR-03: two lanes ------------------------------------------------------------------------ */

enum { EVENTS_MOST = 64 };

typedef struct event_log {
    rp_trace_event events[EVENTS_MOST];
    size_t count;
} event_log;

static void keep_event(void *user, const rp_trace_event *event) {
    event_log *log = user;
    if (log->count < EVENTS_MOST)
        log->events[log->count++] = *event;
}

static bool is_of_lane(bench *b, const rp_trace_event *event, const char *lane) {
    rp_node_info info;
    rp_graph_node(rp_program_graph(b->program), event->node, &info);
    return strcmp(info.block, lane) == 0;
}

static void record_lanes(bench *b, bool f_first) {
    rp_tensor ends[2];
    bench_open(b);
    const rp_tensor of_f = bench_parameter(b, "a", RP_SHAPE(2), (const float[]){0.5f, -1});
    const rp_tensor of_g = bench_parameter(b, "b", RP_SHAPE(2), (const float[]){2, 0.25f});
    for (int i = 0; i < 2; i++) {
        const bool is_f = (i == 0) == f_first;
        rp_block(b->tape, is_f ? "f" : "g");
        rp_tensor h = rp_tanh(b->tape, is_f ? of_f : of_g);
        if (!is_f)
            rp_block(b->tape, "segment");
        for (int k = 0; k < 3; k++) {
            h = rp_tanh(b->tape, h);
            if (!is_f)
                rp_mark_node(b->tape, h, RP_MARK_RECOMPUTE);
        }
        ends[i] = h;
    }
    rp_block_end(b->tape);
    loss = rp_sum(b->tape, rp_concat(b->tape, ends, 2, 0));
}

/* Kernels run one behind the other, and from the segment's first replay to its last nothing of the
 * other lane runs. */
static void check_log(bench *b, const event_log *log) {
    size_t begin = log->count, end = 0, replays = 0;
    for (size_t i = 0; i < log->count; i++) {
        RP_CHECK(i == 0 || log->events[i].begin_ns >= log->events[i - 1].end_ns,
                 "event %zu begins inside the one before", i);
        if (!log->events[i].is_replay)
            continue;
        RP_CHECK(is_of_lane(b, &log->events[i], "segment"), "event %zu is no replay of it", i);
        begin = i < begin ? i : begin;
        end = i;
        replays++;
    }
    RP_CHECK_EQUAL(replays, 3);
    for (size_t i = begin; i <= end && i < log->count; i++)
        RP_CHECK(!is_of_lane(b, &log->events[i], "f"), "event %zu is of the other lane", i);
    RP_REQUIRE(end + 1 < log->count, "the replays come last");
    RP_CHECK_EQUAL(log->events[end + 1].phase, RP_BACKWARD);
    RP_CHECK(is_of_lane(b, &log->events[end + 1], "segment"), "the replay began too early");
}

static void test_GR_03_a_replay_runs_nothing_of_the_other_lane(void) {
    for (int f_first = 0; f_first < 2; f_first++) {
        bench b;
        event_log log = {.count = 0};
        record_lanes(&b, f_first);
        bench_program(&b, loss, NULL);
        b.options.trace = keep_event;
        b.options.trace_user = &log;
        bench_make(&b, NULL, RP_UNLIMITED);
        bench_run(&b);
        RP_CHECK(log.count < EVENTS_MOST, "more events than the log holds");
        check_log(&b, &log);
        bench_close(&b);
    }
}

static const rp_test tests[] = {
    RP_TEST(test_BW_10_sixteen_ops_in_segments_of_four_replay_nine),
    RP_TEST(test_GR_03_a_replay_runs_nothing_of_the_other_lane),
    RP_TEST(test_GR_05_order_and_repetition_of_boundaries_do_not_matter),
    RP_TEST(test_GR_05_a_boundary_that_is_not_in_the_graph_is_named),
    RP_TEST(test_GR_14_segments_of_nine_that_consist_of_segments_of_three),
    RP_TEST(test_GR_15_cuts_through_layernorm_in_parts),
    RP_TEST(test_GR_15_cuts_through_softmax_in_parts),
};
RP_SUITE(structure, tests)
