/* The progress line. */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"

enum { REDRAW_NS = 100000000 };

void progress_begin(progress *progress, bool silent, bool has_loss, int64_t steps,
                    int64_t tokens_per_step) {
    *progress = (struct progress){.silent = silent,
                                  .terminal = isatty(STDOUT_FILENO) == 1,
                                  .has_loss = has_loss,
                                  .steps = steps,
                                  .tokens_per_step = tokens_per_step,
                                  .begun_ns = clock_now_ns()};
}

static void print_time_left(const progress *progress, int64_t done) {
    const double spent = 1e-9 * (double)(clock_now_ns() - progress->begun_ns);
    const double left = spent / (double)done * (double)(progress->steps - done);
    const int64_t seconds = (int64_t)(left + 0.5);
    if (seconds >= 3600) {
        printf("  %" PRId64 ":%02d:%02d left", seconds / 3600, (int)(seconds / 60 % 60),
               (int)(seconds % 60));
    } else {
        printf("  %d:%02d left", (int)(seconds / 60), (int)(seconds % 60));
    }
}

void progress_step(progress *progress, int64_t step, double loss, int64_t step_ns) {
    const int64_t now = clock_now_ns(), done = step + 1;
    if (progress->silent ||
        (progress->terminal && done < progress->steps && now - progress->shown_ns < REDRAW_NS))
        return;
    progress->shown_ns = now;
    printf("%sstep %" PRId64 "/%" PRId64, progress->terminal ? "\r" : "", done, progress->steps);
    if (progress->has_loss)
        printf("  loss %.6f", loss);
    printf("  %.0f tokens/s",
           1e9 * (double)progress->tokens_per_step / (double)(step_ns > 0 ? step_ns : 1));
    print_time_left(progress, done);
    printf("%s", progress->terminal ? "\033[K" : "\n");
    fflush(stdout);
}

void progress_end(progress *progress) {
    if (!progress->silent && progress->terminal && progress->shown_ns != 0)
        putchar('\n');
    progress->shown_ns = 0;
}
