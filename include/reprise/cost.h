/* Costs: how many nanoseconds a run of each node takes, which is what plans weigh against bytes.
 *
 * A program's costs are modelled from shapes for a plain processor with two cores, so that the same
 * program has the same plan on every machine. A cost table says otherwise: modelled for another
 * device from its description (a plan for a big GPU can be made on a laptop), or measured on this
 * one. Costs are whole nanoseconds, and no part of rp_graph_hash.
 *
 * Files: `reprise-device` version 1 (a description) and `reprise-costs` version 1 (measured).
 */
#ifndef REPRISE_COST_H
#define REPRISE_COST_H

#include "executor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rp_cost_table rp_cost_table;

#define RP_DEVICE_NAME_BYTES 128

/* A device as the model sees it: a node is as slow as the slower of its arithmetic and its memory
 * traffic, behind a fixed time to start. ns = max(FLOPs / (peak x share), bytes / (memory_rate x
 * share)) + launch_ns, each rounded up. Products and attention compute at the peak of the type that
 * they read, everything else at that of f32. */
typedef struct rp_device {
    size_t struct_size; /* sizeof(rp_device) */
    char name[RP_DEVICE_NAME_BYTES];
    int64_t f32_flops, bf16_flops; /* a second, at most; bf16 0: as f32 */
    int64_t memory_bytes;          /* 0: not said */
    int64_t memory_rate;           /* bytes a second, at most */
    int64_t link_rate;             /* bytes a second to the host; 0: not said */
    int64_t launch_ns;
    /* what is reached of it, of 1000 */
    int64_t products_permille, attention_permille, other_permille, memory_permille;
} rp_device;

/* The modelled costs of a device. RP_INVALID_ARGUMENT names the field that cannot be. `device`
 * NULL: the processor that programs are modelled for without a table. */
RP_API rp_status rp_cost_table_create(rp_context *context, const rp_device *device,
                                      rp_cost_table **table);

/* Reads either kind of file. RP_BAD_INPUT: file, place and reason. */
RP_API rp_status rp_cost_table_load(rp_context *context, const char *path, rp_cost_table **table);
RP_API rp_status rp_cost_table_parse(rp_context *context, const char *text, size_t length,
                                     rp_cost_table **table);

/* The table belongs to its context; programs do not refer to it. NULL is ignored. */
RP_API void rp_cost_table_destroy(rp_cost_table *table);

/* To a temporary name, then renamed. */
RP_API rp_status rp_cost_table_save(const rp_cost_table *table, const char *path);

/* Measures on a backend what `*table` does not have yet of the program's nodes: each distinct op
 * and shape once, warm, the median of five samples, on made-up inputs. NULL in `*table`: a new one;
 * after a failure it is NULL still. Custom ops are not run: what they say of themselves counts.
 *   RP_UNSUPPORTED  the backend runs nothing (null)
 *   RP_BAD_STATE    the table is modelled, or was measured elsewhere: as rp_cost_table_check
 *   RP_OUT_OF_MEMORY  also for the tensors of one node */
RP_API rp_status rp_cost_table_measure(const rp_program *program, rp_backend_kind backend,
                                       rp_cost_table **table);

/* Whether the costs are those of this machine: RP_BAD_STATE for a table that was measured on
 * another device, with other threads or with other versions of the libraries; the message has both.
 * Modelled ones are good everywhere, and on the null backend, which is no device, every table. */
RP_API rp_status rp_cost_table_check(const rp_cost_table *table, rp_backend_kind backend);

/* A few of the backend's own kernels, timed: this machine as a description. */
RP_API rp_status rp_device_measure(rp_context *context, rp_backend_kind backend, rp_device *device);

RP_API bool rp_cost_table_is_measured(const rp_cost_table *table);
/* The name of the description, or what was measured and with how many threads. */
RP_API const char *rp_cost_table_name(const rp_cost_table *table);
/* Entries of a measured table. */
RP_API size_t rp_cost_table_count(const rp_cost_table *table);

/* Gives every node of the program's graph its cost. Plans made before keep their steps and report;
 * what is planned from here on goes by the new costs. RP_BAD_INPUT: a node that was not measured;
 * the costs are then as they were. */
RP_API rp_status rp_program_set_costs(rp_program *program, const rp_cost_table *table);

#ifdef __cplusplus
}
#endif

#endif
