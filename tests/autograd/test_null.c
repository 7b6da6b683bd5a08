/* NULL, to every public function: destroying it does nothing, making something and acting are
 * RP_INVALID_ARGUMENT, recording gives the tensor 0, asking gives what is empty. */
#include "unit.h"

#include <reprise/reprise.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A whole set of objects, for calls of which only one argument is NULL. */
typedef struct whole {
    rp_context *context;
    rp_tape *tape;
    rp_tensor x, loss;
    rp_program *program;
    const rp_graph *graph;
    rp_plan *plan;
    rp_executor *executor;
} whole;

static whole make_whole(void) {
    whole w = {.context = rp_test_context(1)};
    RP_REQUIRE_OK(w.context, rp_tape_create(w.context, &w.tape));
    w.x = rp_parameter(w.tape, "x", RP_F32, RP_SHAPE(3));
    w.loss = rp_sum(w.tape, rp_mul(w.tape, w.x, w.x));
    RP_REQUIRE_OK(w.context, rp_program_create(w.tape, RP_LOSS(w.loss), &w.program));
    w.graph = rp_program_graph(w.program);
    RP_REQUIRE_OK(w.context, rp_plan_create(w.graph, NULL, &w.plan, NULL));
    RP_REQUIRE_OK(w.context, rp_executor_create(w.program, w.plan, NULL, &w.executor));
    return w;
}

/* Each name with its calls that must be RP_INVALID_ARGUMENT. Objects made elsewhere must be NULL
 * afterwards, whatever stood there. */
#define REFUSED(call)                                                                              \
    do {                                                                                           \
        RP_CHECK_STATUS(w.context, call, RP_INVALID_ARGUMENT);                                     \
    } while (0)

static void test_making_from_null_is_refused(void) {
    const whole w = make_whole();
    static char mark;
    void *const stale = &mark;
    rp_context_options short_options = {0};
    rp_context *context = stale;
    REFUSED(rp_context_create(NULL, NULL));
    REFUSED(rp_context_create(&short_options, &context));
    rp_tape *tape = stale;
    REFUSED(rp_tape_create(NULL, &tape));
    REFUSED(rp_tape_create(w.context, NULL));
    rp_program *programs[] = {stale, stale};
    REFUSED(rp_program_create(NULL, RP_LOSS(w.loss), &programs[0]));
    REFUSED(rp_program_create(w.tape, NULL, &programs[1]));
    REFUSED(rp_program_create(w.tape, RP_LOSS(w.loss), NULL));
    rp_executor *executors[] = {stale, stale};
    REFUSED(rp_executor_create(NULL, w.plan, NULL, &executors[0]));
    REFUSED(rp_executor_create(w.program, NULL, NULL, &executors[1]));
    REFUSED(rp_executor_create(w.program, w.plan, NULL, NULL));
    rp_graph *graphs[] = {stale, stale, stale, stale, stale};
    REFUSED(rp_graph_create(NULL, "g", 1, &graphs[0]));
    REFUSED(rp_graph_create(w.context, "g", 1, NULL));
    REFUSED(rp_graph_load(NULL, "g.json", &graphs[1]));
    REFUSED(rp_graph_load(w.context, NULL, &graphs[2]));
    REFUSED(rp_graph_load(w.context, "g.json", NULL));
    REFUSED(rp_graph_parse(NULL, "{}", 2, &graphs[3]));
    REFUSED(rp_graph_parse(w.context, NULL, 2, &graphs[4]));
    REFUSED(rp_graph_parse(w.context, "{}", 2, NULL));
    const rp_step step = {RP_STEP_RUN, 0};
    rp_plan *plans[] = {stale, stale, stale, stale, stale, stale, stale};
    REFUSED(rp_plan_create(NULL, NULL, &plans[0], NULL));
    REFUSED(rp_plan_create(w.graph, NULL, NULL, NULL));
    REFUSED(rp_plan_import(NULL, &step, 1, RP_UNLIMITED, &plans[1], NULL));
    REFUSED(rp_plan_import(w.graph, NULL, 1, RP_UNLIMITED, &plans[2], NULL));
    REFUSED(rp_plan_import(w.graph, &step, 1, RP_UNLIMITED, NULL, NULL));
    REFUSED(rp_plan_load(NULL, "p.json", RP_UNLIMITED, &plans[3], NULL));
    REFUSED(rp_plan_load(w.graph, NULL, RP_UNLIMITED, &plans[4], NULL));
    REFUSED(rp_plan_load(w.graph, "p.json", RP_UNLIMITED, NULL, NULL));
    REFUSED(rp_plan_parse(NULL, "{}", 2, RP_UNLIMITED, &plans[5], NULL));
    REFUSED(rp_plan_parse(w.graph, NULL, 2, RP_UNLIMITED, &plans[6], NULL));
    REFUSED(rp_plan_parse(w.graph, "{}", 2, RP_UNLIMITED, NULL, NULL));
    rp_plan_cache *caches[] = {stale, NULL}, *cache = NULL;
    REFUSED(rp_plan_cache_create(NULL, 1, &caches[0]));
    REFUSED(rp_plan_cache_create(w.context, 1, NULL));
    RP_REQUIRE_OK(w.context, rp_plan_cache_create(w.context, 1, &cache));
    REFUSED(rp_plan_cache_get(NULL, w.graph, NULL, &plans[0], NULL, NULL));
    REFUSED(rp_plan_cache_get(cache, NULL, NULL, &plans[0], NULL, NULL));
    REFUSED(rp_plan_cache_get(cache, w.graph, NULL, NULL, NULL, NULL));
    rp_cost_table *tables[] = {stale, stale, stale, stale, stale}, *table = NULL;
    REFUSED(rp_cost_table_create(NULL, NULL, &tables[0]));
    REFUSED(rp_cost_table_create(w.context, NULL, NULL));
    REFUSED(rp_cost_table_load(NULL, "c.json", &tables[1]));
    REFUSED(rp_cost_table_load(w.context, NULL, &tables[2]));
    REFUSED(rp_cost_table_load(w.context, "c.json", NULL));
    REFUSED(rp_cost_table_parse(NULL, "{}", 2, &tables[3]));
    REFUSED(rp_cost_table_parse(w.context, NULL, 2, &tables[4]));
    REFUSED(rp_cost_table_parse(w.context, "{}", 2, NULL));
    REFUSED(rp_cost_table_measure(NULL, RP_BACKEND_CPU, &table));
    REFUSED(rp_cost_table_measure(w.program, RP_BACKEND_CPU, NULL));
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        RP_CHECK(tables[i] == NULL, "table %zu", i);
    CU_ASSERT_PTR_NULL(caches[0]);
    CU_ASSERT_PTR_NULL(context);
    CU_ASSERT_PTR_NULL(tape);
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
        RP_CHECK(programs[i] == NULL && executors[i] == NULL, "program or executor %zu", i);
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++)
        RP_CHECK(graphs[i] == NULL, "graph %zu", i);
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++)
        RP_CHECK(plans[i] == NULL, "plan %zu", i);
    rp_context_destroy(w.context);
}

static bool write_nothing(void *user, const char *text, size_t length) {
    (void)user, (void)text, (void)length;
    return true;
}

static void test_acting_on_null_is_refused(void) {
    const whole w = make_whole();
    const rp_value_info value = {"v", 4, RP_PERSISTENT, RP_NONE};
    const rp_node_info node = {.name = "n"};
    const rp_tensor_info info = {RP_F32, RP_SCALAR};
    const rp_custom_op op = RP_CUSTOM_OP;
    rp_frontier_point point;
    rp_plan_report report;
    rp_tensor made = {7};
    rp_graph *graph = NULL;
    float data[3] = {0};
    double norm = 0.0;
    size_t one = 1;
    REFUSED(rp_tape_status(NULL));
    REFUSED(rp_custom(NULL, &op, NULL, 0, &info, 1, &made));
    RP_CHECK_EQUAL(made.id, 0);
    RP_REQUIRE_OK(w.context, rp_graph_create(w.context, NULL, 1, &graph));
    rp_cost_table *table = NULL;
    rp_device device;
    RP_REQUIRE_OK(w.context, rp_cost_table_create(w.context, NULL, &table));
    REFUSED(rp_cost_table_save(NULL, "c.json"));
    REFUSED(rp_cost_table_save(table, NULL));
    REFUSED(rp_cost_table_check(NULL, RP_BACKEND_CPU));
    REFUSED(rp_device_measure(NULL, RP_BACKEND_CPU, &device));
    REFUSED(rp_device_measure(w.context, RP_BACKEND_CPU, NULL));
    REFUSED(rp_program_set_costs(NULL, table));
    REFUSED(rp_program_set_costs(w.program, NULL));
    REFUSED(rp_graph_add_value(NULL, &value, NULL));
    REFUSED(rp_graph_add_value(graph, NULL, NULL));
    REFUSED(rp_graph_add_node(NULL, &node, NULL));
    REFUSED(rp_graph_add_node(graph, NULL, NULL));
    REFUSED(rp_graph_set_outputs(NULL, NULL, 0));
    REFUSED(rp_graph_set_outputs(graph, NULL, 1));
    REFUSED(rp_graph_finish(NULL));
    REFUSED(rp_graph_save(NULL, "g.json"));
    REFUSED(rp_graph_save(w.graph, NULL));
    REFUSED(rp_plan_save(NULL, "p.json"));
    REFUSED(rp_plan_save(w.plan, NULL));
    REFUSED(rp_plan_print(NULL, write_nothing, NULL));
    REFUSED(rp_plan_print(w.plan, NULL, NULL));
    REFUSED(rp_plan_frontier(NULL, NULL, &point, &one));
    REFUSED(rp_plan_frontier(w.graph, NULL, NULL, &one));
    REFUSED(rp_plan_frontier(w.graph, NULL, &point, NULL));
    REFUSED(rp_plan_limits(NULL, &report));
    REFUSED(rp_plan_limits(w.graph, NULL));
    REFUSED(rp_executor_write(NULL, w.x, data, sizeof data));
    REFUSED(rp_executor_write(w.executor, w.x, NULL, sizeof data));
    REFUSED(rp_executor_write_f32(NULL, w.x, data, 3));
    REFUSED(rp_executor_write_f32(w.executor, w.x, NULL, 3));
    REFUSED(rp_executor_write_normal(NULL, w.x, 1.0, 0, 0));
    REFUSED(rp_executor_read(NULL, w.x, data, sizeof data));
    REFUSED(rp_executor_read(w.executor, w.x, NULL, sizeof data));
    REFUSED(rp_executor_read_gradient(NULL, w.x, data, sizeof data));
    REFUSED(rp_executor_read_f32(NULL, w.x, data, 3));
    REFUSED(rp_executor_read_f32(w.executor, w.x, NULL, 3));
    REFUSED(rp_executor_read_gradient_f32(NULL, w.x, data, 3));
    REFUSED(rp_executor_begin_step(NULL, 0, 1.0f));
    REFUSED(rp_executor_run(NULL));
    REFUSED(rp_executor_forward(NULL));
    REFUSED(rp_executor_backward(NULL));
    REFUSED(rp_executor_finish(NULL));
    REFUSED(rp_backend_describe(NULL, RP_BACKEND_CPU, NULL, 0));
    REFUSED(rp_adamw_step(NULL, NULL));
    REFUSED(rp_sgd_step(NULL, 0.1f, 0.0f, 0.0f));
    REFUSED(rp_gradient_norm(NULL, &norm));
    REFUSED(rp_gradient_norm(w.executor, NULL));
    RP_REQUIRE_OK(w.context, rp_executor_run(w.executor));
    REFUSED(rp_executor_read_gradient(w.executor, w.x, NULL, sizeof data));
    REFUSED(rp_executor_read_gradient_f32(w.executor, w.x, NULL, 3));
    rp_context_destroy(w.context);
}

static void test_destroying_null_does_nothing(void) {
    rp_executor_destroy(NULL);
    rp_plan_destroy(NULL);
    rp_plan_cache_destroy(NULL);
    rp_cost_table_destroy(NULL);
    RP_CHECK_STRING(rp_cost_table_name(NULL), "");
    RP_CHECK_EQUAL(rp_cost_table_count(NULL), 0);
    RP_CHECK_EQUAL(rp_cost_table_is_measured(NULL), false);
    rp_graph_destroy(NULL);
    rp_program_destroy(NULL);
    rp_tape_destroy(NULL);
    rp_context_destroy(NULL);
}

/* ---- Recording ------------------------------------------------------------------------------- */

static void test_recording_on_null_gives_no_tensor(void) {
    const rp_tensor x = {1};
    const rp_attention_options options = RP_ATTENTION_OPTIONS;
    const struct {
        const char *name;
        rp_tensor made;
    } rows[] = {
        {"parameter", rp_parameter(NULL, "p", RP_F32, RP_SCALAR)},
        {"input", rp_input(NULL, "i", RP_F32, RP_SCALAR)},
        {"detach", rp_detach(NULL, x)},
        {"add", rp_add(NULL, x, x)},
        {"mul", rp_mul(NULL, x, x)},
        {"scale", rp_scale(NULL, x, 2.0f)},
        {"gelu", rp_gelu(NULL, x, RP_GELU_TANH)},
        {"tanh", rp_tanh(NULL, x)},
        {"sigmoid", rp_sigmoid(NULL, x)},
        {"relu", rp_relu(NULL, x)},
        {"silu", rp_silu(NULL, x)},
        {"dropout", rp_dropout(NULL, x, 0.5f)},
        {"dropout of 0", rp_dropout(NULL, x, 0.0f)},
        {"cast", rp_cast(NULL, x, RP_BF16)},
        {"embedding", rp_embedding(NULL, x, x)},
        {"layernorm", rp_layernorm(NULL, x, x, x, 1e-5f)},
        {"softmax", rp_softmax(NULL, x, false)},
        {"cross_entropy", rp_cross_entropy(NULL, x, x, -100, RP_REDUCE_MEAN)},
        {"sum", rp_sum(NULL, x)},
        {"mean", rp_mean(NULL, x)},
        {"linear", rp_linear(NULL, x, x, x, RP_IN_OUT)},
        {"matmul", rp_matmul(NULL, x, x, false, false)},
        {"attention", rp_attention(NULL, x, x, x, &options)},
        {"attention without options", rp_attention(NULL, x, x, x, NULL)},
        {"attention_unfused", rp_attention_unfused(NULL, x, x, x, &options)},
        {"attention_unfused without options", rp_attention_unfused(NULL, x, x, x, NULL)},
        {"reshape", rp_reshape(NULL, x, RP_SCALAR)},
        {"transpose", rp_transpose(NULL, x, 0, 1)},
        {"slice", rp_slice(NULL, x, 0, 0, 1)},
        {"concat", rp_concat(NULL, &x, 1, 0)},
        {"concat without a list", rp_concat(NULL, NULL, 1, 0)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        RP_CHECK(rows[i].made.id == 0, "%s gave tensor %u", rows[i].name,
                 (unsigned)rows[i].made.id);
    rp_block(NULL, "b");
    rp_block_end(NULL);
    rp_name(NULL, "n");
    rp_mark_node(NULL, x, RP_MARK_KEEP);
    rp_mark_from_here(NULL, RP_MARK_KEEP);
    rp_require_gradient(NULL, x, true);
}

/* On a tape of its own each: the first wrong call is the one that counts. */
static void test_recording_null_sets_the_status_of_the_tape(void) {
    rp_context *context = rp_test_context(1);
    for (int row = 0; row < 7; row++) {
        rp_tape *tape = NULL;
        RP_REQUIRE_OK(context, rp_tape_create(context, &tape));
        const rp_tensor x = rp_input(tape, "x", RP_F32, RP_SHAPE(1, 1, 1));
        const rp_custom_op op = RP_CUSTOM_OP;
        const char *volatile none = NULL; /* hidden from the compiler's own check */
        switch (row) {
        case 0:
            rp_parameter(tape, NULL, RP_F32, RP_SCALAR);
            break;
        case 1:
            rp_attention(tape, x, x, x, NULL);
            break;
        case 2:
            rp_attention_unfused(tape, x, x, x, NULL);
            break;
        case 3:
            rp_concat(tape, NULL, 1, 0);
            break;
        case 4:
            rp_custom(tape, &op, &x, 1, NULL, 1, NULL);
            break;
        case 5:
            rp_block(tape, none, 0);
            break;
        default:
            rp_name(tape, none, 0);
            break;
        }
        RP_CHECK(rp_tape_status(tape) == RP_INVALID_ARGUMENT, "row %d: %s", row,
                 rp_status_name(rp_tape_status(tape)));
        rp_tape_destroy(tape);
    }
    rp_context_destroy(context);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static void test_asking_a_null_graph_gives_what_is_empty(void) {
    const whole w = make_whole();
    rp_node_info node = {.name = "stale", .input_count = 3};
    rp_value_info value = {.name = "stale", .bytes = 3};
    size_t count = 3;
    RP_CHECK_STRING(rp_graph_name(NULL), "");
    RP_CHECK_EQUAL(rp_graph_node_count(NULL), 0);
    RP_CHECK_EQUAL(rp_graph_value_count(NULL), 0);
    RP_CHECK(rp_graph_outputs(NULL, &count) == NULL && count == 0, "%zu outputs", count);
    RP_CHECK(rp_graph_outputs(w.graph, NULL) != NULL, "the count may be NULL");
    RP_CHECK_EQUAL(rp_graph_hash(NULL), 0);
    RP_CHECK_EQUAL(rp_graph_total_cost_ns(NULL), 0);
    RP_CHECK_EQUAL(rp_graph_alignment(NULL), 0);
    RP_CHECK_EQUAL(rp_graph_persistent_bytes(NULL), 0);
    const struct {
        const rp_graph *graph;
        uint32_t index;
    } rows[] = {{NULL, 0}, {w.graph, (uint32_t)rp_graph_value_count(w.graph)}, {w.graph, RP_NONE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        node.input_count = 3, value.bytes = 3;
        rp_graph_node(rows[i].graph, rows[i].index, &node);
        rp_graph_value(rows[i].graph, rows[i].index, &value);
        RP_CHECK(node.input_count == 0 && node.name[0] == 0 && node.block[0] == 0, "row %zu", i);
        RP_CHECK(value.bytes == 0 && value.name[0] == 0 && value.alias_of == RP_NONE, "row %zu", i);
    }
    rp_graph_node(w.graph, 0, NULL);
    rp_graph_value(w.graph, 0, NULL);
    rp_context_destroy(w.context);
}

static void test_asking_a_null_plan_gives_what_is_empty(void) {
    const whole w = make_whole();
    rp_plan_report report;
    size_t count = 3;
    memset(&report, 0xFF, sizeof report);
    rp_plan_get_report(NULL, &report);
    RP_CHECK(report.peak_bytes == 0 && report.peak_node == RP_NONE, "peak %lld",
             (long long)report.peak_bytes);
    rp_plan_get_report(w.plan, NULL);
    RP_CHECK_STRING(rp_plan_strategy(NULL), "");
    CU_ASSERT_PTR_NULL(rp_plan_graph(NULL));
    RP_CHECK(rp_plan_steps(NULL, &count) == NULL && count == 0, "%zu steps", count);
    count = 3;
    RP_CHECK(rp_plan_placements(NULL, &count) == NULL && count == 0, "%zu placements", count);
    RP_CHECK(rp_plan_steps(w.plan, NULL) != NULL && rp_plan_placements(w.plan, NULL) != NULL,
             "the count may be NULL");
    CU_ASSERT_PTR_NULL(rp_strategy_name(1000));
    CU_ASSERT_PTR_NULL(rp_strategy_description(1000));
    rp_context_destroy(w.context);
}

static void test_asking_other_nulls_gives_what_is_empty(void) {
    const whole w = make_whole();
    rp_memory_report memory = {1, 1, 1, 1, 1};
    rp_executor_stats stats = {.runs = 1};
    int64_t all = 1, forward = 1;
    RP_CHECK_STRING(rp_context_message(NULL), "");
    RP_CHECK_EQUAL(rp_context_threads(NULL), 1);
    RP_CHECK_STRING(rp_tensor_name(NULL, w.x), "");
    RP_CHECK_EQUAL(rp_tensor_get_info(NULL, w.x).dtype, RP_NO_DTYPE);
    RP_CHECK(!rp_tensor_needs_gradient(NULL, w.x), "nothing needs a gradient");
    CU_ASSERT_PTR_NULL(rp_program_graph(NULL));
    RP_CHECK_EQUAL(rp_program_parameter_count(NULL), 0);
    RP_CHECK_EQUAL(rp_program_parameter(NULL, 0).id, 0);
    RP_CHECK_EQUAL(rp_program_parameter(w.program, 1).id, 0);
    RP_CHECK_EQUAL(rp_program_gradient_info(NULL, w.x).dtype, RP_NO_DTYPE);
    RP_CHECK_EQUAL(rp_program_gradient_info(w.program, RP_NO_TENSOR).dtype, RP_NO_DTYPE);
    rp_program_memory(NULL, &memory);
    rp_program_memory(w.program, NULL);
    RP_CHECK_EQUAL(memory.parameters_bytes, 0);
    rp_program_flops(NULL, &all, &forward);
    rp_program_flops(w.program, NULL, NULL);
    RP_CHECK(all == 0 && forward == 0, "no operations");
    RP_CHECK_EQUAL(rp_program_node_flops(NULL, 0), 0);
    CU_ASSERT_PTR_NULL(rp_executor_data(NULL, w.x));
    CU_ASSERT_PTR_NULL(rp_executor_gradient(NULL, w.x));
    rp_executor_get_stats(NULL, &stats);
    rp_executor_get_stats(w.executor, NULL);
    RP_CHECK_EQUAL(stats.runs, 0);
    rp_context_destroy(w.context);
}

static void test_extensions_without_a_context(void) {
    size_t capacity = 0;
    void *array = NULL;
    const char *volatile none = NULL;
    rp_context *context = rp_test_context(1);
    CU_ASSERT_PTR_NULL(rp_alloc(NULL, 1, 1));
    CU_ASSERT_PTR_NULL(rp_resize(NULL, NULL, 1, 1));
    CU_ASSERT_PTR_NULL(rp_copy_string(NULL, "x"));
    CU_ASSERT_PTR_NULL(rp_copy_string(context, NULL));
    RP_CHECK(!rp_reserve(NULL, &array, &capacity, 1, 1) && array == NULL, "no room");
    RP_CHECK(!rp_reserve(context, NULL, &capacity, 1, 1), "no array");
    RP_CHECK(!rp_reserve(context, &array, NULL, 1, 1), "no capacity");
    RP_CHECK(!rp_checked_add(1, 1, NULL) && !rp_checked_multiply(1, 1, NULL), "no result");
    rp_free(NULL, NULL);
    rp_free(context, NULL);
    rp_own(NULL, NULL, NULL, NULL);
    rp_disown(context, NULL);
    RP_CHECK_EQUAL(rp_fail(NULL, RP_BAD_SHAPE, "x"), RP_BAD_SHAPE);
    RP_CHECK_EQUAL(rp_fail(context, RP_BAD_SHAPE, none, 0), RP_BAD_SHAPE);
    RP_CHECK_EQUAL(rp_fail_memory(NULL, "x"), RP_OUT_OF_MEMORY);
    rp_context_destroy(context);
}

/* ---- The table is whole ---------------------------------------------------------------------- */

/* Functions that take no pointer; the others must stand in this file. */
static bool takes_no_pointer(const char *name) {
    static const char *const names[] = {
        "rp_status_text", "rp_status_name",  "rp_status_is_poison", "rp_dtype_bytes",
        "rp_dtype_name",  "rp_shape_scalar", "rp_shape_count",      "rp_shape_equal",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* The name of the function declared at `at`, which begins with RP_API. */
static void read_name(const char *at, char name[64]) {
    const char *open = strchr(at, '(');
    const char *begin = open;
    while (begin > at && strchr(" *\n", begin[-1]) == NULL)
        begin--;
    snprintf(name, 64, "%.*s", (int)(open - begin), begin);
}

static void test_every_public_function_stands_here(void) {
    static const char *const headers[] = {"backend", "context", "executor", "extend",
                                          "graph",   "ops",     "plan",     "program",
                                          "status",  "tape",    "tensor"};
    char *own = rp_test_read_file("autograd/test_null.c", NULL);
    size_t functions = 0;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        char path[64], name[64], call[66];
        snprintf(path, sizeof path, "../include/reprise/%s.h", headers[i]);
        char *text = rp_test_read_file(path, NULL);
        for (const char *at = strstr(text, "\nRP_API"); at != NULL;
             at = strstr(at + 1, "\nRP_API")) {
            read_name(at + 1, name);
            snprintf(call, sizeof call, "%s(", name);
            functions++;
            RP_CHECK(takes_no_pointer(name) || strstr(own, call) != NULL, "%s gets no NULL", name);
        }
        free(text);
    }
    RP_CHECK(functions > 100, "%zu functions", functions);
    free(own);
}

static const rp_test tests[] = {
    RP_TEST(test_making_from_null_is_refused),
    RP_TEST(test_acting_on_null_is_refused),
    RP_TEST(test_destroying_null_does_nothing),
    RP_TEST(test_recording_on_null_gives_no_tensor),
    RP_TEST(test_recording_null_sets_the_status_of_the_tape),
    RP_TEST(test_asking_a_null_graph_gives_what_is_empty),
    RP_TEST(test_asking_a_null_plan_gives_what_is_empty),
    RP_TEST(test_asking_other_nulls_gives_what_is_empty),
    RP_TEST(test_extensions_without_a_context),
    RP_TEST(test_every_public_function_stands_here),
};
RP_SUITE(null, tests)
