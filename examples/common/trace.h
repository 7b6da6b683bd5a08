/* A timeline of every kernel in the trace event format of Chrome, Perfetto and speedscope. */
#ifndef EXAMPLES_TRACE_H
#define EXAMPLES_TRACE_H

#include <stdio.h>

#include "failure.h"

typedef struct trace {
    FILE *file; /* NULL: nothing is traced */
    const rp_graph *graph;
    rp_trace_event *events; /* of the step that runs */
    size_t count, capacity;
    size_t lost; /* events there was no memory for */
    int64_t start_ns;
    bool first;
} trace;

/* `path` may be NULL. The graph must outlive the trace. */
bool trace_open(trace *trace, const char *path, const rp_graph *graph, failure *failure);

/* For rp_executor_options.trace: keeps the event. */
void trace_add(void *user, const rp_trace_event *event);

/* Writes the events of a step and a span around them; outside of what is timed. */
void trace_step(trace *trace, int64_t step, int64_t begin_ns, int64_t end_ns);

/* Ends the file; false when something of it could not be written. */
bool trace_close(trace *trace, failure *failure);

#endif
