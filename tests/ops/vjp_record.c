/* Recording what an op's vjp emits. */
#include "vjp_record.h"

#include <stdio.h>
#include <string.h>

#include "unit.h"

static rp_status emit(rp_vjp *vjp, rp_op op, const rp_op_params *params, const uint32_t *in,
                      size_t in_count, rp_vjp_output *out, size_t out_count) {
    vjp_record *record = (vjp_record *)vjp;
    RP_REQUIRE(record->count < VJP_MAX_NODES && in_count <= VJP_MAX_SLOTS &&
                   out_count <= VJP_MAX_SLOTS,
               "no room for the node");
    vjp_node *node = &record->nodes[record->count++];
    *node = (vjp_node){.op = op, .in_count = in_count, .out_count = out_count};
    if (params != NULL)
        node->params = *params;
    for (size_t i = 0; i < in_count; i++)
        node->in[i] = in[i];
    for (size_t k = 0; k < out_count; k++) {
        node->gradient_of[k] = out[k].gradient_of;
        if (out[k].gradient_of == RP_VJP_TEMPORARY)
            out[k].value = node->temporary[k] = 300 + record->temporaries++;
    }
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
                                   .context = rp_test_context(1),
                                   .emit = emit}};
    RP_CHECK_OK(record->vjp.context, rp_op_get(op)->vjp(&record->vjp));
    rp_context_destroy(record->vjp.context);
}

/* snprintf behind what is there. */
static void append(char *text, const char *format, unsigned number) {
    const size_t used = strlen(text);
    snprintf(text + used, VJP_TEXT - used, format, number);
}

static void append_value(char *text, uint32_t value) {
    if (value == RP_NONE)
        append(text, "-", 0);
    else
        append(text,
               value >= 300   ? "t%u"
               : value >= 200 ? "g%u"
               : value >= 100 ? "out%u"
                              : "in%u",
               value % 100);
}

const char *vjp_record_text(const vjp_record *record, char text[VJP_TEXT]) {
    text[0] = 0;
    for (size_t n = 0; n < record->count; n++) {
        const vjp_node *node = &record->nodes[n];
        append(text, rp_op_get(node->op)->name, 0);
        append(text, "(", 0);
        for (size_t i = 0; i < node->in_count; i++) {
            append(text, i > 0 ? " " : "", 0);
            append_value(text, node->in[i]);
        }
        append(text, ")->", 0);
        for (size_t k = 0; k < node->out_count; k++) {
            append(text, k > 0 ? " " : "", 0);
            if (node->gradient_of[k] >= 0)
                append(text, "d%u", (unsigned)node->gradient_of[k]);
            else
                append_value(text, node->gradient_of[k] == RP_VJP_TEMPORARY ? node->temporary[k]
                                                                            : RP_NONE);
        }
        append(text, "; ", 0);
    }
    return text;
}
