/* The verifier against a second reading of the rules (naive.h): schedules of all strategies and at
 * random, each a step away from what was valid. */
#include "expand.h"
#include "graphs.h"
#include "naive.h"
#include "steps.h"
#include "strategy.h"
#include "verify.h"

#include <stdio.h>
#include <string.h>

/* ---- Random steps in random schedules -------------------------------------------------------- */

typedef struct mutation {
    rp_test_random random;
    rp_schedule schedule;
    const rp_graph *graph;
} mutation;

static uint32_t below(mutation *m, size_t limit) {
    return rp_test_random_below(&m->random, (uint32_t)limit);
}

static rp_step random_step(mutation *m) {
    const uint32_t kind = below(m, 5);
    const size_t limit =
        kind == RP_STEP_RUN ? rp_graph_node_count(m->graph) : rp_graph_value_count(m->graph);
    return (rp_step){kind, below(m, limit + 1)};
}

static void insert(mutation *m, size_t at, rp_step step) {
    rp_schedule *s = &m->schedule;
    RP_REQUIRE(rp_schedule_append(m->graph->context, s, RP_STEP_RUN, 0), "no memory");
    memmove(s->steps + at + 1, s->steps + at, (s->count - 1 - at) * sizeof *s->steps);
    s->steps[at] = step;
}

static void erase(mutation *m, size_t at) {
    rp_schedule *s = &m->schedule;
    memmove(s->steps + at, s->steps + at + 1, (s->count - 1 - at) * sizeof *s->steps);
    s->count--;
}

/* A round trip to the host: of a random value, at random moments. */
static void insert_offload(mutation *m) {
    const uint32_t value = below(m, rp_graph_value_count(m->graph));
    size_t at = below(m, m->schedule.count + 1);
    static const rp_step_kind trip[] = {RP_STEP_OFFLOAD, RP_STEP_WAIT, RP_STEP_FETCH, RP_STEP_WAIT};
    for (size_t i = 0; i < 4; i++) {
        insert(m, at, (rp_step){trip[i], value});
        at += 1 + (below(m, 2) == 0 ? below(m, m->schedule.count - at) : 0);
        at = at < m->schedule.count ? at : m->schedule.count;
    }
}

static void mutate(mutation *m) {
    rp_schedule *s = &m->schedule;
    const uint32_t kind = s->count > 1 ? below(m, 8) : 5;
    const size_t at = s->count > 0 ? below(m, s->count) : 0;
    const size_t other = s->count > 0 ? below(m, s->count) : 0;
    const size_t next = at + 1 < s->count ? at + 1 : at;
    const rp_step step = s->count > 0 ? s->steps[at] : (rp_step){0, 0};
    switch (kind) {
    case 0: /* left out */
        erase(m, at);
        break;
    case 1: /* doubled, elsewhere */
        insert(m, other, step);
        break;
    case 2: /* two steps change places */
        s->steps[at] = s->steps[other];
        s->steps[other] = step;
        break;
    case 3:
        s->steps[at] = s->steps[next];
        s->steps[next] = step;
        break;
    case 4: /* moved */
        erase(m, at);
        insert(m, other < s->count ? other : s->count, step);
        break;
    case 5:
        insert(m, at, random_step(m));
        break;
    case 6:
        s->steps[at] = random_step(m);
        break;
    default:
        insert_offload(m);
    }
}

typedef struct tally {
    int valid, invalid;
} tally;

static void compare(const mutation *m, tally *seen) {
    char text[300];
    rp_verdict verdict;
    const rp_schedule *s = &m->schedule;
    const rp_status status = rp_verify_schedule(m->graph, s->steps, s->count, &verdict);
    const rp_naive naive = rp_naive_check(m->graph, s->steps, s->count);
    rp_test_steps_text(s->steps, s->count, text, sizeof text);
    RP_CHECK(status == RP_OK || status == RP_BAD_INPUT, "%s", rp_status_name(status));
    RP_CHECK(naive.valid == (status == RP_OK), "%s, naive %s: %s",
             status == RP_OK ? "valid" : rp_context_message(m->graph->context),
             naive.valid ? "valid" : "not", text);
    seen->valid += status == RP_OK;
    seen->invalid += status != RP_OK;
    if (status != RP_OK || !naive.valid)
        return;
    RP_CHECK(verdict.live_peak_bytes == naive.live_peak_bytes, "peak %lld, naive %lld: %s",
             (long long)verdict.live_peak_bytes, (long long)naive.live_peak_bytes, text);
    RP_CHECK_EQUAL(verdict.recompute_cost_ns, naive.recompute_cost_ns);
    RP_CHECK_EQUAL(verdict.recompute_nodes, naive.recompute_nodes);
}

/* A valid schedule with replays: random values are dropped at random stages. */
static bool random_schedule(mutation *m) {
    rp_expander expander;
    rp_drops drops = {.unused = RP_NONE};
    bool within = false;
    if (rp_expander_create(m->graph, &expander) != RP_OK)
        return false; /* a mark that cannot be honoured */
    rp_status status = rp_drops_create(&expander, &drops);
    const uint32_t count = below(m, 12);
    for (uint32_t i = 0; i < count && status == RP_OK; i++) {
        const uint32_t value = below(m, rp_graph_value_count(m->graph));
        const uint32_t stage = below(m, rp_graph_node_count(m->graph));
        status = rp_drops_add(&expander, &drops, value, stage);
    }
    if (status == RP_OK)
        status = rp_expander_run(&expander, &drops, RP_NO_LIMITS, &within);
    if (status == RP_OK && within)
        status = rp_expander_build(&expander, &m->schedule);
    RP_CHECK_EQUAL(status, RP_OK);
    rp_drops_clear(m->graph->context, &drops);
    rp_expander_clear(&expander);
    return status == RP_OK && within;
}

static void test_mutations_agree_with_the_naive_checker(void) {
    rp_context *context = rp_test_context(1);
    const uint64_t graphs = rp_test_samples(1000, 20000);
    tally seen = {0, 0};
    for (uint64_t seed = 1; seed <= graphs; seed++) {
        rp_graph *graph = rp_test_random_graph(
            context, seed, 3 + (uint32_t)(seed % 14),
            seed % 4 == 0 ? RP_TEST_EVERYTHING : RP_TEST_EVERYTHING & ~RP_TEST_RECOMPUTE);
        mutation m = {{seed}, {NULL, 0, 0}, graph};
        for (int round = 0; round < 12; round++) {
            m.schedule.count = 0;
            if (!random_schedule(&m))
                break;
            compare(&m, &seen);
            for (int k = 0; k < 3; k++) {
                mutate(&m);
                compare(&m, &seen);
            }
        }
        rp_schedule_clear(context, &m.schedule);
        rp_graph_destroy(graph);
    }
    RP_CHECK(seen.valid > (int)graphs && seen.invalid > (int)graphs, "%d valid, %d not", seen.valid,
             seen.invalid);
    rp_context_destroy(context);
}

/* A schedule without slack: whatever single step is missing, it is wrong or keeps more. */
static void test_every_step_of_a_tight_schedule_matters(void) {
    rp_context *context = rp_test_context(1);
    rp_graph *graph = rp_test_chain(context, 6, 1, NULL, 1);
    mutation m = {{1}, {NULL, 0, 0}, graph};
    RP_REQUIRE_OK(context, rp_keep_all_schedule(graph, &m.schedule));
    rp_verdict whole, part;
    RP_REQUIRE_OK(context, rp_verify_schedule(graph, m.schedule.steps, m.schedule.count, &whole));
    for (size_t i = 0; i < m.schedule.count; i++) {
        const rp_step step = m.schedule.steps[i];
        erase(&m, i);
        const rp_status status =
            rp_verify_schedule(graph, m.schedule.steps, m.schedule.count, &part);
        if (step.kind == RP_STEP_RUN)
            RP_CHECK(status == RP_BAD_INPUT, "without step %zu", i);
        else
            RP_CHECK(status == RP_OK && part.live_peak_bytes >= whole.live_peak_bytes,
                     "without step %zu", i);
        insert(&m, i, step);
        insert(&m, i, step);
        if (step.kind == RP_STEP_DROP)
            RP_CHECK_STATUS(context,
                            rp_verify_schedule(graph, m.schedule.steps, m.schedule.count, &part),
                            RP_BAD_INPUT);
        erase(&m, i);
    }
    rp_schedule_clear(context, &m.schedule);
    rp_graph_destroy(graph);
    rp_context_destroy(context);
}

/* ---- One step away from a plan --------------------------------------------------------------- */

enum { LEFT_OUT, INSERTED, SWAPPED, OTHER_INDEX, DOUBLED, KINDS };
static const char *const kind_names[] = {"left out", "inserted", "swapped", "other index",
                                         "doubled"};

/* A step of one of the two kinds that plans are made of, mostly with an index that exists. */
static rp_step plain_step(mutation *m) {
    const uint32_t kind = below(m, 10) == 0 ? below(m, 5) : below(m, 2);
    const size_t limit =
        kind == RP_STEP_RUN ? rp_graph_node_count(m->graph) : rp_graph_value_count(m->graph);
    return (rp_step){kind, below(m, limit + (below(m, 20) == 0))};
}

static void mutate_once(mutation *m, int kind) {
    rp_schedule *s = &m->schedule;
    const size_t at = below(m, s->count), other = below(m, s->count);
    const rp_step step = s->steps[at];
    switch (kind) {
    case LEFT_OUT:
        erase(m, at);
        break;
    case INSERTED:
        insert(m, below(m, s->count + 1), plain_step(m));
        break;
    case SWAPPED:
        s->steps[at] = s->steps[other];
        s->steps[other] = step;
        break;
    case OTHER_INDEX:
        s->steps[at].index = below(m, step.kind == RP_STEP_RUN ? rp_graph_node_count(m->graph)
                                                               : rp_graph_value_count(m->graph));
        break;
    default:
        insert(m, other, step);
    }
}

static void copy_steps(mutation *m, const rp_step *steps, size_t count) {
    m->schedule.count = 0;
    for (size_t i = 0; i < count; i++)
        RP_REQUIRE(rp_schedule_append(m->graph->context, &m->schedule, (rp_step_kind)steps[i].kind,
                                      steps[i].index),
                   "no memory");
}

/* The public way in says what the verifier says. */
static void check_import(const mutation *m, bool valid) {
    rp_plan *plan = NULL;
    const rp_status status =
        rp_plan_import(m->graph, m->schedule.steps, m->schedule.count, RP_UNLIMITED, &plan, NULL);
    RP_CHECK(status == (valid ? RP_OK : RP_BAD_INPUT), "import: %s", rp_status_name(status));
    RP_CHECK(valid == (plan != NULL), "a plan is made if and only if the steps are valid");
    rp_plan_destroy(plan);
}

/* `rounds` mutations of each kind of one plan. */
static void mutate_plan(mutation *m, const rp_plan *plan, int rounds, tally seen[KINDS]) {
    size_t count = 0;
    const rp_step *steps = rp_plan_steps(plan, &count);
    for (int kind = 0; kind < KINDS && count > 0; kind++)
        for (int round = 0; round < rounds; round++) {
            const int before = seen[kind].valid;
            copy_steps(m, steps, count);
            mutate_once(m, kind);
            compare(m, &seen[kind]);
            check_import(m, seen[kind].valid > before);
        }
}

/* The plans of every strategy at its largest budget, at half-way, and at its smallest. */
static void mutate_plans(mutation *m, int rounds, tally seen[KINDS]) {
    static const char *const numbers[] = {":1", ":2", ":3"};
    for (size_t i = 0; rp_strategies[i].name != NULL; i++)
        for (size_t n = 0; n < (rp_strategies[i].takes_argument ? 3 : 1); n++) {
            char name[64];
            rp_plan_report report = {.strategy_min_bytes = 0};
            rp_plan_options options = {sizeof options, RP_UNLIMITED, name};
            snprintf(name, sizeof name, "%s%s", rp_strategies[i].name,
                     rp_strategies[i].takes_argument ? numbers[n] : "");
            for (int half = 0; half < 3; half++) {
                rp_plan *plan = NULL;
                if (rp_plan_create(m->graph, &options, &plan, &report) != RP_OK)
                    break; /* it does not apply, or marks leave no plan */
                mutate_plan(m, plan, rounds, seen);
                rp_plan_destroy(plan);
                options.budget_bytes =
                    half == 0 ? report.strategy_min_bytes +
                                    (report.keep_all_peak_bytes - report.strategy_min_bytes) / 2
                              : report.strategy_min_bytes;
            }
        }
}

static rp_graph *mutated_graph(rp_context *context, uint64_t seed) {
    switch (seed % 16) {
    case 0:
        return rp_test_chain(context, 3 + (uint32_t)(seed / 16) % 8, 1, NULL, 1);
    case 1:
        return rp_test_unet(context, 2 + (uint32_t)(seed / 16) % 3);
    case 2:
        return rp_test_transformer(context, 1, seed / 16 % 2 == 0);
    default:
        return rp_test_random_graph(context, seed, 4 + (uint32_t)(seed % 13),
                                    seed % 4 == 0 ? RP_TEST_EVERYTHING
                                                  : RP_TEST_EVERYTHING & ~RP_TEST_RECOMPUTE);
    }
}

static void test_single_mutations_of_plans_of_all_strategies(void) {
    rp_context *context = rp_test_context(1);
    const int wanted = (int)rp_test_samples(10000, 200000);
    tally seen[KINDS] = {{0, 0}};
    int total = 0;
    for (uint64_t seed = 0; total < wanted; seed++) {
        rp_graph *graph = mutated_graph(context, seed);
        mutation m = {{seed}, {NULL, 0, 0}, graph};
        mutate_plans(&m, 2, seen);
        rp_schedule_clear(context, &m.schedule);
        rp_graph_destroy(graph);
        total = 0;
        for (int kind = 0; kind < KINDS; kind++)
            total += seen[kind].valid + seen[kind].invalid;
    }
    for (int kind = 0; kind < KINDS; kind++)
        RP_CHECK(seen[kind].valid > wanted / 250 && seen[kind].invalid > wanted / 25,
                 "%s: %d valid, %d not", kind_names[kind], seen[kind].valid, seen[kind].invalid);
    rp_context_destroy(context);
}

static const rp_test tests[] = {
    RP_TEST(test_mutations_agree_with_the_naive_checker),
    RP_TEST(test_single_mutations_of_plans_of_all_strategies),
    RP_TEST(test_every_step_of_a_tight_schedule_matters),
};
RP_SUITE(mutations, tests)
