/* quickstart: the table's promises, in as few steps as possible. */
#include <stdio.h>
#include <string.h>

#include "process.h"

static void test_every_row_ends_with_the_same_bits_within_its_budget(void) {
    const folder f = folder_make("quickstart");
    const char *file = folder_file(&f, "rows.json");
    const char *const words[] = {"--steps", "1", "--quiet", "--json", file, NULL};
    process done = process_run("quickstart", words);
    RP_CHECK_EQUAL(done.status, 0);
    RP_CHECK_STRING(done.err, "");
    process_free(&done);
    json_t *rows = json_load_file(file, 0, NULL);
    RP_REQUIRE(json_is_array(rows), "the rows are a list");
    RP_CHECK_EQUAL(json_array_size(rows), 4);
    const json_t *first = json_array_get(rows, 0);
    const int64_t keep_all = json_integer_at(first, "memory.keep_all_peak_bytes");
    RP_CHECK(json_integer_at(first, "memory.min_feasible_bytes") < keep_all / 10 * 3,
             "the minimum lies below 30 %%");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        RP_CHECK_STRING(json_string_at(row, "grad_hash"), json_string_at(first, "grad_hash"));
        RP_CHECK_STRING(json_string_at(row, "param_hash"), json_string_at(first, "param_hash"));
        RP_CHECK_EQUAL(json_integer_at(row, "memory.measured_peak_bytes"),
                       json_integer_at(row, "memory.predicted_peak_bytes"));
        RP_CHECK(json_integer_at(row, "memory.measured_peak_bytes") <=
                     json_integer_at(row, "memory.budget_bytes"),
                 "within the budget");
    }
    json_decref(rows);
    folder_remove(&f);
}

static const rp_test tests[] = {
    RP_TEST(test_every_row_ends_with_the_same_bits_within_its_budget),
};
RP_SUITE(quickstart, tests)
