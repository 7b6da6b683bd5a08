/* Whole files in and out, and text that grows. */
#ifndef REPRISE_PLANNER_FILE_H
#define REPRISE_PLANNER_FILE_H

#include <reprise/extend.h>

/* Text under construction. The first piece that does not fit sets `failed`; what follows is
 * ignored, so that only the end has to be checked. */
typedef struct rp_text {
    rp_context *context;
    char *data;
    size_t count, capacity;
    bool failed;
} rp_text;

void rp_text_append(rp_text *text, const char *piece, size_t bytes);
void rp_text_format(rp_text *text, const char *format, ...) RP_PRINTF(2, 3);

/* As a JSON string, quotes included; bytes that are not UTF-8 become U+FFFD. */
void rp_text_quote(rp_text *text, const char *string);

void rp_text_clear(rp_text *text);

/* The whole file. RP_IO_ERROR names the path and the reason. */
rp_status rp_file_read(rp_context *context, const char *path, rp_text *text);

/* Writes a temporary file beside `path`, then renames it; on failure neither is left behind.
 * What is no regular file (a pipe, a terminal) is written to directly. */
rp_status rp_file_replace(rp_context *context, const char *path, const rp_text *text);

/* Puts the path in front of the message of a failure and returns `status`. */
rp_status rp_fail_in_file(rp_context *context, rp_status status, const char *path);

#endif
