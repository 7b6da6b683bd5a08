/* A cache of plans: copies of steps, places and report, found by what a plan depends on. Hashes may
 * collide, so that the verifier looks at every copy again before it is a plan of the graph at hand.
 */
#include <string.h>

#include "clock.h"
#include "hash.h"
#include "mix.h"
#include "plan_object.h"

enum { NAME_BYTES = 32 }; /* of a strategy with its number */

/* All that a plan depends on; compared byte for byte, so that unused ones are 0. */
typedef struct key {
    uint64_t graph, rest;
    int64_t budget;
    size_t node_count, value_count;
    char strategy[NAME_BYTES];
} key;

typedef struct entry {
    key key;
    rp_schedule schedule;
    rp_layout layout;
    rp_plan_report report;
    UT_hash_handle hh;
} entry;

struct rp_plan_cache {
    rp_context *context;
    rp_owned owned;
    size_t most;
    entry *entries; /* in order of their last use */
};

static void destroy_cache(void *cache) {
    rp_plan_cache_destroy(cache);
}

rp_status rp_plan_cache_create(rp_context *context, size_t most_plans, rp_plan_cache **cache) {
    if (cache == NULL)
        return RP_INVALID_ARGUMENT;
    *cache = NULL;
    if (context == NULL)
        return RP_INVALID_ARGUMENT;
    if (most_plans == 0)
        return rp_fail(context, RP_INVALID_ARGUMENT,
                       "plan cache: room for 0 plans, at least 1 is needed");
    rp_plan_cache *made = rp_alloc(context, 1, sizeof *made);
    if (made == NULL)
        return rp_fail_memory(context, "a plan cache");
    *made = (rp_plan_cache){.context = context, .most = most_plans};
    rp_own(context, &made->owned, made, destroy_cache);
    *cache = made;
    return RP_OK;
}

static void free_entry(rp_context *context, entry *e) {
    rp_schedule_clear(context, &e->schedule);
    rp_layout_clear(context, &e->layout);
    rp_free(context, e);
}

static void remove_entry(rp_plan_cache *cache, entry *e) {
    rp_context *const hash_context = cache->context;
    HASH_DEL(cache->entries, e);
    free_entry(hash_context, e);
}

void rp_plan_cache_destroy(rp_plan_cache *cache) {
    if (cache == NULL)
        return;
    rp_context *const context = cache->context;
    while (cache->entries != NULL)
        remove_entry(cache, cache->entries);
    rp_disown(context, &cache->owned);
    rp_free(context, cache);
}

/* ---- Keys ------------------------------------------------------------------------------------ */

/* Costs and blocks, which strategies follow and the graph's hash leaves out. */
static uint64_t hash_rest(const rp_graph *graph) {
    uint64_t hash = 1;
    for (size_t n = 0; n < graph->node_count; n++) {
        hash = rp_mix(hash, (uint64_t)graph->nodes[n].cost_ns);
        const char *c = graph->strings + graph->nodes[n].block;
        do
            hash = rp_mix(hash, (unsigned char)*c);
        while (*c++ != '\0');
    }
    return hash;
}

/* False: a name that no strategy has. */
static bool make_key(const rp_graph *graph, const rp_plan_options *options, key *k) {
    const char *name = options->strategy != NULL ? options->strategy : "auto";
    memset(k, 0, sizeof *k);
    k->graph = graph->hash;
    k->rest = hash_rest(graph);
    k->budget = options->budget_bytes;
    k->node_count = graph->node_count;
    k->value_count = graph->value_count;
    if (strlen(name) >= sizeof k->strategy)
        return false;
    memcpy(k->strategy, name, strlen(name));
    return true;
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static void *copy(rp_context *context, const void *from, size_t count, size_t size) {
    void *to = rp_alloc(context, count, size);
    if (to != NULL && count > 0)
        memcpy(to, from, count * size);
    return to;
}

static bool copy_steps(rp_context *context, const rp_schedule *from, rp_schedule *to) {
    *to = (rp_schedule){copy(context, from->steps, from->count, sizeof *from->steps), from->count,
                        from->count};
    return to->steps != NULL;
}

static bool copy_places(rp_context *context, const rp_layout *from, rp_layout *to) {
    *to = *from;
    to->placements = copy(context, from->placements, from->count, sizeof *from->placements);
    return to->placements != NULL;
}

/* Keeps a copy of the plan. Where memory is short for it the plan is not kept, which is no failure
 * of whoever wants the plan. */
static void keep(rp_plan_cache *cache, const key *k, const rp_plan *plan) {
    rp_context *const hash_context = cache->context;
    bool hash_failed = false;
    entry *e = rp_alloc(hash_context, 1, sizeof *e);
    if (e == NULL)
        return;
    e->key = *k;
    e->report = plan->report;
    const bool copied = copy_steps(hash_context, &plan->schedule, &e->schedule) &&
                        copy_places(hash_context, &plan->layout, &e->layout);
    if (copied)
        HASH_ADD(hh, cache->entries, key, sizeof e->key, e);
    if (!copied || hash_failed) {
        free_entry(hash_context, e);
        return;
    }
    if (HASH_COUNT(cache->entries) > cache->most)
        remove_entry(cache, cache->entries);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

/* A plan of the graph from the copy. RP_BAD_INPUT: it is none for this graph after all. */
static rp_status revive(const rp_graph *graph, const entry *e, rp_plan **plan) {
    rp_context *const context = graph->context;
    const double begin = rp_milliseconds();
    rp_schedule schedule = {.steps = NULL};
    rp_layout layout = {.placements = NULL};
    if (!copy_steps(context, &e->schedule, &schedule) ||
        !copy_places(context, &e->layout, &layout)) {
        rp_schedule_clear(context, &schedule);
        rp_layout_clear(context, &layout);
        return rp_fail_memory(context, "a plan");
    }
    const rp_status status =
        rp_plan_assemble(graph, e->key.strategy, &schedule, &layout, e->key.budget, plan);
    if (status == RP_OK) {
        (*plan)->report = e->report;
        (*plan)->report.plan_ms = rp_milliseconds() - begin;
    }
    return status;
}

/* Moves the entry behind all others: it was used last. */
static void touch(rp_plan_cache *cache, entry *e) {
    rp_context *const hash_context = cache->context;
    bool hash_failed = false;
    HASH_DEL(cache->entries, e);
    HASH_ADD(hh, cache->entries, key, sizeof e->key, e);
    if (hash_failed)
        free_entry(hash_context, e);
}

rp_status rp_plan_cache_get(rp_plan_cache *cache, const rp_graph *graph,
                            const rp_plan_options *options, rp_plan **plan, rp_plan_report *report,
                            bool *hit) {
    const rp_plan_options defaults = RP_PLAN_OPTIONS;
    key k;
    entry *e = NULL;
    if (hit != NULL)
        *hit = false;
    if (plan == NULL)
        return RP_INVALID_ARGUMENT;
    *plan = NULL;
    if (cache == NULL || graph == NULL)
        return RP_INVALID_ARGUMENT;
    if (graph->context != cache->context)
        return rp_fail(cache->context, RP_INVALID_ARGUMENT,
                       "plan cache: the graph belongs to another context");
    const bool known = graph->finished &&
                       (options == NULL || options->struct_size == sizeof *options) &&
                       make_key(graph, options != NULL ? options : &defaults, &k);
    if (known)
        HASH_FIND(hh, cache->entries, &k, sizeof k, e);
    if (e != NULL) {
        rp_status status = revive(graph, e, plan);
        if (status == RP_OK) {
            touch(cache, e);
            if (report != NULL)
                *report = (*plan)->report;
            if (hit != NULL)
                *hit = true;
            return RP_OK;
        }
        if (status != RP_BAD_INPUT)
            return status;
        remove_entry(cache, e);
    }
    const rp_status status = rp_plan_create(graph, options, plan, report);
    if (status == RP_OK && known)
        keep(cache, &k, *plan);
    return status;
}
