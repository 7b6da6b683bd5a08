/* How long nodes may run again. */
#include "graph.h"

void rp_graph_find_deadlines(const rp_graph *graph, uint32_t *deadline, uint32_t *next_write) {
    for (size_t v = 0; v < graph->value_count; v++)
        next_write[v] = RP_NONE;
    for (uint32_t n = (uint32_t)graph->node_count; n-- > 0;) {
        deadline[n] = rp_node_may_rerun(graph, n) ? RP_NONE : n;
        const uint32_t *inputs = rp_node_inputs(graph, n);
        for (size_t i = 0; i < graph->nodes[n].inputs.count; i++) {
            const uint32_t root = graph->values[inputs[i]].root;
            if (graph->values[root].persistent && next_write[root] < deadline[n])
                deadline[n] = next_write[root];
        }
        const uint32_t *outputs = rp_node_outputs(graph, n);
        for (size_t i = 0; i < graph->nodes[n].outputs.count; i++)
            if (graph->values[outputs[i]].persistent) /* a view of one writes nothing */
                next_write[outputs[i]] = n;
    }
}
