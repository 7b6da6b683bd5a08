/* Output files: whole or not at all. */
#include "common/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static bool exists(const char *path) {
    return access(path, F_OK) == 0;
}

static void put(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    RP_REQUIRE(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, "%s is written", path);
}

static bool holds(const char *path, const char *text) {
    char read[64] = "";
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return false;
    const size_t got = fread(read, 1, sizeof read - 1, file);
    fclose(file);
    read[got] = '\0';
    return strcmp(read, text) == 0;
}

static void test_files_appear_when_they_are_committed(void) {
    char a[RP_TEST_PATH], b[RP_TEST_PATH];
    output_set set = {0};
    failure failure;
    rp_test_temporary(a, "a.txt");
    rp_test_temporary(b, "b.txt");
    put(b, "old");
    RP_REQUIRE(chmod(b, 0640) == 0, "chmod");
    const char *one = outputs_add(&set, "--a", a, &failure);
    const char *two = outputs_add(&set, "--b", b, &failure);
    RP_REQUIRE(one != NULL && two != NULL, "%s", failure.text);
    put(one, "first");
    put(two, "second");
    RP_CHECK(!exists(a) && holds(b, "old"), "nothing has happened yet");
    RP_REQUIRE(outputs_commit(&set, NULL, &failure), "%s", failure.text);
    RP_CHECK(holds(a, "first") && holds(b, "second"), "both are there");
    struct stat info;
    RP_CHECK(stat(b, &info) == 0 && (info.st_mode & 0777) == 0640, "the mode of b has stayed");
    outputs_clear(&set);
    RP_CHECK(holds(a, "first"), "and stay");
    remove(a);
    remove(b);
}

static void test_files_that_are_not_committed_leave_nothing(void) {
    char a[RP_TEST_PATH], b[RP_TEST_PATH], temporary[2 * RP_TEST_PATH];
    output_set set = {0};
    failure failure;
    rp_test_temporary(a, "a.txt");
    rp_test_temporary(b, "b.txt");
    const char *one = outputs_add(&set, "--a", a, &failure);
    RP_REQUIRE(one != NULL && outputs_add(&set, "--b", b, &failure) != NULL, "%s", failure.text);
    snprintf(temporary, sizeof temporary, "%s", one);
    put(one, "first");
    RP_REQUIRE(outputs_commit(&set, "--b", &failure), "%s", failure.text);
    outputs_clear(&set);
    RP_CHECK(!exists(a) && !exists(temporary) && exists(b), "only what was committed is there");
    remove(b);
}

static void test_places_that_cannot_be_written_are_refused(void) {
    static const char *const rows[] = {"no/such/folder/file", ".", "/", "/dev/null/file"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        output_set set = {0};
        failure failure;
        RP_CHECK(outputs_add(&set, "--json", rows[i], &failure) == NULL, "%s", rows[i]);
        RP_CHECK_EQUAL(failure.status, STATUS_OTHER);
        RP_CHECK(strstr(failure.text, "--json") != NULL && strstr(failure.text, rows[i]) != NULL,
                 "%s", failure.text);
        outputs_clear(&set);
    }
}

static void test_two_options_cannot_have_one_file(void) {
    char a[RP_TEST_PATH], same[RP_TEST_PATH + 2];
    output_set set = {0};
    failure failure;
    rp_test_temporary(a, "a.txt");
    snprintf(same, sizeof same, "/%s", a); /* another spelling */
    RP_REQUIRE(outputs_add(&set, "--a", a, &failure) != NULL, "%s", failure.text);
    RP_CHECK(outputs_add(&set, "--b", same, &failure) == NULL, "the same file");
    RP_CHECK_EQUAL(failure.status, STATUS_USAGE);
    outputs_clear(&set);
}

/* /dev/null must stay what it is. */
static void test_devices_are_written_to_and_links_followed(void) {
    char target[RP_TEST_PATH], link[RP_TEST_PATH];
    output_set set = {0};
    failure failure;
    struct stat info;
    rp_test_temporary(target, "target.txt");
    rp_test_temporary(link, "link.txt");
    put(target, "old");
    RP_REQUIRE(symlink(target, link) == 0, "symlink");
    const char *null = outputs_add(&set, "--a", "/dev/null", &failure);
    const char *again = outputs_add(&set, "--b", "/dev/null", &failure);
    const char *linked = outputs_add(&set, "--c", link, &failure);
    RP_REQUIRE(null != NULL && again != NULL && linked != NULL, "%s", failure.text);
    put(null, "text");
    put(linked, "new");
    RP_CHECK(outputs_commit(&set, NULL, &failure), "%s", failure.text);
    RP_CHECK(stat("/dev/null", &info) == 0 && S_ISCHR(info.st_mode), "/dev/null is a device");
    RP_CHECK(lstat(link, &info) == 0 && S_ISLNK(info.st_mode), "the link is a link");
    RP_CHECK(holds(target, "new"), "and its target is new");
    outputs_clear(&set);
    remove(link);
    remove(target);
}

static const rp_test tests[] = {
    RP_TEST(test_files_appear_when_they_are_committed),
    RP_TEST(test_files_that_are_not_committed_leave_nothing),
    RP_TEST(test_places_that_cannot_be_written_are_refused),
    RP_TEST(test_two_options_cannot_have_one_file),
    RP_TEST(test_devices_are_written_to_and_links_followed),
};
RP_SUITE(output, tests)
