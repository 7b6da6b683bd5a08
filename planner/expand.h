/* From decisions to a schedule and its exact live peak: the primitive of every strategy.
 *
 * A schedule is made of stages: stage t ends with the first run of node t, and before that it runs
 * again, just before their readers, the writers of what is missing; stage node_count holds what
 * must be live at the end. Decisions are drops: (v, t) says that value v is not carried from stage
 * t to stage t + 1; it then ends with its last use before, and the next use runs its writer again,
 * whose missing inputs are run again in the same way. A value that was run again is carried on to
 * its next uses wherever no drop forbids it, and everything ends with its last use. So any set of
 * drops gives a valid schedule, and none gives keep-all. */
#ifndef REPRISE_PLANNER_EXPAND_H
#define REPRISE_PLANNER_EXPAND_H

#include "graph.h"
#include "schedule.h"

/* One decision. */
typedef struct rp_drop {
    uint32_t value, stage;
} rp_drop;

/* A set of decisions: for each value a list of stages. */
typedef struct rp_drops {
    uint32_t *head; /* of each value: its first entry, or RP_NONE */
    struct rp_drop_entry {
        uint32_t stage, next;
    } * entries;
    size_t count, capacity; /* entries ever taken; those of removed decisions are reused */
    uint32_t unused;        /* list of them */
    size_t size;            /* decisions */
    uint32_t plain;         /* stages before this one run nothing again; there may be more */
} rp_drops;

/* What an expansion did. Runs are counted over the whole schedule, first runs included. */
typedef struct rp_instance {
    uint32_t value;
    uint32_t begin, last; /* runs: the one that materialises it, and its last use (RP_NONE: kept) */
    uint32_t next;        /* another one that ends with the same run */
} rp_instance;

/* Where a value was used last, and its instance. */
typedef struct rp_use {
    uint32_t run, stage, instance;
} rp_use;

/* What the first pass knows when `stage` begins and nothing has run again yet: expansions whose
 * first replay comes later go on from there. */
typedef struct rp_prefix {
    uint32_t stage;
    size_t instances, meetings;
    rp_use *uses; /* of each value */
} rp_prefix;

enum { RP_PREFIXES = 8 };

/* An output of a replay that is carried and so is not made again: if it turns out that nobody uses
 * it any more, it begins and ends with the run all the same. */
typedef struct rp_spared {
    uint32_t run, value, instance; /* the instance that is carried */
} rp_spared;

/* A run in which an output may take an input's place. */
typedef struct rp_meeting {
    uint32_t run, pair;
    uint32_t input, output; /* instances */
    bool applies;
} rp_meeting;

typedef struct rp_expander {
    const rp_graph *graph;

    /* the graph, activations only */
    /* node_count + 2 entries: the last list is what must stay. Behind the inputs of a node stands
     * what is held from its stage on */
    uint32_t *input_begin, *inputs;
    uint32_t *output_begin, *outputs; /* values with a storage of their own first */
    bool *fixed;                      /* values that never may be dropped before their last use */
    uint32_t *hold; /* the same from this stage on: the writer runs again before, never behind */
    bool has_views;
    rp_drop *forced; /* what marks ask for */
    size_t forced_count;
    uint32_t *writer;               /* of each value */
    int64_t *size;                  /* of each value: bytes */
    int64_t *node_cost, *workspace; /* of each node */
    uint32_t *pair_begin;           /* of each node, one more at the end: its in-place pairs, */
    struct rp_inplace_pair *pairs;  /* as far as they can ever apply; none where there are views */

    /* the expansion */
    uint32_t *run_node, *run_stage; /* of each run */
    uint32_t *run_end; /* of each run: the first instance that ends with it; once it is linked */
    int64_t *run_live; /* of each run: the bytes that are live while it runs */
    size_t run_count, run_capacity, stage_capacity, end_capacity, live_capacity;
    rp_instance *instances; /* by `begin`; behind made_count those that end with the run itself */
    size_t instance_count, instance_capacity, made_count;
    int64_t peak, cost;
    int64_t excess; /* bytes above `level` of the limits, summed over all runs */
    uint32_t peak_run;

    bool is_linked;

    /* while it is made */
    rp_use *use; /* of each value */
    uint32_t *stack, *cursor;
    rp_spared *spared;
    rp_meeting *meetings;
    size_t spared_count, spared_capacity, meeting_count, meeting_capacity;
    rp_prefix prefixes[RP_PREFIXES]; /* ascending stages */
    size_t prefix_count;
    uint32_t intact; /* so many runs stand in the lists that are first runs, and nothing else */

    /* where there are views: elsewhere every instance is its own storage */
    uint32_t *at;                        /* of each value: its live instance; also scratch */
    uint32_t *storage, *live_on, *taken; /* of each instance: its storage; of that: values, run */
    int64_t *bytes;                      /* of each storage */
    size_t storage_capacity;
} rp_expander;

/* RP_INFEASIBLE: a mark cannot be honoured whatever is decided; the message names it. */
rp_status rp_expander_create(const rp_graph *graph, rp_expander *expander);
void rp_expander_clear(rp_expander *expander);

/* The first node that is marked recompute although keep-all would carry an output of it from
 * forward to backward; RP_NONE if there is none. */
uint32_t rp_graph_find_kept_mark(const rp_graph *graph);

rp_status rp_drops_create(const rp_expander *expander, rp_drops *drops);
void rp_drops_clear(rp_context *context, rp_drops *drops);
/* Only what marks ask for. */
rp_status rp_drops_reset(const rp_expander *expander, rp_drops *drops);
rp_status rp_drops_copy(const rp_expander *expander, const rp_drops *from, rp_drops *to);
/* Nothing happens where the value is fixed or held or the decision is there already. */
rp_status rp_drops_add(const rp_expander *expander, rp_drops *drops, uint32_t value,
                       uint32_t stage);
/* False if it was not there, or a mark asks for it. */
bool rp_drops_remove(const rp_expander *expander, rp_drops *drops, uint32_t value, uint32_t stage);
bool rp_drops_contain(const rp_drops *drops, uint32_t value, uint32_t stage);

/* Limits of an expansion: beyond them it stops at once. */
typedef struct rp_limits {
    int64_t peak, cost; /* the most that is allowed */
    int64_t level;      /* where the excess begins */
} rp_limits;

#define RP_NO_LIMITS ((rp_limits){INT64_MAX, INT64_MAX, INT64_MAX})

/* `*within`: whether the schedule keeps to the limits and a length that grows with the graph only;
 * if not, what the expander says about it is incomplete. */
rp_status rp_expander_run(rp_expander *expander, const rp_drops *drops, rp_limits limits,
                          bool *within);

/* The schedule of the last expansion. */
rp_status rp_expander_build(rp_expander *expander, rp_schedule *schedule);

/* The storage of an instance, named by the first instance on it, and its bytes. */
static inline uint32_t rp_expander_storage(const rp_expander *x, uint32_t instance) {
    return x->has_views ? x->storage[instance] : instance;
}

static inline int64_t rp_expander_bytes(const rp_expander *x, uint32_t storage) {
    return x->has_views ? x->bytes[storage] : x->size[x->instances[storage].value];
}

/* A value that is live at some run and waits: used before it and behind it, but not by it. */
typedef struct rp_wait {
    uint32_t instance, value;
    uint32_t before, after; /* runs: the uses around it; `after` is run_count for what is kept */
} rp_wait;

/* Who waits at `run` of the last expansion, ascending by instance. The list has room for
 * value_count entries. */
size_t rp_expander_list_waits(rp_expander *expander, uint32_t run, rp_wait *waits);

#endif
