/* The tape in memory: a list of ops (code.h), the leaves, the labels, and the first failure. */
#ifndef REPRISE_AUTOGRAD_TAPE_H
#define REPRISE_AUTOGRAD_TAPE_H

#include <reprise/extend.h>
#include <reprise/ops.h>

#include "code.h"
#include "text.h"

enum { RP_TAPE_MESSAGE = 512 };

typedef struct rp_leaf {
    uint32_t value;
    uint32_t name; /* offset into strings */
} rp_leaf;

/* A leaf's value has the leaf's index as its writer, and says in needs_gradient whether it gets
 * one. */
struct rp_tape {
    rp_context *context;
    rp_owned owned;
    rp_status status;
    char message[RP_TAPE_MESSAGE]; /* of the failure that `status` is */
    rp_code code;
    rp_leaf *leaves;
    size_t leaf_count, leaf_capacity;
    rp_string strings;             /* texts with a 0 behind each; offset 0 is "" */
    uint32_t block, next_name;     /* of the nodes to come */
    uint8_t mark;                  /* the same */
    uint32_t numbers[RP_OP_COUNT]; /* nodes so far, by op */
    uint32_t streams;              /* random ops so far */
    rp_custom_op **customs;        /* copies; the parameters of their nodes point to them */
    size_t custom_count, custom_capacity;
    rp_tensor_info *infos; /* scratch of recording */
    size_t info_capacity;
    uint32_t *slots;
    size_t slot_capacity;
};

/* Sets the tape's status if it is the first failure; returns the tensor 0. */
rp_tensor rp_tape_fail(rp_tape *tape, rp_status status, const char *format, ...) RP_PRINTF(3, 4);

/* The same with the message that the context has. */
rp_tensor rp_tape_fail_as_said(rp_tape *tape, rp_status status);

/* What every op of ops.h does. Bit i of `optional` lets input i be absent. Returns the first
 * output, or the tensor 0 once the tape has failed. `inputs` may be the address of one tensor. */
rp_tensor rp_tape_record(rp_tape *tape, rp_op op, const rp_op_params *params,
                         const rp_tensor *inputs, size_t count, uint64_t optional);

/* Appends a node whose outputs' types and shapes are known; infos[i] and outputs[i] of each. */
bool rp_tape_append(rp_tape *tape, rp_op op, const rp_op_params *params, const rp_tensor *inputs,
                    size_t count, const rp_tensor_info *infos, size_t output_count,
                    rp_tensor *outputs);

/* Any input may be absent, however many there are. */
#define RP_TAPE_ALL_OPTIONAL UINT64_MAX

/* Whether the tape records still, and the inputs are tensors of it; sets the status if not. */
bool rp_tape_accepts(rp_tape *tape, const char *op, const rp_tensor *inputs, size_t count,
                     uint64_t optional);

/* A number for a random op: tells the ops of a tape apart. */
uint32_t rp_tape_stream(rp_tape *tape);

/* The type and shape of a tensor; false, with the status set, if it is none. */
bool rp_tape_info(rp_tape *tape, const char *op, rp_tensor tensor, rp_tensor_info *info);

/* Append "block.name" of a node, or the name of a leaf. */
bool rp_tape_node_text(const rp_tape *tape, uint32_t node, rp_string *text);
bool rp_tape_leaf_text(const rp_tape *tape, uint32_t value, rp_string *text);

static inline const char *rp_tape_string(const rp_tape *tape, uint32_t offset) {
    return tape->strings.data + offset;
}

static inline bool rp_code_is_leaf(const rp_code_value *value) {
    return value->kind == RP_CODE_PARAMETER || value->kind == RP_CODE_INPUT;
}

#endif
