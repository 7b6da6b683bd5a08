/* train_gpt, as scripts outside call it. The model is as small as it gets: what is checked here is
 * the program. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/safetensors.h"
#include "process.h"

#define PROGRAM "train_gpt"
#define TINY                                                                                       \
    "--layers", "2", "--dim", "16", "--heads", "2", "--seq", "32", "--batch", "4", "--steps", "3", \
        "--lr", "1e-2"

static void check_strings_equal(const json_t *a, const json_t *b, const char *path) {
    RP_CHECK_STRING(json_string_at(a, path), json_string_at(b, path));
}

/* Every loss, bit for bit. */
static void check_losses_equal(const json_t *a, const json_t *b) {
    RP_CHECK(json_equal(json_at(a, "losses"), json_at(b, "losses")), "the losses are the same");
}

static void test_result_has_every_field(void) {
    static const char *const integers[] = {"device.threads",
                                           "model.params",
                                           "model.tokens_per_step",
                                           "model.model_flops",
                                           "model.hardware_flops",
                                           "memory.budget_bytes",
                                           "memory.keep_all_peak_bytes",
                                           "memory.min_feasible_bytes",
                                           "memory.predicted_peak_bytes",
                                           "memory.measured_peak_bytes",
                                           "memory.parameters_bytes",
                                           "memory.gradients_bytes",
                                           "memory.optimizer_bytes",
                                           "memory.activations_peak_bytes",
                                           "memory.workspace_bytes",
                                           "memory.outside_bytes",
                                           "plan.recompute_nodes",
                                           "plan.predicted_recompute_ns",
                                           "plan.predicted_step_ns"};
    static const char *const reals[] = {
        "plan.plan_ms",     "time.step_ms_median",      "time.step_ms_min",
        "time.step_ms_max", "time.recompute_ms_median", "time.tokens_per_s",
        "validation_loss"};
    const folder f = folder_make("train_fields");
    json_t *r = RUN_JSON(PROGRAM, folder_file(&f, "result.json"), TINY);
    RP_CHECK_STRING(json_string_at(r, "program"), "train_gpt");
    RP_CHECK_STRING(json_string_at(r, "version"), RP_VERSION);
    RP_CHECK_STRING(json_string_at(r, "device.backend"), "cpu");
    RP_CHECK(json_string_at(r, "device.name")[0] != '\0', "the device has a name");
    RP_CHECK_STRING(json_string_at(r, "model.arch"), "gpt2");
    RP_CHECK_STRING(json_string_at(r, "model.dtype"), "f32");
    RP_CHECK(json_string_at(r, "plan.strategy")[0] != '\0', "the plan has a strategy");
    RP_CHECK(json_string_at(r, "plan.peak_node")[0] != '\0', "the peak has a node");
    RP_CHECK_EQUAL(strlen(json_string_at(r, "plan.plan_hash")), 16);
    RP_CHECK_EQUAL(strlen(json_string_at(r, "grad_hash")), 16);
    RP_CHECK_EQUAL(strlen(json_string_at(r, "param_hash")), 16);
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++)
        json_integer_at(r, integers[i]);
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        json_real_at(r, reals[i]);
    RP_CHECK_EQUAL(json_array_size(json_at(r, "losses")), 3);
    const json_t *norms = json_at(r, "grad_norms");
    RP_CHECK_EQUAL(json_object_size(norms), 2 + 2 * 12 + 2);
    RP_CHECK(json_is_real(json_object_get(norms, "transformer.wte.weight")), "wte has a norm");
    RP_CHECK(json_is_real(json_object_get(norms, "transformer.h.1.mlp.c_proj.bias")), "and so on");
    /* 256 x 16 + 32 x 16, 2 blocks of 12 C^2 + 13 C, 2 C */
    RP_CHECK_EQUAL(json_integer_at(r, "model.params"), 4096 + 512 + 2 * (12 * 256 + 13 * 16) + 32);
    RP_CHECK_EQUAL(json_integer_at(r, "model.tokens_per_step"), 128);
    RP_CHECK_EQUAL(json_integer_at(r, "model.model_flops"),
                   3 * 128 * (2 * (2 * 12 * 256 + 4096) + 2 * 2 * 32 * 16));
    RP_CHECK_EQUAL(json_integer_at(r, "model.hardware_flops"),
                   json_integer_at(r, "model.model_flops"));
    RP_CHECK_EQUAL(json_integer_at(r, "memory.optimizer_bytes"),
                   2 * json_integer_at(r, "memory.parameters_bytes"));
    RP_CHECK_EQUAL(json_integer_at(r, "memory.measured_peak_bytes"),
                   json_integer_at(r, "memory.predicted_peak_bytes"));
    json_decref(r);
    folder_remove(&f);
}

static double loss_at(const json_t *result, size_t step) {
    return json_real_value(json_array_get(json_at(result, "losses"), step));
}

static void test_it_learns(void) {
    static const char *const dtypes[] = {"f32", "bf16"};
    const folder f = folder_make("train_learns");
    json_t *results[2];
    for (int i = 0; i < 2; i++) {
        json_t *r = results[i] =
            RUN_JSON(PROGRAM, folder_file(&f, "result.json"), "--layers", "1", "--dim", "32",
                     "--heads", "2", "--seq", "32", "--batch", "4", "--vocab", "16", "--steps",
                     "60", "--lr", "3e-3", "--dtype", dtypes[i]);
        RP_CHECK_STRING(json_string_at(r, "model.dtype"), dtypes[i]);
        RP_CHECK(fabs(loss_at(r, 0) - log(16.0)) < 0.1, "the first loss is ln 16: %g",
                 loss_at(r, 0));
        RP_CHECK(loss_at(r, 59) < 2.5, "%s: the last is %g", dtypes[i], loss_at(r, 59));
        RP_CHECK(json_real_at(r, "validation_loss") < 2.5, "and so is the one of unread text");
    }
    for (size_t s = 0; s < 60; s++)
        RP_CHECK(fabs(loss_at(results[0], s) - loss_at(results[1], s)) < 0.02,
                 "step %zu: %g in f32, %g in bf16", s, loss_at(results[0], s),
                 loss_at(results[1], s));
    json_decref(results[0]);
    json_decref(results[1]);
    folder_remove(&f);
}

static void test_every_budget_gives_the_same_bits(void) {
    static const char *const budgets[] = {"max", "80%", "60%", "min"};
    static const char *const variants[][9] = {
        {NULL},
        {"--dropout", "0.1", NULL},
        {"--accum", "3", NULL},
        {"--attention", "unfused", "--untie", "--dropout", "0.1", NULL},
        /* of enough activations beside the optimizer's state, which is f32 */
        {"--dtype", "bf16", "--layers", "4", "--batch", "16", "--dropout", "0.1", NULL},
        {"--dtype", "bf16", "--layers", "4", "--batch", "16", "--accum", "3", NULL},
    };
    const size_t all = sizeof variants / sizeof variants[0];
    const size_t stride = all / (size_t)rp_test_samples(all, all);
    const folder f = folder_make("train_budgets");
    for (size_t v = 0; v < all; v += stride) {
        json_t *first = NULL;
        for (size_t i = 0; i < sizeof budgets / sizeof budgets[0]; i++) {
            const char *words[32] = {TINY, "--budget", budgets[i]};
            size_t count = 16;
            for (size_t k = 0; variants[v][k] != NULL; k++)
                words[count++] = variants[v][k];
            json_t *r = process_json(PROGRAM, folder_file(&f, "result.json"), words, 0);
            const int64_t measured = json_integer_at(r, "memory.measured_peak_bytes");
            RP_CHECK_EQUAL(measured, json_integer_at(r, "memory.predicted_peak_bytes"));
            RP_CHECK(measured <= json_integer_at(r, "memory.budget_bytes"), "within the budget");
            RP_CHECK((json_integer_at(r, "plan.recompute_nodes") > 0) == (i > 0),
                     "only %s recomputes nothing", budgets[0]);
            RP_CHECK((json_integer_at(r, "model.hardware_flops") >
                      json_integer_at(r, "model.model_flops")) == (i > 0),
                     "replays cost operations");
            if (first == NULL) {
                first = r;
                continue;
            }
            check_losses_equal(r, first);
            check_strings_equal(r, first, "grad_hash");
            check_strings_equal(r, first, "param_hash");
            RP_CHECK(json_equal(json_at(r, "validation_loss"), json_at(first, "validation_loss")),
                     "the validation, too");
            json_decref(r);
        }
        json_decref(first);
    }
    folder_remove(&f);
}

static void test_micro_batches_see_what_a_large_batch_sees(void) {
    const folder f = folder_make("train_accum");
    json_t *two = RUN_JSON(PROGRAM, folder_file(&f, "two.json"), TINY, "--accum", "2");
    json_t *one = RUN_JSON(PROGRAM, folder_file(&f, "one.json"), TINY, "--batch", "8");
    for (size_t i = 0; i < 3; i++)
        RP_CHECK_NEAR(loss_at(two, i), loss_at(one, i), 1e-5);
    RP_CHECK_EQUAL(json_integer_at(two, "model.tokens_per_step"), 256);
    RP_CHECK_EQUAL(json_integer_at(two, "model.model_flops"),
                   json_integer_at(one, "model.model_flops"));
    json_decref(two);
    json_decref(one);
    folder_remove(&f);
}

static void test_weights_load_and_save(void) {
    const folder f = folder_make("train_weights");
    const char *init = folder_file(&f, "init.safetensors"),
               *end = folder_file(&f, "end.safetensors");
    const char *again = folder_file(&f, "again.safetensors");
    const char *grads = folder_file(&f, "grads.safetensors"), *json = folder_file(&f, "r.json");
    json_t *made =
        RUN_JSON(PROGRAM, json, TINY, "--save-init", init, "--save", end, "--dump-grads", grads);
    json_t *read =
        RUN_JSON(PROGRAM, json, TINY, "--load", init, "--save-init", again, "--seed", "9");
    check_losses_equal(made, read);
    check_strings_equal(made, read, "param_hash");
    size_t one = 0, two = 0;
    char *a = rp_test_read_file(init, &one), *b = rp_test_read_file(again, &two);
    RP_CHECK(one == two && memcmp(a, b, one) == 0, "what was loaded is saved");
    free(a);
    free(b);
    safetensors reader;
    failure failure;
    RP_REQUIRE(safetensors_open(&reader, grads, &failure), "%s", failure.text);
    RP_CHECK_EQUAL(reader.count, 28);
    const safetensors_entry *entry = safetensors_find(&reader, "transformer.ln_f.bias", "");
    float values[16];
    double sum = 0.0;
    RP_REQUIRE(entry != NULL && safetensors_read(&reader, entry, 0, 16, values, &failure),
               "the gradient of ln_f.bias");
    for (int i = 0; i < 16; i++)
        sum += (double)values[i] * (double)values[i];
    const json_t *norm = json_object_get(json_at(made, "grad_norms"), "transformer.ln_f.bias");
    RP_CHECK_NEAR(sqrt(sum), json_real_value(norm), 1e-12);
    safetensors_close(&reader);
    RP_REQUIRE(safetensors_open(&reader, end, &failure), "%s", failure.text);
    RP_CHECK_STRING(reader.entries[0].name, "transformer.wte.weight");
    RP_CHECK_STRING(reader.entries[1].name, "transformer.wpe.weight");
    RP_CHECK_STRING(reader.entries[2].name, "transformer.h.0.ln_1.weight");
    safetensors_close(&reader);
    json_decref(made);
    json_decref(read);
    folder_remove(&f);
}

/* Every tensor of a file has this type. */
static void check_types(const char *path, const char *dtype) {
    safetensors reader;
    failure failure;
    RP_REQUIRE(safetensors_open(&reader, path, &failure), "%s", failure.text);
    RP_CHECK_EQUAL(reader.count, 28);
    for (size_t i = 0; i < reader.count; i++)
        RP_CHECK_STRING(reader.entries[i].dtype, dtype);
    safetensors_close(&reader);
}

static void check_files_equal(const char *one, const char *two) {
    size_t lengths[2];
    char *a = rp_test_read_file(one, &lengths[0]), *b = rp_test_read_file(two, &lengths[1]);
    RP_CHECK(lengths[0] == lengths[1] && memcmp(a, b, lengths[0]) == 0, "%s is not %s", one, two);
    free(a);
    free(b);
}

/* Weights are written in f32, the masters, and begin as in f32; gradients in bf16. */
static void test_bf16_keeps_masters_in_f32(void) {
    const folder f = folder_make("train_bf16");
    const char *json = folder_file(&f, "r.json"), *init = folder_file(&f, "init"),
               *init32 = folder_file(&f, "init32"), *end = folder_file(&f, "end"),
               *grads = folder_file(&f, "grads"), *again = folder_file(&f, "again");
    json_t *in32 = RUN_JSON(PROGRAM, json, TINY, "--save-init", init32);
    json_t *made = RUN_JSON(PROGRAM, json, TINY, "--dtype", "bf16", "--save-init", init, "--save",
                            end, "--dump-grads", grads);
    check_files_equal(init, init32);
    check_types(end, "F32");
    check_types(grads, "BF16");
    const int64_t parameters = json_integer_at(in32, "memory.parameters_bytes");
    RP_CHECK(json_integer_at(made, "memory.parameters_bytes") < parameters * 11 / 20,
             "half the parameters' bytes");
    RP_CHECK_EQUAL(json_integer_at(made, "memory.gradients_bytes"),
                   json_integer_at(made, "memory.parameters_bytes"));
    RP_CHECK_EQUAL(json_integer_at(made, "memory.optimizer_bytes"), 3 * parameters);
    RP_CHECK(json_integer_at(made, "memory.kept_bytes") <
                 json_integer_at(in32, "memory.kept_bytes") * 11 / 20,
             "half the bytes of activations");

    /* going on: the masters are there bit for bit */
    json_t *read = RUN_JSON(PROGRAM, json, TINY, "--dtype", "bf16", "--load", init);
    check_losses_equal(made, read);
    check_strings_equal(made, read, "param_hash");
    json_decref(
        RUN_JSON(PROGRAM, json, TINY, "--dtype", "bf16", "--load", end, "--save-init", again));
    check_files_equal(end, again);
    json_decref(RUN_JSON(PROGRAM, json, TINY, "--dtype", "bf16", "--load", grads)); /* BF16 */

    /* f32 sums of micro-batches, and still a file in the parameters' type */
    json_t *two = RUN_JSON(PROGRAM, json, TINY, "--dtype", "bf16", "--accum", "2", "--batch", "2",
                           "--dump-grads", grads, "--load", init);
    RP_CHECK_EQUAL(json_integer_at(two, "memory.gradients_bytes"), parameters);
    check_types(grads, "BF16");
    for (size_t i = 0; i < 3; i++)
        RP_CHECK_NEAR(loss_at(two, i), loss_at(made, i), 1e-3);
    json_decref(in32);
    json_decref(made);
    json_decref(read);
    json_decref(two);
    folder_remove(&f);
}

/* Positions of a longer model: the first rows are used, all are saved, none but the first get a
 * gradient. */
static void test_a_file_with_more_positions_loads(void) {
    const folder f = folder_make("train_positions");
    const char *init = folder_file(&f, "init.safetensors"), *json = folder_file(&f, "r.json");
    const char *grads = folder_file(&f, "grads.safetensors");
    json_t *longer = RUN_JSON(PROGRAM, json, TINY, "--seq", "40", "--save-init", init);
    json_t *r = RUN_JSON(PROGRAM, json, TINY, "--load", init, "--dump-grads", grads);
    json_t *same = RUN_JSON(PROGRAM, json, TINY, "--load", init, "--budget", "min");
    RP_CHECK_EQUAL(json_integer_at(r, "model.params"), json_integer_at(longer, "model.params"));
    check_strings_equal(r, same, "grad_hash");
    safetensors reader;
    failure failure;
    float row[16];
    RP_REQUIRE(safetensors_open(&reader, grads, &failure), "%s", failure.text);
    const safetensors_entry *wpe = safetensors_find(&reader, "transformer.wpe.weight", "");
    RP_REQUIRE(wpe != NULL && wpe->dims[0] == 40, "40 positions");
    bool zero = true, used = false;
    RP_REQUIRE(safetensors_read(&reader, wpe, 32 * 16, 16, row, &failure), "%s", failure.text);
    for (int i = 0; i < 16; i++)
        zero = zero && row[i] == 0.0f;
    RP_REQUIRE(safetensors_read(&reader, wpe, 31 * 16, 16, row, &failure), "%s", failure.text);
    for (int i = 0; i < 16; i++)
        used = used || row[i] != 0.0f;
    RP_CHECK(zero && used, "position 31 has a gradient, 32 has none");
    safetensors_close(&reader);
    EXPECT(PROGRAM, 4, "positions", TINY, "--seq", "48", "--load", init);
    json_decref(longer);
    json_decref(r);
    json_decref(same);
    folder_remove(&f);
}

static void test_plans_and_graphs_are_data(void) {
    const folder f = folder_make("train_plans");
    const char *graph = folder_file(&f, "graph.json"), *plan = folder_file(&f, "plan.json");
    const char *json = folder_file(&f, "r.json"), *outside = folder_file(&f, "outside.json");
    json_t *made = RUN_JSON(PROGRAM, json, TINY, "--budget", "70%", "--save-graph", graph,
                            "--save-plan", plan);
    json_t *run = RUN_JSON(PROGRAM, json, TINY, "--plan", plan);
    check_strings_equal(made, run, "plan.plan_hash");
    check_strings_equal(made, run, "grad_hash");
    RP_CHECK_EQUAL(json_integer_at(run, "memory.measured_peak_bytes"),
                   json_integer_at(made, "memory.measured_peak_bytes"));
    json_t *planned =
        RUN_JSON("plan_graph", json, graph, "--budget", "70%", "--out", outside, "--run-null");
    check_strings_equal(json_at(made, "plan"), planned, "plan_hash");
    RP_CHECK_EQUAL(json_integer_at(planned, "keep_all_peak_bytes"),
                   json_integer_at(made, "memory.keep_all_peak_bytes"));
    json_t *again = RUN_JSON(PROGRAM, json, TINY, "--plan", outside);
    check_strings_equal(made, again, "grad_hash");
    EXPECT(PROGRAM, 4, "plan.json", TINY, "--layers", "3", "--plan", plan);
    EXPECT(PROGRAM, 3, NULL, TINY, "--plan", plan, "--budget", "1K");
    json_decref(made);
    json_decref(run);
    json_decref(planned);
    json_decref(again);
    folder_remove(&f);
}

static void test_the_trace_has_an_event_a_kernel(void) {
    const folder f = folder_make("train_trace");
    const char *trace = folder_file(&f, "trace.json"), *json = folder_file(&f, "r.json");
    json_t *r = RUN_JSON(PROGRAM, json, TINY, "--budget", "60%", "--trace", trace);
    json_t *object = json_load_file(trace, 0, NULL);
    RP_REQUIRE(object != NULL, "the trace is JSON");
    size_t replays = 0, forward = 0, backward = 0, steps = 0, index = 0;
    const json_t *event = NULL;
    json_array_foreach(json_at(object, "traceEvents"), index, event) {
        const char *phase = json_string_at(event, "args.phase");
        replays += strcmp(phase, "replay") == 0;
        forward += strcmp(phase, "forward") == 0;
        backward += strcmp(phase, "backward") == 0;
        steps += strcmp(phase, "step") == 0;
        RP_CHECK(json_real_at(event, "ts") >= 0.0 && json_real_at(event, "dur") >= 0.0,
                 "times do not run backward");
        RP_CHECK_STRING(json_string_at(event, "ph"), "X");
    }
    RP_CHECK_EQUAL(steps, 3);
    RP_CHECK_EQUAL(replays, 3 * json_integer_at(r, "plan.recompute_nodes"));
    RP_CHECK(forward > 0 && backward > 0, "%zu forward, %zu backward", forward, backward);
    json_decref(object);
    json_decref(r);
    folder_remove(&f);
}

static void test_the_null_backend_runs_models_that_fit_nowhere(void) {
    const folder f = folder_make("train_null");
    const char *json = folder_file(&f, "r.json");
    json_t *r = RUN_JSON(PROGRAM, json, "--backend", "null", "--layers", "4", "--dim", "12288",
                         "--heads", "96", "--seq", "2048", "--batch", "64", "--vocab", "50257",
                         "--steps", "3", "--budget", "60%");
    RP_CHECK_STRING(json_string_at(r, "device.backend"), "null");
    RP_CHECK_EQUAL(json_integer_at(r, "memory.measured_peak_bytes"),
                   json_integer_at(r, "memory.predicted_peak_bytes"));
    RP_CHECK(json_integer_at(r, "memory.measured_peak_bytes") > INT64_C(1) << 36, "over 64 GiB");
    RP_CHECK_EQUAL(json_array_size(json_at(r, "losses")), 0);
    json_decref(r);
    EXPECT(PROGRAM, 2, "null backend", TINY, "--backend", "null", "--save", json);
    folder_remove(&f);
}

static void test_held_out_text(void) {
    const folder f = folder_make("train_validation");
    const char *json = folder_file(&f, "r.json"), *text = folder_file(&f, "text");
    json_t *held = RUN_JSON(PROGRAM, json, TINY, "--validation", "0.25");
    RP_CHECK(json_is_real(json_at(held, "validation_loss")), "a quarter is held out");
    json_decref(held);
    file_write(text, "A text of fifty bytes, all of which are read, twice.");
    json_t *none = RUN_JSON(PROGRAM, json, TINY, "--data", text);
    RP_CHECK(json_is_null(json_at(none, "validation_loss")), "nothing is left of a short text");
    json_decref(none);
    EXPECT(PROGRAM, 4, "--validation", TINY, "--data", text, "--validation", "0.01");
    folder_remove(&f);
}

static void test_an_infeasible_budget_tells_the_minimum(void) {
    const folder f = folder_make("train_infeasible");
    const char *json = folder_file(&f, "r.json");
    const char *const words[] = {TINY,
                                 "--budget",
                                 "1000",
                                 "--save",
                                 folder_file(&f, "w.safetensors"),
                                 "--save-plan",
                                 folder_file(&f, "plan.json"),
                                 NULL};
    json_t *r = process_json(PROGRAM, json, words, 3);
    const int64_t least = json_integer_at(r, "memory.min_feasible_bytes");
    RP_CHECK(least > 1000, "the minimum is %lld", (long long)least);
    RP_CHECK(json_string_at(r, "plan.peak_node")[0] != '\0', "and a node sets it");
    RP_CHECK_EQUAL(json_array_size(json_at(r, "losses")), 0);
    RP_CHECK_EQUAL(folder_count(&f), 1);
    char budget[32];
    snprintf(budget, sizeof budget, "%lld", (long long)least - 1);
    EXPECT(PROGRAM, 3, NULL, TINY, "--budget", budget);
    snprintf(budget, sizeof budget, "%lld", (long long)least);
    EXPECT(PROGRAM, 0, NULL, TINY, "--budget", budget);
    json_decref(r);
    folder_remove(&f);
}

/* Where the backend's library is missing nothing else changes: cuda is refused, auto is the CPU. */
static void test_a_backend_that_is_not_there(void) {
    const folder f = folder_make("train_backends");
    const char *variable = "REPRISE_CUDA_LIBRARY", *json = folder_file(&f, "result.json");
    char *kept = getenv(variable) != NULL ? strdup(getenv(variable)) : NULL;
    rp_context *context = rp_test_context(1);
    const rp_status status = rp_backend_describe(context, RP_BACKEND_CUDA, NULL, 0);
    if (status == RP_DEVICE_ERROR) /* the library is there, a device is not */
        EXPECT(PROGRAM, 6, "no device", TINY, "--backend", "cuda", "--json", json);
    RP_REQUIRE(setenv(variable, "/nowhere/cuda.so", 1) == 0, "setenv");
    EXPECT(PROGRAM, 2, "/nowhere/cuda.so", TINY, "--backend", "cuda", "--json", json);
    json_t *r = RUN_JSON(PROGRAM, json, TINY, "--backend", "auto");
    RP_CHECK_STRING(json_string_at(r, "device.backend"), "cpu");
    json_decref(r);
    RP_REQUIRE((kept != NULL ? setenv(variable, kept, 1) : unsetenv(variable)) == 0, "setenv");
    free(kept);
    rp_context_destroy(context);
    folder_remove(&f);
}

static void test_statuses_of_what_cannot_be_done(void) {
    const folder f = folder_make("train_statuses");
    const char *bad = folder_file(&f, "bad"), *missing = folder_file(&f, "missing");
    EXPECT(PROGRAM, 2, "not built yet", "--arch", "llama");
    EXPECT(PROGRAM, 4, "missing", TINY, "--costs", missing);
    EXPECT(PROGRAM, 2, "multiple of --heads", "--dim", "17");
    EXPECT(PROGRAM, 2, "--budget", "--budget", "lots");
    EXPECT(PROGRAM, 2, "--steps", "--steps", "0");
    EXPECT(PROGRAM, 2, "--accum", "--accum", "0");
    EXPECT(PROGRAM, 2, "--seed", "--seed", "-1");
    EXPECT(PROGRAM, 2, "stray", "stray");
    EXPECT(PROGRAM, 2, "magic", TINY, "--strategy", "magic");
    EXPECT(PROGRAM, 4, "missing", TINY, "--data", missing);
    EXPECT(PROGRAM, 4, "missing", TINY, "--load", missing);
    EXPECT(PROGRAM, 4, "missing", TINY, "--plan", missing);
    file_write(bad, "");
    EXPECT(PROGRAM, 4, "0 tokens", TINY, "--data", bad);
    EXPECT(PROGRAM, 4, "bad", TINY, "--load", bad);
    EXPECT(PROGRAM, 4, "bad", TINY, "--plan", bad);
    file_write(bad, "0123456789abcdef");
    EXPECT(PROGRAM, 4, "16 tokens", TINY, "--data", bad);
    EXPECT(PROGRAM, 4, "token 97 at offset 10", TINY, "--vocab", "64", "--data", bad);
    EXPECT(PROGRAM, 1, "--save", TINY, "--save", folder_file(&f, "no/folder/file"));
    EXPECT(PROGRAM, 1, "--trace", TINY, "--trace", f.path);
    EXPECT(PROGRAM, 5, "memory", "--dim", "1048576", "--heads", "1", "--steps", "1", "--budget",
           "max");
    remove(bad);
    RP_CHECK_EQUAL(folder_count(&f), 0);
    folder_remove(&f);
}

static void test_weights_that_do_not_fit_are_named(void) {
    const folder f = folder_make("train_misfits");
    const char *init = folder_file(&f, "init.safetensors");
    json_t *r = RUN_JSON(PROGRAM, folder_file(&f, "r.json"), TINY, "--save-init", init);
    json_decref(r);
    EXPECT(PROGRAM, 4, "[256, 16]", TINY, "--vocab", "300", "--load", init);
    EXPECT(PROGRAM, 4, "h.2.ln_1.weight is missing", TINY, "--layers", "3", "--load", init);
    EXPECT(PROGRAM, 4, "lm_head.weight is missing", TINY, "--untie", "--load", init);
    EXPECT(PROGRAM, 0, NULL, TINY, "--layers", "1", "--load", init);
    folder_remove(&f);
}

/* Stopped in the middle of a training: nothing of its outputs is there, whole or in part. */
static void check_signal(int number) {
    const folder f = folder_make("train_signal");
    const char *const words[] = {TINY,
                                 "--steps",
                                 "1000000",
                                 "--save",
                                 folder_file(&f, "w.safetensors"),
                                 "--json",
                                 folder_file(&f, "r.json"),
                                 NULL};
    const int id = process_start(PROGRAM, words);
    for (int i = 0; i < 2000 && folder_count(&f) < 2; i++)
        nanosleep(&(struct timespec){0, 5000000}, NULL);
    RP_CHECK_EQUAL(folder_count(&f), 2); /* temporary files */
    kill(id, number);
    RP_CHECK_EQUAL(process_wait(id), 128 + number);
    RP_CHECK_EQUAL(folder_count(&f), 0);
    folder_remove(&f);
}

static void test_a_signal_leaves_no_file(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXFSZ};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        check_signal(numbers[i]);
}

static void test_what_is_printed(void) {
    static const char *const options[] = {
        "--data",     "--arch",    "--layers", "--dim",       "--heads",      "--kv-heads",
        "--ffn",      "--seq",     "--batch",  "--accum",     "--vocab",      "--steps",
        "--lr",       "--dropout", "--dtype",  "--attention", "--untie",      "--budget",
        "--strategy", "--costs",   "--plan",   "--save-plan", "--save-graph", "--backend",
        "--threads",  "--seed",    "--load",   "--save-init", "--save",       "--dump-grads",
        "--trace",    "--json",    "--quiet",  "--help"};
    process help = process_run(PROGRAM, (const char *const[]){"--help", NULL});
    RP_CHECK_EQUAL(help.status, 0);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        char row[32];
        snprintf(row, sizeof row, "\n  %s ", options[i]);
        RP_CHECK(strstr(help.out, row) != NULL, "--help has %s", options[i]);
    }
    process plain = process_run(PROGRAM, (const char *const[]){TINY, NULL});
    RP_CHECK(strstr(plain.out, "\nstep 1/3  loss ") != NULL, "a line a step: %s", plain.out);
    RP_CHECK(strstr(plain.out, "\nstep 3/3  loss ") != NULL, "to the last: %s", plain.out);
    RP_CHECK(strchr(plain.out, '\r') == NULL, "no line is drawn again off a terminal");
    process json = process_run(PROGRAM, (const char *const[]){TINY, "--json", "-", NULL});
    json_t *object = json_loads(json.out, 0, NULL);
    RP_CHECK(object != NULL, "nothing but JSON: %s", json.out);
    json_decref(object);
    process_free(&help);
    process_free(&plain);
    process_free(&json);
}

static const rp_test tests[] = {
    RP_TEST(test_result_has_every_field),
    RP_TEST(test_it_learns),
    RP_TEST(test_every_budget_gives_the_same_bits),
    RP_TEST(test_micro_batches_see_what_a_large_batch_sees),
    RP_TEST(test_weights_load_and_save),
    RP_TEST(test_bf16_keeps_masters_in_f32),
    RP_TEST(test_a_file_with_more_positions_loads),
    RP_TEST(test_plans_and_graphs_are_data),
    RP_TEST(test_the_trace_has_an_event_a_kernel),
    RP_TEST(test_the_null_backend_runs_models_that_fit_nowhere),
    RP_TEST(test_held_out_text),
    RP_TEST(test_an_infeasible_budget_tells_the_minimum),
    RP_TEST(test_a_backend_that_is_not_there),
    RP_TEST(test_statuses_of_what_cannot_be_done),
    RP_TEST(test_weights_that_do_not_fit_are_named),
    RP_TEST(test_a_signal_leaves_no_file),
    RP_TEST(test_what_is_printed),
};
RP_SUITE(train_gpt, tests)
