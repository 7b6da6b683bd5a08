/* The family of schedules that a strategy proposes: kept sorted, without members that another one
 * beats. */
#include "expand.h"
#include "strategy.h"
#include "verify.h"

#include <string.h>

typedef struct member {
    rp_candidate measure;
    rp_step *steps;
    size_t count;
    bool is_verified;
} member;

struct rp_candidates {
    const rp_graph *graph;
    member *members; /* rising in (cost, runs), falling in peak, both strictly */
    size_t count, capacity;
    struct proof {
        int64_t budget, least;
    } * proofs;
    size_t proof_count, proof_capacity;
};

rp_status rp_candidates_create(const rp_graph *graph, rp_candidates **set) {
    *set = rp_alloc(graph->context, 1, sizeof **set);
    if (*set == NULL)
        return rp_fail_memory(graph->context, "a family of schedules");
    (*set)->graph = graph;
    return RP_OK;
}

void rp_candidates_destroy(rp_candidates *set) {
    if (set == NULL)
        return;
    rp_context *const context = set->graph->context;
    for (size_t i = 0; i < set->count; i++)
        rp_free(context, set->members[i].steps);
    rp_free(context, set->members);
    rp_free(context, set->proofs);
    rp_free(context, set);
}

static bool is_cheaper(const rp_candidate *a, const rp_candidate *b) {
    return a->recompute_cost_ns != b->recompute_cost_ns
               ? a->recompute_cost_ns < b->recompute_cost_ns
               : a->recompute_nodes < b->recompute_nodes;
}

/* How many members are cheaper than one that measures so: its place. */
static size_t count_cheaper(const rp_candidates *set, const rp_candidate *measure) {
    size_t low = 0, high = set->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (is_cheaper(&set->members[middle].measure, measure))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool rp_candidates_wants(const rp_candidates *set, rp_candidate measure) {
    const size_t place = count_cheaper(set, &measure);
    /* The peak falls along the family: of the cheaper members the last one has the smallest. */
    if (place > 0 && set->members[place - 1].measure.live_peak_bytes <= measure.live_peak_bytes)
        return false;
    if (place == set->count)
        return true;
    const rp_candidate *next = &set->members[place].measure;
    return is_cheaper(&measure, next) || next->live_peak_bytes > measure.live_peak_bytes;
}

/* Makes room at `place` for a member with this peak: those behind it that do not have a smaller
 * peak go. There is one entry more than members before the call. */
static void replace_beaten(rp_candidates *set, size_t place, int64_t peak) {
    size_t end = place;
    for (; end < set->count && set->members[end].measure.live_peak_bytes >= peak; end++)
        rp_free(set->graph->context, set->members[end].steps);
    memmove(set->members + place + 1, set->members + end, (set->count - end) * sizeof(member));
    set->count -= end - place;
}

/* Takes over the steps of a member that is wanted; they are freed if that fails. */
static rp_status insert(rp_candidates *set, member fresh) {
    rp_context *const context = set->graph->context;
    if (!rp_reserve(context, &set->members, &set->capacity, set->count + 1, sizeof(member))) {
        rp_free(context, fresh.steps);
        return rp_fail_memory(context, "a family of schedules");
    }
    const size_t place = count_cheaper(set, &fresh.measure);
    replace_beaten(set, place, fresh.measure.live_peak_bytes);
    set->members[place] = fresh;
    set->count++;
    return RP_OK;
}

static rp_status measure_steps(const rp_graph *graph, const rp_step *steps, size_t count,
                               rp_candidate *measure) {
    rp_verdict verdict;
    const rp_status status = rp_verify_schedule(graph, steps, count, &verdict);
    if (status == RP_OK)
        *measure = (rp_candidate){verdict.live_peak_bytes, verdict.recompute_cost_ns,
                                  verdict.recompute_nodes};
    return status;
}

rp_status rp_candidates_offer(rp_candidates *set, const rp_schedule *schedule) {
    rp_context *const context = set->graph->context;
    member fresh = {.count = schedule->count, .is_verified = true};
    const rp_status status =
        measure_steps(set->graph, schedule->steps, schedule->count, &fresh.measure);
    if (status != RP_OK || !rp_candidates_wants(set, fresh.measure))
        return status;
    fresh.steps = rp_resize(context, NULL, schedule->count, sizeof *fresh.steps);
    if (fresh.steps == NULL)
        return rp_fail_memory(context, "a schedule of a family");
    if (schedule->count > 0)
        memcpy(fresh.steps, schedule->steps, schedule->count * sizeof *fresh.steps);
    return insert(set, fresh);
}

rp_status rp_candidates_offer_expansion(rp_candidates *set, rp_expander *x) {
    rp_context *const context = set->graph->context;
    const rp_candidate measure = {x->peak, x->cost, x->run_count - set->graph->node_count};
    if (!rp_candidates_wants(set, measure))
        return RP_OK;
    const size_t most = x->run_count + x->instance_count;
    rp_schedule schedule = {.steps = rp_resize(context, NULL, most, sizeof *schedule.steps),
                            .capacity = most};
    if (schedule.steps == NULL)
        return rp_fail_memory(context, "a schedule of a family");
    const rp_status status = rp_expander_build(x, &schedule);
    if (status == RP_OK)
        return insert(set, (member){measure, schedule.steps, schedule.count, false});
    rp_schedule_clear(context, &schedule);
    return status;
}

rp_status rp_candidates_offer_drops(rp_candidates *set, rp_expander *expander,
                                    const rp_drops *drops) {
    bool within = false;
    const rp_status status = rp_expander_run(expander, drops, RP_NO_LIMITS, &within);
    return status == RP_OK && within ? rp_candidates_offer_expansion(set, expander) : status;
}

rp_status rp_candidates_prove(rp_candidates *set, int64_t budget_bytes, int64_t least_ns) {
    rp_context *const context = set->graph->context;
    if (!rp_reserve(context, &set->proofs, &set->proof_capacity, set->proof_count + 1,
                    sizeof *set->proofs))
        return rp_fail_memory(context, "what is proven of a family");
    set->proofs[set->proof_count++] = (struct proof){budget_bytes, least_ns};
    return RP_OK;
}

int64_t rp_candidates_proven(const rp_candidates *set, int64_t budget_bytes) {
    int64_t most = 0;
    for (size_t i = 0; i < set->proof_count; i++)
        if (set->proofs[i].budget >= budget_bytes && set->proofs[i].least > most)
            most = set->proofs[i].least;
    return most;
}

int64_t rp_candidates_floor(const rp_candidates *set) {
    int64_t floor = 0;
    for (size_t i = 0; i < set->proof_count; i++)
        if (set->proofs[i].least == INT64_MAX && set->proofs[i].budget >= floor)
            floor = set->proofs[i].budget + 1;
    return floor;
}

size_t rp_candidates_count(const rp_candidates *set) {
    return set->count;
}

rp_candidate rp_candidates_get(const rp_candidates *set, size_t i) {
    return set->members[i].measure;
}

static rp_status verify(const rp_graph *graph, member *m) {
    rp_candidate found = {0, 0, 0};
    const rp_candidate *told = &m->measure;
    const rp_status status = measure_steps(graph, m->steps, m->count, &found);
    if (status == RP_OUT_OF_MEMORY)
        return status;
    m->is_verified = status == RP_OK && found.live_peak_bytes == told->live_peak_bytes &&
                     found.recompute_cost_ns == told->recompute_cost_ns &&
                     found.recompute_nodes == told->recompute_nodes;
    return m->is_verified ? RP_OK
                          : rp_fail(graph->context, RP_INTERNAL_ERROR,
                                    "a schedule of %lld bytes is not what it was offered as",
                                    (long long)told->live_peak_bytes);
}

rp_status rp_candidates_build(rp_candidates *set, size_t i, rp_schedule *schedule) {
    member *from = &set->members[i];
    rp_context *const context = set->graph->context;
    if (!from->is_verified) {
        const rp_status status = verify(set->graph, from);
        if (status != RP_OK)
            return status;
    }
    if (!rp_reserve(context, &schedule->steps, &schedule->capacity, from->count, sizeof(rp_step)))
        return rp_fail_memory(context, "a schedule of a family");
    if (from->count > 0)
        memcpy(schedule->steps, from->steps, from->count * sizeof(rp_step));
    schedule->count = from->count;
    return RP_OK;
}
