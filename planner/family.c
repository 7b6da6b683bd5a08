/* Members are in order of rising cost and falling live peak. The arena is at least the live peak;
 * that decides most questions without a layout. */
#include "family.h"

/* Members of a family whose arenas may take long. */
enum { THOROUGH = 32 };

rp_status rp_family_create(const rp_graph *graph, const rp_strategy *strategy, uint32_t argument,
                           rp_family *family) {
    *family = (rp_family){.graph = graph};
    rp_status status = rp_candidates_create(graph, &family->set);
    if (status == RP_OK)
        status = strategy->propose(graph, argument, family->set);
    if (status != RP_OK)
        goto fail;
    family->count = rp_candidates_count(family->set);
    if (family->count == 0) {
        status = rp_fail(graph->context, RP_INFEASIBLE,
                         "%s has no schedule for this graph and its marks", strategy->name);
        goto fail;
    }
    family->arenas = rp_alloc(graph->context, family->count, sizeof *family->arenas);
    if (family->arenas == NULL) {
        status = rp_fail_memory(graph->context, "a family of schedules");
        goto fail;
    }
    for (size_t i = 0; i < family->count; i++)
        family->arenas[i] = -1;
    return RP_OK;
fail:
    rp_family_clear(family);
    return status;
}

void rp_family_clear(rp_family *family) {
    if (family->graph != NULL)
        rp_free(family->graph->context, family->arenas);
    rp_candidates_destroy(family->set);
    *family = (rp_family){.graph = NULL};
}

/* Where layouts are hard, one of many members whose live peaks are close together gets a close
 * packing, and the others a fair one. Which one must not depend on the budget: a member has one
 * arena. */
static rp_layout_effort choose_effort(const rp_family *family, size_t member) {
    return member % (family->count / THOROUGH + 1) == 0 ? RP_LAYOUT_THOROUGH : RP_LAYOUT_QUICK;
}

rp_status rp_family_build(rp_family *family, size_t member, rp_schedule *schedule,
                          rp_layout *layout) {
    rp_context *context = family->graph->context;
    *schedule = (rp_schedule){.steps = NULL};
    rp_status status = rp_candidates_build(family->set, member, schedule);
    if (status == RP_OK)
        status = rp_layout_create(family->graph, schedule, choose_effort(family, member), layout);
    if (status != RP_OK)
        rp_schedule_clear(context, schedule);
    else
        family->arenas[member] = layout->arena_bytes;
    return status;
}

rp_status rp_family_arena(rp_family *family, size_t member, int64_t *bytes) {
    rp_context *context = family->graph->context;
    if (family->arenas[member] < 0) {
        rp_schedule schedule;
        rp_layout layout;
        const rp_status status = rp_family_build(family, member, &schedule, &layout);
        if (status != RP_OK)
            return status;
        rp_schedule_clear(context, &schedule);
        rp_layout_clear(context, &layout);
    }
    *bytes = family->arenas[member];
    return RP_OK;
}

rp_status rp_family_select(rp_family *family, int64_t budget_bytes, size_t *member) {
    for (*member = 0; *member < family->count; ++*member) {
        int64_t arena = 0;
        if (rp_candidates_get(family->set, *member).live_peak_bytes > budget_bytes)
            continue;
        const rp_status status = rp_family_arena(family, *member, &arena);
        if (status != RP_OK || arena <= budget_bytes)
            return status;
    }
    return RP_OK;
}

rp_status rp_family_minimum(rp_family *family, size_t *member, int64_t *bytes) {
    *member = family->count;
    *bytes = INT64_MAX;
    for (size_t i = family->count; i-- > 0;) {
        int64_t arena = 0;
        if (rp_candidates_get(family->set, i).live_peak_bytes > *bytes)
            break;
        const rp_status status = rp_family_arena(family, i, &arena);
        if (status != RP_OK)
            return status;
        if (arena <= *bytes) {
            *bytes = arena;
            *member = i;
        }
    }
    return RP_OK;
}
