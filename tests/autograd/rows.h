/* Ops on the rows of a matrix, as custom ops: what layernorm and softmax consist of. */
#ifndef REPRISE_TESTS_AUTOGRAD_ROWS_H
#define REPRISE_TESTS_AUTOGRAD_ROWS_H

#include "bench.h"

typedef enum row_kind {
    ROW_MEAN,      /* x -> s */
    ROW_SUM,       /* x -> s */
    ROW_MAX,       /* x -> s */
    ROW_SQUARES,   /* x -> s: the mean of the squares */
    ROW_SUBTRACT,  /* x, s -> x - s */
    ROW_DIVIDE,    /* x, s -> x / s */
    ROW_NORMALISE, /* x, s -> x / sqrt(s + 1e-5) */
    ROW_EXP        /* x -> e^x */
} row_kind;

/* x [R, C], s [R, 1]; s is not looked at where the op takes none. */
rp_tensor row_op(bench *b, row_kind kind, rp_tensor x, rp_tensor s);

#endif
