/* Small graphs written down in a test. */
#include "written.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 1024, MAX_NAME = 32, MAX_EDGES = 64 };

typedef struct reader {
    rp_context *context;
    rp_graph *graph;
    char names[MAX_NAMES][MAX_NAME]; /* of the values */
    uint32_t count;
    uint32_t outputs[MAX_EDGES];
    size_t output_count;
} reader;

static uint32_t find(const reader *r, const char *name, size_t length) {
    for (uint32_t i = 0; i < r->count; i++)
        if (strlen(r->names[i]) == length && memcmp(r->names[i], name, length) == 0)
            return i;
    return RP_NONE;
}

static uint32_t known(const reader *r, const char *name, size_t length) {
    const uint32_t value = find(r, name, length);
    RP_REQUIRE(value != RP_NONE, "no value '%.*s' so far", (int)length, name);
    return value;
}

static uint32_t add(reader *r, const char *name, size_t length, int64_t bytes, rp_value_kind kind,
                    uint32_t base) {
    RP_REQUIRE(r->count < MAX_NAMES && length > 0 && length < MAX_NAME, "too much: '%s'", name);
    memcpy(r->names[r->count], name, length);
    r->names[r->count][length] = '\0';
    const rp_value_info info = {r->names[r->count++], bytes, kind, base};
    uint32_t index = RP_NONE;
    RP_REQUIRE_OK(r->context, rp_graph_add_value(r->graph, &info, &index));
    return index;
}

/* OUT:BYTES, OUT=BASE or OUT. */
static uint32_t read_output(reader *r, const char *word) {
    const size_t length = strcspn(word, ":=");
    if (word[length] == ':')
        return add(r, word, length, atoll(word + length + 1), RP_ACTIVATION, RP_NONE);
    if (word[length] == '=')
        return add(r, word, length, 0, RP_ACTIVATION,
                   known(r, word + length + 1, strlen(word + length + 1)));
    return known(r, word, length);
}

static void read_flag(const reader *r, const char *flag, rp_node_info *node,
                      rp_inplace_pair *pairs) {
    const char *slash = strchr(flag, '/');
    if (strcmp(flag, "keep") == 0)
        node->mark = RP_MARK_KEEP;
    else if (strcmp(flag, "recompute") == 0)
        node->mark = RP_MARK_RECOMPUTE;
    else if (strcmp(flag, "once") == 0 || strcmp(flag, "again") == 0)
        node->recomputable = flag[0] == 'a';
    else {
        RP_REQUIRE(slash != NULL, "no such flag: '%s'", flag);
        pairs[node->inplace_count++] = (rp_inplace_pair){known(r, flag, (size_t)(slash - flag)),
                                                         known(r, slash + 1, strlen(slash + 1))};
    }
}

/* The rest of a line that begins with f or b; strtok holds it. */
static void read_node(reader *r, rp_phase phase) {
    uint32_t inputs[MAX_EDGES], outputs[MAX_EDGES];
    rp_inplace_pair pairs[MAX_EDGES];
    rp_node_info node = {.block = "",
                         .phase = phase,
                         .recomputable = phase == RP_FORWARD,
                         .inputs = inputs,
                         .outputs = outputs,
                         .inplace = pairs};
    node.name = strtok(NULL, " ");
    node.cost_ns = atoll(strtok(NULL, " "));
    bool behind = false;
    for (const char *word = strtok(NULL, " "); word != NULL; word = strtok(NULL, " ")) {
        RP_REQUIRE(node.input_count < MAX_EDGES && node.output_count < MAX_EDGES &&
                       node.inplace_count < MAX_EDGES,
                   "too much: '%s'", word);
        if (strcmp(word, "->") == 0)
            behind = true;
        else if (word[0] == '!')
            read_flag(r, word + 1, &node, pairs);
        else if (word[0] == '@')
            node.block = word + 1;
        else if (behind)
            outputs[node.output_count++] = read_output(r, word);
        else
            inputs[node.input_count++] = known(r, word, strlen(word));
    }
    RP_REQUIRE_OK(r->context, rp_graph_add_node(r->graph, &node, NULL));
}

static void read_line(reader *r, char *line) {
    const char *kind = strtok(line, " ");
    if (kind == NULL)
        return;
    if (kind[0] == 'f' || kind[0] == 'b') {
        read_node(r, kind[0] == 'f' ? RP_FORWARD : RP_BACKWARD);
    } else if (kind[0] == 'p') {
        const char *name = strtok(NULL, " "), *bytes = strtok(NULL, " ");
        add(r, name, strlen(name), atoll(bytes), RP_PERSISTENT, RP_NONE);
    } else {
        RP_REQUIRE(kind[0] == 'o', "no such line: '%s'", kind);
        for (const char *word = strtok(NULL, " "); word != NULL; word = strtok(NULL, " "))
            r->outputs[r->output_count++] = known(r, word, strlen(word));
    }
}

rp_graph *rp_test_written_graph(rp_context *context, const char *text) {
    reader r = {.context = context};
    char line[512];
    RP_REQUIRE_OK(context, rp_graph_create(context, "written", 1, &r.graph));
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        RP_REQUIRE(length < sizeof line, "a line too long");
        memcpy(line, text, length);
        line[length] = '\0';
        read_line(&r, line);
        text += length + (text[length] == '\n');
    }
    RP_REQUIRE_OK(context, rp_graph_set_outputs(r.graph, r.outputs, r.output_count));
    RP_REQUIRE_OK(context, rp_graph_finish(r.graph));
    return r.graph;
}

uint32_t rp_test_value(const rp_graph *graph, const char *name) {
    for (uint32_t v = 0; v < rp_graph_value_count(graph); v++) {
        rp_value_info info;
        rp_graph_value(graph, v, &info);
        if (strcmp(info.name, name) == 0)
            return v;
    }
    RP_REQUIRE(false, "no value '%s'", name);
    return RP_NONE;
}

uint32_t rp_test_node(const rp_graph *graph, const char *name) {
    for (uint32_t n = 0; n < rp_graph_node_count(graph); n++) {
        rp_node_info info;
        rp_graph_node(graph, n, &info);
        if (strcmp(info.name, name) == 0)
            return n;
    }
    RP_REQUIRE(false, "no node '%s'", name);
    return RP_NONE;
}
