/* train_gpt --costs: files, measuring, and what recomputing the core of attention saves in the
 * models of Korthikanti et al. 2022 (arXiv:2205.05198). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"

#define PROGRAM "train_gpt"
#define TINY                                                                                       \
    "--layers", "2", "--dim", "16", "--heads", "2", "--seq", "32", "--batch", "4", "--steps", "1"

/* The device files of the sources, from wherever the tests run. */
static const char *device_file(const folder *f, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "../autograd/devices/%s.json", name);
    char *text = rp_test_read_file(path, NULL);
    snprintf(path, sizeof path, "%s.json", name);
    const char *file = folder_file(f, path);
    file_write(file, text);
    free(text);
    return file;
}

static void test_costs_are_those_of_the_file(void) {
    const folder f = folder_make("costs_file");
    const char *result = folder_file(&f, "result.json");
    char h200[PROCESS_PATH];
    snprintf(h200, sizeof h200, "%s", device_file(&f, "h200"));
    json_t *model = RUN_JSON(PROGRAM, result, TINY, "--backend", "null");
    json_t *named = RUN_JSON(PROGRAM, result, TINY, "--backend", "null", "--costs", "model");
    json_t *device = RUN_JSON(PROGRAM, result, TINY, "--backend", "null", "--costs", h200);
    json_t *twice =
        RUN_JSON(PROGRAM, result, TINY, "--backend", "null", "--costs", h200, "--accum", "2");
    RP_CHECK_STRING(json_string_at(model, "plan.costs"), "model");
    RP_CHECK_STRING(json_string_at(device, "plan.costs"), "NVIDIA H200 SXM");
    RP_CHECK(json_is_false(json_at(device, "plan.costs_measured")), "it is modelled");
    const int64_t step = json_integer_at(device, "plan.predicted_step_ns");
    RP_CHECK_EQUAL(json_integer_at(named, "plan.predicted_step_ns"),
                   json_integer_at(model, "plan.predicted_step_ns"));
    RP_CHECK(step != json_integer_at(model, "plan.predicted_step_ns"), "another device");
    RP_CHECK(json_integer_at(twice, "plan.predicted_step_ns") >= 2 * step, "two micro-batches");
    json_decref(model);
    json_decref(named);
    json_decref(device);
    json_decref(twice);
    folder_remove(&f);
}

static void test_measured_costs_are_kept_and_completed(void) {
    const folder f = folder_make("costs_measured");
    const char *result = folder_file(&f, "result.json"), *costs = folder_file(&f, "costs.json");
    json_t *first = RUN_JSON(PROGRAM, result, TINY, "--threads", "1", "--measure-costs", costs);
    json_t *second = RUN_JSON(PROGRAM, result, TINY, "--threads", "1", "--costs", costs);
    RP_CHECK(json_is_true(json_at(first, "plan.costs_measured")), "measured");
    RP_CHECK(json_is_true(json_at(second, "plan.costs_measured")), "measured");
    RP_CHECK_EQUAL(json_integer_at(second, "plan.predicted_step_ns"),
                   json_integer_at(first, "plan.predicted_step_ns"));
    RP_CHECK_STRING(json_string_at(second, "plan.plan_hash"),
                    json_string_at(first, "plan.plan_hash"));
    EXPECT(PROGRAM, 4, "was not measured", TINY, "--threads", "1", "--seq", "64", "--costs", costs);
    EXPECT(PROGRAM, 4, "measured on", TINY, "--threads", "2", "--costs", costs);
    EXPECT(PROGRAM, 0, NULL, TINY, "--threads", "2", "--backend", "null", "--costs", costs);
    EXPECT(PROGRAM, 0, NULL, TINY, "--threads", "1", "--seq", "64", "--measure-costs", costs);
    EXPECT(PROGRAM, 0, NULL, TINY, "--threads", "1", "--seq", "64", "--costs", costs);
    json_t *third = RUN_JSON(PROGRAM, result, TINY, "--threads", "1", "--costs", costs);
    RP_CHECK_EQUAL(json_integer_at(third, "plan.predicted_step_ns"),
                   json_integer_at(first, "plan.predicted_step_ns"));
    EXPECT(PROGRAM, 0, NULL, TINY, "--threads", "2", "--measure-costs", costs); /* anew */
    EXPECT(PROGRAM, 4, "measured on", TINY, "--threads", "1", "--costs", costs);
    EXPECT(PROGRAM, 4, "was not measured", TINY, "--threads", "2", "--seq", "64", "--costs", costs);
    RP_CHECK_EQUAL(folder_count(&f), 2);
    json_decref(first);
    json_decref(second);
    json_decref(third);
    folder_remove(&f);
}

static void test_this_machine_is_written_as_a_device(void) {
    const folder f = folder_make("costs_device");
    const char *result = folder_file(&f, "result.json"), *device = folder_file(&f, "this.json");
    EXPECT(PROGRAM, 0, NULL, TINY, "--measure-device", device);
    json_t *r = RUN_JSON(PROGRAM, result, TINY, "--backend", "null", "--costs", device);
    RP_CHECK(json_integer_at(r, "plan.predicted_step_ns") > 0, "its costs are used");
    json_decref(r);
    folder_remove(&f);
}

static void test_statuses_of_costs_that_cannot_be(void) {
    const folder f = folder_make("costs_statuses");
    const char *bad = folder_file(&f, "bad.json"), *missing = folder_file(&f, "missing");
    char h200[PROCESS_PATH];
    snprintf(h200, sizeof h200, "%s", device_file(&f, "h200"));
    file_write(bad, "{\"format\": \"reprise-device\", \"version\": 1, \"name\": \"d\"}");
    EXPECT(PROGRAM, 4, "bad.json: peak_flops is missing", TINY, "--costs", bad);
    EXPECT(PROGRAM, 4, "missing", TINY, "--costs", missing);
    EXPECT(PROGRAM, 4, "bad.json", TINY, "--measure-costs", bad);
    EXPECT(PROGRAM, 4, "is a description", TINY, "--measure-costs", h200);
    EXPECT(PROGRAM, 2, "as well", TINY, "--measure-costs", missing, "--costs", h200);
    EXPECT(PROGRAM, 2, "null backend", TINY, "--measure-costs", missing, "--backend", "null");
    EXPECT(PROGRAM, 2, "null backend", TINY, "--measure-device", missing, "--backend", "null");
    EXPECT(PROGRAM, 2, "--attention unfused", TINY, "--recompute", "attention");
    EXPECT(PROGRAM, 2, "--recompute", TINY, "--recompute", "all");
    RP_CHECK_EQUAL(folder_count(&f), 2);
    folder_remove(&f);
}

/* ---- Recomputing the core of attention ------------------------------------------------------- */

enum { SEQ = 2048 };

typedef struct shape {
    const char *name;
    int64_t layers, width, heads; /* of the paper's Table 3 */
    double published_saving;      /* of the activations; 0: not published */
} shape;

/* s b h (34 + 5 a s / h) bytes a layer, of which the core has 5 a s / h. */
static const shape shapes[] = {
    {"22B", 48, 6144, 64, 0.0},
    {"175B", 96, 12288, 96, 0.70},
    {"530B", 105, 20480, 128, 0.65},
    {"1T", 128, 25600, 160, 0.0},
};

/* One micro-batch of one window of `layers` layers, accumulated, so that gradients are persistent
 * and the peak lies where the activations are. */
static json_t *plan_of(const folder *f, const char *h200, const shape *s, int64_t layers,
                       const char *option, const char *value) {
    char words[3][24];
    snprintf(words[0], sizeof words[0], "%lld", (long long)layers);
    snprintf(words[1], sizeof words[1], "%lld", (long long)s->width);
    snprintf(words[2], sizeof words[2], "%lld", (long long)s->heads);
    return RUN_JSON(PROGRAM, folder_file(f, "result.json"), "--backend", "null", "--costs", h200,
                    "--layers", words[0], "--dim", words[1], "--heads", words[2], "--seq", "2048",
                    "--vocab", "51200", "--batch", "1", "--accum", "2", "--attention", "unfused",
                    "--dropout", "0.1", "--steps", "1", option, value);
}

static int64_t take_integer(json_t *object, const char *path) {
    const int64_t value = json_integer_at(object, path);
    json_decref(object);
    return value;
}

/* Bytes that a layer keeps from forward to backward, exactly: by one layer more. */
static int64_t kept_by_a_layer(const folder *f, const char *h200, const shape *s,
                               const char *recompute) {
    return take_integer(plan_of(f, h200, s, 2, "--recompute", recompute), "memory.kept_bytes") -
           take_integer(plan_of(f, h200, s, 1, "--recompute", recompute), "memory.kept_bytes");
}

/* What we keep in f32 as the paper counts it: two bytes an element, and one for each element of a
 * mask. Ours draws masks again and so keeps none: attention's has the size of the scores, the two
 * of the residual branches that of the stream. The statistics of the two norms, which the paper
 * leaves out, are 2 x 2 f32 a token. */
static void test_layers_keep_what_the_paper_counts(void) {
    const folder f = folder_make("costs_layers");
    char h200[PROCESS_PATH];
    snprintf(h200, sizeof h200, "%s", device_file(&f, "h200"));
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const shape *s = &shapes[i];
        const int64_t sbh = SEQ * s->width, core = s->heads * SEQ * SEQ;
        const int64_t statistics = SEQ * 2 * 2 * 4;
        const int64_t all = (kept_by_a_layer(&f, h200, s, "none") - statistics) / 4;
        const int64_t selective = (kept_by_a_layer(&f, h200, s, "attention") - statistics) / 4;
        RP_CHECK_EQUAL(all, 16 * sbh + 2 * core);
        RP_CHECK_EQUAL(selective, 16 * sbh);
        const int64_t paper_all = 2 * all + core + 2 * sbh,
                      paper_selective = 2 * selective + 2 * sbh;
        RP_CHECK_EQUAL(paper_all, 34 * sbh + 5 * core); /* equation 1 */
        RP_CHECK_EQUAL(paper_selective, 34 * sbh);      /* selective */
        const double saving = 1.0 - (double)paper_selective / (double)paper_all;
        RP_CHECK(s->published_saving == 0.0 || fabs(saving - s->published_saving) < 0.006,
                 "%s: %g saved, published %g", s->name, saving, s->published_saving);
    }
    folder_remove(&f);
}

/* `auto` within the bytes of that point recomputes for less. */
static void test_auto_is_cheaper_than_the_core_of_attention(void) {
    const folder f = folder_make("costs_auto");
    char h200[PROCESS_PATH], budget[32];
    snprintf(h200, sizeof h200, "%s", device_file(&f, "h200"));
    const size_t count = sizeof shapes / sizeof shapes[0];
    for (size_t i = 0; i < rp_test_samples(count, count); i++) {
        const shape *s = &shapes[i];
        json_t *all = plan_of(&f, h200, s, 4, "--recompute", "none");
        json_t *core = plan_of(&f, h200, s, 4, "--recompute", "attention");
        const int64_t peak = json_integer_at(core, "memory.predicted_peak_bytes");
        snprintf(budget, sizeof budget, "%lld", (long long)peak);
        json_t *best = plan_of(&f, h200, s, 4, "--budget", budget);
        RP_CHECK(peak < json_integer_at(all, "memory.predicted_peak_bytes"), "%s: saves", s->name);
        RP_CHECK_EQUAL(json_integer_at(core, "plan.recompute_nodes"),
                       3 * 4); /* scores to dropout */
        RP_CHECK(json_integer_at(best, "memory.predicted_peak_bytes") <= peak, "%s: fits", s->name);
        const int64_t cost = json_integer_at(best, "plan.predicted_recompute_ns"),
                      wanted = json_integer_at(core, "plan.predicted_recompute_ns");
        RP_CHECK(cost > 0 && cost < wanted, "%s: %lld ns, the core of attention %lld", s->name,
                 (long long)cost, (long long)wanted);
        json_decref(all);
        json_decref(core);
        json_decref(best);
    }
    folder_remove(&f);
}

static const rp_test tests[] = {
    RP_TEST(test_costs_are_those_of_the_file),
    RP_TEST(test_measured_costs_are_kept_and_completed),
    RP_TEST(test_this_machine_is_written_as_a_device),
    RP_TEST(test_statuses_of_costs_that_cannot_be),
    RP_TEST(test_layers_keep_what_the_paper_counts),
    RP_TEST(test_auto_is_cheaper_than_the_core_of_attention),
};
RP_SUITE(costs, tests)
