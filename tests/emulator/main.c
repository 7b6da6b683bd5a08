/* Runs the suites of tests/emulator, listed in suite_list.h: the emulator itself. */
#include "unit.h"

#define RP_SUITE_ROW(name) extern const rp_suite rp_suite_##name;
#include "suite_list.h"
#undef RP_SUITE_ROW

static const rp_suite *const suites[] = {
#define RP_SUITE_ROW(name) &rp_suite_##name,
#include "suite_list.h"
#undef RP_SUITE_ROW
};

int main(int argc, char **argv) {
    return rp_unit_main(argc, argv, suites, sizeof suites / sizeof suites[0]);
}
