/* Graphs that the planner's tests share. */
#include "graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t rp_test_random_next(rp_test_random *random) {
    uint64_t z = random->state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

uint32_t rp_test_random_below(rp_test_random *random, uint32_t limit) {
    return (uint32_t)((rp_test_random_next(random) >> 32) * limit >> 32);
}

/* ---- Building by hand ------------------------------------------------------------------------ */

enum { MAX_EDGES = 16 };

/* One node being put together. */
typedef struct draft {
    rp_node_info info;
    char name[64];
    uint32_t inputs[MAX_EDGES], outputs[MAX_EDGES];
    rp_inplace_pair pairs[MAX_EDGES];
} draft;

static rp_graph *new_graph(rp_context *context, const char *name, int64_t alignment) {
    rp_graph *graph = NULL;
    RP_REQUIRE_OK(context, rp_graph_create(context, name, alignment, &graph));
    return graph;
}

static uint32_t add_value(rp_context *context, rp_graph *graph, const char *name, int64_t bytes,
                          rp_value_kind kind, uint32_t alias_of) {
    const rp_value_info info = {name, bytes, kind, alias_of};
    uint32_t index = RP_NONE;
    RP_REQUIRE_OK(context, rp_graph_add_value(graph, &info, &index));
    return index;
}

static void begin_node(draft *node, const char *name, const char *block, rp_phase phase,
                       int64_t cost) {
    memset(node, 0, sizeof *node);
    snprintf(node->name, sizeof node->name, "%s", name);
    node->info.name = node->name;
    node->info.block = block;
    node->info.phase = phase;
    node->info.recomputable = phase == RP_FORWARD;
    node->info.cost_ns = cost;
    node->info.inputs = node->inputs;
    node->info.outputs = node->outputs;
    node->info.inplace = node->pairs;
}

static bool is_among(const uint32_t *list, size_t count, uint32_t value) {
    for (size_t i = 0; i < count; i++)
        if (list[i] == value)
            return true;
    return false;
}

static void reads(draft *node, uint32_t value) {
    if (value != RP_NONE && node->info.input_count < MAX_EDGES &&
        !is_among(node->inputs, node->info.input_count, value))
        node->inputs[node->info.input_count++] = value;
}

static void writes(draft *node, uint32_t value) {
    if (node->info.output_count < MAX_EDGES &&
        !is_among(node->outputs, node->info.output_count, value))
        node->outputs[node->info.output_count++] = value;
}

static void offers(draft *node, uint32_t output, uint32_t input) {
    node->pairs[node->info.inplace_count++] = (rp_inplace_pair){output, input};
}

static void end_node(rp_context *context, rp_graph *graph, const draft *node) {
    RP_REQUIRE_OK(context, rp_graph_add_node(graph, &node->info, NULL));
}

static rp_graph *finish(rp_context *context, rp_graph *graph, const uint32_t *outputs,
                        size_t count) {
    RP_REQUIRE_OK(context, rp_graph_set_outputs(graph, outputs, count));
    RP_REQUIRE_OK(context, rp_graph_finish(graph));
    return graph;
}

/* ---- The chain of convention M --------------------------------------------------------------- */

rp_graph *rp_test_chain(rp_context *context, uint32_t length, int64_t unit, const int64_t *sizes,
                        int64_t cost) {
    rp_graph *graph = new_graph(context, "chain", 1);
    char name[64];
    for (uint32_t i = 0; i <= length; i++) { /* values 0..length: a_i */
        snprintf(name, sizeof name, "a.%u", i);
        add_value(context, graph, name,
                  i == 0  ? 0
                  : sizes ? sizes[i]
                          : unit,
                  i == 0 ? RP_PERSISTENT : RP_ACTIVATION, RP_NONE);
    }
    for (uint32_t i = 0; i <= length; i++) { /* values length + 1 + i: g_i */
        snprintf(name, sizeof name, "g.%u", i);
        add_value(context, graph, name, sizes ? sizes[i] : unit, RP_ACTIVATION, RP_NONE);
    }
    const uint32_t gradients = length + 1;
    draft node;
    for (uint32_t i = 1; i <= length; i++) {
        snprintf(name, sizeof name, "op.%u", i);
        begin_node(&node, name, name, RP_FORWARD, cost);
        reads(&node, i - 1);
        writes(&node, i);
        end_node(context, graph, &node);
    }
    begin_node(&node, "seed", "", RP_BACKWARD, 0);
    reads(&node, length);
    writes(&node, gradients + length);
    end_node(context, graph, &node);
    for (uint32_t i = length; i >= 1; i--) {
        snprintf(name, sizeof name, "op.%u.bwd", i);
        begin_node(&node, name, "", RP_BACKWARD, 2 * cost);
        reads(&node, i);
        reads(&node, gradients + i);
        writes(&node, gradients + i - 1);
        end_node(context, graph, &node);
    }
    return finish(context, graph, &gradients, 1);
}

/* ---- Random graphs --------------------------------------------------------------------------- */

typedef struct maker {
    rp_context *context;
    rp_graph *graph;
    rp_test_random random;
    int features;
    uint32_t values[4096], roots[4096]; /* what may be read, and what it is a view of in the end */
    bool frozen[4096];                  /* its storage is persistent */
    uint32_t count;
    uint32_t parameters[8];
    uint32_t parameter_count, name_count;
} maker;

static bool has(const maker *m, int feature) {
    return (m->features & feature) != 0;
}

static bool chance(maker *m, uint32_t percent) {
    return rp_test_random_below(&m->random, 100) < percent;
}

static int64_t random_bytes(maker *m) {
    static const int64_t scales[] = {1, 10, 100};
    if (chance(m, 5))
        return 0;
    const int64_t scale = scales[rp_test_random_below(&m->random, 3)];
    return scale * (1 + rp_test_random_below(&m->random, 20));
}

static uint32_t make_value(maker *m, int64_t bytes, rp_value_kind kind, uint32_t base) {
    char name[32];
    snprintf(name, sizeof name, "v%u", m->name_count++);
    return add_value(m->context, m->graph, name, bytes, kind, base);
}

/* The place of the value in the lists; most reads are of recent values. */
static uint32_t pick(maker *m) {
    const uint32_t near = m->count < 6 ? m->count : 6;
    return chance(m, 60) ? m->count - 1 - rp_test_random_below(&m->random, near)
                         : rp_test_random_below(&m->random, m->count);
}

static void remember(maker *m, uint32_t value, uint32_t root, bool frozen) {
    if (m->count == sizeof m->values / sizeof m->values[0])
        return;
    m->values[m->count] = value;
    m->roots[m->count] = root;
    m->frozen[m->count++] = frozen;
}

static void add_view(maker *m, draft *node) {
    const uint32_t place = pick(m);
    const uint32_t base = m->values[place];
    reads(node, base);
    const uint32_t view = make_value(m, 0, RP_ACTIVATION, base);
    writes(node, view);
    remember(m, view, m->roots[place], m->frozen[place]);
    if (has(m, RP_TEST_OUTPUTS) && chance(m, 20)) { /* a view of the view from the same node */
        const uint32_t second = make_value(m, 0, RP_ACTIVATION, view);
        writes(node, second);
        remember(m, second, m->roots[place], m->frozen[place]);
    }
}

static void add_outputs(maker *m, draft *node) {
    const uint32_t count = has(m, RP_TEST_OUTPUTS) ? 1 + rp_test_random_below(&m->random, 3) : 1;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t value = make_value(m, random_bytes(m), RP_ACTIVATION, RP_NONE);
        writes(node, value);
        remember(m, value, value, false);
        if (has(m, RP_TEST_INPLACE) && node->info.input_count > 0 && chance(m, 60))
            offers(
                node, value,
                node->inputs[rp_test_random_below(&m->random, (uint32_t)node->info.input_count)]);
    }
}

static void decorate(maker *m, draft *node, bool backward) {
    rp_node_info *info = &node->info;
    if (m->parameter_count > 0 && chance(m, 40))
        reads(node, m->parameters[rp_test_random_below(&m->random, m->parameter_count)]);
    const bool writer = has(m, RP_TEST_PERSISTENT) && m->parameter_count > 0 && chance(m, 8);
    if (writer)
        writes(node, m->parameters[rp_test_random_below(&m->random, m->parameter_count)]);
    if (has(m, RP_TEST_WORKSPACE) && chance(m, 20))
        info->workspace_bytes = random_bytes(m);
    info->recomputable = backward ? chance(m, 15) : !chance(m, 8);
    if (has(m, RP_TEST_KEEP) && chance(m, 10))
        info->mark = RP_MARK_KEEP;
    else if (has(m, RP_TEST_RECOMPUTE) && !backward && info->recomputable && !writer &&
             chance(m, 10))
        info->mark = RP_MARK_RECOMPUTE;
}

static void add_random_node(maker *m, uint32_t index, bool backward) {
    char name[32], block[32] = "";
    snprintf(name, sizeof name, "n%u", index);
    if (has(m, RP_TEST_BLOCKS) && !backward)
        snprintf(block, sizeof block, "b%u", index / 4);
    draft node;
    begin_node(&node, name, block, backward ? RP_BACKWARD : RP_FORWARD,
               chance(m, 10) ? 0 : 1 + rp_test_random_below(&m->random, 1000));
    const uint32_t wanted = rp_test_random_below(&m->random, 4);
    const uint32_t known = m->count;
    for (uint32_t i = 0; i < wanted && known > 0; i++)
        reads(&node, m->values[pick(m)]);
    if (has(m, RP_TEST_VIEWS) && known > 0 && chance(m, 20))
        add_view(m, &node);
    else
        add_outputs(m, &node);
    decorate(m, &node, backward);
    end_node(m->context, m->graph, &node);
}

rp_graph *rp_test_random_graph(rp_context *context, uint64_t seed, uint32_t nodes, int features) {
    static const int64_t alignments[] = {1, 2, 64, 256};
    maker *m = calloc(1, sizeof *m);
    RP_REQUIRE(m != NULL, "no memory for a random graph");
    m->context = context;
    m->random.state = seed;
    m->features = features;
    m->graph =
        new_graph(context, "random",
                  has(m, RP_TEST_ALIGNMENT) ? alignments[rp_test_random_below(&m->random, 4)] : 1);
    m->parameter_count = 1 + rp_test_random_below(&m->random, 3);
    for (uint32_t i = 0; i < m->parameter_count; i++) {
        m->parameters[i] = make_value(m, random_bytes(m), RP_PERSISTENT, RP_NONE);
        remember(m, m->parameters[i], m->parameters[i], true);
    }
    const uint32_t turn = has(m, RP_TEST_BACKWARD) ? nodes / 2 : nodes;
    for (uint32_t i = 0; i < nodes; i++)
        add_random_node(m, i, i >= turn);
    uint32_t outputs[3], output_count = 0;
    for (uint32_t i = rp_test_random_below(&m->random, 4); i-- > 0;) {
        const uint32_t value = m->values[pick(m)];
        if (!is_among(outputs, output_count, value))
            outputs[output_count++] = value;
    }
    rp_graph *graph = m->graph;
    free(m);
    return finish(context, graph, outputs, output_count);
}

/* ---- A transformer --------------------------------------------------------------------------- */

typedef struct layer {
    uint32_t in, ln1, ln1_stat, qkv, p, o, lse, mid, ln2, ln2_stat, fc, gelu;
} layer;

typedef struct gpt {
    rp_context *context;
    rp_graph *graph;
    char block[32];
    rp_phase phase;
    rp_test_shape shape;
    int64_t act, stat,
        square; /* bytes: of one activation, of row statistics; scores of attention */
    draft node;
    int64_t moved; /* bytes of the node's edges */
} gpt;

static uint32_t gpt_value(gpt *g, const char *what, int64_t bytes, rp_value_kind kind) {
    char name[96];
    snprintf(name, sizeof name, "%s.%s", g->block, what);
    return add_value(g->context, g->graph, name, bytes, kind, RP_NONE);
}

/* A parameter and, behind it, its gradient. */
static uint32_t gpt_parameter(gpt *g, const char *what, int64_t count) {
    char name[48];
    const uint32_t parameter = gpt_value(g, what, count * 2, RP_PERSISTENT);
    snprintf(name, sizeof name, "%s.grad", what);
    gpt_value(g, name, count * 2, RP_PERSISTENT);
    return parameter;
}

static void gpt_node(gpt *g, const char *what, int64_t cost) {
    char name[64];
    snprintf(name, sizeof name, "%s.%s%s", g->block, what, g->phase == RP_BACKWARD ? ".bwd" : "");
    begin_node(&g->node, name, g->block, g->phase, cost);
}

static uint32_t gpt_write(gpt *g, const char *what, int64_t bytes) {
    char name[48];
    snprintf(name, sizeof name, "%s%s", g->phase == RP_BACKWARD ? "d." : "", what);
    const uint32_t value = gpt_value(g, name, bytes, RP_ACTIVATION);
    writes(&g->node, value);
    return value;
}

static void gpt_end(gpt *g) {
    end_node(g->context, g->graph, &g->node);
}

static uint32_t gpt_linear(gpt *g, const char *what, uint32_t x, int64_t in, int64_t out,
                           uint32_t parameter) {
    gpt_node(g, what, 2 * in * out * g->shape.rows / 100000);
    reads(&g->node, x);
    reads(&g->node, parameter);
    const uint32_t y = gpt_write(g, what, 2 * g->shape.rows * out);
    gpt_end(g);
    return y;
}

static uint32_t gpt_linear_back(gpt *g, const char *what, uint32_t x, uint32_t dy, int64_t in,
                                int64_t out, uint32_t parameter) {
    gpt_node(g, what, 4 * in * out * g->shape.rows / 100000);
    reads(&g->node, x);
    reads(&g->node, dy);
    reads(&g->node, parameter);
    const uint32_t dx = gpt_write(g, what, 2 * g->shape.rows * in);
    writes(&g->node, parameter + 1);
    gpt_end(g);
    return dx;
}

static uint32_t gpt_norm(gpt *g, const char *what, uint32_t x, uint32_t parameter, uint32_t *stat) {
    char name[48];
    gpt_node(g, what, g->act * 2 / 1000);
    reads(&g->node, x);
    reads(&g->node, parameter);
    const uint32_t y = gpt_write(g, what, g->act);
    snprintf(name, sizeof name, "%s.stat", what);
    *stat = gpt_write(g, name, g->stat);
    gpt_end(g);
    return y;
}

static uint32_t gpt_norm_back(gpt *g, const char *what, uint32_t x, uint32_t stat, uint32_t dy,
                              uint32_t residual, uint32_t parameter) {
    gpt_node(g, what, g->act * 4 / 1000);
    reads(&g->node, x);
    reads(&g->node, stat);
    reads(&g->node, dy);
    reads(&g->node, residual);
    reads(&g->node, parameter);
    const uint32_t dx = gpt_write(g, what, g->act);
    writes(&g->node, parameter + 1);
    offers(&g->node, dx, residual != RP_NONE ? residual : dy);
    gpt_end(g);
    return dx;
}

static uint32_t gpt_add(gpt *g, const char *what, uint32_t x, uint32_t y) {
    gpt_node(g, what, g->act * 3 / 1000);
    reads(&g->node, x);
    reads(&g->node, y);
    const uint32_t sum = gpt_write(g, what, g->act);
    offers(&g->node, sum, y);
    gpt_end(g);
    return sum;
}

static uint32_t gpt_attention(gpt *g, layer *s) {
    const int64_t core = 2 * g->shape.rows * g->shape.sequence * g->shape.width / 100000;
    if (g->shape.unfused) {
        gpt_node(g, "scores", core);
        reads(&g->node, s->qkv);
        const uint32_t scores = gpt_write(g, "scores", 2 * g->square);
        gpt_end(g);
        gpt_node(g, "softmax", 4 * g->square / 1000);
        reads(&g->node, scores);
        s->p = gpt_write(g, "softmax", 2 * g->square);
        offers(&g->node, s->p, scores);
        gpt_end(g);
    }
    gpt_node(g, "attn", 2 * core);
    reads(&g->node, s->qkv);
    reads(&g->node, s->p);
    s->o = gpt_write(g, "o", g->act);
    s->lse = g->shape.unfused ? RP_NONE : gpt_write(g, "lse", 4 * g->shape.rows * g->shape.heads);
    gpt_end(g);
    return s->o;
}

static uint32_t gpt_attention_back(gpt *g, const layer *s, uint32_t d) {
    const int64_t core = 2 * g->shape.rows * g->shape.sequence * g->shape.width / 100000;
    if (!g->shape.unfused) {
        gpt_node(g, "attn", 5 * core);
        reads(&g->node, s->qkv);
        reads(&g->node, s->o);
        reads(&g->node, s->lse);
        reads(&g->node, d);
        const uint32_t dqkv = gpt_write(g, "qkv", 3 * g->act);
        gpt_end(g);
        return dqkv;
    }
    gpt_node(g, "attn", 2 * core);
    reads(&g->node, s->p);
    reads(&g->node, s->qkv);
    reads(&g->node, d);
    const uint32_t dp = gpt_write(g, "p", 2 * g->square);
    const uint32_t dv = gpt_write(g, "v", g->act);
    gpt_end(g);
    gpt_node(g, "softmax", 6 * g->square / 1000);
    reads(&g->node, s->p);
    reads(&g->node, dp);
    const uint32_t ds = gpt_write(g, "scores", 2 * g->square);
    offers(&g->node, ds, dp);
    gpt_end(g);
    gpt_node(g, "scores", 2 * core);
    reads(&g->node, ds);
    reads(&g->node, s->qkv);
    reads(&g->node, dv);
    const uint32_t dqkv = gpt_write(g, "qkv", 3 * g->act);
    gpt_end(g);
    return dqkv;
}

/* The parameters of a layer, their gradients behind each. */
typedef struct weights {
    uint32_t ln1, qkv, proj, ln2, fc, proj2;
} weights;

static void gpt_layer(gpt *g, layer *s, weights *w) {
    const int64_t width = g->shape.width;
    w->ln1 = gpt_parameter(g, "ln1.w", 2 * width);
    w->qkv = gpt_parameter(g, "qkv.w", 3 * width * (width + 1));
    w->proj = gpt_parameter(g, "proj.w", width * (width + 1));
    w->ln2 = gpt_parameter(g, "ln2.w", 2 * width);
    w->fc = gpt_parameter(g, "fc.w", 4 * width * (width + 1));
    w->proj2 = gpt_parameter(g, "proj2.w", 4 * width * width + width);
    s->ln1 = gpt_norm(g, "ln1", s->in, w->ln1, &s->ln1_stat);
    s->qkv = gpt_linear(g, "qkv", s->ln1, width, 3 * width, w->qkv);
    s->p = RP_NONE;
    const uint32_t y = gpt_linear(g, "proj", gpt_attention(g, s), width, width, w->proj);
    s->mid = gpt_add(g, "mid", s->in, y);
    s->ln2 = gpt_norm(g, "ln2", s->mid, w->ln2, &s->ln2_stat);
    s->fc = gpt_linear(g, "fc", s->ln2, width, 4 * width, w->fc);
    gpt_node(g, "gelu", 8 * g->act / 1000);
    reads(&g->node, s->fc);
    s->gelu = gpt_write(g, "gelu", 4 * g->act);
    gpt_end(g);
}

static uint32_t gpt_layer_back(gpt *g, const layer *s, const weights *w, uint32_t d) {
    const int64_t width = g->shape.width;
    uint32_t t = gpt_linear_back(g, "gelu", s->gelu, d, 4 * width, width, w->proj2);
    gpt_node(g, "act", 12 * g->act / 1000);
    reads(&g->node, s->fc);
    reads(&g->node, t);
    const uint32_t dfc = gpt_write(g, "fc", 4 * g->act);
    offers(&g->node, dfc, t);
    gpt_end(g);
    t = gpt_linear_back(g, "ln2", s->ln2, dfc, width, 4 * width, w->fc);
    d = gpt_norm_back(g, "mid", s->mid, s->ln2_stat, t, d, w->ln2);
    t = gpt_linear_back(g, "o", s->o, d, width, width, w->proj);
    t = gpt_attention_back(g, s, t);
    t = gpt_linear_back(g, "ln1", s->ln1, t, width, 3 * width, w->qkv);
    return gpt_norm_back(g, "in", s->in, s->ln1_stat, t, d, w->ln1);
}

/* From the last layer's output to its gradient. Returns the loss. */
static uint32_t gpt_head(gpt *g, uint32_t x, uint32_t targets, uint32_t table, uint32_t *d) {
    uint32_t stat = RP_NONE;
    snprintf(g->block, sizeof g->block, "head");
    const uint32_t norm = gpt_parameter(g, "lnf.w", 2 * g->shape.width);
    const uint32_t f = gpt_norm(g, "lnf", x, norm, &stat);
    const uint32_t logits = gpt_linear(g, "logits", f, g->shape.width, g->shape.vocabulary, table);
    gpt_node(g, "loss", 2 * g->shape.rows * g->shape.vocabulary / 1000);
    reads(&g->node, logits);
    reads(&g->node, targets);
    const uint32_t loss = gpt_write(g, "loss", 4);
    const uint32_t row = gpt_write(g, "loss.stat", 4 * g->shape.rows);
    gpt_end(g);
    g->phase = RP_BACKWARD;
    gpt_node(g, "loss", 4 * g->shape.rows * g->shape.vocabulary / 1000);
    reads(&g->node, logits);
    reads(&g->node, targets);
    reads(&g->node, row);
    const uint32_t dlogits = gpt_write(g, "logits", 2 * g->shape.rows * g->shape.vocabulary);
    offers(&g->node, dlogits, logits);
    gpt_end(g);
    *d = gpt_linear_back(g, "lnf", f, dlogits, g->shape.width, g->shape.vocabulary, table);
    *d = gpt_norm_back(g, "x", x, stat, *d, RP_NONE, norm);
    return loss;
}

rp_graph *rp_test_transformer_of(rp_context *context, const rp_test_shape *shape) {
    const uint32_t layers = shape->layers;
    gpt g = {.context = context,
             .graph = new_graph(context, "transformer", 1),
             .shape = *shape,
             .act = 2 * shape->rows * shape->width,
             .stat = 8 * shape->rows,
             .square = shape->rows * shape->heads * shape->sequence};
    layer *kept = calloc(layers + 1, sizeof *kept);
    weights *w = calloc(layers + 1, sizeof *w);
    RP_REQUIRE(kept != NULL && w != NULL, "no memory for a transformer");
    snprintf(g.block, sizeof g.block, "embed");
    const uint32_t tokens = gpt_value(&g, "tokens", 4 * g.shape.rows, RP_PERSISTENT);
    const uint32_t targets = gpt_value(&g, "targets", 4 * g.shape.rows, RP_PERSISTENT);
    const uint32_t table = gpt_parameter(&g, "wte", g.shape.vocabulary * g.shape.width);
    gpt_node(&g, "embed", g.act / 1000);
    reads(&g.node, tokens);
    reads(&g.node, table);
    uint32_t x = gpt_write(&g, "embed", g.act);
    gpt_end(&g);
    for (uint32_t i = 0; i < layers; i++) {
        snprintf(g.block, sizeof g.block, "h.%u", i);
        kept[i].in = x;
        gpt_layer(&g, &kept[i], &w[i]);
        const uint32_t z =
            gpt_linear(&g, "proj2", kept[i].gelu, 4 * g.shape.width, g.shape.width, w[i].proj2);
        x = gpt_add(&g, "out", kept[i].mid, z);
    }
    uint32_t d = RP_NONE;
    const uint32_t loss = gpt_head(&g, x, targets, table, &d);
    for (uint32_t i = layers; i-- > 0;) {
        snprintf(g.block, sizeof g.block, "h.%u", i);
        d = gpt_layer_back(&g, &kept[i], &w[i], d);
    }
    free(kept);
    free(w);
    snprintf(g.block, sizeof g.block, "embed");
    gpt_node(&g, "embed", g.act / 1000);
    reads(&g.node, tokens);
    reads(&g.node, d);
    writes(&g.node, table + 1);
    gpt_end(&g);
    return finish(context, g.graph, &loss, 1);
}

rp_graph *rp_test_transformer(rp_context *context, uint32_t layers, bool unfused) {
    const rp_test_shape shape = {layers, 512, 64, 4, 1024, 128, unfused};
    return rp_test_transformer_of(context, &shape);
}

/* ---- An encoder and decoder with skips ------------------------------------------------------- */

enum { MAX_DEPTH = 32 };

/* A level's op: one or two inputs, one output, and a backward that reads the inputs. */
typedef struct step {
    uint32_t a, b, y;
} step;

static step unet_forward(rp_context *context, rp_graph *graph, uint32_t level, bool up, uint32_t a,
                         uint32_t b) {
    char name[32];
    draft node;
    snprintf(name, sizeof name, "%s.%u", up ? "up" : "down", level);
    begin_node(&node, name, name, RP_FORWARD, 100 << (level < 10 ? level : 10));
    reads(&node, a);
    reads(&node, b);
    const uint32_t y =
        add_value(context, graph, name, 65536 >> (level < 12 ? level : 12), RP_ACTIVATION, RP_NONE);
    writes(&node, y);
    end_node(context, graph, &node);
    return (step){a, b, y};
}

static uint32_t unet_gradient(rp_context *context, rp_graph *graph, draft *node, uint32_t of,
                              uint32_t level) {
    char name[32];
    snprintf(name, sizeof name, "d.%u.%u", of, level);
    const uint32_t value =
        add_value(context, graph, name, 65536 >> (level < 12 ? level : 12), RP_ACTIVATION, RP_NONE);
    writes(node, value);
    return value;
}

rp_graph *rp_test_unet(rp_context *context, uint32_t depth) {
    RP_REQUIRE(depth >= 1 && depth < MAX_DEPTH, "depth %u", depth);
    rp_graph *graph = new_graph(context, "unet", 1);
    step down[MAX_DEPTH], up[MAX_DEPTH];
    uint32_t skipped[MAX_DEPTH];
    draft node;
    uint32_t x = add_value(context, graph, "input", 65536, RP_PERSISTENT, RP_NONE);
    for (uint32_t i = 0; i < depth; i++) {
        down[i] = unet_forward(context, graph, i, false, x, RP_NONE);
        x = down[i].y;
    }
    for (uint32_t i = depth - 1; i-- > 0;) {
        up[i] = unet_forward(context, graph, i, true, x, down[i].y);
        x = up[i].y;
    }
    begin_node(&node, "seed", "", RP_BACKWARD, 1);
    reads(&node, x);
    uint32_t d = unet_gradient(context, graph, &node, x, 0);
    end_node(context, graph, &node);
    for (uint32_t i = 0; i + 1 < depth; i++) {
        begin_node(&node, "up.bwd", "", RP_BACKWARD, 200);
        reads(&node, d);
        reads(&node, up[i].a);
        reads(&node, up[i].b);
        d = unet_gradient(context, graph, &node, up[i].a, i + 1);
        skipped[i] = unet_gradient(context, graph, &node, up[i].b, i);
        end_node(context, graph, &node);
    }
    for (uint32_t i = depth; i-- > 0;) {
        begin_node(&node, "down.bwd", "", RP_BACKWARD, 200);
        reads(&node, d);
        reads(&node, i + 1 < depth ? skipped[i] : RP_NONE);
        reads(&node, down[i].a);
        d = unet_gradient(context, graph, &node, down[i].y, i > 0 ? i - 1 : 0);
        end_node(context, graph, &node);
    }
    return finish(context, graph, &d, 1);
}
