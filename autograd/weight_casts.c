/* Casts of parameters are never kept from forward to backward: the parameter is in memory all the
 * time, and a pass over it costs less than the bytes of a copy that lives through the whole step.
 * To a planner the copy looks like any activation, so its node gets a mark, as if the user had
 * asked. */
#include "program.h"

/* What a value is to the rest of the graph. */
typedef enum descent {
    NOT_A_WEIGHT,
    WEIGHT,     /* a parameter, or a view of one: no bytes of its own */
    WEIGHT_COPY /* a cast of it, or what only moves the elements of one */
} descent;

static descent descent_of(const rp_code *code, const uint8_t *descents, uint32_t value) {
    return code->values[value].kind == RP_CODE_PARAMETER ? WEIGHT : (descent)descents[value];
}

/* What a node makes of a weight. */
static descent pass_on(rp_op op, descent input) {
    const bool moves = op == RP_OP_TRANSPOSE || op == RP_OP_SLICE;
    if (op == RP_OP_CAST && input != NOT_A_WEIGHT)
        return WEIGHT_COPY;
    return op == RP_OP_VIEW || (moves && input == WEIGHT_COPY) ? input : NOT_A_WEIGHT;
}

static bool is_root(const rp_program *program, uint32_t value) {
    for (size_t i = 0; i < program->root_count; i++)
        if (program->roots[i] == value)
            return true;
    return false;
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
        if (node->backward || node->in_count != 1)
            continue;
        const uint32_t out = rp_code_outputs(code, node)[0];
        const descent made =
            pass_on((rp_op)node->op, descent_of(code, descents, rp_code_inputs(code, node)[0]));
        descents[out] = (uint8_t)made;
        if (made == WEIGHT_COPY && node->mark == RP_MARK_AUTO && !is_root(program, out))
            node->mark = RP_MARK_RECOMPUTE;
    }
    rp_free(program->context, descents);
    return RP_OK;
}
