/* Every detector fires: each program of bugs.cu is run in a process of its own, and what it says is
 * looked at. A detector that belongs to a sanitizer is looked at in a build with it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

enum { TEXT = 65536 };

/* Which builds tell it. */
typedef enum build { ANY = 7, PLAIN = 1, ADDRESS = 2, THREAD = 4 } build;

#if defined(RP_EMULATOR_ASAN)
static const build this_build = ADDRESS;
#elif defined(RP_EMULATOR_TSAN)
static const build this_build = THREAD;
#else
static const build this_build = PLAIN;
#endif

typedef struct detector {
    const char *bug, *environment;
    int builds;
    const char *told; /* part of what is said */
    bool has_line;    /* the marked line of bugs.cu is named */
} detector;

static const detector detectors[] = {
    {"barrier_in_a_branch", "", ANY, "barrier", true},
    {"barriers_in_two_branches", "", ANY, "threads of one block are at different barriers", true},
    {"return_before_a_barrier", "", ANY, "barrier", true},
    {"shuffle_in_a_branch", "", ANY, "a lane ends while others of its warp wait for it", true},
    {"two_shuffles", "", ANY, "lanes of one mask are at different warp intrinsics", true},
    {"mask_without_itself", "", ANY, "with a mask without itself", true},
    {"deadlock", "", ANY, "deadlock", true},
    {"unset_shared", "", PLAIN | THREAD, "wrong: element 7 is not a number", false},
    {"unset_dynamic", "", ANY, "wrong: element 7 is not a number", false},
    {"unset_memory", "", ANY, "wrong: element 0 is not a number", false},
    {"missing_barrier", "", PLAIN | THREAD, "wrong: element 0 is not a number", false},
    {"missing_barrier", "", THREAD, "ThreadSanitizer: data race", true},
    {"missing_syncwarp", "", THREAD, "ThreadSanitizer: data race", true},
    {"second_syncwarp", "", THREAD, "ThreadSanitizer: data race", true},
    {"missing_atomic", "", THREAD, "ThreadSanitizer: data race", true},
    {"missing_atomic_in_a_block", "", THREAD, "ThreadSanitizer: data race", true},
    {"neighbour", "", THREAD, "ThreadSanitizer: data race", true},
    {"neighbour", "RP_EMULATOR_SHUFFLE=1", ANY, "wrong: ", false},
    {"beyond", "", PLAIN, "touched", false},
    {"beyond", "", THREAD, "SEGV", true},
    {"beyond", "", ADDRESS, "AddressSanitizer", true},
    {"beyond_shared", "", ADDRESS, "out of bounds", true},
    {"beyond_dynamic", "", ADDRESS, "AddressSanitizer", true},
    {"beyond_local", "", ADDRESS, "out of bounds", true},
    {"misaligned", "", ADDRESS, "misaligned address", true},
    {"host_pointer", "", ANY, "is no memory of the device", true},
    {"freed_memory", "", ANY, "is no memory of the device", true},
    {"freed_hidden_memory", "", PLAIN, "touched", false},
    {"freed_hidden_memory", "", ADDRESS, "AddressSanitizer", false},
    {"host_access", "RP_EMULATOR_GUARD=1", PLAIN, "host code touched", false},
    {"missing_event", "RP_EMULATOR_DEFER=1 RP_EMULATOR_SEED=2", ANY, "wrong: ", false},
    {"missing_wait", "RP_EMULATOR_DEFER=1", ANY, "wrong: 5, not 0", false},
    {"product_on_itself", "", ANY, "D lies on A or B", false},
    {"product_unaligned", "", ANY, "is not aligned to 256", false},
    {"product_without_scratch", "", ANY, "0 bytes of scratch", false},
};

/* What `bugs BUG` says, all of it; `text` has room for TEXT bytes. */
static void run_bug(const detector *d, char *text) {
    char command[1024];
    /* In plain order, whatever this process runs in. ThreadSanitizer waits at the end. */
    snprintf(command, sizeof command,
             "export RP_EMULATOR_SEED=0 RP_EMULATOR_SHUFFLE=0 RP_EMULATOR_DEFER=0 "
             "RP_EMULATOR_GUARD=0 TSAN_OPTIONS=atexit_sleep_ms=0; %s '%s' %s 2>&1",
             d->environment, RP_EMULATOR_BUGS, d->bug);
    FILE *pipe = popen(command, "r");
    RP_REQUIRE(pipe != NULL, "%s cannot be run", command);
    const size_t length = fread(text, 1, TEXT - 1, pipe);
    text[length] = 0;
    while (fgetc(pipe) != EOF)
        continue;
    pclose(pipe);
}

/* The line of bugs.cu that ends with "// NAME"; 0: none. */
static int marked_line(const char *source, const char *name) {
    char mark[128];
    int line = 1;
    snprintf(mark, sizeof mark, "// %s\n", name);
    const char *at = strstr(source, mark);
    if (at == NULL)
        return 0;
    for (; source < at; source++)
        line += *source == '\n';
    return line;
}

static void test_every_planted_bug_is_told(void) {
    static char text[TEXT];
    char *source = rp_test_read_file("emulator/bugs.cu", NULL);
    for (size_t i = 0; i < sizeof detectors / sizeof detectors[0]; i++) {
        const detector *d = &detectors[i];
        if ((d->builds & (int)this_build) == 0)
            continue;
        run_bug(d, text);
        RP_CHECK(strstr(text, d->told) != NULL, "%s %s: \"%s\" is not told, but:\n%.2000s",
                 d->environment, d->bug, d->told, text);
        if (!d->has_line)
            continue;
        char place[64];
        const int line = marked_line(source, d->bug);
        snprintf(place, sizeof place, "bugs.cu:%d", line);
        RP_CHECK(line > 0 && strstr(text, place) != NULL, "%s: %s is not told, but:\n%.2000s",
                 d->bug, place, text);
    }
    free(source);
}

/* Switched off, a detector says nothing: the switch is the environment's, and it is looked at. */
static void test_detectors_are_switched_off_by_the_environment(void) {
    static char text[TEXT];
    static const detector off[] = {
        {"barriers_in_two_branches", "RP_EMULATOR_DIVERGENCE=0", ANY, "done: 1", false},
        {"host_pointer", "RP_EMULATOR_POINTERS=0", ANY, "done: 0", false},
        {"unset_memory", "RP_EMULATOR_FILL=0", ANY, "done: 0", false},
        {"host_access", "", ANY, "done: 0", false},
        {"missing_wait", "", ANY, "done: 0", false},
    };
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++) {
        run_bug(&off[i], text);
        RP_CHECK(strstr(text, off[i].told) != NULL && strstr(text, "wrong") == NULL,
                 "%s %s says:\n%.2000s", off[i].environment, off[i].bug, text);
    }
}

static const rp_test tests[] = {
    RP_TEST(test_every_planted_bug_is_told),
    RP_TEST(test_detectors_are_switched_off_by_the_environment),
};
RP_SUITE(detectors, tests)
