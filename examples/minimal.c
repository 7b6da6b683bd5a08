/* Twelve residual layers learn to cancel their input, in less memory than their activations take.
 */
#include <reprise/reprise.h>
#include <stdio.h>

enum { ROWS = 512, WIDTH = 64, LAYERS = 12 };

int main(void) {
    static float noise[ROWS * WIDTH], result;
    rp_context *context;
    rp_tape *t;
    rp_program *program;
    rp_plan *plan;
    rp_executor *executor;
    rp_plan_report report;
    rp_tensor w[LAYERS];
    for (uint32_t i = 0; i < ROWS * WIDTH; i++)
        noise[i] = 0.2f * (float)(i * 2654435761U >> 8) / 16777216.0f - 0.1f;
    if (rp_context_create(NULL, &context) || rp_tape_create(context, &t))
        return 1;

    rp_tensor x = rp_input(t, "x", RP_F32, RP_SHAPE(ROWS, WIDTH)), h = x; /* runs nothing */
    for (int i = 0; i < LAYERS; i++) {
        w[i] = rp_parameter(t, "w", RP_F32, RP_SHAPE(WIDTH, WIDTH));
        h = rp_add(t, h, rp_tanh(t, rp_linear(t, h, w[i], RP_NO_TENSOR, RP_IN_OUT)));
    }
    rp_tensor loss = rp_mean(t, rp_mul(t, h, h));

    rp_program_options what = RP_PROGRAM_OPTIONS;
    what.losses = &loss, what.loss_count = 1;
    rp_plan_options want = RP_PLAN_OPTIONS;
    want.budget_bytes = 2500000;
    int bad = rp_program_create(t, &what, &program) || /* differentiates */
              rp_plan_create(rp_program_graph(program), &want, &plan, &report) ||
              rp_executor_create(program, plan, NULL, &executor) ||
              rp_executor_write(executor, x, noise, sizeof noise);
    for (int i = 0; i < LAYERS && !bad; i++)
        bad = rp_executor_write(executor, w[i], noise, WIDTH * WIDTH * sizeof noise[0]);
    for (int step = 0; step < 200 && !bad; step++) /* forward, replays, backward; update */
        bad = rp_executor_run(executor) || rp_sgd_step(executor, 0.1f, 0.0f, 0.0f);
    if (bad || rp_executor_read(executor, loss, &result, sizeof result))
        return fprintf(stderr, "%s\n", rp_context_message(context)), 1;
    printf("loss %g in %lld bytes; keep-all takes %lld\n", (double)result,
           (long long)report.peak_bytes, (long long)report.keep_all_peak_bytes);
    rp_executor_destroy(executor);
    rp_plan_destroy(plan);
    rp_program_destroy(program);
    rp_tape_destroy(t);
    rp_context_destroy(context);
}
