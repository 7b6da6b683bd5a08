/* The text form of a plan: one step a line, names instead of numbers. */
#include <string.h>

#include "file.h"
#include "plan_object.h"

enum { PIECE_BYTES = 1 << 14 };

/* A plan being printed. */
typedef struct printer {
    const rp_plan *plan;
    rp_text text; /* not yet written */
    bool *ran;    /* node */
    size_t next;  /* placement */
    bool (*write)(void *user, const char *text, size_t length);
    void *user;
} printer;

/* Names come from outside: control characters would break the lines. */
static void put_name(printer *p, const char *name) {
    for (const char *c = name; *c != '\0'; c++) {
        const bool control = (unsigned char)*c < 0x20 || *c == 0x7f;
        rp_text_append(&p->text, control ? "?" : c, 1);
    }
}

static void put_value(printer *p, uint32_t value) {
    put_name(p, rp_value_name(p->plan->graph, value));
}

static bool flush(printer *p, size_t at_least) {
    if (p->text.failed)
        return false;
    if (p->text.count < at_least || p->text.count == 0)
        return true;
    const bool more = p->write(p->user, p->text.data, p->text.count);
    p->text.count = 0;
    return more;
}

static void put_head(printer *p) {
    const rp_plan_report *r = &p->plan->report;
    rp_text_format(&p->text, "plan ");
    put_name(p, p->plan->strategy);
    rp_text_format(&p->text, " of graph ");
    put_name(p, rp_graph_name(p->plan->graph));
    rp_text_format(&p->text, "\npeak %lld bytes, %lld of them live", (long long)r->peak_bytes,
                   (long long)r->live_peak_bytes);
    if (r->budget_bytes != RP_UNLIMITED)
        rp_text_format(&p->text, ", budget %lld", (long long)r->budget_bytes);
    rp_text_format(&p->text, "\nrecomputes %llu nodes in %lld ns; all nodes once take %lld ns\n",
                   (unsigned long long)r->recompute_nodes, (long long)r->recompute_cost_ns,
                   (long long)r->total_cost_ns);
}

static void put_place(printer *p, int64_t offset, int64_t bytes) {
    rp_text_format(&p->text, " [%lld, %lld)", (long long)offset, (long long)(offset + bytes));
}

static void put_persistent(printer *p) {
    const rp_graph *graph = p->plan->graph;
    for (size_t i = 0; i < p->plan->layout.count; i++) {
        const rp_placement *place = &p->plan->layout.placements[i];
        if (place->step > 0)
            break;
        if (place->value == RP_NONE || !graph->values[place->value].persistent)
            continue;
        rp_text_format(&p->text, "       persistent ");
        put_value(p, place->value);
        put_place(p, place->offset, graph->values[place->value].bytes);
        rp_text_format(&p->text, "\n");
    }
}

/* What begins at the step, and where. */
static void put_begins(printer *p, size_t step) {
    const rp_graph *graph = p->plan->graph;
    const rp_layout *layout = &p->plan->layout;
    const rp_step s = p->plan->schedule.steps[step];
    for (; p->next < layout->count && layout->placements[p->next].step <= step; p->next++) {
        const rp_placement *place = &layout->placements[p->next];
        if (place->value == RP_NONE) {
            rp_text_format(&p->text, " workspace");
            put_place(p, place->offset, graph->nodes[s.index].workspace);
        } else if (!graph->values[place->value].persistent) {
            rp_text_format(&p->text, " ");
            put_value(p, place->value);
            put_place(p, place->offset, graph->values[place->value].bytes);
        }
    }
}

static void put_step(printer *p, size_t step) {
    static const char *const words[] = {
        [RP_STEP_RUN] = "run ",     [RP_STEP_DROP] = "drop ",     [RP_STEP_OFFLOAD] = "offload ",
        [RP_STEP_FETCH] = "fetch ", [RP_STEP_WAIT] = "wait for ",
    };
    const rp_step s = p->plan->schedule.steps[step];
    const bool again = s.kind == RP_STEP_RUN && p->ran[s.index];
    rp_text_format(&p->text, "%6zu %s", step, again ? "recompute " : words[s.kind]);
    if (s.kind == RP_STEP_RUN) {
        put_name(p, rp_node_name(p->plan->graph, s.index));
        p->ran[s.index] = true;
        rp_text_format(&p->text, " ->");
    } else {
        put_value(p, s.index);
    }
    put_begins(p, step);
    rp_text_format(&p->text, step == p->plan->report.peak_step ? "   <- peak\n" : "\n");
}

rp_status rp_plan_print(const rp_plan *plan,
                        bool (*write)(void *user, const char *text, size_t length), void *user) {
    if (plan == NULL)
        return RP_INVALID_ARGUMENT;
    rp_context *context = plan->graph->context;
    if (write == NULL)
        return rp_fail(context, RP_INVALID_ARGUMENT, "plan: nothing to write with");
    printer p = {.plan = plan,
                 .text = {.context = context},
                 .ran = rp_alloc(context, plan->graph->node_count, sizeof *p.ran),
                 .write = write,
                 .user = user};
    bool going = p.ran != NULL;
    if (going) {
        put_head(&p);
        put_persistent(&p);
    }
    for (size_t i = 0; i < plan->schedule.count && going; i++) {
        put_step(&p, i);
        going = flush(&p, PIECE_BYTES);
    }
    going = going && flush(&p, 1);
    rp_status status = RP_OK;
    if (p.ran == NULL || p.text.failed)
        status = rp_fail_memory(context, "the text of a plan");
    else if (!going)
        status = rp_fail(context, RP_IO_ERROR, "plan: writing its text was stopped");
    rp_free(context, p.ran);
    rp_text_clear(&p.text);
    return status;
}
