/* A context, and the checks of unit.h that come down to rp_check_true, whatever that does with one
 * that fails: unit.c tells CUnit, alone.c ends the program. */
#include "unit.h"

#include <math.h>
#include <string.h>

rp_context *rp_test_context(int threads) {
    rp_context_options options = RP_CONTEXT_OPTIONS;
    options.threads = threads;
    rp_context *context = NULL;
    RP_REQUIRE_OK(NULL, rp_context_create(&options, &context));
    return context;
}

bool rp_check_status(rp_place place, const rp_context *context, const char *text, rp_status got,
                     rp_status wanted) {
    return rp_check_true(place, got == wanted, "%s: got %s, wanted %s; message: \"%s\"", text,
                         rp_status_name(got), rp_status_name(wanted), rp_context_message(context));
}

bool rp_check_equal(rp_place place, const char *text, int64_t got, int64_t wanted) {
    return rp_check_true(place, got == wanted, "%s: got %lld, wanted %lld", text, (long long)got,
                         (long long)wanted);
}

bool rp_check_near(rp_place place, const char *text, double got, double wanted, double relative) {
    return rp_check_true(place, fabs(got - wanted) <= relative * fabs(wanted),
                         "%s: got %.17g, wanted %.17g within %g of it", text, got, wanted,
                         relative);
}

bool rp_check_string(rp_place place, const char *text, const char *got, const char *wanted) {
    return rp_check_true(place, got != NULL && strcmp(got, wanted) == 0,
                         "%s: got \"%s\", wanted \"%s\"", text, got ? got : "(null)", wanted);
}

bool rp_check_message(rp_place place, const rp_context *context, const char *part) {
    const char *message = rp_context_message(context);
    return rp_check_true(place, strstr(message, part) != NULL,
                         "the message \"%s\" does not say \"%s\"", message, part);
}
