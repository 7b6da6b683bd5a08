/* Cost tables: a description or what was measured, and the costs of a program's nodes from it. */
#include "cost.h"

#include <string.h>

#include "ops/backend.h"
#include "planner/graph.h"
#include "planner/hash.h"

struct rp_cost_entry {
    int64_t cost_ns;
    char *text;
    UT_hash_handle hh;
};

/* ---- Making ---------------------------------------------------------------------------------- */

static void destroy_table(void *table) {
    rp_cost_table_destroy(table);
}

rp_status rp_cost_table_make(rp_context *context, rp_cost_table **table) {
    *table = rp_alloc(context, 1, sizeof **table);
    if (*table == NULL)
        return rp_fail_memory(context, "a table of costs");
    (*table)->context = context;
    return RP_OK;
}

void rp_cost_table_own(rp_cost_table *table) {
    rp_own(table->context, &table->owned, table, destroy_table);
}

rp_status rp_cost_table_create(rp_context *context, const rp_device *device,
                               rp_cost_table **table) {
    if (table == NULL)
        return RP_INVALID_ARGUMENT;
    *table = NULL;
    if (context == NULL)
        return RP_INVALID_ARGUMENT;
    const rp_device *used = device != NULL ? device : &rp_device_plain;
    rp_cost_table *made = NULL;
    rp_status status = rp_device_check(context, used);
    if (status == RP_OK)
        status = rp_cost_table_make(context, &made);
    if (status != RP_OK)
        return status;
    made->device = *used;
    rp_cost_table_own(made);
    *table = made;
    return RP_OK;
}

void rp_cost_table_destroy(rp_cost_table *table) {
    if (table == NULL)
        return;
    rp_context *const hash_context = table->context;
    rp_disown(hash_context, &table->owned);
    while (table->entries != NULL) {
        rp_cost_entry *entry = table->entries;
        HASH_DEL(table->entries, entry);
        rp_free(hash_context, entry->text);
        rp_free(hash_context, entry);
    }
    rp_free(hash_context, table->machine);
    rp_free(hash_context, table->libraries);
    rp_free(hash_context, table);
}

bool rp_cost_table_is_measured(const rp_cost_table *table) {
    return table != NULL && table->is_measured;
}

const char *rp_cost_table_name(const rp_cost_table *table) {
    if (table == NULL)
        return "";
    return table->is_measured ? table->machine : table->device.name;
}

size_t rp_cost_table_count(const rp_cost_table *table) {
    return table != NULL ? table->count : 0;
}

rp_status rp_cost_table_check(const rp_cost_table *table, rp_backend_kind kind) {
    if (table == NULL)
        return RP_INVALID_ARGUMENT;
    const rp_backend *backend = NULL;
    const rp_status status = rp_backend_find(table->context, kind, &backend);
    if (status != RP_OK)
        return status;
    if (!table->is_measured || backend->kernels == NULL)
        return RP_OK;
    rp_backend_text text;
    backend->describe(rp_context_threads(table->context), &text);
    if (strcmp(table->machine, text.machine) != 0)
        return rp_fail(table->context, RP_BAD_STATE,
                       "costs: measured on \"%.180s\", this is \"%.180s\"", table->machine,
                       text.machine);
    if (strcmp(table->libraries, text.libraries) != 0)
        return rp_fail(table->context, RP_BAD_STATE,
                       "costs: measured with \"%.180s\", this is \"%.180s\"", table->libraries,
                       text.libraries);
    return RP_OK;
}

/* ---- Entries --------------------------------------------------------------------------------- */

int64_t rp_cost_table_find(const rp_cost_table *table, const char *text) {
    rp_cost_entry *found = NULL;
    HASH_FIND_STR(table->entries, text, found);
    return found != NULL ? found->cost_ns : -1;
}

rp_status rp_cost_table_add(rp_cost_table *table, const char *text, int64_t cost_ns) {
    rp_context *const hash_context = table->context;
    bool hash_failed = false;
    rp_cost_entry *entry = rp_alloc(hash_context, 1, sizeof *entry);
    if (entry == NULL)
        return rp_fail_memory(hash_context, "a cost");
    entry->cost_ns = cost_ns;
    entry->text = rp_copy_string(hash_context, text);
    if (entry->text != NULL)
        HASH_ADD_KEYPTR(hh, table->entries, entry->text, strlen(entry->text), entry);
    if (entry->text == NULL || hash_failed) {
        rp_free(hash_context, entry->text);
        rp_free(hash_context, entry);
        return rp_fail_memory(hash_context, "a cost");
    }
    table->count++;
    return RP_OK;
}

const char *rp_cost_entry_text(const rp_cost_entry *entry, int64_t *cost_ns) {
    *cost_ns = entry->cost_ns;
    return entry->text;
}

const rp_cost_entry *rp_cost_entry_next(const rp_cost_entry *entry) {
    return entry->hh.next;
}

/* ---- Costs of a program ---------------------------------------------------------------------- */

rp_op_call rp_program_call(const rp_program *program, uint32_t index, rp_tensor_info *infos,
                           int64_t *accumulated_bytes, uint64_t *added) {
    const rp_code *code = &program->code;
    const rp_code_node *node = &code->nodes[index];
    const uint32_t *sum = rp_code_accumulates(code, node);
    *accumulated_bytes = 0;
    *added = 0;
    for (uint32_t k = 0; sum != NULL && k < node->out_count; k++) {
        int64_t bytes = 0;
        if (sum[k] == RP_NONE)
            continue;
        const rp_tensor_info info = rp_code_info(code, sum[k]);
        if (!rp_code_info_bytes(&info, &bytes) ||
            !rp_checked_add(*accumulated_bytes, bytes, accumulated_bytes))
            *accumulated_bytes = INT64_MAX;
        *added |= k < 64 ? UINT64_C(1) << k : 0;
    }
    rp_code_infos(code, rp_code_inputs(code, node), (size_t)node->in_count + node->out_count,
                  infos);
    return (rp_op_call){infos, node->in_count, infos + node->in_count, node->out_count,
                        &code->params[node->params]};
}

size_t rp_program_most_slots(const rp_program *program) {
    size_t most = 1;
    for (size_t n = 0; n < program->code.node_count; n++) {
        const size_t slots = rp_code_slots(&program->code.nodes[n]);
        most = slots > most ? slots : most;
    }
    return most;
}

/* The measured cost of one node. */
static rp_status look_up(const rp_program *program, const rp_cost_table *table, uint32_t index,
                         const rp_op_call *call, uint64_t added, rp_string *text, int64_t *cost) {
    const rp_op op = (rp_op)program->code.nodes[index].op;
    text->length = 0;
    if (!rp_cost_text(program->context, op, call, added, text))
        return rp_fail_memory(program->context, "the costs of a program");
    *cost = rp_cost_table_find(table, text->data);
    return *cost >= 0 ? RP_OK
                      : rp_fail(program->context, RP_BAD_INPUT,
                                "costs: node %u (%.80s) was not measured: %.300s", (unsigned)index,
                                rp_node_name(program->graph, index), text->data);
}

rp_status rp_program_set_costs(rp_program *program, const rp_cost_table *table) {
    if (program == NULL)
        return RP_INVALID_ARGUMENT;
    rp_context *context = program->context;
    if (table == NULL)
        return rp_fail(context, RP_INVALID_ARGUMENT, "costs: the table is NULL");
    const size_t count = program->code.node_count;
    rp_string text = {0};
    int64_t *costs = rp_alloc(context, count, sizeof *costs);
    rp_tensor_info *infos = rp_alloc(context, rp_program_most_slots(program), sizeof *infos);
    rp_status status = RP_OK;
    if (costs == NULL || infos == NULL)
        status = rp_fail_memory(context, "the costs of a program");
    for (uint32_t n = 0; n < count && status == RP_OK; n++) {
        int64_t accumulated = 0;
        uint64_t added = 0;
        const rp_op op = (rp_op)program->code.nodes[n].op;
        const rp_op_call call = rp_program_call(program, n, infos, &accumulated, &added);
        if (table->is_measured && !rp_cost_is_declared(op))
            status = look_up(program, table, n, &call, added, &text, &costs[n]);
        else
            costs[n] = rp_cost_model(&table->device, op, &call, accumulated);
    }
    if (status == RP_OK)
        status = rp_graph_set_costs(program->graph, costs);
    rp_string_clear(context, &text);
    rp_free(context, infos);
    rp_free(context, costs);
    return status;
}
