/* The plans of cuDNN for every kind of attention that Reprise gives to it, made without a device:
 * the device is described by hand, the driver is a stand-in (driver.c). Checks that there is a
 * plan, and that it takes the scratch that plans count. Without cuDNN: skipped, which is 77.
 *
 *   test_cudnn_plans [sm_80 | sm_90 | sm_100]
 *
 * All shapes on the device that is named, or on all of them with RP_TEST_LONG=1; else the first few
 * on all and the others in turn, each on one: a plan takes half a second to make. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention_sizes.h"

enum { SKIPPED = 77 };

typedef struct shape_case {
    int64_t batch, heads, kv_heads, queries, keys, size;
    bool causal, packed;
} shape_case;

static int cases, failed;

static void check(bool holds, const char *what, const shape_case *c, const char *device) {
    cases++;
    if (holds)
        return;
    failed++;
    printf("%s: batch %lld, heads %lld of %lld, %lld queries, %lld keys, size %lld%s%s, %s\n", what,
           (long long)c->batch, (long long)c->heads, (long long)c->kv_heads, (long long)c->queries,
           (long long)c->keys, (long long)c->size, c->causal ? ", causal" : "",
           c->packed ? ", packed" : "", device);
}

/* ---- Which kernel serves what ---------------------------------------------------------------- */

typedef struct attention_call {
    rp_op_params params;
    rp_tensor_info in[6], out[3];
    rp_op_call forward, backward;
} attention_call;

static void make_call(attention_call *call, const shape_case *c, rp_dtype dtype) {
    memset(call, 0, sizeof *call);
    call->params.attention.heads = (int)c->heads;
    call->params.attention.kv_heads = (int)c->kv_heads;
    call->params.attention.causal = c->causal;
    call->params.attention.packed = c->packed;
    const int64_t width = (c->heads + (c->packed ? 2 * c->kv_heads : 0)) * c->size;
    const rp_tensor_info q = {dtype, RP_SHAPE(c->batch, c->queries, width)};
    const rp_tensor_info kv = {dtype, RP_SHAPE(c->batch, c->keys, c->kv_heads * c->size)};
    const rp_tensor_info o = {dtype, RP_SHAPE(c->batch, c->queries, c->heads * c->size)};
    const rp_tensor_info lse = {RP_F32, RP_SHAPE(c->batch, c->heads, c->queries)};
    call->in[0] = call->out[0] = q;
    call->in[3] = call->in[5] = o;
    call->in[4] = lse;
    if (!c->packed)
        call->in[1] = call->in[2] = call->out[1] = call->out[2] = kv;
    call->forward = (rp_op_call){call->in, 3, call->out, 1, &call->params};
    call->backward = (rp_op_call){call->in, 6, call->out, 3, &call->params};
}

static const shape_case served[] = {
    {2, 12, 12, 1024, 1024, 64, true, true}, {2, 12, 12, 1024, 1024, 64, true, false},
    {1, 2, 2, 17, 17, 64, true, true},       {1, 2, 2, 1000, 1000, 64, true, false},
    {1, 8, 2, 1024, 1024, 128, true, false}, {1, 4, 2, 1000, 1000, 128, true, true},
    {1, 4, 2, 17, 17, 64, true, false},      {2, 3, 3, 1024, 1024, 64, false, false},
    {1, 4, 1, 100, 300, 72, false, false},   {1, 4, 2, 129, 257, 40, false, false},
    {1, 2, 2, 65, 65, 8, true, true},        {1, 2, 2, 130, 130, 32, true, false},
    {3, 2, 2, 1, 1, 32, true, false},        {1, 4, 4, 1000, 1000, 96, true, false},
    {1, 4, 1, 1024, 1024, 80, false, true},  {1, 32, 8, 2048, 2048, 128, true, false},
};

enum { SERVED = sizeof served / sizeof served[0] };

static void check_rule(void) {
    const shape_case usual = {64, 12, 12, 1024, 1024, 64, true, true};
    shape_case c = usual;
    attention_call call;
    for (int i = 0; i < SERVED; i++) {
        make_call(&call, &served[i], RP_BF16);
        check(rp_cudnn_serves_forward(&call.forward), "forward is not served", &served[i], "rule");
        check(rp_cudnn_serves_backward(&call.backward), "backward is not served", &served[i],
              "rule");
        make_call(&call, &served[i], RP_F32);
        check(!rp_cudnn_serves_forward(&call.forward), "f32 is served", &served[i], "rule");
    }
    make_call(&call, &usual, RP_BF16);
    const rp_attention_layout l = rp_cuda_attention_layout(&call.backward);
    /* 1.5 GiB of scores in bf16: eight parts of 192 MiB */
    check(rp_cudnn_backward_part(&l) == 8, "parts of the batch", &usual, "rule");
    check(rp_cudnn_backward_scratch(&call.backward) ==
              8 * 12 * 1024 * 4 + 8 * 12 * 1024 * 1024 * (int64_t)2 + 256,
          "scratch of backward", &usual, "rule");
    call.params.attention.dropout = 0.1f;
    check(!rp_cudnn_serves_forward(&call.forward), "dropout is served", &usual, "rule");
    c.size = 20;
    make_call(&call, &c, RP_BF16);
    check(!rp_cudnn_serves_forward(&call.forward), "an odd head is served", &c, "rule");
    c.size = 136;
    make_call(&call, &c, RP_BF16);
    check(!rp_cudnn_serves_forward(&call.forward), "a large head is served", &c, "rule");
    c = (shape_case){1, 2, 2, 64, 128, 64, true, false};
    make_call(&call, &c, RP_BF16);
    check(!rp_cudnn_serves_forward(&call.forward), "a moved mask is served", &c, "rule");
    c.causal = false;
    make_call(&call, &c, RP_BF16);
    call.out[1].dtype = RP_NO_DTYPE;
    check(!rp_cudnn_serves_backward(&call.backward), "a lone gradient is served", &c, "rule");
}

/* ---- Plans ----------------------------------------------------------------------------------- */

#ifdef RP_CUDA_CUDNN

#include <dlfcn.h>

#include "attention_graph.h"

typedef struct device_case {
    const char *name, *words; /* words: as cuDNN describes a device to itself */
    int64_t keys_tile, extra; /* of backward's scratch */
} device_case;

#define DEVICE(name, version, processors, shared, l2)                                              \
    "{\"deviceName\":\"" name "\",\"deviceVer\":" version ",\"multiProcessorCount\":" processors   \
    ",\"maxSharedMemoryPerBlockOptin\":" shared ",\"l2CacheSize\":" l2                             \
    ",\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"                   \
    "\"regsPerBlock\":65536,\"warpSize\":32,\"maxSharedMemoryPerBlock\":49152,"                    \
    "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"maxCtasPerSM\":32,"       \
    "\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,\"pciDeviceId\":0,\"isTccDriver\":0,"    \
    "\"supportCoopLaunch\":1,\"totalGlobalMem\":85899345920,\"smClockRateKHz\":1410000,"           \
    "\"memClockRateKHz\":1593000,\"cudaDeviceId\":0,\"driverVer\":13000}"

static const device_case devices[] = {
    {"sm_80", DEVICE("A100", "800", "108", "166912", "41943040"), 64, 128},
    {"sm_90", DEVICE("H200", "900", "132", "232448", "62914560"), 128, 256},
    {"sm_100", DEVICE("B200", "1000", "148", "232448", "132644864"), 64, 128},
};

enum { DEVICES = sizeof devices / sizeof devices[0] };

static int64_t round_up(int64_t x, int64_t step) {
    return (x + step - 1) / step * step;
}

/* What a backward plan was found to take, device by device. */
static int64_t backward_scratch(const shape_case *c, const device_case *device) {
    const int64_t heads = c->batch * c->heads;
    const int64_t scores =
        heads * round_up(c->queries, 64) * round_up(c->keys, device->keys_tile) * 2;
    const int64_t shared = round_up(heads * c->keys * c->size * 2, 128);
    return scores + (c->heads > c->kv_heads ? 2 * shared : 0) + device->extra;
}

static rp_cudnn_shape shape_of(const attention_call *call, const shape_case *c, bool backward) {
    const rp_attention_layout l = rp_cuda_attention_layout(&call->forward);
    return (rp_cudnn_shape){.batch = c->batch,
                            .queries = c->queries,
                            .keys = c->keys,
                            .heads = c->heads,
                            .kv_heads = c->kv_heads,
                            .size = c->size,
                            .q_stride = l.q_stride,
                            .kv_stride = l.kv_stride,
                            .o_stride = l.o_stride,
                            .causal = c->causal,
                            .backward = backward,
                            .statistics = true};
}

static void check_plans(rp_context *context, const device_case *device,
                        cudnnBackendDescriptor_t properties, const shape_case *c) {
    attention_call call;
    rp_cudnn_plan *plan = NULL;
    make_call(&call, c, RP_BF16);
    const rp_attention_layout l = rp_cuda_attention_layout(&call.forward);
    rp_cudnn_shape shape = shape_of(&call, c, false);
    rp_status status =
        rp_cudnn_plan_make(context, NULL, properties, &shape, RP_CUDNN_FORWARD_SCRATCH, &plan);
    check(status == RP_OK, "no forward plan", c, device->name);
    rp_cudnn_plan_destroy(context, plan);
    if (c == &served[0]) {
        shape.statistics = false;
        status =
            rp_cudnn_plan_make(context, NULL, properties, &shape, RP_CUDNN_FORWARD_SCRATCH, &plan);
        check(status == RP_OK, "no forward plan without statistics", c, device->name);
        rp_cudnn_plan_destroy(context, plan);
    }
    shape = shape_of(&call, c, true);
    const int64_t most = rp_cudnn_backward_plan_scratch(&l, c->batch);
    status = rp_cudnn_plan_make(context, NULL, properties, &shape, most, &plan);
    check(status == RP_OK, "no backward plan", c, device->name);
    if (plan != NULL && plan->scratch != backward_scratch(c, device))
        printf("%lld bytes of scratch, %lld expected\n", (long long)plan->scratch,
               (long long)backward_scratch(c, device));
    check(plan != NULL && plan->scratch == backward_scratch(c, device), "backward's scratch", c,
          device->name);
    check(plan != NULL && plan->scratch <= most, "backward's scratch in plans", c, device->name);
    rp_cudnn_plan_destroy(context, plan);
}

static cudnnBackendDescriptor_t describe(const device_case *device) {
    cudnnBackendDescriptor_t properties = NULL;
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &properties) !=
        CUDNN_STATUS_SUCCESS)
        return NULL;
    if (cudnnBackendSetAttribute(properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                                 CUDNN_TYPE_CHAR, (int64_t)strlen(device->words),
                                 device->words) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendFinalize(properties) == CUDNN_STATUS_SUCCESS)
        return properties;
    cudnnBackendDestroyDescriptor(properties);
    return NULL;
}

/* The first shapes are those of models. */
static bool is_in_turn(int shape, int device) {
    return getenv("RP_TEST_LONG") != NULL || shape < 4 || shape % DEVICES == device;
}

static int check_all_plans(const char *name) {
    rp_context *context = NULL;
    /* By its soname it is then what cuDNN finds. */
    if (dlopen(RP_STANDIN_DRIVER, RTLD_NOW | RTLD_GLOBAL) == NULL) {
        printf("%s\n", dlerror());
        return 1;
    }
    if (rp_context_create(NULL, &context) != RP_OK)
        return 1;
    for (int d = 0; d < DEVICES; d++) {
        if (name != NULL && strcmp(name, devices[d].name) != 0)
            continue;
        cudnnBackendDescriptor_t properties = describe(&devices[d]);
        for (int i = 0; i < SERVED; i++) {
            const int before = failed;
            if (name == NULL && !is_in_turn(i, d))
                continue;
            check(properties != NULL, "no description of the device", &served[i], devices[d].name);
            if (properties != NULL)
                check_plans(context, &devices[d], properties, &served[i]);
            if (failed > before)
                printf("  %s\n", rp_context_message(context));
        }
        if (properties != NULL)
            cudnnBackendDestroyDescriptor(properties);
    }
    rp_context_destroy(context);
    return 0;
}

#endif

int main(int argc, char **argv) {
    (void)argc;
    (void)argv;
    check_rule();
#ifdef RP_CUDA_CUDNN
    if (check_all_plans(argc > 1 ? argv[1] : NULL) != 0)
        return 1;
    printf("%d cases, %d failed\n", cases, failed);
    return failed != 0;
#else
    printf("%d cases, %d failed; plans skipped: built without cuDNN\n", cases, failed);
    return failed != 0 ? 1 : SKIPPED;
#endif
}
