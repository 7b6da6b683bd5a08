/* Data types and shapes. */
#include <reprise/tensor.h>

static const struct {
    size_t bytes;
    const char *name;
} dtypes[] = {
#define DTYPE_ROW(name, bytes, text) [name] = {bytes, text},
    RP_DTYPE_LIST(DTYPE_ROW)
#undef DTYPE_ROW
};

static bool dtype_is_known(rp_dtype dtype) {
    return (size_t)dtype < sizeof dtypes / sizeof dtypes[0];
}

size_t rp_dtype_bytes(rp_dtype dtype) {
    return dtype_is_known(dtype) ? dtypes[dtype].bytes : 0;
}

const char *rp_dtype_name(rp_dtype dtype) {
    return dtype_is_known(dtype) ? dtypes[dtype].name : "unknown";
}

rp_shape rp_shape_scalar(void) {
    return (rp_shape){0};
}

int64_t rp_shape_count(rp_shape shape) {
    if (shape.rank < 0 || shape.rank > RP_MAX_RANK)
        return -1;
    int64_t count = 1;
    bool overflow = false, empty = false;
    for (int i = 0; i < shape.rank; i++) {
        if (shape.dims[i] < 0)
            return -1;
        empty = empty || shape.dims[i] == 0;
        overflow = overflow || __builtin_mul_overflow(count, shape.dims[i], &count);
    }
    return empty ? 0 : overflow ? -1 : count;
}

bool rp_shape_equal(rp_shape a, rp_shape b) {
    if (a.rank != b.rank)
        return false;
    for (int i = 0; i < a.rank && i < RP_MAX_RANK; i++)
        if (a.dims[i] != b.dims[i])
            return false;
    return true;
}
