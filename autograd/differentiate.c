/* Differentiation: the tape backwards, each op through its vjp (ops/op.h).
 *
 * A value's gradient is the sum over its readers, added up in the fixed order in which the tape
 * backwards meets them: inside the kernel of the later contribution where that op can, else by a
 * node of its own. Either way the sum so far is an input that may be overwritten, which the
 * planner decides like any other in-place pair. A gradient that accumulates over runs is the
 * same with a persistent value as the sum so far, written in place.
 *
 * Gradients are made for values that depend on a wanted leaf, so that branches of frozen
 * parameters get no nodes. */
#include <string.h>

#include "program.h"

/* `vjp` is first: emit gets its address and finds the rest behind it. */
typedef struct differentiator {
    rp_vjp vjp;
    rp_program *program;
    const bool *wanted_leaf;
    uint32_t *gradient; /* by tensor: the sum so far, or RP_NONE */
    uint32_t origin;    /* the tape's node in hand */
    rp_tensor_info *infos;
    size_t info_capacity;
    uint32_t *slots;
    size_t slot_capacity;
    bool *wanted;
    size_t wanted_capacity;
    uint32_t *emitted; /* scratch of emit, which runs while the others are in use */
    size_t emitted_capacity;
} differentiator;

static rp_status no_memory(rp_program *program) {
    return rp_fail_memory(program->context, "the backward nodes");
}

/* ---- Emitting -------------------------------------------------------------------------------- */

static rp_status add_value(rp_program *program, const rp_tensor_info *info, rp_code_kind kind,
                           uint32_t *value) {
    return rp_code_add_value(program->context, &program->code, info, kind, value)
               ? RP_OK
               : no_memory(program);
}

static rp_status add_node(differentiator *d, const rp_code_call *call) {
    rp_program *program = d->program;
    uint32_t index = RP_NONE;
    if (!rp_code_add_node(program->context, &program->code, call, &index))
        return no_memory(program);
    rp_code_node *node = &program->code.nodes[index];
    node->number = d->origin;
    node->block = d->origin == RP_NONE ? 0 : program->tape->code.nodes[d->origin].block;
    node->backward = true;
    return RP_OK;
}

static bool is_persistent(const differentiator *d, uint32_t gradient) {
    return gradient != RP_NONE && d->program->code.values[gradient].kind == RP_CODE_GRADIENT;
}

static bool adds_up(const differentiator *d, uint32_t tensor) {
    return d->program->accumulate && d->program->code.values[tensor].kind == RP_CODE_PARAMETER;
}

/* A gradient is of its tensor's type. One that accumulates over runs is f32, where small terms are
 * not lost beside a large sum. */
static rp_tensor_info gradient_info(const differentiator *d, uint32_t tensor) {
    rp_tensor_info info = rp_code_info(&d->program->code, tensor);
    if (adds_up(d, tensor))
        info.dtype = RP_F32;
    return info;
}

static rp_dtype dtype_of(const differentiator *d, uint32_t value) {
    return (rp_dtype)d->program->code.values[value].dtype;
}

/* The sum so far of the gradient of a tensor: RP_NONE before the first contribution, unless it
 * accumulates over runs. */
static rp_status sum_so_far(differentiator *d, uint32_t tensor, uint32_t *sum) {
    rp_program *program = d->program;
    if (d->gradient[tensor] == RP_NONE && adds_up(d, tensor)) {
        const rp_tensor_info info = gradient_info(d, tensor);
        const rp_status status = add_value(program, &info, RP_CODE_GRADIENT, &d->gradient[tensor]);
        if (status != RP_OK)
            return status;
        program->code.values[d->gradient[tensor]].writer = tensor;
    }
    *sum = d->gradient[tensor];
    return RP_OK;
}

/* Where a sum that grows is written: itself if it is persistent, else a new value. */
static rp_status next_sum(differentiator *d, uint32_t tensor, uint32_t sum, uint32_t *next) {
    if (is_persistent(d, sum)) {
        *next = sum;
        return RP_OK;
    }
    const rp_tensor_info info = gradient_info(d, tensor);
    const rp_status status = add_value(d->program, &info, RP_CODE_ACTIVATION, next);
    if (status == RP_OK)
        d->gradient[tensor] = *next;
    return status;
}

/* One more node: the sum so far plus a contribution that its own kernel could not add, or not in
 * the type of the sum. */
static rp_status add_contribution(differentiator *d, uint32_t tensor, uint32_t contribution) {
    rp_op_params params;
    memset(&params, 0, sizeof params);
    const uint32_t sum = d->gradient[tensor];
    const uint32_t in[] = {sum, contribution};
    uint32_t out = RP_NONE;
    const rp_status status = next_sum(d, tensor, sum, &out);
    rp_code_call call = {RP_OP_ADD, &params, in, &out, NULL, 2, 1};
    if (dtype_of(d, contribution) != dtype_of(d, sum)) {
        params.cast.dtype = dtype_of(d, sum);
        call = (rp_code_call){RP_OP_CAST, &params, &contribution, &out, &sum, 1, 1};
    }
    return status != RP_OK ? status : add_node(d, &call);
}

/* False for an absent output, and for the gradient of something that needs none. */
static bool is_asked_for(const differentiator *d, const rp_vjp_output *out) {
    if (out->gradient_of < 0)
        return out->gradient_of == RP_VJP_TEMPORARY;
    const uint32_t tensor = d->vjp.in[out->gradient_of];
    return tensor != RP_NONE && d->program->code.values[tensor].needs_gradient;
}

/* A gradient that is the same numbers in another shape: the same value if not even the shape
 * differs. */
static rp_status emit_view(differentiator *d, const rp_op_params *params, uint32_t from,
                           rp_vjp_output *out) {
    rp_code *code = &d->program->code;
    if (!is_asked_for(d, out))
        return RP_OK;
    const bool temporary = out->gradient_of == RP_VJP_TEMPORARY;
    const uint32_t tensor = temporary ? RP_NONE : d->vjp.in[out->gradient_of];
    const rp_tensor_info source = rp_code_info(code, from);
    rp_tensor_info info = temporary ? out->info : rp_code_info(code, tensor);
    info.dtype = source.dtype;
    uint32_t view = from, sum = RP_NONE;
    rp_status status = RP_OK;
    if (temporary || params->view.offset_bytes != 0 || !rp_code_info_equal(&info, &source)) {
        status = add_value(d->program, &info, RP_CODE_ACTIVATION, &view);
        const rp_code_call call = {RP_OP_VIEW, params, &from, &view, NULL, 1, 1};
        if (status == RP_OK)
            status = add_node(d, &call);
    }
    out->value = view;
    if (temporary || status != RP_OK)
        return status;
    status = sum_so_far(d, tensor, &sum);
    if (status != RP_OK || sum != RP_NONE)
        return status != RP_OK ? status : add_contribution(d, tensor, view);
    d->gradient[tensor] = view;
    return RP_OK;
}

static bool has_bit(uint32_t bits, size_t k) {
    return k < 32 && (bits >> k & 1) != 0;
}

/* Decides where output k of a node goes. *later: it is a contribution that a node of its own has
 * to add. */
static rp_status place_output(differentiator *d, rp_op op, rp_vjp_output *outputs, size_t k,
                              uint32_t *out, uint32_t *accumulate, bool *later) {
    rp_vjp_output *output = &outputs[k];
    *out = *accumulate = RP_NONE;
    *later = false;
    if (!is_asked_for(d, output))
        return RP_OK;
    if (output->gradient_of == RP_VJP_TEMPORARY)
        return add_value(d->program, &output->info, RP_CODE_ACTIVATION, out);
    const uint32_t tensor = d->vjp.in[output->gradient_of];
    const rp_op_def *def = rp_op_get(op);
    const rp_tensor_info own = rp_code_info(&d->program->code, tensor);
    const rp_tensor_info wanted = gradient_info(d, tensor);
    const bool narrow = own.dtype != wanted.dtype && !has_bit(def->widens, k);
    bool twice = false; /* this node's own earlier output is not there yet to be added to */
    for (size_t j = 0; j < k; j++)
        twice =
            twice || (outputs[j].gradient_of >= 0 && d->vjp.in[outputs[j].gradient_of] == tensor);
    uint32_t sum = RP_NONE;
    rp_status status = sum_so_far(d, tensor, &sum);
    if (status != RP_OK)
        return status;
    *later = twice || narrow || (sum != RP_NONE && !has_bit(def->accumulates, k));
    if (*later)
        return add_value(d->program, narrow ? &own : &wanted, RP_CODE_ACTIVATION, out);
    *accumulate = sum;
    return next_sum(d, tensor, sum, out);
}

static rp_status emit(rp_vjp *vjp, rp_op op, const rp_op_params *params, const uint32_t *in,
                      size_t in_count, rp_vjp_output *out, size_t out_count) {
    differentiator *d = (differentiator *)vjp;
    if (op == RP_OP_VIEW)
        return emit_view(d, params, in[0], &out[0]);
    rp_context *context = d->program->context;
    if (!rp_reserve(context, &d->emitted, &d->emitted_capacity, 3 * out_count, sizeof *d->emitted))
        return no_memory(d->program);
    uint32_t *values = d->emitted, *accumulate = values + out_count,
             *later = accumulate + out_count;
    size_t later_count = 0;
    bool accumulates = false;
    for (size_t k = 0; k < out_count; k++) {
        bool is_later = false;
        const rp_status status = place_output(d, op, out, k, &values[k], &accumulate[k], &is_later);
        if (status != RP_OK)
            return status;
        out[k].value = values[k];
        accumulates = accumulates || accumulate[k] != RP_NONE;
        if (is_later)
            later[later_count++] = (uint32_t)k;
    }
    const rp_code_call call = {op,       params,   in, values, accumulates ? accumulate : NULL,
                               in_count, out_count};
    rp_status status = add_node(d, &call);
    for (size_t i = 0; i < later_count && status == RP_OK; i++)
        status = add_contribution(d, vjp->in[out[later[i]].gradient_of], values[later[i]]);
    return status;
}

/* ---- Walking the tape ------------------------------------------------------------------------ */

/* Which tensors depend on a wanted leaf; kept in needs_gradient of the program's own list. */
static void find_needs(rp_program *program, const bool *wanted) {
    rp_code *code = &program->code;
    for (size_t v = 0; v < program->tensor_count; v++)
        if (rp_code_is_leaf(&code->values[v]))
            code->values[v].needs_gradient = wanted[v];
    for (size_t n = 0; n < code->node_count; n++) {
        const rp_code_node *node = &code->nodes[n];
        const uint32_t *in = rp_code_inputs(code, node), *out = rp_code_outputs(code, node);
        bool needs = false;
        for (uint32_t i = 0; i < node->in_count && !node->detached; i++)
            needs = needs || (in[i] != RP_NONE && code->values[in[i]].needs_gradient);
        for (uint32_t k = 0; k < node->out_count; k++)
            code->values[out[k]].needs_gradient = needs && code->values[out[k]].dtype != RP_I32;
    }
}

/* The gradient of each loss is the loss scale of the step. */
static rp_status seed_losses(differentiator *d) {
    rp_program *program = d->program;
    rp_op_params params;
    memset(&params, 0, sizeof params);
    bool any = false;
    for (size_t i = 0; i < program->loss_count; i++) {
        const uint32_t loss = program->roots[i];
        if (!program->code.values[loss].needs_gradient)
            continue;
        any = true;
        d->origin = program->code.values[loss].kind == RP_CODE_ACTIVATION
                        ? program->code.values[loss].writer
                        : RP_NONE;
        const rp_vjp vjp = {.in = &loss, .context = program->context};
        d->vjp = vjp;
        rp_vjp_output out = {.gradient_of = 0};
        const rp_status status = emit(&d->vjp, RP_OP_LOSS_SEED, &params, NULL, 0, &out, 1);
        if (status != RP_OK)
            return status;
    }
    return any ? RP_OK
               : rp_fail(program->context, RP_NOTHING_TO_DIFFERENTIATE,
                         "no loss depends on a parameter or input that gets a gradient");
}

/* Fills what the vjp of a node sees. *wanted: whether there is something to do at all. The lists
 * are copies, because emit makes the pools grow. */
static rp_status prepare(differentiator *d, const rp_code_node *node, rp_op_call *call, bool *any) {
    rp_program *program = d->program;
    const rp_code *code = &program->code;
    const size_t in_count = node->in_count, out_count = node->out_count;
    const size_t slots = in_count + out_count;
    if (!rp_reserve(program->context, &d->infos, &d->info_capacity, slots, sizeof *d->infos) ||
        !rp_reserve(program->context, &d->slots, &d->slot_capacity, slots + out_count,
                    sizeof *d->slots) ||
        !rp_reserve(program->context, &d->wanted, &d->wanted_capacity, in_count, sizeof *d->wanted))
        return no_memory(program);
    bool has_gradient = false, needs = false;
    memcpy(d->slots, rp_code_inputs(code, node), slots * sizeof *d->slots);
    for (size_t k = 0; k < out_count; k++) {
        d->slots[slots + k] = d->gradient[d->slots[in_count + k]];
        has_gradient = has_gradient || d->slots[slots + k] != RP_NONE;
    }
    for (size_t i = 0; i < in_count; i++) {
        d->wanted[i] = d->slots[i] != RP_NONE && code->values[d->slots[i]].needs_gradient;
        needs = needs || d->wanted[i];
    }
    *any = has_gradient && needs && !node->detached;
    if (!*any)
        return RP_OK;
    rp_code_infos(code, d->slots, slots, d->infos);
    *call = (rp_op_call){d->infos, in_count, d->infos + in_count, out_count, call->params};
    d->vjp = (rp_vjp){
        call, d->slots, d->slots + in_count, d->slots + slots, d->wanted, program->context, emit};
    return RP_OK;
}

static rp_status refuse(rp_program *program, uint32_t node) {
    rp_string text = {0};
    rp_status status = rp_fail_memory(program->context, "a message");
    if (rp_tape_node_text(program->tape, node, &text))
        status = rp_fail(program->context, RP_UNSUPPORTED,
                         "%s: a gradient would flow through this op (%s), which has none",
                         text.data, rp_op_get((rp_op)program->tape->code.nodes[node].op)->name);
    rp_string_clear(program->context, &text);
    return status;
}

static rp_status differentiate_node(differentiator *d, uint32_t index) {
    rp_program *program = d->program;
    const rp_code_node node = program->code.nodes[index];
    const rp_op_params params = program->code.params[node.params];
    rp_op_call call = {.params = &params};
    bool any = false;
    const rp_status status = prepare(d, &node, &call, &any);
    if (status != RP_OK || !any)
        return status;
    const rp_op_def *def = rp_op_get((rp_op)node.op);
    if (def->vjp == NULL || (node.op == RP_OP_CUSTOM && params.custom.op->backward == NULL))
        return refuse(program, index);
    d->origin = index;
    return def->vjp(&d->vjp);
}

/* ---- The result ------------------------------------------------------------------------------ */

/* An update to bf16 would mostly be rounded away, so it is made to a master copy in f32. */
static bool keeps_state(const rp_program *program, rp_state_kind kind, rp_dtype parameter) {
    if (kind == RP_STATE_MASTER)
        return program->optimizer != RP_OPTIMIZER_NONE && parameter == RP_BF16;
    return program->optimizer == RP_OPTIMIZER_ADAMW;
}

static rp_status add_state(rp_program *program, rp_program_gradient *gradient) {
    const rp_tensor_info parameter = rp_code_info(&program->code, gradient->leaf);
    const rp_tensor_info info = {RP_F32, parameter.shape};
    for (int k = 0; k < RP_STATE_COUNT; k++) {
        if (!keeps_state(program, (rp_state_kind)k, parameter.dtype))
            continue;
        const rp_status status = add_value(program, &info, RP_CODE_STATE, &gradient->state[k]);
        if (status != RP_OK)
            return status;
        program->code.values[gradient->state[k]].writer = gradient->leaf;
    }
    return RP_OK;
}

static rp_status collect_gradients(differentiator *d) {
    rp_program *program = d->program;
    size_t count = 0;
    for (size_t i = 0; i < program->tape->leaf_count; i++) {
        const uint32_t leaf = program->tape->leaves[i].value;
        count +=
            leaf < program->tensor_count && d->wanted_leaf[leaf] && d->gradient[leaf] != RP_NONE;
    }
    program->gradients = rp_alloc(program->context, count, sizeof *program->gradients);
    program->parameters = rp_alloc(program->context, count, sizeof *program->parameters);
    if (program->gradients == NULL || program->parameters == NULL)
        return no_memory(program);
    for (size_t i = 0; program->gradient_count < count; i++) {
        const uint32_t leaf = program->tape->leaves[i].value;
        if (!d->wanted_leaf[leaf] || d->gradient[leaf] == RP_NONE)
            continue;
        rp_program_gradient *g = &program->gradients[program->gradient_count];
        *g = (rp_program_gradient){leaf, d->gradient[leaf], {RP_NONE, RP_NONE, RP_NONE}};
        if (program->code.values[leaf].kind == RP_CODE_PARAMETER) {
            program->parameters[program->parameter_count++] = (uint32_t)program->gradient_count;
            const rp_status status = add_state(program, g);
            if (status != RP_OK)
                return status;
        }
        program->gradient_count++;
    }
    return RP_OK;
}

rp_status rp_program_differentiate(rp_program *program, const bool *wanted) {
    rp_context *context = program->context;
    differentiator d = {.program = program, .wanted_leaf = wanted};
    const size_t forward_count = program->code.node_count;
    d.gradient = rp_alloc(context, program->tensor_count, sizeof *d.gradient);
    rp_status status = d.gradient != NULL ? RP_OK : no_memory(program);
    for (size_t v = 0; v < program->tensor_count && status == RP_OK; v++)
        d.gradient[v] = RP_NONE;
    if (status == RP_OK) {
        find_needs(program, wanted);
        status = seed_losses(&d);
    }
    for (size_t n = forward_count; n > 0 && status == RP_OK; n--)
        status = differentiate_node(&d, (uint32_t)(n - 1));
    if (status == RP_OK)
        status = collect_gradients(&d);
    rp_free(context, d.gradient);
    rp_free(context, d.infos);
    rp_free(context, d.slots);
    rp_free(context, d.wanted);
    rp_free(context, d.emitted);
    return status;
}
