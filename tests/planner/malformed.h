/* Texts that are not what they claim: whatever the bytes, reading them ends with a status and a
 * message, and with nothing made. Shared by the tests of graph files and of plan files. */
#ifndef REPRISE_TESTS_PLANNER_MALFORMED_H
#define REPRISE_TESTS_PLANNER_MALFORMED_H

#include <reprise/plan.h>

/* What is read, and how: `read` makes something from the text, destroys it, and says in `*made`
 * whether there was something. */
typedef struct rp_malformed rp_malformed;
struct rp_malformed {
    rp_status (*read)(const rp_malformed *s, const char *text, size_t length, bool *made);
    rp_context *context;
    const rp_graph *graph; /* of a plan */
    const char *text;
    size_t length;
};

/* Reads the text from a block of exactly its size, so that ASan sees a read behind its end. What
 * comes out must be consistent: made if and only if the status is RP_OK, a message otherwise. */
rp_status rp_malformed_read(const rp_malformed *s, const char *text, size_t length);

/* Cut at every byte: refused each time. */
void rp_malformed_truncate(const rp_malformed *s);

/* Up to four bytes changed. */
void rp_malformed_flip(const rp_malformed *s, int rounds);

/* A piece cut out, or doubled. */
void rp_malformed_splice(const rp_malformed *s, int rounds);

/* Still JSON, but every value in turn is replaced by others, of every type, and left out. */
void rp_malformed_replace(const rp_malformed *s);

#endif
