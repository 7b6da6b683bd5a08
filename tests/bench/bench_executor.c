/* bench_executor [layers]: what the executor itself costs. A GPT-2 of GPT-3's width is planned, and
 * run on the null backend, where kernels do nothing and tensors have no memory: what is left is the
 * walk over the schedule. The promise is 100 ns a step of the schedule at most. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <reprise/reprise.h>

enum { DIM = 12288, HEADS = 96, SEQ = 2048, VOCAB = 50257, REPEATS = 51 };

static rp_context *context;

static void check(rp_status status) {
    if (status == RP_OK)
        return;
    fprintf(stderr, "bench_executor: %s\n", rp_context_message(context));
    exit(1);
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static rp_tensor linear(rp_tape *tape, rp_tensor x, int64_t in, int64_t out) {
    return rp_linear(tape, x, rp_parameter(tape, "weight", RP_F32, RP_SHAPE(in, out)),
                     rp_parameter(tape, "bias", RP_F32, RP_SHAPE(out)), RP_IN_OUT);
}

static rp_tensor norm(rp_tape *tape, rp_tensor x) {
    return rp_layernorm(tape, x, rp_parameter(tape, "weight", RP_F32, RP_SHAPE(DIM)),
                        rp_parameter(tape, "bias", RP_F32, RP_SHAPE(DIM)), 1e-5f);
}

static rp_tensor record(rp_tape *tape, int layers) {
    const rp_tensor tokens = rp_input(tape, "tokens", RP_I32, RP_SHAPE(1, SEQ));
    const rp_tensor targets = rp_input(tape, "targets", RP_I32, RP_SHAPE(1, SEQ));
    const rp_tensor table = rp_parameter(tape, "wte", RP_F32, RP_SHAPE(VOCAB, DIM));
    rp_attention_options attention = RP_ATTENTION_OPTIONS;
    attention.heads = HEADS;
    rp_tensor h = rp_embedding(tape, table, tokens);
    for (int i = 0; i < layers; i++) {
        rp_block(tape, "h.%d", i);
        rp_tensor x = linear(tape, norm(tape, h), DIM, 3 * DIM);
        x = rp_attention(tape, x, RP_NO_TENSOR, RP_NO_TENSOR, &attention);
        h = rp_add(tape, h, linear(tape, x, DIM, DIM));
        x = rp_gelu(tape, linear(tape, norm(tape, h), DIM, 4 * DIM), RP_GELU_TANH);
        h = rp_add(tape, h, linear(tape, x, 4 * DIM, DIM));
    }
    rp_block_end(tape);
    h = rp_linear(tape, norm(tape, h), table, RP_NO_TENSOR, RP_OUT_IN);
    return rp_cross_entropy(tape, h, targets, -100, RP_REDUCE_MEAN);
}

/* The best run of a plan, in nanoseconds a step. */
static void measure(const rp_program *program, const char *strategy) {
    rp_plan_options options = RP_PLAN_OPTIONS;
    rp_executor_options executor_options = RP_EXECUTOR_OPTIONS;
    rp_plan_report report;
    rp_executor_stats stats;
    rp_plan *plan = NULL;
    rp_executor *executor = NULL;
    double best = 1e9;
    size_t steps = 0;
    options.strategy = strategy;
    executor_options.backend = RP_BACKEND_NULL;
    check(rp_plan_create(rp_program_graph(program), &options, &plan, &report));
    check(rp_executor_create(program, plan, &executor_options, &executor));
    rp_plan_steps(plan, &steps);
    for (int i = 0; i < REPEATS; i++) {
        const double begin = seconds();
        check(rp_executor_run(executor));
        const double taken = seconds() - begin;
        best = taken < best ? taken : best;
    }
    rp_executor_get_stats(executor, &stats);
    printf("%-10s %9zu %9llu %9llu %13.1f %10.2f\n", strategy, steps,
           (unsigned long long)stats.runs, (unsigned long long)stats.replays,
           (double)stats.measured_peak_bytes / 1e9, best * 1e9 / (double)steps);
    rp_executor_destroy(executor);
    rp_plan_destroy(plan);
}

int main(int argc, char **argv) {
    const int layers = argc > 1 ? atoi(argv[1]) : 96;
    rp_program_options options = RP_PROGRAM_OPTIONS;
    rp_program *program = NULL;
    rp_tape *tape = NULL;
    if (layers < 1 || rp_context_create(NULL, &context) != RP_OK) {
        fprintf(stderr, "bench_executor: layers of at least 1\n");
        return 2;
    }
    check(rp_tape_create(context, &tape));
    const rp_tensor loss = record(tape, layers);
    options.losses = &loss;
    options.loss_count = 1;
    options.optimizer = RP_OPTIMIZER_ADAMW;
    check(rp_program_create(tape, &options, &program));
    printf("%d layers of width %d; the best of %d runs\n", layers, DIM, REPEATS);
    printf("%-10s %9s %9s %9s %13s %10s\n", "strategy", "steps", "kernels", "replays", "peak (GB)",
           "ns a step");
    measure(program, "keep-all");
    measure(program, "uniform:1");
    rp_program_destroy(program);
    rp_tape_destroy(tape);
    rp_context_destroy(context);
    return 0;
}
