/* Casts of parameters are never kept from forward to backward: the parameter is in memory all the
 * time, and a pass over it costs less than the bytes of a copy that lives through the whole step.
 * To a planner the copy looks like any activation, so its node gets a mark, as if the user had
 * asked. */
#include "program.h"

/* What a value is to the rest of the graph. */
typedef enum descent {
    NOT_A_WEIGHT,
    WEIGHT,       /* a parameter, or a view of one: no bytes of its own */
    WEIGHT_MOVED, /* elements of weights in another order: an activation like any other */
    WEIGHT_COPY   /* a cast of any of these, or what only moves the elements of one */
} descent;

static descent descent_of(const rp_code *code, const uint8_t *descents, uint32_t value) {
    return code->values[value].kind == RP_CODE_PARAMETER ? WEIGHT : (descent)descents[value];
}

/* What a node makes of inputs of which all are made of weights alone, `input` the most. */
static descent pass_on(rp_op op, descent input) {
    if (op == RP_OP_VIEW || input == NOT_A_WEIGHT)
        return input;
    if (op == RP_OP_CAST)
        return WEIGHT_COPY;
    if (op != RP_OP_TRANSPOSE && op != RP_OP_SLICE && op != RP_OP_CONCAT)
        return NOT_A_WEIGHT;
    return input == WEIGHT ? WEIGHT_MOVED : input;
}

/* NOT_A_WEIGHT if any of the inputs is none. */
static descent most_of_inputs(const rp_code *code, const rp_code_node *node,
                              const uint8_t *descents) {
    const uint32_t *in = rp_code_inputs(code, node);
    descent most = NOT_A_WEIGHT;
    for (uint32_t i = 0; i < node->in_count; i++) {
        const descent one = in[i] != RP_NONE ? descent_of(code, descents, in[i]) : NOT_A_WEIGHT;
        if (one == NOT_A_WEIGHT)
            return NOT_A_WEIGHT;
        most = one > most ? one : most;
    }
    return most;
}

static bool is_root(const rp_program *program, uint32_t value) {
    for (size_t i = 0; i < program->root_count; i++)
        if (program->roots[i] == value)
            return true;
    return false;
}

/* What a marked copy is made of would else be kept in its place. */
static void mark_moved_inputs(rp_program *program, uint8_t *descents) {
    enum { ASKED = 0x80 };
    rp_code *code = &program->code;
    for (size_t n = code->node_count; n-- > 0;) {
        rp_code_node *node = &code->nodes[n];
        const uint32_t *in = rp_code_inputs(code, node);
        const uint32_t out = node->out_count == 1 ? rp_code_outputs(code, node)[0] : RP_NONE;
        if (node->backward || out == RP_NONE)
            continue;
        if (descents[out] == (WEIGHT_MOVED | ASKED) && node->mark == RP_MARK_AUTO &&
            !is_root(program, out))
            node->mark = RP_MARK_RECOMPUTE;
        if (node->mark != RP_MARK_RECOMPUTE || (descents[out] & ~ASKED) < WEIGHT_MOVED)
            continue;
        for (uint32_t i = 0; i < node->in_count; i++)
            if (descents[in[i]] == WEIGHT_MOVED)
                descents[in[i]] |= ASKED;
    }
}

rp_status rp_program_mark_weight_casts(rp_program *program) {
    rp_code *code = &program->code;
    if (program->forward_only) /* nothing is kept */
        return RP_OK;
    uint8_t *descents = rp_alloc(program->context, code->value_count, sizeof *descents);
    if (descents == NULL)
        return rp_fail_memory(program->context, "a program");
    for (size_t n = 0; n < code->node_count; n++) {
        rp_code_node *node = &code->nodes[n];
        const uint32_t out = node->out_count == 1 ? rp_code_outputs(code, node)[0] : RP_NONE;
        if (node->backward || out == RP_NONE)
            continue;
        const descent made = pass_on((rp_op)node->op, most_of_inputs(code, node, descents));
        descents[out] = (uint8_t)made;
        if (made == WEIGHT_COPY && node->mark == RP_MARK_AUTO && !is_root(program, out))
            node->mark = RP_MARK_RECOMPUTE;
    }
    mark_moved_inputs(program, descents);
    rp_free(program->context, descents);
    return RP_OK;
}
