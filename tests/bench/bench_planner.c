/* bench_planner [options] [FILE.json | FOLDER]...
 *
 * All figures of the planner, as tables and as JSON, on graphs that it makes itself and on those of
 * the files and folders named; a refs.json beside a file says what is known of its graphs. Times
 * are processor seconds of one thread, each from a graph in memory of which nothing is known. */
#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "models.h"
#include "plan_object.h"
#include "planner_counts.h"
#include "planner_sheet.h"

enum { MOST_SOURCES = 256, LIMIT_SECONDS = 300, COUNT_SECONDS = 900 };

typedef struct bench {
    rp_source sources[MOST_SOURCES];
    size_t count;
    const char *strategy, *json_path;
    bool is_long, own, sheets, counts, growth, huge;
    json_t *root;
    int flagged;
} bench;

/* ---- Graphs of our own ----------------------------------------------------------------------- */

static rp_graph *make_transformer(rp_context *context, const rp_source *s) {
    return rp_test_transformer(context, s->a, s->b != 0);
}

/* GPT-3 175B: 12288 wide, 96 heads, its vocabulary, sixteen sequences of 2048 tokens. */
static rp_graph *make_gpt3(rp_context *context, const rp_source *s) {
    const rp_test_shape shape = {s->a, 16 * 2048, 12288, 96, 50257, 2048, s->b != 0};
    return rp_test_transformer_of(context, &shape);
}

static rp_graph *make_griewank(rp_context *context, const rp_source *s) {
    return rp_test_griewank(context, s->a);
}

static rp_graph *make_uneven(rp_context *context, const rp_source *s) {
    return rp_test_uneven_chain(context, s->b, s->a);
}

static rp_graph *make_unet(rp_context *context, const rp_source *s) {
    return rp_test_conv_unet(context, s->a);
}

static rp_graph *make_layered(rp_context *context, const rp_source *s) {
    return rp_test_layered(context, s->b, s->a, s->c != 0);
}

static const rp_source own_sources[] = {
    {"transformer 4 fused", NULL, make_transformer, 4, 0, 0, true},
    {"transformer 12 fused", NULL, make_transformer, 12, 0, 0, true},
    {"transformer 24 fused", NULL, make_transformer, 24, 0, 0, true},
    {"transformer 48 fused", NULL, make_transformer, 48, 0, 0, true},
    {"transformer 96 fused", NULL, make_transformer, 96, 0, 0, true},
    {"transformer 4 unfused", NULL, make_transformer, 4, 1, 0, true},
    {"transformer 12 unfused", NULL, make_transformer, 12, 1, 0, true},
    {"transformer 96 unfused", NULL, make_transformer, 96, 1, 0, true},
    {"GPT-3 96 fused", NULL, make_gpt3, 96, 0, 0, true},
    {"GPT-3 96 unfused", NULL, make_gpt3, 96, 1, 0, true},
    {"uniform chain 32", NULL, make_griewank, 32, 0, 0, false},
    {"uniform chain 96", NULL, make_griewank, 96, 0, 0, false},
    {"uneven chain 24", NULL, make_uneven, 24, 1, 0, false},
    {"uneven chain 96", NULL, make_uneven, 96, 2, 0, false},
    {"U-Net 5", NULL, make_unet, 5, 0, 0, false},
    {"U-Net 10", NULL, make_unet, 10, 0, 0, false},
    {"layered 60", NULL, make_layered, 60, 1, 0, false},
    {"layered 250", NULL, make_layered, 250, 2, 0, false},
    {"layered 60 backward", NULL, make_layered, 60, 3, 1, false},
    {"layered 250 backward", NULL, make_layered, 250, 4, 1, false},
    {"layered 1000 backward", NULL, make_layered, 1000, 5, 1, false},
};
enum { OWN = sizeof own_sources / sizeof own_sources[0] };

/* ---- Files ----------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_file(bench *b, const char *path) {
    if (b->count < MOST_SOURCES)
        b->sources[b->count++] = (rp_source){.name = path, .path = path};
}

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The graphs of a folder, by name; refs.json is none. Paths stay until the end. */
static bool add_folder(bench *b, const char *folder) {
    char *paths[MOST_SOURCES];
    size_t count = 0;
    DIR *open = opendir(folder);
    if (open == NULL)
        return false;
    for (struct dirent *entry = readdir(open); entry != NULL; entry = readdir(open)) {
        const size_t bytes = strlen(folder) + strlen(entry->d_name) + 2;
        if (!ends_with(entry->d_name, ".json") || strcmp(entry->d_name, "refs.json") == 0 ||
            count == MOST_SOURCES)
            continue;
        paths[count] = malloc(bytes);
        RP_REQUIRE(paths[count] != NULL, "no memory");
        snprintf(paths[count++], bytes, "%s/%s", folder, entry->d_name);
    }
    closedir(open);
    qsort(paths, count, sizeof *paths, by_name);
    for (size_t i = 0; i < count; i++)
        add_file(b, paths[i]);
    return true;
}

static bool add_path(bench *b, const char *path) {
    struct stat about;
    if (stat(path, &about) != 0)
        return false;
    if (S_ISDIR(about.st_mode))
        return add_folder(b, path);
    add_file(b, path);
    return true;
}

/* ---- Sections -------------------------------------------------------------------------------- */

static void measure_sheets(bench *b) {
    json_t *list = json_array();
    rp_sheet *sheets = rp_child_share(MOST_SOURCES * sizeof *sheets);
    RP_REQUIRE(sheets != NULL, "no memory");
    for (size_t i = 0; i < b->count; i++) {
        const char *path = b->sources[i].path;
        json_t *refs = path != NULL ? rp_refs_load_beside(path) : NULL;
        const rp_sheet_task task = {&b->sources[i], b->strategy, refs, LIMIT_SECONDS};
        rp_sheet_measure(&task, &sheets[i]);
        json_array_append_new(list, rp_sheet_tell(&task, &sheets[i], &b->flagged));
        json_decref(refs);
    }
    json_object_set_new(b->root, "graphs", list);
    printf("\nOverhead and (bound), percent of the cost of running everything once, by budget as a "
           "share of the keep-all peak:\n");
    rp_sheet_print_head();
    for (size_t i = 0; i < b->count; i++)
        rp_sheet_print_row(&sheets[i]);
    printf("\nflags: %d (%s)\n", b->flagged, RP_SHEET_FLAGS);
    rp_child_unshare(sheets, MOST_SOURCES * sizeof *sheets);
}

static void count_optima(bench *b, const char *what, void (*work)(void *, void *),
                         rp_counts_task task) {
    rp_counts *counts = rp_child_share(sizeof *counts);
    char why[160] = "";
    RP_REQUIRE(counts != NULL, "no memory");
    const rp_child child = {work, &task, counts, COUNT_SECONDS, 0};
    const bool done = rp_child_run(&child, why, sizeof why);
    printf("%-36s %-8s %6d budgets, %d not optimal, %d without a plan, worst %.3f %%, %d "
           "unproven%s%s\n",
           what, task.strategy, counts->points, counts->missed, counts->none, 100 * counts->worst,
           counts->unproven, done ? "" : ": ", why);
    fflush(stdout);
    json_array_append_new(json_object_get(b->root, "optima"),
                          json_pack("{s:s, s:s, s:i, s:i, s:i, s:f, s:i, s:b}", "what", what,
                                    "strategy", task.strategy, "budgets", counts->points,
                                    "not_optimal", counts->missed, "without_plan", counts->none,
                                    "worst", counts->worst, "unproven", counts->unproven,
                                    "finished", done));
    rp_child_unshare(counts, sizeof *counts);
}

static bool has_strategy(const char *name) {
    size_t i = 0;
    while (rp_strategy_name(i) != NULL && strcmp(rp_strategy_name(i), name) != 0)
        i++;
    return rp_strategy_name(i) != NULL;
}

static void count_all(bench *b) {
    const uint32_t more = b->is_long ? 5 : 1;
    json_object_set_new(b->root, "optima", json_array());
    printf("\nWhere the optimum is known (every distinct budget, live bytes):\n");
    count_optima(b, "chains up to 10 ops, exact", rp_counts_exact,
                 (rp_counts_task){0, 200 * more, b->strategy, 0});
    count_optima(b, "random graphs up to 12 nodes, exact", rp_counts_exact,
                 (rp_counts_task){1, 2000 * more, b->strategy, 0});
    if (has_strategy("revolve"))
        count_optima(b, "uniform chains 2..96, Griewank", rp_counts_griewank,
                     (rp_counts_task){0, 2, "revolve", 96});
    count_optima(b, "uniform chains 2..32, Griewank", rp_counts_griewank,
                 (rp_counts_task){0, 2, b->strategy, 32});
    if (b->is_long)
        count_optima(b, "uniform chains 33..96, Griewank", rp_counts_griewank,
                     (rp_counts_task){0, 33, b->strategy, 96});
    else
        count_optima(b, "uniform chain 96, Griewank", rp_counts_griewank,
                     (rp_counts_task){0, 96, b->strategy, 96});
}

/* ---- Growth ---------------------------------------------------------------------------------- */

typedef struct growth_task {
    rp_source source;
    const char *strategy;
    bool unlimited; /* or half of the keep-all peak */
} growth_task;

typedef struct growth {
    size_t nodes;
    int64_t graph_bytes;
    rp_took took;
    rp_status status;
} growth;

static void work_on_growth(void *argument, void *result) {
    const growth_task *task = argument;
    growth *g = result;
    rp_context *context = rp_test_context(1);
    rp_plan *plan = NULL;
    rp_graph *graph = rp_source_open(context, &task->source);
    g->nodes = rp_graph_node_count(graph);
    g->graph_bytes = rp_took_end(rp_took_begin()).peak_bytes;
    rp_plan_options budget = {sizeof budget, RP_UNLIMITED, task->strategy};
    if (!task->unlimited) {
        RP_REQUIRE_OK(context, rp_plan_find_keep_all(graph, &budget.budget_bytes));
        budget.budget_bytes /= 2;
    }
    const rp_took begin = rp_took_begin();
    g->status = rp_plan_create(graph, &budget, &plan, NULL);
    g->took = rp_took_end(begin);
}

/* The slope of log seconds over log nodes, least squares. */
static double fit_exponent(const growth *points, size_t count) {
    double sx = 0, sy = 0, sxx = 0, sxy = 0, n = 0;
    for (size_t i = 0; i < count; i++) {
        if (points[i].nodes == 0 || points[i].took.cpu_seconds <= 0)
            continue;
        const double x = log((double)points[i].nodes), y = log(points[i].took.cpu_seconds);
        sx += x, sy += y, sxx += x * x, sxy += x * y, n++;
    }
    return n > 1 ? (n * sxy - sx * sy) / (n * sxx - sx * sx) : 0;
}

static void grow(bench *b, const char *what, rp_source source, const uint32_t *sizes, size_t count,
                 uint32_t per_unit) {
    growth *points = rp_child_share(count * sizeof *points);
    json_t *list = json_array();
    RP_REQUIRE(points != NULL, "no memory");
    printf("%-22s", what);
    for (size_t i = 0; i < count; i++) {
        char why[160] = "";
        source.a = sizes[i] / per_unit;
        growth_task task = {source, b->strategy, false};
        const rp_child child = {work_on_growth, &task, &points[i], LIMIT_SECONDS, 0};
        if (rp_child_run(&child, why, sizeof why))
            printf("  %zu: %.2f s %.0f MB", points[i].nodes, points[i].took.cpu_seconds,
                   (double)points[i].took.peak_bytes / 1e6);
        else
            printf("  %zu: %s", points[i].nodes, why);
        fflush(stdout);
        json_array_append_new(
            list,
            json_pack("{s:I, s:f, s:f, s:I, s:I, s:s}", "nodes", (json_int_t)points[i].nodes,
                      "seconds", points[i].took.seconds, "cpu_seconds", points[i].took.cpu_seconds,
                      "peak_resident_bytes", (json_int_t)points[i].took.peak_bytes,
                      "graph_resident_bytes", (json_int_t)points[i].graph_bytes, "failed", why));
    }
    const double exponent = fit_exponent(points, count);
    printf("  exponent %.2f\n", exponent);
    json_array_append_new(
        json_object_get(b->root, "growth"),
        json_pack("{s:s, s:f, s:o}", "what", what, "exponent", exponent, "points", list));
    rp_child_unshare(points, count * sizeof *points);
}

static void measure_growth(bench *b) {
    static const uint32_t sizes[] = {1000, 3000, 10000, 30000, 100000};
    static const uint32_t ends[] = {1000, 10000};
    const uint32_t *some = b->is_long ? sizes : ends;
    const size_t few = b->is_long ? 5 : 2;
    json_object_set_new(b->root, "growth", json_array());
    printf("\nOne budget by size (nodes: processor seconds, resident MB):\n");
    grow(b, "transformer", (rp_source){.name = "", .make = make_transformer}, sizes, 5, 18);
    grow(b, "layered, backward", (rp_source){.name = "", .make = make_layered, .b = 7, .c = 1},
         some, few, 1);
    grow(b, "layered", (rp_source){.name = "", .make = make_layered, .b = 8}, some, few, 1);
}

/* Ten million nodes: a plan, or a status that says why not; never a crash. */
static void plan_ten_million(bench *b) {
    growth *g = rp_child_share(sizeof *g);
    char why[160] = "";
    growth_task task = {{.name = "", .make = make_uneven, .a = 5000000, .b = 1}, "keep-all", true};
    const rp_child child = {work_on_growth, &task, g, 3600, (int64_t)12 << 30};
    RP_REQUIRE(g != NULL, "no memory");
    const bool done = rp_child_run(&child, why, sizeof why);
    printf("\n%zu nodes, keep-all, within 12 GiB: %s%s, %.1f s, %.0f MB\n", g->nodes,
           done ? rp_status_name(g->status) : "", why, g->took.cpu_seconds,
           (double)g->took.peak_bytes / 1e6);
    json_object_set_new(b->root, "ten_million",
                        json_pack("{s:I, s:s, s:f, s:I}", "nodes", (json_int_t)g->nodes, "outcome",
                                  done ? rp_status_name(g->status) : why, "cpu_seconds",
                                  g->took.cpu_seconds, "peak_resident_bytes",
                                  (json_int_t)g->took.peak_bytes));
    rp_child_unshare(g, sizeof *g);
}

/* ---- The program ----------------------------------------------------------------------------- */

static const char usage[] =
    "usage: bench_planner [options] [FILE.json | FOLDER]...\n"
    "  --json FILE      writes all figures\n"
    "  --strategy NAME  instead of auto\n"
    "  --only PART      graphs, files, optima, growth or huge (ten million nodes)\n"
    "  --long           more of everything, and huge\n";

static bool parse(int argc, char **argv, bench *b) {
    const char *only = NULL;
    *b = (bench){.strategy = "auto", .own = true, .sheets = true, .counts = true, .growth = true};
    for (int i = 1; i < argc; i++) {
        const bool more = i + 1 < argc;
        if (strcmp(argv[i], "--json") == 0 && more)
            b->json_path = argv[++i];
        else if (strcmp(argv[i], "--strategy") == 0 && more)
            b->strategy = argv[++i];
        else if (strcmp(argv[i], "--only") == 0 && more)
            only = argv[++i];
        else if (strcmp(argv[i], "--long") == 0)
            b->is_long = true;
        else if (argv[i][0] == '-')
            return false;
    }
    if (only != NULL) {
        b->own = strcmp(only, "graphs") == 0;
        b->sheets = b->own || strcmp(only, "files") == 0;
        b->counts = strcmp(only, "optima") == 0;
        b->growth = strcmp(only, "growth") == 0;
        b->huge = strcmp(only, "huge") == 0;
        if (!b->sheets && !b->counts && !b->growth && !b->huge)
            return false;
    }
    for (size_t i = 0; i < OWN && b->own; i++)
        b->sources[b->count++] = own_sources[i];
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-')
            i += strcmp(argv[i], "--long") != 0;
        else if (!add_path(b, argv[i]))
            return fprintf(stderr, "bench_planner: %s: there is no such file\n", argv[i]), false;
    }
    return true;
}

int main(int argc, char **argv) {
    static bench b;
    if (!parse(argc, argv, &b))
        return fputs(usage, stderr), 2;
    b.root = json_pack("{s:s, s:s}", "program", "bench_planner", "strategy", b.strategy);
    const rp_took begin = rp_took_begin();
    if (b.sheets)
        measure_sheets(&b);
    if (b.counts)
        count_all(&b);
    if (b.growth)
        measure_growth(&b);
    if (b.huge || (b.growth && b.is_long))
        plan_ten_million(&b);
    const double seconds = rp_took_end(begin).seconds;
    printf("\ntook %.0f s\n", seconds);
    json_object_set_new(b.root, "flags", json_integer(b.flagged));
    json_object_set_new(b.root, "seconds", json_real(seconds));
    if (b.json_path != NULL && json_dump_file(b.root, b.json_path, JSON_INDENT(1)) != 0)
        return fprintf(stderr, "bench_planner: %s: cannot be written\n", b.json_path), 1;
    json_decref(b.root);
    return 0;
}
