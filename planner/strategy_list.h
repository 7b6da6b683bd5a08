/* One row a strategy: X(name, function, whether it takes a number, description). The order is the
 * order of help texts; ties between plans of equal cost and peak go to the earlier row. */
#ifndef REPRISE_PLANNER_STRATEGY_LIST_H
#define REPRISE_PLANNER_STRATEGY_LIST_H

#define RP_STRATEGY_LIST(X)                                                                        \
    X("keep-all", rp_propose_keep_all, false, "nothing is recomputed")                             \
    X("uniform", rp_propose_uniform, true, "every N blocks keep their input only (Megatron)")      \
    X("block", rp_propose_block, true, "the first N blocks keep their input only (Megatron)")      \
    X("sqrt", rp_propose_sqrt, false, "segments balanced by bytes and cost (Chen et al. 2016)")    \
    X("sqrt-recursive", rp_propose_sqrt_recursive, false, "the same on two and more levels")       \
    X("revolve", rp_propose_revolve, false,                                                        \
      "binomial checkpointing of chains (Griewank, Walther)")                                      \
    X("chain-dp", rp_propose_chain_dp, false, "the best persistent schedules of a chain (rotor)")  \
    X("selective", rp_propose_selective, false, "cheapest recompute per byte first (Korthikanti)") \
    X("exact", rp_propose_exact, false, "all schedules of a small graph, with proof")              \
    X("optimal", rp_propose_auto, false, "a search op by op from all of these, with a bound")      \
    X("auto", rp_propose_auto, false, "the cheapest that seconds can find: optimal")

#endif
