/* One row a file test_<name>.c of this folder. Included by main.c, more than once. */
RP_SUITE_ROW(detectors)
RP_SUITE_ROW(engine)
RP_SUITE_ROW(runtime)
