/* Recording: ops that change the shape; views wherever no element has to move. */
#include <string.h>

#include "tape.h"

/* The elements of x from a byte offset on, in another shape. */
static rp_tensor record_view(rp_tape *tape, rp_tensor x, int64_t offset_bytes, rp_shape shape) {
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.view.offset_bytes = offset_bytes;
    params.view.shape.rank = shape.rank;
    for (int i = 0; i < shape.rank; i++)
        params.view.shape.dims[i] = shape.dims[i];
    return rp_tape_record(tape, RP_OP_VIEW, &params, &x, 1, 0);
}

/* Puts a number for the dimension that is -1. False if there is none that fits. */
static bool resolve_dimension(int64_t count, rp_shape *shape) {
    int open = -1;
    int64_t known = 1;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dims[i] == -1 && open < 0)
            open = i;
        else if (!rp_checked_multiply(known, shape->dims[i], &known))
            return false;
    }
    if (open < 0)
        return known == count;
    if (known == 0 || count % known != 0)
        return false;
    shape->dims[open] = count / known;
    return true;
}

rp_tensor rp_reshape(rp_tape *tape, rp_tensor x, rp_shape shape) {
    rp_tensor_info info;
    if (!rp_tape_info(tape, "reshape", x, &info))
        return RP_NO_TENSOR;
    if (shape.rank < 0 || shape.rank > RP_MAX_RANK)
        return rp_tape_fail(tape, RP_BAD_SHAPE, "reshape: rank %d, 0 to %d are possible",
                            shape.rank, RP_MAX_RANK);
    const rp_tensor_info asked = {info.dtype, shape};
    if (!resolve_dimension(rp_shape_count(info.shape), &shape)) {
        char from[RP_SHAPE_TEXT], to[RP_SHAPE_TEXT];
        return rp_tape_fail(tape, RP_BAD_SHAPE, "reshape: %s does not fit the elements of %s",
                            rp_tensor_text(&asked, to), rp_tensor_text(&info, from));
    }
    return record_view(tape, x, 0, shape);
}

rp_tensor rp_detach(rp_tape *tape, rp_tensor tensor) {
    rp_tensor_info info;
    if (!rp_tape_info(tape, "detach", tensor, &info))
        return RP_NO_TENSOR;
    const rp_tensor view = record_view(tape, tensor, 0, info.shape);
    if (view.id != 0) {
        rp_code_value *value = &tape->code.values[view.id - 1];
        value->needs_gradient = false;
        tape->code.nodes[value->writer].detached = true;
    }
    return view;
}

/* Whether swapping two dimensions leaves every element where it is: all that lies between the
 * outermost and the innermost of those that are longer than 1 keeps its order. */
static bool moves_nothing(rp_shape shape, int first, int second) {
    const int low = first < second ? first : second, high = first < second ? second : first;
    int longer = 0;
    for (int i = low; i <= high; i++)
        longer += shape.dims[i] != 1;
    const int ends = (shape.dims[low] != 1) + (low != high && shape.dims[high] != 1);
    return low == high || ends == 0 || longer <= 1 || rp_shape_count(shape) == 0;
}

rp_tensor rp_transpose(rp_tape *tape, rp_tensor x, int first, int second) {
    rp_tensor_info info;
    if (!rp_tape_info(tape, "transpose", x, &info))
        return RP_NO_TENSOR;
    const int rank = info.shape.rank;
    const int a = first < 0 ? first + rank : first, b = second < 0 ? second + rank : second;
    if (a < 0 || a >= rank || b < 0 || b >= rank) {
        char text[RP_SHAPE_TEXT];
        return rp_tape_fail(tape, RP_BAD_SHAPE, "transpose: dimensions %d and %d of %s", first,
                            second, rp_tensor_text(&info, text));
    }
    if (moves_nothing(info.shape, a, b)) {
        const int64_t swapped = info.shape.dims[a];
        info.shape.dims[a] = info.shape.dims[b];
        info.shape.dims[b] = swapped;
        return record_view(tape, x, 0, info.shape);
    }
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.transpose.first = a;
    params.transpose.second = b;
    return rp_tape_record(tape, RP_OP_TRANSPOSE, &params, &x, 1, 0);
}

rp_tensor rp_slice(rp_tape *tape, rp_tensor x, int dimension, int64_t start, int64_t length) {
    rp_tensor_info info;
    if (!rp_tape_info(tape, "slice", x, &info))
        return RP_NO_TENSOR;
    const int rank = info.shape.rank, d = dimension < 0 ? dimension + rank : dimension;
    if (d < 0 || d >= rank || start < 0 || length < 0 || length > info.shape.dims[d] ||
        start > info.shape.dims[d] - length) {
        char text[RP_SHAPE_TEXT];
        return rp_tape_fail(tape, RP_BAD_SHAPE,
                            "slice: %lld elements from %lld on do not lie in dimension %d of %s",
                            (long long)length, (long long)start, dimension,
                            rp_tensor_text(&info, text));
    }
    bool contiguous = true;
    for (int i = 0; i < d; i++)
        contiguous = contiguous && info.shape.dims[i] == 1;
    if (contiguous || length == info.shape.dims[d]) {
        int64_t offset = start * (int64_t)rp_dtype_bytes(info.dtype);
        for (int i = d + 1; i < rank; i++)
            offset *= info.shape.dims[i];
        info.shape.dims[d] = length;
        return record_view(tape, x, offset, info.shape);
    }
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.slice.dimension = d;
    params.slice.start = start;
    params.slice.length = length;
    return rp_tape_record(tape, RP_OP_SLICE, &params, &x, 1, 0);
}

rp_tensor rp_concat(rp_tape *tape, const rp_tensor *tensors, size_t count, int dimension) {
    if (tape == NULL || tape->status != RP_OK)
        return RP_NO_TENSOR;
    if (tensors == NULL || count == 0)
        return rp_tape_fail(tape, RP_INVALID_ARGUMENT, "concat: at least one tensor is needed");
    rp_op_params params;
    memset(&params, 0, sizeof params);
    params.concat.dimension = dimension;
    return rp_tape_record(tape, RP_OP_CONCAT, &params, tensors, count, 0);
}
