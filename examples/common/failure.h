/* What a program ends with: one exit status and one message.
 *
 * Functions of this folder that can fail take a failure as their last argument and return false
 * after filling it; nothing prints but main. */
#ifndef EXAMPLES_FAILURE_H
#define EXAMPLES_FAILURE_H

#include <reprise/reprise.h>

/* X(name, number, meaning): the statuses of every program, printed by --help. */
#define STATUS_LIST(X)                                                                             \
    X(STATUS_DONE, 0, "done")                                                                      \
    X(STATUS_OTHER, 1,                                                                             \
      "anything else: an output that cannot be written, a strategy that does not apply")           \
    X(STATUS_USAGE, 2, "usage")                                                                    \
    X(STATUS_INFEASIBLE, 3,                                                                        \
      "infeasible budget: the minimum and the node that sets it are printed")                      \
    X(STATUS_BAD_INPUT, 4, "bad input: a file is missing or not what it claims")                   \
    X(STATUS_NO_MEMORY, 5, "out of memory")                                                        \
    X(STATUS_DEVICE, 6, "device error")

enum {
#define STATUS_ENUM(name, number, meaning) name = number,
    STATUS_LIST(STATUS_ENUM)
#undef STATUS_ENUM
};

typedef struct failure {
    int status;
    char text[1024];
} failure;

/* Fills it (printf's rules) and returns false: return fail(failure, STATUS_USAGE, "..."); */
bool fail(failure *failure, int status, const char *format, ...) RP_PRINTF(3, 4);

/* fail() for a failed allocation; `what` is what there was no room for. */
bool fail_memory(failure *failure, const char *what);

/* fail() for a file that cannot be read, with errno's reason: STATUS_BAD_INPUT. */
bool fail_read(failure *failure, const char *path);

/* fail() for an output that cannot be written, with errno's reason: STATUS_OTHER. */
bool fail_write(failure *failure, const char *what);

/* The exit status of a library status. A file that cannot be read is bad input; whoever writes one
 * says otherwise. */
int status_of(rp_status status);

/* fail() with the last message of the context, or the text of the status without a context. `what`
 * comes first, once, "file.json" or "--budget"; NULL: nothing. */
bool fail_library(failure *failure, const rp_context *context, rp_status status, const char *what);

#endif
