/* The caller's ops. custom takes and gives what was declared when it was recorded. custom_backward
 * takes the forward inputs, the forward outputs (each absent if the op does not read it) and the
 * gradients of the outputs, in this order, and gives the gradients of the inputs. There is nothing
 * to infer: rp_custom has checked what was declared. */
#include "define.h"

static bool any_wanted(const rp_vjp *vjp) {
    bool any = false;
    for (size_t i = 0; i < vjp->call->in_count; i++)
        any = any || vjp->wanted[i];
    return any;
}

static void fill_slots(const rp_vjp *vjp, uint32_t *in, rp_vjp_output *out) {
    const rp_custom_op *op = vjp->call->params->custom.op;
    const size_t ins = vjp->call->in_count, outs = vjp->call->out_count;
    for (size_t i = 0; i < ins; i++)
        in[i] = op->backward_reads_inputs ? vjp->in[i] : RP_NONE;
    for (size_t i = 0; i < outs; i++) {
        in[ins + i] = op->backward_reads_outputs ? vjp->out[i] : RP_NONE;
        in[ins + outs + i] = vjp->gradient[i];
    }
    for (size_t i = 0; i < ins; i++)
        out[i] = (rp_vjp_output){.gradient_of = vjp->wanted[i] ? (int)i : RP_VJP_ABSENT};
}

static rp_status custom_vjp(rp_vjp *vjp) {
    const rp_custom_op *op = vjp->call->params->custom.op;
    const size_t ins = vjp->call->in_count, slots = ins + 2 * vjp->call->out_count;
    rp_status status = RP_OK;
    if (!any_wanted(vjp))
        return RP_OK;
    if (op->backward == NULL)
        return rp_fail(vjp->context, RP_UNSUPPORTED,
                       "%s: a gradient would flow through it, and it has no backward", op->name);
    uint32_t *in = rp_alloc(vjp->context, slots, sizeof *in);
    rp_vjp_output *out = rp_alloc(vjp->context, ins, sizeof *out);
    if (in == NULL || out == NULL) {
        status = rp_fail_memory(vjp->context, "the gradients of a custom op");
        goto fail;
    }
    fill_slots(vjp, in, out);
    status = vjp->emit(vjp, RP_OP_CUSTOM_BACKWARD, vjp->call->params, in, slots, out, ins);
fail:
    rp_free(vjp->context, in);
    rp_free(vjp->context, out);
    return status;
}

const rp_op_def rp_op_def_custom = {.name = "custom", .vjp = custom_vjp};

const rp_op_def rp_op_def_custom_backward = {.name = "custom_backward"};
