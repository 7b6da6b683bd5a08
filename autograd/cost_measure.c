/* Measured costs: kernels run on made-up inputs and timed. */
#include "cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "executor.h"

/* Samples of a median; nanoseconds that one sample should take at least, so that the clock and the
 * start of a team of threads do not count, or, of a device, the way to it and back, which is some
 * ten microseconds; runs that are taken for it at most. */
enum { SAMPLES = 5, SAMPLE_NS = 100000, DEVICE_SAMPLE_NS = 2000000, MOST_RUNS = 64 };
/* A byte of which floats consist: 0.0115 in f32 and in bf16, nothing that is slow to compute. */
enum { FLOAT_BYTE = 0x3c };

/* One node with memory of its own, and the queue of all nodes that are measured together. */
typedef struct bench {
    rp_context *context;
    const rp_backend *backend;
    rp_queue *queue;
    rp_step_state step;
    char *block;
    size_t bytes, used;
    void **places; /* inputs, outputs, what is added to */
    rp_launch launch;
    rp_kernel kernel;
} bench;

static bool add_room(const bench *b, size_t *sum, int64_t bytes) {
    const size_t unit = (size_t)b->backend->alignment;
    const size_t rounded = ((size_t)bytes + unit - 1) / unit * unit;
    return bytes <= INT64_MAX - b->backend->alignment &&
           !__builtin_add_overflow(*sum, rounded, sum);
}

static int64_t bytes_of(const rp_tensor_info *info) {
    int64_t bytes = 0;
    if (info->dtype == RP_NO_DTYPE)
        return 0;
    return rp_code_info_bytes(info, &bytes) ? bytes : INT64_MAX;
}

/* How many rows ids may choose from: of the table that they look up, or classes of the logits. */
static int64_t id_range(rp_op op, const rp_op_call *call) {
    const rp_tensor_info *info = op == RP_OP_EMBEDDING_BACKWARD ? &call->out[0] : &call->in[0];
    const bool rows = op == RP_OP_EMBEDDING || op == RP_OP_EMBEDDING_BACKWARD;
    const int last = info->shape.rank - 1;
    return info->shape.rank > 0 ? info->shape.dims[rows ? 0 : last] : 1;
}

/* Spread over their range, as tokens are. */
static rp_status write_ids(const bench *b, void *place, int64_t bytes, int64_t range) {
    const size_t count = (size_t)bytes / sizeof(int32_t);
    int32_t *ids = rp_alloc(b->context, count, sizeof *ids);
    if (ids == NULL)
        return rp_fail_memory(b->context, "inputs to measure with");
    for (size_t i = 0; i < count; i++)
        ids[i] = range > 0 ? (int32_t)((uint32_t)i * UINT32_C(2654435761) % (uint64_t)range) : 0;
    const rp_status status = b->backend->write(b->queue, place, ids, (size_t)bytes);
    rp_free(b->context, ids);
    return status;
}

/* Numbers that differ, in f32 and in bf16 both: each half of a word is +-[1/128, 1/2). A GPU
 * computes faster with equal ones than with anybody's data, for they take less power. */
static rp_status write_floats(const bench *b, void *place, int64_t bytes) {
    enum { TILE = 1 << 20 };
    uint16_t *tile = rp_alloc(b->context, TILE, 1);
    if (tile == NULL)
        return rp_fail_memory(b->context, "inputs to measure with");
    uint32_t state = 1;
    for (size_t i = 0; i < TILE / sizeof *tile; i++) {
        state = state * UINT32_C(1664525) + UINT32_C(1013904223);
        tile[i] = (uint16_t)((state >> 16 & 0x8000u) | (0x3c00u + (state >> 16 & 0x2ffu)));
    }
    rp_status status = RP_OK;
    for (int64_t done = 0; done < bytes && status == RP_OK; done += TILE)
        status = b->backend->write(b->queue, (char *)place + done, tile,
                                   (size_t)(bytes - done < TILE ? bytes - done : TILE));
    rp_free(b->context, tile);
    return status;
}

static rp_status fill_floats(const bench *b, void *place, int64_t bytes) {
    return b->backend->host_readable ? b->backend->fill(b->queue, place, FLOAT_BYTE, (size_t)bytes)
                                     : write_floats(b, place, bytes);
}

static void *take(bench *b, int64_t bytes) {
    void *place = b->block + b->used;
    add_room(b, &b->used, bytes);
    return place;
}

static rp_status fill_inputs(bench *b, rp_op op) {
    const rp_op_call *call = &b->launch.call;
    rp_status status = RP_OK;
    for (size_t i = 0; i < call->in_count && status == RP_OK; i++) {
        const int64_t bytes = bytes_of(&call->in[i]);
        b->places[i] = call->in[i].dtype != RP_NO_DTYPE ? take(b, bytes) : NULL;
        if (call->in[i].dtype == RP_I32)
            status = write_ids(b, b->places[i], bytes, id_range(op, call));
        else if (b->places[i] != NULL)
            status = fill_floats(b, b->places[i], bytes);
    }
    return status;
}

/* Gives the call its memory, outputs that are added to in place, and touches all of it. */
static rp_status make_room(bench *b, rp_op op, uint64_t added) {
    const rp_op_call *call = &b->launch.call;
    const int64_t workspace = b->backend->workspace(op, call);
    bool fits = add_room(b, &b->bytes, workspace) && add_room(b, &b->bytes, b->backend->step_bytes);
    for (size_t i = 0; i < call->in_count && fits; i++)
        fits = add_room(b, &b->bytes, bytes_of(&call->in[i]));
    for (size_t i = 0; i < call->out_count && fits; i++)
        fits = add_room(b, &b->bytes, bytes_of(&call->out[i]));
    void *block = NULL;
    if (!fits)
        return rp_fail_memory(b->context, "the tensors of a node");
    rp_status status = b->backend->allocate(b->context, b->queue, b->bytes, &block);
    if (status != RP_OK)
        return status;
    b->block = block;
    void **out = b->places + call->in_count, **sum = out + call->out_count;
    for (size_t k = 0; k < call->out_count; k++) {
        out[k] = call->out[k].dtype != RP_NO_DTYPE ? take(b, bytes_of(&call->out[k])) : NULL;
        sum[k] = k < 64 && (added >> k & 1) != 0 ? out[k] : NULL;
    }
    b->launch.workspace = workspace > 0 ? take(b, workspace) : NULL;
    b->launch.step = &b->step;
    void *step = b->backend->step_bytes > 0 ? take(b, b->backend->step_bytes) : NULL;
    status = b->backend->fill(b->queue, b->block, 0, b->used);
    if (status == RP_OK && step != NULL)
        status = b->backend->write_step(b->queue, step, &b->step);
    if (step != NULL)
        b->launch.step = step;
    b->launch.in = (const void *const *)b->places;
    b->launch.out = out;
    b->launch.accumulate = added != 0 ? (const void *const *)sum : NULL;
    return status == RP_OK ? fill_inputs(b, op) : status;
}

static rp_status call(const bench *b, int64_t runs) {
    rp_status status = RP_OK;
    for (int64_t i = 0; i < runs && status == RP_OK; i++)
        status = b->kernel(&b->launch);
    return status;
}

/* `recording`: of the runs, or NULL. */
static rp_status run(const bench *b, void *recording, int64_t runs, int64_t *each_ns) {
    const int64_t begin = rp_monotonic_ns();
    rp_status status = recording != NULL ? b->backend->replay(b->queue, recording) : call(b, runs);
    if (status == RP_OK)
        status = rp_backend_finish(b->backend, b->queue);
    *each_ns = (rp_monotonic_ns() - begin) / runs;
    return status;
}

/* Steps of a device are replayed recordings, in which small kernels follow each other faster than a
 * host can launch them. */
static rp_status record_runs(const bench *b, int64_t runs, void **recording) {
    *recording = NULL;
    if (b->backend->record_begin == NULL)
        return RP_OK;
    rp_status status = b->backend->record_begin(b->queue);
    if (status != RP_OK)
        return status;
    status = call(b, runs);
    const rp_status ended = b->backend->record_end(b->queue, recording);
    return status != RP_OK ? status : ended;
}

static int compare(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static rp_status time_kernel(const bench *b, int64_t *median_ns) {
    int64_t times[SAMPLES] = {0}, warm = 0;
    rp_status status = run(b, NULL, 1, &warm);
    if (status == RP_OK)
        status = run(b, NULL, 1, &warm);
    const int64_t least = b->backend->host_readable ? SAMPLE_NS : DEVICE_SAMPLE_NS;
    const int64_t wanted = warm > 0 ? least / warm + 1 : MOST_RUNS;
    const int64_t runs = wanted < MOST_RUNS ? wanted : MOST_RUNS;
    void *recording = NULL;
    if (status == RP_OK)
        status = record_runs(b, runs, &recording);
    for (int i = 0; i < SAMPLES && status == RP_OK; i++)
        status = run(b, recording, runs, &times[i]);
    if (recording != NULL)
        b->backend->discard(recording);
    qsort(times, SAMPLES, sizeof times[0], compare);
    *median_ns = times[SAMPLES / 2];
    return status;
}

static rp_status measure_node(bench *b, rp_op op, uint64_t added, int64_t *cost_ns) {
    rp_status status = make_room(b, op, added);
    if (status == RP_OK && b->backend->prepare != NULL)
        status = b->backend->prepare(b->queue, op, &b->launch.call);
    if (status != RP_OK)
        return status;
    const int previous = b->backend->enter(b->launch.threads);
    status = time_kernel(b, cost_ns);
    b->backend->leave(previous);
    return status == RP_OK ? RP_OK
                           : rp_fail(b->context, status, "costs: %s: %s", rp_op_get(op)->name,
                                     rp_status_text(status));
}

static rp_status measure(rp_context *context, const rp_backend *backend, rp_queue *queue, rp_op op,
                         const rp_op_call *call, uint64_t added, int64_t *cost_ns) {
    bench b = {.context = context,
               .backend = backend,
               .queue = queue,
               .step = {.seed = 1, .loss_scale = 1.0f},
               .launch = {.call = *call, .queue = queue, .threads = rp_context_threads(context)},
               .kernel = backend->kernels()[op]};
    b.places = rp_alloc(context, call->in_count + 2 * call->out_count, sizeof *b.places);
    const rp_status status = b.places != NULL ? measure_node(&b, op, added, cost_ns)
                                              : rp_fail_memory(context, "a node to measure");
    if (b.block != NULL)
        backend->release(queue, b.block, b.bytes);
    rp_free(context, b.places);
    return status;
}

/* ---- Programs -------------------------------------------------------------------------------- */

static rp_status check_backend(rp_context *context, rp_backend_kind kind,
                               const rp_backend **backend) {
    const rp_status status = rp_backend_find(context, kind, backend);
    if (status != RP_OK)
        return status;
    if ((*backend)->kernels == NULL)
        return rp_fail(context, RP_UNSUPPORTED,
                       "costs: the %s backend runs nothing that could be measured",
                       (*backend)->name);
    return RP_OK;
}

static rp_status measure_program(const rp_program *program, const rp_backend *backend,
                                 rp_queue *queue, rp_cost_table *table) {
    rp_context *context = program->context;
    rp_string text = {0};
    rp_tensor_info *infos = rp_alloc(context, rp_program_most_slots(program), sizeof *infos);
    rp_status status = infos != NULL ? RP_OK : rp_fail_memory(context, "a table of costs");
    for (uint32_t n = 0; n < program->code.node_count && status == RP_OK; n++) {
        int64_t accumulated = 0, cost = 0;
        uint64_t added = 0;
        const rp_op op = (rp_op)program->code.nodes[n].op;
        const rp_op_call call = rp_program_call(program, n, infos, &accumulated, &added);
        text.length = 0;
        if (rp_cost_is_declared(op))
            continue;
        if (!rp_cost_text(context, op, &call, added, &text))
            status = rp_fail_memory(context, "a table of costs");
        else if (rp_cost_table_find(table, text.data) < 0) {
            status = measure(context, backend, queue, op, &call, added, &cost);
            if (status == RP_OK)
                status = rp_cost_table_add(table, text.data, cost);
        }
    }
    rp_string_clear(context, &text);
    rp_free(context, infos);
    return status;
}

static rp_status make_measured(rp_context *context, const rp_backend *backend,
                               rp_cost_table **table) {
    rp_backend_text text;
    const rp_status status = rp_cost_table_make(context, table);
    if (status != RP_OK)
        return status;
    backend->describe(rp_context_threads(context), &text);
    (*table)->is_measured = true;
    (*table)->machine = rp_copy_string(context, text.machine);
    (*table)->libraries = rp_copy_string(context, text.libraries);
    if ((*table)->machine != NULL && (*table)->libraries != NULL)
        return RP_OK;
    rp_cost_table_destroy(*table);
    *table = NULL;
    return rp_fail_memory(context, "a table of costs");
}

rp_status rp_cost_table_measure(const rp_program *program, rp_backend_kind kind,
                                rp_cost_table **table) {
    if (program == NULL)
        return RP_INVALID_ARGUMENT;
    rp_context *context = program->context;
    if (table == NULL)
        return rp_fail(context, RP_INVALID_ARGUMENT, "costs: no place for the table");
    const rp_backend *backend = NULL;
    rp_cost_table *used = *table;
    rp_status status = check_backend(context, kind, &backend);
    if (status == RP_OK && used != NULL && !used->is_measured)
        status = rp_fail(context, RP_BAD_STATE, "costs: \"%s\" is modelled, not measured",
                         used->device.name);
    if (status == RP_OK)
        status =
            used != NULL ? rp_cost_table_check(used, kind) : make_measured(context, backend, &used);
    if (status != RP_OK)
        return status;
    rp_queue *queue = NULL;
    status = rp_backend_open(backend, context, NULL, &queue);
    if (status == RP_OK) {
        backend->warm_up(context, queue, rp_context_threads(context));
        status = measure_program(program, backend, queue, used);
    }
    rp_backend_close(backend, queue);
    if (*table == NULL && status != RP_OK) {
        rp_cost_table_destroy(used);
    } else if (*table == NULL) {
        rp_cost_table_own(used);
        *table = used;
    }
    return status;
}

/* ---- A device -------------------------------------------------------------------------------- */

/* What stands for the model's kinds of work, all in f32: a product, attention, a function of each
 * element that lies in a cache, a sum that does not, and next to nothing. */
enum { PRODUCT, ATTENTION, FUNCTION, TRAFFIC, NOTHING, SAMPLE_COUNT };

static rp_status record(rp_context *context, rp_backend_kind kind, rp_tape **tape,
                        rp_program **program) {
    rp_status status = rp_tape_create(context, tape);
    if (status != RP_OK)
        return status;
    rp_tape *t = *tape;
    rp_attention_options attention = RP_ATTENTION_OPTIONS;
    attention.heads = 8;
    const rp_tensor x = rp_input(t, "x", RP_F32, RP_SHAPE(1024, 1024));
    const rp_tensor qkv = rp_input(t, "qkv", RP_F32, RP_SHAPE(2, 512, 3 * 512));
    const rp_tensor small = rp_input(t, "small", RP_F32, RP_SHAPE(32 * 1024));
    const rp_tensor large = rp_input(t, "large", RP_F32, RP_SHAPE(32 * 1024 * 1024));
    const rp_tensor none = rp_input(t, "none", RP_F32, RP_SHAPE(1));
    const rp_tensor outputs[SAMPLE_COUNT] = {
        [PRODUCT] = rp_linear(t, x, x, (rp_tensor){0}, RP_IN_OUT),
        [ATTENTION] = rp_attention(t, qkv, (rp_tensor){0}, (rp_tensor){0}, &attention),
        [FUNCTION] = rp_gelu(t, small, RP_GELU_TANH),
        [TRAFFIC] = rp_add(t, large, large),
        [NOTHING] = rp_add(t, none, none),
    };
    rp_program_options options = RP_PROGRAM_OPTIONS;
    options.outputs = outputs;
    options.output_count = SAMPLE_COUNT;
    options.forward_only = true;
    options.backend = kind;
    return rp_program_create(t, &options, program);
}

/* amount a ns, as amount a second; at least 1. */
static int64_t rate_of(int64_t amount, int64_t ns) {
    const int64_t least = ns > 0 ? ns : 1;
    int64_t rate = 0;
    if (__builtin_mul_overflow(amount / least, INT64_C(1000000000), &rate))
        return INT64_MAX;
    return rate + amount % least * 1000000000 / least + (amount < least);
}

static int64_t share_of(int64_t rate, int64_t peak) {
    const int64_t share = rate / (peak / 1000 + 1);
    return share < 1 ? 1 : share > 1000 ? 1000 : share;
}

static void describe(const rp_program *program, const int64_t *cost, const int64_t *bytes,
                     rp_device *device) {
    int64_t rates[SAMPLE_COUNT] = {0};
    for (uint32_t i = 0; i < SAMPLE_COUNT; i++)
        rates[i] = rate_of(rp_program_node_flops(program, i), cost[i] - cost[NOTHING]);
    device->f32_flops = rates[PRODUCT];
    device->products_permille = device->memory_permille = 1000;
    device->attention_permille = share_of(rates[ATTENTION], rates[PRODUCT]);
    device->other_permille = share_of(rates[FUNCTION], rates[PRODUCT]);
    device->memory_rate = rate_of(bytes[TRAFFIC], cost[TRAFFIC]);
    device->launch_ns = cost[NOTHING];
}

rp_status rp_device_measure(rp_context *context, rp_backend_kind kind, rp_device *device) {
    if (context == NULL)
        return RP_INVALID_ARGUMENT;
    if (device == NULL)
        return rp_fail(context, RP_INVALID_ARGUMENT, "device: no place for it");
    const rp_backend *backend = NULL;
    rp_tape *tape = NULL;
    rp_program *program = NULL;
    int64_t cost[SAMPLE_COUNT] = {0}, bytes[SAMPLE_COUNT] = {0};
    rp_status status = check_backend(context, kind, &backend);
    if (status == RP_OK)
        status = record(context, kind, &tape, &program);
    if (status == RP_OK && program->code.node_count != SAMPLE_COUNT)
        status = rp_fail(context, RP_INTERNAL_ERROR, "device: %zu nodes to measure",
                         program->code.node_count);
    rp_queue *queue = NULL;
    if (status == RP_OK)
        status = rp_backend_open(backend, context, NULL, &queue);
    if (status == RP_OK)
        backend->warm_up(context, queue, rp_context_threads(context));
    for (uint32_t i = 0; i < SAMPLE_COUNT && status == RP_OK; i++) {
        rp_tensor_info infos[8];
        int64_t accumulated = 0;
        uint64_t added = 0;
        const rp_op op = (rp_op)program->code.nodes[i].op;
        const rp_op_call call = rp_program_call(program, i, infos, &accumulated, &added);
        status = measure(context, backend, queue, op, &call, added, &cost[i]);
        bytes[i] = rp_op_bytes_moved(op, &call);
    }
    if (status == RP_OK) {
        rp_backend_text text;
        *device = (rp_device){.struct_size = sizeof *device};
        backend->describe(rp_context_threads(context), &text);
        snprintf(device->name, sizeof device->name, "%.127s", text.machine);
        describe(program, cost, bytes, device);
    }
    rp_backend_close(backend, queue);
    rp_program_destroy(program);
    rp_tape_destroy(tape);
    return status;
}
