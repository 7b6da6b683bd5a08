/* One row a file test_<name>.c of this folder. Included by main.c, more than once. */
RP_SUITE_ROW(attention)
RP_SUITE_ROW(elementwise)
RP_SUITE_ROW(products)
RP_SUITE_ROW(random)
RP_SUITE_ROW(rows)
