/* One row a file test_<name>.c of this folder. Included by main.c, more than once. */
RP_SUITE_ROW(data)
RP_SUITE_ROW(headers)
RP_SUITE_ROW(options)
RP_SUITE_ROW(output)
RP_SUITE_ROW(plan_graph)
RP_SUITE_ROW(safetensors)
RP_SUITE_ROW(size)
RP_SUITE_ROW(train_gpt)
