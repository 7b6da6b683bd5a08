/* train_gpt --backend cuda, on the emulated device: the program, its budgets and its statuses. */
#include <stdlib.h>

#include "examples/process.h"
#include "library.h"

#define PROGRAM "train_gpt"
#define TINY                                                                                       \
    "--layers", "2", "--dim", "16", "--heads", "2", "--seq", "16", "--batch", "2", "--steps", "3", \
        "--lr", "1e-2", "--dropout", "0.1"
#define CUDA "--backend", "cuda"

/* Every loss and every bit of gradients and parameters. */
static void check_same(const json_t *a, const json_t *b) {
    RP_CHECK(json_equal(json_at(a, "losses"), json_at(b, "losses")), "the losses are the same");
    RP_CHECK_STRING(json_string_at(a, "grad_hash"), json_string_at(b, "grad_hash"));
    RP_CHECK_STRING(json_string_at(a, "param_hash"), json_string_at(b, "param_hash"));
}

static void check_peak(const json_t *r) {
    RP_CHECK_STRING(json_string_at(r, "device.backend"), "cuda");
    RP_CHECK_EQUAL(json_integer_at(r, "memory.measured_peak_bytes"),
                   json_integer_at(r, "memory.predicted_peak_bytes"));
    RP_CHECK(json_integer_at(r, "memory.outside_bytes") > 0, "libraries have taken something");
}

static void check_budgets(const char *const *option) {
    const folder f = folder_make("cuda_budgets");
    const char *file = folder_file(&f, "result.json");
    json_t *most = RUN_JSON(PROGRAM, file, CUDA, TINY, option[0], option[1], "--budget", "max");
    json_t *least = RUN_JSON(PROGRAM, file, CUDA, TINY, option[0], option[1], "--budget", "min");
    check_peak(most);
    check_peak(least);
    check_same(most, least);
    RP_CHECK_EQUAL(json_integer_at(most, "plan.recompute_nodes"), 0);
    RP_CHECK(json_integer_at(least, "plan.recompute_nodes") > 0, "something is recomputed");
    json_decref(most);
    json_decref(least);
    folder_remove(&f);
}

static void test_a_budget_changes_no_bit(void) {
    check_budgets((const char *const[]){"--accum", "1"});
}

static void test_a_budget_changes_no_bit_of_micro_batches(void) {
    check_budgets((const char *const[]){"--accum", "2"});
}

static void test_a_budget_changes_no_bit_of_unfused_attention(void) {
    check_budgets((const char *const[]){"--attention", "unfused"});
}

/* A trace looks at single kernels, so that nothing is recorded. */
static void test_a_traced_run_has_the_bits_of_a_recorded_one(void) {
    const folder f = folder_make("cuda_trace");
    const char *file = folder_file(&f, "result.json"), *trace = folder_file(&f, "trace.json");
    json_t *recorded = RUN_JSON(PROGRAM, file, CUDA, TINY);
    json_t *traced = RUN_JSON(PROGRAM, file, CUDA, TINY, "--trace", trace);
    check_same(recorded, traced);
    json_decref(recorded);
    json_decref(traced);
    folder_remove(&f);
}

static void test_losses_are_those_of_the_cpu(void) {
    const folder f = folder_make("cuda_cpu");
    const char *file = folder_file(&f, "result.json");
    json_t *device = RUN_JSON(PROGRAM, file, CUDA, TINY), *cpu = RUN_JSON(PROGRAM, file, TINY);
    const json_t *got = json_at(device, "losses"), *wanted = json_at(cpu, "losses");
    RP_REQUIRE_EQUAL(json_array_size(got), 3);
    for (size_t i = 0; i < 3; i++)
        RP_CHECK_NEAR(json_real_value(json_array_get(got, i)),
                      json_real_value(json_array_get(wanted, i)), 1e-5);
    RP_CHECK_NEAR(json_real_at(device, "validation_loss"), json_real_at(cpu, "validation_loss"),
                  1e-5);
    json_decref(device);
    json_decref(cpu);
    folder_remove(&f);
}

static void test_what_is_missing_is_told(void) {
    setenv("REPRISE_CUDA_LIBRARY", "/nowhere/libreprise_cuda.so", 1);
    EXPECT(PROGRAM, 2, "/nowhere/libreprise_cuda.so", CUDA, TINY);
    unsetenv("REPRISE_CUDA_LIBRARY");
    library_use();
    setenv("RP_EMULATOR_MEMORY", "8500000", 1); /* the products' library takes most of it */
    EXPECT(PROGRAM, 5, "are free", CUDA, TINY);
    unsetenv("RP_EMULATOR_MEMORY");
}

static const rp_test tests[] = {
    RP_TEST(test_a_budget_changes_no_bit),
    RP_TEST(test_a_budget_changes_no_bit_of_micro_batches),
    RP_TEST(test_a_budget_changes_no_bit_of_unfused_attention),
    RP_TEST(test_a_traced_run_has_the_bits_of_a_recorded_one),
    RP_TEST(test_losses_are_those_of_the_cpu),
    RP_TEST(test_what_is_missing_is_told),
};
RP_SUITE(training, tests)
