/* Output files: that they can be written is checked before the work begins, they appear whole when
 * it is done, and a program that fails leaves none.
 *
 * Each goes to a temporary name in its folder and is renamed by outputs_commit. What is no regular
 * file (/dev/stdout, a pipe) is copied to instead. SIGINT, SIGTERM and SIGHUP remove the temporary
 * files. */
#ifndef EXAMPLES_OUTPUT_H
#define EXAMPLES_OUTPUT_H

#include "failure.h"

enum { OUTPUT_MAX = 16 };

typedef struct output {
    const char *option; /* "--json" */
    char *final, *temporary;
    bool copies; /* the target is no regular file */
    unsigned mode;
} output;

typedef struct output_set {
    output items[OUTPUT_MAX];
    size_t count;
    struct output_spared { /* files that are read */
        const char *name;
        char *path;
    } * spared;
    size_t spared_count;
} output_set;

/* The file is an input, `name` in messages: no output that is added later may take its place. A
 * path that leads nowhere is left to whoever reads it. */
void outputs_spare(output_set *set, const char *name, const char *path);

/* Makes the temporary file and returns its name, which lives until the set is done with; NULL: it
 * cannot be written (STATUS_OTHER), or another option or input has the same file (STATUS_USAGE). */
const char *outputs_add(output_set *set, const char *option, const char *path, failure *failure);

/* Gives the files of one option, or of all (NULL), their names. After a failure none of them is
 * there. */
bool outputs_commit(output_set *set, const char *option, failure *failure);

/* Removes what was not committed. For the end of a program, whatever happened. */
void outputs_clear(output_set *set);

#endif
