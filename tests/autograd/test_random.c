/* Group A of cases.md: every backend of the build, and more than one generator at once.
 *
 * There is no generator with a state: a mask is a function of seed, step, micro-batch, op and
 * element. A generator of its own is an op of its own, or a program with a seed of its own. */
#include <math.h>
#include <string.h>

#include "bench.h"
#include "ops/backend.h"

enum { RANDOM_ELEMENTS = 1000 };

static rp_tensor x[2], y[2], loss;

static void record_input(bench *b, int i, const char *name) {
    float ones[RANDOM_ELEMENTS];
    for (int e = 0; e < RANDOM_ELEMENTS; e++)
        ones[e] = 1.0f;
    x[i] = bench_input(b, name, RP_SHAPE(RANDOM_ELEMENTS), ones);
    rp_require_gradient(b->tape, x[i], true);
}

/* sum(d^2) of the dropped x; y is a copy of d from the first run, while backward reads the d that
 * may have been replayed. */
static rp_tensor record_dropout(bench *b, int i, float p, rp_mark mark) {
    const rp_tensor d = rp_dropout(b->tape, x[i], p);
    rp_mark_node(b->tape, d, mark);
    y[i] = rp_scale(b->tape, d, 1.0f);
    return rp_sum(b->tape, rp_mul(b->tape, d, d));
}

/* x is 1, so y is m = mask / (1 - p), and dx is 2 m m if forward, replay and backward draw the same
 * mask. How many elements are 0. */
static int check_mask(const float *out, const float *gradient, float p) {
    const double kept = 1.0 / (1.0 - (double)p);
    int dropped = 0;
    for (int e = 0; e < RANDOM_ELEMENTS; e++) {
        const double wanted = out[e] == 0.0f ? 0.0 : 2.0 * kept * kept;
        dropped += out[e] == 0.0f;
        RP_CHECK(out[e] == 0.0f || fabs((double)out[e] - kept) < 1e-6, "element %d: y is %g", e,
                 (double)out[e]);
        RP_CHECK(fabs((double)gradient[e] - wanted) < 1e-5, "element %d: y %g, dx %g", e,
                 (double)out[e], (double)gradient[e]);
    }
    const double off = fabs((double)dropped / RANDOM_ELEMENTS - (double)p);
    RP_CHECK(off < 0.08, "%d of 1000 dropped", dropped); /* five sigma */
    return dropped;
}

/* ---- RNG-04: every backend ------------------------------------------------------------------- */

/* A backend without kernels has run nothing, and nobody can take what it gives for a mask. */
static void check_backend(rp_backend_kind kind) {
    const rp_backend *backend = NULL;
    bench b;
    float out[RANDOM_ELEMENTS], gradient[RANDOM_ELEMENTS];
    bench_open(&b);
    record_input(&b, 0, "x");
    loss = record_dropout(&b, 0, 0.5f, RP_MARK_RECOMPUTE);
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.outputs = y;
    options.output_count = 1;
    options.backend = kind;
    bench_program(&b, loss, &options);
    b.options.backend = kind;
    bench_make(&b, NULL, RP_UNLIMITED);
    bench_run(&b);
    RP_CHECK_EQUAL(bench_replays(&b), 1);
    RP_CHECK_OK(b.context, rp_executor_read(b.executor, y[0], out, sizeof out));
    RP_CHECK_OK(b.context, rp_executor_read_gradient(b.executor, x[0], gradient, sizeof gradient));
    RP_CHECK_OK(NULL, rp_backend_find(NULL, kind, &backend));
    if (backend->kernels != NULL)
        check_mask(out, gradient, 0.5f);
    for (int e = 0; e < RANDOM_ELEMENTS && backend->kernels == NULL; e++)
        RP_CHECK(out[e] == 0.0f && gradient[e] == 0.0f, "element %d: y %g, dx %g out of nothing", e,
                 (double)out[e], (double)gradient[e]);
    bench_close(&b);
}

static bool has_device(void) {
    rp_context *context = rp_test_context(1);
    const rp_backend *backend = NULL;
    rp_queue *queue = NULL;
    rp_status status = rp_backend_find(context, RP_BACKEND_CUDA, &backend);
    if (status == RP_OK)
        status = rp_backend_open(backend, context, NULL, &queue);
    if (status == RP_OK)
        rp_backend_close(backend, queue);
    rp_context_destroy(context);
    return status == RP_OK;
}

static void test_RNG_04_every_backend_replays_its_mask_or_has_none(void) {
    static const rp_backend_kind kinds[] = {RP_BACKEND_CPU, RP_BACKEND_NULL, RP_BACKEND_CUDA};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i] != RP_BACKEND_CUDA || has_device())
            check_backend(kinds[i]);
}

/* One program runs on one backend; two cannot share memory across backends. */
static void test_RNG_04_a_mix_of_backends_is_refused(void) {
    bench b;
    bench_open(&b);
    record_input(&b, 0, "x");
    y[0] = rp_dropout(b.tape, x[0], 0.5f);
    loss = rp_sum(b.tape, y[0]);
    bench_program(&b, loss, NULL);
    bench_make(&b, NULL, RP_UNLIMITED);
    rp_executor_options options = RP_EXECUTOR_OPTIONS;
    rp_executor *other = NULL;
    options.backend = RP_BACKEND_NULL;
    options.share = b.executor;
    RP_CHECK_STATUS(b.context, rp_executor_create(b.program, b.plan, &options, &other),
                    RP_INVALID_ARGUMENT);
    RP_CHECK_MESSAGE(b.context, "another backend");
    CU_ASSERT_PTR_NULL(other);
    bench_close(&b);
}

/* ---- RNG-08: two generators ------------------------------------------------------------------ */

static uint64_t masks_of_step[3];

static void program_of_two_masks(bench *b) {
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.outputs = y;
    options.output_count = 2;
    bench_program(b, loss, &options);
}

/* Three steps: what a later one draws does not depend on the replays of those before. */
static void check_RNG_08(bench *b) {
    for (uint64_t s = 0; s < 3; s++) {
        RP_REQUIRE_OK(b->context, rp_executor_begin_step(b->executor, s, 1.0f));
        bench_run(b);
        check_mask(bench_values(b, y[0]), bench_gradient(b, x[0]), 0.5f);
        check_mask(bench_values(b, y[1]), bench_gradient(b, x[1]), 0.25f);
        const uint64_t hash = bench_hash_gradients(b);
        masks_of_step[s] = masks_of_step[s] != 0 ? masks_of_step[s] : hash;
        RP_CHECK(hash == masks_of_step[s], "step %d: other masks", (int)s);
        RP_CHECK(s == 0 || hash != masks_of_step[s - 1], "step %d: the masks of the one before",
                 (int)s);
    }
}

static void test_RNG_08_two_generators_in_one_segment(void) {
    bench b;
    bench_open(&b);
    record_input(&b, 0, "a");
    record_input(&b, 1, "b");
    rp_block(b.tape, "segment");
    const rp_tensor first = record_dropout(&b, 0, 0.5f, RP_MARK_AUTO),
                    second = record_dropout(&b, 1, 0.25f, RP_MARK_AUTO);
    rp_block_end(b.tape);
    loss = rp_add(b.tape, first, second);
    memset(masks_of_step, 0, sizeof masks_of_step);
    bench_everywhere(&b, program_of_two_masks, check_RNG_08);
    bench_close(&b);
}

/* With the same rate: two ops do not share a mask. */
static void test_RNG_08_two_generators_differ(void) {
    bench b;
    int differ = 0;
    bench_open(&b);
    record_input(&b, 0, "a");
    record_input(&b, 1, "b");
    const rp_tensor sums[] = {record_dropout(&b, 0, 0.5f, RP_MARK_AUTO),
                              record_dropout(&b, 1, 0.5f, RP_MARK_AUTO)};
    loss = rp_add(b.tape, sums[0], sums[1]);
    program_of_two_masks(&b);
    bench_make(&b, NULL, RP_UNLIMITED);
    bench_run(&b);
    const float *first = bench_values(&b, y[0]), *second = bench_values(&b, y[1]);
    for (int e = 0; e < RANDOM_ELEMENTS; e++)
        differ += first[e] != second[e];
    RP_CHECK(differ > 400 && differ < 600, "%d of 1000 elements differ", differ);
    bench_close(&b);
}

/* The gradients of one step. */
static uint64_t run_seed(bench *b, rp_executor *executor, rp_program *program, uint64_t step) {
    rp_executor *own = b->executor;
    rp_program *other = b->program;
    b->executor = executor;
    b->program = program;
    RP_REQUIRE_OK(b->context, rp_executor_begin_step(executor, step, 1.0f));
    RP_REQUIRE_OK(b->context, rp_executor_run(executor));
    rp_executor_stats stats;
    rp_executor_get_stats(executor, &stats);
    RP_CHECK(stats.replays > 0, "nothing was replayed");
    const uint64_t hash = bench_hash_gradients(b);
    b->executor = own;
    b->program = other;
    return hash;
}

/* Two programs of one tape with seeds A and B in one arena: each draws what it draws alone. */
static void test_RNG_08_programs_with_seeds_of_their_own(void) {
    bench b;
    rp_program *programs[2];
    rp_plan *plans[2];
    rp_executor *executors[2], *alone;
    uint64_t wanted[2][3];
    bench_open(&b);
    record_input(&b, 0, "x");
    loss = record_dropout(&b, 0, 0.5f, RP_MARK_RECOMPUTE);
    for (int i = 0; i < 2; i++) {
        rp_program_options options = RP_PROGRAM_OPTIONS;
        rp_executor_options with = RP_EXECUTOR_OPTIONS;
        options.losses = &loss;
        options.loss_count = 1;
        options.seed = 11 + (uint64_t)i;
        RP_REQUIRE_OK(b.context, rp_program_create(b.tape, &options, &programs[i]));
        RP_REQUIRE_OK(b.context,
                      rp_plan_create(rp_program_graph(programs[i]), NULL, &plans[i], NULL));
        RP_REQUIRE_OK(b.context, rp_executor_create(programs[i], plans[i], &with, &alone));
        const size_t bytes = RANDOM_ELEMENTS * sizeof(float);
        RP_REQUIRE_OK(b.context, rp_executor_write(alone, x[0], bench_data(&b, x[0]), bytes));
        for (uint64_t s = 0; s < 3; s++)
            wanted[i][s] = run_seed(&b, alone, programs[i], s);
        rp_executor_destroy(alone);
        with.share = i == 1 ? executors[0] : NULL;
        RP_REQUIRE_OK(b.context, rp_executor_create(programs[i], plans[i], &with, &executors[i]));
        RP_REQUIRE_OK(b.context,
                      rp_executor_write(executors[i], x[0], bench_data(&b, x[0]), bytes));
    }
    for (uint64_t s = 0; s < 3; s++)
        for (int i = 0; i < 2; i++)
            RP_CHECK(run_seed(&b, executors[i], programs[i], s) == wanted[i][s],
                     "seed %d, step %d: other masks than alone", 11 + i, (int)s);
    RP_CHECK(wanted[0][0] != wanted[1][0], "two seeds, one mask");
    for (int i = 2; i-- > 0;) {
        rp_executor_destroy(executors[i]);
        rp_plan_destroy(plans[i]);
        rp_program_destroy(programs[i]);
    }
    bench_close(&b);
}

static const rp_test tests[] = {
    RP_TEST(test_RNG_04_every_backend_replays_its_mask_or_has_none),
    RP_TEST(test_RNG_04_a_mix_of_backends_is_refused),
    RP_TEST(test_RNG_08_two_generators_in_one_segment),
    RP_TEST(test_RNG_08_two_generators_differ),
    RP_TEST(test_RNG_08_programs_with_seeds_of_their_own),
};
RP_SUITE(random, tests)
