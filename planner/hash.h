/* The one place that includes uthash: its memory is the context's, and a table that cannot grow
 * tells so instead of ending the process. Whoever adds to a table names the context in a variable
 * `hash_context` and, before adding, sets a variable `hash_failed` to false. */
#ifndef REPRISE_PLANNER_HASH_H
#define REPRISE_PLANNER_HASH_H

#include <reprise/extend.h>

#define HASH_NONFATAL_OOM 1
#define uthash_malloc(bytes) rp_alloc(hash_context, 1, bytes)
#define uthash_free(block, bytes) rp_free(hash_context, block)
#define uthash_nonfatal_oom(element) (hash_failed = true)

#include <uthash.h>

#endif
