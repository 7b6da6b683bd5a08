/* Costs in memory: the model, and what is measured, by op and shape. */
#ifndef REPRISE_AUTOGRAD_COST_H
#define REPRISE_AUTOGRAD_COST_H

#include <reprise/cost.h>

#include "program.h"
#include "text.h"

typedef struct rp_cost_entry rp_cost_entry;

struct rp_cost_table {
    rp_context *context;
    rp_owned owned;
    bool is_measured;
    rp_device device; /* modelled: the description */
    /* measured: on what and with what; a table is of use only where both are the same */
    char *machine, *libraries;
    rp_cost_entry *entries; /* in the order in which they were added */
    size_t count;
};

/* What programs are modelled for without a table. */
extern const rp_device rp_device_plain;

/* Nanoseconds of one run. `accumulated_bytes`: outputs that are read as well, because something
 * is added to them. */
int64_t rp_cost_model(const rp_device *device, rp_op op, const rp_op_call *call,
                      int64_t accumulated_bytes);

/* RP_INVALID_ARGUMENT with the field that cannot be. */
rp_status rp_device_check(rp_context *context, const rp_device *device);

/* An empty table; rp_own is the caller's. */
rp_status rp_cost_table_make(rp_context *context, rp_cost_table **table);
void rp_cost_table_own(rp_cost_table *table);

/* What tells one measurement from another: op, parameters that change the work, types and shapes,
 * and which outputs are added to. */
bool rp_cost_text(rp_context *context, rp_op op, const rp_op_call *call, uint64_t added,
                  rp_string *text);

/* The measured cost, or -1. */
int64_t rp_cost_table_find(const rp_cost_table *table, const char *text);
rp_status rp_cost_table_add(rp_cost_table *table, const char *text, int64_t cost_ns);

/* The i-th entry in order of adding, for files. */
const char *rp_cost_entry_text(const rp_cost_entry *entry, int64_t *cost_ns);
const rp_cost_entry *rp_cost_entry_next(const rp_cost_entry *entry);

/* The costs of the device's own kernels for a node: not run, declared. True for views and custom
 * ops. */
bool rp_cost_is_declared(rp_op op);

/* One node as an op call, `infos` with room for its inputs and outputs; and the bytes of outputs
 * that something is added to, with a bit for each. */
rp_op_call rp_program_call(const rp_program *program, uint32_t node, rp_tensor_info *infos,
                           int64_t *accumulated_bytes, uint64_t *added);

/* The most inputs and outputs of a node. */
size_t rp_program_most_slots(const rp_program *program);

#endif
