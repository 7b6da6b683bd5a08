/* Recording what an op's vjp emits. */
#include "vjp_record.h"

#include "unit.h"

static rp_status emit(rp_vjp *vjp, rp_op op, const rp_op_params *params, const uint32_t *in,
                      size_t in_count, rp_vjp_output *out, size_t out_count) {
    vjp_record *record = (vjp_record *)vjp;
    RP_REQUIRE(record->count < VJP_MAX_NODES && in_count <= VJP_MAX_SLOTS &&
                   out_count <= VJP_MAX_SLOTS,
               "no room for the node");
    vjp_node *node = &record->nodes[record->count++];
    *node = (vjp_node){.op = op, .params = *params, .in_count = in_count, .out_count = out_count};
    for (size_t i = 0; i < in_count; i++)
        node->in[i] = in[i];
    for (size_t k = 0; k < out_count; k++)
        node->gradient_of[k] = out[k].gradient_of;
    return RP_OK;
}

void vjp_record_make(vjp_record *record, rp_op op, const rp_op_call *call, uint32_t wanted) {
    static const uint32_t outs[] = {100, 101, 102, 103};
    static const uint32_t gradients[] = {200, RP_NONE, RP_NONE, RP_NONE};
    uint32_t in[VJP_MAX_SLOTS];
    bool is_wanted[VJP_MAX_SLOTS];
    for (uint32_t i = 0; i < call->in_count; i++) {
        in[i] = call->in[i].dtype == RP_NO_DTYPE ? RP_NONE : i;
        is_wanted[i] = wanted >> i & 1;
    }
    *record = (vjp_record){.vjp = {.call = call,
                                   .in = in,
                                   .out = outs,
                                   .gradient = gradients,
                                   .wanted = is_wanted,
                                   .emit = emit}};
    RP_CHECK_EQUAL(rp_op_get(op)->vjp(&record->vjp), RP_OK);
}
