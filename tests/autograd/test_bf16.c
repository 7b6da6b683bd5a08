/* Group F of cases.md: what bf16 storage must not lose, and what must not be kept of it. */
#include <math.h>
#include <stdlib.h>

#include "autograd/program.h"
#include "bench.h"
#include "models.h"

static rp_tensor x, w, loss;

/* To nearest, ties to even, by arithmetic: 8 significant bits. No NaN, no subnormal. */
static float rounded(float value) {
    int exponent = 0;
    const double fraction = frexp((double)value, &exponent);
    return isfinite(value) ? (float)ldexp(nearbyint(ldexp(fraction, 8)), exponent - 8) : value;
}

static void open_bf16(bench *b) {
    bench_open(b);
    b->dtype = RP_BF16;
}

static bool is_cast(const bench *b, size_t node) {
    return b->program->code.nodes[node].op == RP_OP_CAST && !b->program->code.nodes[node].backward;
}

/* Losses and gradients of three steps, bit for bit. */
static uint64_t train(bench *b, const model *m) {
    uint64_t hash = BENCH_HASH;
    for (uint64_t step = 0; step < 3; step++) {
        model_batch(b, m, step);
        RP_REQUIRE_OK(b->context, rp_executor_begin_step(b->executor, step, 1.0f));
        bench_run(b);
        hash = bench_hash(hash, bench_values(b, m->loss), sizeof(float));
        hash = bench_hash(hash, &(uint64_t){bench_hash_gradients(b)}, sizeof(uint64_t));
        RP_REQUIRE_OK(b->context, rp_sgd_step(b->executor, 0.1f, 0.0f, 0.0f));
    }
    return hash;
}

/* T0d in bf16 with f32 parameters, whose casts lie in the blocks. Everything is marked keep in the
 * first model, so that nothing runs again; in the others every replay is compared bit for bit with
 * the first run. */
static void test_DT_01_replays_have_the_types_and_bits_of_the_first_run(void) {
    static const char *const strategies[] = {"keep-all", "uniform:1", "block:2", "auto"};
    uint64_t wanted = 0;
    for (int i = 0; i < 4; i++) {
        bench b;
        uint32_t casts = 0, replayed = 0;
        bench_open(&b);
        rp_mark_from_here(b.tape, i == 0 ? RP_MARK_KEEP : RP_MARK_AUTO);
        const model m = model_record(&b, (model_options){.dropout = 0.1f, .casts = true});
        RP_CHECK_EQUAL(rp_tensor_get_info(b.tape, m.logits).dtype, RP_BF16);
        bench_program(&b, m.loss, NULL);
        bench_make(&b, strategies[i], i == 3 ? bench_minimum(&b) : RP_UNLIMITED);
        const uint64_t hash = train(&b, &m);
        wanted = i == 0 ? hash : wanted;
        RP_CHECK(hash == wanted, "%s: other losses or gradients", strategies[i]);
        for (size_t n = 0; n < b.program->code.node_count; n++) {
            casts += is_cast(&b, n);
            replayed += is_cast(&b, n) && b.replays[n] > 0;
        }
        RP_CHECK_EQUAL(casts, rp_program_parameter_count(b.program));
        RP_CHECK(i == 0 ? replayed == 0 : replayed > casts / 2, "%s: %u of %u casts ran again",
                 strategies[i], replayed, casts);
        RP_CHECK_EQUAL(rp_program_gradient_info(b.program, b.leaves[3].tensor).dtype, RP_F32);
        bench_close(&b);
    }
}

enum { MANY_ROWS = 1024 };

/* Ways for a thousand rows to add 1 each to one element of a gradient. */
static rp_tensor bias_of_linear(rp_tape *t, rp_tensor rows, rp_tensor p, rp_tensor ids) {
    (void)ids;
    return rp_linear(t, rows, rp_reshape(t, rows, RP_SHAPE(1, MANY_ROWS)), p, RP_IN_OUT);
}

static rp_tensor weight_of_linear(rp_tape *t, rp_tensor rows, rp_tensor p, rp_tensor ids) {
    (void)ids;
    return rp_linear(t, rows, rp_reshape(t, p, RP_SHAPE(1, 1)), RP_NO_TENSOR, RP_IN_OUT);
}

static rp_tensor weight_of_norm(rp_tape *t, rp_tensor rows, rp_tensor p, rp_tensor ids) {
    (void)ids;
    return rp_layernorm(t, rows, p, p, 1e-5f);
}

static rp_tensor repeated_term(rp_tape *t, rp_tensor rows, rp_tensor p, rp_tensor ids) {
    (void)ids;
    return rp_add(t, rows, p);
}

static rp_tensor repeated_factor(rp_tape *t, rp_tensor rows, rp_tensor p, rp_tensor ids) {
    (void)ids;
    return rp_mul(t, rows, p);
}

static rp_tensor row_of_table(rp_tape *t, rp_tensor rows, rp_tensor p, rp_tensor ids) {
    (void)rows;
    return rp_embedding(t, rp_reshape(t, p, RP_SHAPE(1, 1)), ids);
}

static void test_DT_03_a_thousand_rows_add_up(void) {
    static const struct {
        const char *name;
        rp_tensor (*record)(rp_tape *t, rp_tensor rows, rp_tensor p, rp_tensor ids);
        int width; /* of the parameter */
    } rows[] = {
        {"the bias of linear", bias_of_linear, MANY_ROWS},
        {"the weight of linear", weight_of_linear, 1},
        {"the bias of layernorm", weight_of_norm, 1},
        {"a repeated term", repeated_term, 1},
        {"a repeated factor", repeated_factor, 1},
        {"a row of a table", row_of_table, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            bench b;
            float gradient[MANY_ROWS];
            const size_t width = (size_t)rows[i].width;
            rp_program_options options = RP_PROGRAM_OPTIONS;
            options.accumulate = accumulate == 1;
            open_bf16(&b);
            x = bench_input(&b, "x", RP_SHAPE(MANY_ROWS, 1), NULL);
            w = bench_parameter(&b, "w", RP_SHAPE(rows[i].width), NULL);
            const rp_tensor ids = bench_ids(&b, "ids", RP_SHAPE(MANY_ROWS), NULL);
            for (int r = 0; r < MANY_ROWS; r++)
                ((float *)bench_data(&b, x))[r] = 1.0f;
            bench_program(&b, rp_sum(b.tape, rows[i].record(b.tape, x, w, ids)), &options);
            bench_make(&b, NULL, RP_UNLIMITED);
            bench_run(&b);
            RP_REQUIRE_OK(b.context, rp_executor_read_gradient_f32(b.executor, w, gradient, width));
            for (size_t e = 0; e < width; e++)
                RP_CHECK(gradient[e] == (float)MANY_ROWS, "%s: %g", rows[i].name,
                         (double)gradient[e]);
            bench_close(&b);
        }
}

/* Ways for x to become the gradient of p, one element each. */
static rp_tensor by_factor(rp_tape *t, rp_tensor p, rp_tensor in) {
    return rp_mul(t, p, in);
}

static rp_tensor by_product(rp_tape *t, rp_tensor p, rp_tensor in) {
    return rp_linear(t, rp_reshape(t, in, RP_SHAPE(1, 1)), rp_reshape(t, p, RP_SHAPE(1, 1)),
                     RP_NO_TENSOR, RP_IN_OUT);
}

static rp_tensor by_matmul(rp_tape *t, rp_tensor p, rp_tensor in) {
    return rp_matmul(t, rp_reshape(t, p, RP_SHAPE(1, 1)), rp_reshape(t, in, RP_SHAPE(1, 1)), false,
                     false);
}

static rp_tensor by_tanh(rp_tape *t, rp_tensor p, rp_tensor in) {
    return rp_mul(t, rp_tanh(t, p), in);
}

static rp_tensor by_view(rp_tape *t, rp_tensor p, rp_tensor in) {
    return rp_mul(t, rp_reshape(t, p, RP_SHAPE(1, 1)), rp_reshape(t, in, RP_SHAPE(1)));
}

static rp_tensor by_two_readers(rp_tape *t, rp_tensor p, rp_tensor in) {
    return rp_add(t, rp_scale(t, rp_mul(t, p, in), 0.5f), rp_scale(t, rp_mul(t, in, p), 0.5f));
}

/* Not rounded on its way: 0.001 is f32. */
static rp_tensor by_cast(rp_tape *t, rp_tensor p, rp_tensor in) {
    return rp_mul(t, rp_cast(t, p, RP_F32), in);
}

static void test_DT_04_micro_batches_add_up_in_f32(void) {
    static const struct {
        const char *name;
        rp_tensor (*record)(rp_tape *t, rp_tensor p, rp_tensor in);
        bool x_is_f32;
    } rows[] = {
        {"factor", by_factor, false}, {"product", by_product, false},
        {"matmul", by_matmul, false}, {"tanh", by_tanh, false},
        {"view", by_view, false},     {"two readers", by_two_readers, false},
        {"cast", by_cast, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bench b;
        float value = 1.0f, gradient = 0.0f;
        rp_program_options options = RP_PROGRAM_OPTIONS;
        options.accumulate = true;
        open_bf16(&b);
        w = bench_parameter(&b, "w", RP_SHAPE(1), NULL);
        b.dtype = rows[i].x_is_f32 ? RP_F32 : RP_BF16;
        x = bench_input(&b, "x", RP_SHAPE(1), NULL);
        bench_program(&b, rp_sum(b.tape, rows[i].record(b.tape, w, x)), &options);
        bench_make(&b, NULL, RP_UNLIMITED);
        RP_REQUIRE_OK(b.context, rp_executor_begin_step(b.executor, 0, 1.0f));
        for (int micro_batch = 0; micro_batch <= 256; micro_batch++) {
            RP_REQUIRE_OK(b.context, rp_executor_write_f32(b.executor, x, &value, 1));
            bench_run(&b);
            value = 0.001f;
        }
        RP_REQUIRE_OK(b.context, rp_executor_read_gradient(b.executor, w, &gradient, 4));
        const double term = (double)(rows[i].x_is_f32 ? value : rounded(value));
        RP_CHECK(fabs((double)gradient - 1.256) < 5e-4, "%s: %g", rows[i].name, (double)gradient);
        RP_CHECK(fabs((double)gradient - (1.0 + 256.0 * term)) < 2e-5, "%s: %g, not %g",
                 rows[i].name, (double)gradient, 1.0 + 256.0 * term);
        bench_close(&b);
    }
}

/* ---- DT-05: casts of weights ----------------------------------------------------------------- */

enum { LINEARS = 32, LINEAR_WIDTH = 64, LINEAR_ROWS = 8 };

/* 32 linears in bf16 with f32 weights and casts of them, or with bf16 weights. */
static void open_linears(bench *b, bool with_casts, rp_tensor casts[LINEARS]) {
    const rp_shape shape = RP_SHAPE(LINEAR_WIDTH, LINEAR_WIDTH);
    open_bf16(b);
    rp_tensor h = bench_input(b, "x", RP_SHAPE(LINEAR_ROWS, LINEAR_WIDTH), NULL);
    b->dtype = with_casts ? RP_F32 : RP_BF16;
    for (int i = 0; i < LINEARS; i++) {
        rp_block(b->tape, "segment.%d", i);
        const rp_tensor weight = bench_parameter(b, "w", shape, NULL);
        casts[i] = rp_cast(b->tape, weight, RP_BF16);
        h = rp_tanh(b->tape, rp_linear(b->tape, h, casts[i], RP_NO_TENSOR, RP_IN_OUT));
    }
    loss = rp_sum(b->tape, h);
}

/* Bytes of activations that are live when the first backward node runs; views have none. */
static int64_t kept_bytes(const bench *b, bool *kept) {
    const rp_graph *graph = rp_program_graph(b->program);
    size_t count = 0;
    int64_t bytes = 0;
    const rp_step *steps = rp_plan_steps(b->plan, &count);
    for (size_t s = 0; s < count; s++) {
        rp_node_info node;
        if (steps[s].kind == RP_STEP_DROP) {
            kept[steps[s].index] = false;
            continue;
        }
        rp_graph_node(graph, steps[s].index, &node);
        if (node.phase == RP_BACKWARD)
            break;
        for (size_t i = 0; i < node.output_count; i++)
            kept[node.outputs[i]] = true;
    }
    for (uint32_t v = 0; v < rp_graph_value_count(graph); v++) {
        rp_value_info info;
        rp_graph_value(graph, v, &info);
        bytes += kept[v] && info.alias_of == RP_NONE ? info.bytes : 0;
    }
    return bytes;
}

static void test_DT_05_casts_of_weights_are_not_kept(void) {
    static const char *const strategies[] = {"auto", "uniform:4", "selective"};
    for (int s = 0; s < 3; s++) {
        int64_t bytes[2];
        for (int with_casts = 0; with_casts < 2; with_casts++) {
            bench b;
            rp_tensor casts[LINEARS];
            open_linears(&b, with_casts == 1, casts);
            bench_program(&b, loss, NULL);
            bench_make(&b, strategies[s], RP_UNLIMITED);
            bool *kept = calloc(rp_graph_value_count(rp_program_graph(b.program)), sizeof *kept);
            RP_REQUIRE(kept != NULL, "no memory");
            bytes[with_casts] = kept_bytes(&b, kept);
            bench_run(&b);
            for (int i = 0; i < LINEARS && with_casts == 1; i++) {
                RP_CHECK(!kept[b.program->graph_value[casts[i].id - 1]], "cast %d is kept", i);
                /* the gradient of x is not wanted, and that of h reads the weight */
                RP_CHECK(bench_replays_of(&b, casts[i]) >= (i > 0), "cast %d: %u replays", i,
                         bench_replays_of(&b, casts[i]));
            }
            free(kept);
            bench_close(&b);
        }
        RP_CHECK(bytes[0] > 0 && bytes[1] == bytes[0], "%s keeps %lld bytes, with casts %lld",
                 strategies[s], (long long)bytes[0], (long long)bytes[1]);
    }
}

/* A view of a weight counts as one, what only moves the elements of a copy as that copy. A mark of
 * the user's wins, and what must be there at the end stays. */
static void test_DT_05_views_marks_and_outputs(void) {
    for (int i = 0; i < 5; i++) {
        bench b;
        rp_program_options options = RP_PROGRAM_OPTIONS;
        bench_open(&b);
        x = bench_input(&b, "x", RP_SHAPE(4, 8), NULL);
        rp_require_gradient(b.tape, x, true);
        w = bench_parameter(&b, "w", RP_SHAPE(2, 32), NULL);
        const rp_shape shape = i == 3 ? RP_SHAPE(4, 8) : RP_SHAPE(8, 4);
        const rp_tensor view = rp_reshape(b.tape, rp_slice(b.tape, w, 0, 1, 1), shape);
        const rp_tensor cast = rp_cast(b.tape, view, RP_BF16);
        const rp_tensor moved = i == 3 ? rp_transpose(b.tape, cast, 0, 1) : cast;
        if (i == 1)
            rp_mark_node(b.tape, cast, RP_MARK_KEEP);
        if (i == 4) /* of an activation: kept like any other */
            x = rp_tanh(b.tape, x);
        const rp_tensor in = rp_cast(b.tape, x, RP_BF16);
        loss = rp_sum(b.tape, rp_linear(b.tape, in, moved, RP_NO_TENSOR, RP_IN_OUT));
        if (i == 2) {
            options.outputs = &cast;
            options.output_count = 1;
        }
        bench_program(&b, loss, &options);
        bench_make(&b, NULL, RP_UNLIMITED);
        bench_run(&b);
        const uint32_t again = i == 1 || i == 2 ? 0 : 1;
        RP_CHECK(bench_replays_of(&b, moved) == again, "%d: the copy was made %u times again", i,
                 bench_replays_of(&b, moved));
        RP_CHECK(bench_replays_of(&b, in) == 0, "%d: the cast of x ran again", i);
        bench_close(&b);
    }
}

/* However a copy is put together: of moved weights, which are not kept in its place, and of several
 * weights, joined before or behind their casts. What only moves weights is kept like any other. The
 * search of `auto` in so small a graph would cast again at the turn, before it drops what is cast,
 * and move nothing again. */
static void test_DT_05_copies_of_moved_and_joined_weights(void) {
    enum { CAST_OF_MOVED, CAST_OF_JOINED, JOINED_CASTS, MOVED_ONLY, KINDS };
    for (int kind = 0; kind < KINDS; kind++) {
        bench b;
        bench_open(&b);
        x = bench_input(&b, "x", RP_SHAPE(4, 8), NULL);
        rp_require_gradient(b.tape, x, true);
        w = bench_parameter(&b, "w", RP_SHAPE(4, 8), NULL);
        const rp_tensor more = bench_parameter(&b, "more", RP_SHAPE(4, 8), NULL);
        const bool joined = kind == CAST_OF_JOINED || kind == JOINED_CASTS;
        const rp_shape shape = joined ? RP_SHAPE(8, 8) : RP_SHAPE(8, 4);
        const rp_tensor both[] = {w, more};
        const rp_tensor casts[] = {rp_cast(b.tape, w, RP_BF16), rp_cast(b.tape, more, RP_BF16)};
        rp_tensor made = kind == JOINED_CASTS     ? rp_concat(b.tape, casts, 2, 0)
                         : kind == CAST_OF_JOINED ? rp_concat(b.tape, both, 2, 0)
                                                  : rp_transpose(b.tape, w, 0, 1);
        const rp_tensor copy = kind == CAST_OF_MOVED || kind == CAST_OF_JOINED
                                   ? rp_cast(b.tape, rp_reshape(b.tape, made, shape), RP_BF16)
                                   : rp_reshape(b.tape, made, shape);
        const rp_tensor in = kind == MOVED_ONLY ? x : rp_cast(b.tape, x, RP_BF16);
        loss = rp_sum(b.tape, rp_linear(b.tape, in, copy, RP_NO_TENSOR, RP_IN_OUT));
        bench_program(&b, loss, NULL);
        bench_make(&b, "selective", RP_UNLIMITED);
        bench_run(&b);
        const uint32_t again = kind == MOVED_ONLY ? 0 : 1;
        RP_CHECK(bench_replays_of(&b, made) == again, "%d: moved %u times again", kind,
                 bench_replays_of(&b, made));
        if (kind == CAST_OF_MOVED)
            RP_CHECK_EQUAL(bench_replays_of(&b, copy), 1);
        bench_close(&b);
    }
}

/* ---- DT-06: the element that is really stored ------------------------------------------------ */

static int64_t bytes_in_graph(const bench *b, rp_tensor tensor) {
    rp_value_info info;
    rp_graph_value(rp_program_graph(b->program), b->program->graph_value[tensor.id - 1], &info);
    return info.bytes;
}

/* bf16 logits [8, 1024, 50257] and their cast to f32: planned, but on no memory. */
static void test_DT_06_a_copy_in_f32_counts_as_f32(void) {
    enum { BATCH = 8, SEQ = 1024, VOCAB = 50257, DIM = 4 };
    static const int64_t in_bf16 = 823410688, in_f32 = 1646821376;
    int64_t peaks[2];
    for (int with_copy = 0; with_copy < 2; with_copy++) {
        bench b;
        rp_program_options options = RP_PROGRAM_OPTIONS;
        options.forward_only = true;
        bench_open(&b);
        rp_tape *t = b.tape;
        const rp_tensor h = rp_input(t, "h", RP_BF16, RP_SHAPE(BATCH, SEQ, DIM));
        const rp_tensor targets = rp_input(t, "targets", RP_I32, RP_SHAPE(BATCH, SEQ));
        w = rp_parameter(t, "head", RP_BF16, RP_SHAPE(VOCAB, DIM));
        const rp_tensor logits = rp_linear(t, h, w, RP_NO_TENSOR, RP_OUT_IN);
        const rp_tensor copy = rp_cast(t, logits, with_copy ? RP_F32 : RP_BF16);
        loss = rp_cross_entropy(t, copy, targets, -100, RP_REDUCE_MEAN);
        bench_program(&b, loss, &options);
        RP_CHECK_EQUAL(bytes_in_graph(&b, logits), in_bf16);
        RP_CHECK_EQUAL(bytes_in_graph(&b, copy), with_copy ? in_f32 : in_bf16);
        b.options.backend = RP_BACKEND_NULL;
        b.options.check_replays = false;
        bench_make(&b, NULL, RP_UNLIMITED);
        bench_run(&b);
        peaks[with_copy] =
            b.report.live_peak_bytes - rp_graph_persistent_bytes(rp_program_graph(b.program));
        bench_close(&b);
    }
    const int64_t workspace = 1 << 21; /* of cross entropy: by rows, not by elements */
    RP_CHECK(peaks[0] >= in_bf16 && peaks[0] < in_bf16 + workspace, "a peak of %lld",
             (long long)peaks[0]);
    RP_CHECK_EQUAL(peaks[1], in_bf16 + in_f32);
}

static const rp_test tests[] = {
    RP_TEST(test_DT_01_replays_have_the_types_and_bits_of_the_first_run),
    RP_TEST(test_DT_03_a_thousand_rows_add_up),
    RP_TEST(test_DT_04_micro_batches_add_up_in_f32),
    RP_TEST(test_DT_05_casts_of_weights_are_not_kept),
    RP_TEST(test_DT_05_views_marks_and_outputs),
    RP_TEST(test_DT_05_copies_of_moved_and_joined_weights),
    RP_TEST(test_DT_06_a_copy_in_f32_counts_as_f32),
};
RP_SUITE(bf16, tests)
