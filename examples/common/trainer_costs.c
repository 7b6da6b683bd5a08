/* What the nodes cost: modelled for another device, or measured on this one. */
#include <errno.h>
#include <sys/stat.h>

#include "trainer.h"

#include <string.h>

/* Reads --costs, either kind of file. */
static bool load_costs(trainer *t, failure *failure) {
    const char *path = t->options->costs;
    rp_status status = rp_cost_table_load(t->context, path, &t->costs);
    if (status == RP_OK)
        status = rp_cost_table_check(t->costs, t->backend);
    if (status == RP_BAD_STATE) {
        return fail(failure, STATUS_BAD_INPUT, "%s: %s; --measure-costs makes a new one", path,
                    rp_context_message(t->context));
    }
    return status == RP_OK || trainer_fail(t, status, path, failure);
}

/* What was measured before, unless on another machine: then everything is measured anew. */
static bool load_known(trainer *t, const char *path, failure *failure) {
    struct stat info;
    if (stat(path, &info) != 0 && errno == ENOENT)
        return true;
    rp_status status = rp_cost_table_load(t->context, path, &t->costs);
    if (status != RP_OK)
        return trainer_fail(t, status, path, failure);
    status = rp_cost_table_check(t->costs, t->backend);
    if (rp_cost_table_is_measured(t->costs) && status == RP_OK)
        return true;
    if (!rp_cost_table_is_measured(t->costs)) {
        return fail(failure, STATUS_BAD_INPUT,
                    "%s: is a description of a device, expected reprise-costs", path);
    }
    rp_cost_table_destroy(t->costs);
    t->costs = NULL;
    return status == RP_BAD_STATE || trainer_fail(t, status, path, failure);
}

static bool measure_costs(trainer *t, const char *known, const char *written, failure *failure) {
    if (!load_known(t, known, failure))
        return false;
    rp_status status = rp_cost_table_measure(t->program, t->backend, &t->costs);
    if (status == RP_OK)
        status = rp_cost_table_save(t->costs, written);
    if (status == RP_IO_ERROR)
        return fail(failure, STATUS_OTHER, "--measure-costs: %s", rp_context_message(t->context));
    return status == RP_OK || trainer_fail(t, status, "--measure-costs", failure);
}

bool trainer_set_costs(trainer *trainer, const char *known, const char *written, failure *failure) {
    const bool from_file = strcmp(trainer->options->costs, "model") != 0;
    if (written == NULL && !from_file)
        return true;
    if (!(written != NULL ? measure_costs(trainer, known, written, failure)
                          : load_costs(trainer, failure)))
        return false;
    const rp_status status = rp_program_set_costs(trainer->program, trainer->costs);
    return status == RP_OK ||
           trainer_fail(trainer, status, written != NULL ? known : trainer->options->costs,
                        failure);
}

bool trainer_measure_device(const trainer *trainer, const char *path, failure *failure) {
    rp_device device;
    rp_cost_table *table = NULL;
    if (path == NULL)
        return true;
    rp_status status = rp_device_measure(trainer->context, trainer->backend, &device);
    if (status == RP_OK)
        status = rp_cost_table_create(trainer->context, &device, &table);
    if (status == RP_OK)
        status = rp_cost_table_save(table, path);
    rp_cost_table_destroy(table);
    if (status == RP_IO_ERROR) {
        return fail(failure, STATUS_OTHER, "--measure-device: %s",
                    rp_context_message(trainer->context));
    }
    return status == RP_OK || trainer_fail(trainer, status, "--measure-device", failure);
}
