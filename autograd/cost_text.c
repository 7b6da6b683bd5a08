/* What tells one measurement from another, in words: these stand in files, so that they stay as
 * they are. */
#include "cost.h"

/* Parameters that change the work or the order of memory; factors and seeds do not. */
static bool add_params(rp_context *context, rp_op op, const rp_op_params *p, rp_string *text) {
    switch (op) {
    case RP_OP_GELU:
    case RP_OP_GELU_BACKWARD:
        return rp_string_add(context, text, p->gelu.form == RP_GELU_TANH ? " tanh" : " erf");
    case RP_OP_SOFTMAX:
    case RP_OP_SOFTMAX_BACKWARD:
        return !p->softmax.causal || rp_string_add(context, text, " causal");
    case RP_OP_LINEAR:
    case RP_OP_LINEAR_BACKWARD_INPUT:
    case RP_OP_LINEAR_BACKWARD_WEIGHT:
        return rp_string_add(context, text, p->linear.layout == RP_IN_OUT ? " in-out" : " out-in");
    case RP_OP_MATMUL:
        return rp_string_append(context, text, " %c%c", p->matmul.transpose_a ? 't' : 'n',
                                p->matmul.transpose_b ? 't' : 'n');
    case RP_OP_ATTENTION:
    case RP_OP_ATTENTION_BACKWARD:
    case RP_OP_ATTENTION_SCORES:
    case RP_OP_ATTENTION_SCORES_BACKWARD:
    case RP_OP_ATTENTION_VALUES:
    case RP_OP_ATTENTION_VALUES_BACKWARD:
        return rp_string_append(context, text, " %d/%d%s%s%s", p->attention.heads,
                                p->attention.kv_heads, p->attention.causal ? " causal" : "",
                                p->attention.packed ? " packed" : "",
                                p->attention.dropout > 0.0f ? " dropout" : "");
    case RP_OP_TRANSPOSE:
        return rp_string_append(context, text, " %d %d", p->transpose.first, p->transpose.second);
    case RP_OP_SLICE:
    case RP_OP_SLICE_BACKWARD:
        return rp_string_append(context, text, " %d", p->slice.dimension);
    case RP_OP_CONCAT:
        return rp_string_append(context, text, " %d", p->concat.dimension);
    default:
        return true;
    }
}

static bool add_infos(rp_context *context, const rp_tensor_info *infos, size_t count,
                      uint64_t added, rp_string *text) {
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        char words[RP_SHAPE_TEXT];
        good = rp_string_add(context, text, i > 0 ? ", " : " ") &&
               rp_string_add(context, text, i < 64 && (added >> i & 1) != 0 ? "+= " : "") &&
               rp_string_add(context, text, rp_tensor_text(&infos[i], words));
    }
    return good;
}

bool rp_cost_text(rp_context *context, rp_op op, const rp_op_call *call, uint64_t added,
                  rp_string *text) {
    return rp_string_add(context, text, rp_op_get(op)->name) &&
           add_params(context, op, call->params, text) && rp_string_add(context, text, ":") &&
           add_infos(context, call->in, call->in_count, 0, text) &&
           rp_string_add(context, text, " ->") &&
           add_infos(context, call->out, call->out_count, added, text);
}
