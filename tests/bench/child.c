/* Work in a process of its own. */
#include "child.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double clock_seconds(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

rp_took rp_took_begin(void) {
    return (rp_took){clock_seconds(CLOCK_MONOTONIC), clock_seconds(CLOCK_PROCESS_CPUTIME_ID), 0};
}

rp_took rp_took_end(rp_took begin) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (rp_took){clock_seconds(CLOCK_MONOTONIC) - begin.seconds,
                     clock_seconds(CLOCK_PROCESS_CPUTIME_ID) - begin.cpu_seconds,
                     (int64_t)usage.ru_maxrss * 1024};
}

void *rp_child_share(size_t bytes) {
    void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? NULL : shared;
}

void rp_child_unshare(void *shared, size_t bytes) {
    if (shared != NULL)
        munmap(shared, bytes);
}

static void live_as_child(const rp_child *child) {
    if (child->limit_bytes > 0) {
        const struct rlimit limit = {(rlim_t)child->limit_bytes, (rlim_t)child->limit_bytes};
        setrlimit(RLIMIT_AS, &limit);
    }
    alarm(child->limit_seconds);
    child->work(child->argument, child->result);
    _exit(0);
}

bool rp_child_run(const rp_child *child, char *why, size_t why_bytes) {
    int status = 0;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        live_as_child(child);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return snprintf(why, why_bytes, "no process"), false;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        return snprintf(why, why_bytes, "more than %u s", child->limit_seconds), false;
    if (WIFSIGNALED(status))
        return snprintf(why, why_bytes, "%s", strsignal(WTERMSIG(status))), false;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return snprintf(why, why_bytes, "exit status %d", WEXITSTATUS(status)), false;
    return true;
}
