/* The n-th allocation fails, for every n, in everything that the planner does. */
#include "fault.h"
#include "graphs.h"

#include <stdio.h>

/* ---- Building -------------------------------------------------------------------------------- */

/* A copy of the graph in `user`, built in `context` value by value and node by node. */
static rp_status copy_graph(rp_context *context, const rp_graph *from, rp_graph **made) {
    rp_status status = rp_graph_create(context, rp_graph_name(from), 64, made);
    for (uint32_t i = 0; status == RP_OK && i < rp_graph_value_count(from); i++) {
        rp_value_info value;
        rp_graph_value(from, i, &value);
        status = rp_graph_add_value(*made, &value, NULL);
    }
    for (uint32_t i = 0; status == RP_OK && i < rp_graph_node_count(from); i++) {
        rp_node_info node;
        rp_graph_node(from, i, &node);
        status = rp_graph_add_node(*made, &node, NULL);
    }
    const uint32_t last = (uint32_t)rp_graph_value_count(from) - 1;
    if (status == RP_OK)
        status = rp_graph_set_outputs(*made, &last, 1);
    return status == RP_OK ? rp_graph_finish(*made) : status;
}

static rp_status build_and_destroy(rp_context *context, void *user) {
    rp_graph *graph = NULL;
    const rp_status status = copy_graph(context, user, &graph);
    rp_graph_destroy(graph);
    return status;
}

static void test_every_allocation_of_a_graph_may_fail(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_random_graph(context, 1, 40, RP_TEST_EVERYTHING & ~RP_TEST_RECOMPUTE);
    rp_fault_sweep("build", build_and_destroy, graph);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* ---- Files ----------------------------------------------------------------------------------- */

typedef struct files {
    const rp_graph *graph;
    char path[RP_TEST_PATH];
} files;

/* A graph is saved and read back, from the file and from memory. */
static rp_status save_and_load(rp_context *context, void *user) {
    const files *f = user;
    rp_graph *copy = NULL, *loaded = NULL;
    rp_status status = copy_graph(context, f->graph, &copy);
    if (status == RP_OK)
        status = rp_graph_save(copy, f->path);
    if (status == RP_OK)
        status = rp_graph_load(context, f->path, &loaded);
    rp_graph_destroy(copy);
    rp_graph_destroy(loaded);
    remove(f->path);
    return status;
}

static void test_every_allocation_of_saving_and_loading_a_graph_may_fail(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_random_graph(context, 2, 30, RP_TEST_EVERYTHING & ~RP_TEST_RECOMPUTE);
    files f = {.graph = graph};
    rp_test_temporary(f.path, "fault.json");
    rp_fault_sweep("graph files", save_and_load, &f);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_every_allocation_of_a_graph_may_fail),
    RP_TEST(test_every_allocation_of_saving_and_loading_a_graph_may_fail),
};
RP_SUITE(fault, tests)
