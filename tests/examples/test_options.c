/* The command line by a table. */
#include "common/train_options.h"

#include <string.h>

#include "unit.h"

typedef struct settings {
    bool flag;
    int64_t count, number;
    double real;
    const char *choice, *text, *operand;
    text_list list;
    size_spec size;
} settings;

/* Parses the words up to NULL. */
static bool parse(settings *s, const char *const *words, bool *help, failure *failure) {
    const option_row rows[] = {
        {"flag", OPTION_FLAG, &s->flag, NULL, "a flag"},
        {"count", OPTION_COUNT, &s->count, "N", "a count"},
        {"number", OPTION_NUMBER, &s->number, "N", "a number"},
        {"real", OPTION_REAL, &s->real, "X", "a real"},
        {"choice", OPTION_CHOICE, &s->choice, "one|two|three", "a choice"},
        {"text", OPTION_TEXT, &s->text, "FILE", "a text"},
        {"list", OPTION_LIST, &s->list, "FILE", "texts"},
        {"size", OPTION_SIZE, &s->size, "SIZE", "a size"},
        {"FILE", OPTION_OPERAND, &s->operand, NULL, "a file"},
    };
    const option_table table = {"test", "tests", rows, sizeof rows / sizeof rows[0]};
    char *argv[16] = {(char *)"test"};
    int argc = 1;
    for (; words[argc - 1] != NULL; argc++)
        argv[argc] = (char *)words[argc - 1];
    *failure = (struct failure){STATUS_DONE, ""};
    return options_parse(&table, argc, argv, help, failure);
}

static void test_options_of_every_kind(void) {
    settings s = {0};
    bool help = false;
    failure failure;
    const char *const words[] = {"--flag",      "--count",  "3",   "--number=0", "--real",
                                 "2.5e-3",      "--choice", "two", "--text",     "--odd",
                                 "--size=1.5K", "file",     NULL};
    RP_REQUIRE(parse(&s, words, &help, &failure), "%s", failure.text);
    RP_CHECK(s.flag && !help, "the flag is set");
    RP_CHECK_EQUAL(s.count, 3);
    RP_CHECK_EQUAL(s.number, 0);
    RP_CHECK(s.real == 2.5e-3, "%g is not 2.5e-3", s.real);
    RP_CHECK_STRING(s.choice, "two");
    RP_CHECK_STRING(s.text, "--odd");
    RP_CHECK_EQUAL(s.size.amount, 1536);
    RP_CHECK_STRING(s.operand, "file");
}

static void test_the_last_of_a_repeated_option_counts_and_lists_grow(void) {
    settings s = {0};
    bool help = false;
    failure failure;
    const char *const words[] = {"--count", "3", "--list",   "a",    "--count", "5", "--list", "b",
                                 "--text",  "x", "--text=y", "file", NULL};
    RP_REQUIRE(parse(&s, words, &help, &failure), "%s", failure.text);
    RP_CHECK_EQUAL(s.count, 5);
    RP_CHECK_STRING(s.text, "y");
    RP_REQUIRE_EQUAL(s.list.count, 2);
    RP_CHECK_STRING(s.list.items[0], "a");
    RP_CHECK_STRING(s.list.items[1], "b");
}

static void test_words_behind_two_dashes_are_operands(void) {
    settings s = {0};
    bool help = false;
    failure failure;
    const char *const words[] = {"--", "--count", NULL};
    RP_REQUIRE(parse(&s, words, &help, &failure), "%s", failure.text);
    RP_CHECK_STRING(s.operand, "--count");
}

static void test_help_needs_nothing_else(void) {
    settings s = {0};
    bool help = false;
    failure failure;
    const char *const words[] = {"--help", "--nonsense", NULL};
    RP_CHECK(parse(&s, words, &help, &failure) && help, "--help is enough");
}

static void test_options_that_are_refused_name_themselves_and_what_was_expected(void) {
    static const struct {
        const char *words[4];
        const char *named, *expected;
    } rows[] = {
        {{"--count", "0", NULL}, "--count \"0\"", "from 1"},
        {{"--count", "-3", NULL}, "--count \"-3\"", "from 1"},
        {{"--count", "2147483648", NULL}, "--count", "2147483647"},
        {{"--count", "3x", NULL}, "--count", "whole number"},
        {{"--count", " 3", NULL}, "--count", "whole number"},
        {{"--count", "", NULL}, "--count", "whole number"},
        {{"--count", NULL}, "--count", "missing"},
        {{"--number", "-1", NULL}, "--number", "from 0"},
        {{"--number", "9223372036854775808", NULL}, "--number", "9223372036854775807"},
        {{"--real", "-1", NULL}, "--real", "from 0 to 3.4e38"},
        {{"--real", "nan", NULL}, "--real", "from 0 to 3.4e38"},
        {{"--real", "1e999", NULL}, "--real", "from 0 to 3.4e38"},
        {{"--real", "1e39", NULL}, "--real", "from 0 to 3.4e38"}, /* finite, but no float */
        {{"--real", "inf", NULL}, "--real", "from 0 to 3.4e38"},
        {{"--real", "1x", NULL}, "--real", "from 0 to 3.4e38"},
        {{"--real", "1.0.0", NULL}, "--real", "from 0 to 3.4e38"},
        {{"--choice", "four", NULL}, "--choice \"four\"", "one|two|three"},
        {{"--choice", "one|two", NULL}, "--choice", "one|two|three"},
        {{"--choice", "", NULL}, "--choice", "one|two|three"},
        {{"--text", "", NULL}, "--text", "not empty"},
        {{"--size", "much", NULL}, "--size \"much\"", "40%"},
        {{"--flag=yes", NULL}, "--flag", "no value"},
        {{"--unknown", NULL}, "--unknown", "--help"},
        {{"-x", NULL}, "-x", "--help"},
        {{"a", "b", NULL}, "\"b\"", "too many"},
        {{NULL}, "FILE", "missing"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        settings s = {0};
        bool help = false;
        failure failure;
        RP_CHECK(!parse(&s, rows[i].words, &help, &failure), "row %zu is refused", i);
        RP_CHECK_EQUAL(failure.status, STATUS_USAGE);
        RP_CHECK(strstr(failure.text, rows[i].named) != NULL &&
                     strstr(failure.text, rows[i].expected) != NULL,
                 "row %zu: \"%s\" has \"%s\" and \"%s\"", i, failure.text, rows[i].named,
                 rows[i].expected);
    }
}

/* The model flags, with the defaults before. */
static bool parse_model(const char *const *words, train_options *options, failure *failure) {
    const option_row rows[] = {TRAIN_OPTION_ROWS(options)};
    const option_table table = {"test", "tests", rows, sizeof rows / sizeof rows[0]};
    char *argv[8] = {(char *)"test"};
    int argc = 1;
    bool help = false;
    for (; words[argc - 1] != NULL; argc++)
        argv[argc] = (char *)words[argc - 1];
    *options = (train_options)TRAIN_OPTIONS;
    return options_parse(&table, argc, argv, &help, failure) &&
           train_options_complete(options, failure);
}

/* Not built yet, or not possible together. */
static void test_model_flags_that_are_refused(void) {
    static const struct {
        const char *words[5], *named;
    } rows[] = {
        {{"--arch", "llama", NULL}, "--arch llama is not built yet"},
        {{"--dtype", "f16", NULL}, "--dtype"},
        {{"--backend", "gpu", NULL}, "--backend \"gpu\""},
        {{"--dim", "10", NULL}, "--dim 10: expected a multiple of --heads 4"},
        {{"--kv-heads", "1", NULL}, "--kv-heads 1"},
        {{"--dropout", "1", NULL}, "--dropout 1"},
        {{"--threads", "1025", NULL}, "--threads 1025: expected at most 1024"},
        {{"--validation", "1.5", NULL}, "--validation 1.5"},
        {{"--accum", "0", NULL}, "--accum"},
        {{"--arch", "bert", NULL}, "--arch"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        train_options options;
        failure failure;
        RP_CHECK(!parse_model(rows[i].words, &options, &failure), "row %zu is refused", i);
        RP_CHECK_EQUAL(failure.status, STATUS_USAGE);
        RP_CHECK(strstr(failure.text, rows[i].named) != NULL, "row %zu: \"%s\" has \"%s\"", i,
                 failure.text, rows[i].named);
    }
}

static void test_model_flags_complete_each_other(void) {
    static const char *const words[] = {"--backend", "auto", "--kv-heads", "4",
                                        "--dtype",   "bf16", NULL};
    train_options options;
    failure failure;
    RP_REQUIRE(parse_model(words, &options, &failure), "%s", failure.text);
    RP_CHECK_EQUAL(options.kv_heads, 4);
    RP_CHECK_EQUAL(options.ffn, 512);
    RP_CHECK_EQUAL(train_options_dtype(&options), RP_BF16);
    RP_CHECK_EQUAL(train_options_backend(&options), RP_BACKEND_CPU);
}

static const rp_test tests[] = {
    RP_TEST(test_options_of_every_kind),
    RP_TEST(test_the_last_of_a_repeated_option_counts_and_lists_grow),
    RP_TEST(test_words_behind_two_dashes_are_operands),
    RP_TEST(test_help_needs_nothing_else),
    RP_TEST(test_options_that_are_refused_name_themselves_and_what_was_expected),
    RP_TEST(test_model_flags_that_are_refused),
    RP_TEST(test_model_flags_complete_each_other),
};
RP_SUITE(options, tests)
