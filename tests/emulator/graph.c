/* Events, and graphs: what a stream captured, replayed in the order in which it was given. */
#include <stdlib.h>
#include <string.h>

#include "settings.h"
#include "stream.h"

/* ---- Events ---------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    (void)flags;
    *event = emulator_take(sizeof **event);
    **event = (struct CUevent_st){0, 0, 0.0, NULL};
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    emulator_drain_all(); /* tasks may still name it */
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const cudaStream_t s = emulator_stream(stream);
    if (s->capture == EMULATOR_CAPTURING) {
        event->graph = s->graph;
        return cudaSuccess;
    }
    event->graph = NULL;
    const emulator_task task = {EMULATOR_RECORD, NULL, NULL, 0, event, ++event->recorded};
    return emulator_submit_task(stream, task);
}

/* A stream that waits for an event of a capture joins it. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    const cudaStream_t s = emulator_stream(stream);
    (void)flags;
    if (event->graph != NULL) {
        if (s->capture == EMULATOR_NOT_CAPTURING) {
            s->capture = EMULATOR_CAPTURING;
            s->graph = event->graph;
        }
        return s->graph == event->graph ? cudaSuccess
                                        : emulator_error(cudaErrorStreamCaptureIsolation);
    }
    if (s->capture != EMULATOR_NOT_CAPTURING) {
        emulator_capture_set(s->graph, EMULATOR_INVALID);
        return emulator_error(cudaErrorStreamCaptureIsolation);
    }
    const emulator_task task = {EMULATOR_WAIT, NULL, NULL, 0, event, event->recorded};
    return emulator_submit_task(stream, task);
}

static bool is_done(const void *event) {
    const struct CUevent_st *e = event;
    return e->done >= e->recorded;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (event->graph != NULL) {
        emulator_capture_set(event->graph, EMULATOR_INVALID);
        return emulator_error(cudaErrorCapturedEvent);
    }
    emulator_run_until(is_done, event);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return is_done(event) ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    if (!is_done(start) || !is_done(end))
        return cudaErrorNotReady;
    *ms = (float)(end->at_ms - start->at_ms);
    return cudaSuccess;
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

static emulator_task copy_of(const emulator_task *task) {
    emulator_task copy = *task;
    copy.data = emulator_take(task->bytes);
    memcpy(copy.data, task->data, task->bytes);
    return copy;
}

static void free_tasks(struct CUgraph_st *graph) {
    for (size_t i = 0; i < graph->count; i++)
        free(graph->tasks[i].data);
    free(graph->tasks);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *executable, cudaGraph_t graph,
                                 unsigned long long flags) {
    (void)flags;
    *executable = emulator_take(sizeof **executable);
    struct CUgraph_st *copy = &(*executable)->graph;
    *copy = (struct CUgraph_st){emulator_take(graph->count * sizeof *graph->tasks), graph->count,
                                graph->count};
    for (size_t i = 0; i < graph->count; i++)
        copy->tasks[i] = copy_of(&graph->tasks[i]);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *executable, cudaGraph_t graph,
                                          unsigned long long flags) {
    return cudaGraphInstantiate(executable, graph, flags);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
    (void)executable;
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
    cudaError_t error = cudaSuccess;
    emulator_counts.replays++;
    for (size_t i = 0; i < executable->graph.count && error == cudaSuccess; i++)
        error = emulator_submit_task(stream, copy_of(&executable->graph.tasks[i]));
    return error;
}

/* How many nodes there are; which they are has no names here. */
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    if (nodes != NULL)
        return emulator_error(cudaErrorNotSupported);
    *count = graph->count;
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    free_tasks(graph);
    free(graph);
    return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
    emulator_drain_all();
    free_tasks(&executable->graph);
    free(executable);
    return cudaSuccess;
}
