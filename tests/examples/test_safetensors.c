/* safetensors: what is written reads back, and what is malformed is refused with its place. */
#include "common/safetensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

/* A file with this header (length in front) and `bytes` bytes of data: 0, 1, 2, ... */
static void write_file(const char *path, const char *header, size_t bytes) {
    const uint64_t length = strlen(header);
    FILE *file = fopen(path, "wb");
    RP_REQUIRE(file != NULL, "%s can be written", path);
    fwrite(&length, sizeof length, 1, file);
    fwrite(header, 1, length, file);
    for (size_t i = 0; i < bytes; i++)
        fputc((int)(i & 0xFF), file);
    RP_REQUIRE(fclose(file) == 0, "%s is written", path);
}

static void write_raw(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    RP_REQUIRE(file != NULL, "%s can be written", path);
    fwrite(data, 1, bytes, file);
    RP_REQUIRE(fclose(file) == 0, "%s is written", path);
}

/* Tensors and their values, at most six each. */
typedef struct written {
    const safetensors_tensor *tensors;
    float values[3][6];
} written;

static bool copy_values(const void *user, size_t index, float *values, failure *failure) {
    const written *w = user;
    (void)failure;
    memcpy(values, w->values[index],
           (size_t)rp_shape_count(w->tensors[index].shape) * sizeof *values);
    return true;
}

/* The same with an end after the first tensor. */
static bool fail_at_the_second(const void *user, size_t index, float *values, failure *failure) {
    return index == 0 ? copy_values(user, index, values, failure)
                      : fail(failure, STATUS_DEVICE, "it is gone");
}

static void test_tensors_read_back(void) {
    char path[RP_TEST_PATH];
    const safetensors_tensor tensors[] = {{"h.0.weight", RP_F32, RP_SHAPE(2, 3)},
                                          {"scalar", RP_F32, rp_shape_scalar()},
                                          {"none", RP_F32, RP_SHAPE(0, 4)}};
    const written w = {tensors, {{1.0f, -2.5f, 3e-41f, INFINITY, -0.0f, 7.0f}, {0.1f}}};
    const float *a = w.values[0];
    safetensors reader;
    failure failure;
    float back[6];
    rp_test_temporary(path, "tensors.safetensors");
    RP_REQUIRE(safetensors_write(path, "--save", tensors, 3, copy_values, &w, &failure), "%s",
               failure.text);
    RP_REQUIRE(safetensors_open(&reader, path, &failure), "%s", failure.text);
    RP_CHECK_EQUAL(reader.count, 3);
    RP_CHECK_EQUAL(reader.data % 8, 0);
    const safetensors_entry *entry = safetensors_find(&reader, "h.0.weight", "transformer.");
    RP_REQUIRE(entry != NULL, "the tensor is there");
    RP_CHECK_STRING(entry->dtype, "F32");
    RP_CHECK_EQUAL(entry->rank, 2);
    RP_CHECK_EQUAL(entry->dims[0], 2);
    RP_CHECK_EQUAL(entry->dims[1], 3);
    RP_REQUIRE(safetensors_read(&reader, entry, 0, 6, back, &failure), "%s", failure.text);
    RP_CHECK(memcmp(back, a, sizeof back) == 0, "every bit is the same");
    RP_REQUIRE(safetensors_read(&reader, entry, 1, 2, back, &failure), "%s", failure.text);
    RP_CHECK(memcmp(back, a + 1, 2 * sizeof a[0]) == 0, "a part of it too");
    entry = safetensors_find(&reader, "scalar", "transformer.");
    RP_REQUIRE(entry != NULL && entry->rank == 0, "a scalar has rank 0");
    RP_CHECK(safetensors_find(&reader, "absent", "transformer.") == NULL, "nothing else is there");
    safetensors_close(&reader);
    remove(path);
}

/* Halfway between two bf16 numbers lie 1 + 2^-8 (below is even) and 1 + 3 2^-8 (above is); what is
 * too large becomes infinite, and a NaN whose upper half says infinity stays one. */
static void test_bf16_is_rounded_to_nearest_even(void) {
    char path[RP_TEST_PATH];
    const float wanted[6] = {1.0f, 1.015625f, 1.0078125f, -INFINITY, NAN, 9.2e-41f};
    const uint32_t nan = 0x7F800001;
    const safetensors_tensor tensors[] = {{"a", RP_BF16, RP_SHAPE(6)}, {"b", RP_F32, RP_SHAPE(1)}};
    written w = {tensors,
                 {{1.00390625f, 1.01171875f, 1.00390637f, -3.4e38f, 0.0f, 9.2e-41f}, {0.1f}}};
    memcpy(&w.values[0][4], &nan, sizeof nan);
    safetensors reader;
    failure failure;
    float back[6];
    rp_test_temporary(path, "bf16.safetensors");
    RP_REQUIRE(safetensors_write(path, "--save", tensors, 2, copy_values, &w, &failure), "%s",
               failure.text);
    RP_REQUIRE(safetensors_open(&reader, path, &failure), "%s", failure.text);
    const safetensors_entry *entry = safetensors_find(&reader, "a", "");
    RP_REQUIRE(entry != NULL, "the tensor is there");
    RP_CHECK_STRING(entry->dtype, "BF16");
    RP_CHECK_EQUAL(entry->end - entry->begin, 12);
    RP_REQUIRE(safetensors_read(&reader, entry, 0, 6, back, &failure), "%s", failure.text);
    for (int i = 0; i < 5; i++)
        RP_CHECK(isnan(wanted[i]) ? isnan(back[i]) : back[i] == wanted[i], "%d: %g, not %g", i,
                 (double)back[i], (double)wanted[i]);
    RP_CHECK(fabsf(back[5] / wanted[5] - 1.0f) < 0.01f, "a subnormal: %g", (double)back[5]);
    entry = safetensors_find(&reader, "b", "");
    RP_REQUIRE(safetensors_read(&reader, entry, 0, 1, back, &failure), "%s", failure.text);
    RP_CHECK(back[0] == 0.1f, "what lies behind it is whole");
    safetensors_close(&reader);
    RP_CHECK(!safetensors_write(path, "--save", tensors, 2, fail_at_the_second, &w, &failure),
             "a source that fails");
    RP_CHECK_EQUAL(failure.status, STATUS_DEVICE);
    RP_CHECK_STRING(failure.text, "it is gone");
    remove(path);
}

static void test_names_without_their_prefix_are_found(void) {
    char path[RP_TEST_PATH];
    safetensors reader;
    failure failure;
    rp_test_temporary(path, "prefix.safetensors");
    write_file(path,
               "{\"wte.weight\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
               "\"h.0.attn.bias\":{\"dtype\":\"U8\",\"shape\":[1,1,2,2],\"data_offsets\":[4,8]},"
               "\"odd\":{\"dtype\":\"F4_NEW\",\"shape\":[3],\"data_offsets\":[8,9]}}",
               9);
    RP_REQUIRE(safetensors_open(&reader, path, &failure), "%s", failure.text);
    const safetensors_entry *entry =
        safetensors_find(&reader, "transformer.wte.weight", "transformer.");
    RP_CHECK(entry != NULL && strcmp(entry->name, "wte.weight") == 0, "the bare name is found");
    entry = safetensors_find(&reader, "transformer.h.0.attn.bias", "transformer.");
    RP_CHECK(entry != NULL, "the mask buffer is there and harms nobody");
    float value = 0.0f;
    RP_CHECK(!safetensors_read(&reader, entry, 0, 1, &value, &failure), "but it has no real type");
    RP_CHECK_EQUAL(failure.status, STATUS_BAD_INPUT);
    RP_CHECK(strstr(failure.text, "U8") != NULL, "\"%s\" names the type", failure.text);
    safetensors_close(&reader);
    remove(path);
}

static void test_every_real_type_is_widened(void) {
    /* 1, -2, 2^-24 (f16 subnormal), 65504 (largest f16), infinity, NaN; then 1/3 in f64 and bf16 */
    static const uint16_t f16[6] = {0x3C00, 0xC000, 0x0001, 0x7BFF, 0xFC00, 0x7E00};
    static const float wanted16[5] = {1.0f, -2.0f, 0x1p-24f, 65504.0f, -INFINITY};
    const double f64[2] = {1.0 / 3.0, -1e300};
    const uint16_t bf16[2] = {0x3FC0, 0xFF80}; /* 1.5, -infinity */
    static const char header[] =
        "{\"half\":{\"dtype\":\"F16\",\"shape\":[6],\"data_offsets\":[16,28]},"
        "\"brain\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[28,32]},"
        "\"double\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}";
    char path[RP_TEST_PATH];
    unsigned char data[8 + sizeof header - 1 + 32];
    const uint64_t length = sizeof header - 1;
    safetensors reader;
    failure failure;
    float back[6];
    rp_test_temporary(path, "types.safetensors");
    memcpy(data, &length, 8);
    memcpy(data + 8, header, length);
    memcpy(data + 8 + length, f64, 16);
    memcpy(data + 24 + length, f16, 12);
    memcpy(data + 36 + length, bf16, 4);
    write_raw(path, data, sizeof data);
    RP_REQUIRE(safetensors_open(&reader, path, &failure), "%s", failure.text);
    const safetensors_entry *entry = safetensors_find(&reader, "half", "");
    RP_REQUIRE(safetensors_read(&reader, entry, 0, 6, back, &failure), "%s", failure.text);
    RP_CHECK(memcmp(back, wanted16, sizeof wanted16) == 0 && isnan(back[5]), "F16 is exact");
    entry = safetensors_find(&reader, "double", "");
    RP_REQUIRE(safetensors_read(&reader, entry, 0, 2, back, &failure), "%s", failure.text);
    RP_CHECK(back[0] == (float)(1.0 / 3.0) && back[1] == -INFINITY, "F64 is rounded");
    entry = safetensors_find(&reader, "brain", "");
    RP_REQUIRE(safetensors_read(&reader, entry, 0, 2, back, &failure), "%s", failure.text);
    RP_CHECK(back[0] == 1.5f && back[1] == -INFINITY, "BF16 is exact");
    safetensors_close(&reader);
    remove(path);
}

#define ENTRY(shape, offsets)                                                                      \
    "{\"w\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void test_malformed_files_are_refused_with_the_place(void) {
    static const struct {
        const char *header;
        size_t bytes;
        const char *said;
    } rows[] = {
        {"", 0, "JSON"},
        {"nonsense", 0, "JSON"},
        {"[]", 0, "no JSON object"},
        {"{\"w\":", 0, "JSON"},
        {"{\"w\":{}}", 0, "dtype"},
        {"{\"w\":7}", 0, "dtype"},
        {"{\"w\":{\"dtype\":32}}", 0, "dtype"},
        {"{\"w\":{\"dtype\":\"F32F32F32F32F32\"}}", 0, "dtype"},
        {ENTRY("7", "[0,4]"), 4, "shape"},
        {ENTRY("[-1]", "[0,4]"), 4, "shape"},
        {ENTRY("[1.5]", "[0,4]"), 4, "shape"},
        {ENTRY("[1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "shape"},
        {ENTRY("[4294967296,4294967296]", "[0,4]"), 4, "shape"},
        {ENTRY("[4611686018427387904]", "[0,4]"), 4, "elements"},
        {ENTRY("[1]", "[0]"), 4, "data_offsets"},
        {ENTRY("[1]", "[4,0]"), 4, "data_offsets"},
        {ENTRY("[1]", "[-4,0]"), 4, "data_offsets"},
        {ENTRY("[1]", "[0,4.5]"), 4, "data_offsets"},
        {ENTRY("[2]", "[0,8]"), 4, "data_offsets"}, /* truncated */
        {ENTRY("[2]", "[0,4]"), 4, "2 elements"},
        {ENTRY("[1]", "[0,4]"), 5, "5 bytes of data"},
        {ENTRY("[1]", "[4,8]"), 8, "overlap or leave holes"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
         4, "overlap or leave holes"},
        {"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
         "\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
         8, "JSON"},
    };
    char path[RP_TEST_PATH];
    rp_test_temporary(path, "malformed.safetensors");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        safetensors reader;
        failure failure = {0};
        write_file(path, rows[i].header, rows[i].bytes);
        RP_CHECK(!safetensors_open(&reader, path, &failure), "row %zu is refused", i);
        RP_CHECK_EQUAL(failure.status, STATUS_BAD_INPUT);
        RP_CHECK(strstr(failure.text, rows[i].said) != NULL && strstr(failure.text, path) != NULL,
                 "row %zu: \"%s\" has \"%s\" and the file", i, failure.text, rows[i].said);
    }
    remove(path);
}

/* Every length of a good file but the whole one. */
static void test_truncated_files_are_refused(void) {
    char path[RP_TEST_PATH];
    const safetensors_tensor tensors[] = {{"w", RP_F32, RP_SHAPE(3)}};
    const written w = {tensors, {{1.0f, 2.0f, 3.0f}}};
    failure failure;
    size_t length = 0;

    rp_test_temporary(path, "truncated.safetensors");
    RP_REQUIRE(safetensors_write(path, "--save", tensors, 1, copy_values, &w, &failure), "%s",
               failure.text);

    char *whole = rp_test_read_file(path, &length);
    for (size_t bytes = 0; bytes < length; bytes++) {
        safetensors reader;
        write_raw(path, whole, bytes);
        RP_CHECK(!safetensors_open(&reader, path, &failure), "%zu bytes are refused", bytes);
        RP_CHECK_EQUAL(failure.status, STATUS_BAD_INPUT);
    }
    free(whole);
    remove(path);
}

/* Reads everything that a file says it has. */
static void read_all(const char *path) {
    safetensors reader;
    failure failure = {0};
    float values[8];
    if (!safetensors_open(&reader, path, &failure)) {
        RP_CHECK_EQUAL(failure.status, STATUS_BAD_INPUT);
        return;
    }
    for (size_t i = 0; i < reader.count; i++) {
        const safetensors_entry *entry = &reader.entries[i];
        int64_t count = 1;
        for (int d = 0; d < entry->rank; d++)
            count *= entry->dims[d];
        if (count <= 8 && !safetensors_read(&reader, entry, 0, count, values, &failure))
            RP_CHECK_EQUAL(failure.status, STATUS_BAD_INPUT);
    }
    safetensors_close(&reader);
}

/* Every byte of the header replaced by others: read or refused, and nothing else. */
static void test_damaged_headers_are_read_or_refused(void) {
    static const char others[] = {0, '0', '9', '"', '{', '}', '[', ']', ',', '-', 'e', (char)0xFF};
    char path[RP_TEST_PATH];
    const safetensors_tensor tensors[] = {{"w", RP_F32, RP_SHAPE(2)}, {"v", RP_F32, RP_SHAPE(1)}};
    const written w = {tensors, {{1.0f, 2.0f}, {1.0f}}};
    failure failure;
    size_t length = 0;
    rp_test_temporary(path, "damaged.safetensors");
    RP_REQUIRE(safetensors_write(path, "--save", tensors, 2, copy_values, &w, &failure), "%s",
               failure.text);
    char *whole = rp_test_read_file(path, &length);
    for (size_t at = 0; at < length - 3 * sizeof(float); at++) {
        const char before = whole[at];
        for (size_t i = 0; i < sizeof others; i++) {
            whole[at] = others[i];
            write_raw(path, whole, length);
            read_all(path);
        }
        whole[at] = before;
    }
    free(whole);
    remove(path);
}

static void test_files_that_cannot_be_read(void) {
    safetensors reader;
    failure failure;
    RP_CHECK(!safetensors_open(&reader, "no/such/file.safetensors", &failure), "it is not there");
    RP_CHECK_EQUAL(failure.status, STATUS_BAD_INPUT);
    RP_CHECK(strstr(failure.text, "no/such/file.safetensors") != NULL, "%s", failure.text);
    RP_CHECK(!safetensors_open(&reader, "/", &failure), "a folder is no file");
    RP_CHECK_EQUAL(failure.status, STATUS_BAD_INPUT);
    uint64_t huge = UINT64_MAX;
    char path[RP_TEST_PATH];
    rp_test_temporary(path, "huge.safetensors");
    write_raw(path, &huge, sizeof huge);
    RP_CHECK(!safetensors_open(&reader, path, &failure), "a header of 2^64 - 1 bytes is refused");
    RP_CHECK(strstr(failure.text, "18446744073709551615") != NULL, "%s", failure.text);
    remove(path);
}

static const rp_test tests[] = {
    RP_TEST(test_tensors_read_back),
    RP_TEST(test_bf16_is_rounded_to_nearest_even),
    RP_TEST(test_names_without_their_prefix_are_found),
    RP_TEST(test_every_real_type_is_widened),
    RP_TEST(test_malformed_files_are_refused_with_the_place),
    RP_TEST(test_truncated_files_are_refused),
    RP_TEST(test_damaged_headers_are_read_or_refused),
    RP_TEST(test_files_that_cannot_be_read),
};
RP_SUITE(safetensors, tests)
