/* One kernel in all its variants: threads, alignment, in place, accumulating; with sentinels around
 * every buffer and NaN in all that the kernel is to write. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/dispatch.h"
#include "ops_case.h"
#include "ops_device.h"

/* ---- Buffers with sentinels ------------------------------------------------------------------ */

enum { SENTINEL_BYTES = 64, SENTINEL = 0xA5, POISON = 0xFF };

typedef struct buffer {
    uint8_t *block, *data;
    size_t bytes;
} buffer;

/* `bytes` aligned to 64 plus `offset`, all NaN. */
static buffer buffer_make(size_t bytes, size_t offset) {
    const size_t all = (bytes + offset + 2 * SENTINEL_BYTES + 63) / 64 * 64;
    buffer b = {aligned_alloc(64, all), NULL, bytes};
    RP_REQUIRE(b.block != NULL, "no room for %zu bytes", all);
    memset(b.block, SENTINEL, all);
    b.data = b.block + SENTINEL_BYTES + offset;
    memset(b.data, POISON, bytes);
    return b;
}

/* As an executor gives it: no address where nothing is asked for. */
static buffer buffer_make_workspace(const rp_op_def *def, const rp_op_call *call) {
    const int64_t bytes = def->workspace != NULL ? def->workspace(call) : 0;
    return bytes > 0 ? buffer_make((size_t)bytes, 0) : (buffer){0};
}

static void buffer_free(buffer *b) {
    free(b->block);
    *b = (buffer){0};
}

static bool buffer_is_intact(const buffer *b) {
    if (b->block == NULL)
        return true;
    const size_t before = (size_t)(b->data - b->block);
    for (size_t i = 0; i < before; i++)
        if (b->block[i] != SENTINEL)
            return false;
    for (size_t i = 0; i < SENTINEL_BYTES; i++)
        if (b->data[b->bytes + i] != SENTINEL)
            return false;
    return true;
}

/* ---- A variant ------------------------------------------------------------------------------- */

enum { MAX_OUT = OPS_MAX_IN };

typedef struct variant {
    const char *name;
    int threads;
    size_t offset;      /* bytes that all tensors are off their alignment */
    int inplace;        /* pair of the definition, or -1 */
    int accumulate;     /* output, or -1 */
    bool on_the_output; /* accumulate[k] is out[k] */
} variant;

/* What a variant works on. An output that lies in place of something has no buffer of its own. */
typedef struct bench {
    buffer in[3 * OPS_MAX_IN], out[MAX_OUT], workspace, sum;
    void *out_at[MAX_OUT];
} bench;

/* Accumulated gradients begin as small multiples of 1/8: exact, and not all alike. Of the zeros
 * every second one is -0, which is another number to who compares bits. */
static double sum_at(int64_t i) {
    return i % 34 == 8 ? -0.0 : (double)(i % 17 - 8) * 0.125;
}

static void fill_sum(const rp_tensor_info *info, void *sum) {
    const int64_t count = ops_count(info);
    for (int64_t i = 0; i < count; i++)
        ops_set(info, sum, i, sum_at(i));
}

static size_t round_up(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static void bench_make(bench *b, const ops_launch *launch, const variant *v) {
    const rp_op_def *def = rp_op_get(launch->op);
    const rp_op_inplace *pair = v->inplace >= 0 ? &def->inplace[v->inplace] : NULL;
    *b = (bench){0};
    for (size_t i = 0; i < launch->call.in_count; i++) {
        /* A planner compares sizes that are rounded up: the place may be larger than the input. */
        const size_t bytes = ops_bytes(&launch->call.in[i]);
        b->in[i] = buffer_make(pair && pair->input == (int)i ? round_up(bytes) : bytes, v->offset);
        if (bytes > 0)
            memcpy(b->in[i].data, launch->in[i], bytes);
    }
    for (size_t k = 0; k < launch->call.out_count; k++) {
        const rp_tensor_info *info = &launch->call.out[k];
        if (info->dtype == RP_NO_DTYPE)
            continue;
        if (pair && pair->output == (int)k) {
            b->out_at[k] = b->in[pair->input].data;
            continue;
        }
        b->out[k] = buffer_make(ops_bytes(info), v->offset);
        b->out_at[k] = b->out[k].data;
    }
    if (v->accumulate >= 0) {
        const rp_tensor_info *info = &launch->call.out[v->accumulate];
        b->sum = buffer_make(ops_bytes(info), v->offset);
        fill_sum(info, b->sum.data);
        if (v->on_the_output)
            fill_sum(info, b->out_at[v->accumulate]);
    }
    b->workspace = buffer_make_workspace(def, &launch->call);
}

static void bench_free(bench *b) {
    for (size_t i = 0; i < sizeof b->in / sizeof b->in[0]; i++)
        buffer_free(&b->in[i]);
    for (size_t k = 0; k < MAX_OUT; k++)
        buffer_free(&b->out[k]);
    buffer_free(&b->workspace);
    buffer_free(&b->sum);
}

static rp_status bench_run(bench *b, const rp_kernel *kernels, const ops_launch *launch,
                           const variant *v) {
    const void *in[3 * OPS_MAX_IN], *sums[MAX_OUT] = {0};
    for (size_t i = 0; i < launch->call.in_count; i++)
        in[i] = launch->call.in[i].dtype != RP_NO_DTYPE ? b->in[i].data : NULL;
    if (v->accumulate >= 0)
        sums[v->accumulate] = v->on_the_output ? b->out_at[v->accumulate] : b->sum.data;
    const rp_launch run = {
        .call = launch->call,
        .in = in,
        .out = b->out_at,
        .accumulate = v->accumulate >= 0 ? sums : NULL,
        .workspace = b->workspace.data,
        .step = launch->step,
        .threads = v->threads,
    };
    return ops_call(kernels, launch->op, &run);
}

/* Sentinels stand, and inputs that no output lies on are as they were. */
static void bench_check_memory(const bench *b, const ops_launch *launch, const variant *v) {
    const rp_op_def *def = rp_op_get(launch->op);
    for (size_t i = 0; i < launch->call.in_count; i++) {
        const size_t bytes = ops_bytes(&launch->call.in[i]);
        RP_CHECK(buffer_is_intact(&b->in[i]), "%s, %s: wrote around input %zu", launch->name,
                 v->name, i);
        if (bytes > 0 && !(v->inplace >= 0 && def->inplace[v->inplace].input == (int)i))
            RP_CHECK(memcmp(b->in[i].data, launch->in[i], bytes) == 0, "%s, %s: input %zu changed",
                     launch->name, v->name, i);
    }
    for (size_t k = 0; k < launch->call.out_count; k++)
        if (b->out[k].block != NULL)
            RP_CHECK(buffer_is_intact(&b->out[k]), "%s, %s: wrote around output %zu", launch->name,
                     v->name, k);
    RP_CHECK(buffer_is_intact(&b->workspace), "%s, %s: wrote around the workspace", launch->name,
             v->name);
    if (b->sum.block != NULL && !v->on_the_output) {
        void *as_was = malloc(b->sum.bytes + 1);
        RP_REQUIRE(as_was != NULL, "no room");
        fill_sum(&launch->call.out[v->accumulate], as_was);
        RP_CHECK(buffer_is_intact(&b->sum) && memcmp(as_was, b->sum.data, b->sum.bytes) == 0,
                 "%s, %s: what is accumulated changed", launch->name, v->name);
        free(as_was);
    }
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static bool is_near(double got, double want, double tolerance) {
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= tolerance * (1.0 + fabs(want));
}

/* `roundings`: how often the two have been rounded to the output's type, together. */
static void check_values(const char *name, const char *variant_name, const ops_launch *launch,
                         size_t k, const void *got, const double *want, double roundings) {
    const rp_tensor_info *info = &launch->call.out[k];
    const double rounding = info->dtype == RP_BF16 ? OPS_BF16_ERROR : 0.0;
    const double tolerance = launch->tolerance + roundings * rounding;
    const int64_t count = ops_count(info);
    int64_t i = 0;
    while (i < count && is_near(ops_element(info, got, i), want[i], tolerance))
        i++;
    if (i == count)
        RP_CHECK(true, "all near");
    else
        RP_CHECK(false, "%s, %s: output %zu, element %lld is %.9g, not %.9g (tolerance %g)", name,
                 variant_name, k, (long long)i, ops_element(info, got, i), want[i], tolerance);
}

/* The result of the first run, widened; plus what is accumulated on output `sum_of`. */
static double *widen(const rp_tensor_info *info, const void *data, bool accumulated) {
    const int64_t count = ops_count(info);
    double *wide = malloc((size_t)(count + 1) * sizeof *wide);
    RP_REQUIRE(wide != NULL, "no room");
    for (int64_t i = 0; i < count; i++)
        wide[i] = ops_element(info, data, i) + (accumulated ? sum_at(i) : 0.0);
    return wide;
}

/* Of two results: one each, or more where bits vary because other kernels made them. */
static double roundings_of_two(const ops_launch *launch) {
    return launch->bits_vary && launch->bf16_times > 2.0 ? launch->bf16_times : 2.0;
}

/* The bits of `wanted`, or its values where bits may vary. */
static void check_same(const ops_launch *launch, const variant *v, size_t k, const void *got,
                       const void *wanted) {
    const rp_tensor_info *info = &launch->call.out[k];
    const size_t bytes = ops_bytes(info);
    if (bytes == 0)
        return;
    if (!launch->bits_vary) {
        RP_CHECK(memcmp(got, wanted, bytes) == 0, "%s, %s: output %zu has other bits", launch->name,
                 v->name, k);
        return;
    }
    /* Sums that differ in their last bits lie on both sides of a tie now and then. */
    double *wide = widen(info, wanted, false);
    check_values(launch->name, v->name, launch, k, got, wide, roundings_of_two(launch));
    free(wide);
}

/* ---- All variants ---------------------------------------------------------------------------- */

/* Runs one variant. Outputs but `accumulate` must equal the first run's; that one is compared by
 * value with first + sum, and its bits with those of the first accumulating run, kept in `sums`. */
/* Threads are the CPU's: on a device, one run more tells whether its bits are the same. */
static bool is_known(const variant *v) {
    return ops_device() != NULL && v->threads > 2 && v->offset == 0;
}

static void run_variant(const rp_kernel *kernels, const ops_launch *launch, const variant *v,
                        void *sums) {
    bench b;
    if (is_known(v))
        return;
    bench_make(&b, launch, v);
    const rp_status status = bench_run(&b, kernels, launch, v);
    RP_CHECK(status == RP_OK, "%s, %s: %s", launch->name, v->name, rp_status_name(status));
    bench_check_memory(&b, launch, v);
    for (size_t k = 0; k < launch->call.out_count; k++) {
        const rp_tensor_info *info = &launch->call.out[k];
        if (info->dtype == RP_NO_DTYPE)
            continue;
        if ((int)k != v->accumulate) {
            check_same(launch, v, k, b.out_at[k], launch->out[k]);
            continue;
        }
        double *wide = widen(info, launch->out[k], true);
        check_values(launch->name, v->name, launch, k, b.out_at[k], wide, roundings_of_two(launch));
        free(wide);
        if (v->threads == 1 && !v->on_the_output && v->inplace < 0)
            memcpy(sums, b.out_at[k], ops_bytes(info));
        else
            check_same(launch, v, k, b.out_at[k], sums);
    }
    bench_free(&b);
}

/* The planner's rule: both are there, and the place is large enough. */
static bool pair_applies(const ops_launch *launch, const rp_op_inplace *pair) {
    if ((size_t)pair->output >= launch->call.out_count ||
        (size_t)pair->input >= launch->call.in_count)
        return false;
    const rp_tensor_info *out = &launch->call.out[pair->output];
    const rp_tensor_info *in = &launch->call.in[pair->input];
    return out->dtype != RP_NO_DTYPE && in->dtype != RP_NO_DTYPE &&
           round_up(ops_bytes(out)) <= round_up(ops_bytes(in));
}

static void check_accumulating(const rp_kernel *kernels, const ops_launch *launch, int k) {
    const rp_op_def *def = rp_op_get(launch->op);
    void *sums = malloc(ops_bytes(&launch->call.out[k]) + 1);
    RP_REQUIRE(sums != NULL, "no room");
    const variant first[] = {{"accumulating", 1, 0, -1, k, false},
                             {"accumulating, 3 threads", 3, 4, -1, k, false},
                             {"accumulating on the output", 1, 0, -1, k, true},
                             {"accumulating on the output, 3 threads", 3, 0, -1, k, true}};
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        run_variant(kernels, launch, &first[i], sums);
    for (int p = 0; p < def->inplace_count; p++)
        if (def->inplace[p].output == k && pair_applies(launch, &def->inplace[p]))
            run_variant(kernels, launch, &(variant){"accumulating in place", 2, 0, p, k, false},
                        sums);
    free(sums);
}

static void run_first(const rp_kernel *kernels, const ops_launch *launch) {
    const variant v = {"1 thread", 1, 0, -1, -1, false};
    bench b;
    bench_make(&b, launch, &v);
    const rp_status status = bench_run(&b, kernels, launch, &v);
    RP_CHECK(status == RP_OK, "%s: %s", launch->name, rp_status_name(status));
    bench_check_memory(&b, launch, &v);
    for (size_t k = 0; k < launch->call.out_count; k++) {
        if (launch->call.out[k].dtype == RP_NO_DTYPE)
            continue;
        memcpy(launch->out[k], b.out_at[k], ops_bytes(&launch->call.out[k]));
        if (launch->expected != NULL && launch->expected[k] != NULL)
            check_values(launch->name, v.name, launch, k, launch->out[k], launch->expected[k], 1.0);
    }
    bench_free(&b);
}

void ops_launch_check(const rp_kernel *kernels, const ops_launch *launch) {
    static const variant plain[] = {{"2 threads", 2, 0, -1, -1, false},
                                    {"3 threads, aligned to 4", 3, 4, -1, -1, false},
                                    {"7 threads", 7, 0, -1, -1, false}};
    const rp_op_def *def = rp_op_get(launch->op);
    run_first(kernels, launch);
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        run_variant(kernels, launch, &plain[i], NULL);
    for (int p = 0; p < def->inplace_count; p++) {
        if (!pair_applies(launch, &def->inplace[p]))
            continue;
        run_variant(kernels, launch, &(variant){"in place", 1, 0, p, -1, false}, NULL);
        run_variant(kernels, launch, &(variant){"in place, 3 threads", 3, 0, p, -1, false}, NULL);
    }
    for (size_t k = 0; k < launch->call.out_count; k++)
        if ((def->accumulates >> k & 1) && launch->call.out[k].dtype != RP_NO_DTYPE)
            check_accumulating(kernels, launch, (int)k);
}

rp_status ops_run(const rp_kernel *kernels, rp_op op, const rp_op_call *call, const void *const *in,
                  void *const *out, const rp_step_state *step, int threads) {
    buffer workspace = buffer_make_workspace(rp_op_get(op), call);
    const rp_launch launch = {.call = *call,
                              .in = in,
                              .out = out,
                              .workspace = workspace.data,
                              .step = step,
                              .threads = threads};
    const rp_status status = ops_call(kernels, op, &launch);
    buffer_free(&workspace);
    return status;
}

void ops_for_each_set(void (*body)(const rp_kernel *kernels, const char *set, void *user),
                      void *user) {
    size_t count = 0;
    if (ops_device() != NULL) {
        body(ops_device()->kernels(), ops_device()->name, user);
        return;
    }
    const rp_cpu_set *sets = rp_cpu_sets(&count);
    for (size_t s = 0; s < count; s++)
        if (sets[s].is_available())
            body(sets[s].kernels, sets[s].name, user);
}
