/* One graph under many budgets: what its plans cost, what is proven, what others reach. */
#ifndef REPRISE_TESTS_BENCH_PLANNER_SHEET_H
#define REPRISE_TESTS_BENCH_PLANNER_SHEET_H

#include <reprise/plan.h>

#include "child.h"
#include "planner_refs.h"

enum { RP_SHEET_CELLS = 64, RP_SHEET_POINTS = 20, RP_SHEET_NAME = 64 };

/* Where a graph comes from: a file, or a function of three numbers. */
typedef struct rp_source {
    const char *name, *path;
    rp_graph *(*make)(rp_context *context, const struct rp_source *source);
    uint32_t a, b, c;
    bool transformer; /* the bound must be close down to 0.3 */
} rp_source;

typedef struct rp_cell {
    double ratio;     /* of the keep-all peak */
    int64_t known_at; /* the reference's budget in live bytes, or -1 */
    bool feasible;
    rp_plan_report report;
} rp_cell;

/* A child fills it. */
typedef struct rp_sheet {
    char graph[RP_SHEET_NAME];
    size_t nodes, values;
    int64_t graph_bytes; /* resident memory with the graph, before any planning */
    int64_t keep_all, minimum, floor, total;
    rp_took plan, frontier; /* of one budget, of the whole curve, each from nothing */
    size_t points, count;
    rp_cell cells[RP_SHEET_CELLS];
    char failed[160]; /* "": it did not */
} rp_sheet;

typedef struct rp_sheet_task {
    const rp_source *source;
    const char *strategy;
    const json_t *refs; /* may be NULL */
    unsigned limit_seconds;
} rp_sheet_task;

/* The graph; ends the process if there is none. */
rp_graph *rp_source_open(rp_context *context, const rp_source *source);

/* `sheet` is shared memory. */
void rp_sheet_measure(const rp_sheet_task *task, rp_sheet *sheet);

/* What is wrong with a cell, a letter each: */
#define RP_SHEET_FLAGS                                                                             \
    "o misses a proven optimum by more than allowed, w worse than the best plan known, "           \
    "n no plan where one is known, b bound above a known plan, d not below the online planner, "   \
    "g gap above 1 % on a transformer down to 0.3, m costs more than a smaller budget, "           \
    "p peak above the budget"
enum { RP_SHEET_FLAG_BYTES = 16 };
void rp_sheet_flags(const rp_sheet_task *task, const rp_sheet *sheet, size_t cell,
                    char flags[RP_SHEET_FLAG_BYTES]);

/* Prints a block; returns its JSON and adds to the number of flags. */
json_t *rp_sheet_tell(const rp_sheet_task *task, const rp_sheet *sheet, int *flagged);

/* The row of the short table, in Markdown. */
void rp_sheet_print_head(void);
void rp_sheet_print_row(const rp_sheet *sheet);

#endif
