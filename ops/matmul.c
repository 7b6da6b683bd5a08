/* matmul: C = op(A) op(B), batched. Its gradients are products of the same kind. */
#include "define.h"
#include "product.h"

/* Rows and columns of op(tensor). */
static int64_t rows_of(const rp_tensor_info *info, bool transposed) {
    return info->shape.dims[info->shape.rank - (transposed ? 1 : 2)];
}

static int64_t columns_of(const rp_tensor_info *info, bool transposed) {
    return info->shape.dims[info->shape.rank - (transposed ? 2 : 1)];
}

static bool same_leading(const rp_tensor_info *a, const rp_tensor_info *b) {
    if (a->shape.rank != b->shape.rank || a->shape.rank < 2)
        return false;
    for (int i = 0; i < a->shape.rank - 2; i++)
        if (a->shape.dims[i] != b->shape.dims[i])
            return false;
    return true;
}

static rp_status check_types(rp_context *context, const rp_op_call *call) {
    static const char *const names[] = {"a", "b"};
    for (size_t i = 0; i < 2; i++) {
        if (!rp_slot_present(call->in, call->in_count, i))
            return rp_fail(context, RP_INVALID_ARGUMENT, "matmul: %s is missing", names[i]);
        const rp_status status =
            rp_check_floating(context, "matmul", names[i], &call->in[i], &call->in[0]);
        if (status != RP_OK)
            return status;
    }
    return RP_OK;
}

/* op(A) [..., M, K], op(B) [..., K, N] -> [..., M, N] */
static rp_status infer(rp_context *context, rp_op_call *call) {
    char a_text[RP_SHAPE_TEXT], b_text[RP_SHAPE_TEXT];
    rp_status status = check_types(context, call);
    if (status != RP_OK)
        return status;
    const rp_tensor_info *a = &call->in[0], *b = &call->in[1];
    const bool ta = call->params->matmul.transpose_a, tb = call->params->matmul.transpose_b;
    if (!same_leading(a, b) || columns_of(a, ta) != rows_of(b, tb))
        return rp_fail(context, RP_BAD_SHAPE,
                       "matmul: a is %s%s, b is %s%s: [..., M, K] and [..., K, N] with equal "
                       "leading dimensions were "
                       "expected",
                       rp_tensor_text(a, a_text), ta ? " transposed" : "",
                       rp_tensor_text(b, b_text), tb ? " transposed" : "");
    const int64_t m = rows_of(a, ta), k = columns_of(a, ta), n = columns_of(b, tb);
    status = rp_product_check_blas(context, "matmul", "M", m);
    if (status == RP_OK)
        status = rp_product_check_blas(context, "matmul", "K", k);
    if (status == RP_OK)
        status = rp_product_check_blas(context, "matmul", "N", n);
    if (status != RP_OK)
        return status;
    call->out[0] = *a;
    call->out[0].shape.dims[a->shape.rank - 2] = m;
    call->out[0].shape.dims[a->shape.rank - 1] = n;
    call->out_count = 1;
    if (rp_shape_count(call->out[0].shape) < 0)
        return rp_fail(context, RP_BAD_SHAPE, "matmul: a is %s, b is %s: the result is too large",
                       rp_tensor_text(a, a_text), rp_tensor_text(b, b_text));
    return RP_OK;
}

static rp_status emit(rp_vjp *vjp, uint32_t left, bool transpose_left, uint32_t right,
                      bool transpose_right, int gradient_of) {
    const rp_op_params params = {
        .matmul = {.transpose_a = transpose_left, .transpose_b = transpose_right}};
    const uint32_t in[] = {left, right};
    rp_vjp_output out[] = {{.gradient_of = gradient_of}};
    return vjp->emit(vjp, RP_OP_MATMUL, &params, in, 2, out, 1);
}

/* op(A) gets dC op(B)^T and op(B) gets op(A)^T dC; a transposed operand gets the transpose of
 * that. */
static rp_status vjp(rp_vjp *vjp) {
    const bool ta = vjp->call->params->matmul.transpose_a,
               tb = vjp->call->params->matmul.transpose_b;
    const uint32_t a = vjp->in[0], b = vjp->in[1], dc = vjp->gradient[0];
    rp_status status = RP_OK;
    if (dc == RP_NONE)
        return RP_OK;
    if (vjp->wanted[1])
        status = tb ? emit(vjp, dc, true, a, ta, 1) : emit(vjp, a, !ta, dc, false, 1);
    if (vjp->wanted[0] && status == RP_OK)
        status = ta ? emit(vjp, b, tb, dc, true, 0) : emit(vjp, dc, false, b, !tb, 0);
    return status;
}

static int64_t flops(const rp_op_call *call) {
    const rp_tensor_info *a = &call->in[0], *b = &call->in[1];
    int64_t sum = rp_shape_count(a->shape);
    if (!rp_checked_multiply(sum, columns_of(b, call->params->matmul.transpose_b), &sum) ||
        !rp_checked_multiply(sum, 2, &sum))
        return INT64_MAX;
    return sum;
}

/* Panels of floats, where something is bf16. */
static int64_t workspace(const rp_op_call *call) {
    const rp_shape c = call->out[0].shape;
    const int64_t m = c.dims[c.rank - 2], n = c.dims[c.rank - 1];
    const int64_t k = columns_of(&call->in[0], call->params->matmul.transpose_a);
    int64_t batch = 1;
    for (int i = 0; i < c.rank - 2; i++)
        batch *= c.dims[i];
    return rp_call_has_bf16(call)
               ? rp_panels_bytes(m, n, k, batch, rp_matmul_is_shared(batch, m, n, k))
               : 0;
}

const rp_op_def rp_op_def_matmul = {.name = "matmul",
                                    .infer = infer,
                                    .vjp = vjp,
                                    .flops = flops,
                                    .workspace = workspace,
                                    .accumulates = 1u};
