/* auto: what all strategies by rule propose, and a search op by op that goes on from there. */
#include "anneal.h"
#include "exact.h"
#include "frontier.h"
#include "lists.h"
#include "memo.h"

/* Effort: schedules of uniform:N and block:N tried x nodes. With more than that N is thinned out,
 * and a strategy alone may have a smaller peak than this finds. */
enum { EFFORT = 400000, MIN_TRIED = 3 };

/* What is listed has bounds of its own; on graphs with more nodes than that the search pays for it
 * all the same, because there time is short. */
enum { FREE_NODES = 4000 };

/* Graphs that are annealed; runs looked at for that: nodes x nodes x this, at most. */
enum { LEAST_ANNEALED = 13, MOST_ANNEALED = 400, ANNEALING = 1600, MOST_ANNEALING = 100000000 };

/* States of the exact search, where a graph is small enough for one: for one budget, for all. */
enum { MOST_STATES = 10000, ALL_STATES = 50000 };

static rp_status expand(void *user, const rp_drops *drops) {
    bool within = false;
    return rp_search_expand(user, drops, RP_NO_LIMITS, &within);
}

/* A strategy that does not apply is none of auto's concern. */
static rp_status list(rp_search *search, rp_list list, rp_drops *drops) {
    const rp_status status = list(&search->x, 0, drops, (rp_sink){expand, search});
    return status == RP_NOT_APPLICABLE ? RP_OK : status;
}

/* The strategies that list their families whole. */
static const rp_list families[] = {rp_sqrt_list, rp_sqrt_recursive_list, rp_revolve_list,
                                   rp_chain_dp_list, rp_selective_list};

/* Those of blocks, where the graph has blocks that are labelled or that repeat. */
static const rp_block_list of_blocks[] = {rp_uniform_list, rp_first_list, rp_nested_list};

static rp_status list_blocks(rp_search *search, const rp_blocks *blocks, rp_drops *drops) {
    const size_t affordable = EFFORT / (search->graph->node_count + 1);
    const uint32_t tried = (uint32_t)(affordable < MIN_TRIED ? MIN_TRIED : affordable);
    rp_status status = RP_OK;
    for (uint32_t i = 1; i <= tried && i <= blocks->count; i++) {
        const uint32_t n =
            tried >= blocks->count ? i : (uint32_t)((uint64_t)blocks->count * i / tried);
        for (size_t k = 0; k < sizeof of_blocks / sizeof of_blocks[0] && status == RP_OK; k++)
            status = of_blocks[k](&search->x, blocks, n, drops, (rp_sink){expand, search});
    }
    return status;
}

static rp_status list_all(rp_search *search, rp_drops *drops) {
    rp_blocks blocks;
    rp_status status = rp_blocks_create(search->graph, &blocks);
    if (status != RP_OK)
        return status;
    status = list_blocks(search, &blocks, drops);
    rp_blocks_clear(search->graph->context, &blocks);
    for (size_t i = 0; i < sizeof families / sizeof families[0] && status == RP_OK; i++)
        status = list(search, families[i], drops);
    return status;
}

/* On small graphs, where the family is far from the bound. */
static rp_status anneal(const rp_search *search, rp_candidates *set) {
    const rp_graph *graph = search->graph;
    const int64_t nodes = (int64_t)graph->node_count, wanted = nodes * nodes * ANNEALING;
    const rp_bound *bound = NULL;
    if (nodes < LEAST_ANNEALED || nodes > MOST_ANNEALED)
        return RP_OK;
    const rp_status status = rp_memo_bound(graph, &bound);
    if (status != RP_OK)
        return status;
    return rp_anneal(&search->x, bound, wanted < MOST_ANNEALING ? wanted : MOST_ANNEALING, 1, set);
}

rp_status rp_propose_auto(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    (void)argument;
    rp_search search;
    rp_drops drops = {0};
    const int64_t effort = rp_frontier_effort(graph);
    rp_status status = rp_search_create(graph, set, effort, &search);
    if (status != RP_OK) /* a mark that cannot be honoured */
        return status;
    status = rp_frontier_begin(&search);
    if (status == RP_OK)
        status = rp_drops_create(&search.x, &drops);
    if (status == RP_OK)
        status = list_all(&search, &drops);
    if (graph->node_count <= FREE_NODES)
        search.effort = effort;
    if (status == RP_OK)
        status = rp_frontier_explore(&search);
    if (status == RP_OK)
        status = anneal(&search, set);
    if (status == RP_OK)
        status = rp_exact_improve(graph, 0, MOST_STATES, ALL_STATES, set);
    rp_drops_clear(graph->context, &drops);
    rp_search_clear(&search);
    return status;
}
