/* Chains after Griewank, uneven chains, layered graphs, U-Nets. */
#include "models.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_READS = 8 };

static rp_graph *begin(rp_context *context, const char *name) {
    rp_graph *graph = NULL;
    RP_REQUIRE_OK(context, rp_graph_create(context, name, 1, &graph));
    return graph;
}

static uint32_t value(rp_context *context, rp_graph *graph, const char *letter, uint32_t number,
                      int64_t bytes, rp_value_kind kind) {
    char name[32];
    uint32_t index = RP_NONE;
    snprintf(name, sizeof name, "%s%u", letter, number);
    const rp_value_info info = {name, bytes, kind, RP_NONE};
    RP_REQUIRE_OK(context, rp_graph_add_value(graph, &info, &index));
    return index;
}

static void node(rp_context *context, rp_graph *graph, const char *letter, uint32_t number,
                 rp_node_info info) {
    char name[32];
    snprintf(name, sizeof name, "%s%u", letter, number);
    info.name = name;
    info.block = "";
    info.recomputable = info.phase == RP_FORWARD;
    RP_REQUIRE_OK(context, rp_graph_add_node(graph, &info, NULL));
}

static rp_graph *end(rp_context *context, rp_graph *graph, const uint32_t *outputs, size_t count) {
    RP_REQUIRE_OK(context, rp_graph_set_outputs(graph, outputs, count));
    RP_REQUIRE_OK(context, rp_graph_finish(graph));
    return graph;
}

/* ---- Griewank's chain ------------------------------------------------------------------------ */

rp_graph *rp_test_griewank(rp_context *context, uint32_t length) {
    rp_graph *graph = begin(context, "griewank");
    for (uint32_t i = 0; i < length; i++)
        value(context, graph, "x", i, 1, i == 0 ? RP_PERSISTENT : RP_ACTIVATION);
    for (uint32_t i = 0; i <= length; i++)
        value(context, graph, "g", i, 0, RP_ACTIVATION);
    for (uint32_t i = 1; i < length; i++) {
        const uint32_t from = i - 1;
        const rp_inplace_pair pair = {i, from};
        node(context, graph, "f", i,
             (rp_node_info){.phase = RP_FORWARD,
                            .cost_ns = 1,
                            .inputs = &from,
                            .input_count = 1,
                            .outputs = &i,
                            .output_count = 1,
                            .inplace = &pair,
                            .inplace_count = i > 1});
    }
    uint32_t gradient = 2 * length;
    node(context, graph, "loss", 0,
         (rp_node_info){.phase = RP_BACKWARD, .outputs = &gradient, .output_count = 1});
    for (uint32_t i = length; i >= 1; i--) {
        const uint32_t reads[] = {i - 1, length + i}, writes = length + i - 1;
        node(context, graph, "b", i,
             (rp_node_info){.phase = RP_BACKWARD,
                            .cost_ns = 1,
                            .inputs = reads,
                            .input_count = 2,
                            .outputs = &writes,
                            .output_count = 1});
    }
    return end(context, graph, &length, 1);
}

int64_t rp_test_griewank_optimum(uint32_t length, uint32_t snapshots) {
    int64_t repeats = 0, reach = 1, before = 0; /* C(s + r, r) and C(s + r, r - 1) */
    while (reach < length) {
        repeats++;
        before = repeats > 1 ? reach * (snapshots + repeats) / (snapshots + 1) : 1;
        reach = reach * (snapshots + repeats) / repeats;
    }
    return repeats > 0 ? repeats * length - before - (length - 1) : 0;
}

/* ---- Chains ---------------------------------------------------------------------------------- */

rp_graph *rp_test_uneven_chain(rp_context *context, uint64_t seed, uint32_t length) {
    rp_graph *graph = begin(context, "uneven");
    rp_test_random random = {seed};
    for (uint32_t i = 0; i <= length; i++)
        value(context, graph, "a", i, (int64_t)1 << (10 + rp_test_random_below(&random, 7)),
              i == 0 ? RP_PERSISTENT : RP_ACTIVATION);
    for (uint32_t i = 0; i <= length; i++) {
        rp_value_info of;
        char name[32];
        rp_graph_value(graph, i, &of);
        snprintf(name, sizeof name, "g%u", i);
        const rp_value_info info = {name, of.bytes, RP_ACTIVATION, RP_NONE};
        RP_REQUIRE_OK(context, rp_graph_add_value(graph, &info, NULL));
    }
    int64_t *costs = calloc(length + 1, sizeof *costs);
    RP_REQUIRE(costs != NULL, "no memory for a chain");
    for (uint32_t i = 1; i <= length; i++) {
        const uint32_t from = i - 1;
        costs[i] = 1 + rp_test_random_below(&random, 1000);
        node(context, graph, "f", i,
             (rp_node_info){.phase = RP_FORWARD,
                            .cost_ns = costs[i],
                            .inputs = &from,
                            .input_count = 1,
                            .outputs = &i,
                            .output_count = 1});
    }
    uint32_t gradient = 2 * length + 1;
    node(context, graph, "loss", 0,
         (rp_node_info){.phase = RP_BACKWARD,
                        .inputs = &length,
                        .input_count = 1,
                        .outputs = &gradient,
                        .output_count = 1});
    for (uint32_t i = length; i >= 1; i--) {
        const uint32_t reads[] = {i - 1, i, length + 1 + i}, writes = length + i;
        node(context, graph, "b", i,
             (rp_node_info){.phase = RP_BACKWARD,
                            .cost_ns = 2 * costs[i],
                            .inputs = reads,
                            .input_count = 3,
                            .outputs = &writes,
                            .output_count = 1});
    }
    free(costs);
    gradient = length + 1;
    return end(context, graph, &gradient, 1);
}

/* ---- Layers at random ------------------------------------------------------------------------ */

typedef struct layered {
    rp_context *context;
    rp_graph *graph;
    rp_test_random random;
    uint32_t count;                /* of forward nodes; value i + 1 is what node i writes */
    uint32_t (*reads)[MOST_READS]; /* of forward nodes */
    uint32_t *read_count;
    int64_t *costs, *bytes;
} layered;

static void add_forward(layered *l, uint32_t i, uint32_t layer_begin, uint32_t before) {
    uint32_t *reads = l->reads[i], *count = &l->read_count[i];
    const uint32_t wanted = 1 + rp_test_random_below(&l->random, 3);
    for (uint32_t k = 0; k < wanted && layer_begin > 0; k++) {
        /* mostly the last layer, sometimes the one before it */
        const uint32_t first = rp_test_random_below(&l->random, 5) > 0 ? before : before / 2;
        const uint32_t from = first + rp_test_random_below(&l->random, layer_begin - first) + 1;
        bool known = false;
        for (uint32_t j = 0; j < *count; j++)
            known = known || reads[j] == from;
        if (!known)
            reads[(*count)++] = from;
    }
    if (layer_begin == 0)
        reads[(*count)++] = 0;
    const uint32_t made = value(l->context, l->graph, "v", i, l->bytes[i], RP_ACTIVATION);
    node(l->context, l->graph, "n", i,
         (rp_node_info){.phase = RP_FORWARD,
                        .cost_ns = l->costs[i],
                        .inputs = reads,
                        .input_count = *count,
                        .outputs = &made,
                        .output_count = 1});
}

/* The gradient that the node writes is value count + 1 + i. */
static void add_backward(layered *l, uint32_t i) {
    uint32_t reads[MOST_READS + 2], count = 0;
    for (uint32_t k = 0; k < l->read_count[i]; k++)
        reads[count++] = l->reads[i][k];
    reads[count++] = i + 1;
    if (i + 1 < l->count)
        reads[count++] = l->count + 1 + i + 1; /* what backward has come to so far */
    const uint32_t made = l->count + 1 + i;
    node(l->context, l->graph, "d", i,
         (rp_node_info){.phase = RP_BACKWARD,
                        .cost_ns = 2 * l->costs[i],
                        .inputs = reads,
                        .input_count = count,
                        .outputs = &made,
                        .output_count = 1});
}

rp_graph *rp_test_layered(rp_context *context, uint64_t seed, uint32_t nodes, bool backward) {
    const uint32_t count = backward ? (nodes + 1) / 2 : nodes;
    layered l = {context, begin(context, "layered"), {seed}, count, NULL, NULL, NULL, NULL};
    uint32_t outputs[8] = {0}, layer_begin = 0, before = 0, left = 0, width = 0;
    l.reads = calloc(count, sizeof *l.reads);
    l.read_count = calloc(count, sizeof *l.read_count);
    l.costs = calloc(count, sizeof *l.costs);
    l.bytes = calloc(count, sizeof *l.bytes);
    RP_REQUIRE(count > 0 && l.reads != NULL && l.read_count != NULL && l.costs != NULL &&
                   l.bytes != NULL,
               "no memory for %u nodes", nodes);
    value(context, l.graph, "in", 0, 1000, RP_PERSISTENT);
    for (uint32_t i = 0; i < count; i++) {
        l.costs[i] = 1 + rp_test_random_below(&l.random, 1000);
        l.bytes[i] = 100 * (1 + rp_test_random_below(&l.random, 50));
    }
    for (uint32_t i = 0; i < count; i++, left--) {
        if (left == 0) {
            before = layer_begin;
            layer_begin = i;
            width = left = 2 + rp_test_random_below(&l.random, 7);
        }
        add_forward(&l, i, layer_begin, before);
    }
    for (uint32_t i = 0; i < count && backward; i++)
        value(context, l.graph, "g", i, l.bytes[i], RP_ACTIVATION);
    for (uint32_t i = count; i-- > 0 && backward;)
        add_backward(&l, i);
    width = width - left; /* of the last layer, which may be cut short */
    for (uint32_t i = 0; i < width; i++)
        outputs[i] = backward ? count + 1 : count - width + 1 + i;
    free(l.reads);
    free(l.read_count);
    free(l.costs);
    free(l.bytes);
    return end(context, l.graph, outputs, backward ? 1 : width);
}

/* ---- A U-Net --------------------------------------------------------------------------------- */

enum { MOST_DEPTH = 16, ROUNDS = 2, TOP_BYTES = 1 << 20 };

/* One round of a level: convolution of one or two values, norm, activation. */
typedef struct round_of {
    uint32_t inputs[2], conv, normed, active;
    uint32_t input_count, level;
} round_of;

typedef struct unet {
    rp_context *context;
    rp_graph *graph;
    uint32_t numbers; /* of names */
    uint32_t weights;
    round_of rounds[4 * MOST_DEPTH];
    uint32_t count;
    uint32_t gradients[8 * MOST_DEPTH * ROUNDS]; /* of each value, RP_NONE: none yet */
} unet;

static int64_t level_bytes(uint32_t level) {
    return TOP_BYTES >> level;
}

static uint32_t unet_node(unet *u, rp_phase phase, const char *what, int64_t cost,
                          const uint32_t *inputs, size_t input_count, int64_t bytes,
                          bool in_place) {
    const uint32_t made = value(u->context, u->graph, "v", u->numbers, bytes, RP_ACTIVATION);
    const rp_inplace_pair pair = {made, inputs[0]};
    node(u->context, u->graph, what, u->numbers++,
         (rp_node_info){.phase = phase,
                        .cost_ns = cost,
                        .inputs = inputs,
                        .input_count = input_count,
                        .outputs = &made,
                        .output_count = 1,
                        .inplace = &pair,
                        .inplace_count = in_place});
    return made;
}

/* Convolutions cost the same at every level: half the pixels each way, twice the channels. */
static uint32_t unet_round(unet *u, uint32_t level, const uint32_t *inputs, uint32_t count) {
    const int64_t bytes = level_bytes(level), cheap = bytes / 4096;
    round_of *r = &u->rounds[u->count++];
    *r = (round_of){.input_count = count, .level = level};
    uint32_t reads[3] = {u->weights};
    for (uint32_t i = 0; i < count; i++)
        r->inputs[i] = reads[i + 1] = inputs[i];
    r->conv = unet_node(u, RP_FORWARD, "conv", 4000 * count, reads, count + 1, bytes, false);
    r->normed = unet_node(u, RP_FORWARD, "norm", 2 * cheap, &r->conv, 1, bytes, false);
    r->active = unet_node(u, RP_FORWARD, "relu", cheap, &r->normed, 1, bytes, true);
    return r->active;
}

/* Adds a contribution to the gradient of `of`, in the place of what was there. */
static void unet_add(unet *u, uint32_t of, uint32_t gradient, int64_t bytes) {
    uint32_t *known = &u->gradients[of];
    if (*known != RP_NONE) {
        const uint32_t both[] = {*known, gradient};
        gradient = unet_node(u, RP_BACKWARD, "add", bytes / 4096, both, 2, bytes, true);
    }
    *known = gradient;
}

static void unet_back(unet *u, const round_of *r) {
    const int64_t bytes = level_bytes(r->level), cheap = bytes / 4096;
    const uint32_t of_relu[] = {u->gradients[r->active], r->active};
    uint32_t d = unet_node(u, RP_BACKWARD, "relu.bwd", cheap, of_relu, 2, bytes, true);
    const uint32_t of_norm[] = {d, r->conv};
    d = unet_node(u, RP_BACKWARD, "norm.bwd", 3 * cheap, of_norm, 2, bytes, true);
    for (uint32_t i = 0; i < r->input_count; i++) {
        rp_value_info input;
        rp_graph_value(u->graph, r->inputs[i], &input);
        const uint32_t of_conv[] = {d, r->inputs[i], u->weights};
        const uint32_t made =
            unet_node(u, RP_BACKWARD, "conv.bwd", 8000, of_conv, 3, input.bytes, false);
        unet_add(u, r->inputs[i], made, input.bytes);
    }
}

rp_graph *rp_test_conv_unet(rp_context *context, uint32_t depth) {
    RP_REQUIRE(depth >= 1 && depth < MOST_DEPTH, "depth %u", depth);
    unet *u = calloc(1, sizeof *u);
    RP_REQUIRE(u != NULL, "no memory for a U-Net");
    u->context = context;
    u->graph = begin(context, "unet");
    memset(u->gradients, 0xff, sizeof u->gradients);
    u->weights = value(context, u->graph, "w", 0, TOP_BYTES / 4, RP_PERSISTENT);
    uint32_t x = value(context, u->graph, "x", 0, TOP_BYTES / 8, RP_PERSISTENT);
    uint32_t gave[MOST_DEPTH];
    for (uint32_t level = 0; level < depth; level++) {
        for (int i = 0; i < ROUNDS; i++)
            x = unet_round(u, level, &x, 1);
        gave[level] = x;
    }
    for (uint32_t level = depth - 1; level-- > 0;) {
        const uint32_t joined[] = {x, gave[level]};
        x = unet_round(u, level, joined, 2);
        for (int i = 1; i < ROUNDS; i++)
            x = unet_round(u, level, &x, 1);
    }
    u->gradients[x] = unet_node(u, RP_BACKWARD, "loss.bwd", 100, &x, 1, TOP_BYTES, false);
    for (uint32_t i = u->count; i-- > 0;)
        unet_back(u, &u->rounds[i]);
    const uint32_t last = u->gradients[1]; /* of the input */
    rp_graph *graph = u->graph;
    free(u);
    return end(context, graph, &last, 1);
}
