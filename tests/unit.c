/* The layer over CUnit: registers tables of tests, runs them, and returns an exit status that tells
 * (CUnit's own runner returns 0 when tests fail). */
#include "unit.h"

#include <CUnit/Basic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT = 1024 };

/* ---- Running --------------------------------------------------------------------------------- */

static bool is_wanted(const rp_suite *suite, const rp_test *test, const char *filter) {
    char name[TEXT];
    snprintf(name, sizeof name, "%s/%s", suite->name, test->name);
    return strstr(name, filter) != NULL;
}

/* Registers the tests of one suite whose names contain `filter`; false when CUnit refuses. */
static bool register_suite(const rp_suite *suite, const char *filter, bool list) {
    CU_pSuite registered = NULL;
    for (size_t i = 0; i < suite->count; i++) {
        const rp_test *test = &suite->tests[i];
        if (!is_wanted(suite, test, filter))
            continue;
        if (list) {
            printf("%s/%s\n", suite->name, test->name);
            continue;
        }
        if (registered == NULL)
            registered = CU_add_suite(suite->name, NULL, NULL);
        if (registered == NULL || CU_add_test(registered, test->name, test->run) == NULL) {
            fprintf(stderr, "%s/%s: %s\n", suite->name, test->name, CU_get_error_msg());
            return false;
        }
    }
    return true;
}

static int run_registered(const char *program) {
    if (CU_get_registry()->uiNumberOfTests == 0) {
        fprintf(stderr, "%s: no test of that name\n", program);
        return 1;
    }
    CU_basic_set_mode(CU_BRM_NORMAL);
    const CU_ErrorCode error = CU_basic_run_tests();
    const unsigned ran = CU_get_number_of_tests_run();
    const unsigned failed = CU_get_number_of_tests_failed() + CU_get_number_of_suites_failed() +
                            CU_get_number_of_failures();
    if (error != CUE_SUCCESS)
        fprintf(stderr, "%s: %s\n", program, CU_get_error_msg());
    printf("%u cases, %u failed\n", ran, CU_get_number_of_tests_failed());
    return error == CUE_SUCCESS && ran > 0 && failed == 0 ? 0 : 1;
}

int rp_unit_main(int argc, char **argv, const rp_suite *const *suites, size_t count) {
    const bool list = argc > 1 && strcmp(argv[1], "--list") == 0;
    const char *filter = argc > (list ? 2 : 1) ? argv[list ? 2 : 1] : "";
    if (CU_initialize_registry() != CUE_SUCCESS) {
        fprintf(stderr, "%s: %s\n", argv[0], CU_get_error_msg());
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++)
        status = register_suite(suites[i], filter, list) ? 0 : 1;
    if (status == 0 && !list)
        status = run_registered(argv[0]);
    CU_cleanup_registry();
    return status;
}

static bool is_set(const char *variable) {
    const char *text = getenv(variable);
    return text != NULL && strcmp(text, "") != 0 && strcmp(text, "0") != 0;
}

bool rp_test_is_long(void) {
    return is_set("RP_TEST_LONG");
}

uint64_t rp_test_samples(uint64_t usual, uint64_t all) {
    if (rp_test_is_long())
        return all;
    return is_set("RP_TEST_BRIEF") ? (usual + 3) / 4 : usual;
}

/* ---- Helpers --------------------------------------------------------------------------------- */

const char *rp_test_temporary(char path[RP_TEST_PATH], const char *name) {
    RP_REQUIRE(getcwd(path, RP_TEST_PATH - 100) != NULL, "the working directory has no name");
    const size_t used = strlen(path);
    snprintf(path + used, RP_TEST_PATH - used, "/tmp.%ld.%s", (long)getpid(), name);
    return path;
}

char *rp_test_read_file(const char *path, size_t *length) {
    char full[TEXT];
    snprintf(full, sizeof full, "%s%s", path[0] == '/' ? "" : RP_TEST_FOLDER "/", path);
    FILE *file = fopen(full, "rb");
    RP_REQUIRE(file != NULL, "%s: cannot be opened", full);
    char *text = NULL;
    size_t used = 0, capacity = 0;
    while (!feof(file) && !ferror(file)) {
        if (capacity - used < 2)
            text = realloc(text, capacity = capacity ? capacity * 2 : 4096);
        RP_REQUIRE(text != NULL, "%s: no memory", full);
        used += fread(text + used, 1, capacity - used - 1, file);
    }
    RP_CHECK(!ferror(file), "%s: cannot be read", full);
    fclose(file);
    text[used] = 0;
    if (length != NULL)
        *length = used;
    return text;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

bool rp_check_true(rp_place place, bool condition, const char *format, ...) {
    char text[TEXT] = "";
    if (!condition) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
    }
    CU_assertImplementation(condition ? CU_TRUE : CU_FALSE, (unsigned)place.line, text, place.file,
                            place.function, place.fatal ? CU_TRUE : CU_FALSE);
    return condition;
}
