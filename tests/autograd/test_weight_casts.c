/* Group F of cases.md, DT-05: in no plan do bytes of a copy of a weight stay from forward to
 * backward, whatever is computed from views of it. */
#include <stdlib.h>

#include "autograd/program.h"
#include "bench.h"
#include "planner/graph.h"

enum { MOST_COPIES = 2 };

/* A model that reads weights' copies, and views of them, forward and backward. */
typedef struct copies {
    rp_tensor loss, x, w, more;
    rp_tensor of[MOST_COPIES], view; /* what may not stay, and one of the views */
    size_t count;
} copies;

static rp_tensor weight(bench *b, const char *name, rp_shape shape) {
    const int64_t count = rp_shape_count(shape);
    float values[512];
    RP_REQUIRE(count <= 512, "%lld elements", (long long)count);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)((i * 37 + count) % 64 - 32) / 64.0f;
    return bench_parameter(b, name, shape, values);
}

static rp_tensor copy_of(bench *b, copies *c, rp_tensor tensor) {
    return c->of[c->count++] = rp_cast(b->tape, tensor, RP_BF16);
}

/* sum(tanh(x first) second), first [8, 16], second [16, 8] */
static void two_linears(bench *b, copies *c, rp_tensor first, rp_tensor second) {
    const rp_tensor x = rp_cast(b->tape, c->x, RP_BF16);
    const rp_tensor h = rp_tanh(b->tape, rp_linear(b->tape, x, first, RP_NO_TENSOR, RP_IN_OUT));
    const rp_tensor y = rp_linear(b->tape, h, second, RP_NO_TENSOR, RP_IN_OUT);
    c->loss = rp_sum(b->tape, rp_mul(b->tape, y, y));
}

static void record_reshaped(bench *b, copies *c) {
    c->w = weight(b, "w", RP_SHAPE(16, 8));
    const rp_tensor copy = copy_of(b, c, c->w);
    c->view = rp_reshape(b->tape, copy, RP_SHAPE(8, 16));
    two_linears(b, c, c->view, copy);
}

/* A transposition that moves nothing, and a view of it. */
static void record_transposed(bench *b, copies *c) {
    c->w = weight(b, "w", RP_SHAPE(1, 8, 16));
    const rp_tensor copy = copy_of(b, c, c->w);
    const rp_tensor turned = rp_transpose(b->tape, copy, 0, 1);
    c->view = rp_reshape(b->tape, turned, RP_SHAPE(8, 16));
    two_linears(b, c, c->view, rp_reshape(b->tape, turned, RP_SHAPE(16, 8)));
}

/* Two parts, one of which begins where the copy does, and a part of a part. */
static void record_sliced(bench *b, copies *c) {
    c->w = weight(b, "w", RP_SHAPE(24, 16));
    const rp_tensor copy = copy_of(b, c, c->w);
    const rp_tensor first = rp_slice(b->tape, copy, 0, 0, 8);
    const rp_tensor rest = rp_slice(b->tape, copy, 0, 8, 16);
    c->view = rp_slice(b->tape, rest, 0, 8, 8);
    two_linears(b, c, first, rp_reshape(b->tape, c->view, RP_SHAPE(16, 8)));
}

/* An activation that may lie where its input lay: from a part of the copy it does not. */
static void record_computed(bench *b, copies *c) {
    c->w = weight(b, "w", RP_SHAPE(16, 16));
    const rp_tensor copy = copy_of(b, c, c->w);
    c->view = rp_slice(b->tape, copy, 0, 8, 8);
    const rp_tensor first = rp_tanh(b->tape, c->view);
    const rp_tensor half = rp_slice(b->tape, copy, 0, 0, 8);
    const rp_tensor second = rp_mul(b->tape, half, rp_slice(b->tape, copy, 0, 8, 8));
    two_linears(b, c, first, rp_reshape(b->tape, second, RP_SHAPE(16, 8)));
}

/* What is cast is a moved weight, of which a view is read as well. */
static void record_moved(bench *b, copies *c) {
    c->w = weight(b, "w", RP_SHAPE(16, 8));
    const rp_tensor moved = c->of[c->count++] = rp_transpose(b->tape, c->w, 0, 1);
    const rp_tensor copy = copy_of(b, c, rp_reshape(b->tape, moved, RP_SHAPE(16, 8)));
    c->view = rp_reshape(b->tape, moved, RP_SHAPE(8, 16));
    const rp_tensor h = rp_linear(b->tape, c->x, c->view, RP_NO_TENSOR, RP_IN_OUT);
    const rp_tensor in = rp_cast(b->tape, rp_tanh(b->tape, h), RP_BF16);
    const rp_tensor y = rp_linear(b->tape, in, copy, RP_NO_TENSOR, RP_IN_OUT);
    c->loss = rp_sum(b->tape, rp_mul(b->tape, y, y));
}

static void record_joined(bench *b, copies *c) {
    c->w = weight(b, "w", RP_SHAPE(16, 8));
    c->more = weight(b, "more", RP_SHAPE(4, 16));
    const rp_tensor copy = copy_of(b, c, c->w);
    c->view = rp_slice(b->tape, rp_reshape(b->tape, copy, RP_SHAPE(8, 16)), 0, 2, 4);
    const rp_tensor both[] = {c->view, rp_cast(b->tape, c->more, RP_BF16)};
    const rp_tensor joined = c->of[c->count++] = rp_concat(b->tape, both, 2, 0);
    two_linears(b, c, joined, copy);
}

static const struct {
    const char *name;
    void (*record)(bench *b, copies *c);
} rows[] = {
    {"reshaped", record_reshaped}, {"transposed", record_transposed}, {"sliced", record_sliced},
    {"computed", record_computed}, {"moved", record_moved},           {"joined", record_joined},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

static void record(bench *b, copies *c, int row, rp_mark mark) {
    *c = (copies){.count = 0};
    bench_open(b);
    rp_mark_from_here(b->tape, mark);
    float values[32];
    for (int i = 0; i < 32; i++)
        values[i] = (float)(i * 29 % 32 - 16) / 16.0f;
    c->x = bench_input(b, "x", RP_SHAPE(4, 8), values);
    rp_require_gradient(b->tape, c->x, true);
    rows[row].record(b, c);
}

/* ---- Bytes at the turn ----------------------------------------------------------------------- */

typedef struct bytes {
    const rp_graph *graph;
    uint32_t *at;  /* by value: the storage that it lies on, from 1 on, or 0 */
    uint32_t *age; /* by storage: the step at which it began */
    uint32_t count;
} bytes;

static uint32_t root_of(const rp_graph *graph, uint32_t value) {
    rp_value_info info;
    for (rp_graph_value(graph, value, &info); info.alias_of != RP_NONE;
         rp_graph_value(graph, value, &info))
        value = info.alias_of;
    return value;
}

/* A view joins a storage that the node sees. */
static void run(bytes *s, uint32_t node, uint32_t step) {
    rp_node_info info;
    rp_graph_node(s->graph, node, &info);
    for (size_t o = 0; o < info.output_count; o++) {
        const uint32_t out = info.outputs[o];
        if (s->at[out] != 0)
            continue;
        for (size_t i = 0; i < info.input_count && s->at[out] == 0; i++)
            if (root_of(s->graph, info.inputs[i]) == root_of(s->graph, out))
                s->at[out] = s->at[info.inputs[i]];
        if (s->at[out] == 0) {
            s->age[++s->count] = step;
            s->at[out] = s->count;
        }
    }
}

/* Whether bytes of `tensor` that were there when forward ended are there when backward begins. */
static bool stays(const bench *b, rp_tensor tensor) {
    const rp_graph *graph = rp_program_graph(b->program);
    const uint32_t root = root_of(graph, b->program->graph_value[tensor.id - 1]);
    const size_t values = rp_graph_value_count(graph);
    size_t count = 0;
    uint32_t end = 0;
    const rp_step *steps = rp_plan_steps(b->plan, &count);
    bytes s = {graph, calloc(values, sizeof *s.at), calloc(values * 4 + count, sizeof *s.age), 0};
    bool found = false;
    RP_REQUIRE(s.at != NULL && s.age != NULL, "no memory");
    for (uint32_t t = 0; t < count; t++) {
        rp_node_info node;
        if (steps[t].kind == RP_STEP_DROP) {
            s.at[steps[t].index] = 0;
            continue;
        }
        rp_graph_node(graph, steps[t].index, &node);
        if (node.phase == RP_BACKWARD)
            break;
        if (graph->last_forward == steps[t].index && end == 0)
            end = t;
        run(&s, steps[t].index, t);
    }
    for (uint32_t v = 0; v < values; v++)
        found = found || (s.at[v] != 0 && root_of(graph, v) == root && s.age[s.at[v]] <= end);
    free(s.at);
    free(s.age);
    return found;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

/* Gradients where nothing is marked but by the user, who keeps all copies and their views. */
static uint64_t gradients_of_kept(int row) {
    bench b;
    copies c;
    record(&b, &c, row, RP_MARK_KEEP);
    bench_program(&b, c.loss, NULL);
    bench_make(&b, "keep-all", RP_UNLIMITED);
    bench_run(&b);
    for (size_t i = 0; i < c.count; i++)
        RP_CHECK(stays(&b, c.of[i]), "%s: copy %zu does not stay", rows[row].name, i);
    const uint64_t hash = bench_hash_gradients(&b);
    bench_close(&b);
    return hash;
}

static void test_DT_05_no_view_holds_the_bytes_of_a_copy(void) {
    static const char *const strategies[] = {"auto", "exact", "selective", "uniform:1"};
    for (int row = 0; row < ROWS; row++) {
        bench b;
        copies c;
        const uint64_t wanted = gradients_of_kept(row);
        record(&b, &c, row, RP_MARK_AUTO);
        bench_program(&b, c.loss, NULL);
        const int64_t least = bench_minimum(&b);
        int plans = 0;
        for (int i = 0; i < 4; i++)
            for (int k = 0; k <= 4; k++) {
                const int64_t budget = k == 4 ? RP_UNLIMITED : least + least * k / 8;
                const rp_status status = bench_plan(&b, strategies[i], budget);
                if (status != RP_OK)
                    continue; /* does not apply, or needs more */
                plans++;
                bench_run(&b);
                for (size_t j = 0; j < c.count; j++)
                    RP_CHECK(!stays(&b, c.of[j]), "%s, %s, budget %d: copy %zu stays",
                             rows[row].name, strategies[i], k, j);
                RP_CHECK(bench_hash_gradients(&b) == wanted, "%s, %s, budget %d: other gradients",
                         rows[row].name, strategies[i], k);
            }
        RP_CHECK(plans >= 5, "%s: %d plans", rows[row].name, plans);
        bench_close(&b);
    }
}

/* What must be there at the end holds its bytes anyway, and what the user wants kept is kept: the
 * copy below such a view is not marked, nor are views of it that nobody has marked. */
static void test_DT_05_views_that_are_held(void) {
    enum { VIEW_IS_OUTPUT, COPY_IS_OUTPUT, VIEW_IS_KEPT, COPY_IS_KEPT, KINDS };
    for (int kind = 0; kind < KINDS; kind++) {
        bench b;
        copies c;
        rp_program_options options = RP_PROGRAM_OPTIONS;
        record(&b, &c, 0, RP_MARK_AUTO);
        if (kind >= VIEW_IS_KEPT)
            rp_mark_node(b.tape, kind == VIEW_IS_KEPT ? c.view : c.of[0], RP_MARK_KEEP);
        if (kind <= COPY_IS_OUTPUT) {
            options.outputs = kind == VIEW_IS_OUTPUT ? &c.view : &c.of[0];
            options.output_count = 1;
        }
        bench_program(&b, c.loss, &options);
        bench_make(&b, "keep-all", RP_UNLIMITED);
        bench_run(&b);
        RP_CHECK(stays(&b, c.of[0]), "%d: the copy does not stay", kind);
        RP_CHECK(bench_replays_of(&b, c.of[0]) == 0 && bench_replays_of(&b, c.view) == 0,
                 "%d: something ran again", kind);
        bench_close(&b);
    }
}

static const rp_test tests[] = {
    RP_TEST(test_DT_05_no_view_holds_the_bytes_of_a_copy),
    RP_TEST(test_DT_05_views_that_are_held),
};
RP_SUITE(weight_casts, tests)
