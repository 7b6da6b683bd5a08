/* Plan files that are not what they claim. */
#include "graphs.h"
#include "malformed.h"
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

static rp_status read_plan(const rp_malformed *s, const char *text, size_t length, bool *made) {
    rp_plan *plan = NULL;
    const rp_status status = rp_plan_parse(s->graph, text, length, RP_UNLIMITED, &plan, NULL);
    *made = plan != NULL;
    rp_plan_destroy(plan);
    return status;
}

typedef struct planned {
    rp_malformed s;
    rp_graph *graph;
    char *text;
} planned;

/* A plan of a graph with recompute, as it is saved. */
static planned begin_plan(void) {
    planned p = {.s = {.read = read_plan, .context = rp_test_context(1)}};
    char path[RP_TEST_PATH];
    rp_plan *plan = NULL;
    rp_plan_options options = RP_PLAN_OPTIONS;
    rp_plan_report report;
    p.graph = rp_test_chain(p.s.context, 4, 1000, NULL, 10);
    RP_REQUIRE_OK(p.s.context, rp_plan_limits(p.graph, &report));
    options.budget_bytes = report.min_feasible_bytes;
    RP_REQUIRE_OK(p.s.context, rp_plan_create(p.graph, &options, &plan, NULL));
    rp_test_temporary(path, "plan.json");
    RP_REQUIRE_OK(p.s.context, rp_plan_save(plan, path));
    rp_plan_destroy(plan);
    p.text = rp_test_read_file(path, &p.s.length);
    remove(path);
    p.s.graph = p.graph;
    p.s.text = p.text;
    return p;
}

static void end_plan(planned *p) {
    free(p->text);
    rp_graph_destroy(p->graph);
    rp_context_destroy(p->s.context);
}

static void test_plan_cut_at_every_byte_is_refused(void) {
    planned p = begin_plan();
    rp_malformed_truncate(&p.s);
    end_plan(&p);
}

static void test_damaged_plan_never_crashes(void) {
    planned p = begin_plan();
    rp_malformed_flip(&p.s, rp_test_samples(3000, 100000));
    rp_malformed_splice(&p.s, rp_test_samples(3000, 100000));
    end_plan(&p);
}

static void test_plan_with_any_value_replaced_never_crashes(void) {
    planned p = begin_plan();
    rp_malformed_replace(&p.s);
    end_plan(&p);
}

static const rp_test tests[] = {
    RP_TEST(test_plan_cut_at_every_byte_is_refused),
    RP_TEST(test_damaged_plan_never_crashes),
    RP_TEST(test_plan_with_any_value_replaced_never_crashes),
};
RP_SUITE(malformed_plan, tests)
