/* safetensors files: 8 bytes little-endian length of the header, the header in JSON, the data. */
#ifndef EXAMPLES_SAFETENSORS_H
#define EXAMPLES_SAFETENSORS_H

#include <stdio.h>

#include "failure.h"

enum { SAFETENSORS_MAX_RANK = 8 };

typedef struct safetensors_entry {
    char *name;
    char dtype[12]; /* as in the file */
    int rank;
    int64_t dims[SAFETENSORS_MAX_RANK];
    int64_t begin, end; /* bytes, from the start of the data */
} safetensors_entry;

typedef struct safetensors {
    const char *path;
    FILE *file;
    int64_t data;               /* where the data begins in the file */
    safetensors_entry *entries; /* in the order of their bytes */
    size_t count;
} safetensors;

/* Reads and checks the header: ranges inside the file, without overlap and without holes, sizes
 * that fit the shapes. STATUS_BAD_INPUT names the file and the tensor. `path` must outlive the
 * reader. */
bool safetensors_open(safetensors *reader, const char *path, failure *failure);
void safetensors_close(safetensors *reader);

/* The tensor of this name; `prefix` ("transformer.") may be missing in the file. NULL: there is
 * none. */
const safetensors_entry *safetensors_find(const safetensors *reader, const char *name,
                                          const char *prefix);

/* Elements [first, first + count) as f32. F32, F16, BF16 and F64 are understood; F64 is rounded to
 * nearest. */
bool safetensors_read(const safetensors *reader, const safetensors_entry *entry, int64_t first,
                      int64_t count, float *out, failure *failure);

/* One tensor to write. */
typedef struct safetensors_tensor {
    const char *name;
    rp_dtype dtype; /* RP_F32 or RP_BF16 */
    rp_shape shape;
} safetensors_tensor;

/* Fills in the values of tensor `index`, as many as its shape says. */
typedef bool (*safetensors_source)(const void *user, size_t index, float *values, failure *failure);

/* Writes the whole file in the order of `tensors`, one in memory at a time. BF16 is rounded to
 * nearest even. */
bool safetensors_write(const char *path, const char *option, const safetensors_tensor *tensors,
                       size_t count, safetensors_source source, const void *user, failure *failure);

#endif
