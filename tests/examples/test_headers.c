/* The public headers as a program outside sees them. */
#include <reprise/reprise.h>

#include "unit.h"

static void test_option_initialisers_state_their_own_size(void) {
    const rp_context_options context = RP_CONTEXT_OPTIONS;
    const rp_plan_options plan = RP_PLAN_OPTIONS;
    const rp_program_options program = RP_PROGRAM_OPTIONS;
    const rp_executor_options executor = RP_EXECUTOR_OPTIONS;
    const rp_adamw_options adamw = RP_ADAMW_OPTIONS;
    RP_CHECK_EQUAL(context.struct_size, sizeof context);
    RP_CHECK_EQUAL(plan.struct_size, sizeof plan);
    RP_CHECK_EQUAL(program.struct_size, sizeof program);
    RP_CHECK_EQUAL(executor.struct_size, sizeof executor);
    RP_CHECK_EQUAL(adamw.struct_size, sizeof adamw);
}

static const rp_test tests[] = {
    RP_TEST(test_option_initialisers_state_their_own_size),
};
RP_SUITE(headers, tests)
