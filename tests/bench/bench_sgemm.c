/* What the BLAS can do here and now: GFLOP/s of single-precision products, for speed.py to compare
 * steps with.
 *
 *   bench_sgemm [SECONDS]     prints one JSON object: {"gflops": of 2048 x 2048 x 2048} */
#include <cblas.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SIDE = 2048, MOST_CALLS = 1000 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    const double limit = argc > 1 ? atof(argv[1]) : 1.0;
    const size_t count = (size_t)SIDE * SIDE;
    float *a = malloc(count * sizeof *a), *b = malloc(count * sizeof *b);
    float *c = malloc(count * sizeof *c);
    static double seconds[MOST_CALLS];
    if (a == NULL || b == NULL || c == NULL)
        return 5;
    for (size_t i = 0; i < count; i++) {
        a[i] = (float)(i % 17) - 8.0f;
        b[i] = (float)(i % 13) - 6.0f;
    }
    int calls = -1; /* the first call starts the threads and does not count */
    const double begin = now();
    while (calls < 3 || (calls < MOST_CALLS && now() - begin < limit)) {
        const double t = now();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SIDE, SIDE, SIDE, 1.0f, a, SIDE, b,
                    SIDE, 0.0f, c, SIDE);
        if (calls >= 0)
            seconds[calls] = now() - t;
        calls++;
    }
    qsort(seconds, (size_t)calls, sizeof seconds[0], by_value);
    printf("{\"gflops\": %.2f, \"calls\": %d}\n",
           2.0 * SIDE * SIDE * SIDE * 1e-9 / seconds[calls / 2], calls);
    free(a);
    free(b);
    free(c);
    return 0;
}
