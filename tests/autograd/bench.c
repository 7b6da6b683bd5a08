/* A tape whose leaves have data, and everything made from it. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "autograd/program.h"

/* ---- Opening and closing --------------------------------------------------------------------- */

static void count_run(void *user, const rp_trace_event *event) {
    bench *b = user;
    b->runs[event->node]++;
    b->replays[event->node] += event->is_replay;
}

void bench_open(bench *b) {
    bench_open_in(b, rp_test_context(1));
}

void bench_open_in(bench *b, rp_context *context) {
    *b = (bench){.context = context, .dtype = RP_F32, .options = RP_EXECUTOR_OPTIONS};
    RP_REQUIRE_OK(b->context, rp_tape_create(b->context, &b->tape));
    b->options.poison = true;
    b->options.check_replays = true;
    b->options.trace = count_run;
    b->options.trace_user = b;
}

static void close_executor(bench *b) {
    rp_executor_destroy(b->executor);
    rp_plan_destroy(b->plan);
    b->executor = NULL;
    b->plan = NULL;
}

static void close_program(bench *b) {
    close_executor(b);
    rp_program_destroy(b->program);
    b->program = NULL;
    free(b->runs);
    free(b->replays);
    b->runs = b->replays = NULL;
}

void bench_close(bench *b) {
    close_program(b);
    for (size_t i = 0; i < b->leaf_count; i++)
        free(b->leaves[i].data);
    rp_tape_destroy(b->tape);
    rp_context_destroy(b->context);
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

static rp_tensor add_leaf(bench *b, rp_tensor tensor, bool is_ids, const void *values,
                          int64_t count) {
    RP_REQUIRE(tensor.id != 0, "a leaf: %s", rp_context_message(b->context));
    RP_REQUIRE(b->leaf_count < BENCH_LEAVES, "too many leaves");
    const size_t bytes = (size_t)count * 4, i = b->leaf_count++;
    b->leaves[i].tensor = tensor;
    b->leaves[i].count = (size_t)count;
    b->leaves[i].is_ids = is_ids;
    b->leaves[i].data = calloc(bytes + 1, 1);
    RP_REQUIRE(b->leaves[i].data != NULL, "no memory");
    if (values != NULL)
        memcpy(b->leaves[i].data, values, bytes);
    return tensor;
}

rp_tensor bench_parameter(bench *b, const char *name, rp_shape shape, const float *values) {
    return add_leaf(b, rp_parameter(b->tape, name, b->dtype, shape), false, values,
                    rp_shape_count(shape));
}

rp_tensor bench_input(bench *b, const char *name, rp_shape shape, const float *values) {
    return add_leaf(b, rp_input(b->tape, name, b->dtype, shape), false, values,
                    rp_shape_count(shape));
}

rp_tensor bench_ids(bench *b, const char *name, rp_shape shape, const int32_t *values) {
    return add_leaf(b, rp_input(b->tape, name, RP_I32, shape), true, values, rp_shape_count(shape));
}

void *bench_data(bench *b, rp_tensor leaf) {
    for (size_t i = 0; i < b->leaf_count; i++)
        if (b->leaves[i].tensor.id == leaf.id)
            return b->leaves[i].data;
    RP_REQUIRE(false, "tensor %u is no leaf", (unsigned)leaf.id);
    return NULL;
}

/* Leaves that the program does not need have no place in its memory. */
void bench_write(bench *b) {
    for (size_t i = 0; i < b->leaf_count; i++) {
        const rp_tensor tensor = b->leaves[i].tensor;
        const size_t count = b->leaves[i].count;
        const void *data = b->leaves[i].data;
        if (b->program->graph_value[tensor.id - 1] != RP_NONE)
            RP_REQUIRE_OK(b->context,
                          b->leaves[i].is_ids
                              ? rp_executor_write(b->executor, tensor, data, count * 4)
                              : rp_executor_write_f32(b->executor, tensor, data, count));
    }
}

/* ---- Programs and plans ---------------------------------------------------------------------- */

void bench_program(bench *b, rp_tensor loss, const rp_program_options *options) {
    rp_program_options used = RP_PROGRAM_OPTIONS;
    close_program(b);
    if (options != NULL)
        used = *options;
    if (used.loss_count == 0) {
        used.losses = &loss;
        used.loss_count = 1;
    }
    RP_REQUIRE_OK(b->context, rp_program_create(b->tape, &used, &b->program));
    const size_t nodes = rp_graph_node_count(rp_program_graph(b->program));
    b->runs = calloc(nodes + 1, sizeof *b->runs);
    b->replays = calloc(nodes + 1, sizeof *b->replays);
    RP_REQUIRE(b->runs != NULL && b->replays != NULL, "no memory");
}

static void forget_runs(bench *b) {
    const size_t nodes = rp_graph_node_count(rp_program_graph(b->program));
    memset(b->runs, 0, nodes * sizeof *b->runs);
    memset(b->replays, 0, nodes * sizeof *b->replays);
}

rp_status bench_plan(bench *b, const char *strategy, int64_t budget_bytes) {
    rp_plan_options options = RP_PLAN_OPTIONS;
    options.strategy = strategy;
    options.budget_bytes = budget_bytes;
    close_executor(b);
    forget_runs(b);
    rp_status status = rp_plan_create(rp_program_graph(b->program), &options, &b->plan, &b->report);
    if (status == RP_OK)
        status = rp_executor_create(b->program, b->plan, &b->options, &b->executor);
    if (status == RP_OK)
        bench_write(b);
    return status;
}

void bench_make(bench *b, const char *strategy, int64_t budget_bytes) {
    RP_REQUIRE_OK(b->context, bench_plan(b, strategy, budget_bytes));
}

void bench_import(bench *b, const rp_step *steps, size_t count, int64_t budget_bytes) {
    close_executor(b);
    forget_runs(b);
    RP_REQUIRE_OK(b->context, rp_plan_import(rp_program_graph(b->program), steps, count,
                                             budget_bytes, &b->plan, &b->report));
    RP_REQUIRE_OK(b->context, rp_executor_create(b->program, b->plan, &b->options, &b->executor));
    bench_write(b);
}

int64_t bench_minimum(bench *b) {
    rp_plan_report limits;
    RP_REQUIRE_OK(b->context, rp_plan_limits(rp_program_graph(b->program), &limits));
    return limits.min_feasible_bytes;
}

void bench_run(bench *b) {
    RP_REQUIRE_OK(b->context, rp_executor_run(b->executor));
    rp_executor_stats stats;
    rp_executor_get_stats(b->executor, &stats);
    RP_CHECK_EQUAL(stats.measured_peak_bytes, b->report.peak_bytes);
    RP_CHECK(b->report.peak_bytes <= b->report.budget_bytes, "%lld bytes planned, %lld allowed",
             (long long)b->report.peak_bytes, (long long)b->report.budget_bytes);
}

/* ---- Looking --------------------------------------------------------------------------------- */

const float *bench_values(bench *b, rp_tensor tensor) {
    const float *values = rp_executor_data(b->executor, tensor);
    RP_REQUIRE(values != NULL, "tensor %u is not in memory", (unsigned)tensor.id);
    return values;
}

const float *bench_gradient(bench *b, rp_tensor leaf) {
    const float *values = rp_executor_gradient(b->executor, leaf);
    RP_REQUIRE(values != NULL, "no gradient of %s", rp_tensor_name(b->tape, leaf));
    return values;
}

float bench_scalar(bench *b, rp_tensor tensor) {
    return bench_values(b, tensor)[0];
}

static uint32_t node_of(bench *b, rp_tensor tensor) {
    const rp_code *code = &b->program->code;
    for (size_t n = 0; n < code->node_count; n++) {
        const uint32_t *out = rp_code_outputs(code, &code->nodes[n]);
        for (uint32_t k = 0; k < code->nodes[n].out_count; k++)
            if (out[k] == tensor.id - 1)
                return (uint32_t)n;
    }
    RP_REQUIRE(false, "no node writes tensor %u", (unsigned)tensor.id);
    return RP_NONE;
}

uint32_t bench_runs_of(bench *b, rp_tensor tensor) {
    return b->runs[node_of(b, tensor)];
}

uint32_t bench_replays_of(bench *b, rp_tensor tensor) {
    return b->replays[node_of(b, tensor)];
}

uint32_t bench_replays(bench *b) {
    uint32_t sum = 0;
    for (size_t n = 0; n < b->program->code.node_count; n++)
        sum += b->replays[n];
    return sum;
}

bool bench_check(const char *what, const float *got, const float *wanted, size_t count) {
    bool all = true;
    for (size_t i = 0; i < count; i++) {
        const double off = fabs((double)got[i] - (double)wanted[i]);
        all =
            RP_CHECK(off <= 1e-6 + 1e-5 * fabs((double)wanted[i]), "%s[%zu]: got %.9g, wanted %.9g",
                     what, i, (double)got[i], (double)wanted[i]) &&
            all;
    }
    return all;
}

/* Marks every node that may run again and whose output is no loss or output of the program. */
static void mark_all(bench *b, rp_mark mark) {
    rp_code *code = &b->tape->code;
    for (size_t n = 0; n < code->node_count; n++) {
        const rp_op_params *params = &code->params[code->nodes[n].params];
        const bool fixed = code->nodes[n].op == RP_OP_CUSTOM && params->custom.op->has_side_effects;
        const uint32_t *out = rp_code_outputs(code, &code->nodes[n]);
        bool is_root = false;
        for (size_t r = 0; r < b->program->root_count; r++)
            is_root = is_root || b->program->roots[r] == out[0];
        if (!fixed && !is_root)
            code->nodes[n].mark = (uint8_t)mark;
    }
}

void bench_everywhere(bench *b, void (*program)(bench *b), void (*check)(bench *b)) {
    program(b);
    bench_make(b, "keep-all", RP_UNLIMITED);
    check(b);
    bench_make(b, NULL, bench_minimum(b));
    check(b);
    mark_all(b, RP_MARK_RECOMPUTE);
    program(b);
    bench_make(b, NULL, RP_UNLIMITED);
    check(b);
    mark_all(b, RP_MARK_AUTO);
    program(b);
}

uint64_t bench_hash_gradients(bench *b) {
    uint64_t hash = BENCH_HASH;
    for (size_t i = 0; i < b->leaf_count; i++)
        if (rp_tensor_needs_gradient(b->tape, b->leaves[i].tensor))
            hash = bench_hash(hash, bench_gradient(b, b->leaves[i].tensor),
                              bench_gradient_bytes(b, b->leaves[i].tensor));
    return hash;
}

static size_t bytes_of(rp_tensor_info info) {
    return (size_t)rp_shape_count(info.shape) * rp_dtype_bytes(info.dtype);
}

size_t bench_bytes(bench *b, rp_tensor tensor) {
    return bytes_of(rp_tensor_get_info(b->tape, tensor));
}

size_t bench_gradient_bytes(bench *b, rp_tensor leaf) {
    return bytes_of(rp_program_gradient_info(b->program, leaf));
}

uint64_t bench_hash(uint64_t hash, const void *data, size_t bytes) {
    const uint8_t *byte = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * UINT64_C(0x100000001b3);
    return hash;
}
