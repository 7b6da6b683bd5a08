/* The harness of the op cases. A case names an op, parameters, shapes and a reference of the
 * forward run in double precision; everything else follows from the op's definition. On every
 * instruction set that this processor has:
 *
 *   forward    the kernel against the reference
 *   gradients  the op's vjp, run on the kernels for every subset of wanted inputs, against central
 *              differences of a random projection of the reference
 *   each of the kernels that this runs, backward ones too:
 *     threads 1, 2, 3, 7 and tensors that are aligned to 4 bytes only give the same bits
 *     in place of each input that the definition offers: the same bits
 *     accumulating on another buffer and on the output itself, where offered
 *     nothing is written around a buffer, inputs stay, all of each output is written (outputs and
 *     workspace begin as NaN)
 *
 * and once more with all f32 inputs stored as bf16, rounded before the reference sees them; then
 * also with gradients in f32, as they are where micro-batches add up.
 *
 * A suite is a table of cases and ops_cases_run(cases, count). */
#ifndef REPRISE_TESTS_OPS_CASE_H
#define REPRISE_TESTS_OPS_CASE_H

#include "op.h"
#include "unit.h"

enum { OPS_MAX_IN = 8 };

/* What storing a value v as bf16 may add to an error of tolerance (1 + |v|): twice what rounding
 * to nearest does. */
#define OPS_BF16_ERROR 0x1p-8

/* Forward in double. in[i] are the inputs (ids too, as doubles), NULL where absent; out[k] all
 * outputs that infer gave, to be filled. */
typedef void (*ops_reference)(const rp_op_call *call, const double *const *in, double *const *out);

typedef struct ops_case ops_case;
struct ops_case {
    const char *name;
    rp_op op;
    ops_reference reference;
    rp_op_params params;
    size_t in_count;
    rp_tensor_info in[OPS_MAX_IN]; /* {0}: absent */
    /* of a value v: error <= tolerance (1 + |v|). gradient_tolerance 0: the same for gradients */
    double tolerance, gradient_tolerance;
    int32_t id_low, id_high; /* i32 inputs lie in [low, high) */
    /* NULL: +-[0.05, 2], seeded by the name */
    void (*fill)(const ops_case *c, size_t input, void *data, int64_t count);
    uint32_t constants; /* bit i: no gradient is asked for input i */
    bool bits_vary; /* with threads and alignment: a BLAS is inside. Then the tolerance counts */
    bool bf16_bits_vary; /* the same in bf16 only */
    /* In bf16 gradients are made of numbers that have been rounded, too: their tolerance grows by
     * so many times OPS_BF16_ERROR; 0: once */
    double bf16_times;
};

/* f32 [..], bf16 [..], i32 [..] */
#define OPS_F32(...)                                                                               \
    {                                                                                              \
        RP_F32, {                                                                                  \
            (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {                           \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }
#define OPS_BF16(...)                                                                              \
    {                                                                                              \
        RP_BF16, {                                                                                 \
            (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {                           \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }
#define OPS_I32(...)                                                                               \
    {                                                                                              \
        RP_I32, {                                                                                  \
            (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), {                           \
                __VA_ARGS__                                                                        \
            }                                                                                      \
        }                                                                                          \
    }
#define OPS_F32_SCALAR                                                                             \
    {                                                                                              \
        RP_F32, {                                                                                  \
            0, {                                                                                   \
                0                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
#define OPS_I32_SCALAR                                                                             \
    {                                                                                              \
        RP_I32, {                                                                                  \
            0, {                                                                                   \
                0                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
#define OPS_ABSENT                                                                                 \
    {                                                                                              \
        RP_NO_DTYPE, {                                                                             \
            0, {                                                                                   \
                0                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

/* What cases run with: the same numbers for all of them. */
extern const rp_step_state ops_case_step;

void ops_case_run(const ops_case *c);
void ops_cases_run(const ops_case *cases, size_t count);

/* One kernel on data at hand: all the variants listed above. out[k] receives the result of the
 * first one; expected[k], if not NULL, is what it is compared with. */
typedef struct ops_launch {
    const char *name;
    rp_op op;
    rp_op_call call;
    const void *const *in;
    void *const *out; /* NULL where absent */
    const double *const *expected;
    const rp_step_state *step;
    double tolerance;
    bool bits_vary;
    double bf16_times; /* as in ops_case: for two results whose bits vary; 2 at least */
} ops_launch;

void ops_launch_check(const rp_kernel *kernels, const ops_launch *launch);

/* Runs the kernel once, for tests that look at the values themselves. Allocates the workspace. */
rp_status ops_run(const rp_kernel *kernels, rp_op op, const rp_op_call *call, const void *const *in,
                  void *const *out, const rp_step_state *step, int threads);

/* Calls `body` for the kernels of every instruction set of this processor. */
void ops_for_each_set(void (*body)(const rp_kernel *kernels, const char *set, void *user),
                      void *user);

/* A generator for test data: xorshift64*, seeded by a text. uniform: [0, 1). */
typedef struct ops_random {
    uint64_t state;
} ops_random;

ops_random ops_random_seed(const char *text, uint64_t number);
uint64_t ops_random_next(ops_random *random);
double ops_random_uniform(ops_random *random);

int64_t ops_count(const rp_tensor_info *info); /* elements; 0 if absent */
size_t ops_bytes(const rp_tensor_info *info);

/* Element i of a tensor; and the number that is stored for a value: the nearest one of the type, of
 * two equally near ones the even one. */
double ops_element(const rp_tensor_info *info, const void *data, int64_t i);
void ops_set(const rp_tensor_info *info, void *data, int64_t i, double value);
double ops_round_bf16(double value);

#endif
