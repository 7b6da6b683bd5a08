/* Costs of nodes: modelled for a device, measured, and as files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "fault.h"
#include "models.h"

#define H200 "../autograd/devices/h200.json"

static const char *const devices[] = {H200, "../autograd/devices/h100.json",
                                      "../autograd/devices/a100.json"};

static void open_model(bench *b, model_options options) {
    bench_open(b);
    const model m = model_record(b, options);
    bench_program(b, m.loss, NULL);
}

static rp_cost_table *parse(bench *b, const char *text) {
    rp_cost_table *table = NULL;
    RP_REQUIRE_OK(b->context, rp_cost_table_parse(b->context, text, strlen(text), &table));
    return table;
}

static rp_cost_table *parse_file(bench *b, const char *path) {
    char *text = rp_test_read_file(path, NULL);
    rp_cost_table *table = parse(b, text);
    free(text);
    return table;
}

static int64_t cost_of(const bench *b, uint32_t node) {
    rp_node_info info;
    rp_graph_node(rp_program_graph(b->program), node, &info);
    return info.cost_ns;
}

static int64_t *costs_of(const bench *b) {
    const size_t count = rp_graph_node_count(rp_program_graph(b->program));
    int64_t *costs = calloc(count + 1, sizeof *costs);
    RP_REQUIRE(costs != NULL, "memory");
    for (uint32_t n = 0; n < count; n++)
        costs[n] = cost_of(b, n);
    return costs;
}

static void check_costs(const bench *b, const int64_t *wanted) {
    const rp_graph *graph = rp_program_graph(b->program);
    int64_t total = 0;
    for (uint32_t n = 0; n < rp_graph_node_count(graph); n++) {
        RP_CHECK_EQUAL(cost_of(b, n), wanted[n]);
        total += wanted[n];
    }
    RP_CHECK_EQUAL(rp_graph_total_cost_ns(graph), total);
}

/* ---- The model ------------------------------------------------------------------------------- */

static void test_no_table_and_the_plain_device_are_the_same(void) {
    bench b;
    rp_cost_table *plain = NULL;
    open_model(&b, (model_options){.dropout = 0.1f, .unfused = true});
    int64_t *costs = costs_of(&b);
    rp_cost_table *h200 = parse_file(&b, H200);
    RP_REQUIRE_OK(b.context, rp_program_set_costs(b.program, h200));
    RP_CHECK(cost_of(&b, 3) != costs[3], "the H200 is not the plain processor");
    RP_REQUIRE_OK(b.context, rp_cost_table_create(b.context, NULL, &plain));
    RP_REQUIRE_OK(b.context, rp_program_set_costs(b.program, plain));
    check_costs(&b, costs);
    free(costs);
    bench_close(&b);
}

/* x [64, 256] by w [256, 512]: 16,777,216 FLOPs; 65,536 + 524,288 + 131,072 bytes. Add of what came
 * out: 32,768 FLOPs; three times 131,072 bytes. */
static void test_the_roofline_in_whole_nanoseconds(void) {
    static const struct {
        const char *device;
        int64_t product_ns, add_ns;
    } cases[] = {
        /* 16.777216e6 / 500e6 = 33.55.. ns; 720,896 bytes at 100 GB/s = 7.2 us */
        {"\"peak_flops\": {\"f32\": 500000000000000}, \"memory_bytes_per_s\": 100000000000", 7209,
         3933},
        /* 16,777,216 / (1e12 x 0.5) = 33,554.4 ns, + 7; 393,216 bytes at 0.9 TB/s x 0.8 = 546.1 */
        {"\"peak_flops\": {\"f32\": 1000000000000}, \"memory_bytes_per_s\": 900000000000, "
         "\"launch_ns\": 7, \"achieved_permille\": {\"products\": 500, \"memory\": 800}",
         33562, 554},
        /* bf16 is not what these nodes read; 32,768 / (1e12 x 0.001) = 32,768 ns */
        {"\"peak_flops\": {\"f32\": 1000000000000, \"bf16\": 1}, \"memory_bytes_per_s\": "
         "9223372036854775807, \"achieved_permille\": {\"other\": 1}",
         16778, 32768},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bench b;
        char text[512];
        bench_open(&b);
        const rp_tensor x = bench_input(&b, "x", RP_SHAPE(64, 256), NULL);
        const rp_tensor w = bench_parameter(&b, "w", RP_SHAPE(256, 512), NULL);
        const rp_tensor y = rp_linear(b.tape, x, w, RP_NO_TENSOR, RP_IN_OUT);
        const rp_tensor z = rp_add(b.tape, y, rp_relu(b.tape, y));
        bench_program(&b, rp_sum(b.tape, z), NULL);
        snprintf(text, sizeof text,
                 "{\"format\": \"reprise-device\", \"version\": 1, \"name\": \"d\", %s}",
                 cases[i].device);
        RP_REQUIRE_OK(b.context, rp_program_set_costs(b.program, parse(&b, text)));
        RP_CHECK_EQUAL(cost_of(&b, 0), cases[i].product_ns);
        RP_CHECK_EQUAL(cost_of(&b, 2), cases[i].add_ns);
        bench_close(&b);
    }
}

static void test_shipped_devices_are_read(void) {
    bench b;
    int64_t before = INT64_MAX;
    open_model(&b, (model_options){.layers = 1});
    const uint64_t hash = rp_graph_hash(rp_program_graph(b.program));
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        rp_cost_table *table = parse_file(&b, devices[i]);
        RP_CHECK(strncmp(rp_cost_table_name(table), "NVIDIA ", 7) == 0, "%s: %s", devices[i],
                 rp_cost_table_name(table));
        RP_CHECK_EQUAL(rp_cost_table_is_measured(table), false);
        RP_CHECK_OK(b.context, rp_cost_table_check(table, RP_BACKEND_CPU));
        RP_CHECK_OK(b.context, rp_program_set_costs(b.program, table));
        const int64_t total = rp_graph_total_cost_ns(rp_program_graph(b.program));
        RP_CHECK(total > 0 && (i == 0 || total >= before), "%s is not faster than the one before",
                 devices[i]);
        before = total;
    }
    RP_CHECK(rp_graph_hash(rp_program_graph(b.program)) == hash, "costs are not in the hash");
    bench_close(&b);
}

/* What costs nothing is recomputed first: turn the costs around and another plan is best. */
static void test_plans_follow_the_costs(void) {
    bench b;
    open_model(&b, (model_options){.unfused = true});
    const int64_t budget = bench_minimum(&b) * 11 / 10;
    bench_make(&b, NULL, budget);
    const int64_t before = b.report.recompute_cost_ns;
    RP_REQUIRE_OK(b.context, rp_program_set_costs(b.program, parse_file(&b, H200)));
    bench_make(&b, NULL, budget);
    bench_run(&b);
    RP_CHECK(b.report.recompute_cost_ns > 0 && b.report.recompute_cost_ns != before,
             "the report goes by the new costs");
    int64_t again = 0, once = 0;
    for (uint32_t n = 0; n < rp_graph_node_count(rp_program_graph(b.program)); n++) {
        again += cost_of(&b, n) * b.replays[n];
        once += cost_of(&b, n);
    }
    RP_CHECK_EQUAL(b.report.recompute_cost_ns, again);
    RP_CHECK_EQUAL(b.report.total_cost_ns, once);
    bench_close(&b);
}

static void test_descriptions_that_cannot_be_are_refused(void) {
    bench b;
    rp_cost_table *table = NULL;
    bench_open(&b);
    rp_device device = {.struct_size = sizeof device,
                        .f32_flops = 1,
                        .memory_rate = 1,
                        .products_permille = 1,
                        .attention_permille = 1,
                        .other_permille = 1000,
                        .memory_permille = 1000};
    RP_CHECK_OK(b.context, rp_cost_table_create(b.context, &device, &table));
    device.other_permille = 1001;
    RP_CHECK_STATUS(b.context, rp_cost_table_create(b.context, &device, &table),
                    RP_INVALID_ARGUMENT);
    RP_CHECK_MESSAGE(b.context, "achieved_permille.other is 1001, 1 to 1000 is needed");
    CU_ASSERT_PTR_NULL(table);
    device.other_permille = 1;
    device.launch_ns = -1;
    RP_CHECK_STATUS(b.context, rp_cost_table_create(b.context, &device, &table),
                    RP_INVALID_ARGUMENT);
    device.launch_ns = 0;
    device.struct_size = 1;
    RP_CHECK_STATUS(b.context, rp_cost_table_create(b.context, &device, &table),
                    RP_INVALID_ARGUMENT);
    device.struct_size = sizeof device;
    memset(device.name, 'x', sizeof device.name);
    RP_CHECK_STATUS(b.context, rp_cost_table_create(b.context, &device, &table),
                    RP_INVALID_ARGUMENT);
    bench_close(&b);
}

/* A sum of costs that does not fit: nothing has changed. */
static void test_costs_that_do_not_add_up_are_refused(void) {
    bench b;
    open_model(&b, (model_options){.layers = 1});
    int64_t *costs = costs_of(&b);
    rp_cost_table *slow =
        parse(&b, "{\"format\": \"reprise-device\", \"version\": 1, \"name\": \"slow\", "
                  "\"peak_flops\": {\"f32\": 1}, \"memory_bytes_per_s\": 1, "
                  "\"launch_ns\": 9223372036854775807}");
    RP_CHECK_STATUS(b.context, rp_program_set_costs(b.program, slow), RP_BAD_INPUT);
    RP_CHECK_MESSAGE(b.context, "exceeds 2^63 - 1");
    check_costs(&b, costs);
    free(costs);
    bench_close(&b);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static void test_each_op_and_shape_is_measured_once(void) {
    bench b;
    rp_cost_table *table = NULL;
    open_model(&b, (model_options){.dropout = 0.1f, .unfused = true});
    RP_REQUIRE_OK(b.context, rp_cost_table_measure(b.program, RP_BACKEND_CPU, &table));
    const size_t count = rp_cost_table_count(table);
    RP_CHECK(count > 10 && count < rp_graph_node_count(rp_program_graph(b.program)) / 2,
             "%zu entries: blocks repeat", count);
    RP_CHECK_EQUAL(rp_cost_table_is_measured(table), true);
    RP_CHECK(strstr(rp_cost_table_name(table), "1 thread") != NULL, "%s",
             rp_cost_table_name(table));
    RP_CHECK_OK(b.context, rp_cost_table_measure(b.program, RP_BACKEND_CPU, &table));
    RP_CHECK_EQUAL(rp_cost_table_count(table), count);
    RP_CHECK_OK(b.context, rp_program_set_costs(b.program, table));
    bench_make(&b, NULL, bench_minimum(&b));
    bench_run(&b);
    bench_close(&b);
}

/* Another shape is another entry: refused where it is missing, added where it is asked for. */
static void test_a_shape_that_was_not_measured_is_refused(void) {
    bench b;
    rp_cost_table *table = NULL;
    open_model(&b, (model_options){.layers = 1});
    RP_REQUIRE_OK(b.context, rp_cost_table_measure(b.program, RP_BACKEND_CPU, &table));
    const size_t count = rp_cost_table_count(table);
    rp_tape *tape = NULL;
    rp_program *program = NULL;
    RP_REQUIRE_OK(b.context, rp_tape_create(b.context, &tape));
    const rp_tensor x = rp_parameter(tape, "x", RP_F32, RP_SHAPE(7));
    const rp_tensor loss = rp_sum(tape, rp_mul(tape, x, x));
    RP_REQUIRE_OK(b.context, rp_program_create(tape, RP_LOSS(loss), &program));
    const int64_t total = rp_graph_total_cost_ns(rp_program_graph(program));
    RP_CHECK_STATUS(b.context, rp_program_set_costs(program, table), RP_BAD_INPUT);
    RP_CHECK_MESSAGE(b.context, "node 0 (mul.0) was not measured: mul: f32 [7], f32 [7] -> f32 "
                                "[7]");
    RP_CHECK_EQUAL(rp_graph_total_cost_ns(rp_program_graph(program)), total);
    RP_CHECK_OK(b.context, rp_cost_table_measure(program, RP_BACKEND_CPU, &table));
    RP_CHECK(rp_cost_table_count(table) > count, "what was missing is there");
    RP_CHECK_OK(b.context, rp_program_set_costs(program, table));
    bench_close(&b);
}

static void test_measured_costs_come_back_from_their_file(void) {
    bench b;
    char path[RP_TEST_PATH];
    rp_cost_table *table = NULL, *loaded = NULL;
    open_model(&b, (model_options){.layers = 1, .dropout = 0.1f});
    RP_REQUIRE_OK(b.context, rp_cost_table_measure(b.program, RP_BACKEND_CPU, &table));
    RP_REQUIRE_OK(b.context, rp_cost_table_save(table, rp_test_temporary(path, "costs.json")));
    RP_REQUIRE_OK(b.context, rp_program_set_costs(b.program, table));
    int64_t *costs = costs_of(&b);
    rp_cost_table *plain = NULL;
    RP_REQUIRE_OK(b.context, rp_cost_table_create(b.context, NULL, &plain));
    RP_REQUIRE_OK(b.context, rp_program_set_costs(b.program, plain));
    RP_REQUIRE_OK(b.context, rp_cost_table_load(b.context, path, &loaded));
    RP_CHECK_EQUAL(rp_cost_table_count(loaded), rp_cost_table_count(table));
    RP_CHECK_OK(b.context, rp_cost_table_check(loaded, RP_BACKEND_CPU));
    RP_CHECK_OK(b.context, rp_program_set_costs(b.program, loaded));
    check_costs(&b, costs);
    free(costs);
    unlink(path);
    bench_close(&b);
}

static void test_costs_of_elsewhere_are_never_used_silently(void) {
    static const struct {
        const char *from, *said;
    } changes[] = {{"machine\": \"", "costs: measured on"}, {"libraries\": \"", "measured with"}};
    bench b;
    char path[RP_TEST_PATH];
    rp_cost_table *table = NULL;
    open_model(&b, (model_options){.layers = 1});
    RP_REQUIRE_OK(b.context, rp_cost_table_measure(b.program, RP_BACKEND_CPU, &table));
    RP_REQUIRE_OK(b.context, rp_cost_table_save(table, rp_test_temporary(path, "else.json")));
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char full[RP_TEST_PATH];
        RP_REQUIRE(realpath(path, full) != NULL, "%s", path);
        char *text = rp_test_read_file(full, NULL);
        char *at = strstr(text, changes[i].from);
        RP_REQUIRE(at != NULL, "%s is in the file", changes[i].from);
        at[strlen(changes[i].from)] ^= 1;
        rp_cost_table *other = parse(&b, text);
        RP_CHECK_STATUS(b.context, rp_cost_table_check(other, RP_BACKEND_CPU), RP_BAD_STATE);
        RP_CHECK_MESSAGE(b.context, changes[i].said);
        RP_CHECK_OK(b.context, rp_cost_table_check(other, RP_BACKEND_NULL));
        const size_t count = rp_cost_table_count(other);
        RP_CHECK_STATUS(b.context, rp_cost_table_measure(b.program, RP_BACKEND_CPU, &other),
                        RP_BAD_STATE);
        RP_CHECK_EQUAL(rp_cost_table_count(other), count);
        free(text);
    }
    unlink(path);
    rp_cost_table *none = NULL, *modelled = NULL;
    RP_CHECK_STATUS(b.context, rp_cost_table_measure(b.program, RP_BACKEND_NULL, &none),
                    RP_UNSUPPORTED);
    CU_ASSERT_PTR_NULL(none);
    RP_REQUIRE_OK(b.context, rp_cost_table_create(b.context, NULL, &modelled));
    RP_CHECK_STATUS(b.context, rp_cost_table_measure(b.program, RP_BACKEND_CPU, &modelled),
                    RP_BAD_STATE);
    bench_close(&b);
}

static void test_this_machine_is_a_device(void) {
    bench b;
    char path[RP_TEST_PATH];
    rp_device device;
    rp_cost_table *table = NULL, *loaded = NULL;
    open_model(&b, (model_options){.layers = 1});
    RP_REQUIRE_OK(b.context, rp_device_measure(b.context, RP_BACKEND_CPU, &device));
    RP_CHECK(device.f32_flops > 1000000 && device.memory_rate > 1000000, "%lld FLOP/s, %lld B/s",
             (long long)device.f32_flops, (long long)device.memory_rate);
    RP_REQUIRE_OK(b.context, rp_cost_table_create(b.context, &device, &table));
    RP_REQUIRE_OK(b.context, rp_cost_table_save(table, rp_test_temporary(path, "this.json")));
    RP_REQUIRE_OK(b.context, rp_cost_table_load(b.context, path, &loaded));
    RP_CHECK_STRING(rp_cost_table_name(loaded), device.name);
    RP_CHECK_OK(b.context, rp_program_set_costs(b.program, table));
    int64_t *costs = costs_of(&b);
    RP_CHECK_OK(b.context, rp_program_set_costs(b.program, loaded));
    check_costs(&b, costs);
    RP_CHECK_STATUS(b.context, rp_device_measure(b.context, RP_BACKEND_NULL, &device),
                    RP_UNSUPPORTED);
    free(costs);
    unlink(path);
    bench_close(&b);
}

/* ---- Files ----------------------------------------------------------------------------------- */

#define DEVICE "{\"format\": \"reprise-device\", \"version\": 1, \"name\": \"d\", "
#define MEASURED "{\"format\": \"reprise-costs\", \"version\": 1, "

static void test_bad_files_are_refused_with_their_place(void) {
    static const struct {
        const char *text, *said;
    } cases[] = {
        {"", "line 1"},
        {"[]", "no JSON object"},
        {"{\"format\": \"reprise-graph\", \"version\": 1}", "reprise-device|reprise-costs"},
        {"{\"format\": \"\", \"version\": 1}", "format is"},
        {"{\"format\": \"reprise\", \"version\": 1}", "format is"},
        {"{\"format\": \"reprise-device\", \"version\": 2}", "version is 2"},
        {"{\"format\": \"reprise-device\", \"version\": 1}", "name is missing"},
        {DEVICE "\"memory_bytes_per_s\": 1}", "peak_flops is missing"},
        {DEVICE "\"peak_flops\": 1}", "peak_flops must be an object"},
        {DEVICE "\"peak_flops\": {}}", "peak_flops: f32 is missing"},
        {DEVICE "\"peak_flops\": {\"f32\": 1.5}}", "peak_flops: f32 must be a whole number"},
        {DEVICE "\"peak_flops\": {\"f32\": 1}}", "memory_bytes_per_s is missing"},
        {DEVICE "\"peak_flops\": {\"f32\": 0}, \"memory_bytes_per_s\": 1}", "peak_flops.f32 is 0"},
        {DEVICE "\"peak_flops\": {\"f32\": 9223372036854775808}, \"memory_bytes_per_s\": 1}",
         "line 1"},
        {DEVICE "\"peak_flops\": {\"f32\": 1}, \"memory_bytes_per_s\": 1, \"launch_ns\": -1}",
         "launch_ns must be"},
        {DEVICE "\"peak_flops\": {\"f32\": 1}, \"memory_bytes_per_s\": 1, "
                "\"achieved_permille\": {\"memory\": 0}}",
         "achieved_permille.memory is 0"},
        {MEASURED "\"libraries\": \"l\", \"costs\": []}", "machine is missing"},
        {MEASURED "\"machine\": \"m\", \"costs\": []}", "libraries is missing"},
        {MEASURED "\"machine\": \"m\", \"libraries\": 1, \"costs\": []}", "libraries must be"},
        {MEASURED "\"machine\": \"m\", \"libraries\": \"l\"}", "costs is missing"},
        {MEASURED "\"machine\": \"m\", \"libraries\": \"l\", \"costs\": [1]}", "costs[0] must be"},
        {MEASURED "\"machine\": \"m\", \"libraries\": \"l\", \"costs\": [{\"cost_ns\": 1}]}",
         "costs[0]: op is missing"},
        {MEASURED "\"machine\": \"m\", \"libraries\": \"l\", \"costs\": [{\"op\": \"a\"}]}",
         "costs[0]: cost_ns is missing"},
        {MEASURED "\"machine\": \"m\", \"libraries\": \"l\", \"costs\": [{\"op\": \"a\", "
                  "\"cost_ns\": 1}, {\"op\": \"a\", \"cost_ns\": 1}]}",
         "costs[1]: op stands in the file twice"},
    };
    bench b;
    bench_open(&b);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rp_cost_table *table = NULL;
        RP_CHECK_STATUS(
            b.context, rp_cost_table_parse(b.context, cases[i].text, strlen(cases[i].text), &table),
            RP_BAD_INPUT);
        RP_CHECK_MESSAGE(b.context, cases[i].said);
        CU_ASSERT_PTR_NULL(table);
    }
    rp_cost_table *table = NULL;
    RP_CHECK_STATUS(b.context, rp_cost_table_load(b.context, "no/such.json", &table), RP_IO_ERROR);
    RP_CHECK_MESSAGE(b.context, "no/such.json");
    bench_close(&b);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static rp_status measure_and_set(rp_context *context, void *user) {
    rp_tape *tape = NULL;
    rp_program *program = NULL;
    rp_cost_table *table = NULL, *device = NULL;
    const char *text = user;
    rp_status status = rp_tape_create(context, &tape);
    if (status == RP_OK) {
        const rp_tensor x = rp_parameter(tape, "x", RP_F32, RP_SHAPE(8));
        const rp_tensor loss = rp_sum(tape, rp_mul(tape, x, x));
        status = rp_program_create(tape, RP_LOSS(loss), &program);
    }
    if (status == RP_OK)
        status = rp_cost_table_parse(context, text, strlen(text), &device);
    if (status == RP_OK)
        status = rp_program_set_costs(program, device);
    if (status == RP_OK)
        status = rp_cost_table_measure(program, RP_BACKEND_CPU, &table);
    if (status == RP_OK)
        status = rp_program_set_costs(program, table);
    rp_cost_table_destroy(device);
    rp_cost_table_destroy(table);
    rp_program_destroy(program);
    rp_tape_destroy(tape);
    return status;
}

static void test_any_allocation_may_fail(void) {
    rp_fault_sweep("costs", measure_and_set,
                   DEVICE "\"peak_flops\": {\"f32\": 1000}, \"memory_bytes_per_s\": 1000}");
}

static const rp_test tests[] = {
    RP_TEST(test_no_table_and_the_plain_device_are_the_same),
    RP_TEST(test_the_roofline_in_whole_nanoseconds),
    RP_TEST(test_shipped_devices_are_read),
    RP_TEST(test_plans_follow_the_costs),
    RP_TEST(test_descriptions_that_cannot_be_are_refused),
    RP_TEST(test_costs_that_do_not_add_up_are_refused),
    RP_TEST(test_each_op_and_shape_is_measured_once),
    RP_TEST(test_a_shape_that_was_not_measured_is_refused),
    RP_TEST(test_measured_costs_come_back_from_their_file),
    RP_TEST(test_costs_of_elsewhere_are_never_used_silently),
    RP_TEST(test_this_machine_is_a_device),
    RP_TEST(test_bad_files_are_refused_with_their_place),
    RP_TEST(test_any_allocation_may_fail),
};
RP_SUITE(costs, tests)
