/* A strategy by rule, as a family. */
#include "lists.h"

typedef struct offering {
    rp_expander *expander;
    rp_candidates *set;
} offering;

static rp_status offer(void *user, const rp_drops *drops) {
    const offering *o = user;
    return rp_candidates_offer_drops(o->set, o->expander, drops);
}

rp_status rp_propose_list(const rp_graph *graph, rp_list list, uint32_t argument,
                          rp_candidates *set) {
    rp_expander expander;
    rp_drops drops = {0};
    rp_status status = rp_expander_create(graph, &expander);
    if (status != RP_OK)
        return status;
    offering o = {&expander, set};
    status = rp_drops_create(&expander, &drops);
    if (status == RP_OK)
        status = list(&expander, argument, &drops, (rp_sink){offer, &o});
    rp_drops_clear(graph->context, &drops);
    rp_expander_clear(&expander);
    return status;
}
