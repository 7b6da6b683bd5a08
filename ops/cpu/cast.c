/* cast: x [n] -> y [n], f32 or bf16 each. Nothing is kept. */
#include "loops.h"

static void copy_span(const rp_span *span) {
    const float *x = span->in[0];
    RP_LOOP(span->out[0], span->sum, 0, span->count, x[i]);
}

rp_status RP_CPU(cast)(const rp_launch *launch) {
    return RP_CPU(for_spans)(launch, copy_span);
}
