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

uint64_t trainer_hash_gradients(const trainer *trainer) {
    uint64_t hash = HASH_START;
    for (size_t i = 0; i < rp_program_parameter_count(trainer->program); i++) {
        const rp_tensor p = rp_program_parameter(trainer->program, i);
        const float *gradient = rp_executor_gradient(trainer->executor, p);
        if (gradient == NULL)
            return 0;
        hash = hash_floats(hash, gradient, element_count(trainer, p));
    }
    return hash;
}

uint64_t trainer_hash_parameters(const trainer *trainer) {
    uint64_t hash = HASH_START;
    for (size_t i = 0; i < trainer->model.parameter_count; i++) {
        const rp_tensor p = trainer->model.parameters[i].tensor;
        const float *values = rp_executor_data(trainer->executor, p);
        if (values == NULL)
            return 0;
        hash = hash_floats(hash, values, element_count(trainer, p));
    }
    return hash;
}

double trainer_gradient_norm(const trainer *trainer, size_t index) {
    const rp_tensor p = rp_program_parameter(trainer->program, index);
    const float *gradient = rp_executor_gradient(trainer->executor, p);
    const size_t count = gradient != NULL ? element_count(trainer, p) : 0;
    double sum = 0.0;
    for (size_t i = 0; i < count; i++)
        sum += (double)gradient[i] * (double)gradient[i];
    return sqrt(sum);
}

/* Tensors of the program's or the model's parameters, all of them in memory. */
static bool save(const trainer *t, bool gradients, const char *path, const char *option,
                 failure *failure) {
    const size_t count =
        gradients ? rp_program_parameter_count(t->program) : t->model.parameter_count;
    safetensors_tensor *tensors = calloc(count + 1, sizeof *tensors);
    if (tensors == NULL)
        return fail_memory(failure, option);
    bool good = true;
    for (size_t i = 0; i < count && good; i++) {
        const rp_tensor p =
            gradients ? rp_program_parameter(t->program, i) : t->model.parameters[i].tensor;
        tensors[i] = (safetensors_tensor){
            rp_tensor_name(t->tape, p), rp_tensor_get_info(t->tape, p).shape,
            gradients ? rp_executor_gradient(t->executor, p) : rp_executor_data(t->executor, p)};
        good = tensors[i].data != NULL ||
               fail(failure, STATUS_USAGE, "%s: the null backend has no data", option);
    }
    good = good && safetensors_write(path, option, tensors, count, failure);
    free(tensors);
    return good;
}

bool trainer_save_parameters(const trainer *trainer, const char *path, const char *option,
                             failure *failure) {
    return save(trainer, false, path, option, failure);
}

bool trainer_save_gradients(const trainer *trainer, const char *path, const char *option,
                            failure *failure) {
    return save(trainer, true, path, option, failure);
}

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
