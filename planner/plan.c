/* Plans: a budget selects from a strategy's family, the verifier has the last word. */
#include <stdio.h>

#include "clock.h"
#include "memo.h"
#include "mix.h"
#include "plan_object.h"
#include "verify.h"

enum { MARK_BYTES = 160 };

/* ---- A plan in memory ------------------------------------------------------------------------ */

static uint64_t hash_plan(const rp_plan *plan) {
    uint64_t hash = 1;
    for (size_t i = 0; i < plan->schedule.count; i++)
        hash = rp_mix(hash,
                      (uint64_t)plan->schedule.steps[i].kind << 32 | plan->schedule.steps[i].index);
    for (size_t i = 0; i < plan->layout.count; i++) {
        const rp_placement *p = &plan->layout.placements[i];
        hash = rp_mix(rp_mix(hash, (uint64_t)p->step << 32 | p->value), (uint64_t)p->offset);
    }
    return hash;
}

static rp_status fill_report(rp_plan *plan, int64_t budget_bytes) {
    const rp_graph *graph = plan->graph;
    rp_plan_report *report = &plan->report;
    rp_verdict verdict;
    const rp_status status = rp_verify_placements(graph, plan->schedule.steps, plan->schedule.count,
                                                  plan->layout.placements, plan->layout.count,
                                                  plan->layout.arena_bytes, &verdict);
    if (status != RP_OK)
        return status;
    report->budget_bytes = budget_bytes;
    report->peak_bytes = plan->layout.arena_bytes;
    report->live_peak_bytes = verdict.live_peak_bytes;
    report->recompute_cost_ns = verdict.recompute_cost_ns;
    report->recompute_nodes = verdict.recompute_nodes;
    report->total_cost_ns = graph->total_cost_ns;
    report->peak_node = verdict.peak_node;
    report->peak_step = verdict.peak_step;
    report->plan_hash = hash_plan(plan);
    return RP_OK;
}

rp_status rp_plan_add_bounds(rp_plan *plan) {
    const rp_bound *bound = NULL;
    const rp_status status = rp_memo_bound(plan->graph, &bound);
    if (status != RP_OK)
        return status;
    plan->report.floor_bytes = bound->floor_bytes;
    plan->report.lower_bound_ns = rp_bound_cost(bound, plan->report.budget_bytes);
    return RP_OK;
}

static void destroy_plan(void *plan) {
    rp_plan_destroy(plan);
}

rp_status rp_plan_assemble(const rp_graph *graph, const char *strategy, rp_schedule *schedule,
                           rp_layout *layout, int64_t budget_bytes, rp_plan **plan) {
    rp_context *context = graph->context;
    rp_plan *made = rp_alloc(context, 1, sizeof *made);
    rp_status status = RP_OK;
    if (made == NULL) {
        rp_schedule_clear(context, schedule);
        rp_layout_clear(context, layout);
        return rp_fail_memory(context, "a plan");
    }
    *made = (rp_plan){.graph = graph, .schedule = *schedule, .layout = *layout};
    *schedule = (rp_schedule){.steps = NULL};
    *layout = (rp_layout){.placements = NULL};
    made->strategy = rp_copy_string(context, strategy);
    if (made->strategy == NULL)
        status = rp_fail_memory(context, "a plan");
    else
        status = fill_report(made, budget_bytes);
    if (status != RP_OK) {
        rp_plan_destroy(made);
        return status;
    }
    rp_own(context, &made->owned, made, destroy_plan);
    *plan = made;
    return RP_OK;
}

void rp_plan_destroy(rp_plan *plan) {
    if (plan == NULL)
        return;
    rp_context *context = plan->graph->context;
    rp_disown(context, &plan->owned);
    rp_free(context, plan->strategy);
    rp_schedule_clear(context, &plan->schedule);
    rp_layout_clear(context, &plan->layout);
    rp_free(context, plan);
}

/* ---- Looking: what is empty for NULL --------------------------------------------------------- */

void rp_plan_get_report(const rp_plan *plan, rp_plan_report *report) {
    if (report != NULL)
        *report = plan != NULL ? plan->report : (rp_plan_report){.peak_node = RP_NONE};
}

const char *rp_plan_strategy(const rp_plan *plan) {
    return plan != NULL ? plan->strategy : "";
}

const rp_graph *rp_plan_graph(const rp_plan *plan) {
    return plan != NULL ? plan->graph : NULL;
}

const rp_step *rp_plan_steps(const rp_plan *plan, size_t *count) {
    if (count != NULL)
        *count = plan != NULL ? plan->schedule.count : 0;
    return plan != NULL ? plan->schedule.steps : NULL;
}

const rp_placement *rp_plan_placements(const rp_plan *plan, size_t *count) {
    if (count != NULL)
        *count = plan != NULL ? plan->layout.count : 0;
    return plan != NULL ? plan->layout.placements : NULL;
}

/* ---- Planning -------------------------------------------------------------------------------- */

/* What is known while a plan is chosen. */
typedef struct choice {
    const rp_graph *graph;
    const char *name; /* of the strategy, with its number */
    rp_memo *memo;    /* the family of auto, which the minimum of the graph comes from */
    rp_family own;    /* the family of another strategy; empty for auto */
    rp_family *used;  /* one of the two */
    double begin;     /* milliseconds */
    size_t minimum;   /* member of `used` */
    rp_plan_report report;
} choice;

/* The node at the peak of the smallest member, and the mark that it suffers from. */
static rp_status look_at_minimum(choice *c, rp_family *family, size_t member, char *mark) {
    rp_schedule schedule = {.steps = NULL};
    rp_verdict verdict;
    rp_status status = rp_candidates_build(family->set, member, &schedule);
    if (status == RP_OK)
        status = rp_verify_schedule(c->graph, schedule.steps, schedule.count, &verdict);
    if (status == RP_OK) {
        c->report.peak_node = verdict.peak_node;
        c->report.peak_step = verdict.peak_step;
        status = rp_plan_name_mark(c->graph, &schedule, verdict.peak_step, mark, MARK_BYTES);
    }
    rp_schedule_clear(c->graph->context, &schedule);
    return status;
}

/* Everything that depends on the graph alone. RP_INFEASIBLE: marks leave no schedule. */
static rp_status find_limits(choice *c) {
    rp_plan_report *report = &c->report;
    const rp_bound *bound = NULL;
    report->total_cost_ns = c->graph->total_cost_ns;
    report->min_feasible_bytes = report->strategy_min_bytes = RP_UNLIMITED;
    report->peak_node = report->peak_step = RP_NONE;
    rp_status status = rp_plan_find_keep_all(c->graph, &report->keep_all_peak_bytes);
    if (status == RP_OK)
        status = rp_memo_bound(c->graph, &bound);
    if (status == RP_OK)
        report->floor_bytes = bound->floor_bytes;
    const double begin = rp_milliseconds();
    if (status == RP_OK)
        status = rp_memo_open(c->graph, &c->memo);
    if (status != RP_OK)
        return status;
    report->min_feasible_bytes = c->memo->minimum_bytes;
    c->minimum = c->memo->minimum;
    /* The time that the memo has saved counts: it belongs to this plan as well. */
    c->begin -= c->memo->milliseconds - (rp_milliseconds() - begin);
    return RP_OK;
}

/* The family of the strategy and its own minimum. */
static rp_status find_family(choice *c, const rp_strategy *strategy, uint32_t argument) {
    c->used = &c->memo->family;
    c->report.strategy_min_bytes = c->report.min_feasible_bytes;
    if (strategy->propose == rp_propose_auto)
        return RP_OK;
    c->used = &c->own;
    c->report.strategy_min_bytes = RP_UNLIMITED;
    const rp_status status = rp_family_create(c->graph, strategy, argument, &c->own);
    if (status == RP_OK)
        return rp_family_minimum(&c->own, &c->minimum, &c->report.strategy_min_bytes);
    char mark[MARK_BYTES];
    const rp_status looked = look_at_minimum(c, &c->memo->family, c->minimum, mark);
    return looked == RP_OK ? status
                           : looked; /* with the strategy's message, if nothing new failed */
}

static rp_status fail_infeasible(choice *c) {
    rp_context *context = c->graph->context;
    const rp_plan_report *r = &c->report;
    char mark[MARK_BYTES];
    const rp_status status = look_at_minimum(c, c->used, c->minimum, mark);
    if (status != RP_OK)
        return status;
    const bool node = r->peak_node != RP_NONE;
    char by[MARK_BYTES] = "the values that must be live";
    if (node)
        snprintf(by, sizeof by, "node %u (%.80s)", r->peak_node,
                 rp_node_name(c->graph, r->peak_node));
    if (c->used == &c->memo->family)
        return rp_fail(context, RP_INFEASIBLE,
                       "no plan fits %lld bytes: the smallest feasible budget is %lld bytes, set "
                       "by %s%s",
                       (long long)r->budget_bytes, (long long)r->min_feasible_bytes, by, mark);
    return rp_fail(context, RP_INFEASIBLE,
                   "no plan of %.40s fits %lld bytes: it needs %lld bytes, set by %s%s; the "
                   "smallest budget of any strategy is %lld bytes",
                   c->name, (long long)r->budget_bytes, (long long)r->strategy_min_bytes, by, mark,
                   (long long)r->min_feasible_bytes);
}

/* The cheapest member that fits, as a plan. */
static rp_status select_plan(choice *c, rp_plan **plan) {
    rp_schedule schedule = {.steps = NULL};
    rp_layout layout = {.placements = NULL};
    size_t member = 0;
    rp_status status = rp_family_select(c->used, c->report.budget_bytes, &member);
    if (status != RP_OK)
        return status;
    if (member == c->used->count)
        return fail_infeasible(c);
    status = rp_family_build(c->used, member, &schedule, &layout);
    if (status != RP_OK)
        return status;
    status = rp_plan_assemble(c->graph, c->name, &schedule, &layout, c->report.budget_bytes, plan);
    if (status == RP_BAD_INPUT) {
        char reason[512];
        snprintf(reason, sizeof reason, "%s", rp_context_message(c->graph->context));
        return rp_fail(c->graph->context, RP_INTERNAL_ERROR, "a plan of %.40s is wrong: %.400s",
                       c->name, reason);
    }
    if (status == RP_OK)
        status = rp_plan_add_bounds(*plan);
    if (status != RP_OK) {
        rp_plan_destroy(*plan);
        *plan = NULL;
    }
    return status;
}

/* What the searches have proven about the graph goes beyond its bounds. */
static void use_proofs(const choice *c, rp_plan_report *report) {
    const rp_candidates *const sets[] = {c->memo->family.set, c->own.set};
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        if (sets[i] == NULL)
            continue;
        const int64_t least = rp_candidates_proven(sets[i], report->budget_bytes);
        const int64_t floor = rp_candidates_floor(sets[i]);
        if (least > report->lower_bound_ns && least < INT64_MAX)
            report->lower_bound_ns = least;
        if (floor > report->floor_bytes)
            report->floor_bytes = floor;
    }
}

static void close_choice(choice *c) {
    rp_family_clear(&c->own);
    rp_memo_close(c->graph);
}

static rp_status check_options(const rp_graph *graph, const rp_plan_options *options) {
    if (!graph->finished)
        return rp_fail(graph->context, RP_BAD_STATE, "plan: the graph is not finished");
    if (options->struct_size != sizeof *options)
        return rp_fail(graph->context, RP_INVALID_ARGUMENT,
                       "plan: struct_size of the options is %zu, %zu is needed",
                       options->struct_size, sizeof *options);
    if (options->budget_bytes < 0)
        return rp_fail(graph->context, RP_INVALID_ARGUMENT,
                       "plan: the budget is %lld bytes, 0 or more are needed",
                       (long long)options->budget_bytes);
    return RP_OK;
}

rp_status rp_plan_create(const rp_graph *graph, const rp_plan_options *options, rp_plan **plan,
                         rp_plan_report *report) {
    const rp_plan_options defaults = RP_PLAN_OPTIONS;
    if (plan == NULL)
        return RP_INVALID_ARGUMENT;
    *plan = NULL;
    if (graph == NULL)
        return RP_INVALID_ARGUMENT;
    if (options == NULL)
        options = &defaults;
    rp_status status = check_options(graph, options);
    if (status != RP_OK)
        return status;
    choice c = {.graph = graph,
                .name = options->strategy != NULL ? options->strategy : "auto",
                .begin = rp_milliseconds()};
    const rp_strategy *strategy = NULL;
    uint32_t argument = 0;
    c.report.budget_bytes = options->budget_bytes;
    status = rp_strategy_find(graph->context, c.name, &strategy, &argument);
    if (status == RP_OK)
        status = find_limits(&c);
    if (status == RP_OK)
        status = find_family(&c, strategy, argument);
    if (status == RP_OK)
        status = select_plan(&c, plan);
    if (status == RP_OK)
        use_proofs(&c, &(*plan)->report);
    if (status == RP_INFEASIBLE && c.memo != NULL)
        use_proofs(&c, &c.report);
    close_choice(&c);
    if (status == RP_OK) {
        rp_plan_report *r = &(*plan)->report;
        r->keep_all_peak_bytes = c.report.keep_all_peak_bytes;
        r->min_feasible_bytes = c.report.min_feasible_bytes;
        r->strategy_min_bytes = c.report.strategy_min_bytes;
        r->plan_ms = rp_milliseconds() - c.begin;
        c.report = *r;
    }
    c.report.plan_ms = rp_milliseconds() - c.begin;
    if (report != NULL && (status == RP_OK || status == RP_INFEASIBLE))
        *report = c.report;
    return status;
}

rp_status rp_plan_limits(const rp_graph *graph, rp_plan_report *report) {
    if (graph == NULL)
        return RP_INVALID_ARGUMENT;
    if (report == NULL)
        return rp_fail(graph->context, RP_INVALID_ARGUMENT, "plan: the report is NULL");
    if (!graph->finished)
        return rp_fail(graph->context, RP_BAD_STATE, "plan: the graph is not finished");
    choice c = {.graph = graph, .name = "auto"};
    char mark[MARK_BYTES];
    rp_status status = find_limits(&c);
    if (status == RP_OK)
        status = look_at_minimum(&c, &c.memo->family, c.minimum, mark);
    if (status == RP_OK)
        use_proofs(&c, &c.report);
    close_choice(&c);
    c.report.total_cost_ns = c.report.strategy_min_bytes = c.report.lower_bound_ns = 0;
    if (status == RP_OK || status == RP_INFEASIBLE)
        *report = c.report;
    return status;
}

/* ---- Frontier -------------------------------------------------------------------------------- */

/* The plan that `budget` gives, as a point, unless it is no better than the last one. */
static rp_status add_point(rp_family *family, int64_t budget, rp_frontier_point *points,
                           size_t *count) {
    size_t member = 0;
    rp_frontier_point point = {0, 0, 0};
    rp_status status = rp_family_select(family, budget, &member);
    if (status == RP_OK)
        status = rp_family_arena(family, member, &point.peak_bytes);
    if (status != RP_OK)
        return status;
    /* A budget of exactly its arena gives the same plan: whatever fits that one fits this one. */
    point.budget_bytes = point.peak_bytes;
    point.recompute_cost_ns = rp_candidates_get(family->set, member).recompute_cost_ns;
    if (*count > 0 && points[*count - 1].recompute_cost_ns <= point.recompute_cost_ns)
        return RP_OK;
    points[(*count)++] = point;
    return RP_OK;
}

/* The smallest arena among the members that cost as little as any. */
static rp_status find_cheapest(rp_family *family, int64_t *bytes) {
    const int64_t cost = rp_candidates_get(family->set, 0).recompute_cost_ns;
    *bytes = INT64_MAX;
    for (size_t i = 0; i < family->count; i++) {
        int64_t arena = 0;
        if (rp_candidates_get(family->set, i).recompute_cost_ns != cost)
            break;
        const rp_status status = rp_family_arena(family, i, &arena);
        if (status != RP_OK)
            return status;
        *bytes = arena < *bytes ? arena : *bytes;
    }
    return RP_OK;
}

/* `room` budgets from the smallest to the one that is enough for the least cost: evenly spaced, or
 * those of all members if there are fewer. */
static rp_status trace_frontier(rp_family *family, size_t room, rp_frontier_point *points,
                                size_t *count) {
    size_t member = 0;
    int64_t low = 0, high = 0;
    rp_status status = rp_family_minimum(family, &member, &low);
    if (status == RP_OK)
        status = find_cheapest(family, &high);
    *count = 0;
    if (status == RP_OK && family->count <= room) {
        for (size_t i = family->count; i-- > 0 && status == RP_OK;) {
            int64_t arena = 0;
            status = rp_family_arena(family, i, &arena);
            if (status == RP_OK && (*count == 0 || arena > points[*count - 1].peak_bytes))
                status = add_point(family, *count == 0 ? low : arena, points, count);
        }
        return status;
    }
    for (size_t i = 0; i < room && status == RP_OK; i++) {
        const int64_t gap = room > 1 ? (high - low) / (int64_t)(room - 1) : 0;
        const bool last = room > 1 && i == room - 1;
        status = add_point(family, last ? high : low + gap * (int64_t)i, points, count);
    }
    return status;
}

rp_status rp_plan_frontier(const rp_graph *graph, const char *strategy, rp_frontier_point *points,
                           size_t *count) {
    if (graph == NULL)
        return RP_INVALID_ARGUMENT;
    if (points == NULL || count == NULL)
        return rp_fail(graph->context, RP_INVALID_ARGUMENT, "plan: points or their count is NULL");
    if (!graph->finished)
        return rp_fail(graph->context, RP_BAD_STATE, "plan: the graph is not finished");
    const rp_strategy *row = NULL;
    uint32_t argument = 0;
    rp_family own = {.graph = NULL};
    rp_memo *memo = NULL;
    rp_status status =
        rp_strategy_find(graph->context, strategy != NULL ? strategy : "auto", &row, &argument);
    if (status != RP_OK)
        return status;
    const bool is_auto = row->propose == rp_propose_auto;
    status = is_auto ? rp_memo_open(graph, &memo) : rp_family_create(graph, row, argument, &own);
    size_t found = 0;
    if (status == RP_OK)
        status = trace_frontier(is_auto ? &memo->family : &own, *count, points, &found);
    rp_family_clear(&own);
    rp_memo_close(graph);
    if (status == RP_OK)
        *count = found;
    return status;
}
