/* Modelled costs: from shapes alone, the same on every machine. */
#ifndef REPRISE_AUTOGRAD_COST_H
#define REPRISE_AUTOGRAD_COST_H

#include "ops/op.h"

/* Nanoseconds of one run. `accumulated_bytes`: outputs that are read as well, because something
 * is added to them. */
int64_t rp_cost_model(rp_op op, const rp_op_call *call, int64_t accumulated_bytes);

#endif
