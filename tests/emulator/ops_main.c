/* The op cases of tests/ops on the kernels of CUDA: on the emulator's library, or on the one that
 * REPRISE_CUDA_LIBRARY names. */
#include <stdio.h>

#include "library.h"
#include "ops/ops_device.h"
#include "unit.h"

/* The suites of tests/ops that run kernels. */
#define SUITES(X)                                                                                  \
    X(attention)                                                                                   \
    X(dropout)                                                                                     \
    X(elementwise)                                                                                 \
    X(math)                                                                                        \
    X(products)                                                                                    \
    X(rows)                                                                                        \
    X(shape)                                                                                       \
    X(sums)                                                                                        \
    X(update)

#define DECLARE(name) extern const rp_suite rp_suite_##name;
SUITES(DECLARE)
#undef DECLARE

static const rp_suite *const suites[] = {
#define ROW(name) &rp_suite_##name,
    SUITES(ROW)
#undef ROW
};

int main(int argc, char **argv) {
    const rp_backend *backend = NULL;
    rp_context *context = NULL;
    rp_queue *queue = NULL;
    library_use();
    rp_status status = rp_context_create(NULL, &context);
    if (status == RP_OK)
        status = rp_backend_find(context, RP_BACKEND_CUDA, &backend);
    if (status == RP_OK)
        status = rp_backend_open(backend, context, NULL, &queue);
    if (status != RP_OK) {
        fprintf(stderr, "%s: %s\n", argv[0], context ? rp_context_message(context) : "no context");
        return 1;
    }
    ops_device_use(backend, queue);
    const int result = rp_unit_main(argc, argv, suites, sizeof suites / sizeof suites[0]);
    rp_backend_close(backend, queue);
    rp_context_destroy(context);
    return result;
}
