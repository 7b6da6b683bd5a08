/* Time as the packing engines see it: only the moments that bound something. */
#ifndef REPRISE_PLANNER_SECTIONS_H
#define REPRISE_PLANNER_SECTIONS_H

#include "lifetimes.h"

/* From a section to the one behind the last. */
typedef struct rp_span {
    uint32_t begin, end;
    int64_t bytes;
} rp_span;

/* Sections are moments at which more is live than just before and just after. Other moments have
 * subsets of these and bound nothing. */
typedef struct rp_sections {
    uint32_t count;
    rp_span *blocks; /* of each block, ascending begin; bytes unused */
    rp_span *pieces; /* of each piece */
} rp_sections;

/* False: out of memory; nothing is left to clear. */
bool rp_sections_create(rp_context *context, const rp_lifetimes *lifetimes, rp_sections *sections);
void rp_sections_clear(rp_context *context, rp_sections *sections);

#endif
