/* Data types, shapes, and the handle that recording works with. */
#ifndef REPRISE_TENSOR_H
#define REPRISE_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RP_MAX_RANK 6

/* X(name, bytes of an element, text) */
#define RP_DTYPE_LIST(X)                                                                           \
    X(RP_NO_DTYPE, 0, "none") /* marks an absent optional tensor */                                \
    X(RP_F32, 4, "f32")                                                                            \
    X(RP_BF16, 2, "bf16")                                                                          \
    X(RP_I32, 4, "i32")

typedef enum rp_dtype {
#define RP_DTYPE_ENUM(name, bytes, text) name,
    RP_DTYPE_LIST(RP_DTYPE_ENUM)
#undef RP_DTYPE_ENUM
} rp_dtype;

RP_API size_t rp_dtype_bytes(rp_dtype dtype);
RP_API const char *rp_dtype_name(rp_dtype dtype);

/* Row-major: the last dimension is contiguous. Rank 0 is a scalar. A dimension may be 0. */
typedef struct rp_shape {
    int rank;
    int64_t dims[RP_MAX_RANK];
} rp_shape;

#ifndef __cplusplus
/* RP_SHAPE(batch, seq, dim) */
#define RP_SHAPE(...)                                                                              \
    ((rp_shape){.rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                 \
                .dims = {__VA_ARGS__}})
#endif
#define RP_SCALAR rp_shape_scalar()
RP_API rp_shape rp_shape_scalar(void);

/* Number of elements; -1 when it does not fit 63 bits or a dimension is negative. */
RP_API int64_t rp_shape_count(rp_shape shape);
RP_API bool rp_shape_equal(rp_shape a, rp_shape b);

/* A tensor of a tape: a number, copied freely, valid as long as the tape. id 0 is no tensor: what a
 * call that failed returns, and what stands for an optional argument that is absent. */
typedef struct rp_tensor {
    uint32_t id;
} rp_tensor;

#ifndef __cplusplus
#define RP_NO_TENSOR ((rp_tensor){0})
#endif

typedef struct rp_tensor_info {
    rp_dtype dtype;
    rp_shape shape;
} rp_tensor_info;

#ifdef __cplusplus
}
#endif

#endif
