/* Result objects: jansson values that read back exactly, and where they go. */
#ifndef EXAMPLES_REPORT_H
#define EXAMPLES_REPORT_H

#include <jansson.h>

#include "output.h"

/* A real, or null where JSON has no number for it (NaN, infinities). A new reference; NULL when
 * memory is short. */
json_t *report_real(double value);

/* Sixteen hexadecimal digits. */
json_t *report_hash(uint64_t hash);

/* Text; bytes that are no UTF-8 become "?". */
json_t *report_text(const char *text);

/* Where --json goes: "-" is standard output and needs no file. `path` may be NULL: nowhere. */
typedef struct report_target {
    const char *path;
    const char *temporary;
} report_target;

/* Checks that it can be written, before the work begins. */
bool report_open(report_target *target, const char *path, output_set *outputs, failure *failure);

/* Writes `object` and lets go of it. A NULL object is a lack of memory. outputs_commit makes the
 * file appear. */
bool report_write(const report_target *target, json_t *object, failure *failure);

/* Pushes standard output out; false when it did not take everything (a full disk, a closed pipe).
 */
bool report_flush_stdout(failure *failure);

#endif
