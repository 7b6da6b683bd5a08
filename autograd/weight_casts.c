/* Casts of parameters are never kept from forward to backward: the parameter is in memory all the
 * time, and a pass over it costs less than the bytes of a copy that lives through the whole step.
 * To a planner the copy looks like any activation, so its node gets a mark, as if the user had
 * asked.
 *
 * A mark speaks of values, and what is meant here are bytes, which a view holds as well. Made again
 * at the turn for nothing, just before the copy itself is dropped, a marked view would even keep
 * both marks and hold the bytes throughout. So views of a marked copy are no values of their own:
 * whoever reads one reads the copy, and where the copy has gone, nothing is left of it. */
#include "program.h"

/* What a value is to the rest of the graph. */
typedef enum descent {
    NOT_A_WEIGHT,
    WEIGHT,       /* a parameter, or a view of one: no bytes of its own */
    WEIGHT_MOVED, /* elements of weights in another order: an activation like any other */
    WEIGHT_COPY   /* a cast of any of these, or what only moves the elements of one */
} descent;

/* What is known of a value. Of a view of no parameter, `asked` and `held` stand at its base. */
typedef struct finding {
    uint32_t base; /* the value whose bytes it has */
    uint8_t descent;
    bool asked; /* a marked copy is made of it: it would else be kept in its place */
    bool held;  /* some value on its bytes is an output of the program or has the user's mark */
} finding;

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
static descent most_of_inputs(const rp_code *code, const rp_code_node *node, const finding *found) {
    const uint32_t *in = rp_code_inputs(code, node);
    descent most = NOT_A_WEIGHT;
    for (uint32_t i = 0; i < node->in_count; i++) {
        const descent one = in[i] != RP_NONE ? (descent)found[in[i]].descent : NOT_A_WEIGHT;
        if (one == NOT_A_WEIGHT)
            return NOT_A_WEIGHT;
        most = one > most ? one : most;
    }
    return most;
}

/* The only output of a forward node, or RP_NONE. */
static uint32_t output_of(const rp_code *code, const rp_code_node *node) {
    return !node->backward && node->out_count == 1 ? rp_code_outputs(code, node)[0] : RP_NONE;
}

static void look_at_values(const rp_program *program, finding *found) {
    const rp_code *code = &program->code;
    for (uint32_t v = 0; v < code->value_count; v++)
        found[v] = (finding){
            .base = v,
            .descent = code->values[v].kind == RP_CODE_PARAMETER ? WEIGHT : NOT_A_WEIGHT,
        };
    for (size_t n = 0; n < code->node_count; n++) {
        const rp_code_node *node = &code->nodes[n];
        const uint32_t out = output_of(code, node);
        if (out == RP_NONE)
            continue;
        found[out].descent = (uint8_t)pass_on((rp_op)node->op, most_of_inputs(code, node, found));
        if (node->op == RP_OP_VIEW)
            found[out].base = found[rp_code_inputs(code, node)[0]].base;
        if (node->mark == RP_MARK_KEEP)
            found[found[out].base].held = true;
    }
    for (size_t i = 0; i < program->root_count; i++)
        found[found[program->roots[i]].base].held = true;
}

/* Readers come first in this walk. */
static void mark_copies(rp_code *code, finding *found) {
    for (size_t n = code->node_count; n-- > 0;) {
        rp_code_node *node = &code->nodes[n];
        const uint32_t *in = rp_code_inputs(code, node), out = output_of(code, node);
        if (out == RP_NONE || node->op == RP_OP_VIEW || found[out].descent < WEIGHT_MOVED)
            continue;
        if ((found[out].descent == WEIGHT_COPY || found[out].asked) && !found[out].held)
            node->mark = RP_MARK_RECOMPUTE;
        for (uint32_t i = 0; i < node->in_count && node->mark == RP_MARK_RECOMPUTE; i++)
            found[found[in[i]].base].asked = true;
    }
}

/* What is held is no such copy: a mark that it has is the user's. */
static void join_views(rp_code *code, const finding *found, bool *marked) {
    for (size_t n = 0; n < code->node_count; n++) {
        rp_code_node *node = &code->nodes[n];
        const uint32_t out = output_of(code, node);
        if (out == RP_NONE)
            continue;
        if (node->op == RP_OP_VIEW)
            node->joined = marked[found[out].base];
        else
            marked[out] = found[out].descent >= WEIGHT_MOVED && !found[out].held &&
                          node->mark == RP_MARK_RECOMPUTE;
    }
}

rp_status rp_program_mark_weight_casts(rp_program *program) {
    rp_context *context = program->context;
    if (program->forward_only) /* nothing is kept */
        return RP_OK;
    finding *found = rp_alloc(context, program->code.value_count, sizeof *found);
    bool *marked = rp_alloc(context, program->code.value_count, sizeof *marked);
    rp_status status = RP_OK;
    if (found == NULL || marked == NULL) {
        status = rp_fail_memory(context, "a program");
    } else {
        look_at_values(program, found);
        mark_copies(&program->code, found);
        join_views(&program->code, found, marked);
    }
    rp_free(context, found);
    rp_free(context, marked);
    return status;
}
