/* The timeline: events are kept during a step and written behind it. */
#include "trace.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

bool trace_open(trace *trace, const char *path, const rp_graph *graph, failure *failure) {
    *trace = (struct trace){.graph = graph, .start_ns = clock_now_ns(), .first = true};
    if (path == NULL)
        return true;
    trace->file = fopen(path, "wb");
    if (trace->file == NULL)
        return fail_write(failure, "--trace");
    fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", trace->file);
    return true;
}

void trace_add(void *user, const rp_trace_event *event) {
    trace *trace = user;
    if (trace->count == trace->capacity) {
        const size_t capacity = trace->capacity == 0 ? 1024 : 2 * trace->capacity;
        rp_trace_event *grown = realloc(trace->events, capacity * sizeof *grown);
        if (grown == NULL) {
            trace->lost++;
            return;
        }
        trace->events = grown;
        trace->capacity = capacity;
    }
    trace->events[trace->count++] = *event;
}

static void write_string(FILE *file, const char *text) {
    fputc('"', file);
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            fprintf(file, "\\%c", c);
        else if (c < 0x20)
            fprintf(file, "\\u%04x", c);
        else
            fputc(c, file);
    }
    fputc('"', file);
}

/* One complete event ("X"): microseconds, with the nanoseconds behind the point. */
static void write_event(trace *trace, const char *name, const char *phase, const char *block,
                        int64_t begin_ns, int64_t end_ns) {
    const int64_t at = begin_ns - trace->start_ns, spent = end_ns - begin_ns;
    fputs(trace->first ? "" : ",\n", trace->file);
    trace->first = false;
    fputs("{\"name\": ", trace->file);
    write_string(trace->file, name);
    fprintf(trace->file,
            ", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %" PRId64 ".%03d, \"dur\": %" PRId64
            ".%03d, \"pid\": 1, \"tid\": 1, \"args\": {\"phase\": \"%s\", \"block\": ",
            phase, at / 1000, (int)(at % 1000), spent / 1000, (int)(spent % 1000), phase);
    write_string(trace->file, block);
    fputs("}}", trace->file);
}

void trace_step(trace *trace, int64_t step, int64_t begin_ns, int64_t end_ns) {
    char name[40];
    if (trace->file == NULL)
        return;
    snprintf(name, sizeof name, "step %" PRId64, step);
    write_event(trace, name, "step", "", begin_ns, end_ns);
    for (size_t i = 0; i < trace->count; i++) {
        const rp_trace_event *event = &trace->events[i];
        const char *phase = event->phase == RP_BACKWARD ? "backward" : "forward";
        rp_node_info node;
        rp_graph_node(trace->graph, event->node, &node);
        write_event(trace, node.name, event->is_replay ? "replay" : phase, node.block,
                    event->begin_ns, event->end_ns);
    }
    trace->count = 0;
}

bool trace_close(trace *trace, failure *failure) {
    bool good = true;
    if (trace->file != NULL) {
        fputs("\n]}\n", trace->file);
        good = !ferror(trace->file);
        good = fclose(trace->file) == 0 && good;
        good = good || fail_write(failure, "--trace");
        if (good && trace->lost > 0)
            good = fail_memory(failure, "the trace");
    }
    free(trace->events);
    *trace = (struct trace){0};
    return good;
}
