/* Groups B and E of cases.md: views, one place for several weights, memory outside the engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/program.h"
#include "bench.h"
#include "planner/graph.h"

static rp_tensor x, y, w, loss;

static void program_of_loss(bench *b) {
    bench_program(b, loss, NULL);
}

/* ---- IP-02: a view that is overwritten ------------------------------------------------------- */

static float relu_gradient;

static void check_IP_02(bench *b) {
    bench_run(b);
    const float *gradient = bench_gradient(b, x);
    for (int i = 0; i < 6; i++)
        RP_CHECK(gradient[i] == 0.0f, "dx[%d] is %g, not 0", i, (double)gradient[i]);
    BENCH_CHECK(bench_values(b, loss), 6 * relu_gradient);
    BENCH_CHECK(bench_gradient(b, w), 6 * relu_gradient);
}

/* A norm over one element gives 0 and then the bias, whatever x is. Bias 0: relu passes nothing on;
 * bias 1: it passes all, and the norm's own gradient is what is 0. */
static void test_IP_02_view_of_a_segment_is_overwritten_outside(void) {
    for (int bias = 0; bias < 2; bias++) {
        bench b;
        const float one = 1.0f, offset = (float)bias;
        bench_open(&b);
        x = bench_input(&b, "x", RP_SHAPE(3, 2, 1), (const float[]){1, 1, 1, 1, 1, 1});
        rp_require_gradient(b.tape, x, true);
        const rp_tensor weight = bench_input(&b, "weight", RP_SHAPE(1), &one);
        w = bench_parameter(&b, "bias", RP_SHAPE(1), &offset);
        relu_gradient = offset;
        rp_block(b.tape, "segment");
        const rp_tensor norm = rp_layernorm(b.tape, x, weight, w, 1e-5f);
        const rp_tensor view = rp_reshape(b.tape, norm, RP_SHAPE(6));
        rp_block_end(b.tape);
        loss = rp_sum(b.tape, rp_relu(b.tape, view));
        bench_everywhere(&b, program_of_loss, check_IP_02);
        RP_CHECK(rp_shape_equal(rp_tensor_get_info(b.tape, x).shape, RP_SHAPE(3, 2, 1)),
                 "x has another shape");
        bench_close(&b);
    }
}

/* ---- IP-07: weights streamed through one buffer ---------------------------------------------- */

static rp_tensor streamed[2];

/* x = 1, y = 2 x, z = 3 y. The weights lie in a frozen pool, and each is copied to where the layer
 * reads it. */
static void record_streamed(bench *b) {
    const float one = 1.0f;
    bench_open(b);
    x = bench_input(b, "x", RP_SHAPE(1, 1), &one);
    rp_require_gradient(b->tape, x, true);
    w = bench_parameter(b, "pool", RP_SHAPE(2, 1), (const float[]){2, 3});
    rp_require_gradient(b->tape, w, false);
    rp_tensor h = x;
    for (int i = 0; i < 2; i++) {
        streamed[i] = rp_scale(b->tape, rp_slice(b->tape, w, 0, i, 1), 1.0f);
        rp_mark_node(b->tape, streamed[i], RP_MARK_RECOMPUTE);
        h = rp_matmul(b->tape, h, streamed[i], false, false);
    }
    y = h;
    loss = rp_sum(b->tape, y);
    bench_program(b, loss, NULL);
}

/* The plan of the bench as a file's text, with offsets of its own: every activation has a place to
 * itself, but for the weights, which have one place. malloc'd. */
static char *write_plan(bench *b) {
    enum { ROOM = 1 << 14 };
    size_t step_count = 0, count = 0, length = 0;
    const rp_step *steps = rp_plan_steps(b->plan, &step_count);
    const rp_placement *placements = rp_plan_placements(b->plan, &count);
    const rp_graph *graph = rp_program_graph(b->program);
    const uint32_t first = b->program->graph_value[streamed[0].id - 1];
    const uint32_t second = b->program->graph_value[streamed[1].id - 1];
    const int64_t base = rp_graph_persistent_bytes(graph);
    char *text = malloc(ROOM);
    RP_REQUIRE(text != NULL, "no memory");
    length += (size_t)snprintf(text, ROOM,
                               "{\"format\": \"reprise-plan\", \"version\": 1, "
                               "\"peak_bytes\": %lld, \"steps\": [",
                               (long long)base + 64 * (int64_t)(graph->value_count + 64));
    for (size_t s = 0; s < step_count; s++)
        length +=
            (size_t)snprintf(text + length, ROOM - length, "%s[\"%s\", %u]", s > 0 ? ", " : "",
                             steps[s].kind == RP_STEP_RUN ? "run" : "drop", steps[s].index);
    length += (size_t)snprintf(text + length, ROOM - length, "], \"offsets\": [");
    const char *comma = "";
    for (size_t i = 0; i < count; i++) {
        const rp_placement *p = &placements[i];
        const uint32_t slot = p->value == second ? first : p->value;
        if (p->value == RP_NONE)
            continue; /* a workspace finds a hole by itself */
        const int64_t offset =
            graph->values[p->value].persistent ? p->offset : base + 64 * (int64_t)slot;
        length += (size_t)snprintf(text + length, ROOM - length, "%s[%u, %u, %lld]", comma, p->step,
                                   p->value, (long long)offset);
        comma = ", ";
    }
    length += (size_t)snprintf(text + length, ROOM - length, "]}");
    RP_REQUIRE(length < ROOM, "a plan of more than %d bytes", ROOM);
    return text;
}

/* How often the plan places the tensor, and where: the same place each time. */
static size_t count_places(bench *b, rp_tensor tensor, int64_t *offset) {
    size_t count = 0, places = 0;
    const rp_placement *placements = rp_plan_placements(b->plan, &count);
    for (size_t i = 0; i < count; i++) {
        if (placements[i].value != b->program->graph_value[tensor.id - 1])
            continue;
        RP_CHECK(places == 0 || placements[i].offset == *offset, "it has moved");
        *offset = placements[i].offset;
        places++;
    }
    return places;
}

static void test_IP_07_two_weights_in_one_buffer(void) {
    bench b;
    record_streamed(&b);
    bench_make(&b, NULL, RP_UNLIMITED);
    char *text = write_plan(&b);
    rp_executor_destroy(b.executor);
    rp_plan_destroy(b.plan);
    b.executor = NULL;
    b.plan = NULL;
    RP_REQUIRE_OK(b.context, rp_plan_parse(rp_program_graph(b.program), text, strlen(text),
                                           RP_UNLIMITED, &b.plan, &b.report));
    free(text);
    RP_REQUIRE_OK(b.context, rp_executor_create(b.program, b.plan, &b.options, &b.executor));
    int64_t offsets[2] = {-1, -2};
    for (int i = 0; i < 2; i++) /* in forward and in backward */
        RP_CHECK_EQUAL(count_places(&b, streamed[i], &offsets[i]), 2);
    RP_CHECK_EQUAL(offsets[0], offsets[1]);
    bench_write(&b);
    bench_run(&b);
    RP_CHECK(bench_replays_of(&b, streamed[0]) == 1 && bench_replays_of(&b, streamed[1]) == 1,
             "the weights were not replayed");
    BENCH_CHECK(bench_values(&b, loss), 6);
    BENCH_CHECK(bench_gradient(&b, x), 6);
    bench_close(&b);
}

/* The caller cannot recycle the buffer either while backward is due. */
static void test_IP_07_a_weight_must_not_change_before_backward(void) {
    const float other[] = {3, 3};
    bench b;
    record_streamed(&b);
    bench_make(&b, NULL, RP_UNLIMITED);
    RP_CHECK_OK(b.context, rp_executor_forward(b.executor));
    RP_CHECK_STATUS(b.context, rp_executor_write(b.executor, w, other, sizeof other), RP_BAD_STATE);
    RP_CHECK_MESSAGE(b.context, "must not change in between");
    RP_CHECK_OK(b.context, rp_executor_backward(b.executor));
    BENCH_CHECK(bench_gradient(&b, x), 6);
    bench_close(&b);
}

/* ---- ST-03: a cache outside the engine ------------------------------------------------------- */

enum { CACHE_TIME = 4, CACHE_WIDTH = 2, CACHE_ROOM = 16 };

typedef struct cache {
    float rows[CACHE_ROOM][CACHE_WIDTH];
    int length, calls;
    bool heeds_replays; /* appends in first runs only */
} cache;

/* Appends the rows of its input to the cache and gives back the last ones of it. */
static rp_status append_forward(const rp_custom_call *call) {
    cache *c = call->user;
    c->calls++;
    if (!call->is_replay || !c->heeds_replays) {
        if (c->length + CACHE_TIME > CACHE_ROOM)
            return RP_INVALID_ARGUMENT;
        memcpy(c->rows[c->length], call->in[0], sizeof c->rows[0] * CACHE_TIME);
        c->length += CACHE_TIME;
    }
    memcpy(call->out[0], c->rows[c->length - CACHE_TIME], sizeof c->rows[0] * CACHE_TIME);
    return RP_OK;
}

static rp_status append_backward(const rp_custom_call *call) {
    memcpy(call->grad_in[0], call->grad_out[0], sizeof(float) * CACHE_TIME * CACHE_WIDTH);
    return RP_OK;
}

/* A segment whose keys and values go through the cache. */
static rp_tensor record_cache(bench *b, cache *c, bool declared) {
    float values[CACHE_TIME * CACHE_WIDTH];
    for (int i = 0; i < CACHE_TIME * CACHE_WIDTH; i++)
        values[i] = (float)(i * 3 % 7) / 5.0f - 0.5f;
    *c = (cache){.heeds_replays = !declared};
    bench_open(b);
    x = bench_parameter(b, "x", RP_SHAPE(1, CACHE_TIME, CACHE_WIDTH), values);
    rp_custom_op op = RP_CUSTOM_OP;
    op.name = "append";
    op.forward = append_forward;
    op.backward = append_backward;
    op.user = c;
    op.has_side_effects = declared;
    op.backward_reads_inputs = op.backward_reads_outputs = false;
    const rp_tensor_info info = {RP_F32, RP_SHAPE(1, CACHE_TIME, CACHE_WIDTH)};
    rp_attention_options attention = RP_ATTENTION_OPTIONS;
    rp_tensor cached = RP_NO_TENSOR;
    rp_block(b->tape, "segment");
    const rp_tensor rows = rp_scale(b->tape, x, 2.0f);
    RP_REQUIRE_OK(b->context, rp_custom(b->tape, &op, &rows, 1, &info, 1, &cached));
    y = rp_attention(b->tape, rows, cached, cached, &attention);
    rp_block(b->tape, "end");
    loss = rp_sum(b->tape, rp_mul(b->tape, y, y));
    rp_block_end(b->tape);
    return cached;
}

/* With side effects declared the op runs once whatever is replayed around it. */
static void test_ST_03_a_cache_is_appended_to_once(void) {
    static const char *const strategies[] = {"keep-all", "uniform:1", "auto"};
    bench b;
    cache c;
    uint64_t wanted = 0;
    record_cache(&b, &c, true);
    bench_program(&b, loss, NULL);
    for (int i = 0; i < 3; i++) {
        c.length = c.calls = 0;
        bench_make(&b, strategies[i], i == 2 ? bench_minimum(&b) : RP_UNLIMITED);
        bench_run(&b);
        RP_CHECK_EQUAL(c.length, CACHE_TIME);
        RP_CHECK_EQUAL(c.calls, 1);
        RP_CHECK(i != 1 || bench_replays(&b) > 0, "nothing was replayed");
        const uint64_t hash = bench_hash_gradients(&b);
        wanted = i == 0 ? hash : wanted;
        RP_CHECK(hash == wanted, "%s: other bits", strategies[i]);
    }
    bench_close(&b);
}

static void test_ST_03_a_declared_mutation_cannot_be_marked(void) {
    bench b;
    cache c;
    rp_program *program = NULL;
    rp_program_options options = RP_PROGRAM_OPTIONS;
    const rp_tensor cached = record_cache(&b, &c, true);
    rp_mark_node(b.tape, cached, RP_MARK_RECOMPUTE);
    options.losses = &loss;
    options.loss_count = 1;
    RP_CHECK_STATUS(b.context, rp_program_create(b.tape, &options, &program), RP_BAD_INPUT);
    RP_CHECK_MESSAGE(b.context, "append");
    RP_CHECK_EQUAL(c.calls, 0);
    bench_close(&b);
}

/* One that declares none is told of replays and can be idempotent. */
static void test_ST_03_an_idempotent_replay(void) {
    bench b;
    cache c;
    const rp_tensor cached = record_cache(&b, &c, false);
    bench_program(&b, loss, NULL);
    bench_make(&b, "keep-all", RP_UNLIMITED);
    bench_run(&b);
    const uint64_t wanted = bench_hash_gradients(&b);
    rp_mark_node(b.tape, cached, RP_MARK_RECOMPUTE);
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    c.length = c.calls = 0;
    bench_run(&b);
    RP_CHECK_EQUAL(c.calls, 2);
    RP_CHECK_EQUAL(c.length, CACHE_TIME);
    RP_CHECK(bench_hash_gradients(&b) == wanted, "other bits");
    bench_close(&b);
}

static const rp_test tests[] = {
    RP_TEST(test_IP_02_view_of_a_segment_is_overwritten_outside),
    RP_TEST(test_IP_07_two_weights_in_one_buffer),
    RP_TEST(test_IP_07_a_weight_must_not_change_before_backward),
    RP_TEST(test_ST_03_a_cache_is_appended_to_once),
    RP_TEST(test_ST_03_a_declared_mutation_cannot_be_marked),
    RP_TEST(test_ST_03_an_idempotent_replay),
};
RP_SUITE(sharing, tests)
