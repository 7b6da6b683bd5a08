/* Running programs. */
#include "process.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MOST_WORDS = 64 };

folder folder_make(const char *name) {
    folder made;
    rp_test_temporary(made.path, name);
    RP_REQUIRE(mkdir(made.path, 0777) == 0, "%s cannot be made", made.path);
    return made;
}

const char *folder_file(const folder *folder, const char *name) {
    static char paths[16][PROCESS_PATH];
    static size_t next;
    char *path = paths[next++ % 16];
    snprintf(path, PROCESS_PATH, "%s/%s", folder->path, name);
    return path;
}

/* Visits every entry; removes it if asked. */
static int visit(const folder *folder, bool remove_them) {
    int count = 0;
    DIR *opened = opendir(folder->path);
    RP_REQUIRE(opened != NULL, "%s cannot be read", folder->path);
    for (const struct dirent *entry; (entry = readdir(opened)) != NULL;) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        if (remove_them)
            unlink(folder_file(folder, entry->d_name));
    }
    closedir(opened);
    return count;
}

int folder_count(const folder *folder) {
    return visit(folder, false);
}

void folder_remove(const folder *folder) {
    visit(folder, true);
    rmdir(folder->path);
}

void file_write(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    RP_REQUIRE(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0, "%s is not written",
               path);
}

bool file_exists(const char *path) {
    return access(path, F_OK) == 0;
}

/* ---- Processes ------------------------------------------------------------------------------- */

static int start(const char *program, const char *const *words, const char *out, const char *err) {
    char path[PROCESS_PATH];
    char *argv[MOST_WORDS] = {(char *)program};
    size_t count = 0;
    pid_t id = -1;
    posix_spawn_file_actions_t actions;
    for (; words[count] != NULL; count++) {
        RP_REQUIRE(count + 2 < MOST_WORDS, "too many words for %s", program);
        argv[count + 1] = (char *)words[count];
    }
    snprintf(path, sizeof path, "%s/%s", RP_TEST_PROGRAMS, program);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, out, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    posix_spawn_file_actions_addopen(&actions, 2, err, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    /* A shell starts what it runs in the background with signals ignored, and that is inherited. */
    posix_spawnattr_t attributes;
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    const int failed = posix_spawn(&id, path, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    RP_REQUIRE(failed == 0, "%s does not start: %s", path, strerror(failed));
    return (int)id;
}

int process_start(const char *program, const char *const *words) {
    return start(program, words, "/dev/null", "/dev/null");
}

int process_wait(int id) {
    int state = 0;
    RP_REQUIRE(waitpid((pid_t)id, &state, 0) == (pid_t)id, "process %d is lost", id);
    return WIFSIGNALED(state) ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
}

process process_run(const char *program, const char *const *words) {
    char out[RP_TEST_PATH], err[RP_TEST_PATH];
    rp_test_temporary(out, "stdout");
    rp_test_temporary(err, "stderr");
    process done = {.status = process_wait(start(program, words, out, err))};
    done.out = rp_test_read_file(out, NULL);
    done.err = rp_test_read_file(err, NULL);
    remove(out);
    remove(err);
    return done;
}

void process_free(process *process) {
    free(process->out);
    free(process->err);
    *process = (struct process){0};
}

static void join(const char *const *words, char *line, size_t bytes) {
    size_t used = 0;
    line[0] = '\0';
    for (size_t i = 0; words[i] != NULL && used < bytes; i++)
        used += (size_t)snprintf(line + used, bytes - used, " %s", words[i]);
}

void process_expect(rp_place place, const char *program, const char *const *words, int status,
                    const char *said) {
    char line[1024];
    process done = process_run(program, words);
    join(words, line, sizeof line);
    rp_check_true(place, done.status == status, "%s%s: status %d, not %d: %s", program, line,
                  done.status, status, done.err);
    rp_check_true(place, said == NULL || strstr(done.err, said) != NULL,
                  "%s%s: \"%s\" has no \"%s\"", program, line, done.err, said != NULL ? said : "");
    rp_check_true(place, status == 0 || done.err[0] != '\0', "%s%s: says nothing", program, line);
    process_free(&done);
}

json_t *process_json(const char *program, const char *file, const char *const *words, int status) {
    const char *with[MOST_WORDS] = {"--json", file, "--quiet"};
    size_t count = 3;
    for (size_t i = 0; words[i] != NULL && count + 1 < MOST_WORDS; i++)
        with[count++] = words[i];
    process done = process_run(program, with);
    const int got = done.status;
    char line[1024];
    join(with, line, sizeof line);
    RP_CHECK(got == status, "%s%s: status %d: %s", program, line, got, done.err);
    RP_CHECK(done.out[0] == '\0', "--quiet prints \"%s\"", done.out);
    process_free(&done);
    RP_REQUIRE_EQUAL(got, status);
    json_error_t error;
    json_t *object = json_load_file(file, JSON_REJECT_DUPLICATES, &error);
    RP_REQUIRE(json_is_object(object), "%s: no JSON object: %s", file, error.text);
    return object;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

const json_t *json_at(const json_t *object, const char *path) {
    char name[128];
    const json_t *at = object;
    for (const char *part = path; part != NULL && at != NULL;) {
        const char *dot = strchr(part, '.');
        snprintf(name, sizeof name, "%.*s", dot != NULL ? (int)(dot - part) : (int)strlen(part),
                 part);
        at = json_object_get(at, name);
        part = dot != NULL ? dot + 1 : NULL;
    }
    RP_REQUIRE(at != NULL, "%s is missing", path);
    return at;
}

int64_t json_integer_at(const json_t *object, const char *path) {
    const json_t *value = json_at(object, path);
    RP_REQUIRE(json_is_integer(value) && json_integer_value(value) >= 0, "%s is no integer", path);
    return json_integer_value(value);
}

double json_real_at(const json_t *object, const char *path) {
    const json_t *value = json_at(object, path);
    RP_REQUIRE(json_is_real(value), "%s is no real number", path);
    return json_real_value(value);
}

const char *json_string_at(const json_t *object, const char *path) {
    const json_t *value = json_at(object, path);
    RP_REQUIRE(json_is_string(value), "%s is no text", path);
    return json_string_value(value);
}
