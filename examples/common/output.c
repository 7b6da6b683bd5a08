/* Output files that appear whole or not at all. */
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a signal handler has to remove: it can reach nothing else. */
static struct {
    volatile sig_atomic_t used;
    char path[PATH_MAX];
} unfinished[OUTPUT_MAX];

/* Those that a user, a closed pipe or a limit of the system sends; what a crash raises stays as it
 * is. */
static const int fatal_signals[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGPIPE,
                                    SIGALRM, SIGXCPU, SIGXFSZ, SIGUSR1, SIGUSR2};

static void remove_unfinished(int number) {
    for (size_t i = 0; i < OUTPUT_MAX; i++)
        if (unfinished[i].used)
            unlink(unfinished[i].path);
    signal(number, SIG_DFL);
    raise(number);
}

/* A file that was made but is not yet remembered would outlive a signal that comes in between. */
static void hold_signals(sigset_t *before) {
    sigset_t held;
    sigemptyset(&held);
    for (size_t i = 0; i < sizeof fatal_signals / sizeof fatal_signals[0]; i++)
        sigaddset(&held, fatal_signals[i]);
    sigprocmask(SIG_BLOCK, &held, before);
}

static void watch_signals(void) {
    for (size_t i = 0; i < sizeof fatal_signals / sizeof fatal_signals[0]; i++) {
        struct sigaction old;
        if (sigaction(fatal_signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) {
            struct sigaction action = {.sa_handler = remove_unfinished};
            sigemptyset(&action.sa_mask);
            sigaction(fatal_signals[i], &action, NULL);
        }
    }
}

/* Called behind mkstemp with signals held; the name may be rewritten by a library that renames onto
 * it, and stays. */
static void remember(size_t index, const char *path) {
    snprintf(unfinished[index].path, sizeof unfinished[index].path, "%s", path);
    unfinished[index].used = 1;
}

/* The name behind symbolic links, also of a file that is not there yet; NULL with errno. */
static char *resolve(const char *path) {
    char *real = realpath(path, NULL);
    if (real != NULL || errno != ENOENT)
        return real;
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    char *folder =
        slash == NULL ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
    real = folder != NULL ? realpath(folder, NULL) : NULL;
    free(folder);
    if (real == NULL)
        return NULL;
    const size_t bytes = strlen(real) + strlen(name) + 2;
    char *whole = malloc(bytes);
    if (whole != NULL)
        snprintf(whole, bytes, "%s/%s", real, name);
    free(real);
    return whole;
}

/* Looks at the target; sets mode and copies. False with errno: no file can be there. */
static bool inspect(output *item) {
    struct stat info;
    const mode_t mask = umask(0);
    umask(mask);
    item->mode = 0666U & ~(unsigned)mask;
    if (stat(item->final, &info) != 0)
        return errno == ENOENT;
    if (S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        return false;
    }
    item->copies = !S_ISREG(info.st_mode);
    item->mode = info.st_mode & 07777U;
    return access(item->final, W_OK) == 0;
}

static bool make_temporary(output *item) {
    const char *folder = getenv("TMPDIR");
    const char *base = item->final;
    char name[PATH_MAX];
    if (item->copies) {
        const int length = snprintf(name, sizeof name, "%s/reprise",
                                    folder != NULL && folder[0] != '\0' ? folder : "/tmp");
        if (length < 0 || (size_t)length >= sizeof name) {
            errno = ENAMETOOLONG;
            return false;
        }
        base = name;
    }
    const size_t bytes = strlen(base) + sizeof ".XXXXXX";
    if (bytes > PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    item->temporary = malloc(bytes);
    if (item->temporary == NULL)
        return false;
    snprintf(item->temporary, bytes, "%s.XXXXXX", base);
    const int file = mkstemp(item->temporary);
    if (file < 0) {
        free(item->temporary);
        item->temporary = NULL;
        return false;
    }
    return close(file) == 0;
}

static void forget(output *item) {
    free(item->final);
    free(item->temporary);
    item->final = item->temporary = NULL;
}

void outputs_spare(output_set *set, const char *name, const char *path) {
    char *real = realpath(path, NULL);
    struct output_spared *spared =
        real == NULL ? NULL : realloc(set->spared, (set->spared_count + 1) * sizeof *spared);
    if (spared == NULL) {
        free(real);
        return;
    }
    set->spared = spared;
    set->spared[set->spared_count++] = (struct output_spared){name, real};
}

/* What else has the same file, or NULL. What is copied to (/dev/null) may be shared. */
static const char *find_rival(const output_set *set, const output *item) {
    for (size_t i = 0; i < set->count && !item->copies; i++)
        if (set->items[i].final != NULL && strcmp(set->items[i].final, item->final) == 0)
            return set->items[i].option;
    for (size_t i = 0; i < set->spared_count && !item->copies; i++)
        if (strcmp(set->spared[i].path, item->final) == 0)
            return set->spared[i].name;
    return NULL;
}

const char *outputs_add(output_set *set, const char *option, const char *path, failure *failure) {
    if (set->count == OUTPUT_MAX) {
        fail(failure, STATUS_OTHER, "%s: too many output files", option);
        return NULL;
    }
    output *item = &set->items[set->count];
    *item = (output){.option = option, .final = resolve(path)};
    if (item->final == NULL || !inspect(item)) {
        fail(failure, STATUS_OTHER, "%s: %s cannot be written: %s", option, path, strerror(errno));
        forget(item);
        return NULL;
    }
    const char *rival = find_rival(set, item);
    if (rival != NULL) {
        fail(failure, STATUS_USAGE, "%s and %s name the same file %s", rival, option, path);
        forget(item);
        return NULL;
    }
    sigset_t before;
    hold_signals(&before);
    const bool made = make_temporary(item);
    if (made) {
        remember(set->count++, item->temporary);
        watch_signals();
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (!made) {
        fail(failure, STATUS_OTHER, "%s: %s cannot be written: %s", option, path, strerror(errno));
        forget(item);
        return NULL;
    }
    return item->temporary;
}

static bool copy_to(const char *from, const char *to) {
    char buffer[1 << 16];
    bool good = true;
    size_t got = 0;
    FILE *source = fopen(from, "rb"), *target = fopen(to, "wb");
    if (source == NULL || target == NULL)
        good = false;
    while (good && (got = fread(buffer, 1, sizeof buffer, source)) > 0)
        good = fwrite(buffer, 1, got, target) == got;
    good = good && !ferror(source);
    if (source != NULL)
        fclose(source);
    if (target != NULL && fclose(target) != 0)
        good = false;
    return good;
}

static bool commit_one(output *item) {
    if (item->copies)
        return copy_to(item->temporary, item->final) && unlink(item->temporary) == 0;
    return chmod(item->temporary, item->mode) == 0 && rename(item->temporary, item->final) == 0;
}

bool outputs_commit(output_set *set, const char *option, failure *failure) {
    for (size_t i = 0; i < set->count; i++) {
        output *item = &set->items[i];
        if (item->temporary == NULL || (option != NULL && strcmp(option, item->option) != 0))
            continue;
        if (!commit_one(item)) {
            fail_write(failure, item->option);
            for (size_t k = 0; k < i; k++) /* all or none */
                if (set->items[k].temporary == NULL && !set->items[k].copies)
                    unlink(set->items[k].final);
            return false;
        }
        unfinished[i].used = 0;
        free(item->temporary);
        item->temporary = NULL;
    }
    return true;
}

void outputs_clear(output_set *set) {
    for (size_t i = 0; i < set->count; i++) {
        if (set->items[i].temporary != NULL)
            unlink(set->items[i].temporary);
        unfinished[i].used = 0;
        forget(&set->items[i]);
    }
    for (size_t i = 0; i < set->spared_count; i++)
        free(set->spared[i].path);
    free(set->spared);
    set->spared = NULL;
    set->count = set->spared_count = 0;
}
