/* Schedules written down in a test. */
#include "steps.h"

#include "unit.h"
#include "written.h"

#include <stdio.h>
#include <string.h>

enum { MAX_TEXT = 4096 };

static const char *const kinds[] = {"run", "drop", "offload", "fetch", "wait"};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

rp_schedule rp_test_steps(const rp_graph *graph, const char *text) {
    rp_schedule schedule = {NULL, 0, 0};
    char copy[MAX_TEXT];
    RP_REQUIRE(strlen(text) < sizeof copy, "the steps are too long");
    strcpy(copy, text);
    char *rest = NULL;
    for (const char *word = strtok_r(copy, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        uint32_t kind = 0;
        while (kind < KINDS && strcmp(kinds[kind], word) != 0)
            kind++;
        RP_REQUIRE(kind < KINDS, "no such step: '%s'", word);
        const char *name = strtok_r(NULL, " ", &rest);
        RP_REQUIRE(name != NULL, "'%s' of what?", word);
        const uint32_t index =
            kind == RP_STEP_RUN ? rp_test_node(graph, name) : rp_test_value(graph, name);
        RP_REQUIRE(rp_schedule_append(graph->context, &schedule, (rp_step_kind)kind, index),
                   "no memory for steps");
    }
    return schedule;
}

void rp_test_steps_text(const rp_step *steps, size_t count, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && used < bytes; i++)
        used +=
            (size_t)snprintf(text + used, bytes - used, "%s %u ",
                             steps[i].kind < KINDS ? kinds[steps[i].kind] : "?", steps[i].index);
}

bool rp_test_may_run_again(const rp_graph *graph, uint32_t node, uint32_t ran) {
    bool may = node < ran && rp_node_may_rerun(graph, node);
    for (uint32_t later = node + 1; later < ran; later++)
        for (size_t o = 0; o < graph->nodes[later].outputs.count; o++)
            for (size_t i = 0; i < graph->nodes[node].inputs.count; i++)
                may = may && rp_node_outputs(graph, later)[o] !=
                                 graph->values[rp_node_inputs(graph, node)[i]].root;
    return may;
}
