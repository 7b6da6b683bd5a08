/* Opening what is read: a file or a pipe. A folder or a device is refused before anything is read:
 * /dev/zero has no end. */
#ifndef EXAMPLES_INPUT_H
#define EXAMPLES_INPUT_H

#include <stdio.h>

#include "failure.h"

/* Reads of a pipe give up behind so many bytes: nobody can say how much is to come. */
#define INPUT_PIPE_MOST (INT64_C(1) << 32)

/* NULL: STATUS_BAD_INPUT names the file and the reason. `pipes`: one is as good as a file, which
 * only a reader that never seeks can say. */
FILE *input_open(const char *path, bool pipes, failure *failure);

#endif
