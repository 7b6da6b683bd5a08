/* SIZE: the whole grammar, exact to the byte. */
#include "common/size.h"

#include "unit.h"

#define KIB INT64_C(1024)

static void test_sizes_in_bytes(void) {
    static const struct {
        const char *text;
        int64_t bytes;
    } rows[] = {
        {"0", 0},
        {"123456", 123456},
        {"9223372036854775807", INT64_MAX},
        {"007", 7},
        {"512K", 512 * KIB},
        {"512KiB", 512 * KIB},
        {"1.5GiB", 3 * KIB * KIB * KIB / 2},
        {"1.5G", 3 * KIB * KIB * KIB / 2},
        {"2M", 2 * KIB * KIB},
        {"2MiB", 2 * KIB * KIB},
        {"3T", 3 * KIB * KIB * KIB * KIB},
        {"3TiB", 3 * KIB * KIB * KIB * KIB},
        {"1P", KIB * KIB * KIB * KIB * KIB},
        {"7EiB", 7 * KIB * KIB * KIB * KIB * KIB * KIB},
        {"0.1K", 102}, /* 102.4 */
        {"0.0001K", 0},
        {"1.999999999999999999999K", 2047},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_spec size = {0};
        int64_t bytes = -1;
        RP_CHECK(size_parse(rows[i].text, &size), "%s is a size", rows[i].text);
        RP_CHECK(!size_is_relative(&size), "%s stands alone", rows[i].text);
        RP_CHECK(size_resolve(&size, 1, 1, &bytes) && bytes == rows[i].bytes,
                 "%s: %lld, not %lld bytes", rows[i].text, (long long)bytes,
                 (long long)rows[i].bytes);
    }
}

static void test_sizes_that_are_refused(void) {
    static const char *const rows[] = {
        "",
        " ",
        "-1",
        "+1",
        "1 ",
        " 1",
        "1e9",
        "0x10",
        "1.5",
        "1.",
        ".5K",
        "1..5K",
        "K",
        "KiB",
        "%",
        "1KB",
        "1k",
        "1kib",
        "1Ki",
        "1KiBs",
        "1 K",
        "12,5K",
        "40 %",
        "40%%",
        "-40%",
        "max ",
        "MAX",
        "minimum",
        "nan",
        "inf",
        "1.K",
        "12.%",
        "8E",
        "8EiB",
        "9E",
        "16384P",
        "1Z",
        "9223372036854775808",
        "99999999999999999999",
        "9007199254740993K",
        "9223372036854775808%",
        "1B",
        "ten",
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_spec size = {SIZE_BYTES, 42, 1};
        RP_CHECK(!size_parse(rows[i], &size), "\"%s\" is no size", rows[i]);
        RP_CHECK_EQUAL(size.amount, 42);
    }
}

static void test_sizes_relative_to_the_graph(void) {
    static const struct {
        const char *text;
        int64_t peak, bytes;
    } rows[] = {
        {"max", 1000, 1000},
        {"min", 1000, 7},
        {"40%", 1000, 400},
        {"40%", 1001, 400}, /* 400.4 */
        {"33.3%", 1000, 333},
        {"100%", 895252484, 895252484},
        {"0%", 1000, 0},
        {"250%", 10, 25},
        {"99.9999999999999999999%", 1000, 999},
        {"1000000000000.5%", 2, 20000000000},
        {"90%", INT64_MAX, 8301034833169298226}, /* no double could */
        {"100%", INT64_MAX, INT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_spec size = {0};
        int64_t bytes = -1;
        RP_CHECK(size_parse(rows[i].text, &size), "%s is a size", rows[i].text);
        RP_CHECK(size_is_relative(&size), "%s needs the graph", rows[i].text);
        RP_CHECK(size_resolve(&size, rows[i].peak, 7, &bytes) && bytes == rows[i].bytes,
                 "%s of %lld: %lld, not %lld", rows[i].text, (long long)rows[i].peak,
                 (long long)bytes, (long long)rows[i].bytes);
    }
    size_spec size = {0};
    int64_t bytes = 0;
    RP_CHECK(size_parse("200%", &size), "200%% is a size");
    RP_CHECK(!size_resolve(&size, INT64_MAX, 0, &bytes), "twice 2^63 - 1 does not fit");
}

static void test_no_size_is_no_limit(void) {
    const size_spec none = {0};
    int64_t bytes = 0;
    RP_CHECK(size_resolve(&none, 1, 1, &bytes), "no size resolves");
    RP_CHECK_EQUAL(bytes, INT64_MAX);
}

static const rp_test tests[] = {
    RP_TEST(test_sizes_in_bytes),
    RP_TEST(test_sizes_that_are_refused),
    RP_TEST(test_sizes_relative_to_the_graph),
    RP_TEST(test_no_size_is_no_limit),
};
RP_SUITE(size, tests)
