/* A thin layer over CUnit.
 *
 * A suite is a table of rows in a file test_<name>.c:
 *
 *   static void test_budget_of_zero_is_refused(void) {
 *       RP_CHECK_STATUS(context, rp_plan_create(...), RP_INFEASIBLE);
 *   }
 *
 *   static const rp_test tests[] = {
 *       RP_TEST(test_budget_of_zero_is_refused),
 *   };
 *   RP_SUITE(strategy, tests)
 *
 * and one line `RP_SUITE_ROW(strategy)` in the folder's suite_list.h. CUnit's checks are not for
 * threads: a test that starts some collects what they found and checks it after the join.
 */
#ifndef REPRISE_TESTS_UNIT_H
#define REPRISE_TESTS_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <CUnit/CUnit.h>

#include <reprise/extend.h>

typedef struct rp_test {
    const char *name;
    void (*run)(void);
} rp_test;

typedef struct rp_suite {
    const char *name;
    const rp_test *tests;
    size_t count;
} rp_suite;

#define RP_TEST(function)                                                                          \
    { #function, function }

#define RP_SUITE(name, table)                                                                      \
    extern const rp_suite rp_suite_##name;                                                         \
    const rp_suite rp_suite_##name = {#name, table, sizeof(table) / sizeof((table)[0])};

/* Runs the suites and prints CUnit's summary. An argument keeps only the tests whose "suite/name"
 * contains it; --list before it prints the names and runs none. Returns the exit status: 0 only if
 * at least one test ran and none failed. */
int rp_unit_main(int argc, char **argv, const rp_suite *const *suites, size_t count);

/* RP_TEST_LONG=1 in the environment: run what does not fit the usual time. */
bool rp_test_is_long(void);

/* How many random samples to take: `all` if the run is long, `usual`, or a quarter of that with
 * RP_TEST_BRIEF=1, which is for further builds of what one build has tested. */
uint64_t rp_test_samples(uint64_t usual, uint64_t all);

/* A context with the C library's allocator and `threads` threads (0: all); ends the test if there
 * is none. */
rp_context *rp_test_context(int threads);

/* In `path`: the full name for a temporary file in the working directory, the process id in it. */
#define RP_TEST_PATH 1024
const char *rp_test_temporary(char path[RP_TEST_PATH], const char *name);

/* A file's bytes with a 0 behind them, from malloc; ends the test if it cannot be read. `length`
 * may be NULL. A relative path is looked up in the folder tests/. */
char *rp_test_read_file(const char *path, size_t *length);

/* Where the check stands, passed along by the macros. */
typedef struct rp_place {
    const char *file, *function;
    int line;
    bool fatal; /* a check that fails ends the test */
} rp_place;

#define RP_HERE(is_fatal) ((rp_place){__FILE__, __func__, __LINE__, is_fatal})

/* Each returns whether the check passed. */
bool rp_check_status(rp_place place, const rp_context *context, const char *text, rp_status got,
                     rp_status wanted);
bool rp_check_equal(rp_place place, const char *text, int64_t got, int64_t wanted);
bool rp_check_near(rp_place place, const char *text, double got, double wanted, double relative);
bool rp_check_string(rp_place place, const char *text, const char *got, const char *wanted);
bool rp_check_message(rp_place place, const rp_context *context, const char *part);
bool rp_check_true(rp_place place, bool condition, const char *format, ...) RP_PRINTF(3, 4);

/* The status is RP_OK; if not, its name and the context's message are printed. `context` may be
 * NULL. */
#define RP_CHECK_OK(context, call) rp_check_status(RP_HERE(false), context, #call, call, RP_OK)
/* The same, and the test ends here if it is not. */
#define RP_REQUIRE_OK(context, call) rp_check_status(RP_HERE(true), context, #call, call, RP_OK)
/* The status is the one wanted. */
#define RP_CHECK_STATUS(context, call, wanted)                                                     \
    rp_check_status(RP_HERE(false), context, #call, call, wanted)
/* Integers; both are printed. */
#define RP_CHECK_EQUAL(got, wanted)                                                                \
    rp_check_equal(RP_HERE(false), #got " == " #wanted, (int64_t)(got), (int64_t)(wanted))
#define RP_REQUIRE_EQUAL(got, wanted)                                                              \
    rp_check_equal(RP_HERE(true), #got " == " #wanted, (int64_t)(got), (int64_t)(wanted))
/* |got - wanted| <= relative * |wanted|; NaN fails. */
#define RP_CHECK_NEAR(got, wanted, relative)                                                       \
    rp_check_near(RP_HERE(false), #got, got, wanted, relative)
#define RP_CHECK_STRING(got, wanted) rp_check_string(RP_HERE(false), #got, got, wanted)
/* The context's message contains `part`. */
#define RP_CHECK_MESSAGE(context, part) rp_check_message(RP_HERE(false), context, part)
/* A condition with words of your own: RP_CHECK(x < y, "row %d: %g is not below %g", row, x, y). */
#define RP_CHECK(condition, ...) rp_check_true(RP_HERE(false), condition, __VA_ARGS__)
#define RP_REQUIRE(condition, ...) rp_check_true(RP_HERE(true), condition, __VA_ARGS__)

#endif
