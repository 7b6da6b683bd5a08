/* What a training is asked for when it has ended: hashes, norms, times, files of tensors. */
#include <math.h>
#include <stdlib.h>

#include "hash.h"
#include "trainer.h"

const char *trainer_node_name(const trainer *trainer, uint32_t node) {
    rp_node_info info;
    if (trainer->graph == NULL || node >= rp_graph_node_count(trainer->graph))
        return "";
    rp_graph_node(trainer->graph, node, &info);
    return info.name;
}

static size_t element_count(const trainer *t, rp_tensor tensor) {
    return (size_t)rp_shape_count(rp_tensor_get_info(t->tape, tensor).shape);
}

int64_t trainer_parameter_elements(const trainer *trainer) {
    int64_t count = 0;
    for (size_t i = 0; i < trainer->model.parameter_count; i++)
        count += rp_shape_count(trainer->model.parameters[i].shape);
    return count;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* All parameters of the model, or the gradients of those that are trained. */
typedef struct tensor_list {
    const trainer *trainer;
    bool gradients;
} tensor_list;

static size_t list_count(const tensor_list *list) {
    return list->gradients ? rp_program_parameter_count(list->trainer->program)
                           : list->trainer->model.parameter_count;
}

static rp_tensor list_tensor(const tensor_list *list, size_t i) {
    return list->gradients ? rp_program_parameter(list->trainer->program, i)
                           : list->trainer->model.parameters[i].tensor;
}

/* A safetensors_source: parameters as they are trained, which in bf16 are their masters. */
static bool list_read(const void *user, size_t i, float *values, failure *failure) {
    const tensor_list *list = user;
    const trainer *t = list->trainer;
    const rp_tensor p = list_tensor(list, i);
    const size_t count = element_count(t, p);
    const rp_status status = list->gradients
                                 ? rp_executor_read_gradient_f32(t->executor, p, values, count)
                                 : rp_executor_read_f32(t->executor, p, values, count);
    return status == RP_OK || trainer_fail(t, status, NULL, failure);
}

static double norm_of(const float *values, size_t count) {
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sqrt(sum);
}

/* Every bf16 number is an f32 number, so the hash of those sees every bit. `norms` may be NULL. */
static bool list_hash(const tensor_list *list, double *norms, uint64_t *hash, failure *failure) {
    const trainer *t = list->trainer;
    size_t most = 1;
    *hash = 0;
    if (!t->computes)
        return true;
    for (size_t i = 0; i < list_count(list); i++) {
        const size_t count = element_count(t, list_tensor(list, i));
        most = count > most ? count : most;
    }
    float *values = malloc(most * sizeof *values);
    bool good = values != NULL || fail_memory(failure, "a hash");
    *hash = HASH_START;
    for (size_t i = 0; i < list_count(list) && good; i++) {
        const size_t count = element_count(t, list_tensor(list, i));
        good = list_read(list, i, values, failure);
        if (!good)
            break;
        *hash = hash_floats(*hash, values, count);
        if (norms != NULL)
            norms[i] = norm_of(values, count);
    }
    free(values);
    return good;
}

bool trainer_hash_gradients(const trainer *trainer, double *norms, uint64_t *hash,
                            failure *failure) {
    return list_hash(&(tensor_list){trainer, true}, norms, hash, failure);
}

bool trainer_hash_parameters(const trainer *trainer, uint64_t *hash, failure *failure) {
    return list_hash(&(tensor_list){trainer, false}, NULL, hash, failure);
}

/* Parameters are written as f32, gradients in the type of their parameters. */
static bool save(const tensor_list *list, const char *path, const char *option, failure *failure) {
    const trainer *t = list->trainer;
    const size_t count = list_count(list);
    safetensors_tensor *tensors = calloc(count + 1, sizeof *tensors);
    if (tensors == NULL)
        return fail_memory(failure, option);
    for (size_t i = 0; i < count; i++) {
        const rp_tensor p = list_tensor(list, i);
        const rp_tensor_info info = rp_tensor_get_info(t->tape, p);
        tensors[i] = (safetensors_tensor){rp_tensor_name(t->tape, p),
                                          list->gradients ? info.dtype : RP_F32, info.shape};
    }
    const bool good = safetensors_write(path, option, tensors, count, list_read, list, failure);
    free(tensors);
    return good;
}

bool trainer_save_parameters(const trainer *trainer, const char *path, const char *option,
                             failure *failure) {
    return save(&(tensor_list){trainer, false}, path, option, failure);
}

bool trainer_save_gradients(const trainer *trainer, const char *path, const char *option,
                            failure *failure) {
    return save(&(tensor_list){trainer, true}, path, option, failure);
}

/* ---- Times ----------------------------------------------------------------------------------- */

size_t trainer_warmup_steps(const trainer *trainer) {
    const size_t steps = trainer->step_count;
    return steps >= 3 ? 2 : steps - (steps > 0);
}

static int compare_times(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

bool trainer_step_times(const trainer *trainer, bool of_replays, time_summary *summary,
                        failure *failure) {
    const size_t warm = trainer_warmup_steps(trainer), count = trainer->step_count - warm;
    *summary = (time_summary){0};
    if (count == 0)
        return true;
    int64_t *times = malloc(count * sizeof *times);
    if (times == NULL)
        return fail_memory(failure, "the times");
    for (size_t i = 0; i < count; i++) {
        const step_record *record = &trainer->steps[warm + i];
        times[i] = of_replays ? record->replay_ns : record->step_ns;
    }
    qsort(times, count, sizeof *times, compare_times);
    summary->median_ns = 0.5 * ((double)times[(count - 1) / 2] + (double)times[count / 2]);
    summary->least_ns = times[0];
    summary->greatest_ns = times[count - 1];
    free(times);
    return true;
}
