/* Dinic's algorithm: augment along all shortest paths at once, until none is left. No recursion:
 * the path is a list. */
#include "mincut.h"

/* Each augments along paths that are longer than those of the phase before: 50 are many, but a
 * thousand sums in a row would take a thousand. */
enum { MOST_PHASES = 256 };

rp_status rp_network_create(rp_context *context, uint32_t vertex_count, uint32_t source,
                            uint32_t sink, rp_network *network) {
    *network = (rp_network){
        .context = context,
        .source = source,
        .sink = sink,
        .vertex_count = vertex_count,
        .first = rp_alloc(context, (size_t)vertex_count + 1, sizeof *network->first),
        .level = rp_alloc(context, vertex_count, sizeof *network->level),
        .next = rp_alloc(context, vertex_count, sizeof *network->next),
        .queue = rp_alloc(context, vertex_count, sizeof *network->queue),
        .path = rp_alloc(context, vertex_count, sizeof *network->path),
    };
    if (network->first && network->level && network->next && network->queue && network->path)
        return RP_OK;
    rp_network_clear(network);
    return rp_fail_memory(context, "a network");
}

void rp_network_clear(rp_network *network) {
    if (network->context == NULL)
        return;
    rp_free(network->context, network->edges);
    rp_free(network->context, network->first);
    rp_free(network->context, network->order);
    rp_free(network->context, network->level);
    rp_free(network->context, network->next);
    rp_free(network->context, network->queue);
    rp_free(network->context, network->path);
    *network = (rp_network){0};
}

bool rp_network_add(rp_network *network, uint32_t from, uint32_t to, int64_t capacity,
                    uint32_t *edge) {
    if (network->edge_count > UINT32_MAX - 2 ||
        !rp_reserve(network->context, &network->edges, &network->edge_capacity,
                    network->edge_count + 2, sizeof *network->edges))
        return false;
    if (edge != NULL)
        *edge = (uint32_t)network->edge_count;
    network->edges[network->edge_count++] = (struct rp_network_edge){from, to, capacity, 0};
    network->edges[network->edge_count++] = (struct rp_network_edge){to, from, 0, 0};
    network->indexed = false;
    return true;
}

void rp_network_set(rp_network *network, uint32_t edge, int64_t capacity) {
    network->edges[edge].capacity = capacity;
}

/* Sorts the edges by their beginning, keeping their order. */
static bool index_edges(rp_network *network) {
    if (network->indexed)
        return true;
    uint32_t *order =
        rp_resize(network->context, network->order, network->edge_count, sizeof *network->order);
    if (order == NULL)
        return false;
    network->order = order;
    for (uint32_t v = 0; v <= network->vertex_count; v++)
        network->first[v] = 0;
    for (size_t e = 0; e < network->edge_count; e++)
        network->first[network->edges[e].from + 1]++;
    for (uint32_t v = 0; v < network->vertex_count; v++) {
        network->first[v + 1] += network->first[v];
        network->next[v] = network->first[v];
    }
    for (uint32_t e = 0; e < network->edge_count; e++)
        order[network->next[network->edges[e].from]++] = e;
    network->indexed = true;
    return true;
}

/* Distances from the source over edges with room. False: the sink is out of reach. */
static bool find_levels(rp_network *network) {
    for (uint32_t v = 0; v < network->vertex_count; v++)
        network->level[v] = UINT32_MAX;
    size_t head = 0, tail = 0;
    network->level[network->source] = 0;
    network->queue[tail++] = network->source;
    while (head < tail) {
        const uint32_t v = network->queue[head++];
        for (uint32_t i = network->first[v]; i < network->first[v + 1]; i++) {
            const struct rp_network_edge *edge = &network->edges[network->order[i]];
            if (edge->room == 0 || network->level[edge->to] != UINT32_MAX)
                continue;
            network->level[edge->to] = network->level[v] + 1;
            network->queue[tail++] = edge->to;
        }
    }
    return network->level[network->sink] != UINT32_MAX;
}

/* Sends as much as fits along the path found; returns it, and how long the path is up to the first
 * edge that is full now. */
static int64_t augment(rp_network *network, uint32_t *length) {
    int64_t flow = INT64_MAX;
    for (uint32_t i = 0; i < *length; i++)
        if (network->edges[network->path[i]].room < flow)
            flow = network->edges[network->path[i]].room;
    uint32_t full = *length;
    for (uint32_t i = *length; i-- > 0;) {
        network->edges[network->path[i]].room -= flow;
        network->edges[network->path[i] ^ 1].room += flow;
        if (network->edges[network->path[i]].room == 0)
            full = i;
    }
    *length = full;
    return flow;
}

/* All augmenting paths along the levels. Stops once the value shows that no finite cut exists. */
static int64_t block_flow(rp_network *network, int64_t value) {
    uint32_t length = 0, v = network->source;
    for (uint32_t u = 0; u < network->vertex_count; u++)
        network->next[u] = network->first[u];
    while (value < RP_CUT_NEVER) {
        if (v == network->sink) {
            value += augment(network, &length);
            v = network->edges[network->path[length]].from;
            continue;
        }
        uint32_t *next = &network->next[v];
        for (; *next < network->first[v + 1]; (*next)++) {
            const struct rp_network_edge *edge = &network->edges[network->order[*next]];
            if (edge->room > 0 && network->level[edge->to] == network->level[v] + 1)
                break;
        }
        if (*next < network->first[v + 1]) {
            network->path[length++] = network->order[*next];
            v = network->edges[network->order[*next]].to;
        } else if (length > 0) { /* a dead end: never come back */
            network->level[v] = UINT32_MAX - 1;
            v = network->edges[network->path[--length]].from;
        } else {
            break;
        }
    }
    return value;
}

rp_status rp_network_solve(rp_network *network, int64_t *value, bool *is_cut) {
    if (!index_edges(network))
        return rp_fail_memory(network->context, "a network");
    for (size_t e = 0; e < network->edge_count; e++)
        network->edges[e].room = network->edges[e].capacity;
    *value = 0;
    *is_cut = false;
    for (int phase = 0; phase < MOST_PHASES && !*is_cut; phase++) {
        if (*value < RP_CUT_NEVER && find_levels(network))
            *value = block_flow(network, *value);
        else
            *is_cut = true;
    }
    return RP_OK;
}
