/* The uses of an expansion, indexed. */
#include "survey.h"

#include <string.h>

rp_status rp_survey_create(rp_expander *expander, rp_survey *survey) {
    const rp_graph *graph = expander->graph;
    rp_context *const context = graph->context;
    *survey = (rp_survey){
        .x = expander,
        .newest = rp_alloc(context, graph->value_count, sizeof *survey->newest),
        .waits = rp_alloc(context, graph->value_count, sizeof *survey->waits),
        .node_mark = rp_alloc(context, graph->node_count, sizeof *survey->node_mark),
    };
    if (survey->newest && survey->waits && survey->node_mark)
        return RP_OK;
    rp_survey_clear(survey);
    return rp_fail_memory(context, "the survey of a schedule");
}

void rp_survey_clear(rp_survey *survey) {
    if (survey->x == NULL)
        return;
    rp_context *const context = survey->x->graph->context;
    void *const blocks[] = {survey->use_begin, survey->uses,   survey->earlier,   survey->newest,
                            survey->hot,       survey->waits,  survey->node_mark, survey->list,
                            survey->run_mark,  survey->others, survey->hot_over};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++)
        rp_free(context, blocks[i]);
    *survey = (rp_survey){0};
}

void rp_move_clear(rp_context *context, rp_move *move) {
    rp_free(context, move->drops);
    *move = (rp_move){0};
}

static bool reserve(rp_survey *s) {
    const rp_expander *x = s->x;
    rp_context *const context = x->graph->context;
    size_t uses = 0;
    for (size_t run = 0; run < x->run_count; run++)
        uses += x->input_begin[x->run_node[run] + 1] - x->input_begin[x->run_node[run]];
    const size_t marks = s->run_mark_capacity;
    if (!rp_reserve(context, &s->use_begin, &s->begin_capacity, x->made_count + 2,
                    sizeof *s->use_begin) ||
        !rp_reserve(context, &s->uses, &s->use_capacity, uses, sizeof *s->uses) ||
        !rp_reserve(context, &s->earlier, &s->earlier_capacity, x->made_count,
                    sizeof *s->earlier) ||
        !rp_reserve(context, &s->hot, &s->hot_capacity, x->run_count, sizeof *s->hot) ||
        !rp_reserve(context, &s->hot_over, &s->over_capacity, x->run_count + 1,
                    sizeof *s->hot_over) ||
        !rp_reserve(context, &s->run_mark, &s->run_mark_capacity, x->run_count,
                    sizeof *s->run_mark))
        return false;
    if (s->run_mark_capacity > marks)
        memset(s->run_mark + marks, 0, (s->run_mark_capacity - marks) * sizeof *s->run_mark);
    return true;
}

/* Goes over the schedule and says for each run and input which instance it reads. The first round
 * counts, the second one files. */
static void index_uses(rp_survey *s, bool file) {
    const rp_expander *x = s->x;
    uint32_t made = 0;
    for (uint32_t run = 0; run < x->run_count; run++) {
        const uint32_t n = x->run_node[run];
        for (uint32_t i = x->input_begin[n]; i < x->input_begin[n + 1]; i++) {
            const uint32_t instance = s->newest[x->inputs[i]];
            if (file)
                s->uses[s->use_begin[instance + 1]++] = run;
            else
                s->use_begin[instance + 2]++;
        }
        for (; made < x->made_count && x->instances[made].begin == run; made++) {
            const uint32_t value = x->instances[made].value;
            if (!file)
                s->earlier[made] = s->newest[value];
            s->newest[value] = made;
        }
    }
}

static void forget_newest(rp_survey *s) {
    memset(s->newest, 0xFF, s->x->graph->value_count * sizeof *s->newest);
}

rp_status rp_survey_read(rp_survey *s, const rp_drops *drops, int64_t level) {
    const rp_expander *x = s->x;
    if (!reserve(s))
        return rp_fail_memory(x->graph->context, "the survey of a schedule");
    s->drops = drops;
    s->level = level;
    memset(s->use_begin, 0, (x->made_count + 2) * sizeof *s->use_begin);
    forget_newest(s);
    index_uses(s, false);
    for (size_t i = 2; i < x->made_count + 2; i++)
        s->use_begin[i] += s->use_begin[i - 1];
    forget_newest(s);
    index_uses(s, true);
    s->hot_count = 0;
    s->hot_over[0] = 0;
    for (uint32_t run = 0; run < x->run_count; run++) {
        if (x->run_live[run] <= level)
            continue;
        s->hot[s->hot_count++] = run;
        if (__builtin_add_overflow(s->hot_over[s->hot_count - 1], x->run_live[run] - level,
                                   &s->hot_over[s->hot_count]))
            s->hot_over[s->hot_count] = INT64_MAX;
    }
    return RP_OK;
}

/* Counts, for each storage that is live at `at`, the values on it, and takes off those that
 * wait. */
static void count_others(rp_survey *s) {
    const rp_expander *x = s->x;
    for (size_t i = 0; i < x->made_count; i++)
        s->others[x->storage[i]] = 0;
    for (size_t i = 0; i < x->made_count && x->instances[i].begin <= s->at; i++)
        if (x->instances[i].last >= s->at)
            s->others[x->storage[i]]++;
    for (size_t i = 0; i < s->wait_count; i++)
        s->others[x->storage[s->waits[i].instance]]--;
}

rp_status rp_survey_list_waits(rp_survey *s, uint32_t at) {
    rp_expander *x = s->x;
    s->at = at;
    s->wait_count = rp_expander_list_waits(x, at, s->waits);
    if (!x->has_views)
        return RP_OK;
    if (!rp_reserve(x->graph->context, &s->others, &s->other_capacity, x->instance_count,
                    sizeof *s->others))
        return rp_fail_memory(x->graph->context, "the survey of a schedule");
    count_others(s);
    return RP_OK;
}
