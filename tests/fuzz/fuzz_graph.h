/* The fuzz target for graphs and plans, and what drives it without libFuzzer. */
#ifndef REPRISE_TESTS_FUZZ_GRAPH_H
#define REPRISE_TESTS_FUZZ_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ends the program if anything is not as it must be. Whether the bytes begin with a graph. */
bool rp_fuzz_graph(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#endif
