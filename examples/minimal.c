/* Twelve residual layers learn to cancel their input, in less memory than that takes. */
#include <reprise/reprise.h>
#include <stdio.h>

int main(void) {
    rp_context *context = NULL;
    rp_tape *tape = NULL;
    rp_program *program;
    rp_plan *plan;
    rp_executor *executor;
    rp_plan_report report;
    int bad = rp_context_create(NULL, &context) || rp_tape_create(context, &tape);

    rp_tensor x = rp_input(tape, "x", RP_F32, RP_SHAPE(512, 64)), h = x; /* runs nothing */
    for (int layer = 0; layer < 12; layer++) {
        rp_tensor w = rp_parameter(tape, "w", RP_F32, RP_SHAPE(64, 64));
        h = rp_add(tape, h, rp_tanh(tape, rp_linear(tape, h, w, RP_NO_TENSOR, RP_IN_OUT)));
    }
    rp_tensor loss = rp_mean(tape, rp_mul(tape, h, h));

    bad = bad || rp_program_create(tape, RP_LOSS(loss), &program) || /* differentiates */
          rp_plan_create(rp_program_graph(program), RP_BUDGET(2500000), &plan, &report) ||
          rp_executor_create(program, plan, NULL, &executor) ||
          rp_executor_write_normal(executor, x, 0.1, 1, 0);
    for (size_t i = 0; !bad && i < rp_program_parameter_count(program); i++)
        bad = rp_executor_write_normal(executor, rp_program_parameter(program, i), 0.1, 2, i);
    for (int step = 0; !bad && step < 200; step++) /* forward, replays, backward; update */
        bad = rp_executor_run(executor) || rp_sgd_step(executor, 0.1f, 0.0f, 0.0f);
    if (bad)
        return fprintf(stderr, "%s\n", rp_context_message(context)), 1;
    printf("loss %g, peak %lld, keep-all %lld\n", *(const float *)rp_executor_data(executor, loss),
           (long long)report.peak_bytes, (long long)report.keep_all_peak_bytes);
    rp_context_destroy(context); /* and everything made in it */
}
