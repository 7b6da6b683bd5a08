/* Exit statuses and messages. */
#include "failure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool fail(failure *failure, int status, const char *format, ...) {
    va_list arguments;
    failure->status = status;
    va_start(arguments, format);
    vsnprintf(failure->text, sizeof failure->text, format, arguments);
    va_end(arguments);
    return false;
}

bool fail_memory(failure *failure, const char *what) {
    return fail(failure, STATUS_NO_MEMORY, "out of memory: no room for %s", what);
}

bool fail_read(failure *failure, const char *path) {
    return fail(failure, STATUS_BAD_INPUT, "%s: cannot be read: %s", path, strerror(errno));
}

bool fail_write(failure *failure, const char *what) {
    return fail(failure, STATUS_OTHER, "%s: cannot be written: %s", what, strerror(errno));
}

int status_of(rp_status status) {
    static const struct {
        rp_status of_library;
        int of_program;
    } table[] = {
        {RP_OK, STATUS_DONE},
        {RP_INVALID_ARGUMENT, STATUS_USAGE}, /* arguments come from the command line */
        {RP_BAD_SHAPE, STATUS_USAGE},        /* and so do shapes */
        {RP_BAD_INPUT, STATUS_BAD_INPUT},
        {RP_IO_ERROR, STATUS_BAD_INPUT},
        {RP_INFEASIBLE, STATUS_INFEASIBLE},
        {RP_OUT_OF_MEMORY, STATUS_NO_MEMORY},
        {RP_DEVICE_ERROR, STATUS_DEVICE},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].of_library == status)
            return table[i].of_program;
    return STATUS_OTHER;
}

bool fail_library(failure *failure, const rp_context *context, rp_status status, const char *what) {
    const char *message = context != NULL ? rp_context_message(context) : "";
    if (message[0] == '\0')
        message = rp_status_text(status);
    /* messages about a file begin with its path already */
    const size_t length = what != NULL ? strlen(what) : 0;
    const bool said = length > 0 && strncmp(message, what, length) == 0 && message[length] == ':';
    return fail(failure, status_of(status), "%s%s%s", length > 0 && !said ? what : "",
                length > 0 && !said ? ": " : "", message);
}
