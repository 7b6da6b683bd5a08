/* safetensors: reading with every check, writing f32 and bf16. */
#include "safetensors.h"

#include "input.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "output.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors data is little-endian and this file does not swap bytes"
#endif

enum { PREFIX_BYTES = 8, MAX_HEADER = 100000000 };

static const struct {
    const char *name;
    int bytes;
    bool is_real; /* safetensors_read understands it */
} dtypes[] = {{"F32", 4, true},   {"F16", 2, true},      {"BF16", 2, true},    {"F64", 8, true},
              {"I64", 8, false},  {"I32", 4, false},     {"I16", 2, false},    {"I8", 1, false},
              {"U64", 8, false},  {"U32", 4, false},     {"U16", 2, false},    {"U8", 1, false},
              {"BOOL", 1, false}, {"F8_E4M3", 1, false}, {"F8_E5M2", 1, false}};

/* Index into dtypes, or -1. */
static int find_dtype(const char *name) {
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, name) == 0)
            return (int)i;
    return -1;
}

static bool bad(const safetensors *reader, const char *name, const char *what, failure *failure) {
    return fail(failure, STATUS_BAD_INPUT, "%s: %s: %s", reader->path, name, what);
}

/* ---- Reading the header ---------------------------------------------------------------------- */

/* The header's text, from malloc, with a 0 behind it; *bytes is the size of the data. NULL after a
 * failure. */
static char *read_header(safetensors *reader, size_t *length, int64_t *bytes, failure *failure) {
    unsigned char prefix[PREFIX_BYTES];
    if (fseeko(reader->file, 0, SEEK_END) != 0) {
        fail(failure, STATUS_BAD_INPUT, "%s: cannot be read: no regular file", reader->path);
        return NULL;
    }
    const int64_t size = ftello(reader->file);
    rewind(reader->file);
    if (size < PREFIX_BYTES || fread(prefix, 1, sizeof prefix, reader->file) != sizeof prefix) {
        fail(failure, STATUS_BAD_INPUT,
             "%s: %" PRId64 " bytes are no safetensors file: 8 are the least", reader->path, size);
        return NULL;
    }
    uint64_t header = 0;
    memcpy(&header, prefix, sizeof header);
    if (header > MAX_HEADER || (int64_t)header > size - PREFIX_BYTES) {
        fail(failure, STATUS_BAD_INPUT,
             "%s: a header of %" PRIu64 " bytes does not fit the file of %" PRId64, reader->path,
             header, size);
        return NULL;
    }
    char *text = malloc((size_t)header + 1);
    if (text == NULL) {
        fail_memory(failure, reader->path);
        return NULL;
    }
    if (fread(text, 1, (size_t)header, reader->file) != header) {
        fail(failure, STATUS_BAD_INPUT, "%s: cannot be read", reader->path);
        free(text);
        return NULL;
    }
    text[header] = '\0';
    *length = (size_t)header;
    *bytes = size - PREFIX_BYTES - (int64_t)header;
    reader->data = PREFIX_BYTES + (int64_t)header;
    return text;
}

static bool read_dims(const json_t *shape, safetensors_entry *entry, int64_t *count) {
    *count = 1;
    if (!json_is_array(shape) || json_array_size(shape) > SAFETENSORS_MAX_RANK)
        return false;
    entry->rank = (int)json_array_size(shape);
    for (int i = 0; i < entry->rank; i++) {
        const json_t *dim = json_array_get(shape, (size_t)i);
        entry->dims[i] = json_integer_value(dim);
        if (!json_is_integer(dim) || entry->dims[i] < 0 ||
            __builtin_mul_overflow(*count, entry->dims[i], count))
            return false;
    }
    return true;
}

static bool read_range(const json_t *offsets, safetensors_entry *entry, int64_t bytes) {
    const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return false;
    entry->begin = json_integer_value(begin);
    entry->end = json_integer_value(end);
    return 0 <= entry->begin && entry->begin <= entry->end && entry->end <= bytes;
}

static bool read_entry(safetensors *reader, const char *name, const json_t *object, int64_t bytes,
                       failure *failure) {
    safetensors_entry *entry = &reader->entries[reader->count];
    const char *dtype = json_string_value(json_object_get(object, "dtype"));
    int64_t count = 0, expected = 0;
    *entry = (safetensors_entry){0};
    if (dtype == NULL || strlen(dtype) >= sizeof entry->dtype)
        return bad(reader, name, "dtype: a text like F32 is expected", failure);
    strcpy(entry->dtype, dtype);
    if (!read_dims(json_object_get(object, "shape"), entry, &count)) {
        return bad(reader, name,
                   "shape: at most 8 whole numbers whose product fits 63 bits are expected",
                   failure);
    }
    if (!read_range(json_object_get(object, "data_offsets"), entry, bytes)) {
        return fail(failure, STATUS_BAD_INPUT,
                    "%s: %s: data_offsets: begin <= end <= %" PRId64 " is expected", reader->path,
                    name, bytes);
    }
    const int kind =
        find_dtype(dtype); /* what is not known here cannot be checked, and is never read */
    if (kind >= 0 && (__builtin_mul_overflow(count, (int64_t)dtypes[kind].bytes, &expected) ||
                      expected != entry->end - entry->begin)) {
        return fail(failure, STATUS_BAD_INPUT,
                    "%s: %s: %" PRId64 " elements of %s are not the %" PRId64
                    " bytes of data_offsets",
                    reader->path, name, count, dtype, entry->end - entry->begin);
    }
    entry->name = strdup(name);
    if (entry->name == NULL)
        return fail_memory(failure, reader->path);
    reader->count++;
    return true;
}

static int compare_entries(const void *a, const void *b) {
    const safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

/* The format wants every byte of the data in exactly one tensor. */
static bool check_cover(safetensors *reader, int64_t bytes, failure *failure) {
    int64_t covered = 0;
    qsort(reader->entries, reader->count, sizeof *reader->entries, compare_entries);
    for (size_t i = 0; i < reader->count; i++) {
        const safetensors_entry *entry = &reader->entries[i];
        if (entry->begin != covered) {
            return fail(failure, STATUS_BAD_INPUT,
                        "%s: %s begins at byte %" PRId64 " of the data, %" PRId64
                        " is expected: tensors must not overlap or leave holes",
                        reader->path, entry->name, entry->begin, covered);
        }
        covered = entry->end;
    }
    return covered == bytes || fail(failure, STATUS_BAD_INPUT,
                                    "%s: %" PRId64 " bytes of data, the tensors have %" PRId64,
                                    reader->path, bytes, covered);
}

static bool read_entries(safetensors *reader, const char *text, size_t length, int64_t bytes,
                         failure *failure) {
    json_error_t error;
    const char *name = NULL;
    json_t *object = NULL;
    bool good = true;
    json_t *root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(root)) {
        good = root != NULL ? fail(failure, STATUS_BAD_INPUT, "%s: the header is no JSON object",
                                   reader->path)
                            : fail(failure, STATUS_BAD_INPUT,
                                   "%s: the header is no JSON: line %d, column %d: %s",
                                   reader->path, error.line, error.column, error.text);
        json_decref(root);
        return good;
    }
    reader->entries = calloc(json_object_size(root) + 1, sizeof *reader->entries);
    if (reader->entries == NULL) {
        json_decref(root);
        return fail_memory(failure, reader->path);
    }
    json_object_foreach(root, name, object) {
        if (strcmp(name, "__metadata__") != 0 &&
            !read_entry(reader, name, object, bytes, failure)) {
            good = false;
            break;
        }
    }
    json_decref(root);
    return good && check_cover(reader, bytes, failure);
}

bool safetensors_open(safetensors *reader, const char *path, failure *failure) {
    size_t length = 0;
    int64_t bytes = 0;
    *reader = (safetensors){.path = path, .file = input_open(path, false, failure)};
    if (reader->file == NULL)
        return false;
    char *text = read_header(reader, &length, &bytes, failure);
    const bool good = text != NULL && read_entries(reader, text, length, bytes, failure);
    free(text);
    if (!good)
        safetensors_close(reader);
    return good;
}

void safetensors_close(safetensors *reader) {
    for (size_t i = 0; i < reader->count; i++)
        free(reader->entries[i].name);
    free(reader->entries);
    if (reader->file != NULL)
        fclose(reader->file);
    *reader = (safetensors){0};
}

/* ---- Reading tensors ------------------------------------------------------------------------- */

const safetensors_entry *safetensors_find(const safetensors *reader, const char *name,
                                          const char *prefix) {
    const size_t length = strlen(prefix);
    const char *bare = strncmp(name, prefix, length) == 0 ? name + length : name;
    const safetensors_entry *found = NULL;
    for (size_t i = 0; i < reader->count; i++) {
        if (strcmp(reader->entries[i].name, name) == 0)
            return &reader->entries[i];
        if (strcmp(reader->entries[i].name, bare) == 0)
            found = &reader->entries[i];
    }
    return found;
}

static float from_bits(uint32_t bits) {
    float value = 0.0f;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float from_f16(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000U) << 16, exponent = (half >> 10) & 0x1FU;
    const uint32_t mantissa = half & 0x3FFU;
    if (exponent == 0) { /* zero and subnormals: mantissa 2^-24, exact in f32 */
        const float value = (float)mantissa * 0x1p-24f;
        return sign != 0 ? -value : value;
    }
    if (exponent == 0x1FU) /* infinity and NaN */
        return from_bits(sign | 0x7F800000U | mantissa << 13);
    return from_bits(sign | (exponent + 112U) << 23 | mantissa << 13);
}

/* `raw` holds `count` elements of this type. */
static void widen(const char *dtype, const unsigned char *raw, int64_t count, float *out) {
    for (int64_t i = 0; i < count; i++) {
        uint16_t half = 0;
        double wide = 0.0;
        if (strcmp(dtype, "F64") == 0) {
            memcpy(&wide, raw + 8 * i, sizeof wide);
            out[i] = (float)wide;
        } else if (strcmp(dtype, "F32") == 0) {
            memcpy(&out[i], raw + 4 * i, sizeof out[i]);
        } else {
            memcpy(&half, raw + 2 * i, sizeof half);
            out[i] = dtype[0] == 'B' ? from_bits((uint32_t)half << 16) : from_f16(half);
        }
    }
}

bool safetensors_read(const safetensors *reader, const safetensors_entry *entry, int64_t first,
                      int64_t count, float *out, failure *failure) {
    enum { PIECE = 4096 };
    unsigned char raw[8 * PIECE];
    const int kind = find_dtype(entry->dtype);
    if (kind < 0 || !dtypes[kind].is_real) {
        return fail(failure, STATUS_BAD_INPUT,
                    "%s: %s has type %s; F32, F16, BF16 or F64 is expected", reader->path,
                    entry->name, entry->dtype);
    }
    const int64_t size = dtypes[kind].bytes;
    if (fseeko(reader->file, reader->data + entry->begin + first * size, SEEK_SET) != 0)
        return fail_read(failure, reader->path);
    for (int64_t done = 0; done < count;) {
        const int64_t piece = count - done < PIECE ? count - done : PIECE;
        if (fread(raw, (size_t)size, (size_t)piece, reader->file) != (size_t)piece) {
            return fail(failure, STATUS_BAD_INPUT, "%s: %s: the file ends too early", reader->path,
                        entry->name);
        }
        widen(entry->dtype, raw, piece, out + done);
        done += piece;
    }
    return true;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static size_t element_bytes(const safetensors_tensor *tensor) {
    return tensor->dtype == RP_BF16 ? 2 : 4;
}

/* The header as text from malloc, padded with blanks so that the data begins at a multiple of 8. */
static char *make_header(const safetensors_tensor *tensors, size_t count, size_t *length) {
    int64_t offset = 0;
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    for (size_t i = 0; i < count; i++) {
        const int64_t bytes =
            (int64_t)element_bytes(&tensors[i]) * rp_shape_count(tensors[i].shape);
        json_t *dims = json_array();
        for (int d = 0; d < tensors[i].shape.rank; d++)
            json_array_append_new(dims, json_integer(tensors[i].shape.dims[d]));
        json_object_set_new(root, tensors[i].name,
                            json_pack("{s:s, s:o, s:[I,I]}", "dtype",
                                      tensors[i].dtype == RP_BF16 ? "BF16" : "F32", "shape", dims,
                                      "data_offsets", (json_int_t)offset,
                                      (json_int_t)(offset + bytes)));
        offset += bytes;
    }
    const bool complete = root != NULL && json_object_size(root) == count + 1;
    char *text = complete ? json_dumps(root, JSON_COMPACT) : NULL;
    json_decref(root);
    if (text == NULL)
        return NULL;
    const size_t bytes = strlen(text), padded = (bytes + 7) / 8 * 8;
    char *header = malloc(padded + 1);
    if (header != NULL) {
        memcpy(header, text, bytes);
        memset(header + bytes, ' ', padded - bytes);
        header[padded] = '\0';
        *length = padded;
    }
    free(text);
    return header;
}

static uint16_t to_bf16(uint32_t bits) {
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) /* NaN: stays one */
        return (uint16_t)(bits >> 16 | 0x40U);
    return (uint16_t)((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

/* Rounds to bf16 where the values lie: each goes into the first half of the room of all. */
static void narrow(void *values, size_t count) {
    unsigned char *bytes = values;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = 0;
        memcpy(&bits, bytes + 4 * i, sizeof bits);
        const uint16_t rounded = to_bf16(bits);
        memcpy(bytes + 2 * i, &rounded, sizeof rounded);
    }
}

static bool write_data(FILE *file, const safetensors_tensor *tensors, size_t count,
                       safetensors_source source, const void *user, const char *option,
                       failure *failure) {
    size_t most = 1;
    for (size_t i = 0; i < count; i++) {
        const size_t elements = (size_t)rp_shape_count(tensors[i].shape);
        most = elements > most ? elements : most;
    }
    float *values = malloc(most * sizeof *values);
    bool good = values != NULL || fail_memory(failure, option);
    for (size_t i = 0; i < count && good; i++) {
        const size_t elements = (size_t)rp_shape_count(tensors[i].shape);
        good = source(user, i, values, failure);
        if (good && tensors[i].dtype == RP_BF16)
            narrow(values, elements);
        good = good && (fwrite(values, element_bytes(&tensors[i]), elements, file) == elements ||
                        fail_write(failure, option));
    }
    free(values);
    return good;
}

bool safetensors_write(const char *path, const char *option, const safetensors_tensor *tensors,
                       size_t count, safetensors_source source, const void *user,
                       failure *failure) {
    size_t length = 0;
    char *header = make_header(tensors, count, &length);
    if (header == NULL)
        return fail_memory(failure, option);
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        free(header);
        return fail_write(failure, option);
    }
    const uint64_t prefix = length;
    const bool begun = (fwrite(&prefix, sizeof prefix, 1, file) == 1 &&
                        fwrite(header, 1, length, file) == length) ||
                       fail_write(failure, option);
    free(header);
    const bool good = begun && write_data(file, tensors, count, source, user, option, failure);
    return fclose(file) == 0 ? good : good && fail_write(failure, option);
}
