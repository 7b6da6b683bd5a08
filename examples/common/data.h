/* What is trained on: bytes as tokens, and the windows that a step reads. No randomness. */
#ifndef EXAMPLES_DATA_H
#define EXAMPLES_DATA_H

#include "failure.h"

typedef struct data {
    unsigned char *tokens;
    int64_t count;      /* all of them */
    int64_t train;      /* training reads tokens [0, train) */
    int64_t validation; /* validation reads tokens [count - validation, count); 0: there is none */
} data;

/* All files one after the other; without files a synthetic sequence that can be learnt (ln 4 nats a
 * byte). STATUS_BAD_INPUT: a file that cannot be read, a token of `vocab` or more (file and offset
 * are named), fewer than seq + 2 tokens. */
bool data_load(data *data, const char *const *paths, size_t count, int64_t vocab, int64_t seq,
               failure *failure);
void data_free(data *data);

/* Holds the last `fraction` of the tokens out of training, for validation. STATUS_BAD_INPUT: one of
 * the parts is too short for a window. */
bool data_hold_out(data *data, double fraction, int64_t seq, failure *failure);

/* Without a fraction: the last 5 % of the tokens count as held out if `rows` windows of training
 * end before them. They stay part of the text, so that the windows are those of every other
 * program. */
void data_find_unread_tail(data *data, int64_t rows, int64_t seq);

/* Row number `row` of the training (over all steps and micro-batches, from 0) reads the window that
 * begins here: (row seq) mod (train - seq - 1). Inputs are the tokens [o, o + seq), targets [o + 1,
 * o + seq + 1). */
int64_t data_window(const data *data, int64_t row, int64_t seq);

/* Windows of the validation part; they do not overlap. */
int64_t data_validation_windows(const data *data, int64_t seq);
int64_t data_validation_window(const data *data, int64_t index, int64_t seq);

/* Copies the window that begins at `offset` into row `row` of a batch. */
void data_copy_window(const data *data, int64_t offset, int64_t seq, int64_t row, int32_t *tokens,
                      int32_t *targets);

#endif
