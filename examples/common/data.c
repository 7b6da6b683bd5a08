/* Bytes as tokens. */
#include "data.h"

#include "input.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { SYNTHETIC_BYTES = 1 << 18, VALIDATION_PERCENT = 5 };

/* Every byte has four possible followers, all equally likely. */
static bool make_synthetic(data *data, int64_t vocab, failure *failure) {
    const uint32_t modulus = vocab < 256 ? (uint32_t)vocab : 256;
    uint32_t x = 1, t = 0;
    data->tokens = malloc(SYNTHETIC_BYTES);
    if (data->tokens == NULL)
        return fail_memory(failure, "the synthetic text");
    for (int i = 0; i < SYNTHETIC_BYTES; i++) {
        x = 1664525U * x + 1013904223U;
        t = (5 * t + 17 + (x >> 30)) % modulus;
        data->tokens[i] = (unsigned char)t;
    }
    data->count = SYNTHETIC_BYTES;
    return true;
}

static bool append_stream(data *data, FILE *file, const char *path, failure *failure) {
    struct stat info;
    const bool is_pipe = fstat(fileno(file), &info) == 0 && S_ISFIFO(info.st_mode);
    const int64_t before = data->count;
    size_t capacity = (size_t)data->count;
    for (;;) {
        if (is_pipe && data->count - before > INPUT_PIPE_MOST)
            return fail(failure, STATUS_BAD_INPUT, "%s: a pipe of more than %" PRId64 " bytes",
                        path, INPUT_PIPE_MOST);
        if ((size_t)data->count == capacity) {
            capacity = capacity < 65536 ? 65536 : 2 * capacity;
            unsigned char *grown = realloc(data->tokens, capacity);
            if (grown == NULL)
                return fail_memory(failure, path);
            data->tokens = grown;
        }
        const size_t got =
            fread(data->tokens + data->count, 1, capacity - (size_t)data->count, file);
        data->count += (int64_t)got;
        if (got == 0)
            return !ferror(file) || fail_read(failure, path);
    }
}

static bool append_file(data *data, const char *path, int64_t vocab, failure *failure) {
    const int64_t before = data->count;
    FILE *file = input_open(path, true, failure);
    if (file == NULL)
        return false;
    const bool good = append_stream(data, file, path, failure);
    fclose(file);
    for (int64_t i = before; good && i < data->count; i++) {
        if (data->tokens[i] >= vocab) {
            return fail(failure, STATUS_BAD_INPUT,
                        "%s: token %d at offset %" PRId64 ", but --vocab is %" PRId64, path,
                        data->tokens[i], i - before, vocab);
        }
    }
    return good;
}

bool data_load(data *data, const char *const *paths, size_t count, int64_t vocab, int64_t seq,
               failure *failure) {
    bool good = true;
    *data = (struct data){0};
    if (count == 0)
        good = make_synthetic(data, vocab, failure);
    for (size_t i = 0; i < count && good; i++)
        good = append_file(data, paths[i], vocab, failure);
    if (good && data->count < seq + 2) {
        good = fail(failure, STATUS_BAD_INPUT,
                    "%s%s: %" PRId64 " tokens; at least --seq + 2 = %" PRId64 " are needed",
                    count > 0 ? paths[0] : "the synthetic text",
                    count > 1 ? " and the other files" : "", data->count, seq + 2);
    }
    if (!good) {
        data_free(data);
        return false;
    }
    data->train = data->count;
    return true;
}

void data_free(data *data) {
    free(data->tokens);
    *data = (struct data){0};
}

bool data_hold_out(data *data, double fraction, int64_t seq, failure *failure) {
    const int64_t tail = (int64_t)(fraction * (double)data->count);
    if (tail < seq + 1 || data->count - tail < seq + 2) {
        return fail(failure, STATUS_BAD_INPUT,
                    "--validation %g: %" PRId64 " of %" PRId64
                    " tokens; at least --seq + 1 = %" PRId64
                    " must be held out and --seq + 2 must stay",
                    fraction, tail, data->count, seq + 1);
    }
    data->validation = tail;
    data->train = data->count - tail;
    return true;
}

void data_find_unread_tail(data *data, int64_t rows, int64_t seq) {
    __extension__ typedef __int128 wide;
    const int64_t tail = data->count / 100 * VALIDATION_PERCENT;
    const wide read =
        (wide)rows * seq +
        1; /* training has seen the tokens before this one, if it has not come round */
    data->validation = tail >= seq + 1 && read <= data->count - tail ? tail : 0;
}

int64_t data_window(const data *data, int64_t row, int64_t seq) {
    __extension__ typedef __int128 wide;
    return (int64_t)((wide)row * seq % (data->train - seq - 1));
}

int64_t data_validation_windows(const data *data, int64_t seq) {
    return data->validation > seq ? (data->validation - 1) / seq : 0;
}

int64_t data_validation_window(const data *data, int64_t index, int64_t seq) {
    return data->count - data->validation + index * seq;
}

void data_copy_window(const data *data, int64_t offset, int64_t seq, int64_t row, int32_t *tokens,
                      int32_t *targets) {
    const unsigned char *from = data->tokens + offset;
    for (int64_t i = 0; i < seq; i++) {
        tokens[row * seq + i] = from[i];
        targets[row * seq + i] = from[i + 1];
    }
}
