/* Estimates of what one more drop or one more hold brings, from the survey of an expansion. */
#include "survey.h"
#include "wide.h"

#include <string.h>

/* An input that is this many times smaller than the dropped value is carried on, not run again. */
enum { SMALL_PART = 8 };

/* How many times the price of a move may grow before it is given up: what its replays save in turn
 * is known in the end only. */
enum { MOST_PRICES = 16 };

/* Of more hot runs than that the sum is only bounded. */
enum { MOST_SUMMED = 64 };

/* ---- Looking into the schedule -------------------------------------------------------------- */

/* The instance of the value that is the last to begin before run `at`, or RP_NONE. */
static uint32_t find_before(const rp_survey *s, uint32_t value, uint32_t at) {
    uint32_t i = s->newest[value];
    while (i != RP_NONE && s->x->instances[i].begin >= at)
        i = s->earlier[i];
    return i;
}

/* The first one to begin at run `at` or behind it, or RP_NONE. */
static uint32_t find_behind(const rp_survey *s, uint32_t value, uint32_t at) {
    uint32_t i = s->newest[value], found = RP_NONE;
    while (i != RP_NONE && s->x->instances[i].begin >= at) {
        found = i;
        i = s->earlier[i];
    }
    return found;
}

/* Whether no decision ends the value between the two stages. */
static bool is_free(const rp_survey *s, uint32_t value, uint32_t from, uint32_t to) {
    const rp_drops *drops = s->drops;
    for (uint32_t e = drops->head[value]; e != RP_NONE; e = drops->entries[e].next)
        if (drops->entries[e].stage >= from && drops->entries[e].stage < to)
            return false;
    return true;
}

static uint32_t stage_of(const rp_expander *x, uint32_t run) {
    return run < x->run_count ? x->run_stage[run] : (uint32_t)x->graph->node_count;
}

/* How many hot runs lie before `run`. */
static size_t count_hot(const rp_survey *s, uint32_t run) {
    size_t low = 0, high = s->hot_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (s->hot[middle] < run)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The hot runs strictly between two runs: what `bytes` less would take off the excess, or, with
 * `more`, what as many more would add. Where there are many of them it is a bound. */
static int64_t sum_hot(const rp_survey *s, uint32_t before, uint32_t after, int64_t bytes,
                       bool more) {
    const size_t begin = count_hot(s, before + 1), end = count_hot(s, after);
    int64_t all = 0, sum = 0;
    if (begin >= end)
        return 0;
    if (__builtin_mul_overflow(bytes, (int64_t)(end - begin), &all))
        all = INT64_MAX / 4;
    if (more)
        return all;
    if (end - begin > MOST_SUMMED) {
        const int64_t over = s->hot_over[end] - s->hot_over[begin];
        return over < all ? over : all;
    }
    for (size_t i = begin; i < end; i++) {
        const int64_t over = s->x->run_live[s->hot[i]] - s->level;
        sum += over < bytes ? over : bytes;
    }
    return sum;
}

static void begin_move(rp_survey *s, rp_move *move) {
    move->count = 0;
    move->cost = move->bytes = 0;
    move->matters = 0;
    s->mark++;
    s->list_count = 0;
}

static bool add_decision(const rp_survey *s, rp_move *move, uint32_t value, uint32_t stage) {
    if (!rp_reserve(s->x->graph->context, &move->drops, &move->capacity, move->count + 1,
                    sizeof *move->drops))
        return false;
    move->drops[move->count++] = (rp_drop){value, stage};
    return true;
}

/* Once for each node or run of a move. */
static bool enlist(rp_survey *s, uint32_t *marks, uint32_t item) {
    if (marks[item] == s->mark)
        return true;
    if (!rp_reserve(s->x->graph->context, &s->list, &s->list_capacity, s->list_count + 1,
                    sizeof *s->list))
        return false;
    marks[item] = s->mark;
    s->list[s->list_count++] = item;
    return true;
}

/* ---- Dropping ------------------------------------------------------------------------------- */

/* Where a replay takes place and what it may do. */
typedef struct replay {
    uint32_t run, stage; /* it runs just before this one, in this stage */
    uint32_t border;     /* the stage that the dropped values are not carried across */
    int kind;
    int64_t small; /* bytes of inputs that are rather carried on */
} replay;

/* The replay needs `value`: it is there, or is carried on, or is run again too. */
static bool need_value(rp_survey *s, const replay *r, uint32_t value, rp_move *move) {
    const rp_expander *x = s->x;
    const rp_instance *instance = &x->instances[find_before(s, value, r->run)];
    if (instance->last >= r->run) /* RP_NONE too: kept to the end */
        return true;
    const uint32_t last_stage = x->run_stage[instance->last];
    const bool carried = is_free(s, value, last_stage, r->stage);
    const bool may_drop = carried && !x->fixed[value] && instance->last < s->at &&
                          last_stage <= r->border && x->graph->values[value].bytes > r->small;
    const bool drops = may_drop && (r->kind & RP_DROP_CLOSURE);
    if (may_drop)
        move->matters |= RP_DROP_CLOSURE;
    if (carried && !drops) {
        move->bytes -= sum_hot(s, instance->last, r->run, x->graph->values[value].bytes, true);
        return true;
    }
    return (!drops || add_decision(s, move, value, r->border)) &&
           enlist(s, s->node_mark, x->graph->values[value].writer);
}

/* What the replay of node n makes besides: it is carried to its next use, whose own replay is then
 * saved, or it ends at once. */
static bool use_byproducts(rp_survey *s, const replay *r, uint32_t n, rp_move *move) {
    const rp_expander *x = s->x;
    for (uint32_t o = x->output_begin[n]; o < x->output_begin[n + 1]; o++) {
        const uint32_t value = x->outputs[o];
        const uint32_t now = find_before(s, value, r->run), next = find_behind(s, value, r->run);
        if (next == RP_NONE || x->instances[now].last >= r->run)
            continue;
        const uint32_t run = x->instances[next].begin, stage = x->run_stage[run];
        if (!is_free(s, value, r->stage, stage))
            continue;
        if (stage > r->stage)
            move->matters |= RP_DROP_TRANSIENT;
        if ((r->kind & RP_DROP_TRANSIENT) && stage > r->stage) {
            if (!add_decision(s, move, value, r->stage))
                return false;
            continue;
        }
        if (s->run_mark[run] != s->mark)
            move->cost -= x->graph->nodes[x->run_node[run]].cost_ns;
        s->run_mark[run] = s->mark;
        move->bytes -= sum_hot(s, r->run, run, x->graph->values[value].bytes, true);
    }
    return true;
}

/* All that must run again when `value` is gone at the replay. */
static bool replay_value(rp_survey *s, const replay *r, uint32_t value, rp_move *move) {
    const rp_expander *x = s->x;
    const size_t begin = s->list_count;
    if (!enlist(s, s->node_mark, x->graph->values[value].writer))
        return false;
    for (size_t i = begin; i < s->list_count && move->cost <= move->limit; i++) {
        const uint32_t n = s->list[i];
        move->cost += x->graph->nodes[n].cost_ns;
        for (uint32_t k = x->input_begin[n]; k < x->input_begin[n + 1]; k++)
            if (!need_value(s, r, x->inputs[k], move))
                return false;
    }
    for (size_t i = begin; i < s->list_count && move->cost <= move->limit; i++)
        if (!use_byproducts(s, r, s->list[i], move))
            return false;
    return true;
}

/* The stage that the value of a wait is not to be carried across; RP_NONE if there is none, because
 * its uses around the wait lie in one stage or it must stay. */
static uint32_t find_border(const rp_survey *s, const rp_wait *wait) {
    const rp_expander *x = s->x;
    const uint32_t here = x->run_stage[s->at], next = stage_of(x, wait->after);
    const uint32_t before = x->run_stage[wait->before];
    if (x->fixed[wait->value] || before == next)
        return RP_NONE;
    const uint32_t border = next > here ? here : here - 1;
    return before <= border && border < next ? border : RP_NONE;
}

/* The cost from which on a move that wins at most `bytes` is given up. */
static int64_t find_limit(const rp_price *most, int64_t bytes) {
    if (most == NULL)
        return INT64_MAX;
    const rp_wide limit = (rp_wide)most->cost * bytes / most->bytes * MOST_PRICES;
    return limit < INT64_MAX ? (int64_t)limit : INT64_MAX;
}

static rp_status drop_storage(rp_survey *s, size_t first, int kind, const rp_price *most,
                              rp_move *move, bool *fits) {
    const rp_expander *x = s->x;
    const uint32_t storage = rp_expander_storage(x, s->waits[first].instance);
    const int64_t bytes = rp_expander_bytes(x, storage);
    uint32_t before = 0, after = RP_NONE;
    move->limit =
        find_limit(most, sum_hot(s, s->waits[first].before, s->waits[first].after, bytes, false));
    for (size_t i = first; i < s->wait_count; i++) {
        const rp_wait *wait = &s->waits[i];
        if (rp_expander_storage(x, wait->instance) != storage)
            continue;
        const uint32_t border = find_border(s, wait);
        if (border == RP_NONE)
            return RP_OK;
        const replay r = {wait->after, stage_of(x, wait->after), border, kind, bytes / SMALL_PART};
        if (!add_decision(s, move, wait->value, border) || !replay_value(s, &r, wait->value, move))
            return rp_fail_memory(x->graph->context, "a move of the search");
        if (move->cost > move->limit) {
            move->matters = RP_DROP_KINDS - 1; /* nobody has looked */
            return RP_OK;
        }
        before = wait->before > before ? wait->before : before;
        after = wait->after < after ? wait->after : after;
        if (!x->has_views)
            break;
    }
    move->bytes += sum_hot(s, before, after, bytes, false);
    *fits = move->bytes > 0;
    return RP_OK;
}

rp_status rp_survey_drop(rp_survey *s, size_t wait, int kind, const rp_price *most, rp_move *move,
                         bool *fits) {
    const rp_expander *x = s->x;
    const uint32_t storage = rp_expander_storage(x, s->waits[wait].instance);
    *fits = false;
    begin_move(s, move);
    if (x->has_views && s->others[storage] > 0)
        return RP_OK;
    for (size_t i = 0; x->has_views && i < wait; i++)
        if (x->storage[s->waits[i].instance] == storage)
            return RP_OK; /* looked at with the first of them */
    return drop_storage(s, wait, kind, most, move, fits);
}

/* ---- Holding -------------------------------------------------------------------------------- */

/* The first made instance that begins at `run` or behind it. */
static uint32_t find_made(const rp_expander *x, uint32_t run) {
    size_t low = 0, high = x->made_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (x->instances[middle].begin < run)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

/* Whether only runs that are saved read the instance. */
static bool is_unused(const rp_survey *s, uint32_t instance) {
    if (s->x->instances[instance].last == RP_NONE)
        return false;
    for (uint32_t u = s->use_begin[instance]; u < s->use_begin[instance + 1]; u++)
        if (s->run_mark[s->uses[u]] != s->mark)
            return false;
    return true;
}

static bool is_rerun(const rp_expander *x, uint32_t run) {
    return x->run_node[run] != x->run_stage[run];
}

/* Whether nothing that the run makes is used by others than saved runs. */
static bool is_needless(const rp_survey *s, uint32_t run) {
    const rp_expander *x = s->x;
    for (uint32_t i = find_made(x, run); i < x->made_count && x->instances[i].begin == run; i++)
        if (!is_unused(s, i))
            return false;
    return true;
}

/* The bytes of an input that would no longer be live at the peak, the saved runs being gone. */
static int64_t find_relief(const rp_survey *s, uint32_t instance) {
    const rp_expander *x = s->x;
    const rp_instance *i = &x->instances[instance];
    if (i->begin >= x->peak_run || i->last <= x->peak_run || i->last == RP_NONE)
        return 0;
    for (uint32_t u = s->use_begin[instance]; u < s->use_begin[instance + 1]; u++)
        if (s->uses[u] >= x->peak_run && s->run_mark[s->uses[u]] != s->mark)
            return 0;
    return rp_expander_bytes(x, rp_expander_storage(x, instance));
}

/* The replays that served only the saved ones are saved too. */
static bool save_inputs(rp_survey *s, rp_move *move) {
    const rp_expander *x = s->x;
    for (size_t i = 0; i < s->list_count; i++) {
        const uint32_t run = s->list[i], n = x->run_node[run];
        move->cost += x->graph->nodes[n].cost_ns;
        for (uint32_t k = x->input_begin[n]; k < x->input_begin[n + 1]; k++) {
            const uint32_t instance = find_before(s, x->inputs[k], run);
            const uint32_t begin = x->instances[instance].begin;
            if (is_rerun(x, begin) && is_needless(s, begin)) {
                if (!enlist(s, s->run_mark, begin))
                    return false;
            } else {
                move->bytes -= find_relief(s, instance);
            }
        }
    }
    return true;
}

rp_status rp_survey_hold(rp_survey *s, uint32_t run, rp_move *move, bool *fits) {
    const rp_expander *x = s->x;
    rp_context *const context = x->graph->context;
    *fits = false;
    begin_move(s, move);
    for (uint32_t i = find_made(x, run); i < x->made_count && x->instances[i].begin == run; i++) {
        const uint32_t value = x->instances[i].value, before = s->earlier[i];
        if (x->instances[i].last == run)
            continue;
        const uint32_t from = x->run_stage[x->instances[before].last];
        for (uint32_t e = s->drops->head[value]; e != RP_NONE; e = s->drops->entries[e].next) {
            const uint32_t stage = s->drops->entries[e].stage;
            if (stage < from || stage >= x->run_stage[run])
                continue;
            if (!add_decision(s, move, value, stage))
                return rp_fail_memory(context, "a move of the search");
        }
        if (x->instances[before].last < x->peak_run && x->peak_run < run)
            move->bytes += rp_expander_bytes(x, rp_expander_storage(x, i));
    }
    if (!enlist(s, s->run_mark, run) || !save_inputs(s, move))
        return rp_fail_memory(context, "a move of the search");
    *fits = move->count > 0;
    return RP_OK;
}
