/* Opening what is read. */
#include "input.h"

#include <errno.h>
#include <sys/stat.h>

FILE *input_open(const char *path, bool pipes, failure *failure) {
    struct stat info;
    FILE *file = fopen(path, "rb");
    if (file == NULL || fstat(fileno(file), &info) != 0) {
        fail_read(failure, path);
    } else if (S_ISDIR(info.st_mode)) {
        errno = EISDIR;
        fail_read(failure, path);
    } else if (!S_ISREG(info.st_mode) && !(pipes && S_ISFIFO(info.st_mode))) {
        fail(failure, STATUS_BAD_INPUT, "%s: cannot be read: a file%s is expected", path,
             pipes ? " or a pipe" : "");
    } else {
        return file;
    }
    if (file != NULL)
        fclose(file);
    return NULL;
}
