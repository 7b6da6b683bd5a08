/* One row a file test_<name>.c of this folder. Included by main.c, more than once. */
RP_SUITE_ROW(candidates)
RP_SUITE_ROW(expand)
RP_SUITE_ROW(strategies)
RP_SUITE_ROW(strategy_list)
RP_SUITE_ROW(fault)
RP_SUITE_ROW(malformed)
RP_SUITE_ROW(malformed_plan)
RP_SUITE_ROW(fault_plan)
