/* bench_attention [threads]: the rate of the fused attention, forward and backward, beside that of
 * sgemm on the same machine in the same run, and what the causal mask saves.
 *
 * Rates count the products of the formula (2 forward, 5 backward; half of them if causal), so that
 * causal ones fall behind where a kernel computes what is masked. */
#include <cblas.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dispatch.h"
#include "op.h"

/* The best of at least so many runs over at least so many seconds: other programs take cores
 * away. */
enum { REPEATS = 9 };
#define SECONDS 0.2

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *numbers(int64_t count) {
    float *x = aligned_alloc(64, (size_t)(count * 4 + 63) / 64 * 64);
    uint32_t state = 1;
    if (x == NULL) {
        fprintf(stderr, "out of memory\n");
        exit(5);
    }
    for (int64_t i = 0; i < count; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)state / 4294967296.0f;
    }
    return x;
}

static double sgemm_rate(int n) {
    float *a = numbers((int64_t)n * n), *b = numbers((int64_t)n * n), *c = numbers((int64_t)n * n);
    const double start = seconds();
    double best = 1e9;
    for (int i = 0; i < REPEATS || seconds() - start < SECONDS; i++) {
        const double begin = seconds();
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1.0f, a, n, b, n, 0.0f, c,
                    n);
        const double time = seconds() - begin;
        best = time < best ? time : best;
    }
    free(a);
    free(b);
    free(c);
    return 2e-9 * n * n * n / best;
}

typedef struct shape {
    int64_t batch, heads, kv_heads, length, size;
    float dropout;
} shape;

static double best_time(rp_op op, const rp_launch *launch) {
    const double start = seconds();
    double best = 1e9;
    for (int i = 0; i < REPEATS || seconds() - start < SECONDS; i++) {
        const double begin = seconds();
        rp_cpu_kernels()[op](launch);
        const double time = seconds() - begin;
        best = time < best ? time : best;
    }
    return best;
}

/* Seconds forward and backward. */
static void run(const shape *s, bool causal, int threads, double time[2]) {
    const int64_t row = (s->heads + 2 * s->kv_heads) * s->size, rows = s->batch * s->length;
    const rp_op_params params = {.attention = {.heads = (int)s->heads,
                                               .kv_heads = (int)s->kv_heads,
                                               .causal = causal,
                                               .packed = true,
                                               .dropout = s->dropout}};
    const rp_tensor_info packed = {RP_F32, RP_SHAPE(s->batch, s->length, row)}, none = {0};
    const rp_tensor_info o_info = {RP_F32, RP_SHAPE(s->batch, s->length, s->heads * s->size)};
    const rp_tensor_info lse_info = {RP_F32, RP_SHAPE(s->batch, s->heads, s->length)};
    float *qkv = numbers(rows * row), *o = numbers(rows * s->heads * s->size);
    float *lse = numbers(rows * s->heads), *gradient = numbers(rows * s->heads * s->size);
    float *dqkv = numbers(rows * row);
    const rp_step_state step = {.seed = 1};
    const rp_tensor_info in[] = {packed, none, none, o_info, lse_info, o_info};
    rp_tensor_info out[] = {o_info, lse_info}, out_backward[] = {packed, none, none};
    const void *in_at[] = {qkv, NULL, NULL, o, lse, gradient};
    void *out_at[] = {o, lse}, *out_backward_at[] = {dqkv, NULL, NULL};
    const rp_launch forward = {.call = {in, 3, out, 2, &params},
                               .in = in_at,
                               .out = out_at,
                               .step = &step,
                               .threads = threads};
    const rp_launch backward = {.call = {in, 6, out_backward, 3, &params},
                                .in = in_at,
                                .out = out_backward_at,
                                .step = &step,
                                .threads = threads};
    time[0] = best_time(RP_OP_ATTENTION, &forward);
    time[1] = best_time(RP_OP_ATTENTION_BACKWARD, &backward);
    free(qkv);
    free(o);
    free(lse);
    free(gradient);
    free(dqkv);
}

int main(int argc, char **argv) {
    static const shape shapes[] = {
        {8, 6, 6, 256, 64, 0.0f},  {4, 12, 12, 64, 64, 0.0f}, {1, 8, 8, 1024, 64, 0.0f},
        {2, 12, 4, 256, 64, 0.0f}, {2, 8, 8, 512, 128, 0.0f}, {8, 6, 6, 256, 64, 0.1f},
    };
    const int threads = argc > 1 ? atoi(argv[1]) : omp_get_num_procs();
    if (threads < 1) {
        fprintf(stderr, "usage: bench_attention [threads]\n");
        return 2;
    }
    omp_set_num_threads(threads);
    printf("threads %d; rates in GFLOP/s and as a share of sgemm 1024^3 just before\n", threads);
    printf("                                full:                         causal:\n"
           "  B   H  H'    T    D   p  sgemm   forward        backward       forward        "
           "backward     causal / full time\n");
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const shape *s = &shapes[i];
        const double product =
            2e-9 * (double)(s->batch * s->heads * s->length * s->length * s->size);
        const double gemm = sgemm_rate(1024);
        double full[2], causal[2];
        run(s, false, threads, full);
        run(s, true, threads, causal);
        const double rates[] = {2 * product / full[0], 5 * product / full[1], product / causal[0],
                                2.5 * product / causal[1]};
        printf("%3d %3d %3d %4d %4d %.1f  %5.0f   ", (int)s->batch, (int)s->heads, (int)s->kv_heads,
               (int)s->length, (int)s->size, (double)s->dropout, gemm);
        for (int r = 0; r < 4; r++)
            printf("%4.0f (%3.0f %%)    ", rates[r], 100 * rates[r] / gemm);
        printf("%.2f %.2f\n", causal[0] / full[0], causal[1] / full[1]);
    }
    return 0;
}
