/* plan_graph: plans a graph file under a budget in bytes, or checks a plan made elsewhere. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/load_plan.h"
#include "common/options.h"
#include "common/report.h"
#include "common/walk.h"

typedef struct arguments {
    const char *graph, *strategy, *out, *verify, *json;
    size_spec budget;
    int64_t frontier;
    bool run_null, print, quiet;
} arguments;

typedef struct session {
    const arguments *arguments;
    rp_context *context;
    rp_graph *graph;
    rp_plan *plan;
    rp_plan_report report;
    rp_frontier_point *frontier;
    size_t frontier_count;
    walk_report walk;
    output_set outputs;
    report_target json;
    const char *out; /* temporary name of --out */
    failure failure;
} session;

static bool parse(int argc, char **argv, arguments *a, bool *help, failure *failure) {
    const option_row rows[] = {
        {"GRAPH.json", OPTION_OPERAND, &a->graph, NULL, "the graph, `reprise-graph` version 1"},
        {"budget", OPTION_SIZE, &a->budget, "SIZE", "bytes for everything (default: no limit)"},
        {"strategy", OPTION_TEXT, &a->strategy, "NAME", "one of the list below"},
        {"out", OPTION_TEXT, &a->out, "PLAN.json", "write the plan"},
        {"verify", OPTION_TEXT, &a->verify, "PLAN.json", "check this plan instead of making one"},
        {"frontier", OPTION_COUNT, &a->frontier, "N",
         "at most N points from the minimum to keep-all"},
        {"run-null", OPTION_FLAG, &a->run_null, NULL, "run the plan without memory and kernels"},
        {"print", OPTION_FLAG, &a->print, NULL, "print the plan, one step a line"},
        {"json", OPTION_TEXT, &a->json, "FILE", "write the result object; - is standard output"},
        {"quiet", OPTION_FLAG, &a->quiet, NULL, "print nothing that was not asked for"},
    };
    const option_table table = {"plan_graph",
                                "Plans what to keep and what to recompute within a budget.", rows,
                                sizeof rows / sizeof rows[0]};
    if (!options_parse(&table, argc, argv, help, failure))
        return false;
    if (*help) {
        options_print(&table);
        printf("Strategies:\n");
        for (size_t i = 0; rp_strategy_name(i) != NULL; i++)
            printf("  %-15s %s\n", rp_strategy_name(i), rp_strategy_description(i));
    }
    return true;
}

/* ---- Planning -------------------------------------------------------------------------------- */

static bool open_files(session *s) {
    const arguments *a = s->arguments;
    outputs_spare(&s->outputs, "GRAPH.json", a->graph);
    if (a->verify != NULL)
        outputs_spare(&s->outputs, "--verify", a->verify);
    if (a->out != NULL) {
        s->out = outputs_add(&s->outputs, "--out", a->out, &s->failure);
        if (s->out == NULL)
            return false;
    }
    return report_open(&s->json, a->json, &s->outputs, &s->failure);
}

static bool resolve_budget(session *s, int64_t *bytes) {
    if (size_is_relative(&s->arguments->budget)) {
        const rp_status status = rp_plan_limits(s->graph, &s->report);
        if (status != RP_OK)
            return fail_library(&s->failure, s->context, status, "--budget");
    }
    if (!size_resolve(&s->arguments->budget, s->report.keep_all_peak_bytes,
                      s->report.min_feasible_bytes, bytes))
        return fail(&s->failure, STATUS_USAGE, "--budget: more than 2^63 - 1 bytes");
    return true;
}

/* With --verify reads a plan, else makes one. On STATUS_INFEASIBLE the report has the limits. */
static bool make_plan(session *s) {
    const arguments *a = s->arguments;
    int64_t budget = RP_UNLIMITED;
    if (!resolve_budget(s, &budget))
        return false;
    rp_plan_options options = RP_PLAN_OPTIONS;
    options.budget_bytes = budget;
    options.strategy = a->strategy;
    if (a->verify != NULL)
        return load_plan(s->graph, s->context, a->verify, budget, &s->plan, &s->report,
                         &s->failure);
    const rp_status status = rp_plan_create(s->graph, &options, &s->plan, &s->report);
    if (status == RP_OK)
        return true;
    s->report.budget_bytes = budget;
    return fail_library(&s->failure, s->context, status, NULL);
}

static bool find_frontier(session *s) {
    size_t count = (size_t)s->arguments->frontier;
    if (count == 0)
        return true;
    const size_t most = (size_t)1 << 20; /* no family of plans is larger */
    count = count < most ? count : most;
    s->frontier = calloc(count, sizeof *s->frontier);
    if (s->frontier == NULL)
        return fail_memory(&s->failure, "the frontier");
    const rp_status status =
        rp_plan_frontier(s->graph, s->arguments->strategy, s->frontier, &count);
    s->frontier_count = status == RP_OK ? count : 0;
    return status == RP_OK || fail_library(&s->failure, s->context, status, "--frontier");
}

static bool run_null(session *s) {
    if (!s->arguments->run_null)
        return true;
    if (!walk_plan(s->plan, &s->walk, &s->failure))
        return false;
    if (s->walk.measured_peak_bytes != s->report.peak_bytes ||
        s->walk.replays != s->report.recompute_nodes) {
        return fail(&s->failure, STATUS_OTHER,
                    "--run-null: the run reached byte %" PRId64 " with %" PRIu64
                    " replays, the plan says %" PRId64 " and %" PRIu64,
                    s->walk.measured_peak_bytes, s->walk.replays, s->report.peak_bytes,
                    s->report.recompute_nodes);
    }
    return true;
}

static bool save(session *s) {
    if (s->out == NULL)
        return true;
    const rp_status status = rp_plan_save(s->plan, s->out);
    if (status == RP_IO_ERROR)
        return fail(&s->failure, STATUS_OTHER, "--out: %s", rp_context_message(s->context));
    return status == RP_OK || fail_library(&s->failure, s->context, status, "--out");
}

/* ---- Telling --------------------------------------------------------------------------------- */

static const char *node_name(const session *s, uint32_t node) {
    if (node == RP_NONE || node >= rp_graph_node_count(s->graph))
        return "";
    rp_node_info info;
    rp_graph_node(s->graph, node, &info);
    return info.name;
}

static json_t *frontier_object(const session *s) {
    json_t *list = json_array();
    for (size_t i = 0; i < s->frontier_count; i++) {
        const rp_frontier_point *p = &s->frontier[i];
        json_array_append_new(list, json_pack("{s:I,s:I,s:I}", "budget_bytes",
                                              (json_int_t)p->budget_bytes, "peak_bytes",
                                              (json_int_t)p->peak_bytes, "recompute_cost_ns",
                                              (json_int_t)p->recompute_cost_ns));
    }
    return list;
}

static json_t *result_object(const session *s) {
    const rp_plan_report *r = &s->report;
    const bool feasible = s->plan != NULL;
    const char *asked = s->arguments->strategy != NULL ? s->arguments->strategy : "auto";
    json_t *object = json_pack(
        "{s:s, s:s, s:o, s:o, s:o, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, "
        "s:o, s:o, s:I, "
        "s:b, s:o}",
        "program", "plan_graph", "version", RP_VERSION, "graph",
        report_text(rp_graph_name(s->graph)), "graph_hash", report_hash(rp_graph_hash(s->graph)),
        "strategy", report_text(feasible ? rp_plan_strategy(s->plan) : asked), "feasible", feasible,
        "budget_bytes", (json_int_t)r->budget_bytes, "peak_bytes",
        (json_int_t)(feasible ? r->peak_bytes : 0), "live_peak_bytes",
        (json_int_t)(feasible ? r->live_peak_bytes : 0), "keep_all_peak_bytes",
        (json_int_t)r->keep_all_peak_bytes, "min_feasible_bytes", (json_int_t)r->min_feasible_bytes,
        "strategy_min_bytes", (json_int_t)r->strategy_min_bytes, "floor_bytes",
        (json_int_t)r->floor_bytes, "peak_node", report_text(node_name(s, r->peak_node)),
        "recompute_nodes", (json_int_t)(feasible ? r->recompute_nodes : 0), "recompute_cost_ns",
        (json_int_t)(feasible ? r->recompute_cost_ns : 0), "total_cost_ns",
        (json_int_t)rp_graph_total_cost_ns(s->graph), "plan_ms", report_real(r->plan_ms),
        "plan_hash", report_hash(feasible ? r->plan_hash : 0), "lower_bound_ns",
        (json_int_t)(feasible ? r->lower_bound_ns : 0), "proven",
        feasible && r->recompute_cost_ns == r->lower_bound_ns, "frontier", frontier_object(s));
    if (object != NULL && feasible && s->arguments->run_null) {
        json_object_set_new(object, "run_null",
                            json_pack("{s:I, s:I, s:I}", "measured_peak_bytes",
                                      (json_int_t)s->walk.measured_peak_bytes, "runs",
                                      (json_int_t)s->walk.runs, "replays",
                                      (json_int_t)s->walk.replays));
    }
    return object;
}

static void print_bytes(const char *what, int64_t bytes) {
    printf("%-12s %" PRId64 " bytes (%.2f MiB)\n", what, bytes, (double)bytes / 1048576.0);
}

static void print_summary(const session *s) {
    const rp_plan_report *r = &s->report;
    const int64_t total = rp_graph_total_cost_ns(s->graph);
    printf("%-12s %s: %zu nodes, %zu values\n", "graph", rp_graph_name(s->graph),
           rp_graph_node_count(s->graph), rp_graph_value_count(s->graph));
    printf("%-12s %s\n", "strategy", rp_plan_strategy(s->plan));
    if (r->budget_bytes == RP_UNLIMITED)
        printf("%-12s none\n", "budget");
    else
        print_bytes("budget", r->budget_bytes);
    print_bytes("peak", r->peak_bytes);
    printf("%-12s %s\n", "peak node", node_name(s, r->peak_node));
    print_bytes("keep-all", r->keep_all_peak_bytes);
    print_bytes("minimum", r->min_feasible_bytes);
    printf("%-12s %" PRIu64 " nodes, %" PRId64 " ns, %.2f %% of the cost of all nodes\n",
           "recompute", r->recompute_nodes, r->recompute_cost_ns,
           total > 0 ? 100.0 * (double)r->recompute_cost_ns / (double)total : 0.0);
    printf("%-12s %" PRId64 " ns%s\n", "lower bound", r->lower_bound_ns,
           r->recompute_cost_ns == r->lower_bound_ns ? ": the plan is optimal" : "");
    printf("%-12s %016" PRIx64 ", %.1f ms\n", "plan", r->plan_hash, r->plan_ms);
    if (s->arguments->run_null) {
        printf("%-12s %" PRIu64 " runs, %" PRIu64 " of them replays, measured peak %" PRId64
               " bytes\n",
               "null run", s->walk.runs, s->walk.replays, s->walk.measured_peak_bytes);
    }
    for (size_t i = 0; i < s->frontier_count; i++) {
        printf("%-12s %" PRId64 " bytes, recompute %" PRId64 " ns\n", i == 0 ? "frontier" : "",
               s->frontier[i].peak_bytes, s->frontier[i].recompute_cost_ns);
    }
}

static bool write_text(void *user, const char *text, size_t length) {
    return fwrite(text, 1, length, user) == length;
}

static bool print_plan(session *s) {
    if (!s->arguments->print)
        return true;
    const rp_status status = rp_plan_print(s->plan, write_text, stdout);
    if (status == RP_IO_ERROR)
        return fail_write(&s->failure, "standard output");
    return status == RP_OK || fail_library(&s->failure, s->context, status, "--print");
}

/* ---- The program ----------------------------------------------------------------------------- */

static bool load_graph(session *s) {
    rp_status status = rp_context_create(NULL, &s->context);
    if (status != RP_OK)
        return fail_library(&s->failure, NULL, status, NULL);
    status = rp_graph_load(s->context, s->arguments->graph, &s->graph);
    return status == RP_OK || fail_library(&s->failure, s->context, status, s->arguments->graph);
}

static bool plan_and_tell(session *s) {
    const bool to_people =
        !s->arguments->quiet && (s->json.path == NULL || s->json.temporary != NULL);
    if (!make_plan(s)) {
        if (s->failure.status != STATUS_INFEASIBLE)
            return false;
        failure second; /* the result object tells the minimum; the program still ends with 3 */
        if (!report_write(&s->json, result_object(s), &second) ||
            !outputs_commit(&s->outputs, "--json", &second))
            s->failure = second;
        return false;
    }
    if (!find_frontier(s) || !run_null(s) || !save(s) || !print_plan(s))
        return false;
    if (to_people)
        print_summary(s);
    return report_write(&s->json, result_object(s), &s->failure) &&
           report_flush_stdout(&s->failure) && outputs_commit(&s->outputs, NULL, &s->failure);
}

int main(int argc, char **argv) {
    arguments arguments = {0};
    session s = {.arguments = &arguments, .failure = {STATUS_DONE, ""}};
    bool help = false;
    if (parse(argc, argv, &arguments, &help, &s.failure)) {
        if (help)
            report_flush_stdout(&s.failure);
        else if (open_files(&s) && load_graph(&s))
            plan_and_tell(&s);
    }
    if (s.failure.status != STATUS_DONE)
        fprintf(stderr, "plan_graph: %s\n", s.failure.text);
    free(s.frontier);
    rp_plan_destroy(s.plan);
    rp_graph_destroy(s.graph);
    rp_context_destroy(s.context);
    outputs_clear(&s.outputs);
    return s.failure.status;
}
