/* Checkpointing of uniform chains (Griewank & Walther 2000, algorithm 799): with s snapshots, the
 * first state among them, backward through l states takes r l - C(s + r, r - 1) runs of a stage, r
 * the least with C(s + r, s) >= l, the l - 1 of the first sweep counted. No schedule takes fewer.
 *
 * A row of states is gone back through by way of a snapshot in it: first what lies behind that,
 * with one snapshot less, then what lies before, from its first state again. */
#include "chain.h"
#include "lists.h"

/* Effort: schedules tried x nodes. With more nodes than that some numbers of snapshots are left
 * out, the more the larger they are: there they make the least difference. */
enum { EFFORT = 400000, MIN_TRIED = 8 };

/* Nor are schedules tried in which stages run more than so many times the states, or together more
 * often than is left of what is granted to all of them: the time would be out of proportion. */
enum { MOST_REPEATS = 24, REPEATS_BASE = 65536, REPEATS_OF_ALL = 10000000 };

/* C(s + r, r), or as much as any length needs. */
static uint64_t reach(uint64_t s, int64_t r) {
    uint64_t product = 1;
    if (r < 0)
        return 0;
    for (uint64_t i = 1; i <= (uint64_t)r && product < RP_NONE; i++)
        product = product * (s + i) / i;
    return product;
}

/* How many states stand before the next snapshot of a row of `length`: 1 to length - 1. */
static uint32_t find_split(uint64_t length, uint64_t snapshots) {
    int64_t r = 1;
    if (snapshots == 1)
        return (uint32_t)length - 1;
    while (reach(snapshots, r) < length)
        r++;
    /* The least that leaves no more behind than r runs of every stage reach. */
    const uint64_t least = reach(snapshots, r - 2), behind = reach(snapshots - 1, r);
    const uint64_t split = length > behind && length - behind > least ? length - behind : least;
    return split > 0 ? (uint32_t)split : 1;
}

/* How often stages run in all, the first sweep counted: Griewank's formula. */
static uint64_t count_runs(uint64_t states, uint64_t snapshots) {
    int64_t r = 1;
    if (snapshots == 1)
        return states * (states - 1) / 2;
    while (reach(snapshots, r) < states)
        r++;
    return (uint64_t)r * states - reach(snapshots + 1, r - 1);
}

/* A row of states that backward goes through, the first of them held, and the stage of the graph in
 * which the sweep through it is made. */
typedef struct row {
    uint32_t first, last, snapshots, at;
} row;

/* The decisions for a number of snapshots. `rows` has room for every state. */
static rp_status sweep(const rp_chain *chain, const rp_expander *x, uint32_t snapshots, row *rows,
                       rp_drops *drops) {
    rp_status status = rp_drops_reset(x, drops);
    size_t count = 1;
    rows[0] = (row){0, chain->top, snapshots, x->graph->last_forward};
    while (count > 0 && status == RP_OK) {
        const row now = rows[--count];
        if (now.first == now.last || now.at == RP_NONE)
            continue;
        const uint32_t split = find_split(now.last - now.first + 1, now.snapshots);
        const uint32_t middle = now.first + split;
        status = rp_chain_advance(chain, x, now.first, middle, now.at, drops);
        rows[count++] = (row){now.first, middle - 1, now.snapshots, chain->demand[middle - 1]};
        rows[count++] = (row){middle, now.last, now.snapshots - 1, now.at};
    }
    return status;
}

rp_status rp_revolve_list(const rp_expander *expander, uint32_t argument, rp_drops *drops,
                          rp_sink sink) {
    (void)argument;
    const rp_graph *graph = expander->graph;
    rp_chain chain;
    rp_status status = rp_chain_create(graph, "revolve", false, RP_NONE, &chain);
    if (status != RP_OK)
        return status;
    const uint64_t states = (uint64_t)chain.top + 1, most = MOST_REPEATS * states + REPEATS_BASE;
    const size_t affordable = EFFORT / (graph->node_count + 1);
    const uint32_t tried = (uint32_t)(affordable < MIN_TRIED ? MIN_TRIED : affordable);
    uint64_t left = 4 * states + REPEATS_OF_ALL;
    row *rows = rp_alloc(graph->context, states, sizeof *rows);
    if (rows == NULL)
        status = rp_fail_memory(graph->context, "the rows of a chain");
    for (uint32_t s = 1; status == RP_OK && (s == 1 || s <= chain.top);
         s += 1 + (tried < chain.top ? s / (tried / 8 + 1) : 0)) {
        const uint64_t runs = count_runs(states, s);
        if (runs > most || runs > left)
            continue;
        left -= runs;
        status = sweep(&chain, expander, s, rows, drops);
        if (status == RP_OK)
            status = sink.take(sink.user, drops);
    }
    rp_free(graph->context, rows);
    rp_chain_clear(graph->context, &chain);
    return status;
}

rp_status rp_propose_revolve(const rp_graph *graph, uint32_t argument, rp_candidates *set) {
    return rp_propose_list(graph, rp_revolve_list, argument, set);
}
