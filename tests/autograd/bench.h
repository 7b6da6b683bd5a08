/* What most tests here need: a tape whose leaves have data, and everything made from it.
 *
 * Executors of a bench poison what holds nothing and check every replay: a test that passes has
 * shown that no kernel read what was not there. */
#ifndef REPRISE_TESTS_AUTOGRAD_BENCH_H
#define REPRISE_TESTS_AUTOGRAD_BENCH_H

#include <reprise/reprise.h>

#include "unit.h"

enum { BENCH_LEAVES = 128 };

typedef struct bench {
    rp_context *context;
    rp_tape *tape;
    rp_dtype dtype; /* of parameters and inputs to come: f32 or bf16 */
    struct {
        rp_tensor tensor;
        void *data; /* owned; f32 or i32 */
        size_t count;
        bool is_ids;
    } leaves[BENCH_LEAVES];
    size_t leaf_count;

    rp_program *program;
    rp_plan *plan;
    rp_executor *executor;
    rp_plan_report report;
    rp_executor_options options; /* of the executors to come */
    uint32_t *replays;           /* by node: in the runs since the executor was made */
    uint32_t *runs;
} bench;

/* A context of one thread and a tape; options with poison and check_replays, and a trace that
 * counts. */
void bench_open(bench *b);
void bench_open_in(bench *b, rp_context *context); /* which bench_close destroys */
void bench_close(bench *b);

/* Leaves with data; NULL: zeros. The data of bf16 leaves is f32, too: they get it rounded. */
rp_tensor bench_parameter(bench *b, const char *name, rp_shape shape, const float *values);
rp_tensor bench_input(bench *b, const char *name, rp_shape shape, const float *values);
rp_tensor bench_ids(bench *b, const char *name, rp_shape shape, const int32_t *values);

/* The bench's copy of a leaf's data: change it and write it again with bench_write. */
void *bench_data(bench *b, rp_tensor leaf);
void bench_write(bench *b);

/* A program with one loss; `options` may be NULL. Ends the test if it fails. Whatever was made from
 * an earlier program is destroyed. */
void bench_program(bench *b, rp_tensor loss, const rp_program_options *options);

/* A plan for a budget and an executor for it with the leaves' data in it. */
rp_status bench_plan(bench *b, const char *strategy, int64_t budget_bytes);

/* The same, ending the test if it fails. */
void bench_make(bench *b, const char *strategy, int64_t budget_bytes);

/* The same with a schedule from elsewhere. */
void bench_import(bench *b, const rp_step *steps, size_t count, int64_t budget_bytes);

/* The smallest budget. */
int64_t bench_minimum(bench *b);

/* One run; the measured peak must be the predicted one. */
void bench_run(bench *b);

/* Values in the arena; end the test if they are not there. */
const float *bench_values(bench *b, rp_tensor tensor);
const float *bench_gradient(bench *b, rp_tensor leaf);
float bench_scalar(bench *b, rp_tensor tensor);

/* How often the node that writes a tensor has run, and how often again. */
uint32_t bench_runs_of(bench *b, rp_tensor tensor);
uint32_t bench_replays_of(bench *b, rp_tensor tensor);
uint32_t bench_replays(bench *b);

/* Each of `count` numbers is within 1e-5 relative (1e-6 absolute) of what is wanted. */
bool bench_check(const char *what, const float *got, const float *wanted, size_t count);
#define BENCH_CHECK(got, ...)                                                                      \
    bench_check(#got, got, (const float[]){__VA_ARGS__},                                           \
                sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

/* Runs `check` under: everything kept; the smallest budget; every node marked to be recomputed that
 * may be. The program is made anew for each, by `program`, which calls bench_program. */
void bench_everywhere(bench *b, void (*program)(bench *b), void (*check)(bench *b));

/* The gradients of all leaves that have one, bit for bit. */
uint64_t bench_hash_gradients(bench *b);

/* Bytes of a tensor, and of the gradient of a leaf. */
size_t bench_bytes(bench *b, rp_tensor tensor);
size_t bench_gradient_bytes(bench *b, rp_tensor leaf);

/* FNV-1a over bytes. */
uint64_t bench_hash(uint64_t hash, const void *data, size_t bytes);
#define BENCH_HASH UINT64_C(0xcbf29ce484222325)

#endif
