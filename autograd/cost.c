/* Modelled costs: a roofline, the same on every machine.
 *
 * What a plan needs is the ratio of costs, and that the same command gives the same plan
 * everywhere; so nothing is measured here, and all arithmetic is in integers. */
#include "cost.h"

#include <string.h>

__extension__ typedef unsigned __int128 wide;

/* 150 GFLOP/s in products through a BLAS; 40 in attention, whose exponentials and small tiles do
 * not reach that; 20 elsewhere, where a "FLOP" may be an exponential. 20 GB/s of memory. */
const rp_device rp_device_plain = {
    .struct_size = sizeof(rp_device),
    .name = "plain processor with two cores",
    .f32_flops = INT64_C(200000000000),
    .memory_rate = INT64_C(20000000000),
    .launch_ns = 500,
    .products_permille = 750,
    .attention_permille = 200,
    .other_permille = 100,
    .memory_permille = 1000,
};

typedef enum kind { OTHER, PRODUCT, ATTENTION } kind;

static const uint8_t kinds[RP_OP_COUNT] = {
    [RP_OP_LINEAR] = PRODUCT,
    [RP_OP_LINEAR_BACKWARD_INPUT] = PRODUCT,
    [RP_OP_LINEAR_BACKWARD_WEIGHT] = PRODUCT,
    [RP_OP_MATMUL] = PRODUCT,
    [RP_OP_ATTENTION] = ATTENTION,
    [RP_OP_ATTENTION_BACKWARD] = ATTENTION,
    [RP_OP_ATTENTION_SCORES] = ATTENTION,
    [RP_OP_ATTENTION_SCORES_BACKWARD] = ATTENTION,
    [RP_OP_ATTENTION_VALUES] = ATTENTION,
    [RP_OP_ATTENTION_VALUES_BACKWARD] = ATTENTION,
};

/* amount / (rate a second x permille / 1000) in ns, rounded up: 63 + 40 bits by 63 + 10. */
static int64_t time_of(int64_t amount, int64_t rate, int64_t permille) {
    const wide by = (wide)rate * (wide)permille;
    const wide ns = ((wide)amount * 1000000000000 + by - 1) / by;
    return ns > (wide)INT64_MAX ? INT64_MAX : (int64_t)ns;
}

static bool reads_bf16(const rp_op_call *call) {
    for (size_t i = 0; i < call->in_count; i++)
        if (call->in[i].dtype == RP_F32 || call->in[i].dtype == RP_BF16)
            return call->in[i].dtype == RP_BF16;
    return false;
}

bool rp_cost_is_declared(rp_op op) {
    return op == RP_OP_VIEW || op == RP_OP_CUSTOM || op == RP_OP_CUSTOM_BACKWARD;
}

int64_t rp_cost_model(const rp_device *device, rp_op op, const rp_op_call *call,
                      int64_t accumulated_bytes) {
    if (op == RP_OP_VIEW)
        return 0;
    if (op == RP_OP_CUSTOM)
        return call->params->custom.op->forward_cost_ns;
    if (op == RP_OP_CUSTOM_BACKWARD)
        return call->params->custom.op->backward_cost_ns;
    const int64_t permille[] = {device->other_permille, device->products_permille,
                                device->attention_permille};
    const kind k = (kind)kinds[op];
    const bool bf16 = k != OTHER && device->bf16_flops > 0 && reads_bf16(call);
    int64_t bytes = 0, ns = 0;
    if (!rp_checked_add(rp_op_bytes_moved(op, call), accumulated_bytes, &bytes))
        bytes = INT64_MAX;
    const int64_t compute =
        time_of(rp_op_flops(op, call), bf16 ? device->bf16_flops : device->f32_flops, permille[k]);
    const int64_t traffic = time_of(bytes, device->memory_rate, device->memory_permille);
    return rp_checked_add(compute > traffic ? compute : traffic, device->launch_ns, &ns)
               ? ns
               : INT64_MAX;
}

/* ---- Descriptions ---------------------------------------------------------------------------- */

/* Fields are called as in the file. */
rp_status rp_device_check(rp_context *context, const rp_device *device) {
    const struct {
        const char *name;
        int64_t value, least, most;
    } rows[] = {
        {"peak_flops.f32", device->f32_flops, 1, INT64_MAX},
        {"peak_flops.bf16", device->bf16_flops, 0, INT64_MAX},
        {"memory_bytes", device->memory_bytes, 0, INT64_MAX},
        {"memory_bytes_per_s", device->memory_rate, 1, INT64_MAX},
        {"link_bytes_per_s", device->link_rate, 0, INT64_MAX},
        {"launch_ns", device->launch_ns, 0, INT64_MAX},
        {"achieved_permille.products", device->products_permille, 1, 1000},
        {"achieved_permille.attention", device->attention_permille, 1, 1000},
        {"achieved_permille.other", device->other_permille, 1, 1000},
        {"achieved_permille.memory", device->memory_permille, 1, 1000},
    };
    if (device->struct_size != sizeof *device)
        return rp_fail(context, RP_INVALID_ARGUMENT, "device: of another size: set struct_size");
    if (memchr(device->name, 0, sizeof device->name) == NULL)
        return rp_fail(context, RP_INVALID_ARGUMENT, "device: the name does not end");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].value < rows[i].least || rows[i].value > rows[i].most)
            return rp_fail(context, RP_INVALID_ARGUMENT,
                           "device: %s is %lld, %lld to %lld is needed", rows[i].name,
                           (long long)rows[i].value, (long long)rows[i].least,
                           (long long)rows[i].most);
    return RP_OK;
}
