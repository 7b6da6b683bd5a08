/* Tokens, windows and initial numbers: the rules that the PyTorch twin follows too. */
#include "common/data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "unit.h"

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    RP_REQUIRE(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, "%s is written", path);
}

/* The first bytes of peers' synthetic_data. */
static void test_synthetic_bytes(void) {
    data data;
    failure failure;
    uint32_t x = 1, t = 0;
    RP_REQUIRE(data_load(&data, NULL, 0, 100, 128, &failure), "%s", failure.text);
    RP_CHECK_EQUAL(data.count, 262144);
    bool same = true;
    for (int i = 0; i < 262144; i++) {
        x = (uint32_t)((1664525ULL * x + 1013904223ULL) % 4294967296ULL);
        t = (5 * t + 17 + x / 1073741824U) % 100;
        same = same && data.tokens[i] == t;
    }
    RP_CHECK(same, "every byte follows the rule");
    data_free(&data);
    RP_REQUIRE(data_load(&data, NULL, 0, 50257, 128, &failure), "%s", failure.text);
    /* x = 1015568748, 1586005467, 2165703038: top bits 0, 1, 2 */
    RP_CHECK_EQUAL(data.tokens[0], 17);
    RP_CHECK_EQUAL(data.tokens[1], (5 * 17 + 17 + 1) % 256);
    RP_CHECK_EQUAL(data.tokens[2], (5 * 103 + 17 + 2) % 256);
    data_free(&data);
}

static void test_files_are_joined_and_windows_wrap(void) {
    char first[RP_TEST_PATH], second[RP_TEST_PATH];
    data data;
    failure failure;
    int32_t tokens[8] = {0}, targets[8] = {0};
    rp_test_temporary(first, "first.txt");
    rp_test_temporary(second, "second.txt");
    write_text(first, "abcdef");
    write_text(second, "ghijk");
    const char *const paths[] = {first, second};
    RP_REQUIRE(data_load(&data, paths, 2, 256, 4, &failure), "%s", failure.text);
    RP_CHECK_EQUAL(data.count, 11);
    RP_CHECK_EQUAL(data_window(&data, 0, 4), 0);
    RP_CHECK_EQUAL(data_window(&data, 1, 4), 4);
    RP_CHECK_EQUAL(data_window(&data, 2, 4), 2); /* 8 mod (11 - 4 - 1) */
    RP_CHECK_EQUAL(data_window(&data, INT64_MAX, 4), (int64_t)((INT64_MAX % 6) * 4 % 6));
    data_copy_window(&data, 4, 4, 1, tokens, targets);
    RP_CHECK(tokens[3] == 0 && tokens[4] == 'e' && tokens[7] == 'h', "inputs of row 1");
    RP_CHECK(targets[4] == 'f' && targets[7] == 'i', "targets of row 1");
    data_free(&data);
    remove(first);
    remove(second);
}

static void test_texts_that_are_refused(void) {
    char path[RP_TEST_PATH];
    data data;
    failure failure;
    const char *const paths[] = {rp_test_temporary(path, "short.txt")};
    const char *const missing[] = {"no/such/text"};
    const char *const folder[] = {"."};
    write_text(path, "");
    RP_CHECK(!data_load(&data, paths, 1, 256, 4, &failure), "an empty text is refused");
    RP_CHECK_EQUAL(failure.status, STATUS_BAD_INPUT);
    write_text(path, "abcde");
    RP_CHECK(!data_load(&data, paths, 1, 256, 4, &failure), "5 tokens are fewer than 4 + 2");
    RP_CHECK(strstr(failure.text, "5 tokens") != NULL && strstr(failure.text, path) != NULL, "%s",
             failure.text);
    write_text(path, "abcdef");
    RP_CHECK(data_load(&data, paths, 1, 256, 4, &failure), "6 tokens are enough");
    data_free(&data);
    RP_CHECK(!data_load(&data, paths, 1, 'd', 4, &failure), "d is no token below d");
    RP_CHECK(strstr(failure.text, "token 100 at offset 3") != NULL, "%s", failure.text);
    RP_CHECK(!data_load(&data, missing, 1, 256, 4, &failure), "a missing file is refused");
    RP_CHECK_EQUAL(failure.status, STATUS_BAD_INPUT);
    RP_CHECK(!data_load(&data, folder, 1, 256, 4, &failure), "a folder is refused");
    RP_CHECK_EQUAL(failure.status, STATUS_BAD_INPUT);
    remove(path);
}

static void test_what_is_held_out_is_never_trained_on(void) {
    data data;
    failure failure;
    RP_REQUIRE(data_load(&data, NULL, 0, 256, 128, &failure), "%s", failure.text);
    RP_REQUIRE(data_hold_out(&data, 0.25, 128, &failure), "%s", failure.text);
    RP_CHECK_EQUAL(data.train, 196608);
    for (int64_t row = 0; row < 5000; row++)
        RP_CHECK(data_window(&data, row, 128) + 129 <= data.train, "row %lld", (long long)row);
    const int64_t windows = data_validation_windows(&data, 128);
    RP_CHECK_EQUAL(windows, (65536 - 1) / 128);
    RP_CHECK_EQUAL(data_validation_window(&data, 0, 128), 196608);
    RP_CHECK(data_validation_window(&data, windows - 1, 128) + 129 <= data.count, "the last fits");
    RP_CHECK(!data_hold_out(&data, 0.0001, 128, &failure), "26 tokens are no window");
    RP_CHECK(!data_hold_out(&data, 0.9999, 128, &failure), "26 tokens cannot be trained on");
    RP_CHECK_EQUAL(failure.status, STATUS_BAD_INPUT);
    data_free(&data);
}

static void test_an_unread_tail_serves_as_validation(void) {
    data data;
    failure failure;
    RP_REQUIRE(data_load(&data, NULL, 0, 256, 128, &failure), "%s", failure.text);
    const int64_t tail = 262144 / 100 * 5, most = (262144 - tail - 1) / 128;
    data_find_unread_tail(&data, most, 128);
    RP_CHECK_EQUAL(data.validation, tail);
    RP_CHECK_EQUAL(data.train, data.count); /* the windows are those of every other program */
    RP_CHECK(data_window(&data, most - 1, 128) + 129 <= data.count - tail, "no row reads it");
    data_find_unread_tail(&data, most + 1, 128);
    RP_CHECK_EQUAL(data.validation, 0);
    data_free(&data);
}

static void test_hashes_tell_every_bit(void) {
    const float a[2] = {0.0f, 1.0f}, b[2] = {-0.0f, 1.0f}, c[2] = {1.0f, 0.0f};
    RP_CHECK(hash_floats(HASH_START, a, 2) != hash_floats(HASH_START, b, 2), "0 and -0 differ");
    RP_CHECK(hash_floats(HASH_START, a, 2) != hash_floats(HASH_START, c, 2), "order counts");
    RP_CHECK(hash_floats(HASH_START, a, 1) != hash_floats(HASH_START, a, 2), "length counts");
    const uint64_t parts = hash_floats(hash_floats(HASH_START, a, 1), a + 1, 1);
    RP_CHECK(parts == hash_floats(HASH_START, a, 2), "parts give the whole");
}

static const rp_test tests[] = {
    RP_TEST(test_synthetic_bytes),
    RP_TEST(test_files_are_joined_and_windows_wrap),
    RP_TEST(test_texts_that_are_refused),
    RP_TEST(test_what_is_held_out_is_never_trained_on),
    RP_TEST(test_an_unread_tail_serves_as_validation),
    RP_TEST(test_hashes_tell_every_bit),
};
RP_SUITE(data, tests)
