/* Runs the programs of examples/ as a shell would, and looks at what they leave behind. */
#ifndef REPRISE_TESTS_PROCESS_H
#define REPRISE_TESTS_PROCESS_H

#include <jansson.h>

#include "unit.h"

enum { PROCESS_PATH = 1536 };

/* A folder of its own for one test. */
typedef struct folder {
    char path[RP_TEST_PATH];
} folder;

folder folder_make(const char *name);
/* "folder/name"; one of 16 buffers that are used in turn. */
const char *folder_file(const folder *folder, const char *name);
/* Files in it, whatever they are called. */
int folder_count(const folder *folder);
void folder_remove(const folder *folder);

/* Writes a file; ends the test if it cannot. */
void file_write(const char *path, const char *text);
bool file_exists(const char *path);

typedef struct process {
    int status; /* exit status, or 128 + the signal */
    char *out, *err;
} process;

/* Runs a program of build/examples with these words, up to NULL. */
process process_run(const char *program, const char *const *words);
void process_free(process *process);

/* The same, for a check of the status alone; what went wrong is printed if it is another one. */
void process_expect(rp_place place, const char *program, const char *const *words, int status,
                    const char *said);
#define EXPECT(program, status, said, ...)                                                         \
    process_expect(RP_HERE(false), program, (const char *const[]){__VA_ARGS__, NULL}, status, said)

/* Starts a program and does not wait; its process id. Its output goes nowhere. */
int process_start(const char *program, const char *const *words);
/* Waits for it: exit status, or 128 + the signal. */
int process_wait(int id);

/* Runs with --json FILE and reads the file; ends the test if the status is another one. */
json_t *process_json(const char *program, const char *file, const char *const *words, int status);
#define RUN_JSON(program, file, ...)                                                               \
    process_json(program, file, (const char *const[]){__VA_ARGS__, NULL}, 0)

/* Members by a path with dots, "memory.budget_bytes"; end the test if they are missing or no such
 * thing. */
const json_t *json_at(const json_t *object, const char *path);
int64_t json_integer_at(const json_t *object, const char *path);
double json_real_at(const json_t *object, const char *path);
const char *json_string_at(const json_t *object, const char *path);

#endif
