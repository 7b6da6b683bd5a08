/* The decisions that the strategies by rule propose: each goes through its sets of drops and hands
 * them to a sink. The strategies alone offer what comes; auto also searches on from there. */
#ifndef REPRISE_PLANNER_LISTS_H
#define REPRISE_PLANNER_LISTS_H

#include "expand.h"
#include "segments.h"
#include "strategy.h"

typedef struct rp_sink {
    rp_status (*take)(void *user, const rp_drops *drops);
    void *user;
} rp_sink;

/* `drops` is scratch. RP_NOT_APPLICABLE says what the strategy needs and the graph lacks. */
typedef rp_status (*rp_list)(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                             rp_sink sink);

rp_status rp_sqrt_list(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                       rp_sink sink);
rp_status rp_sqrt_recursive_list(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                                 rp_sink sink);
rp_status rp_revolve_list(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                          rp_sink sink);
rp_status rp_chain_dp_list(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                           rp_sink sink);
rp_status rp_selective_list(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                            rp_sink sink);

/* Those of blocks, one at least. `size`: how many, of all of them. */
typedef rp_status (*rp_block_list)(const rp_expander *expander, const rp_blocks *blocks,
                                   uint32_t size, rp_drops *drops, rp_sink sink);

rp_status rp_uniform_list(const rp_expander *expander, const rp_blocks *blocks, uint32_t size,
                          rp_drops *drops, rp_sink sink);
rp_status rp_first_list(const rp_expander *expander, const rp_blocks *blocks, uint32_t size,
                        rp_drops *drops, rp_sink sink);
/* Segments of `size` blocks on two levels: no strategy of its own, but where auto begins below the
 * others. */
rp_status rp_nested_list(const rp_expander *expander, const rp_blocks *blocks, uint32_t size,
                         rp_drops *drops, rp_sink sink);

/* Offers everything that is listed. */
rp_status rp_propose_list(const rp_graph *graph, rp_list list, uint32_t argument,
                          rp_candidates *set);

#endif
