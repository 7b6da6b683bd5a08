/* One graph under many budgets. Each measurement begins in a process that knows only the graph. */
#include "planner_sheet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan_object.h"
#include "unit.h"

/* References count live bytes, our budget bounds the arena: both meet at 1.01 times theirs. */
static const double room = 1.01;
static const double ratios[] = {0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2};
enum { RATIOS = sizeof ratios / sizeof ratios[0] };

rp_graph *rp_source_open(rp_context *context, const rp_source *source) {
    rp_graph *graph = NULL;
    if (source->path == NULL)
        return source->make(context, source);
    RP_REQUIRE_OK(context, rp_graph_load(context, source->path, &graph));
    return graph;
}

/* ---- Measuring, in the child ----------------------------------------------------------------- */

static void plan(const rp_graph *graph, const rp_sheet_task *task, int64_t budget, rp_cell *cell) {
    const rp_plan_options options = {sizeof options, budget, task->strategy};
    rp_plan *made = NULL;
    const rp_status status = rp_plan_create(graph, &options, &made, &cell->report);
    RP_CHECK(status == RP_OK || status == RP_INFEASIBLE, "a plan: %s", rp_status_name(status));
    cell->feasible = status == RP_OK;
    cell->report.budget_bytes = budget;
    rp_plan_destroy(made);
}

static int by_falling_budget(const void *a, const void *b) {
    const int64_t x = ((const rp_cell *)a)->report.budget_bytes;
    const int64_t y = ((const rp_cell *)b)->report.budget_bytes;
    return (x < y) - (x > y);
}

/* The budgets of the references, the fixed ratios of the peak that they start from. */
static size_t list_budgets(const json_t *of_graph, int64_t keep_all, rp_cell *cells) {
    int64_t known[RP_SHEET_CELLS - RATIOS - 1];
    const int64_t live = rp_refs_keep_all(of_graph);
    size_t count = 0;
    for (size_t i = 0; i < RATIOS; i++) {
        cells[count] = (rp_cell){.ratio = ratios[i], .known_at = -1};
        cells[count].report.budget_bytes = (int64_t)(ratios[i] * (double)keep_all);
        if (live > 0) {
            cells[count].known_at = (int64_t)(ratios[i] * (double)live);
            cells[count].report.budget_bytes = (int64_t)(room * (double)cells[count].known_at);
        }
        count++;
    }
    const size_t more =
        live > 0 ? rp_refs_budgets(of_graph, known, RP_SHEET_CELLS - RATIOS - 1) : 0;
    for (size_t i = 0; i < more; i++) {
        bool twice = false;
        for (size_t k = 0; k < RATIOS; k++)
            twice = twice || cells[k].known_at == known[i];
        if (twice)
            continue;
        cells[count] = (rp_cell){.ratio = (double)known[i] / (double)live, .known_at = known[i]};
        cells[count++].report.budget_bytes = (int64_t)(room * (double)known[i]);
    }
    qsort(cells, count, sizeof *cells, by_falling_budget);
    return count;
}

static void work_on_plans(void *argument, void *result) {
    const rp_sheet_task *task = argument;
    rp_sheet *sheet = result;
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_source_open(context, task->source);
    const json_t *of_graph = rp_refs_find(task->refs, rp_graph_name(graph));
    rp_cell first = {.ratio = 0.5}; /* half of the peak: the budget whose time is told */
    snprintf(sheet->graph, sizeof sheet->graph, "%s",
             task->source->path != NULL ? rp_graph_name(graph) : task->source->name);
    sheet->nodes = rp_graph_node_count(graph);
    sheet->values = rp_graph_value_count(graph);
    sheet->graph_bytes = rp_took_end(rp_took_begin()).peak_bytes;
    RP_REQUIRE_OK(context, rp_plan_find_keep_all(graph, &sheet->keep_all));
    const rp_took begin = rp_took_begin();
    plan(graph, task, sheet->keep_all / 2, &first);
    sheet->plan = rp_took_end(begin);
    sheet->minimum = first.report.min_feasible_bytes;
    sheet->floor = first.report.floor_bytes;
    sheet->total = rp_graph_total_cost_ns(graph);
    sheet->count = list_budgets(of_graph, sheet->keep_all, sheet->cells);
    rp_cell *last = &sheet->cells[sheet->count++];
    *last = (rp_cell){.ratio = (double)sheet->minimum / (double)sheet->keep_all, .known_at = -1};
    last->report.budget_bytes = sheet->minimum;
    for (size_t i = 0; i < sheet->count; i++)
        plan(graph, task, sheet->cells[i].report.budget_bytes, &sheet->cells[i]);
}

static void work_on_frontier(void *argument, void *result) {
    const rp_sheet_task *task = argument;
    rp_sheet *sheet = result;
    rp_frontier_point points[RP_SHEET_POINTS];
    size_t count = RP_SHEET_POINTS;
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_source_open(context, task->source);
    const rp_took begin = rp_took_begin();
    RP_REQUIRE_OK(context, rp_plan_frontier(graph, task->strategy, points, &count));
    sheet->frontier = rp_took_end(begin);
    sheet->points = count;
}

void rp_sheet_measure(const rp_sheet_task *task, rp_sheet *sheet) {
    rp_child child = {work_on_plans, (void *)(uintptr_t)task, sheet, task->limit_seconds, 0};
    memset(sheet, 0, sizeof *sheet);
    snprintf(sheet->graph, sizeof sheet->graph, "%s", task->source->name);
    if (!rp_child_run(&child, sheet->failed, sizeof sheet->failed))
        return;
    child.work = work_on_frontier;
    rp_child_run(&child, sheet->failed, sizeof sheet->failed);
}

/* ---- Judging --------------------------------------------------------------------------------- */

static double share(int64_t cost, const rp_sheet *sheet) {
    return sheet->total > 0 ? (double)cost / (double)sheet->total : 0;
}

static bool is_made(const rp_sheet *sheet) {
    return strncmp(sheet->graph, "g_", 2) == 0; /* graphs with layouts that lose nothing else */
}

static bool is_monotone(const rp_sheet *sheet, size_t cell) {
    const rp_cell *c = &sheet->cells[cell];
    for (size_t i = cell + 1; i < sheet->count; i++) {
        const rp_cell *smaller = &sheet->cells[i];
        if (smaller->report.budget_bytes > c->report.budget_bytes || !smaller->feasible)
            continue;
        if (!c->feasible || c->report.recompute_cost_ns > smaller->report.recompute_cost_ns ||
            smaller->report.peak_bytes > smaller->report.budget_bytes)
            return false;
    }
    return true;
}

static void compare(const rp_sheet *sheet, const rp_cell *c, const rp_known *known,
                    char flags[RP_SHEET_FLAG_BYTES]) {
    static const double rounding = 5e-5, tight = 0.003, loose = 0.01;
    const double cost = share(c->report.recompute_cost_ns, sheet);
    const double bound = share(c->report.lower_bound_ns, sheet);
    if (known->best >= 0 && !c->feasible)
        strcat(flags, "n");
    if (!c->feasible)
        return;
    if (known->proven && cost > known->best + (is_made(sheet) ? tight : loose) + rounding)
        strcat(flags, "o");
    if (known->best >= 0 && !known->proven && cost > known->best + rounding)
        strcat(flags, "w");
    if (known->best >= 0 && bound > known->best + rounding)
        strcat(flags, "b");
    if (known->online >= 0 && cost >= known->online)
        strcat(flags, "d");
}

void rp_sheet_flags(const rp_sheet_task *task, const rp_sheet *sheet, size_t cell,
                    char flags[RP_SHEET_FLAG_BYTES]) {
    const rp_cell *c = &sheet->cells[cell];
    const json_t *of_graph = rp_refs_find(task->refs, sheet->graph);
    flags[0] = 0;
    if (c->known_at >= 0) {
        const rp_known known = rp_refs_known(of_graph, c->known_at);
        compare(sheet, c, &known, flags);
    }
    const int64_t gap = c->report.recompute_cost_ns - c->report.lower_bound_ns;
    if (c->feasible && (task->source->transformer || is_made(sheet)) && c->ratio >= 0.2999 &&
        share(gap, sheet) > 0.01)
        strcat(flags, "g");
    if (c->feasible && gap < 0 && strchr(flags, 'b') == NULL)
        strcat(flags, "b");
    if (!is_monotone(sheet, cell))
        strcat(flags, "m");
    if (c->feasible && c->report.peak_bytes > c->report.budget_bytes)
        strcat(flags, "p");
}

/* ---- Telling --------------------------------------------------------------------------------- */

typedef void (*write_cell)(const rp_sheet_task *task, const rp_sheet *sheet, size_t cell,
                           char text[RP_SHEET_NAME]);

static void write_ratio(const rp_sheet_task *task, const rp_sheet *sheet, size_t cell,
                        char text[RP_SHEET_NAME]) {
    (void)task;
    if (cell + 1 == sheet->count)
        snprintf(text, RP_SHEET_NAME, "min %.3f", sheet->cells[cell].ratio);
    else
        snprintf(text, RP_SHEET_NAME, "%.3f", sheet->cells[cell].ratio);
}

static void write_cost(const rp_sheet_task *task, const rp_sheet *sheet, size_t cell,
                       char text[RP_SHEET_NAME]) {
    (void)task;
    const rp_cell *c = &sheet->cells[cell];
    if (c->feasible)
        snprintf(text, RP_SHEET_NAME, "%.2f", 100 * share(c->report.recompute_cost_ns, sheet));
    else
        strcpy(text, c->report.budget_bytes < sheet->floor ? "floor" : "-");
}

static void write_bound(const rp_sheet_task *task, const rp_sheet *sheet, size_t cell,
                        char text[RP_SHEET_NAME]) {
    (void)task;
    if (sheet->cells[cell].feasible)
        snprintf(text, RP_SHEET_NAME, "%.2f",
                 100 * share(sheet->cells[cell].report.lower_bound_ns, sheet));
}

static void write_arena(const rp_sheet_task *task, const rp_sheet *sheet, size_t cell,
                        char text[RP_SHEET_NAME]) {
    (void)task;
    const rp_plan_report *r = &sheet->cells[cell].report;
    if (sheet->cells[cell].feasible && r->live_peak_bytes > 0)
        snprintf(text, RP_SHEET_NAME, "%.4f", (double)r->peak_bytes / (double)r->live_peak_bytes);
}

static void write_known(const rp_sheet_task *task, const rp_sheet *sheet, size_t cell,
                        char text[RP_SHEET_NAME]) {
    const int64_t at = sheet->cells[cell].known_at;
    if (at < 0)
        return;
    const rp_known known = rp_refs_known(rp_refs_find(task->refs, sheet->graph), at);
    if (known.best >= 0)
        snprintf(text, RP_SHEET_NAME, "%s%.2f", known.proven ? "=" : "<", 100 * known.best);
    else if (known.bound >= 0)
        snprintf(text, RP_SHEET_NAME, ">%.2f", 100 * known.bound);
}

static void write_online(const rp_sheet_task *task, const rp_sheet *sheet, size_t cell,
                         char text[RP_SHEET_NAME]) {
    const int64_t at = sheet->cells[cell].known_at;
    if (at < 0)
        return;
    const rp_known known = rp_refs_known(rp_refs_find(task->refs, sheet->graph), at);
    if (known.online >= 0)
        snprintf(text, RP_SHEET_NAME, "%.2f", 100 * known.online);
    else if (known.online_out)
        strcpy(text, "out");
}

static void write_flags(const rp_sheet_task *task, const rp_sheet *sheet, size_t cell,
                        char text[RP_SHEET_NAME]) {
    rp_sheet_flags(task, sheet, cell, text);
}

static void print_lines(const rp_sheet_task *task, const rp_sheet *sheet) {
    static const struct {
        const char *label;
        write_cell write;
    } lines[] = {{"budget", write_ratio}, {"overhead", write_cost}, {"bound", write_bound},
                 {"known", write_known},  {"DTR", write_online},    {"arena", write_arena},
                 {"flags", write_flags}};
    for (size_t l = 0; l < sizeof lines / sizeof lines[0]; l++) {
        char text[RP_SHEET_CELLS][RP_SHEET_NAME] = {{0}};
        bool any = false;
        for (size_t i = 0; i < sheet->count; i++) {
            lines[l].write(task, sheet, i, text[i]);
            any = any || text[i][0] != 0;
        }
        if (!any)
            continue;
        printf("  %-9s", lines[l].label);
        for (size_t i = 0; i < sheet->count; i++)
            printf(" %9s", text[i]);
        printf("\n");
    }
}

static json_t *cell_object(const rp_sheet_task *task, const rp_sheet *sheet, size_t cell,
                           const char *flags) {
    const rp_cell *c = &sheet->cells[cell];
    const rp_plan_report *r = &c->report;
    json_t *object =
        json_pack("{s:f, s:I, s:b, s:s}", "ratio", c->ratio, "budget_bytes",
                  (json_int_t)r->budget_bytes, "feasible", c->feasible, "flags", flags);
    if (c->feasible)
        json_object_update_new(
            object,
            json_pack("{s:I, s:I, s:I, s:I, s:f, s:f, s:f}", "peak_bytes",
                      (json_int_t)r->peak_bytes, "live_peak_bytes", (json_int_t)r->live_peak_bytes,
                      "recompute_cost_ns", (json_int_t)r->recompute_cost_ns, "lower_bound_ns",
                      (json_int_t)r->lower_bound_ns, "overhead", share(r->recompute_cost_ns, sheet),
                      "bound", share(r->lower_bound_ns, sheet), "gap",
                      share(r->recompute_cost_ns - r->lower_bound_ns, sheet)));
    if (c->known_at < 0)
        return object;
    const rp_known known = rp_refs_known(rp_refs_find(task->refs, sheet->graph), c->known_at);
    if (known.best >= 0)
        json_object_update_new(
            object, json_pack("{s:f, s:b}", "known", known.best, "known_optimal", known.proven));
    if (known.online >= 0)
        json_object_set_new(object, "dtr", json_real(known.online));
    return object;
}

static json_t *took_object(rp_took took) {
    return json_pack("{s:f, s:f, s:I}", "seconds", took.seconds, "cpu_seconds", took.cpu_seconds,
                     "peak_resident_bytes", (json_int_t)took.peak_bytes);
}

json_t *rp_sheet_tell(const rp_sheet_task *task, const rp_sheet *sheet, int *flagged) {
    json_t *cells = json_array();
    if (sheet->failed[0] != 0)
        printf("%s: %s\n", sheet->graph, sheet->failed);
    printf("%s  nodes %zu  keep-all %" PRId64 "  min %" PRId64 "  floor %" PRId64
           "  one budget %.2f s %.0f MB (graph %.0f MB)  frontier %zu points %.2f s\n",
           sheet->graph, sheet->nodes, sheet->keep_all, sheet->minimum, sheet->floor,
           sheet->plan.cpu_seconds, (double)sheet->plan.peak_bytes / 1e6,
           (double)sheet->graph_bytes / 1e6, sheet->points, sheet->frontier.cpu_seconds);
    print_lines(task, sheet);
    for (size_t i = 0; i < sheet->count; i++) {
        char flags[RP_SHEET_FLAG_BYTES];
        rp_sheet_flags(task, sheet, i, flags);
        *flagged += (int)strlen(flags);
        json_array_append_new(cells, cell_object(task, sheet, i, flags));
    }
    fflush(stdout);
    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:I, s:o}", "graph",
                     sheet->graph, "failed", sheet->failed, "nodes", (json_int_t)sheet->nodes,
                     "values", (json_int_t)sheet->values, "keep_all_peak_bytes",
                     (json_int_t)sheet->keep_all, "min_feasible_bytes", (json_int_t)sheet->minimum,
                     "floor_bytes", (json_int_t)sheet->floor, "total_cost_ns",
                     (json_int_t)sheet->total, "graph_resident_bytes",
                     (json_int_t)sheet->graph_bytes, "one_budget", took_object(sheet->plan),
                     "frontier", took_object(sheet->frontier), "frontier_points",
                     (json_int_t)sheet->points, "budgets", cells);
}

void rp_sheet_print_head(void) {
    printf("| graph | nodes | 0.9 | 0.7 | 0.5 | 0.3 | min | one budget s | MB | 20 points s |\n"
           "| --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: |\n");
}

void rp_sheet_print_row(const rp_sheet *sheet) {
    static const double wanted[] = {0.9, 0.7, 0.5, 0.3};
    printf("| %s | %zu |", sheet->graph, sheet->nodes);
    for (size_t w = 0; w < sizeof wanted / sizeof wanted[0] && sheet->count > 0; w++) {
        size_t i = 0;
        while (i + 2 < sheet->count && sheet->cells[i].ratio > wanted[w] + 1e-9)
            i++;
        const rp_cell *c = &sheet->cells[i];
        if (c->feasible)
            printf(" %.2f (%.2f) |", 100 * share(c->report.recompute_cost_ns, sheet),
                   100 * share(c->report.lower_bound_ns, sheet));
        else
            printf(" - |");
    }
    if (sheet->count > 0) {
        const rp_cell *c = &sheet->cells[sheet->count - 1];
        printf(" %.3f: %.2f (%.2f) |", c->ratio, 100 * share(c->report.recompute_cost_ns, sheet),
               100 * share(c->report.lower_bound_ns, sheet));
    }
    printf(" %.2f | %.0f | %.2f |\n", sheet->plan.cpu_seconds, (double)sheet->plan.peak_bytes / 1e6,
           sheet->frontier.cpu_seconds);
}
