/* SIZE on a command line: 123456, 512K, 1.5GiB, 40%, max, min. */
#ifndef EXAMPLES_SIZE_H
#define EXAMPLES_SIZE_H

#include <stdbool.h>
#include <stdint.h>

typedef enum size_kind {
    SIZE_NONE,     /* no limit: the option was not given */
    SIZE_BYTES,    /* amount is bytes */
    SIZE_PERCENT,  /* amount / scale percent of the keep-all peak */
    SIZE_KEEP_ALL, /* the keep-all peak */
    SIZE_MINIMUM   /* the smallest feasible budget */
} size_kind;

typedef struct size_spec {
    size_kind kind;
    int64_t amount;
    int64_t scale;
} size_spec;

/* What is accepted, for help and messages. */
#define SIZE_GRAMMAR "bytes (123456), K M G T P E or KiB ... EiB (512K, 1.5GiB), 40%, max or min"

/* False when `text` is not a SIZE or does not fit 63 bits; `*size` is then as it was. A fraction of
 * a byte is dropped. */
bool size_parse(const char *text, size_spec *size);

/* Whether the graph's limits are needed to know the bytes. */
bool size_is_relative(const size_spec *size);

/* Bytes, INT64_MAX for no limit. Percentages are rounded down. False when the result does not fit
 * 63 bits. */
bool size_resolve(const size_spec *size, int64_t keep_all_peak, int64_t min_feasible,
                  int64_t *bytes);

#endif
