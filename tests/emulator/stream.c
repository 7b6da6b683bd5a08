/* Streams. With RP_EMULATOR_DEFER nothing runs before somebody waits for it, and then one task of
 * a random stream after the other: what is not ordered by a stream or an event comes in any order.
 */
#include "stream.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"
#include "settings.h"

static struct CUstream_st default_stream;
static cudaStream_t streams; /* all others */

cudaStream_t emulator_stream(cudaStream_t handle) {
    return handle == NULL || handle == cudaStreamLegacy || handle == cudaStreamPerThread
               ? &default_stream
               : handle;
}

/* ---- Running --------------------------------------------------------------------------------- */

static void run_task(const emulator_task *task) {
    if (task->kind == EMULATOR_RUN) {
        emulator_device_begin();
        task->work(task->data);
        emulator_device_end();
    } else if (task->kind == EMULATOR_RECORD) {
        struct timespec now;
        clock_gettime(CLOCK_MONOTONIC, &now);
        task->event->done = task->ticket;
        task->event->at_ms = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
    }
}

static bool can_run(const struct CUstream_st *stream) {
    if (stream->first == stream->count)
        return false;
    const emulator_task *task = &stream->tasks[stream->first];
    return task->kind != EMULATOR_WAIT || task->event->done >= task->ticket;
}

static void run_first(cudaStream_t stream) {
    const emulator_task task = stream->tasks[stream->first++];
    if (stream->first == stream->count)
        stream->first = stream->count = 0;
    run_task(&task);
    free(task.data);
}

/* The n-th stream that can run something; NULL: there are not so many. */
static cudaStream_t runnable(uint32_t n) {
    if (can_run(&default_stream) && n-- == 0)
        return &default_stream;
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        if (can_run(s) && n-- == 0)
            return s;
    return NULL;
}

void emulator_run_until(bool (*is_done)(const void *subject), const void *subject) {
    while (!is_done(subject)) {
        uint32_t count = 0;
        while (runnable(count) != NULL)
            count++;
        if (count == 0)
            emulator_fail("streams wait for an event that nothing will record");
        run_first(runnable(emulator_random(count)));
    }
}

static bool is_empty(const void *stream) {
    const struct CUstream_st *s = stream;
    return s->first == s->count;
}

static bool all_are_empty(const void *unused) {
    (void)unused;
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        if (!is_empty(s))
            return false;
    return is_empty(&default_stream);
}

static bool blocking_are_empty(const void *unused) {
    (void)unused;
    for (cudaStream_t s = streams; s != NULL; s = s->next)
        if (!s->non_blocking && !is_empty(s))
            return false;
    return true;
}

void emulator_drain(cudaStream_t stream) {
    emulator_run_until(is_empty, emulator_stream(stream));
}

void emulator_drain_all(void) {
    emulator_run_until(all_are_empty, NULL);
}

bool emulator_is_idle(cudaStream_t stream) {
    return is_empty(emulator_stream(stream));
}

/* ---- Giving work ----------------------------------------------------------------------------- */

static void append(emulator_task **tasks, size_t *count, size_t *capacity, emulator_task task) {
    *tasks = emulator_grow(*tasks, *count, capacity, sizeof **tasks);
    (*tasks)[(*count)++] = task;
}

/* The default stream may not be used while a stream that it would wait for is being captured. */
static cudaError_t refuse_implicit(void) {
    for (cudaStream_t s = streams; s != NULL; s = s->next) {
        if (s->capture == EMULATOR_NOT_CAPTURING || s->non_blocking)
            continue;
        emulator_capture_set(s->graph, EMULATOR_INVALID);
        return emulator_error(cudaErrorStreamCaptureImplicit);
    }
    return cudaSuccess;
}

cudaError_t emulator_submit_task(cudaStream_t handle, emulator_task task) {
    cudaStream_t stream = emulator_stream(handle);
    cudaError_t error = stream == &default_stream ? refuse_implicit() : cudaSuccess;
    if (stream->capture == EMULATOR_INVALID)
        error = emulator_error(cudaErrorStreamCaptureInvalidated);
    if (error != cudaSuccess) {
        free(task.data);
        return error;
    }
    if (stream->capture == EMULATOR_CAPTURING) {
        cudaGraph_t graph = stream->graph;
        append(&graph->tasks, &graph->count, &graph->capacity, task);
        return cudaSuccess;
    }
    if (!emulator_settings_get()->defer) {
        run_task(&task);
        free(task.data);
        return cudaSuccess;
    }
    if (stream == &default_stream)
        emulator_run_until(blocking_are_empty, NULL);
    else if (!stream->non_blocking)
        emulator_drain(NULL);
    append(&stream->tasks, &stream->count, &stream->capacity, task);
    return cudaSuccess;
}

cudaError_t emulator_submit(cudaStream_t stream, emulator_work work, const void *data,
                            size_t bytes) {
    emulator_task task = {EMULATOR_RUN, work, emulator_take(bytes), bytes, NULL, 0};
    memcpy(task.data, data, bytes);
    return emulator_submit_task(stream, task);
}

typedef struct host_call {
    cudaHostFn_t call;
    void *user;
} host_call;

static void run_host_call(const void *data) {
    const host_call *h = data;
    h->call(h->user);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void *user) {
    const host_call h = {call, user};
    return emulator_submit(stream, run_host_call, &h, sizeof h);
}

/* ---- Streams --------------------------------------------------------------------------------- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
    *stream = emulator_take(sizeof **stream);
    **stream =
        (struct CUstream_st){.non_blocking = (flags & cudaStreamNonBlocking) != 0, .next = streams};
    streams = *stream;
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    (void)priority;
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    cudaStream_t *at = &streams;
    while (*at != NULL && *at != stream)
        at = &(*at)->next;
    if (*at == NULL)
        return emulator_error(cudaErrorInvalidResourceHandle);
    emulator_drain(stream);
    *at = stream->next;
    free(stream->tasks);
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    const cudaStream_t s = emulator_stream(stream);
    if (s->capture != EMULATOR_NOT_CAPTURING) {
        emulator_capture_set(s->graph, EMULATOR_INVALID);
        return emulator_error(cudaErrorStreamCaptureUnsupported);
    }
    emulator_drain(s);
    return cudaSuccess;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    const cudaStream_t s = emulator_stream(stream);
    if (s->capture != EMULATOR_NOT_CAPTURING) {
        emulator_capture_set(s->graph, EMULATOR_INVALID);
        return emulator_error(cudaErrorStreamCaptureUnsupported);
    }
    if (is_empty(s))
        return cudaSuccess;
    cudaStream_t any = runnable(0);
    if (any != NULL) /* who asks again and again is served in the end */
        run_first(any);
    return cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize(void) {
    const cudaError_t refused = emulator_refuse_in_capture();
    if (refused == cudaSuccess)
        emulator_drain_all();
    return refused;
}

/* ---- Capture --------------------------------------------------------------------------------- */

void emulator_capture_set(cudaGraph_t graph, emulator_capture state) {
    for (cudaStream_t s = streams; s != NULL; s = s->next) {
        if (s->graph != graph || graph == NULL)
            continue;
        s->capture = state;
        if (state == EMULATOR_NOT_CAPTURING)
            s->graph = NULL;
    }
}

bool emulator_is_capturing(cudaStream_t stream) {
    return emulator_stream(stream)->capture != EMULATOR_NOT_CAPTURING;
}

cudaError_t emulator_refuse_in_capture(void) {
    for (cudaStream_t s = streams; s != NULL; s = s->next) {
        if (s->capture == EMULATOR_NOT_CAPTURING || s->mode == cudaStreamCaptureModeRelaxed)
            continue;
        emulator_capture_set(s->graph, EMULATOR_INVALID);
        return emulator_error(cudaErrorStreamCaptureUnsupported);
    }
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode) {
    cudaStream_t stream = emulator_stream(handle);
    if (stream == &default_stream)
        return emulator_error(cudaErrorStreamCaptureUnsupported);
    if (stream->capture != EMULATOR_NOT_CAPTURING)
        return emulator_error(cudaErrorIllegalState);
    stream->graph = emulator_take(sizeof *stream->graph);
    *stream->graph = (struct CUgraph_st){NULL, 0, 0};
    stream->capture = EMULATOR_CAPTURING;
    stream->mode = mode;
    stream->is_origin = true;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph) {
    cudaStream_t stream = emulator_stream(handle);
    *graph = NULL;
    if (stream->capture == EMULATOR_NOT_CAPTURING || !stream->is_origin)
        return emulator_error(cudaErrorIllegalState);
    const bool is_valid = stream->capture == EMULATOR_CAPTURING;
    cudaGraph_t captured = stream->graph;
    emulator_capture_set(captured, EMULATOR_NOT_CAPTURING);
    stream->is_origin = false;
    if (!is_valid) {
        cudaGraphDestroy(captured);
        return emulator_error(cudaErrorStreamCaptureInvalidated);
    }
    *graph = captured;
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
    static const enum cudaStreamCaptureStatus of[] = {
        [EMULATOR_NOT_CAPTURING] = cudaStreamCaptureStatusNone,
        [EMULATOR_CAPTURING] = cudaStreamCaptureStatusActive,
        [EMULATOR_INVALID] = cudaStreamCaptureStatusInvalidated,
    };
    *status = of[emulator_stream(stream)->capture];
    return cudaSuccess;
}
