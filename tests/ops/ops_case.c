/* A case: forward against its reference, gradients against central differences of the reference. */
#include "ops_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Data ------------------------------------------------------------------------------------ */

ops_random ops_random_seed(const char *text, uint64_t number) {
    uint64_t state = UINT64_C(0x9E3779B97F4A7C15) ^ number * UINT64_C(0xD1342543DE82EF95);
    for (; *text; text++)
        state = (state ^ (uint8_t)*text) * UINT64_C(0x100000001B3);
    return (ops_random){state ? state : 1};
}

uint64_t ops_random_next(ops_random *random) {
    random->state ^= random->state >> 12;
    random->state ^= random->state << 25;
    random->state ^= random->state >> 27;
    return random->state * UINT64_C(0x2545F4914F6CDD1D);
}

double ops_random_uniform(ops_random *random) {
    return (double)(ops_random_next(random) >> 11) * 0x1p-53;
}

int64_t ops_count(const rp_tensor_info *info) {
    return info->dtype == RP_NO_DTYPE ? 0 : rp_shape_count(info->shape);
}

size_t ops_bytes(const rp_tensor_info *info) {
    return (size_t)ops_count(info) * rp_dtype_bytes(info->dtype);
}

/* 8 significant bits, fewer below 2^-126. */
double ops_round_bf16(double value) {
    int exponent = 0;
    if (value == 0.0 || !isfinite(value))
        return value;
    frexp(value, &exponent);
    const int last = (exponent < -125 ? -125 : exponent) - 8;
    const double rounded = ldexp(rint(ldexp(value, -last)), last);
    return fabs(rounded) < 0x1p128 ? rounded : copysign((double)INFINITY, value);
}

double ops_element(const rp_tensor_info *info, const void *data, int64_t i) {
    if (info->dtype == RP_I32)
        return (double)((const int32_t *)data)[i];
    if (info->dtype == RP_F32)
        return (double)((const float *)data)[i];
    const uint32_t bits = (uint32_t)((const uint16_t *)data)[i] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return (double)x;
}

void ops_set(const rp_tensor_info *info, void *data, int64_t i, double value) {
    const float x = (float)(info->dtype == RP_BF16 ? ops_round_bf16(value) : value);
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (info->dtype == RP_I32)
        ((int32_t *)data)[i] = (int32_t)value;
    else if (info->dtype == RP_F32)
        ((float *)data)[i] = x;
    else
        ((uint16_t *)data)[i] = (uint16_t)(bits >> 16);
}

static void *make(size_t count, size_t size) {
    void *block = calloc(count + 1, size);
    RP_REQUIRE(block != NULL, "no room for %zu elements", count);
    return block;
}

/* Away from 0, where relu has no derivative. */
static void fill_default(const ops_case *c, size_t input, void *data, int64_t count) {
    ops_random random = ops_random_seed(c->name, input);
    for (int64_t i = 0; i < count; i++) {
        const double u = ops_random_uniform(&random);
        if (c->in[input].dtype == RP_I32)
            ((int32_t *)data)[i] = c->id_low + (int32_t)(u * (c->id_high - c->id_low));
        else
            ((float *)data)[i] = (float)(u < 0.5 ? -0.05 - 3.9 * u : 0.05 + 3.9 * (u - 0.5));
    }
}

/* The case's numbers, as its tensor stores them. */
static void fill(const ops_case *c, size_t input, void *data, int64_t count) {
    const rp_tensor_info *info = &c->in[input];
    void *numbers = info->dtype == RP_BF16 ? make((size_t)count, sizeof(float)) : data;
    (c->fill ? c->fill : fill_default)(c, input, numbers, count);
    if (numbers == data)
        return;
    for (int64_t i = 0; i < count; i++)
        ops_set(info, data, i, (double)((const float *)numbers)[i]);
    free(numbers);
}

static void widen(const rp_tensor_info *info, const void *data, double *wide) {
    const int64_t count = ops_count(info);
    for (int64_t i = 0; i < count; i++)
        wide[i] = ops_element(info, data, i);
}

const rp_step_state ops_case_step = {11, 22, 3, 0.75f, false};

/* A case with its data. */
typedef struct setup {
    const ops_case *c;
    rp_context *context;
    rp_op_call call;
    rp_tensor_info out[RP_OP_MAX_OUTPUTS];
    void *in_data[OPS_MAX_IN], *out_data[RP_OP_MAX_OUTPUTS];
    double *in_wide[OPS_MAX_IN], *out_wide[RP_OP_MAX_OUTPUTS];
    void *upstream;                   /* the gradient of output 0: the weights of the projection */
    double *weights;                  /* the same */
    double *differences[OPS_MAX_IN];  /* of the samples of each input */
    int64_t sample_count[OPS_MAX_IN]; /* 0: no gradient is asked for */
} setup;

enum { MAX_SAMPLES = 64 };

/* The s-th element whose derivative is taken: all if they are few, else spread with the ends. */
static int64_t sample(const setup *s, size_t input, int64_t index) {
    const int64_t count = ops_count(&s->c->in[input]), samples = s->sample_count[input];
    return samples == count ? index : index * (count - 1) / (samples - 1);
}

static bool is_differentiable(const ops_case *c, size_t input) {
    return rp_is_floating(c->in[input].dtype) && !(c->constants >> input & 1);
}

static bool setup_make(setup *s, const ops_case *c) {
    *s = (setup){.c = c};
    s->context = rp_test_context(1);
    s->call = (rp_op_call){c->in, c->in_count, s->out, 0, &c->params};
    if (!RP_CHECK_OK(s->context, rp_op_get(c->op)->infer(s->context, &s->call))) {
        rp_context_destroy(s->context);
        return false;
    }
    for (size_t i = 0; i < c->in_count; i++) {
        if (c->in[i].dtype == RP_NO_DTYPE)
            continue;
        const int64_t count = ops_count(&c->in[i]);
        s->in_data[i] = make((size_t)count, sizeof(float));
        fill(c, i, s->in_data[i], count);
        s->in_wide[i] = make((size_t)count, sizeof(double));
        widen(&c->in[i], s->in_data[i], s->in_wide[i]);
        if (is_differentiable(c, i))
            s->sample_count[i] = count < MAX_SAMPLES ? count : MAX_SAMPLES;
    }
    for (size_t k = 0; k < s->call.out_count; k++) {
        s->out_data[k] = make((size_t)ops_count(&s->out[k]), sizeof(float));
        s->out_wide[k] = make((size_t)ops_count(&s->out[k]), sizeof(double));
    }
    c->reference(&s->call, (const double *const *)s->in_wide, s->out_wide);
    s->upstream = make((size_t)ops_count(&s->out[0]), sizeof(float));
    s->weights = make((size_t)ops_count(&s->out[0]), sizeof(double));
    ops_random random = ops_random_seed(c->name, 1000);
    const int64_t count = ops_count(&s->out[0]);
    for (int64_t i = 0; i < count; i++)
        ops_set(&s->out[0], s->upstream, i, 2.0 * ops_random_uniform(&random) - 1.0);
    widen(&s->out[0], s->upstream, s->weights);
    return true;
}

static void setup_free(setup *s) {
    for (size_t i = 0; i < OPS_MAX_IN; i++) {
        free(s->in_data[i]);
        free(s->in_wide[i]);
        free(s->differences[i]);
    }
    for (size_t k = 0; k < RP_OP_MAX_OUTPUTS; k++) {
        free(s->out_data[k]);
        free(s->out_wide[k]);
    }
    free(s->upstream);
    free(s->weights);
    rp_context_destroy(s->context);
}

/* ---- Central differences --------------------------------------------------------------------- */

static double projection(const setup *s, double *const *out) {
    const int64_t count = ops_count(&s->out[0]);
    double sum = 0.0;
    s->c->reference(&s->call, (const double *const *)s->in_wide, out);
    for (int64_t i = 0; i < count; i++)
        sum += s->weights[i] * out[0][i];
    return sum;
}

/* Error about 1e-8 times the third derivative. */
static void take_differences(setup *s) {
    const double h = 1e-4;
    double *out[RP_OP_MAX_OUTPUTS] = {0};
    for (size_t k = 0; k < s->call.out_count; k++)
        out[k] = make((size_t)ops_count(&s->out[k]), sizeof(double));
    for (size_t i = 0; i < s->c->in_count; i++) {
        s->differences[i] = make((size_t)s->sample_count[i], sizeof(double));
        for (int64_t n = 0; n < s->sample_count[i]; n++) {
            double *x = &s->in_wide[i][sample(s, i, n)];
            const double at = *x;
            *x = at + h;
            const double above = projection(s, out);
            *x = at - h;
            s->differences[i][n] = (above - projection(s, out)) / (2.0 * h);
            *x = at;
        }
    }
    for (size_t k = 0; k < s->call.out_count; k++)
        free(out[k]);
}

/* ---- A tape of one op: emit runs the kernel at once ------------------------------------------ */

enum { MAX_VALUES = 96 };

typedef struct tape {
    rp_vjp vjp; /* first: emit gets its address */
    const setup *s;
    const rp_kernel *kernels;
    const char *name;
    struct {
        rp_tensor_info info;
        void *data;
        bool owned;
    } values[MAX_VALUES];
    uint32_t count;
    double *gradients[OPS_MAX_IN];
    bool widened; /* gradients are f32 where a kernel can write them so */
} tape;

static uint32_t tape_add(tape *t, rp_tensor_info info, void *data, bool owned) {
    RP_REQUIRE(t->count < MAX_VALUES, "the harness holds %d values", MAX_VALUES);
    t->values[t->count].info = info;
    t->values[t->count].data = data;
    t->values[t->count].owned = owned;
    return t->count++;
}

static void run_emitted(tape *t, rp_op op, const ops_launch *launch) {
    if (op != RP_OP_VIEW) {
        ops_launch_check(t->kernels, launch);
        return;
    }
    const uint8_t *from = launch->in[0];
    memcpy(launch->out[0], from + launch->call.params->view.offset_bytes,
           ops_bytes(&launch->call.out[0]));
}

/* Gradients of one input from several nodes are added. */
static void take_gradient(tape *t, int input, const rp_tensor_info *info, const void *data) {
    const int64_t count = ops_count(&t->s->c->in[input]);
    RP_CHECK(t->vjp.wanted[input], "%s: the gradient of input %d is not wanted", t->name, input);
    if (t->gradients[input] == NULL)
        t->gradients[input] = make((size_t)count, sizeof(double));
    for (int64_t i = 0; i < count; i++)
        t->gradients[input][i] += ops_element(info, data, i);
}

static rp_status emit(rp_vjp *vjp, rp_op op, const rp_op_params *params, const uint32_t *in,
                      size_t in_count, rp_vjp_output *out, size_t out_count) {
    tape *t = (tape *)vjp;
    rp_tensor_info in_info[3 * OPS_MAX_IN] = {0}, out_info[OPS_MAX_IN] = {0};
    const void *in_data[3 * OPS_MAX_IN] = {0};
    void *out_data[OPS_MAX_IN] = {0};
    RP_REQUIRE(in_count <= 3 * OPS_MAX_IN && out_count <= OPS_MAX_IN, "%s: too many slots",
               t->name);
    for (size_t i = 0; i < in_count; i++) {
        if (in[i] == RP_NONE)
            continue;
        RP_REQUIRE(in[i] < t->count, "%s: %u is no value", t->name, in[i]);
        in_info[i] = t->values[in[i]].info;
        in_data[i] = t->values[in[i]].data;
    }
    for (size_t k = 0; k < out_count; k++) {
        if (out[k].gradient_of == RP_VJP_ABSENT)
            continue;
        out_info[k] = out[k].gradient_of >= 0 ? t->s->c->in[out[k].gradient_of] : out[k].info;
        if (t->widened && out[k].gradient_of >= 0 && (rp_op_get(op)->widens >> k & 1))
            out_info[k].dtype = RP_F32;
        out_data[k] = make((size_t)ops_count(&out_info[k]), sizeof(float));
        out[k].value = tape_add(t, out_info[k], out_data[k], true);
    }
    const double tolerance = t->s->c->gradient_tolerance;
    const ops_launch launch = {
        .name = t->name,
        .op = op,
        .call = {in_info, in_count, out_info, out_count, params},
        .in = in_data,
        .out = out_data,
        .step = &ops_case_step,
        .tolerance = tolerance > 0.0 ? tolerance : t->s->c->tolerance,
        .bits_vary = t->s->c->bits_vary,
        .bf16_times = t->s->c->bf16_times,
    };
    run_emitted(t, op, &launch);
    for (size_t k = 0; k < out_count; k++)
        if (out[k].gradient_of >= 0)
            take_gradient(t, out[k].gradient_of, &out_info[k], out_data[k]);
    return RP_OK;
}

/* What storing as bf16 adds to the error of a gradient: once for itself, and what it is made of. */
static double gradient_error(const ops_case *c, size_t input) {
    const double times = c->bf16_times > 0.0 ? c->bf16_times : 1.0;
    return c->in[input].dtype == RP_BF16 ? times * OPS_BF16_ERROR : 0.0;
}

static void check_gradient(const tape *t, size_t input) {
    const setup *s = t->s;
    const double given = s->c->gradient_tolerance;
    const double tolerance = (given > 0.0 ? given : s->c->tolerance) + gradient_error(s->c, input);
    if (!RP_CHECK(t->gradients[input] != NULL, "%s: no gradient of input %zu", t->name, input))
        return;
    for (int64_t n = 0; n < s->sample_count[input]; n++) {
        const double got = t->gradients[input][sample(s, input, n)];
        const double want = s->differences[input][n];
        if (!RP_CHECK(fabs(got - want) <= tolerance * (1.0 + fabs(want)),
                      "%s: gradient of input %zu, element %lld is %.9g, not %.9g (tolerance %g)",
                      t->name, input, (long long)sample(s, input, n), got, want, tolerance))
            return;
    }
}

static void check_vjp(const setup *s, const rp_kernel *kernels, const char *name, uint32_t mask,
                      bool widened) {
    bool wanted[OPS_MAX_IN] = {0};
    uint32_t in[OPS_MAX_IN], out[RP_OP_MAX_OUTPUTS], gradient[RP_OP_MAX_OUTPUTS];
    tape t = {.s = s, .kernels = kernels, .name = name, .widened = widened};
    for (size_t i = 0; i < s->c->in_count; i++) {
        wanted[i] = mask >> i & 1;
        in[i] = s->in_data[i] ? tape_add(&t, s->c->in[i], s->in_data[i], false) : RP_NONE;
    }
    for (size_t k = 0; k < s->call.out_count; k++) {
        out[k] = tape_add(&t, s->out[k], s->out_data[k], false);
        gradient[k] = RP_NONE;
    }
    gradient[0] = tape_add(&t, s->out[0], s->upstream, false);
    t.vjp = (rp_vjp){.call = &s->call,
                     .in = in,
                     .out = out,
                     .gradient = gradient,
                     .wanted = wanted,
                     .context = s->context,
                     .emit = emit};
    RP_CHECK_OK(s->context, rp_op_get(s->c->op)->vjp(&t.vjp));
    for (size_t i = 0; i < s->c->in_count; i++)
        if (wanted[i])
            check_gradient(&t, i);
    for (uint32_t v = 0; v < t.count; v++)
        if (t.values[v].owned)
            free(t.values[v].data);
    for (size_t i = 0; i < OPS_MAX_IN; i++)
        free(t.gradients[i]);
}

/* ---- The case -------------------------------------------------------------------------------- */

static bool has_bf16(const ops_case *c) {
    bool any = false;
    for (size_t i = 0; i < c->in_count; i++)
        any = any || c->in[i].dtype == RP_BF16;
    return any;
}

static void run_on_set(const rp_kernel *kernels, const char *set, void *user) {
    const setup *s = user;
    char name[192];
    snprintf(name, sizeof name, "%s (%s)", s->c->name, set);
    const ops_launch launch = {
        .name = name,
        .op = s->c->op,
        .call = s->call,
        .in = (const void *const *)s->in_data,
        .out = s->out_data,
        .expected = (const double *const *)s->out_wide,
        .step = &ops_case_step,
        .tolerance = s->c->tolerance,
        .bits_vary = s->c->bits_vary,
        .bf16_times = s->c->bf16_times,
    };
    ops_launch_check(kernels, &launch);
    uint32_t all = 0;
    for (size_t i = 0; i < s->c->in_count; i++)
        if (is_differentiable(s->c, i))
            all |= UINT32_C(1) << i;
    if (rp_op_get(s->c->op)->vjp == NULL)
        return;
    for (uint32_t mask = 1; mask <= all; mask++) {
        const bool one_or_all = mask == all || (mask & (mask - 1)) == 0;
        if ((mask & ~all) != 0 || (has_bf16(s->c) && !one_or_all))
            continue;
        snprintf(name, sizeof name, "%s (%s), wanted 0x%x", s->c->name, set, mask);
        check_vjp(s, kernels, name, mask, false);
    }
    if (!has_bf16(s->c) || all == 0)
        return;
    snprintf(name, sizeof name, "%s (%s), f32 gradients", s->c->name, set);
    check_vjp(s, kernels, name, all, true);
}

static void run(const ops_case *c) {
    setup s;
    if (!setup_make(&s, c))
        return;
    take_differences(&s);
    ops_for_each_set(run_on_set, &s);
    setup_free(&s);
}

/* The same with what is f32 stored as bf16. */
void ops_case_run(const ops_case *c) {
    char name[160];
    ops_case narrow = *c;
    run(c);
    snprintf(name, sizeof name, "%s in bf16", c->name);
    narrow.name = name;
    narrow.bits_vary = c->bits_vary || c->bf16_bits_vary;
    for (size_t i = 0; i < c->in_count; i++)
        if (c->in[i].dtype == RP_F32)
            narrow.in[i].dtype = RP_BF16;
    if (has_bf16(&narrow))
        run(&narrow);
}

void ops_cases_run(const ops_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++)
        ops_case_run(&cases[i]);
}
