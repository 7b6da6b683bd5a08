/* Streams, events and graphs from the inside: shared by stream.c, event.c and graph.c. */
#ifndef REPRISE_EMULATOR_STREAM_H
#define REPRISE_EMULATOR_STREAM_H

#include "runtime.h"

typedef enum emulator_task_kind { EMULATOR_RUN, EMULATOR_RECORD, EMULATOR_WAIT } emulator_task_kind;

/* What a stream does in its turn. A record finishes a ticket of an event, a wait waits for it. */
typedef struct emulator_task {
    emulator_task_kind kind;
    emulator_work work;
    void *data; /* its own */
    size_t bytes;
    cudaEvent_t event;
    uint64_t ticket;
} emulator_task;

typedef enum emulator_capture {
    EMULATOR_NOT_CAPTURING,
    EMULATOR_CAPTURING,
    EMULATOR_INVALID
} emulator_capture;

struct CUgraph_st {
    emulator_task *tasks; /* in the order in which they were given */
    size_t count, capacity;
};

struct CUgraphExec_st {
    struct CUgraph_st graph; /* a copy */
};

struct CUstream_st {
    emulator_task *tasks; /* those from `first` to `count` have not run */
    size_t first, count, capacity;
    bool non_blocking; /* does not wait for the default stream, nor it for this one */
    emulator_capture capture;
    enum cudaStreamCaptureMode mode;
    bool is_origin; /* of the capture: others joined it by events */
    cudaGraph_t graph;
    cudaStream_t next; /* in the list of all streams */
};

struct CUevent_st {
    uint64_t recorded, done; /* tickets */
    double at_ms;            /* when the last one was done */
    cudaGraph_t graph;       /* recorded in a capture: of this graph */
};

/* The stream behind a handle; the default stream for NULL. */
cudaStream_t emulator_stream(cudaStream_t handle);

cudaError_t emulator_submit_task(cudaStream_t stream, emulator_task task);

/* Runs tasks, of random streams, until `is_done(subject)`. */
void emulator_run_until(bool (*is_done)(const void *subject), const void *subject);

/* The streams that capture into this graph are invalid, or no longer capture. */
void emulator_capture_set(cudaGraph_t graph, emulator_capture state);

#endif
